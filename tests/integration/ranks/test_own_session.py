"""Without occa_prof around the program: a user's own LTTng session, and `occa_prof start` / `stop`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import duckdb
import pytest

from tests.support.suites.ranks import Job, left_of, make_job
from tests.support.suites.session import OCCA_PROF, Person

# As a person would type it, with a daemon of the user's own.
OWN_SESSION = """
set -e
exec 3>&1 1>&2
lttng-sessiond --daemonize --no-kernel --pidfile=pid
lttng create mine --output=trace
lttng enable-event --userspace 'occatrace_*'
lttng start
(eval "$(OCCA_PROF env)"; exec 1>&3; "$@")
lttng destroy
kill $(cat pid)
while [ -e pid ] && kill -0 $(cat pid 2>/dev/null) 2>/dev/null; do sleep 0.05; done
"""
AROUND = """
set -e
eval "$(OCCA_PROF start around -o run)"
"$@"
"$@"
before=$LD_PRELOAD
eval "$(OCCA_PROF stop around)"
echo "after: [$LD_PRELOAD] [$OCCATRACE_SOCKET] [$OCCATRACE_MODE]"
"""


@pytest.fixture
def mpich(mpi_programs: Path, job_folder: Path, people: dict[str, Person]) -> Job:
    return make_job("mpich", mpi_programs, job_folder, people["user"])


def script(job: Job, text: str, *command: object) -> subprocess.CompletedProcess[str]:
    text = text.replace("OCCA_PROF", " ".join(OCCA_PROF))
    env = dict(job.environment()) | {"HOME": str(job.folder), "LTTNG_HOME": str(job.folder)}
    return job.person.run(["sh", "-c", text, "sh", *map(str, command)], env=env, cwd=job.folder)


def test_a_session_of_the_users_own(mpich: Job) -> None:
    job = mpich
    done = script(job, OWN_SESSION, *job.words(3, job.program))
    assert (done.returncode, done.stdout) == (0, "3 ranks, sum 3\n"), done.stderr
    command = [*OCCA_PROF, "report", "trace", "--report", "rank_sum", "--format", "json"]
    said = job.person.run(command, env=job.environment(), cwd=job.folder)
    assert said.returncode == 0, said.stderr
    rows = json.loads(said.stdout)["reports"][0]["rows"]
    assert [(row["rank"], row["processes"]) for row in rows] == [(0, 1), (1, 1), (2, 1)]
    # The trace is as it was; what was made of it lies beside it, and is made again when the trace changes.
    assert sorted(p.name for p in (job.folder / "trace").iterdir()) == ["ust"]
    tables = job.folder / "trace.occatrace" / "tables" / "processes.parquet"
    first = tables.stat().st_mtime_ns
    job.person.run(command, env=job.environment(), cwd=job.folder)
    assert tables.stat().st_mtime_ns == first
    next((job.folder / "trace").rglob("metadata")).touch()
    job.person.run(command, env=job.environment(), cwd=job.folder)
    assert tables.stat().st_mtime_ns > first


def test_a_trace_that_one_may_only_read(mpich: Job) -> None:
    job = mpich
    assert script(job, OWN_SESSION, *job.words(1, job.program)).returncode == 0
    place = job.folder / "archive"
    place.mkdir()
    (job.folder / "trace").rename(place / "trace")
    place.chmod(0o555)
    command = [*OCCA_PROF, "report", "archive/trace", "--report", "rank_sum"]
    cache = job.folder / "cache"
    done = job.person.run(command, env=job.environment(OCCATRACE_CACHE=str(cache)), cwd=job.folder)
    assert done.returncode == 0, done.stderr
    assert [p.name for p in place.iterdir()] == ["trace"]
    assert len(list(cache.glob("traces/trace-*/tables"))) == 1
    empty = job.person.run([*OCCA_PROF, "report", "cache/traces"], env=job.environment(), cwd=job.folder)
    assert empty.returncode == 2 and len(empty.stderr.splitlines()) == 1


def test_start_and_stop(mpich: Job) -> None:
    job = mpich
    done = script(job, AROUND, *job.words(2, job.program))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2 ranks, sum 1\n" * 2 + "after: [] [] []\n"
    assert done.stderr.count("the run is in run") == 1
    processes = job.folder / "run" / "tables" / "processes.parquet"
    rows = duckdb.execute(f"SELECT rank, count(*) FROM '{processes}' WHERE rank >= 0 GROUP BY 1 ORDER BY 1").fetchall()
    assert rows == [(0, 2), (1, 2)]
    assert not left_of(job.folder)
    said = script(job, "OCCA_PROF stop around")
    assert (said.returncode, said.stderr) == (2, "occa_prof: there is no session around\n")


def test_start_twice(mpich: Job) -> None:
    job = mpich
    text = (
        'eval "$(OCCA_PROF start twice -o a)"; OCCA_PROF start twice -o b; echo $?; eval "$(OCCA_PROF stop -q twice)"'
    )
    done = script(job, text)
    assert done.stdout == "2\n", done.stderr
    assert "session twice is there already: occa_prof stop twice" in done.stderr
    assert not (job.folder / "b").exists()
    job.nothing_left()  # a moment later: LTTng's daemon takes a second to end
