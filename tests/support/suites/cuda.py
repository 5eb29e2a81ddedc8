"""What the CUDA tests share: a driver on CPU threads, the programs of cases, and how they are traced.

The fake driver stands for the hardware that test machines lack; what is claimed of hardware is tested by tests/gpu.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.support import runs
from tests.support.runs import OCCA_PROF, ROOT

__all__ = ["OCCA_PROF", "ROOT"]


# A program that was run under occa_prof.
Traced = runs.Run


def in_toolkit(name: str) -> Path | None:
    """A file of the toolkit: of the packages that tools/setup installs, or of one on this system."""
    found = importlib.util.find_spec("nvidia")
    folders = [Path(p) / "cu13" for p in (found.submodule_search_locations or ())] if found else []
    return next((p / name for p in (*folders, Path("/usr/local/cuda")) if (p / name).exists()), None)


def headers() -> Path:
    """The folder of cuda.h."""
    if found := in_toolkit("include/cuda.h"):
        return found.parent
    pytest.skip("no cuda.h: neither the package nvidia-cuda-runtime nor a CUDA toolkit is installed")


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the fake driver."""
    folder = tmp_path_factory.mktemp("cuda")
    options = ["-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-Bsymbolic", "-Wl,-soname,libcuda.so.1"]
    source = ROOT / "tests/fakes/cuda/driver.cpp"
    if (headers() / "generated_cuda_meta.h").exists():
        names = functions_of(source)
        (folder / "renamed.h").write_text("".join(f"#define {name} impl_{name}\n" for name in names))
        compiled(source, folder / "driver.o", ["-c", "-fPIC", "-fvisibility=hidden", "-DRENAMED", f"-I{folder}"])
        (folder / "names.h").write_text("".join(names.values()))
        options += [f"-I{folder}", str(folder / "driver.o")]
        source = ROOT / "tests/fakes/cuda/callbacks.cpp"
    compiled(source, folder / "libcuda.so.1", [*options, "-lpthread", "-ldl"])
    (folder / "libcuda.so").symlink_to("libcuda.so.1")
    return folder


def functions_of(source: Path) -> dict[str, str]:
    """The functions of the fake driver, each with its line of the list that callbacks.cpp reads."""
    found = re.findall(r"^(API|ASYNC|BLOCKING)[ (](cu\w+)\(?([^)]*)", source.read_text(encoding="utf-8"), re.M)
    lines = {}
    for how, name, parameters in found:
        for suffix in {"API": [""], "ASYNC": ["", "_ptsz"], "BLOCKING": ["", "_ptds"]}[how]:
            without = "_WITHOUT" if parameters == "void" else ""
            lines[name + suffix] = f"FUNCTION{without}({name}{suffix})\n"
    return lines


@pytest.fixture(scope="session")
def cupti(driver: Path) -> Path:
    """The stand-in for CUPTI."""
    options = ["-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-soname,libcupti.so.12", f"-I{driver}"]
    if (driver / "names.h").exists():
        options.append(str(ROOT / "tests/fakes/cuda/cupti_records.cpp"))
    folder = driver / "cupti"
    folder.mkdir()
    return compiled(ROOT / "tests/fakes/cuda/cupti.cpp", folder / "libcupti.so.12", [*options, "-lpthread", "-ldl"])


@pytest.fixture(scope="session")
def runtime(driver: Path) -> Path:
    """The folder of the fake CUDA runtime."""
    folder = driver / "runtime"
    folder.mkdir()
    versions = folder / "versions"
    versions.write_text("libcudart.so.13 { global: cuda*; __cuda*; local: *; };\n")
    options = ["-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-Bsymbolic", "-Wl,-soname,libcudart.so.13"]
    options += [f"-Wl,--version-script={versions}", "-ldl"]
    compiled(ROOT / "tests/fakes/cuda/runtime.cpp", folder / "libcudart.so.13", options)
    (folder / "libcudart.so").symlink_to("libcudart.so.13")
    return folder


def compiler() -> str:
    """nvcc."""
    # It compiles for a device with a program of another package.
    nvcc, cicc = in_toolkit("bin/nvcc"), in_toolkit("nvvm/bin/cicc")
    found = str(nvcc) if nvcc and cicc else shutil.which("nvcc")
    if not found:
        pytest.skip(
            "no nvcc: neither the packages nvidia-cuda-nvcc, -crt and nvidia-nvvm nor a CUDA toolkit is installed"
        )
    return found


@pytest.fixture(scope="session")
def nvcc() -> str:
    """The compiler."""
    return compiler()


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
        changes = {"LD_LIBRARY_PATH": str(driver), "OCCATRACE_DEVICE_TIME": "events", **(env or {})}
        return runs.profiled(Traced, tmp_path / "run", command, "--force", *options, **changes)

    return run
