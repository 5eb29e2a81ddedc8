"""What the CUDA tests share: a driver on CPU threads, the programs of cases, and how they are traced.

The fake driver stands for the hardware that test machines lack; what is claimed of hardware is tested by tests/gpu.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import occatrace

ROOT = Path(__file__).resolve().parents[3]
OCCA_PROF = (sys.executable, "-m", "occatrace.cli")


@dataclass(frozen=True)
class Traced:
    """A program that was run under occa_prof."""

    folder: Path
    status: int
    stdout: str
    stderr: str

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        """Rows of a query over the run's tables."""
        with occatrace.open(self.folder) as run:
            return run.sql(text).fetchall()


def headers() -> Path:
    """The folder of cuda.h: of the package that tools/setup installs, or of a toolkit."""
    found = importlib.util.find_spec("nvidia")
    folders = [Path(p) for p in (found.submodule_search_locations or ())] if found else []
    for folder in [*(p / "cu13" / "include" for p in folders), Path("/usr/local/cuda/include")]:
        if (folder / "cuda.h").exists():
            return folder
    pytest.skip("no cuda.h: neither the package nvidia-cuda-runtime nor a CUDA toolkit is installed")


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the fake driver."""
    folder = tmp_path_factory.mktemp("cuda")
    compiled(
        ROOT / "tests/fakes/cuda/driver.cpp",
        folder / "libcuda.so.1",
        ["-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-Bsymbolic", "-Wl,-soname,libcuda.so.1", "-lpthread", "-ldl"],
    )
    (folder / "libcuda.so").symlink_to("libcuda.so.1")
    return folder


def compiled(source: Path, output: Path, options: list[str]) -> Path:
    """The source as a program or library."""
    command = ["g++", "-std=c++17", "-O1", f"-I{headers()}", str(source), "-o", str(output), *options]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return output


@pytest.fixture(scope="session")
def linked(driver: Path) -> Path:
    """The cases, linked with the driver."""
    return compiled(
        ROOT / "tests/programs/cuda/cases.cpp", driver / "linked", [f"-L{driver}", "-lcuda", "-lpthread", "-ldl"]
    )


@pytest.fixture(scope="session")
def by_name(driver: Path) -> Path:
    """The cases, asking the driver for each function by name."""
    return compiled(ROOT / "tests/programs/cuda/cases.cpp", driver / "by_name", ["-DBY_NAME", "-lpthread", "-ldl"])


Run = Callable[..., Traced]


@pytest.fixture
def traced(driver: Path, tmp_path: Path) -> Run:
    """Runs a program under occa_prof with the fake driver on the library path."""

    def run(*command: str | Path, options: tuple[str, ...] = (), env: Mapping[str, str] | None = None) -> Traced:
        folder = tmp_path / "run"
        environment = {**os.environ, "LD_LIBRARY_PATH": str(driver), **(env or {})}
        done = subprocess.run(
            [*OCCA_PROF, "-o", str(folder), "--force", *options, *map(str, command)],
            capture_output=True,
            text=True,
            env=environment,
            timeout=120,
            check=False,
        )
        return Traced(folder, done.returncode, done.stdout, done.stderr)

    return run
