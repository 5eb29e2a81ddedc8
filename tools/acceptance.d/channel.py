"""The mesh of a square channel of 8 × 8 quadrilaterals, as gmsh writes it, and the flow through it for PyFR: two files."""

from pathlib import Path

SIDE = 8
FLOW = """
[backend]
precision = double
[constants]
gamma = 1.4
mu = 0.01
Pr = 0.72
[solver]
system = navier-stokes
order = 2
[solver-time-integrator]
scheme = rk4
controller = none
tstart = 0.0
tend = 0.02
dt = 0.0002
[solver-interfaces]
riemann-solver = rusanov
ldg-beta = 0.5
ldg-tau = 0.1
[solver-interfaces-line]
flux-pts = gauss-legendre
[solver-elements-quad]
soln-pts = gauss-legendre
[soln-plugin-nancheck]
nsteps = 50
[soln-bcs-wall]
type = no-slp-adia-wall
[soln-ics]
rho = 1.0
u = 0.1*sin(3.14159265*y)
v = 0.0
p = 1.0
"""

points = [(x / SIDE, y / SIDE) for y in range(SIDE + 1) for x in range(SIDE + 1)]


def at(x: int, y: int) -> int:
    return y * (SIDE + 1) + x + 1


# Kind (1: line, 3: quadrilateral), physical group, corners.
elements = [(3, 1, (at(x, y), at(x + 1, y), at(x + 1, y + 1), at(x, y + 1))) for y in range(SIDE) for x in range(SIDE)]
for i in range(SIDE):
    elements += [(1, 2, (at(i, y), at(i + 1, y))) for y in (0, SIDE)]
    elements += [(1, group, (at(x, i), at(x, i + 1))) for group, x in ((3, 0), (4, SIDE))]
groups = ((2, 1, "fluid"), (1, 2, "wall"), (1, 3, "periodic_0_l"), (1, 4, "periodic_0_r"))
lines = ["$MeshFormat", "2.2 0 8", "$EndMeshFormat", "$PhysicalNames", str(len(groups))]
lines += [f'{dimension} {number} "{name}"' for dimension, number, name in groups]
lines += ["$EndPhysicalNames", "$Nodes", str(len(points))]
lines += [f"{number} {x} {y} 0" for number, (x, y) in enumerate(points, 1)]
lines += ["$EndNodes", "$Elements", str(len(elements))]
lines += [
    f"{number} {kind} 2 {group} {group} {' '.join(map(str, corners))}"
    for number, (kind, group, corners) in enumerate(elements, 1)
]
lines += ["$EndElements"]
Path("channel.msh").write_text("\n".join(lines) + "\n", encoding="ascii")
Path("channel.ini").write_text(FLOW, encoding="ascii")
