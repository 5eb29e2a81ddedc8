"""What the tests of Python programs share: programs under occa_prof, and such that embed Python, built."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import occatrace
from tests.support import runs

PROGRAMS = runs.ROOT / "tests" / "programs" / "python"
EXAMPLE = runs.ROOT / "examples" / "embedding"
# An embedded interpreter looks for its packages beside the python3 of PATH.
WITH_PACKAGES = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


@dataclass(frozen=True)
class Run(runs.Run):
    """A traced program and what its run says of Python."""

    def report(self, name: str, **options: object) -> list[runs.Row]:
        with occatrace.open(self.folder) as run:
            return [dict(row) for row in run.report(name, **options)]  # type: ignore[arg-type]

    def calls(self, kind: str) -> list[runs.Row]:
        """Rows of python_calls in the order of time."""
        return self.rows(f"SELECT *, end_ns - start_ns AS ns FROM python_calls WHERE kind = '{kind}' ORDER BY start_ns")


Profile = Callable[..., Run]


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    def run(*command: object, python: tuple[str, ...] = (), **environment: str) -> Run:
        options = [word for what in python for word in ("--python", what)]
        # OCCA's Python package refuses to run where OCCA_DIR is set.
        changes: dict[str, str | None] = {"OCCA_DIR": None, **WITH_PACKAGES, **environment}
        done = runs.profiled(Run, runs.next_folder(tmp_path), command, "-q", *options, **changes)
        assert done.status == 0, done.stderr
        return done

    return run


@pytest.fixture(scope="session")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of examples/embedding."""
    pytest.importorskip("cffi")
    if sys.version_info >= (3, 12):
        pytest.importorskip("setuptools")
    if not shutil.which("gfortran"):
        pytest.skip("needs gfortran")
    folder = tmp_path_factory.mktemp("embedding")
    subprocess.run(
        ["make", "-s", "-C", EXAMPLE, f"BUILD={folder}", f"PYTHON={sys.executable}"], check=True, capture_output=True
    )
    return folder


@pytest.fixture(scope="session")
def embed(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Compiles a program that is linked with libpython."""
    folder = tmp_path_factory.mktemp("embed")

    def compiled(source: str, *more: object) -> Path:
        target = folder / Path(source).stem
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        include = sysconfig.get_paths()["include"]
        words = ["gcc", "-O1", f"-I{include}", PROGRAMS / source, "-o", target, *more]
        folder_of_library = sysconfig.get_config_var("LIBDIR")
        words += [f"-L{folder_of_library}", f"-Wl,-rpath,{folder_of_library}", f"-l{version}", "-lpthread"]
        subprocess.run([str(word) for word in words], check=True)
        return target

    return compiled
