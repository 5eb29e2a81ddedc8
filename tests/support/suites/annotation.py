"""What the tests of annotations share: the programs, compiled, and a run's tables as rows."""

from __future__ import annotations

import importlib.util
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

import occatrace
from tests.support import runs
from tests.support.runs import OCCA_PROF, ROOT, Row

__all__ = ["OCCA_PROF", "ROOT"]
PROGRAMS = ROOT / "tests" / "programs" / "annotation"


def nvtx_headers() -> Path | None:
    """NVTX's headers: of PyPI's nvidia-nvtx-cu12, or of a CUDA toolkit."""
    folders = [Path("/usr/local/cuda/include")]
    spec = importlib.util.find_spec("nvidia.nvtx") if importlib.util.find_spec("nvidia") else None
    if spec:
        folders = [Path(place) / "include" for place in spec.submodule_search_locations or ()] + folders
    return next((folder for folder in folders if (folder / "nvtx3" / "nvtx3.hpp").exists()), None)


@dataclass(frozen=True)
class Run(runs.Run):
    """A traced program and its ranges."""

    @cached_property
    def ranges(self) -> list[Row]:
        return self.rows("SELECT r.*, (end_ns - start_ns) / 1e6 AS ms FROM ranges r ORDER BY start_ns, seq")

    def named(self, name: str, **wanted: Any) -> list[Row]:
        return [r for r in self.ranges if r["name"] == name and all(r[k] == v for k, v in wanted.items())]

    @cached_property
    def counts(self) -> Counter[tuple[str, str, str, str]]:
        return Counter((r["api"], r["domain"], r["kind"], r["name"]) for r in self.ranges)

    def report(self, name: str) -> dict[str, Row]:
        """Rows of a report by the range's name."""
        with occatrace.open(self.folder) as run:
            return {row["name"]: dict(row) for row in run.report(name)}


Profile = Callable[..., Run]


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    def run(*command: object, mode: str = "default", **environment: str) -> Run:
        # OCCA's Python package refuses to run where OCCA_DIR is set.
        changes: dict[str, str | None] = {"OCCA_DIR": None, **environment}
        return runs.profiled(Run, runs.next_folder(tmp_path), command, "-m", mode, **changes)

    return run


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Compiles a program of tests/programs/annotation with occatrace.h at hand."""
    folder = tmp_path_factory.mktemp("annotation")

    def compiled(source: str, *options: str, name: str = "", compiler: str = "") -> Path:
        target = folder / (name or Path(source).stem)
        if not target.exists():
            command = [compiler or ("g++" if source.endswith("pp") else "gcc"), "-O1", "-Wall", "-Wextra", "-Werror"]
            command += ["-Wno-unused-parameter", f"-I{ROOT / 'include'}", str(PROGRAMS / source), "-o", str(target)]
            subprocess.run([*command, *options, "-ldl", "-lpthread"], check=True)
        return target

    return compiled
