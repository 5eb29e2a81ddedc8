"""How native/session/keeper.c ends a daemon: a program that answers as one stands for it."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from occatrace.run import install

# Says that it is ready, and which signal asks it to end. What it has started ends with it.
DAEMON = """
trap 'echo asked >> "$1"; kill $!; exit 0' TERM
sleep 1000 &
echo started >> "$1"
kill -USR1 $PPID
while :; do wait; done
"""


@pytest.mark.parametrize(
    ("word", "said"), [(b"K", ["started"]), (b"D", ["started", "asked"]), (b"", ["started", "asked"])]
)
def test_a_daemon_is_asked_to_end_unless_all_is_written(tmp_path: Path, word: bytes, said: list[str]) -> None:
    ours, theirs = socket.socketpair()
    folder, log = tmp_path / "sockets", tmp_path / "log"
    folder.mkdir()
    command: list[str | Path] = [
        install.KEEPER,
        "-c",
        str(theirs.fileno()),
        "-r",
        folder,
        "/bin/sh",
        "-c",
        DAEMON,
        "daemon",
        log,
    ]
    env = {"LTTNG_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    with ours, subprocess.Popen(command, env=env, pass_fds=[theirs.fileno()]) as keeper:
        theirs.close()
        assert ours.recv(1) == b"R"
        ours.send(word)
        ours.close()
        assert keeper.wait(60) == 0
    assert log.read_text().split() == said
    assert not folder.exists()
