"""APIs whose library was loaded and of which nothing was seen: the end of a run names them, and nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.runs import OCCA_PROF

TITLES = {
    "libcuda.so.1": "CUDA",
    "libamdhip64.so.5": "HIP",
    "libocca.so": "OCCA",
    "libmpi.so.40": "MPI",
    "libmpich.so.12": "MPI",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that opens the library of its argument, and libraries that have nothing in them."""
    folder = tmp_path_factory.mktemp("unseen")
    (folder / "empty.c").write_text("int nothing_of_ours;")
    source = "#include <dlfcn.h>\nint main(int n, char **v) { return n > 1 && !dlopen(v[1], RTLD_NOW); }"
    (folder / "opens.c").write_text(source)
    for name in (*TITLES, "libomp.so.5", "libother.so"):
        subprocess.run(["gcc", "-shared", "-o", folder / name, folder / "empty.c"], check=True)
    subprocess.run(["gcc", "-o", folder / "opens", folder / "opens.c", "-ldl"], check=True)
    return folder


def said(folder: Path, run: Path, library: str, *words: str, prefix: tuple[str, ...] = ()) -> list[str]:
    """What occa_prof says of a run that opens a library."""
    command = [*prefix, *OCCA_PROF, *words, "-o", str(run), str(folder / "opens"), str(folder / library)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return done.stderr.splitlines()


@pytest.mark.parametrize(("library", "title"), TITLES.items())
def test_a_library_that_was_loaded_is_named(library: str, title: str, folder: Path, tmp_path: Path) -> None:
    lines = said(folder, tmp_path / "run", library)
    (line,) = (line for line in lines if "no call of it was seen" in line)
    assert f"{title}: process " in line and f" loaded {folder / library}, " in line
    assert any("it made no call of an API that is traced" in line for line in lines)


def test_tools_that_are_kept_out_are_the_reason(folder: Path, tmp_path: Path) -> None:
    lines = said(folder, tmp_path / "run", "libomp.so.5", prefix=("env", "OMP_TOOL=disabled"))
    assert [line for line in lines if "OpenMP is not recorded in process " in line and "OMP_TOOL=disabled" in line]


@pytest.mark.parametrize(
    ("library", "words"),
    [("libother.so", ()), ("libomp.so.5", ()), ("libocca.so", ("--trace", "opencl"))],
)
def test_nothing_else_is_named(library: str, words: tuple[str, ...], folder: Path, tmp_path: Path) -> None:
    lines = said(folder, tmp_path / "run", library, *words)
    assert any("it made no call of an API that is traced" in line for line in lines)
    assert not any("no call of it was seen" in line or "is not recorded" in line for line in lines), lines
