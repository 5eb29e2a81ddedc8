"""Builds and runs the programs of the table, and compares what `advice` says with what is planted."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.diagnosis.cases import PROGRAMS, Case
from tests.support.runs import OCCA_PROF, ROOT, execute
from tests.support.suites.cuda import in_toolkit

MPIRUN = ("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "4")


class Absent(Exception):
    """A compiler, library or header that a program needs is not there."""


@dataclass(frozen=True)
class Outcome:
    """What advice said of a program."""

    case: Case
    rows: list[dict[str, Any]]

    @property
    def right(self) -> bool:
        """The planted problem comes first, with its place; or nothing is said where there is none."""
        if not self.case.signs:
            return not self.rows
        return bool(self.rows) and self.rows[0]["name"] in self.case.signs and self._placed(self.rows[0])

    def _placed(self, row: dict[str, Any]) -> bool:
        rank = "" if row["rank"] is None else f"rank {row['rank']}"
        said = f"{row['evidence']} {row['caller']} {rank}"
        return all(word in said for word in self.case.texts())

    def said(self) -> list[str]:
        """The rows in words."""
        return [
            f"{row['name']} ({row['share']:.0f} %, gain {'-' if row['gain'] is None else round(row['gain'])}): {row['evidence']}"
            + (f" [{row['caller']}]" if row["caller"] else "")
            for row in self.rows
        ]


class Bench:
    """A folder with the programs as they are built."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._build = cache(self._built)
        self._driver = cache(self._fake_driver)

    def run(self, case: Case) -> Outcome:
        """One program, first alone, so that caches of kernels are as they are in a second run."""
        command: list[object] = [sys.executable] if case.program.endswith(".py") else []
        command += [self._build(case.program), *case.arguments, case.problem]
        env: dict[str, str | None] = {
            "POCL_CACHE_DIR": str(self.folder / "pocl"),
            "OCCA_CACHE_DIR": str(self.folder / "occa"),
            "PYOPENCL_NO_CACHE": None,
            "XDG_CACHE_HOME": str(self.folder / "cache"),
        }
        launcher: tuple[str, ...] = MPIRUN if case.program == "ranks.c" else ()
        if case.program == "driver.cpp":
            env["LD_LIBRARY_PATH"] = str(self._driver())
            env["OCCATRACE_DEVICE_TIME"] = "events"
        for name in ("pocl", "occa", "cache"):
            (self.folder / name).mkdir(exist_ok=True)
        if case.program not in ("ranks.c", "team.c"):
            _checked(case, execute(command, **env))
        run = self.folder / case.name
        shutil.rmtree(run, ignore_errors=True)
        _checked(case, execute([*launcher, *OCCA_PROF, "-q", *case.options, "-o", run, *command], **env))
        done = _checked(case, execute([*OCCA_PROF, "report", run, "--report", "advice", "--format", "json"]))
        return Outcome(case, json.loads(done.stdout)["reports"][0]["rows"])

    def _built(self, program: str) -> Path:
        source, out = PROGRAMS / program, self.folder / "bin" / Path(program).stem
        out.parent.mkdir(exist_ok=True)
        if program.endswith(".py"):
            return source
        compiler = {"ranks.c": "mpicc.openmpi", "driver.cpp": "g++", "occa.cpp": "g++"}.get(program, "gcc")
        if shutil.which(compiler) is None or (program == "ranks.c" and shutil.which(MPIRUN[0]) is None):
            raise Absent(f"{compiler} is not there (tools/setup --test)")
        options: list[object] = []
        if program == "device.c":
            options = ["-lOpenCL"]
        elif program == "team.c":
            options = ["-fopenmp"]
        elif program == "driver.cpp":
            options = [f"-I{_cuda_headers()}", f"-L{self._driver()}", "-lcuda"]
        elif program == "occa.cpp":
            occa = Path(_checked(program, execute([ROOT / "tools" / "get_occa", "--print"])).stdout.strip())
            library = next(occa / lib for lib in ("lib", "lib64") if (occa / lib / "libocca.so").exists())
            options = ["-isystem", occa / "include", f"-L{library}", "-locca", f"-Wl,-rpath,{library}"]
        _checked(program, execute([compiler, "-O1", "-g", "-o", out, source, *options]))
        return out

    def _fake_driver(self) -> Path:
        """The driver of the CUDA tests (tests/fakes/cuda), without CUPTI."""
        folder = self.folder / "cuda"
        folder.mkdir(exist_ok=True)
        command = ["g++", "-std=c++17", "-O1", f"-I{_cuda_headers()}", "-shared", "-fPIC", "-fvisibility=hidden"]
        command += ["-Wl,-Bsymbolic", "-Wl,-soname,libcuda.so.1", "-o", str(folder / "libcuda.so.1")]
        _checked("driver.cpp", execute([*command, ROOT / "tests/fakes/cuda/driver.cpp", "-lpthread", "-ldl"]))
        (folder / "libcuda.so").unlink(missing_ok=True)
        (folder / "libcuda.so").symlink_to("libcuda.so.1")
        return folder


def _cuda_headers() -> Path:
    found = in_toolkit("include/cuda.h")
    if found is None:
        raise Absent("no cuda.h: neither the package nvidia-cuda-runtime nor a CUDA toolkit is installed")
    return found.parent


def _checked(what: object, done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    if done.returncode == 77:
        raise Absent("no OpenCL device")
    if done.returncode:
        raise RuntimeError(f"{what}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done
