"""Real pycuda on the fake driver: what it does is in the run as the program did it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import occatrace
from tests.support.suites.cuda import ROOT, Traced

MS = 1_000_000


@pytest.fixture
def pycuda() -> Path:
    """The folder of pycuda."""
    environment = Path(sys.executable).parents[1]
    command: list[str | Path] = [ROOT / "tools/get_pycuda", "--print", environment]
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


def test_pools_of_pycuda(traced: Callable[..., Traced], pycuda: Path) -> None:
    program = ROOT / "tests/programs/cuda/pycuda_pools.py"
    line = {
        text.rpartition("# line: ")[2]: n
        for n, text in enumerate(program.read_text().splitlines(), 1)
        if "# line: " in text
    }
    run = traced(sys.executable, program, options=("--python", "lines"), env={"PYTHONPATH": str(pycuda)})
    assert run.status == 0, run.stderr
    said = json.loads(run.stdout)
    with occatrace.open(run.folder) as opened:
        pools = {row["name"]: dict(row) for row in opened.report("python_pool_sum")}
        memory = {
            (row["kind"], int(row["source"].rpartition(":")[2])): dict(row) for row in opened.report("python_mem_sum")
        }
    device, host = pools["1 pycuda.DeviceMemoryPool"], pools["2 pycuda.PageLockedMemoryPool"]
    assert device["source"] == host["source"] == f"{program}:{line['pools']}"
    assert (device["allocations"], device["frees"]) == (7, 6) and device["asked_bytes"] == 5 * 5000 + 6000 + 7000
    assert device["held_high_bytes"] == said[4][0] and device["held_bytes"] == said[5][0]
    assert device["used_bytes"] == said[5][1] == 6000
    (fresh,) = run.sql("SELECT count(*) FROM pool_blocks WHERE pool = 1 AND NOT reused")[0]
    assert fresh == run.sql("SELECT count(*) FROM allocations WHERE api = 'cuda' AND kind = 'device'")[0][0]
    # A view keeps the array's block: one after the other, and one block for all.
    assert [row[3] for row in said[1:4]] == [1, 1, 1]
    assert (host["allocations"], host["frees"], host["asked_bytes"]) == (3, 3, 12000)
    assert round(host["reused_percent"], 3) == round(200 / 3, 3)
    assert (
        memory["pool block", line["block"]]["allocations"] == 5
        and memory["pool block", line["pinned"]]["left_over"] == 0
    )
    assert memory["pool block", line["kept"]]["in_use_bytes"] == 6000
    assert memory["device", line["block"]]["allocations"] == 1


def test_builds_of_pycuda(traced: Callable[..., Traced], pycuda: Path, tmp_path: Path) -> None:
    nvcc = tmp_path / "nvcc"
    nvcc.write_text(
        "#!/bin/sh\n"
        'for word do case $word in --version) echo "release 13.0"; exit ;; *.cu) source=$word ;; esac; done\n'
        'grep -q tick "$source" || { echo "no kernel" >&2; exit 1; }\n'
        'echo "kernel tick 1000" > "${source%.cu}.cubin"\n'
    )
    nvcc.chmod(0o755)
    program, cache = ROOT / "tests/programs/cuda/pycuda_builds.py", tmp_path / "cache"
    cache.mkdir()
    environment = {"PYTHONPATH": str(pycuda)}
    for built, cached in ((1, 2), (0, 3)):
        run = traced(sys.executable, program, nvcc, cache, options=("--python", "pools"), env=environment)
        assert (run.status, run.stdout) == (0, "wrong\n"), run.stderr
        with occatrace.open(run.folder) as opened:
            rows = {row["name"]: dict(row) for row in opened.report("python_build_sum")}
        assert set(rows) == {"tick", ""} and rows[""]["failed"] == 1
        counts = {name: rows["tick"][name] for name in ("calls", "built", "cached", "uncached", "failed", "library")}
        assert counts == {
            "calls": 4,
            "built": built,
            "cached": cached,
            "uncached": 1,
            "failed": 0,
            "library": "pycuda",
        }
        # The driver loads what the compiler or the cache gave, four times.
        assert run.sql("SELECT sum(calls)::INT FROM call_stats WHERE function LIKE 'cuModuleLoadData%'") == [(4,)]
