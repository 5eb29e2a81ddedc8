"""Jobs of a real Slurm: one report for each step, whatever ends it, and nothing left on the nodes."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

import occatrace
from tests.support.runs import OCCA_PROF, PATIENCE
from tests.support.suites.slurm import NODES, Cluster


def processes() -> set[str]:
    """The processes of ours and of LTTng that run now, with their numbers."""
    found = set()
    for comm in Path("/proc").glob("[0-9]*/comm"):
        try:
            name = comm.read_text(encoding="utf-8").strip()
        except OSError:
            continue
        if name.startswith(("occa", "lttng")):
            found.add(f"{name} {comm.parent.name}")
    return found


def nothing_left(before: set[str]) -> bool:
    """Whether only those that were there before run on, in the end: the keeper outlives occa_prof by a moment."""
    end = time.monotonic() + PATIENCE
    while processes() - before and time.monotonic() < end:
        time.sleep(0.02)
    return not processes() - before


def sql(run: Path, text: str) -> list[tuple[object, ...]]:
    with occatrace.open(run) as opened:
        return list(opened.sql(text).fetchall())


def test_a_step_on_two_nodes_is_one_run(cluster: Cluster, program: Path) -> None:
    before = processes()
    done = cluster.run("srun", "-N2", "-n4", "--mpi=pmi2", *OCCA_PROF, "-o", "run", program / "ring", 0)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["ready"] * 4
    assert done.stderr.count("MPI calls (api_sum)") == 1 and done.stderr.count("the run is in run") == 1
    run = cluster.folder / "run"
    calls = "SELECT sum(calls), sum(bytes) FROM call_stats WHERE function = 'MPI_Sendrecv'"
    assert sql(run, calls) == [(400, 2 * 400 * 1000)]
    ranks = sql(run, "SELECT rank, host FROM processes WHERE rank IS NOT NULL ORDER BY rank")
    assert [rank for rank, _ in ranks] == [0, 1, 2, 3] and {host for _, host in ranks} == set(NODES)
    with occatrace.open(run) as opened:
        assert not opened.losses.lines()
    assert nothing_left(before)


def test_a_batch_job_and_an_array(cluster: Cluster, program: Path) -> None:
    """Each task of an array has a run of its own; the status is the program's."""
    words = " ".join([*OCCA_PROF, str(program / "marks"), "0"])
    job = cluster.submit(f"{words}; echo status $?", "--array=0-2", "-n1", "--output=out.%a")
    cluster.wait_until_ended(job)
    for task in range(3):
        said = (cluster.folder / f"out.{task}").read_text(encoding="utf-8")
        assert said.count("ready") == 1 and "status 3" in said and said.count("(range_sum)") == 1
    runs = sorted(cluster.folder.glob("occatrace-marks-*"))
    assert len(runs) == 3
    assert [sql(run, "SELECT count(*) FROM ranges") for run in runs] == [[(1,)]] * 3


@pytest.mark.parametrize("step", ["exec ", "srun "], ids=["batch", "step"])
def test_a_cancelled_job_keeps_what_was_recorded(cluster: Cluster, program: Path, step: str) -> None:
    """Slurm sends SIGTERM to all processes of the job, LTTng's among them, and kills all when the batch script has ended."""
    before = processes()
    words = f"{step}{' '.join(OCCA_PROF)} -o run {program / 'marks'} 1000"
    job = cluster.submit(words, "-n1", "--output=out")
    cluster.wait_for("ready", cluster.folder / "out")
    assert cluster.run("scancel", job).returncode == 0
    cluster.wait_until_ended(job)
    said = (cluster.folder / "out").read_text(encoding="utf-8")
    assert said.count("(range_sum)") == 1, said
    assert sql(cluster.folder / "run", "SELECT name, end_ns IS NULL FROM ranges") == [("work", True)]
    assert nothing_left(before)


def cancel_ranks(cluster: Cluster, words: str) -> list[str]:
    """Cancel a job of the ring on two nodes once all ranks have sent. Nothing of it is lost; returns what the run says."""
    before = processes()
    job = cluster.submit(words, "-N2", "-n4", "--output=out")
    cluster.wait_for("ready", cluster.folder / "out", 4)
    assert cluster.run("scancel", job).returncode == 0
    cluster.wait_until_ended(job)
    run = cluster.folder / "run"
    with occatrace.open(run) as opened:
        assert opened.losses.events == 0
        lines = opened.losses.lines()
    sums = "SELECT rank, sum(calls) FROM call_stats JOIN processes USING (process) WHERE function = 'MPI_Sendrecv' GROUP BY 1"
    assert sorted(sql(run, sums)) == [(rank, 100) for rank in range(4)]
    assert nothing_left(before)
    return lines


def test_a_cancelled_job_on_two_nodes_keeps_all_ranks(cluster: Cluster, program: Path) -> None:
    cancel_ranks(cluster, f"srun --mpi=pmi2 {' '.join(OCCA_PROF)} -o run {program / 'ring'} 1000")


def let_the_time_end(cluster: Cluster, job: str) -> None:
    """Let the time limit of a running job be over: limits that are asked for are whole minutes."""
    done = cluster.run("scontrol", "update", f"JobId={job}", "EndTime=now+1")
    assert done.returncode == 0, done.stderr


def end_the_time_of(cluster: Cluster, job: str) -> None:
    """The same, until the job has ended."""
    let_the_time_end(cluster, job)
    cluster.wait_until_ended(job)


def state_of(cluster: Cluster, job: str) -> str:
    shown = cluster.run("scontrol", "show", "job", job).stdout
    return next(word.partition("=")[2] for word in shown.split() if word.startswith("JobState="))


