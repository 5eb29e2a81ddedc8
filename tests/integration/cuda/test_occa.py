"""OCCA in CUDA mode on the fake driver: the kernels that people wrote, memory of every kind, what OCCA moves by itself."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.suites.cuda import ROOT, Traced, headers

Run = Callable[..., Traced]
KERNELS = ROOT / "tests/programs/occa"


@pytest.fixture(scope="session")
def occa_dir() -> Path:
    """An OCCA 1.0.8, with its sources."""
    folder = Path(os.environ.get("OCCA_DIR", ""))
    if not (folder / "src/mode/cuda/device.cpp").exists():
        pytest.skip("OCCA_DIR names no OCCA 1.0.8 with its sources: tools/get_occa builds one")
    return folder


@pytest.fixture(scope="session")
def mode(driver: Path, occa_dir: Path) -> Path:
    """The folder of OCCA's CUDA mode, built beside an OCCA that has none: its own build would take minutes."""
    folder = driver / "occa"
    folder.mkdir()
    options = ["-shared", "-fPIC", f"-I{occa_dir}/src", f"-I{headers()}", f"-L{driver}", "-lcuda"]
    with_occa(occa_dir, ROOT / "tests/programs/cuda/occa_mode.cpp", folder / "libocca_cuda.so", options)
    return folder


def with_occa(occa: Path, source: Path, output: Path, options: list[str]) -> Path:
    """The source as a program or library that uses OCCA."""
    command = ["g++", "-std=c++11", "-w", f"-I{occa}/include", str(source), "-o", str(output), *options]
    command += [f"-L{occa}/lib", "-locca", f"-Wl,-rpath,{occa}/lib"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return output


@pytest.fixture
def ran(traced: Run, driver: Path, occa_dir: Path, mode: Path, tmp_path: Path) -> Callable[..., Traced]:
    """Builds a program in CUDA mode and runs it under occa_prof."""

    def run(source: Path, *words: object) -> Traced:
        options = [f'-DKERNEL_FOLDER="{KERNELS}"', "-Wl,--no-as-needed", f"-L{mode}", "-locca_cuda"]
        options += [f"-Wl,-rpath,{mode}", f"-Wl,-rpath-link,{driver}"]
        program = mode / source.stem
        if not program.exists():
            with_occa(occa_dir, source, program, options)
        done = traced(
            program,
            *words,
            env={
                "OCCA_CACHE_DIR": str(tmp_path / "cache"),
                "OCCA_CUDA_COMPILER": str(ROOT / "tests/fakes/cuda/nvcc"),
            },
        )
        assert done.status == 0, done.stdout + done.stderr
        return done

    return run


def test_kernels_memory_and_what_occa_moves(ran: Callable[..., Traced]) -> None:
    run = ran(ROOT / "tests/programs/cuda/occa_kinds.cpp", KERNELS)
    # Each call makes two launches, of 2 ms each; all are in the stream that was current when it was made.
    assert run.sql(
        """
        SELECT k.name, k.mode, k.line > 0, count(*), count(DISTINCT a.run_seq), count(DISTINCT a.name),
               min(a.end_ns - a.start_ns) >= 2000000
        FROM activities a JOIN kernels k USING (kernel) WHERE a.kind = 'kernel' GROUP BY ALL"""
    ) == [("scaleTwice", "CUDA", True, 12, 6, 2, True)]
    assert run.sql("SELECT count(*) FROM activities WHERE kind = 'kernel' GROUP BY queue ORDER BY 1") == [(6,), (6,)]
    assert run.sql("SELECT DISTINCT d.name FROM devices d JOIN activities USING (device)") == [("Fake GPU 1",)]
    assert run.sql("SELECT mode, launches, count(*) FROM kernel_runs JOIN kernels USING (kernel) GROUP BY ALL") == [
        ("CUDA", 2, 6)
    ]
    # OCCA's memory, and that of the driver's under it, of the same kind.
    assert run.sql(
        """
        SELECT o.kind, c.kind, o.bytes, c.function, c.end_ns IS NOT NULL FROM allocations o JOIN allocations c ON c.scope_seq = o.seq
        WHERE o.api = 'occa' AND c.api = 'cuda' ORDER BY o.start_ns"""
    ) == [
        ("device", "device", 4000, "cuMemAlloc", True),
        ("host", "host", 5000, "cuMemAllocHost", True),
        ("managed", "managed", 6000, "cuMemAllocManaged", True),
        ("managed", "device", 3000, "cuMemAlloc", True),
    ]
    # The last two are OCCA's own: before the kernel that is given the memory, and at the end.
    assert run.sql("SELECT kind, bytes, mode FROM occa_copies ORDER BY start_ns") == [
        ("HtoD", 4000, "CUDA"),
        ("DtoH", 100, "CUDA"),
        ("DtoD", 200, "CUDA"),
        ("HtoD", 3000, "CUDA"),
        ("DtoH", 3000, "CUDA"),
    ]
    assert run.sql("SELECT kind, bytes FROM activities WHERE kind != 'kernel' ORDER BY start_ns") == [
        ("HtoD", 4000),
        ("DtoH", 100),
        ("DtoD", 200),
        ("HtoD", 3000),
        ("DtoH", 3000),
    ]
    # The one before the kernel belongs to its call.
    assert run.sql(
        "SELECT kind, bytes FROM activities a JOIN kernel_runs r ON r.thread = a.thread AND r.seq = a.run_seq WHERE kind != 'kernel'"
    ) == [("HtoD", 3000)]
