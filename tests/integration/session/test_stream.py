"""`--stream`: tables of a run while it goes on. Nothing is lost, also when the worker is slow; what is killed stays readable;
what comes piece by piece is what comes at once."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import occatrace
from occatrace import stream
from tests.integration.session.conftest import OCCA_PROF, ROOT, Person, environment, wait_for
from tests.integration.session.test_command import info, profile

COUNTED = """SELECT api, function, source, sum(calls)::BIGINT, sum(failed)::BIGINT, sum(bytes)::BIGINT FROM call_stats
    GROUP BY ALL ORDER BY ALL"""
TABLES = {
    "device work": "SELECT kind, name, count(*), sum(bytes)::BIGINT, count(DISTINCT thread) FROM activities GROUP BY ALL ORDER BY ALL",
    "memory": "SELECT api, kind, count(*), sum(bytes)::BIGINT, count(end_ns), count(DISTINCT thread) FROM allocations GROUP BY ALL",
    "ranges": "SELECT name, count(*), count(end_ns), count(DISTINCT thread) FROM ranges GROUP BY ALL",
    "processes": "SELECT count(*), count(exit) FROM processes",
    "threads": "SELECT count(*) FROM threads",
    "single calls": "SELECT api, function, count(*) FROM calls GROUP BY ALL ORDER BY ALL",
    "losses": "SELECT coalesce(sum(lost), 0)::BIGINT FROM losses",
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


def setting(folder: Path) -> dict[str, str]:
    """A driver that compiles wants a place for it."""
    return environment() | {"HOME": str(folder), "POCL_CACHE_DIR": str(folder / "cache")}


def counted(run: Path) -> dict[str, Any]:
    with occatrace.open(run) as opened:
        return {name: opened.sql(query).fetchall() for name, query in {"calls": COUNTED, **TABLES}.items()}


def calls(found: dict[str, Any], function: str) -> int:
    return sum(row[3] for row in found["calls"] if row[1] == function)


def manifest(run: Path) -> stream.Manifest:
    (host,) = stream.hosts(run) or [""]
    return stream.Manifest.read(run / stream.FOLDER / host)


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
    (worker,) = (p for p in descendants(pid) if b"occatrace.stream_worker" in Path(f"/proc/{p}/cmdline").read_bytes())
    return worker


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
    streamed = counted(folder / "streamed")
    check_whole(streamed, rounds)
    assert stream.kept_since(folder / "streamed") is None  # so short a run has all its single calls
    assert not (folder / "streamed" / stream.FOLDER).exists()
    if name == "user":
        done = profile(people[name], "-m", "full", "-o", "plain", paced, rounds, 1000, env=setting(folder))
        assert done.returncode == 0, done.stderr
        assert streamed == counted(folder / "plain")
        assert info(folder / "streamed")["notes"] == info(folder / "plain")["notes"]


@pytest.mark.parametrize("how", ["killed", "slow"])
def test_nothing_is_lost(user: Person, folder: Path, paced: Path, how: str) -> None:
    """The worker makes tables, then it is stopped for a while. Killed: so is everybody else after that; what was made, the
    pieces that wait, and what is in the buffers are one run, the same that its trace would be at once."""
    rounds, end = 30, folder / "end"
    running = user.start(
        [*OCCA_PROF, "--stream", "-m", "full", "-o", "run", str(paced), str(rounds), "100", str(end)],
        env=setting(folder), stderr=subprocess.PIPE,
    )  # fmt: skip
    run = folder / "run"
    assert running.stdout and running.stdout.readline() == "ready\n"
    wait_for(lambda: manifest(run).consumed >= 0)
    worker = worker_of(running.pid)
    os.kill(worker, signal.SIGSTOP)
    kept = manifest(run)
    shown = profile(user, "report", "run", "--format", "json")
    assert shown.returncode == 0, shown.stderr
    (trace,) = (run / "trace").iterdir()
    wait_for(lambda: sum(piece.finished for piece in stream.pieces(trace)) >= 3)  # they wait for it
    assert manifest(run) == kept
    if how == "slow":
        os.kill(worker, signal.SIGCONT)
        wait_for(lambda: manifest(run).consumed >= kept.consumed + 3)
        end.touch()
        said, errors = running.communicate(timeout=300)
        assert running.returncode == 0, errors
        check_whole(counted(run), int(said))
        assert info(run)["notes"] == []
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
