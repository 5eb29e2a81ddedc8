"""512 charged particles: a minimization and 100 steps."""

import openmm

SIDE = 8
system, forces, places = openmm.System(), openmm.NonbondedForce(), []
forces.setNonbondedMethod(openmm.NonbondedForce.PME)
forces.setCutoffDistance(0.9)
for x in range(SIDE):
    for y in range(SIDE):
        for z in range(SIDE):
            system.addParticle(39.9)
            forces.addParticle(0.5 if (x + y + z) % 2 else -0.5, 0.34, 0.98)
            places.append(openmm.Vec3(x, y, z) * 0.4)
system.addForce(forces)
side = SIDE * 0.4
system.setDefaultPeriodicBoxVectors((side, 0, 0), (0, side, 0), (0, 0, side))
integrator = openmm.LangevinMiddleIntegrator(300, 1, 0.001)
integrator.setRandomNumberSeed(3)
context = openmm.Context(system, integrator, openmm.Platform.getPlatformByName("OpenCL"))
context.setPositions(places)
openmm.LocalEnergyMinimizer.minimize(context, 10, 20)
integrator.step(100)
print("bound" if context.getState(getEnergy=True).getPotentialEnergy()._value < 0 else "not bound")
