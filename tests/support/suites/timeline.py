"""The demo program, profiled with a timeline once per mode."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.suites.reports import ROOT, mode, occa_dir, occa_prof

__all__ = ["mode", "occa_dir"]


@dataclass(frozen=True)
class Run:
    """A run with its timeline."""

    folder: Path
    mode: str

    @property
    def timeline(self) -> Path:
        """Written by --timeline."""
        return self.folder / "timeline.pftrace"


@pytest.fixture(scope="session")
def demo(occa_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built demo program."""
    out = tmp_path_factory.mktemp("demo")
    subprocess.run(
        ["make", "-C", ROOT / "examples" / "demo", f"OCCA_DIR={occa_dir}", f"OUT={out}"],
        check=True,
        capture_output=True,
    )
    return out / "demo"


@pytest.fixture(scope="session")
def run(mode: str, demo: Path, occa_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A short run of the demo."""
    # OCCA's Serial and OpenMP share one hash: a cache for each mode.
    cache = tmp_path_factory.getbasetemp() / f"occa-{mode}"
    folder = tmp_path_factory.mktemp("run") / mode
    env = {"OCCA_DIR": str(occa_dir), "OCCA_CACHE_DIR": str(cache)}
    ran = occa_prof("--timeline", "-o", folder, demo, "-m", mode, "-n", 64, "-s", 2, env=env)
    assert ran.returncode == 0, ran.stderr
    return Run(folder, mode)
