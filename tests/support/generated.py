"""The generated headers, for tests that compile native sources by themselves."""

from __future__ import annotations

import atexit
import functools
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@functools.cache
def headers() -> Path:
    """Their folder."""
    folder = Path(tempfile.mkdtemp(prefix="occatrace-test-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    command: list[str | Path] = [
        sys.executable,
        ROOT / "tools/generate.py",
        "--model",
        ROOT / "tracepoints",
        "--output",
        folder,
    ]
    subprocess.run(command, check=True)
    return folder / "native"
