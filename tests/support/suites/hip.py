"""What the HIP tests share: a runtime on CPU threads, the programs of cases as clang compiles HIP, and how they are traced.

The stand-in is for the hardware that test machines lack. Vendor's headers, and its runtime where a test says so, are of the
package libamdhip64-dev.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.support import runs
from tests.support.runs import ROOT

Run = Callable[..., runs.Run]

HEADER = Path("/usr/include/hip/hip_runtime_api.h")


def compile_for_host(clang: str, source: Path, output: Path, *options: object) -> Path:
    """A HIP program without code for a device: what stands for it is never looked at."""
    image = output.with_suffix(".image")
    image.write_text("no code")
    command = [clang, "-w", "-std=c++17", "-x", "hip", "--offload-host-only", "-nogpulib", "-D__HIP_PLATFORM_AMD__"]
    command += ["-Xclang", "-fcuda-include-gpubinary", "-Xclang", str(image), str(source), "-o", str(output)]
    done = subprocess.run([*command, *map(str, options)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return output


@pytest.fixture(scope="session")
def clang() -> str:
    """A compiler of HIP, where its headers are too."""
    found = shutil.which("clang++-19") or shutil.which("clang++")
    if not found or not HEADER.exists():
        pytest.skip("needs clang-19 and libamdhip64-dev")
    return found


@pytest.fixture(scope="session")
def runtime(clang: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the fake runtime."""
    folder = tmp_path_factory.mktemp("hip")
    library = folder / "libamdhip64.so.5"
    fake = ROOT / "tests/fakes/hip"
    command = ["g++", "-std=c++17", "-O1", "-w", str(fake / "runtime.cpp"), "-o", str(library), "-shared", "-fPIC"]
    command += ["-fvisibility=hidden", "-Wl,-Bsymbolic", "-Wl,-soname,libamdhip64.so.5"]
    command += [f"-Wl,--version-script={fake / 'runtime.map'}", "-lpthread", "-ldl"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    (folder / "libamdhip64.so").symlink_to(library.name)
    return folder


@pytest.fixture(scope="session")
def cases(clang: str, runtime: Path) -> Path:
    """The program of cases."""
    return compile_for_host(
        clang,
        ROOT / "tests/programs/hip/cases.hip",
        runtime / "cases",
        f"-L{runtime}",
        "-lamdhip64",
        "-lpthread",
        "-ldl",
    )


@pytest.fixture
def traced(runtime: Path, tmp_path: Path) -> Run:
    """Runs a program under occa_prof with the fake runtime on the library path."""

    def run(*command: str | Path, options: tuple[str, ...] = (), env: Mapping[str, str] | None = None) -> runs.Run:
        changes = {"LD_LIBRARY_PATH": str(runtime), "OCCATRACE_DEVICE_TIME": "events", **(env or {})}
        return runs.profiled(runs.Run, tmp_path / "run", command, "--force", *options, **changes)

    return run
