"""Programs of people on a real CUDA device: nvcc's default (a static runtime), CuPy, PyTorch; skipped where one cannot run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.cuda.conftest import ROOT, in_toolkit, nvcc
from tests.support import runs

__all__ = ["nvcc"]


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory, nvcc: str) -> Path:
    """A program as nvcc makes it unless told otherwise: kernels, copies, a stream, a graph, a failure."""
    program = tmp_path_factory.mktemp("gpu") / "kernels"
    source = ROOT / "tests/programs/cuda/kernels.cu"
    command = [nvcc, "-cudart", "static", "-cudadevrt", "none", str(source), "-o", str(program)]
    if library := in_toolkit("lib/libcudart_static.a"):
        command.append(f"-L{library.parent}")
    subprocess.run(command, check=True, capture_output=True, text=True)
    if subprocess.run([program], capture_output=True, check=False).returncode != 0:
        pytest.skip("no CUDA device here, or none that this compiler's code runs on")
    return program


def test_a_program_with_a_static_runtime(static: Path, tmp_path: Path) -> None:
    run = runs.profiled(runs.Run, tmp_path / "run", [str(static)])
    assert (run.status, run.stdout) == (0, "2 2 2 0\n"), run.stderr
    assert run.sql(
        "SELECT name, count(*), min(gx), min(gy), min(lx) FROM activities"
        " WHERE kind = 'kernel' AND name != 'graph' GROUP BY name ORDER BY name"
    ) == [("_Z5scaleIfEvT_PS0_", 1, 16, 1, 32), ("spin_for", 3, 4, 2, 64)]
    # In the stream that the program made: three kernels one after another, and the graph that it launched.
    rows = run.sql(
        "SELECT start_ns, end_ns, queue FROM activities WHERE name IN ('spin_for', 'graph') ORDER BY start_ns"
    )
    assert len(rows) == 4 and len({row[2] for row in rows}) == 1
    assert all(b[0] >= a[1] for a, b in zip(rows, rows[1:], strict=False))
    assert run.sql("SELECT sum(bytes)::INT FROM activities WHERE kind LIKE '%to%'") == [(1000 + 2000 + 3000,)]
    assert run.sql("SELECT count(*) FROM losses") == [(0,)]


PRODUCT = """
import {module} as library
a = library.ones((512, 512){device})
for _ in range(100):
    b = a @ a
print(int(b[0, 0]))
"""


@pytest.mark.parametrize(("module", "device"), [("cupy", ""), ("torch", ", device='cuda'")])
def test_products_of_matrices_in_python(module: str, device: str, tmp_path: Path) -> None:
    pytest.importorskip(module)
    program = tmp_path / "product.py"
    program.write_text(PRODUCT.format(module=module, device=device))
    if subprocess.run([sys.executable, program], capture_output=True, check=False).returncode != 0:
        pytest.skip(f"{module} finds no CUDA device here")
    run = runs.profiled(runs.Run, tmp_path / "run", [sys.executable, str(program)])
    assert (run.status, run.stdout) == (0, "512\n"), run.stderr
    # Each product is a kernel at least, and takes time.
    ((count, shortest),) = run.sql("SELECT count(*), min(end_ns - start_ns) FROM activities WHERE kind = 'kernel'")
    assert count >= 100 and shortest > 0
    # The number that is printed comes back from the device.
    assert run.sql("SELECT count(*) > 0 FROM activities WHERE kind = 'DtoH'") == [(True,)]
    assert run.sql("SELECT count(*) FROM losses") == [(0,)]
