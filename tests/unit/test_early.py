"""LTTng's daemon is started before the command line is read, where the words look like those of a run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from occatrace.cli import early
from occatrace.cli.commands import COMMANDS
from occatrace.record import keeper
from occatrace.run import native
from occatrace.run.ranks import LAUNCHERS, RANK_VARIABLE

# What takes milliseconds to import. The daemon does not wait for it.
SLOW = {"argparse", "contextlib", "dataclasses", "enum", "pathlib", "re", "site", "socket", "subprocess", "typing"}
WATCH = """
import os, sys
from occatrace.record import keeper
keeper.begin = lambda: os.write(1, " ".join(["begun", *sys.modules]).encode())
from occatrace.entry import main
sys.argv = ["occa_prof", "-q", "/nowhere/program"]
main()
"""


@pytest.mark.parametrize(
    "words",
    [["./a.out"], ["-q", "a.out", "report"], ["run", "a.out"], ["-o", "x", "a.out", "-m", "HIP"], ["--", "report"]],
)
def test_words_of_a_run(words: list[str]) -> None:
    assert early.records(words, {})


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["run"],
        ["--help"],
        ["-V"],
        ["--show-config", "a.out"],
        ["--system-lttng", "a.out"],
        ["--shm-path=/x", "a.out"],
        *([name, "x"] for name in COMMANDS if name != "run"),
    ],
)
def test_other_words(words: list[str]) -> None:
    assert not early.records(words, {})


@pytest.mark.parametrize("variable", [*(launcher.rank for launcher in LAUNCHERS), RANK_VARIABLE])
def test_ranks_have_one_daemon_on_a_node(variable: str) -> None:
    assert not early.records(["a.out"], {variable: "0"})


def test_nothing_slow_is_imported_before() -> None:
    command = [sys.executable, "-S", "-c", WATCH]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(native.PACKAGE).parent)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=60)
    assert "program not found" in done.stderr
    word, *modules = done.stdout.split()
    assert word == "begun"
    assert not SLOW & set(modules)


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where an ordinary user's sockets go; its path is short enough for them."""
    path = Path(tempfile.mkdtemp(prefix="early-", dir="/tmp"))
    monkeypatch.setattr(os, "getuid", lambda: 1234)
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    monkeypatch.setenv("TMPDIR", str(path))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    yield path
    shutil.rmtree(path)


def test_a_keeper_that_cannot_be_started_leaves_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> int:
        assert list(place.iterdir())
        raise OSError(1, "refused")

    monkeypatch.setattr(os, "posix_spawn", refuse)
    keeper.begin()
    assert keeper.begun_id() is None
    assert not list(place.iterdir())


def test_it_is_for_its_run_only(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose buffers would be elsewhere is ended; the run starts its own."""
    children = []

    def spawn(path: str, words: list[str], *_: object, **__: object) -> int:
        assert path == native.KEEPER
        children.append(subprocess.Popen(["sleep", "0"]))
        return children[-1].pid

    monkeypatch.setattr(os, "posix_spawn", spawn)
    keeper.begin()
    run_id = keeper.begun_id()
    assert run_id is not None
    assert keeper.take("another", keeper.buffers_folder("another")) is None
    assert keeper.begun_id() == run_id
    begun = keeper.take(run_id, keeper.buffers_folder(run_id))
    assert begun is not None and begun.keeper.wait(60) and keeper.begun_id() is None
    os.close(begun.keeper.fd)
    keeper.begin()
    run_id = keeper.begun_id()
    assert run_id is not None
    assert keeper.take(run_id, keeper.buffers_folder(run_id, "/elsewhere")) is None
    assert keeper.begun_id() is None
