"""The demo, and a program of known times within each other, profiled in a mode of the host and on a device."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import Browser, chromium
from tests.support.suites.reports import PROGRAMS, ROOT, occa_dir, occa_prof

__all__ = ["occa_dir"]
# Builds are kept between runs of the tests.
KEPT = ROOT / "build" / "tests" / "html"


@dataclass(frozen=True)
class Run:
    """A run, and what its program said of itself."""

    folder: Path
    mode: str
    truth: dict[str, Any]


def profiled(program: Path, mode: str, folder: Path, occa: Path, cache: Path, *words: object) -> Run:
    env = {"OCCA_DIR": str(occa), "OCCA_CACHE_DIR": str(cache)}
    ran = occa_prof("-o", folder, program, *words, env=env)
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
def programs(occa_dir: Path) -> Path:
    """The folder of the two programs."""
    targets = [KEPT / "demo", KEPT / "nested"]
    subprocess.run(
        ["make", "-j2", "-C", PROGRAMS, f"OCCA_DIR={occa_dir}", f"OUT={KEPT}", *targets],
        check=True,
        capture_output=True,
    )
    return KEPT


@pytest.fixture(scope="session")
def run(mode: str, programs: Path, occa_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The demo."""
    cache = tmp_path_factory.getbasetemp() / f"occa-{mode}"
    folder = tmp_path_factory.mktemp("html") / mode
    return profiled(programs / "demo", mode, folder, occa_dir, cache, "-m", mode, "-n", 64, "-s", 2)


@pytest.fixture(scope="session")
def nested(mode: str, programs: Path, occa_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Ranges within ranges."""
    cache = tmp_path_factory.getbasetemp() / f"occa-{mode}"
    return profiled(programs / "nested", mode, tmp_path_factory.mktemp("nested") / mode, occa_dir, cache, mode)


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
