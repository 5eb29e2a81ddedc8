"""The programs with known answers: as tools/gpu_check packed them, or built here."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.support.runs import ROOT
from tests.support.suites.cuda import compiled, in_toolkit

# Where tools/gpu_check puts them, beside the tests.
PACKED = ROOT / "programs"


def program(name: str, build: Callable[[Path], None], folder: Path) -> Path:
    """The packed one, or one that is built in a folder."""
    if (PACKED / name).exists():
        return PACKED / name
    build(folder / name)
    return folder / name


def build_known(output: Path) -> None:
    """A program of the driver API; of a compiler's libraries it needs none."""
    source = ROOT / "tests/programs/cuda/known.cpp"
    compiled(source, output, ["-ldl", "-static-libstdc++", "-static-libgcc"])


def build_static(nvcc: str, output: Path) -> None:
    """A program as nvcc makes it unless told otherwise: kernels, copies, a stream, a graph, a failure."""
    source = ROOT / "tests/programs/cuda/kernels.cu"
    command = [nvcc, "-cudart", "static", "-cudadevrt", "none", str(source), "-o", str(output)]
    if library := in_toolkit("lib/libcudart_static.a"):
        command.append(f"-L{library.parent}")
    subprocess.run(command, check=True, capture_output=True, text=True)


def build_known_ze(output: Path) -> None:
    """A program of Level Zero; it needs the loader of the machine on which it runs."""
    command = ["g++", "-std=c++17", "-O1", str(ROOT / "tests/programs/ze/known.cpp"), "-o", str(output), "-lze_loader"]
    subprocess.run([*command, "-static-libstdc++", "-static-libgcc"], check=True, capture_output=True, text=True)
