"""Real pycuda on the fake driver: what it does is in the run as the program did it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.cuda.conftest import ROOT, Traced

MS = 1_000_000


@pytest.fixture
def pycuda() -> Path:
    """The folder of pycuda."""
    environment = Path(sys.executable).parents[1]
    command = [ROOT / "tools/get_pycuda", "--print", environment]
    done = subprocess.run(command, text=True, capture_output=True, check=True)
    folder = Path(done.stdout.strip())
    if not folder.exists():
        pytest.skip("no pycuda: tools/setup --test builds one by tools/get_pycuda")
    return folder


def test_what_pycuda_does_is_in_the_run(traced: Callable[..., Traced], pycuda: Path) -> None:
    run = traced(sys.executable, ROOT / "tests/programs/cuda/pycuda_work.py", env={"PYTHONPATH": str(pycuda)})
    # A pool keeps what is given back to it; the error is the program's to see.
    assert (run.status, run.stdout) == (0, "0 1 True\ntoo much\n"), run.stdout + run.stderr
    assert run.sql(
        "SELECT bytes, kind, source, target FROM activities WHERE kind IN ('HtoD', 'DtoH', 'DtoD', 'fill') ORDER BY bytes"
    ) == [
        (1001, "HtoD", "pageable", "device"),
        (1002, "HtoD", "pinned", "device"),
        (1003, "DtoH", "device", "mapped"),
        (1004, "HtoD", "pinned", "device"),
        (1005, "DtoH", "device", "pageable"),
        (1006, "DtoD", "device", "managed"),
        (1007, "fill", None, None),
        (1010, "HtoD", "pinned", "device"),
    ]
    kernels = run.sql(
        """
        SELECT a.name, count(*), count(DISTINCT queue), any_value(d.name), any_value((gx, gy, lx)::VARCHAR), min(end_ns - start_ns)
        FROM activities a JOIN devices d USING (device) WHERE kind = 'kernel' GROUP BY a.name ORDER BY a.name"""
    )
    assert [row[:5] for row in kernels] == [
        ("empty", 20, 1, "Fake GPU 1", "(128, 2, 64)"),
        ("tick", 5, 1, "Fake GPU 1", "(128, 1, 32)"),
    ]
    assert kernels[1][5] >= MS
    assert run.sql("SELECT count(DISTINCT queue) FROM activities WHERE kind = 'kernel'") == [(2,)]
    # The pool asked the driver once for ten blocks.
    assert run.sql(
        "SELECT kind, count(*) FROM allocations WHERE api = 'cuda' AND bytes >= 65536 GROUP BY kind ORDER BY kind"
    ) == [("device", 1), ("host", 1), ("managed", 1), ("mapped", 1)]
    assert run.sql(
        "SELECT kind, count(*) FROM allocations WHERE api = 'cuda' AND bytes BETWEEN 5000 AND 9999 GROUP BY kind"
    ) == [("device", 1)]
    # pycuda collects garbage and tries once more.
    assert run.sql("SELECT function, error FROM failures") == [("cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY")] * 2
