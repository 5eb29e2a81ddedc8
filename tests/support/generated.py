"""The model, and the headers that are generated from it, for tests that compile native sources by themselves."""

from __future__ import annotations

import atexit
import functools
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]


@functools.cache
def model(api: str) -> dict[str, Any]:
    """What stands in tracepoints/API.yaml; by libyaml's parser, which takes a tenth of the time."""
    text = (ROOT / f"tracepoints/{api}.yaml").read_text(encoding="utf-8")
    read: dict[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return read


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
