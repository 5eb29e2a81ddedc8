"""APIs whose library was loaded and of which nothing was seen: the end of a run names them, and nothing else."""

from __future__ import annotations

import shutil
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


def test_a_program_that_ends_by__exit(folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "leaves.c"
    source.write_text(
        "#include <dlfcn.h>\n#include <sys/wait.h>\n#include <unistd.h>\nint main(int n, char **v) {"
        " if (n < 2 || !dlopen(v[1], RTLD_NOW)) return 1;"
        # A child of fork has loaded the library, too, and is not the one that could have used it.
        " if (fork() == 0) _exit(0); wait(0); _exit(3); }"
    )
    program = tmp_path / "leaves"
    subprocess.run(["gcc", "-o", program, source, "-ldl"], check=True)
    command = [*OCCA_PROF, "-o", str(tmp_path / "run"), str(program), str(folder / "libmpi.so.40")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 3
    (line,) = (line for line in done.stderr.splitlines() if "no call of it was seen" in line)
    assert "MPI: process " in line and "," not in line.partition(" loaded ")[0]


@pytest.mark.skipif(shutil.which("ompi_info") is None, reason="no Open MPI")
def test_mpis_own_program_is_not_one_that_lacks_calls(tmp_path: Path) -> None:
    """Libraries start it to learn of what MPI can do (heat, as it is imported)."""
    command = [*OCCA_PROF, "-o", str(tmp_path / "run"), "sh", "-c", "ompi_info --version; true"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0 and "Open MPI" in done.stdout
    assert "no call of it was seen" not in done.stderr


STATIC = {
    "mpi": ("MPI", "c", "int MPI_Init(int *n, char ***v) { return !n || !v; }", "MPI_Init(&n, &v)"),
    "fortran": ("MPI", "c", "void mpi_init_(int *e) { *e = 0; }", "(mpi_init_(&n), 0)"),
    "occa": (
        "OCCA",
        "c++",
        "namespace occa { struct kernel { void run() const; }; void kernel::run() const {} }",
        "(occa::kernel().run(), 0)",
    ),
}


@pytest.mark.parametrize("case", STATIC)
@pytest.mark.parametrize("stripped", [False, True])
def test_a_library_inside_the_program(case: str, stripped: bool, tmp_path: Path) -> None:
    title, language, library, call = STATIC[case]
    end = "c" if language == "c" else "cpp"
    declared = (
        library.partition("{")[0] + ";"
        if language == "c"
        else "namespace occa { struct kernel { void run() const; }; }"
    )
    (tmp_path / f"library.{end}").write_text(library)
    (tmp_path / f"main.{end}").write_text(f"{declared}\nint main(int n, char **v) {{ (void)v; return {call}; }}")
    compiler = "gcc" if language == "c" else "g++"
    subprocess.run([compiler, "-c", f"library.{end}"], cwd=tmp_path, check=True)
    subprocess.run(["ar", "rc", "liblibrary.a", "library.o"], cwd=tmp_path, check=True)
    options = ["-s"] if stripped else []
    subprocess.run([compiler, *options, "-o", "main", f"main.{end}", "-L.", "-llibrary"], cwd=tmp_path, check=True)
    command = [*OCCA_PROF, "-o", str(tmp_path / "run"), str(tmp_path / "main")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    lines = [line for line in done.stderr.splitlines() if "its calls are not recorded" in line]
    # A stripped program does not say what it has.
    assert len(lines) == (0 if stripped else 1)
    if lines:
        assert f"{title}: process " in lines[0] and f"linked into {tmp_path / 'main'}" in lines[0]
