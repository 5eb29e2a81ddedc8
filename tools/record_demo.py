#!/usr/bin/env python3
"""Records a terminal session of the demo as an asciinema cast and as an animated picture (SVG); used by `tools/demo --record`.

usage: record_demo.py FOLDER COMMAND [COMMAND…]

Types each command in a shell of its own on a pseudo-terminal, with the program's real output and times. Writes FOLDER/demo.cast
(asciicast version 2) and FOLDER/demo.svg by termtosvg, which is installed into build/record.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REQUIREMENT = "termtosvg==1.1.0"
WIDTH, HEIGHT = 118, 34
TYPING_S = 0.04  # per character
READING_S = 4.0  # after the output of a command
LONGEST_PAUSE_S = 1.5  # of the picture, where a program calculates


class Cast:
    """Output and when it came, with pauses that are not longer than somebody wants to wait."""

    def __init__(self) -> None:
        self.at = 0.0
        self.events: list[tuple[float, str, str]] = []

    def add(self, text: str, after: float) -> None:
        self.at += after
        self.events.append((round(self.at, 3), "o", text.replace(f"{ROOT}/", "")))  # where this clone is says nothing

    def write(self, file: Path) -> None:
        head = {"version": 2, "width": WIDTH, "height": HEIGHT, "title": "occa_prof", "env": {"TERM": "xterm-256color"}}
        lines = [json.dumps(head), *(json.dumps(event, ensure_ascii=False) for event in self.events)]
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def record(cast: Cast, command: str) -> int:
    """Run a command on a pseudo-terminal; returns its exit status."""
    cast.add("\x1b[32m$\x1b[0m ", 0.5)
    for character in command:
        cast.add(character, TYPING_S)
    cast.add("\r\n", 0.3)
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp("sh", ["sh", "-c", command])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    before, rest = time.monotonic(), b""
    while True:
        select.select([terminal], [], [])
        try:
            data = os.read(terminal, 65536)
        except OSError:  # its other end is closed
            break
        if not data:
            break
        data = rest + data
        text = data.decode("utf-8", "ignore")
        rest = data[len(text.encode()) :]
        now = time.monotonic()
        cast.add(text, min(now - before, LONGEST_PAUSE_S))
        before = now
    os.close(terminal)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    cast.add("", READING_S)
    return status


def draw(cast: Path, picture: Path) -> None:
    """The SVG of a cast."""
    venv = ROOT / "build" / "record"
    if not (venv / "bin" / "termtosvg").exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        words = ["-m", "pip", "install", "-q", "--disable-pip-version-check", REQUIREMENT, "setuptools<80"]
        subprocess.run([venv / "bin" / "python", *words], check=True)
    subprocess.run(
        [venv / "bin" / "termtosvg", "render", cast, picture, "-t", "window_frame", "-D", "4000"], check=True
    )


def main() -> int:
    folder, commands = Path(sys.argv[1]), sys.argv[2:]
    cast = Cast()
    for command in commands:
        if status := record(cast, command):
            print(f"record_demo: {command}: status {status}", file=sys.stderr)
            return 1
    folder.mkdir(parents=True, exist_ok=True)
    cast.write(folder / "demo.cast")
    draw(folder / "demo.cast", folder / "demo.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
