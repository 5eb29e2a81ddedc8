"""A finished run, for the tests of what reads one."""

from __future__ import annotations

from pathlib import Path

import pytest

from occatrace.core.model import load
from tests.support.fake import demo_trace, recorded


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A small one with something of everything."""
    try:
        load()
    except OSError:
        pytest.skip("the native layer is not built")
    return recorded(tmp_path / "demo", demo_trace())
