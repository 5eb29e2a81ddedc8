"""The demo, and a program of known times within each other, profiled in a mode of the host and on a device."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import Browser, chromium
from tests.support.suites.occa import Occa, occa_in
from tests.support.suites.reports import occa_dir, occa_prof

__all__ = ["occa_dir"]


@dataclass(frozen=True)
class Run:
    """A run, and what its program said of itself."""

    folder: Path
    mode: str
    truth: dict[str, Any]


def profiled(occa: Occa, program: str, mode: str, folder: Path, *words: object) -> Run:
    ran = occa_prof("-o", folder, occa.program(program), *words, env=occa.environment(mode))
    assert ran.returncode == 0, ran.stderr
    lines = [line for line in ran.stdout.splitlines() if line.startswith("{")]
    return Run(folder, mode, json.loads(lines[0]) if lines else {})


@pytest.fixture(scope="session", params=["Serial", "OpenCL"])
def mode(request: pytest.FixtureRequest) -> str:
    vendors = Path(os.environ.get("OCL_ICD_VENDORS", "/etc/OpenCL/vendors"))
    if request.param == "OpenCL" and not any(vendors.glob("*.icd")):
        pytest.skip("no OpenCL platform")
    return str(request.param)


@pytest.fixture(scope="session")
def run(mode: str, occa_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The demo."""
    folder = tmp_path_factory.mktemp("html") / mode
    return profiled(occa_in(occa_dir), "demo", mode, folder, "-m", mode, "-n", 64, "-s", 2)


@pytest.fixture(scope="session")
def nested(mode: str, occa_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Ranges within ranges."""
    return profiled(occa_in(occa_dir), "nested", mode, tmp_path_factory.mktemp("nested") / mode, mode)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if not chromium():
        pytest.skip("chromium is not installed")
    with Browser(1280, 900) as opened:
        yield opened


Keep = Callable[[Path], None]


@pytest.fixture
def keep() -> Keep:
    """Copies a picture to where somebody wants to look at it."""

    def copy(picture: Path) -> None:
        if folder := os.environ.get("OCCATRACE_TEST_PICTURES"):
            shutil.copy(picture, folder)

    return copy
