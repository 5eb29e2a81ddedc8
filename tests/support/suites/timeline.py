"""The demo program, profiled with a timeline once per mode."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.suites.occa import occa_in
from tests.support.suites.reports import mode, occa_dir, occa_prof

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
def demo(occa_dir: Path) -> Path:
    """The built demo program."""
    return occa_in(occa_dir).program("demo")


@pytest.fixture(scope="session")
def run(mode: str, demo: Path, occa_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A short run of the demo."""
    folder = tmp_path_factory.mktemp("run") / mode
    env = occa_in(occa_dir).environment(mode)
    ran = occa_prof("--timeline", "-o", folder, demo, "-m", mode, "-n", 64, "-s", 2, env=env)
    assert ran.returncode == 0, ran.stderr
    return Run(folder, mode)
