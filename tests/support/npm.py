"""Packages of npm that tests need: fetched once, without what they depend on, and kept for the next time."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest


def package(name: str, version: str) -> Path:
    """The folder of a package; the test is skipped where it cannot be fetched."""
    cache = Path(
        os.environ.get("OCCATRACE_CACHE")
        or Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "occatrace"
    )
    folder = cache / f"{name}-{version}"
    if folder.is_dir():
        return folder
    if not shutil.which("npm"):
        pytest.skip(f"npm is not installed, from which {name} would come")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as work:
        packed = subprocess.run(
            ["npm", "pack", f"{name}@{version}"], cwd=work, capture_output=True, text=True, timeout=300, check=False
        )
        if packed.returncode:
            pytest.skip(f"{name} could not be fetched: {packed.stderr[-200:]}")
        subprocess.run(["tar", "-xzf", next(Path(work).glob("*.tgz"))], cwd=work, check=True)
        try:
            (Path(work) / "package").rename(folder)
        except OSError:
            # Another process was first.
            assert folder.is_dir()
    return folder
