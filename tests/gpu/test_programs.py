"""Programs of people on a real CUDA device: nvcc's default (a static runtime), CuPy, PyTorch; skipped where one cannot run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu.programs import build_static, program
from tests.support import runs
from tests.support.suites.cuda import compiler

# Of a packed set of tests: the machine's own Python, with its packages.
PYTHON = os.environ.get("PYTHON", sys.executable)


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with a static runtime."""
    found = program("static", lambda output: build_static(compiler(), output), tmp_path_factory.mktemp("gpu"))
    if subprocess.run([found], capture_output=True, check=False).returncode != 0:
        pytest.skip("no CUDA device here, or none that this compiler's code runs on")
    return found


@pytest.mark.parametrize("how", ["cupti", "events"])
def test_a_program_with_a_static_runtime(static: Path, tmp_path: Path, how: str) -> None:
    run = runs.profiled(runs.Run, tmp_path / "run", [str(static)], "--device-time", how)
    assert (run.status, run.stdout) == (0, "2 2 2 0\n"), run.stderr
    assert run.sql(
        "SELECT name, count(*), min(gx), min(gy), min(lx) FROM activities"
        " WHERE kind = 'kernel' AND name != 'graph' GROUP BY name ORDER BY name"
    ) == [("_Z5scaleIfEvT_PS0_", 1, 16 * 32, 1, 32), ("spin_for", 3, 4 * 64, 2, 64)]
    # In the stream that the program made: three kernels one after another, and the graph that it launched.
    rows = run.sql(
        "SELECT start_ns, end_ns, queue FROM activities WHERE name IN ('spin_for', 'graph') ORDER BY start_ns"
    )
    assert len(rows) == 4 and len({row[2] for row in rows}) == 1
    # Each takes time, and was launched in main, not in the runtime or in a stub of the compiler's.
    assert all(end > start for start, end, _ in rows)
    assert run.sql(
        "SELECT DISTINCT s.function FROM call_places p JOIN call_sites s ON s.process = p.process AND s.site = p.site"
        " JOIN calls c ON c.thread = p.thread AND c.seq = p.seq WHERE c.function LIKE 'cuLaunchKernel%'"
    ) == [("main",)]
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
    if shutil.which(PYTHON) is None:
        pytest.skip("no Python of the machine's own")
    source = tmp_path / "product.py"
    source.write_text(PRODUCT.format(module=module, device=device))
    alone = subprocess.run([PYTHON, source], capture_output=True, text=True, check=False)
    if alone.returncode != 0:
        pytest.skip(f"{module} cannot run here: {(alone.stderr.splitlines() or ['no message'])[-1]}")
    run = runs.profiled(runs.Run, tmp_path / "run", [PYTHON, str(source)])
    assert (run.status, run.stdout) == (0, "512\n"), run.stderr
    # Each product is a kernel at least, and takes time.
    ((count, shortest),) = run.sql("SELECT count(*), min(end_ns - start_ns) FROM activities WHERE kind = 'kernel'")
    assert count >= 100 and shortest > 0
    # The number that is printed comes back from the device.
    assert run.sql("SELECT count(*) > 0 FROM activities WHERE kind = 'DtoH'") == [(True,)]
    assert run.sql("SELECT count(*) FROM losses") == [(0,)]


TRAINING = """
import time
import torch
model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data, labels = torch.randn(256, 512, device="cuda"), torch.randint(10, (256,), device="cuda")
def steps(count):
    begin = time.perf_counter()
    for _ in range(count):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(data), labels).backward()
        optimizer.step()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / count
steps(20)
print(round(min(steps(100) for _ in range(3)) * 1e6, 1))
"""


def test_what_a_training_step_costs(tmp_path: Path) -> None:
    """Told, not judged: `-s` shows it."""
    if shutil.which(PYTHON) is None:
        pytest.skip("no Python of the machine's own")
    source = tmp_path / "training.py"
    source.write_text(TRAINING)
    alone = subprocess.run([PYTHON, source], capture_output=True, text=True, check=False)
    if alone.returncode != 0:
        pytest.skip(f"torch cannot run here: {(alone.stderr.splitlines() or ['no message'])[-1]}")
    run = runs.profiled(runs.Run, tmp_path / "run", [PYTHON, str(source)])
    print(f"\nµs per training step: {alone.stdout.strip()} untraced, {run.stdout.strip()} traced")
    assert run.status == 0, run.stderr
    # Two layers forwards and backwards, and what is learnt: some kernels in each of the 320 steps.
    ((kernels,),) = run.sql("SELECT count(*) FROM activities WHERE kind = 'kernel'")
    assert kernels >= 4 * 320
