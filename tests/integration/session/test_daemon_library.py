"""What native/session/daemon.c changes in LTTng's daemon, on a program of its name that writes as it does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from occatrace.errors import DaemonError
from occatrace.record import daemon
from occatrace.run import install

SOURCE = Path(__file__).resolve().parents[2] / "programs" / "session" / "daemon_writes.c"
TOKENS = "".join(f"{i}," for i in range(1000))


def run(folder: Path, name: str, *words: object) -> str:
    """The program, by this name and with the library."""
    program = folder / name
    if not program.exists():
        subprocess.run(["gcc", "-O1", "-o", program, SOURCE], check=True)
    env = os.environ | {"LD_PRELOAD": str(install.DAEMON_LIBRARY)}
    return subprocess.run(
        [program, *map(str, words)], env=env, check=True, capture_output=True, text=True, timeout=60
    ).stdout


def test_metadata_is_written_before_a_message_is_sent(tmp_path: Path) -> None:
    """Short writes are joined; a process that is told of its registration finds it in the file."""
    file = tmp_path / "metadata"
    assert run(tmp_path, "lttng-sessiond", "tokens", file).split() == ["before", "0", "after", str(len(TOKENS))]
    assert file.read_text() == TOKENS + 40000 * "more\n"


@pytest.mark.parametrize(("name", "file"), [("lttng-sessiond", "other"), ("lttng-consumerd", "metadata")])
def test_other_files_are_written_at_once(tmp_path: Path, name: str, file: str) -> None:
    size = str(len(TOKENS))
    assert run(tmp_path, name, "tokens", tmp_path / file).split() == ["before", size, "after", size]
    assert (tmp_path / file).read_text() == TOKENS + 40000 * "more\n"


@pytest.mark.parametrize("name", ["lttng-consumerd", "lttng-sessiond"])
def test_buffers_are_allocated(tmp_path: Path, name: str) -> None:
    """No hole is left in which a write could fail, and what stands in a file is replaced."""
    size = (1 << 20) + 100
    said = run(tmp_path, name, "zeros", tmp_path / "buffer").splitlines()
    assert said == [f"position {size} size {size} blocks 1", "overwritten 1"]
    assert (tmp_path / "buffer").read_bytes() == bytes(size)


def test_pages_of_buffers_are_mapped_when_they_are_read(tmp_path: Path) -> None:
    """Not all of them at once; other mappings are as they are asked for."""
    said = run(tmp_path, "lttng-consumerd", "map", tmp_path / "buffer").splitlines()
    assert said == ["shared 0", "private 1024"]


def test_text_is_printed_as_by_libc(tmp_path: Path) -> None:
    """Without a call of libc's where there is nothing to format."""
    assert run(tmp_path, "lttng-sessiond", "print", tmp_path / "unused").split("|") == [
        "c",
        "plain text",
        "7 of %c",
        "",
        "ours",
    ]


def test_pauses_and_timers(tmp_path: Path) -> None:
    """Only the pauses and the timer that LTTng polls by are shorter; nobody is in a group."""
    said = run(tmp_path, "lttng-sessiond", "pauses", tmp_path / "unused").split()[1::2]
    assert said == ["99999", "1000", "1000", "1000", "1000000"]
    said = run(tmp_path, "lttng-sessiond", "timers", tmp_path / "unused too").splitlines()
    assert said == ["timer 500 short", "timer 100000 whole", "groups 0"]


@pytest.mark.parametrize(
    ("switch", "preloaded"), [(None, str(install.DAEMON_LIBRARY)), ("0", None), ("1", str(install.DAEMON_LIBRARY))]
)
def test_the_switch(monkeypatch: pytest.MonkeyPatch, switch: str | None, preloaded: str | None) -> None:
    """OCCATRACE_DAEMON_LIBRARY=0 leaves the library out of the daemon."""
    started: list[dict[str, str]] = []

    def spawn(path: str, words: list[str], env: dict[str, str], **_: object) -> int:
        started.append(env)
        raise OSError(1, "only looked at")

    monkeypatch.setattr(os, "posix_spawn", spawn)
    if switch is not None:
        monkeypatch.setenv("OCCATRACE_DAEMON_LIBRARY", switch)
    made = daemon.Daemon("s", f"switch{os.getpid()}", None)
    try:
        with pytest.raises(DaemonError, match="only looked at"):
            made._spawn(["lttng-sessiond"])
    finally:
        made.close()
    assert [env.get("LD_PRELOAD") for env in started] == [preloaded]
