"""A finished run, for the tests of what reads one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from occatrace.core.model import load
from tests.support.fake import demo_trace, recorded


@pytest.fixture(scope="session")
def recorded_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small one with something of everything; its tables are made once."""
    try:
        load()
    except OSError:
        pytest.skip("the native layer is not built")
    return recorded(tmp_path_factory.mktemp("run") / "demo", demo_trace())


@pytest.fixture
def run(recorded_run: Path, tmp_path: Path) -> Path:
    """A copy of it that the test may change."""
    return Path(shutil.copytree(recorded_run, tmp_path / "demo" / "run"))