@pytest.mark.parametrize("step", ["exec ", "srun "], ids=["batch", "step"])
def test_a_job_over_its_time_limit_keeps_what_was_recorded(cluster: Cluster, program: Path, step: str) -> None:
    before = processes()
    words = f"{step}{' '.join(OCCA_PROF)} -o run {program / 'marks'} 1000"
    job = cluster.submit(words, "-n1", "--time=60", "--output=out")
    cluster.wait_for("ready", cluster.folder / "out")
    end_the_time_of(cluster, job)
    said = (cluster.folder / "out").read_text(encoding="utf-8")
    assert state_of(cluster, job) == "TIMEOUT" and said.count("(range_sum)") == 1, said
    assert sql(cluster.folder / "run", "SELECT name, end_ns IS NULL FROM ranges") == [("work", True)]
    assert nothing_left(before)


def test_an_array_over_its_time_limit(cluster: Cluster, program: Path) -> None:
    """Each task has one report and one run."""
    before = processes()
    words = f"exec {' '.join(OCCA_PROF)} -o run.%a {program / 'marks'} 1000".replace("%a", "$SLURM_ARRAY_TASK_ID")
    job = cluster.submit(words, "--array=0-2", "-n1", "--time=60", "--output=out.%a")
    for task in range(3):
        cluster.wait_for("ready", cluster.folder / f"out.{task}")
    end_the_time_of(cluster, job)
    for task in range(3):
        said = (cluster.folder / f"out.{task}").read_text(encoding="utf-8")
        assert said.count("(range_sum)") == 1, said
        assert sql(cluster.folder / f"run.{task}", "SELECT name, end_ns IS NULL FROM ranges") == [("work", True)]
    assert nothing_left(before)


EARLY = "the recording ended before the program"


def ignoring(step: str, words: str, seconds: int = 6) -> str:
    """A step whose program ignores SIGTERM; Slurm gives each task signals as they are by default. The recording ends a third of
    `seconds` after it, and has as long again for what nodes write."""
    return f"export OCCATRACE_KILL_WAIT={seconds}; {step}sh -c \"trap '' TERM; exec {words}\""


@pytest.mark.parametrize("step", ["exec ", "srun "], ids=["batch", "step"])
@pytest.mark.parametrize("how", ["cancelled", "over its time limit"])
def test_a_program_that_goes_on_after_sigterm_has_a_report(
    cluster: Cluster, program: Path, step: str, how: str
) -> None:
    before = processes()
    words = f"{' '.join(OCCA_PROF)} -o run {program / 'marks'} 1000"
    job = cluster.submit(ignoring(step, words), "-n1", "--time=60", "--output=out")
    out = cluster.folder / "out"
    cluster.wait_for("ready", out)
    if how == "cancelled":
        assert cluster.run("scancel", job).returncode == 0
    else:
        let_the_time_end(cluster, job)
    cluster.wait_for("the run is in run", out)
    assert cluster.run("squeue", "-h", "-j", job).stdout.strip(), "the program goes on, and so does the job"
    cluster.wait_until_ended(job)
    said = out.read_text(encoding="utf-8")
    assert said.count("(range_sum)") == 1 and said.count(f"occa_prof: {EARLY}: the program still ran 2 s after") == 1
    run = cluster.folder / "run"
    assert sql(run, "SELECT name, end_ns IS NULL FROM ranges") == [("work", True)]
    with occatrace.open(run) as opened:
        assert not any("killed" in line for line in opened.losses.lines()), opened.losses.lines()
    assert nothing_left(before)


def test_a_program_that_ends_late_keeps_its_status(cluster: Cluster, program: Path) -> None:
    """The recording has ended by then; output and status of the program pass through."""
    words = f"trap '' TERM; {' '.join(OCCA_PROF)} -o run {program / 'marks'} 8; echo status $?"
    job = cluster.submit(f"export OCCATRACE_KILL_WAIT=3; {words}", "-n1", "--output=out")
    out = cluster.folder / "out"
    cluster.wait_for("ready", out)
    assert cluster.run("scancel", "--full", "--signal=TERM", job).returncode == 0
    cluster.wait_until_ended(job)
    said = out.read_text(encoding="utf-8")
    assert said.index(EARLY) < said.index("status 3"), said
    with occatrace.open(cluster.folder / "run") as opened:
        assert "exit status 3" in repr(opened)


def test_ranks_that_go_on_after_sigterm_have_a_report(cluster: Cluster, program: Path) -> None:
    words = f"{' '.join(OCCA_PROF)} -o run {program / 'ring'} 1000"
    lines = cancel_ranks(cluster, ignoring("srun --mpi=pmi2 ", words, 18))
    assert sum(EARLY in line for line in lines) == len(NODES), lines
    assert (cluster.folder / "out").read_text(encoding="utf-8").count("MPI calls (api_sum)") == 1


@pytest.mark.parametrize("number", [signal.SIGUSR2, signal.SIGHUP])
def test_a_warning_signal_reaches_the_program_alone(cluster: Cluster, program: Path, number: signal.Signals) -> None:
    """As #SBATCH --signal sends it before the time is over: a program that ignores it goes on, and so does its recording."""
    run = f"{' '.join(OCCA_PROF)} -o run {program / 'marks'} 3"
    job = cluster.submit(f"trap '' {number.name[3:]}; {run}; echo status $?", "-n1", "--output=out")
    cluster.wait_for("ready", cluster.folder / "out")
    assert cluster.run("scancel", "--full", f"--signal={number.name[3:]}", job).returncode == 0
    cluster.wait_until_ended(job)
    said = (cluster.folder / "out").read_text(encoding="utf-8")
    assert "status 3" in said and said.count("(range_sum)") == 1, said
    assert sql(cluster.folder / "run", "SELECT name, end_ns IS NULL FROM ranges") == [("work", False)]
