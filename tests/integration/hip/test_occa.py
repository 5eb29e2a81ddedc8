"""OCCA in HIP mode on the fake runtime: the kernels that people wrote, memory, copies. OCCA 1.0.8 has sources of that mode
which do not compile: another OCCA is asked for."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.runs import ROOT
from tests.support.suites.hip import Run

KERNELS = ROOT / "tests/programs/occa"


@pytest.fixture(scope="session")
def occa() -> Path:
    """The folder of an OCCA with HIP mode."""
    folder = Path(os.environ.get("OCCATRACE_TEST_OCCA_DIR", "/nowhere"))
    library = folder / "lib/libocca.so"
    if not library.exists() or b"libamdhip64" not in library.read_bytes():
        pytest.skip("OCCATRACE_TEST_OCCA_DIR names no OCCA with HIP mode; that of 1.0.8 does not compile")
    return folder


def test_kernels_memory_and_copies(traced: Run, occa: Path, runtime: Path, tmp_path: Path) -> None:
    program = tmp_path / "occa_mode"
    command = [
        "g++",
        "-std=c++17",
        "-w",
        f"-I{occa}/include",
        str(ROOT / "tests/programs/hip/occa_mode.cpp"),
        "-o",
        str(program),
    ]
    command += [f"-L{occa}/lib", "-locca", f"-Wl,-rpath,{occa}/lib", f"-Wl,-rpath-link,{runtime}"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    run = traced(
        program,
        KERNELS,
        env={
            "OCCA_DIR": str(occa),
            "OCCA_CACHE_DIR": str(tmp_path / "cache"),
            "OCCA_HIP_COMPILER": str(ROOT / "tests/fakes/hip/hipcc"),
        },
    )
    assert run.status == 0, run.stdout + run.stderr
    # Each call makes two launches, of 2 ms each; all are in the stream that was current when it was made.
    assert run.sql(
        """
        SELECT k.name, k.mode, k.line > 0, count(*), count(DISTINCT a.run_seq), count(DISTINCT a.name),
               min(a.end_ns - a.start_ns) >= 2000000
        FROM activities a JOIN kernels k USING (kernel) WHERE a.kind = 'kernel' GROUP BY ALL"""
    ) == [("scaleTwice", "HIP", True, 10, 5, 2, True)]
    assert run.sql("SELECT count(*) FROM activities WHERE kind = 'kernel' GROUP BY queue ORDER BY 1") == [(4,), (6,)]
    assert run.sql("SELECT DISTINCT d.name FROM devices d JOIN activities USING (device)") == [("Fake GPU 1",)]
    # OCCA's memory, and HIP's under it.
    assert run.sql(
        """
        SELECT o.kind, o.bytes, c.function FROM allocations o JOIN allocations c ON c.scope_seq = o.seq
        WHERE o.api = 'occa' AND c.api = 'hip' ORDER BY o.start_ns"""
    ) == [("device", 4000, "hipMalloc"), ("device", 6000, "hipMalloc")]
    moved = [("HtoD", 4000), ("DtoH", 100), ("DtoD", 200)]
    assert run.sql("SELECT kind, bytes FROM occa_copies ORDER BY start_ns") == moved
    assert run.sql("SELECT kind, bytes FROM activities WHERE kind != 'kernel' ORDER BY start_ns") == moved
