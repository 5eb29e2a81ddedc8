"""Real MPI jobs: Debian's Open MPI and MPICH, as root and as an ordinary user, without USER and HOME."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.support.suites.session import OCCA_PROF, PROGRAMS, Person, environment, people, person, root, user, wait_for

__all__ = ["people", "person", "root", "user"]

MPIS = ("openmpi", "mpich")


@dataclass
class Job:
    """How jobs are started here, and what they leave."""

    mpi: str
    program: Path
    folder: Path
    person: Person
    env: dict[str, str] = field(default_factory=dict)

    def words(self, ranks: int, *command: object) -> list[str]:
        options = []
        if self.mpi == "openmpi":
            options = ["--oversubscribe"] + (["--allow-run-as-root"] if "root" in self.person.name else [])
        return [f"mpirun.{self.mpi}", *options, "-n", str(ranks), *map(str, command)]

    def environment(self, **more: str) -> Mapping[str, str]:
        kept = {k: v for k, v in environment().items() if k not in ("USER", "LOGNAME")}
        if "root" not in self.person.name:
            kept["HOME"] = str(self.folder)  # Open MPI's launcher crashes without HOME where the user has no entry
        # Open MPI tells what it thinks of a busy machine once a rank; its memory pools are of no use here.
        return kept | {"OMPI_MCA_btl_vader_single_copy_mechanism": "none"} | self.env | more

    def run(self, ranks: int, *command: object, timeout: float = 60, **env: str) -> subprocess.CompletedProcess[str]:
        words = self.words(ranks, *command)
        return self.person.run(words, env=self.environment(**env), cwd=self.folder, timeout=timeout)

    def occa_prof(self, ranks: int, *command: object, **env: str) -> subprocess.CompletedProcess[str]:
        return self.run(ranks, *OCCA_PROF, "-o", self.folder / "run", *command, timeout=60, **env)

    @property
    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = json.loads((self.folder / "run" / "run.json").read_text())
        return facts

    def query(self, sql: str, run: str = "run") -> list[tuple[Any, ...]]:
        tables = self.folder / run / "tables"
        return duckdb.execute(sql.replace("processes", f"read_parquet('{tables}/processes.parquet')")).fetchall()

    def nothing_left(self, within: float = 60) -> None:
        """Neither processes nor folders of ours; the run is all there is."""
        wait_for(lambda: not left_of(self.folder), within)


def left_of(folder: Path) -> list[str]:
    """Processes that know the test's folder, and folders of their runs."""
    left = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in words and int(process.name) != os.getpid():
            left.append(f"{process.name}: {words[:200]!r}")
    # Unlike a glob, a walk goes on where the keeper removes a folder at that moment.
    for place in (where for where, _, names in os.walk(folder) if "run.json" in names):
        try:
            run_id = json.loads(Path(place, "run.json").read_text())["id"]
        except (OSError, ValueError):
            continue
        left += [str(p) for base in ("/tmp", "/dev/shm", "/run") for p in Path(base).glob(f"*{run_id}*")]
    return left + [str(p) for p in folder.glob(".occatrace*")]


@pytest.fixture(scope="session")
def mpi_programs() -> Iterator[Path]:
    """The test program for each MPI that is here."""
    folder = Path(tempfile.mkdtemp(prefix="mpi-programs-"))
    folder.chmod(0o755)
    for mpi in MPIS:
        if shutil.which(f"mpicc.{mpi}") and shutil.which(f"mpirun.{mpi}"):
            source = PROGRAMS / "mpi_rank.c"
            if not source.exists():
                source = Path(__file__).resolve().parents[2] / "programs" / "session" / "mpi_rank.c"
            subprocess.run(
                [f"mpicc.{mpi}", "-O1", "-Wall", "-o", folder / f"mpi_rank.{mpi}", source, "-ldl"], check=True
            )
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def job_folder() -> Iterator[Path]:
    """A folder where everybody may write."""
    path = Path(tempfile.mkdtemp(prefix="ranks-test-"))
    path.chmod(0o1777)  # ranks do not meet where others can rename what they make
    yield path
    shutil.rmtree(path, ignore_errors=True)


def make_job(mpi: str, programs: Path, folder: Path, person: Person) -> Job:
    program = programs / f"mpi_rank.{mpi}"
    if not program.exists():
        pytest.skip(f"{mpi} is not installed")
    return Job(mpi, program, folder, person)


@pytest.fixture(params=MPIS)
def job(request: pytest.FixtureRequest, mpi_programs: Path, job_folder: Path, people: dict[str, Person]) -> Job:
    """A job of whoever runs the tests."""
    who = people.get("root", people["user"])
    return make_job(request.param, mpi_programs, job_folder, who)


@pytest.fixture
def one_job(mpi_programs: Path, job_folder: Path, people: dict[str, Person]) -> Job:
    """The same with one MPI, for what does not depend on it."""
    return make_job("mpich", mpi_programs, job_folder, people.get("root", people["user"]))


def numbers(rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The only column."""
    return [row[0] for row in rows]
