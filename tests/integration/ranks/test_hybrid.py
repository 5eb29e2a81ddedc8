"""Four ranks with OCCA in OpenMP and OpenCL mode, regions of their own and messages: one report, each count right."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import occatrace.api
from tests.support.suites.ranks import MPIS, Job, make_job
from tests.support.suites.ranks import people as people
from tests.support.suites.ranks import person as person
from tests.support.suites.ranks import root as root
from tests.support.suites.ranks import user as user
from tests.support.suites.session import OCCA_PROF

PROGRAMS = Path(__file__).resolve().parents[2] / "programs" / "occa"
RANKS = 4


@pytest.mark.parametrize("mpi", MPIS[:1])
def test_every_api_of_every_rank(mpi: str, mpi_programs: Path, job_folder: Path, people: dict[str, object]) -> None:
    occa = os.environ.get("OCCA_DIR", "")
    if not (Path(occa) / "lib" / "libocca.so").exists() or not shutil.which(f"mpicxx.{mpi}"):
        pytest.skip("OCCA or the MPI is not installed")
    program = job_folder / "hybrid"
    options = [f'-DKERNEL_FOLDER="{PROGRAMS}"', f"-I{occa}/include", f"-L{occa}/lib", f"-Wl,-rpath,{occa}/lib"]
    subprocess.run(
        [
            f"mpicxx.{mpi}",
            "-std=c++11",
            "-O1",
            "-g",
            "-fopenmp",
            *options,
            str(PROGRAMS / "hybrid.cpp"),
            "-o",
            str(program),
            "-locca",
        ],
        check=True,
        capture_output=True,
    )
    job: Job = make_job(mpi, mpi_programs, job_folder, people.get("root") or people["user"])  # type: ignore[arg-type]
    environment = {"OCCA_DIR": occa, "OCCA_CACHE_DIR": str(job_folder / "cache"), "OMP_NUM_THREADS": "2"}
    # One rank builds the kernels, without us: ranks that build them at once get in each other's way in OCCA's cache.
    native = job.run(1, program, timeout=300, **environment)
    assert (native.returncode, native.stdout) == (0, "1 ranks, 2054\n"), native.stderr[-2000:]
    done = job.occa_prof(RANKS, program, **environment)
    assert (done.returncode, done.stdout) == (0, f"{RANKS} ranks, {RANKS * 2054}\n"), done.stderr[-2000:]

    with occatrace.open(job_folder / "run") as run:

        def by_rank(sql: str) -> list[int]:
            rows = run.sql(f"SELECT rank, ({sql}) FROM processes p WHERE rank IS NOT NULL ORDER BY rank").fetchall()
            assert [rank for rank, _ in rows] == list(range(RANKS))
            return [value for _, value in rows]

        runs = (
            "SELECT count(*) FROM kernel_runs r JOIN kernels k USING (kernel) WHERE r.process = p.process AND k.mode = "
        )
        assert by_rank(f"{runs} 'OpenMP'") == [10, 20, 30, 40]
        assert by_rank(f"{runs} 'OpenCL'") == [5] * RANKS
        # Two blocks a kernel: two launches on the device, and two parallel regions on the host.
        launched = (
            "SELECT count(*) FROM activities a WHERE a.process = p.process AND kind = 'kernel' AND a.kernel IS NOT NULL"
        )
        assert by_rank(launched) == [10] * RANKS
        regions = "SELECT count(*) FROM omp_regions o WHERE o.process = p.process AND o.kernel IS"
        assert by_rank(f"{regions} NOT NULL") == [20, 40, 60, 80]
        assert by_rank(f"{regions} NULL") == [3] * RANKS
        reduced = (
            "SELECT sum(calls)::INTEGER FROM call_stats c WHERE c.process = p.process AND function = 'MPI_Allreduce'"
        )
        assert by_rank(reduced) == [4] * RANKS
        assert run.sql("SELECT sum(lost) FROM losses").fetchall() in ([(0,)], [(None,)])

    # What is chosen is complete, and of the rest nothing is there: no call, no device, no library of ours.
    words = ["--force", "--trace"]
    done = job.occa_prof(2, *words, "MPI,opencl", program, **environment)
    assert (done.returncode, done.stdout) == (0, f"2 ranks, {2 * 2054}\n"), done.stderr[-2000:]
    with occatrace.open(job_folder / "run") as run:
        assert apis(run) == {"mpi", "opencl"}
        counted = "SELECT sum(calls)::INTEGER FROM call_stats WHERE function ="
        assert run.sql(f"{counted} 'MPI_Allreduce'").fetchone() == (2 * 4,)
        assert run.sql(f"{counted} 'clEnqueueNDRangeKernel'").fetchone() == (2 * 10,)
        assert run.sql("SELECT count(*) FROM activities WHERE kind = 'kernel'").fetchone() == (2 * 10,)
        assert run.sql("SELECT count(*) FROM kernel_runs").fetchone() == (0,)
        assert run.sql("SELECT count(*) FROM omp_regions").fetchone() == (0,)
    assert set(job.facts["traced"]) == {"mpi", "opencl"}
    done = job.person.run(
        [*OCCA_PROF, "-o", str(job_folder / "run"), *words, "occa,openmp", str(program)],
        env=job.environment(**environment),
        cwd=job_folder,
    )
    assert (done.returncode, done.stdout) == (0, "1 ranks, 2054\n"), done.stderr[-2000:]
    with occatrace.open(job_folder / "run") as run:
        assert apis(run) == {"occa", "openmp"}
        assert run.sql("SELECT count(*) FROM kernel_runs").fetchone() == (15,)
        assert run.sql("SELECT count(*) FROM activities").fetchone() == (0,)
        assert run.sql("SELECT count(*) FROM omp_regions WHERE kernel IS NULL").fetchone() == (3,)
    job.nothing_left()


def apis(run: occatrace.api.Run) -> set[str]:
    """Those that have calls in the run."""
    return {api for (api,) in run.sql("SELECT DISTINCT api FROM call_stats").fetchall()}
