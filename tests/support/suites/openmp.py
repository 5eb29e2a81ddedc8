"""What the OpenMP tests share: their programs by each compiler, and the tables of a traced one."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

from tests.support import runs
from tests.support.runs import OCCA_PROF, ROOT, Row

__all__ = ["OCCA_PROF", "ROOT"]
PROGRAMS = ROOT / "tests" / "programs" / "openmp"
KEPT = ROOT / "build" / "tests" / "openmp"
CLANG = next(filter(None, map(shutil.which, ("clang-19", "clang"))), None)
RUNTIMES = ("libgomp", "ompt")


@cache
def llvm_folder() -> Path | None:
    """Where clang's libraries and tools are; None: it has no OpenMP."""
    if CLANG is None:
        return None
    found = subprocess.run([CLANG, "-print-file-name=libomp.so"], text=True, capture_output=True, check=True).stdout
    path = Path(found.strip())
    return path.resolve().parent if path.is_absolute() else None


def compiler(runtime: str) -> list[str]:
    """Of a program for this runtime; a call at the end of a function stays a call, so that places are what they seem."""
    options = ["-g", "-O1", "-fno-optimize-sibling-calls", "-fopenmp"]
    if runtime == "libgomp":
        return ["gcc", *options]
    folder = llvm_folder()
    if CLANG is None or folder is None:
        pytest.skip("needs clang with libomp (Debian: clang-19, libomp-19-dev)")
    return [CLANG, *options, f"-Wl,-rpath,{folder}"]


def build(runtime: str, name: str, *options: str, source: str = "") -> Path:
    """A program, or with -shared a library, made anew when its source has changed."""
    source_file = PROGRAMS / (source or f"{name}.c")
    out = KEPT / runtime / name
    out.parent.mkdir(parents=True, exist_ok=True)
    if not out.exists() or out.stat().st_mtime < source_file.stat().st_mtime:
        command = [*compiler(runtime), str(source_file), *options, "-o", str(out)]
        done = subprocess.run(command, text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
    elif runtime != "libgomp":
        compiler(runtime)
    return out


@dataclass(frozen=True)
class Run(runs.Run):
    """A traced program: what it said, and its tables."""

    @cached_property
    def lines(self) -> dict[str, int]:
        """The places that the program named."""
        return {m[1]: int(m[2]) for m in re.finditer(r"^line (\w+) (\d+)$", self.stdout, re.MULTILINE)}

    def regions(self, name: str) -> list[Row]:
        return self.rows(f"SELECT * FROM omp_regions WHERE source LIKE '%:{self.lines[name]}' ORDER BY start_ns")

    def parts(self, name: str) -> list[Row]:
        """What the threads did in the regions of a place, region by region, by thread number."""
        return self.rows(
            f"""SELECT t.*, r.start_ns AS region_start, r.end_ns AS region_end FROM omp_threads t
            JOIN omp_regions r ON r.thread = t.region_thread AND r.seq = t.region_seq
            WHERE r.source LIKE '%:{self.lines[name]}' ORDER BY r.start_ns, t.thread_num"""
        )

    @cached_property
    def calls(self) -> dict[str, int]:
        """Calls by function."""
        return {
            r["function"]: int(r["calls"])
            for r in self.rows("SELECT function, sum(calls) AS calls FROM call_stats WHERE api = 'openmp' GROUP BY ALL")
        }

    @property
    def lost(self) -> int:
        return int(self.rows("SELECT coalesce(sum(lost), 0) AS lost FROM losses")[0]["lost"])


Profile = Callable[..., Run]


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    def run(command: Sequence[object], mode: str = "default", **environment: str) -> Run:
        return runs.profiled(Run, runs.next_folder(tmp_path), command, "-m", mode, **environment)

    return run
