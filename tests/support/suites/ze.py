"""What the Level Zero tests share: a fake driver on CPU threads, which the real loader loads, and programs that use it.

Headers and loader are of the packages libze-dev and libze1.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.support import runs
from tests.support.runs import ROOT

Run = Callable[..., runs.Run]
PROGRAMS = ROOT / "tests/programs/ze"


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fake driver."""
    if not Path("/usr/include/level_zero/ze_ddi.h").exists():
        pytest.skip("needs libze-dev")
    library = tmp_path_factory.mktemp("ze") / "libze_fake.so"
    command = ["g++", "-std=c++17", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-Bsymbolic"]
    subprocess.run([*command, ROOT / "tests/fakes/ze/driver.cpp", "-o", library, "-lpthread"], check=True)
    return library


@pytest.fixture(scope="session")
def cases(driver: Path) -> Path:
    """The program of cases."""
    program = driver.parent / "cases"
    subprocess.run(["g++", "-std=c++17", PROGRAMS / "cases.cpp", "-o", program, "-lze_loader", "-ldl"], check=True)
    return program


@pytest.fixture
def traced(driver: Path, tmp_path: Path) -> Run:
    """Runs a program under occa_prof with the fake driver."""

    def run(*command: str | Path, options: tuple[str, ...] = (), env: Mapping[str, str] | None = None) -> runs.Run:
        changes = {"ZE_ENABLE_ALT_DRIVERS": str(driver), **(env or {})}
        return runs.profiled(runs.Run, tmp_path / "run", command, "--force", *options, **changes)

    return run
