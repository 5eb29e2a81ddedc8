"""`mpirun -n 8 occa_prof PROGRAM`: one run, one report, however the ranks end; nothing hangs, nothing stays behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.runs import PATIENCE
from tests.support.suites.ranks import MPIS, Job, make_job, numbers
from tests.support.suites.session import OCCA_PROF, Person, wait_for

END = "the run is in"  # of a report's last line


@pytest.mark.parametrize("who", ["root", "user", "root_small_shm"])
@pytest.mark.parametrize("mpi", MPIS)
def test_one_report(mpi: str, who: str, mpi_programs: Path, job_folder: Path, people: dict[str, Person]) -> None:
    if who not in people:
        pytest.skip("needs root and mount namespaces")
    job = make_job(mpi, mpi_programs, job_folder, people[who])
    done = job.occa_prof(4, job.program)
    assert (done.returncode, done.stdout) == (0, "4 ranks, sum 6\n"), done.stderr
    assert done.stderr.count(END) == 1, done.stderr
    assert "rank_sum" in done.stderr
    rows = job.query("SELECT rank, size, local_rank, count(DISTINCT job) OVER () FROM processes ORDER BY rank")
    assert rows == [(rank, 4, rank, 1) for rank in range(4)]
    facts = job.facts
    assert facts["notes"] == [] and facts["exit_status"] == 0
    assert [(r["rank"], r["state"], r["status"]) for r in facts["job"]["ranks"]] == [(r, "ended", 0) for r in range(4)]
    assert len(facts["processes"]) == 4
    assert [p.name for p in job_folder.iterdir() if p.name != ".cache"] == ["run"]  # OpenCL's, in HOME
    job.nothing_left()


def test_a_rank_without_a_launcher(job: Job) -> None:
    """Open MPI starts a daemon for it, which ends a moment after the program: nothing is said of it."""
    source = job.folder / "alone.c"
    source.write_text(
        "#include <mpi.h>\nint main(int n, char **v) {\n  MPI_Init(&n, &v);\n"
        "  return n > 1 ? MPI_Abort(MPI_COMM_WORLD, 3) : MPI_Finalize();\n}\n"
    )
    program = job.folder / "alone"
    done = job.person.run([f"mpicc.{job.mpi}", "-o", str(program), str(source)])
    assert done.returncode == 0, done.stderr
    for words in ([], ["abort"]):
        command = [*OCCA_PROF, "--force", "-o", str(job.folder / "run"), str(program), *words]
        done = job.person.run(command, env=job.environment(), cwd=job.folder)
        assert done.returncode == (3 if words else 0), done.stderr
        assert job.facts["notes"] == []
        assert "still running" not in done.stderr
        job.nothing_left()


def test_ranks_are_sampled(one_job: Job) -> None:
    """--sample: memory and CPU use of every rank; each waits until it has been seen, perhaps while it is still being loaded."""
    file = one_job.folder / "run/samples" / f"{os.uname().nodename}.tsv"
    done = one_job.occa_prof(4, "--sample", "host:5ms", one_job.program, f"*:named={file}")
    assert done.returncode == 0, done.stderr
    counters = one_job.folder / "run/tables/counters.parquet"
    rows = one_job.query(
        f"SELECT rank, name, max(value) > 1e6 FROM read_parquet('{counters}') JOIN processes USING (process)"
        " WHERE name = 'RSS' GROUP BY ALL ORDER BY ALL"
    )
    assert rows == [(rank, "RSS", True) for rank in range(4)]
    assert done.stderr.count("rank 3 mpi_rank") >= 1 and one_job.facts["notes"] == []


@pytest.mark.parametrize(
    "what, notes",
    [
        ("1:exit=3", {"rank 1 exited with status 3"}),
        ("1:quit=3", {"rank 1 exited with status 3"}),
        ("1:kill=9", {"rank 1 ended by signal 9"}),
        ("2:abort=5", set()),
    ],
)
def test_ranks_that_end_badly(job: Job, what: str, notes: set[str]) -> None:
    native = job.run(4, job.program, what)
    done = job.occa_prof(4, job.program, what)
    # MPICH's launcher kills the others, and tells of that or of the rank's own status, as it hears of them.
    told = {native.returncode, done.returncode}
    assert len(told) == 1 or told == {int(what.partition("=")[2]), 9}
    assert done.stderr.count(END) == 1, done.stderr
    facts = job.facts
    assert facts["ended"] and notes <= set(facts["notes"])
    assert [r["rank"] for r in facts["job"]["ranks"]] == [0, 1, 2, 3]
    bad = [r for r in facts["job"]["ranks"] if r["state"] == "lost" or r["status"]]
    assert bad, "somebody is named"
    assert re.search(r"! .*rank", done.stderr)
    job.nothing_left()


def test_many_ranks_on_few_cores(one_job: Job) -> None:
    job = one_job
    done = job.occa_prof(16, job.program)
    assert (done.returncode, done.stdout) == (0, "16 ranks, sum 120\n"), done.stderr
    assert numbers(job.query("SELECT rank FROM processes ORDER BY rank")) == list(range(16))
    job.nothing_left()


def test_two_jobs_at_once(one_job: Job) -> None:
    job = one_job
    commands = [job.words(3, *OCCA_PROF, job.program, "*:run=0.5") for _ in range(2)]
    both = " & ".join(f"({' '.join(words)})" for words in commands) + " & wait"
    done = job.person.run(["sh", "-c", both], env=job.environment(), cwd=job.folder)
    assert done.stderr.count(END) == 2, done.stderr
    runs = sorted(p.name for p in job.folder.glob("occatrace-*"))
    assert len(runs) == 2
    for run in runs:
        assert numbers(job.query("SELECT rank FROM processes ORDER BY rank", run)) == [0, 1, 2]
    job.nothing_left()


def test_ranks_that_start_apart(job: Job) -> None:
    """The others wait in MPI_Init, the session for all of them."""
    done = job.occa_prof(3, job.program, "2:sleep=6", OCCATRACE_PATIENCE="4")
    assert done.returncode == 0 and job.facts["notes"] == []
    assert numbers(job.query("SELECT rank FROM processes ORDER BY rank")) == [0, 1, 2]


def test_a_rank_that_comes_after_the_report(one_job: Job) -> None:
    """It is named as missing, and its program runs all the same."""
    job = one_job
    ended = 'until grep -q \'"ended": "\' run/run.json 2> /dev/null; do sleep 0.1; done'
    late = f'if [ "${{OMPI_COMM_WORLD_RANK-$PMI_RANK}}" = 1 ]; then {ended}; fi; exec "$@"'
    words = ["sh", "-c", late, "sh", *OCCA_PROF, "-o", job.folder / "run", "sh", "-c"]
    announce = (
        f"{OCCA_PROF[0]} -c 'import ctypes; c = ctypes.CDLL(None); c.occatrace_start(); c.occatrace_thread_start()'"
    )
    done = job.run(2, *words, f"{announce}; echo ran", OCCATRACE_PATIENCE="2")
    assert (done.returncode, done.stdout) == (0, "ran\nran\n"), done.stderr
    assert job.facts["notes"] == ["incomplete: rank 1 did not come"]
    assert "rank 1 runs without being traced: the report of this job has been made" in done.stderr
    job.nothing_left()


def test_some_ranks_only(job: Job) -> None:
    command = [*OCCA_PROF, "--ranks", "0,2-3", "-o", job.folder / "run", job.program]
    done = job.run(4, *command)
    assert (done.returncode, done.stdout) == (0, "4 ranks, sum 6\n"), done.stderr
    assert numbers(job.query("SELECT rank FROM processes ORDER BY rank")) == [0, 2, 3]
    assert job.facts["notes"] == [] and done.stderr.count(END) == 1
    # The others are the program itself, with nothing of ours around it or in it.
    shell = 'echo "${OMPI_COMM_WORLD_RANK-$PMI_RANK} ${OCCATRACE_SOCKET:+traced} $(tr "\\0" " " < /proc/$PPID/cmdline)"'
    done = job.run(2, *OCCA_PROF, "--ranks", "0", "-o", job.folder / "other", "sh", "-c", shell)
    lines = sorted(done.stdout.splitlines())
    assert lines[0].startswith("0 traced ") and "occatrace.cli" in lines[0]
    assert (
        lines[1].startswith("1  ")
        and "occatrace.cli -" not in lines[1].partition("sh -c")[0].replace("mpirun", "").partition(" -n ")[0]
    )


def test_a_run_for_each_rank(one_job: Job) -> None:
    job = one_job
    done = job.run(2, *OCCA_PROF, "-o", job.folder / "run-%r-%q{COLOUR}", "-q", job.program, COLOUR="red")
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in job.folder.iterdir()) == ["run-0-red", "run-1-red"]
    for rank in range(2):
        facts = json.loads((job.folder / f"run-{rank}-red" / "run.json").read_text())
        assert len(facts["processes"]) == 1 and facts["job"] == {}


def test_below_a_rank(one_job: Job) -> None:
    """occa_prof in what a rank runs: that is recorded already."""
    job = one_job
    done = job.occa_prof(2, "sh", "-c", f"{' '.join(OCCA_PROF)} {job.program}")
    assert (done.returncode, done.stdout) == (0, "2 ranks, sum 1\n"), done.stderr
    assert numbers(job.query("SELECT rank FROM processes WHERE exe LIKE '%mpi_rank%' ORDER BY rank")) == [0, 1]
    assert done.stderr.count(END) == 1
    job.nothing_left()


def test_occa_prof_before_mpirun(job: Job) -> None:
    command = [*OCCA_PROF, "-o", str(job.folder / "run"), *job.words(3, job.program)]
    done = job.person.run(command, env=job.environment(), cwd=job.folder)
    assert (done.returncode, done.stdout) == (0, "3 ranks, sum 3\n"), done.stderr
    assert numbers(job.query("SELECT rank FROM processes WHERE rank IS NOT NULL ORDER BY rank")) == [0, 1, 2]
    assert "hint: " in done.stderr and done.stderr.count(END) == 1
    job.nothing_left()


def test_programs_without_mpi_in_common(one_job: Job) -> None:
    """Ranks of a resource manager without MPI, and what xargs starts, are runs of their own."""
    job = one_job
    script = "seq 0 1 | xargs -P2 -I{} env SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_NTASKS=2 SLURM_PROCID={} "
    command = [*OCCA_PROF, "-q", "-o", str(job.folder / "run-{}"), str(job.program)]
    env = job.environment()
    done = job.person.run(["sh", "-c", script + " ".join(command)], env=env, cwd=job.folder)
    assert done.stdout == "1 ranks, sum 0\n" * 2, done.stderr
    assert sorted(p.name for p in job.folder.iterdir()) == ["run-0", "run-1"]


@pytest.mark.parametrize(
    ("launcher", "variables"),
    [
        ("Flux", "FLUX_JOB_ID={job} FLUX_JOB_SIZE=3 FLUX_TASK_RANK={rank} FLUX_TASK_LOCAL_ID={rank}"),
        (
            "MPICH, Intel MPI",  # srun --mpi=pmi2
            "SLURM_JOB_ID={job} SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=3 SLURM_PROCID={rank} SLURM_LOCALID={rank}"
            " PMI_RANK={rank} PMI_SIZE=3",
        ),
    ],
)
def test_launchers_by_their_variables(one_job: Job, launcher: str, variables: str) -> None:
    """One job, one report, also under launchers that are not here: all that is known of them is in the environment."""
    job = one_job
    given = variables.format(job=job.folder.name.replace("_", "-"), rank="{}")
    # MPICH itself would look for the process manager that the variables speak of.
    program = f"/usr/bin/env -u PMI_RANK -u PMI_SIZE {job.program}"
    command = f"seq 0 2 | xargs -P3 -I{{}} env {given} {' '.join(OCCA_PROF)} -o {job.folder / 'run'} {program}"
    done = job.person.run(["sh", "-c", command], env=job.environment(), cwd=job.folder, timeout=300)
    assert done.returncode == 0 and done.stdout == "1 ranks, sum 0\n" * 3, done.stderr
    assert done.stderr.count(END) == 1, done.stderr
    assert (job.facts["job"]["launcher"], job.facts["job"]["size"]) == (launcher, 3)
    ended = sorted((rank["rank"], rank["state"], rank["status"]) for rank in job.facts["job"]["ranks"])
    assert ended == [(rank, "ended", 0) for rank in range(3)]
    job.nothing_left()


def test_the_nodes_process_is_killed(job: Job) -> None:
    """The ranks go on, the launcher sees them end as ever, and the keeper clears up."""
    here, go = str(job.folder), job.folder / "go"
    words = job.words(2, *OCCA_PROF, "-o", job.folder / "run", job.program, f"*:here={here}", f"*:until={go}")
    running = job.person.start(
        words, env=job.environment(TMPDIR=here, XDG_RUNTIME_DIR=here), cwd=job.folder, stderr=subprocess.PIPE
    )
    end = time.monotonic() + 120
    node = None
    while node is None and time.monotonic() < end:
        time.sleep(0.05)
        node = _node_process(job.folder)
    assert node
    wait_for(lambda: all((job.folder / rank).exists() for rank in "01"), PATIENCE)
    os.kill(node, signal.SIGKILL)
    go.touch()
    assert list(job.folder.glob("occatrace_job-*")), "where the ranks meet"
    out, err = running.communicate(timeout=300)
    assert (running.returncode, out) == (0, "2 ranks, sum 1\n")
    assert err.count("the process that recorded this node was killed") == 1 and "occa_prof report run" in err
    assert not list(job.folder.glob("occatrace_job-*"))
    job.nothing_left()


def _node_process(folder: Path) -> int | None:
    """Of a job: it is occa_prof and leads no session, but is in one of its own."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
            stat = (process / "stat").read_text().rpartition(")")[2].split()
            parent = (Path("/proc") / stat[1] / "cmdline").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in words and b"occatrace.cli" in words and b"mpirun" not in words:
            own_session = stat[3] != stat[1] and str(folder).encode() not in parent
            if own_session and stat[1] == "1":
                return int(process.name)
    return None


def test_a_folder_that_is_there_already(one_job: Job) -> None:
    job = one_job
    (job.folder / "run").mkdir()
    (job.folder / "run" / "precious").touch()
    done = job.occa_prof(3, job.program)
    assert done.returncode != 0 and done.stderr.count("exists already") == 1, done.stderr
    assert [p.name for p in (job.folder / "run").iterdir()] == ["precious"]
    job.nothing_left()
