"""`--stream`: tables of a run while it goes on. Nothing is lost, also when the worker is slow; what is killed stays readable;
what comes piece by piece is what comes at once."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import occatrace
from occatrace.core.bounds import EVENTS
from occatrace.lttng import chunks
from occatrace.run import checksums, layout
from occatrace.run.control import size_of
from occatrace.store import stream
from tests.integration.session.test_command import info, profile
from tests.support.runs import PATIENCE
from tests.support.suites.session import OCCA_PROF, ROOT, Person, environment, wait_for

Start = Callable[..., "subprocess.Popen[str]"]

COUNTED = """SELECT api, function, source, sum(calls)::BIGINT, sum(failed)::BIGINT, sum(bytes)::BIGINT FROM call_stats
    GROUP BY ALL ORDER BY ALL"""
SINGLE = "SELECT api, function, count(*) FROM calls GROUP BY ALL ORDER BY ALL"
TABLES = {
    "device work": "SELECT kind, name, count(*), sum(bytes)::BIGINT, count(DISTINCT thread) FROM activities GROUP BY ALL ORDER BY ALL",
    "memory": "SELECT api, kind, count(*), sum(bytes)::BIGINT, count(end_ns), count(DISTINCT thread) FROM allocations GROUP BY ALL",
    "ranges": "SELECT name, count(*), count(end_ns), count(DISTINCT thread) FROM ranges GROUP BY ALL",
    "processes": "SELECT count(*), count(exit) FROM processes",
    "threads": "SELECT count(DISTINCT thread) FROM call_stats",
    "losses": "SELECT coalesce(sum(lost), 0)::BIGINT FROM losses",
}
# Of the very same events: to the nanosecond.
EXACT = {
    "calls' times": """SELECT function, tid, pid, calls, total_ns, min_ns, max_ns, failed FROM call_stats
        JOIN threads USING (thread) JOIN processes p ON p.process = threads.process ORDER BY ALL""",
    "histograms": "SELECT function, value_ns, sum(calls)::BIGINT FROM call_hist GROUP BY ALL ORDER BY ALL",
    "work": """SELECT kind, a.name, tid, seq, a.start_ns, a.end_ns, queued_ns, bytes FROM activities a
        JOIN threads USING (thread) ORDER BY ALL""",
    "objects": "SELECT handle, bytes, a.start_ns, a.end_ns, tid, seq FROM allocations a JOIN threads USING (thread) ORDER BY ALL",
    "ranges": "SELECT r.name, r.start_ns, r.end_ns, tid FROM ranges r JOIN threads USING (thread) ORDER BY ALL",
    "lives": "SELECT pid, start_ns, end_ns, exit FROM processes ORDER BY ALL",
    "names": "SELECT count(*), count(DISTINCT text) FROM names",
}
PER_ROUND, LAUNCHES, CHILD = 1000, 4, 10  # as in the program


@pytest.fixture(scope="module")
def paced() -> Iterator[Path]:
    """The traced program, where everybody can run it."""
    folder = Path(tempfile.mkdtemp(prefix="paced-"))
    folder.chmod(0o755)
    source = ROOT / "tests" / "programs" / "stream" / "paced.c"
    words = ["gcc", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}", source, "-o", folder / "paced"]
    subprocess.run([*map(str, words), "-lOpenCL", "-lpthread"], check=True)
    yield folder / "paced"
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


@pytest.fixture
def start(user: Person, folder: Path, paced: Path) -> Iterator[Start]:
    """The program with --stream and other options, until FILE `end` is there. Nothing of it is left where a test fails."""
    begun = []

    def begin(rounds: int, *options: str) -> subprocess.Popen[str]:
        words = [*OCCA_PROF, "--stream", *options, "-m", "full", "-o", "run", str(paced), str(rounds), "100"]
        begun.append(user.start([*words, str(folder / "end")], env=setting(folder), stderr=subprocess.PIPE))
        assert begun[0].stdout and begun[0].stdout.readline() == "ready\n"
        return begun[0]

    yield begin
    for running in begun:
        if running.poll() is None:
            for pid in descendants(running.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            running.communicate()


def setting(folder: Path) -> dict[str, str]:
    """A driver that compiles wants a place for it."""
    return environment() | {"HOME": str(folder), "POCL_CACHE_DIR": str(folder / "cache")}


def counted(run: Path, *others: str) -> dict[str, Any]:
    with occatrace.open(run) as opened:
        queries = {"calls": COUNTED, **TABLES, **dict.fromkeys(others, SINGLE)}
        return {name: opened.sql(query).fetchall() for name, query in queries.items()}


def calls(found: dict[str, Any], function: str) -> int:
    return sum(row[3] for row in found["calls"] if row[1] == function)


def manifest(run: Path) -> stream.Manifest:
    (host,) = stream.hosts(run) or [""]
    return stream.Manifest.read(run / layout.STREAM_FOLDER / host)


def descendants(pid: int) -> list[int]:
    """Of a process, itself the first; each of its threads may have children."""
    out = [pid]
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in path.read_text().split():
                out += descendants(int(child))
    return out


def worker_of(pid: int) -> int:
    """The process that makes tables for an occa_prof."""
    found = []
    for each in descendants(pid):
        with contextlib.suppress(OSError):  # a child that has ended since
            found += [each] if b"occatrace.store.stream_worker" in Path(f"/proc/{each}/cmdline").read_bytes() else []
    (worker,) = found
    return worker


def stop(pid: int) -> None:
    """Stop a process; returns when none of its threads does anything any more."""
    os.kill(pid, signal.SIGSTOP)

    def stopped() -> bool:
        try:
            stats = [file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/stat")]
        except OSError:  # a thread has ended meanwhile
            return False
        return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)

    wait_for(stopped)


def check_checksums(run: Path) -> None:
    """All files of the trace have one, and it is right."""
    there = [path for path in run.glob("trace/*/**/*") if path.is_file() and path.name != checksums.FILE]
    found = checksums.verify(run)
    assert (found.files, found.bytes, found.damaged) == (len(there), sum(p.stat().st_size for p in there), [])


def check_whole(found: dict[str, Any], rounds: int) -> None:
    own = rounds - rounds // CHILD
    assert calls(found, "clFlush") == PER_ROUND * rounds
    assert calls(found, "clEnqueueNDRangeKernel") == LAUNCHES * own
    assert [(kind, name, count) for kind, name, count, *_ in found["device work"]] == [
        ("kernel", "one", LAUNCHES * own)
    ]
    assert found["losses"] == [(0,)]
    assert found["ranges"] == [("round", rounds, rounds, rounds)]
    assert found["processes"] == [(1 + rounds // CHILD,) * 2]


@pytest.mark.parametrize("name", ["user", "root_small_shm"])
def test_as_if_not_streamed(people: dict[str, Person], name: str, folder: Path, paced: Path) -> None:
    """What the program did, and the same counts and bytes as without."""
    if name not in people:
        pytest.skip("needs root and mount namespaces")
    rounds = 40
    done = profile(people[name], "--stream", "-m", "full", "-o", "streamed", paced, rounds, 12, env=setting(folder))
    assert done.returncode == 0, done.stderr
    streamed = counted(folder / "streamed", "single calls")
    check_whole(streamed, rounds)
    assert stream.kept_since(folder / "streamed") is None  # so short a run has all its single calls
    assert not (folder / "streamed" / layout.STREAM_FOLDER).exists()
    check_checksums(folder / "streamed")
    if name == "user":
        done = profile(people[name], "-m", "full", "-o", "plain", paced, rounds, 1000, env=setting(folder))
        assert done.returncode == 0, done.stderr
        assert streamed == counted(folder / "plain", "single calls")
        assert info(folder / "streamed")["notes"] == info(folder / "plain")["notes"]


@pytest.mark.parametrize("how", ["killed", "slow"])
def test_nothing_is_lost(user: Person, folder: Path, start: Start, how: str) -> None:
    """The worker makes tables, then it is stopped for a while. Killed: so is everybody else after that; what was made, the
    pieces that wait, and what is in the buffers are one run, the same that its trace would be at once."""
    rounds, end, run = 30, folder / "end", folder / "run"
    running = start(rounds)
    wait_for(lambda: manifest(run).consumed >= 0)
    worker = worker_of(running.pid)
    nice, own = (os.getpriority(os.PRIO_PROCESS, pid) for pid in (worker, running.pid))
    assert nice == min(own + 10, 19) and len(os.sched_getaffinity(worker)) == 1
    stop(worker)
    kept = manifest(run)
    shown = profile(user, "report", "run", "--format", "json")
    assert shown.returncode == 0, shown.stderr
    (trace,) = (run / "trace").iterdir()
    wait_for(lambda: sum(piece.finished for piece in chunks.pieces(trace)) >= 3)  # they wait for it
    assert manifest(run) == kept
    if how == "slow":
        os.kill(worker, signal.SIGCONT)
        wait_for(lambda: manifest(run).consumed >= kept.consumed + 3)
        end.touch()
        said, errors = running.communicate(timeout=300)
        assert running.returncode == 0, errors
        check_whole(counted(run), int(said))
        assert info(run)["notes"] == []
        check_checksums(run)
        return
    everybody = descendants(running.pid)
    for sent in (signal.SIGSTOP, signal.SIGKILL):  # stopped, none of them sees another end
        for pid in everybody:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, sent)
    running.communicate(timeout=300)
    assert profile(user, "report", "run").returncode == 0
    found = counted(run)
    assert found["losses"] == [(0,)]
    assert calls(found, "clFlush") > PER_ROUND * rounds
    assert "everything was killed at once" in info(run)["notes"][0]
    # What is there of the trace is all of it, as so short a run keeps it: read at once it gives the same.
    assert stream.kept_since(run) is None
    check_checksums(run)
    at_once = folder / "at_once"
    shutil.copytree(run, at_once, ignore=shutil.ignore_patterns("tables"))
    for name, query in EXACT.items():
        with occatrace.open(run) as one, occatrace.open(at_once) as other:
            assert one.sql(query).fetchall() == other.sql(query).fetchall(), name


def test_top_that_comes_late(user: Person, folder: Path, start: Start) -> None:
    """What was named in parts of the trace that have gone has its name."""
    running, run = start(10, "--max-size", "8M"), folder / "run"
    wait_for(lambda: (stream.kept_since(run) or "its end") != "its end")
    shown = profile(user, "top", "--once", "run")
    end = time.monotonic() + PATIENCE
    while shown.returncode == 0 and "\nKernel " not in shown.stdout and time.monotonic() < end:
        # The disk's limit was reached just then: calls are only counted until there is room again.
        shown = profile(user, "top", "--once", "run")
    assert shown.returncode == 0, shown.stderr
    assert "older parts of the trace are tables by now" in shown.stdout
    assert "unknown device" not in shown.stdout and "opencl memory" not in shown.stdout
    assert [line.split()[0] for line in shown.stdout.partition("\nKernel ")[2].splitlines()[1:]] == ["one"]
    (folder / "end").touch()
    assert running.wait(300) == 0


def test_what_there_is_no_room_for_is_counted(folder: Path, start: Start) -> None:
    """A worker that does not work for a while, until what waits has its part of the disk: all calls are counted, and the
    report says that not all were recorded one by one."""
    end, run, limit = folder / "end", folder / "run", 12 << 20
    running = start(10, "--max-size", "12M")
    wait_for(lambda: manifest(run).consumed >= 0)
    worker = worker_of(running.pid)
    stop(worker)
    (switch,) = (Path(json.loads(place.read_text())["file"]) for place in (run / "control").glob("*.json"))
    wait_for(lambda: not switch.read_bytes()[EVENTS])
    os.kill(worker, signal.SIGCONT)
    wait_for(lambda: switch.read_bytes()[EVENTS])  # there is room again
    end.touch()
    said, errors = running.communicate(timeout=300)
    assert running.returncode == 0, errors
    found = counted(run)
    assert calls(found, "clFlush") == PER_ROUND * int(said)
    by_source = {row[2]: row[3] for row in found["calls"] if row[1] == "clFlush"}
    assert by_source["event"] > 0 and by_source["tally"] > 0
    assert found["losses"] == [(0,)]
    assert "calls were only counted" in info(run)["notes"][0] and "calls were only counted" in errors
    assert size_of(run) < limit
