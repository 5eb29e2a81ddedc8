"""The CPythons of this machine that occatrace traces, one of each version: some of what is traced differs between them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from tests.support.runs import ROOT

MINORS = (10, 11, 12, 13, 14, 15)
_HOMES = (".pyenv/versions", ".local/share/uv/python")


@cache
def interpreters(least: int = MINORS[0]) -> tuple[str, ...]:
    """This one first, then others by PATH, pyenv, uv or tools/get_python, from Python 3.`least` on."""
    found = [sys.executable] if sys.version_info.minor >= least else []
    asked = subprocess.run([ROOT / "tools/get_python", "--print"], text=True, capture_output=True, check=True)
    got = asked.stdout.split()
    for minor in MINORS:
        if minor == sys.version_info.minor or minor < least:
            continue
        homes = [home for folder in _HOMES for home in sorted((Path.home() / folder).glob(f"*3.{minor}*"))]
        there = [shutil.which(f"python3.{minor}"), *(str(home / "bin" / f"python3.{minor}") for home in homes)]
        there += [path for path in got if path.endswith(f"python3.{minor}")]
        for path in filter(None, there):
            done = _real(path, minor)
            if done:
                found.append(done)
                break
    return tuple(found)


def _real(path: str, minor: int) -> str:
    """Its own path (shims start others); empty: it cannot run, or is another version or implementation."""
    ask = "import sys; print(sys.implementation.name, sys.version_info.minor, sys.executable)"
    try:
        words = subprocess.run([path, "-c", ask], text=True, capture_output=True).stdout.split(maxsplit=2)
    except OSError:
        return ""
    return words[2].strip() if words[:2] == ["cpython", str(minor)] else ""
