"""The MPIs of the tests: Debian's Open MPI 4 and MPICH 4, and from PyPI Open MPI 5, MPICH 4 and 5 and the MPI ABI."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import occatrace
from occatrace.api import Run
from tests.support.runs import OCCA_PROF, ROOT, execute

PROGRAMS = ROOT / "tests" / "programs" / "mpi"


def _cache() -> Path:
    """Where tools/setup puts what it fetches."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("OCCATRACE_CACHE") or Path(base) / "occatrace") / "mpi"


@dataclass(frozen=True)
class Mpi:
    """One MPI: its compilers, and how it starts ranks."""

    name: str
    cc: str
    run: tuple[str, ...]
    partitioned: bool  # MPI 4 or later
    fortran: str = ""
    library: str = ""  # for mpi4py
    large_counts: bool = False

    @property
    def there(self) -> bool:
        return shutil.which(self.cc) is not None and shutil.which(self.run[0]) is not None

    @property
    def is_open_mpi(self) -> bool:
        return self.name.startswith("Open MPI")


_OPEN_MPI = ("--allow-run-as-root", "--oversubscribe")
_C = _cache()
MPIS = (
    Mpi("Open MPI 4", "mpicc.openmpi", ("mpirun.openmpi", *_OPEN_MPI), False, "mpifort.openmpi", "libmpi.so.40"),
    Mpi("MPICH 4.0", "mpicc.mpich", ("mpirun.mpich",), True, "mpifort.mpich", "libmpich.so.12", True),
    Mpi(
        "Open MPI 5",
        f"{_C}/openmpi-5.0.11/bin/mpicc",
        (f"{_C}/openmpi-5.0.11/bin/mpirun", *_OPEN_MPI, "--mca", "osc", "^ucx"),
        True,
        library=f"{_C}/openmpi-5.0.11/lib/libmpi.so.40",
    ),
    Mpi(
        "MPICH 4.3",
        f"{_C}/mpich-4.3.2/bin/mpicc",
        (f"{_C}/mpich-4.3.2/bin/mpirun",),
        True,
        library=f"{_C}/mpich-4.3.2/lib/libmpi.so.12",
        large_counts=True,
    ),
    Mpi(
        "MPICH 5",
        f"{_C}/mpich-5.0.2/bin/mpicc",
        (f"{_C}/mpich-5.0.2/bin/mpirun",),
        True,
        library=f"{_C}/mpich-5.0.2/lib/libmpi.so.12",
        large_counts=True,
    ),
    Mpi("MPI ABI", f"{_C}/mpich-5.0.2/bin/mpicc_abi", (f"{_C}/mpich-5.0.2/bin/mpirun",), True),
)


def _of(mpi: Mpi) -> Mpi:
    if not mpi.there:
        pytest.skip(f"{mpi.name} is not there (tools/setup --test)")
    return mpi


@pytest.fixture(scope="session", params=MPIS, ids=lambda mpi: mpi.name)
def mpi(request: pytest.FixtureRequest) -> Mpi:
    """Each of them."""
    return _of(request.param)


@pytest.fixture(scope="session", params=MPIS[:2], ids=lambda mpi: mpi.name)
def debian_mpi(request: pytest.FixtureRequest) -> Mpi:
    """Those with Fortran."""
    return _of(request.param)


Build = Callable[[Mpi, str], Path]


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """A program of tests/programs/mpi, compiled by an MPI's compiler."""
    folder = tmp_path_factory.mktemp("mpi")

    def compiled(mpi: Mpi, source: str) -> Path:
        program = folder / f"{source}-{mpi.name.replace(' ', '-')}"
        if not program.exists():
            compiler = mpi.fortran if source.endswith(".f90") else mpi.cc
            command = [compiler, "-w", "-O1", "-o", str(program), str(PROGRAMS / source)]
            if source == "threads.c":
                command.append("-pthread")
            if source == "svm.c":
                command.append("-lOpenCL")
            if source.endswith(".f90"):
                command += ["-fallow-argument-mismatch", "-J", str(folder)]
            subprocess.run(command, check=True, cwd=folder)
        return program

    return compiled


@dataclass(frozen=True)
class Traced:
    """A program that was traced on some ranks."""

    status: int
    stdout: str
    stderr: str
    run: Run

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        result: list[tuple[Any, ...]] = self.run.sql(sql).fetchall()
        return result

    def calls(self) -> dict[str, int]:
        """Number of calls by function."""
        sql = "SELECT function, sum(calls)::BIGINT FROM call_stats WHERE api = 'mpi' GROUP BY 1"
        return {name: calls for name, calls in self.rows(sql)}  # noqa: C416


Trace = Callable[..., Traced]


@pytest.fixture
def trace(tmp_path: Path) -> Iterator[Trace]:
    """Runs a command on the ranks of an MPI under occa_prof."""
    opened: list[Run] = []

    def run(
        mpi: Mpi, ranks: int, *command: object, options: tuple[str, ...] = (), env: dict[str, str] | None = None
    ) -> Traced:
        folder = tmp_path / f"run{len(opened)}"
        words = [*OCCA_PROF, "-o", folder, *options, *mpi.run, "-n", ranks, *command]
        done = execute(words, **(env or {}))
        assert folder.is_dir(), done.stderr
        opened.append(occatrace.open(folder))
        return Traced(done.returncode, done.stdout, done.stderr, opened[-1])

    yield run
    for each in opened:
        each.close()
