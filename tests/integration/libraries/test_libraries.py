"""Libraries on top, asked for by --trace: on a stand-in for cuBLAS with the real one's soname and names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import occatrace

ROOT = Path(__file__).resolve().parents[3]
OCCA_PROF = (sys.executable, "-m", "occatrace.cli")
MODULE = """
#include <dlfcn.h>
#include <stdlib.h>
int main(int argc, char **argv) {
  void *module = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  int (*run)(int, char **) = module ? (int (*)(int, char **))dlsym(module, "run") : NULL;
  return run ? run(argc - 1, argv + 1) : 99;
}
"""


def compiled(source: Path, output: Path, *options: str) -> Path:
    subprocess.run(["gcc", "-O1", "-Wall", str(source), "-o", str(output), *options], check=True)
    return output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, a program linked with it, and one that gets it with a module that it opens for itself alone."""
    here = tmp_path_factory.mktemp("blas")
    shared = ("-shared", "-fPIC", "-Wl,-Bsymbolic", "-Wl,-soname,libcublas.so.12")
    library = compiled(ROOT / "tests/fakes/libraries/cublas.c", here / "libcublas.so.12", *shared)
    source = ROOT / "tests/programs/libraries/blas.c"
    needs = (str(library), f"-Wl,-rpath,{here}", "-lpthread")
    compiled(source, here / "linked", *needs)
    compiled(source, here / "module.so", "-shared", "-fPIC", "-Dmain=run", *needs)
    (here / "loader.c").write_text(MODULE)
    compiled(here / "loader.c", here / "loader", "-ldl")
    return here


def profile(folder: Path, run: Path, *words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*OCCA_PROF, "-o", str(run), *map(str, words)],
        capture_output=True,
        text=True,
        env=dict(os.environ),
        timeout=300,
        check=False,
    )


EXPECTED = {
    "cublasCreate_v2": (1, 0),
    "cublasDestroy_v2": (1, 0),
    "cublasGetCudartVersion": (1000, 0),  # returns no status
    "cublasGetStatusString": (1, 0),
    "cublasSgemm_v2": (21, 1),
    "cublasGemmStridedBatchedEx": (3, 0),
}
RECORDED = {"cublasSgemm_v2": 21, "cublasGemmStridedBatchedEx": 3}
STATS = (
    "SELECT function, sum(calls)::INTEGER, sum(failed)::INTEGER FROM call_stats WHERE api = 'cublas' GROUP BY function"
)
SINGLE = "SELECT function, count(*)::INTEGER FROM calls WHERE api = 'cublas' GROUP BY function"


@pytest.mark.parametrize("mode", ["default", "full", "tally"])
def test_calls(folder: Path, tmp_path: Path, mode: str) -> None:
    done = profile(folder, tmp_path / "run", "-m", mode, "--trace", "nccl,cublas", folder / "linked")
    assert done.returncode == 0, done.stderr
    with occatrace.open(tmp_path / "run") as run:
        stats = {name: tuple(values) for name, *values in run.sql(STATS).fetchall()}
        assert stats == EXPECTED
        single = dict(run.sql(SINGLE).fetchall())
        everything = {name: calls for name, (calls, _) in EXPECTED.items()}
        assert single == {"default": RECORDED, "full": everything, "tally": {}}[mode]
        # Twenty calls of at least 2 ms, ten on each of two threads; the failed one takes nothing.
        rows = run.sql(
            "SELECT calls, total_ns FROM call_stats WHERE function = 'cublasSgemm_v2' ORDER BY calls"
        ).fetchall()
        assert [calls for calls, _ in rows] == [10, 11]
        assert all(total >= 20e6 for _, total in rows)
        errors = run.sql(
            "SELECT error, count(*) FROM failures WHERE function = 'cublasSgemm_v2' GROUP BY error"
        ).fetchall()
        assert errors == [("CUBLAS_STATUS_INVALID_VALUE", 1)]
        if mode != "tally":
            found = run.sql(
                "SELECT count(*) FROM calls WHERE failed AND error = 'CUBLAS_STATUS_INVALID_VALUE'"
            ).fetchone()
            assert found == (1,)


def test_a_library_of_a_module(folder: Path, tmp_path: Path) -> None:
    """As Python's extensions get theirs: nobody else sees it."""
    loader = folder / "loader"
    done = profile(folder, tmp_path / "run", "--trace", "cublas", loader, folder / "module.so")
    assert done.returncode == 0, done.stderr
    with occatrace.open(tmp_path / "run") as run:
        assert {name: tuple(values) for name, *values in run.sql(STATS).fetchall()} == EXPECTED


LT = """
__attribute__((visibility("default"))) int cublasLtCreate(void **handle) { return *handle = 0, 0; }
"""
USES_LT = """
int cublasLtCreate(void **handle);
int main(int argc, char **argv) {
  void *handle;
  return cublasLtCreate(&handle);
}
"""


@pytest.mark.parametrize("beside", [True, False])
def test_functions_of_a_second_library(folder: Path, tmp_path: Path, beside: bool) -> None:
    """cuBLASLt has a library of its own, which a module may have beside cuBLAS, or alone (as PyTorch's has)."""
    (tmp_path / "lt.c").write_text(LT)
    (tmp_path / "uses.c").write_text(USES_LT)
    library = tmp_path / "libcublasLt.so.12"
    compiled(tmp_path / "lt.c", library, "-shared", "-fPIC", "-Wl,-soname,libcublasLt.so.12")
    needs = [str(library), *([str(folder / "libcublas.so.12"), "-Wl,--no-as-needed"][::-1] if beside else [])]
    options = ("-shared", "-fPIC", "-Dmain=run", *needs, f"-Wl,-rpath,{tmp_path}", f"-Wl,-rpath,{folder}")
    compiled(tmp_path / "uses.c", tmp_path / "uses.so", *options)
    done = profile(folder, tmp_path / "run", "-m", "full", "--trace", "cublas", folder / "loader", tmp_path / "uses.so")
    assert done.returncode == 0, done.stderr
    with occatrace.open(tmp_path / "run") as run:
        assert run.sql(STATS).fetchall() == [("cublasLtCreate", 1, 0)]


def test_what_is_not_asked_for_is_not_there(folder: Path, tmp_path: Path) -> None:
    done = profile(folder, tmp_path / "run", folder / "linked")
    assert done.returncode == 0
    assert "it made no call of an API that is traced" in done.stderr
    shown = "grep -c liboccatrace_cublas /proc/self/maps; echo $LD_PRELOAD | grep -c nccl"
    done = profile(folder, tmp_path / "other", "-q", "--trace", "default,cublas", "sh", "-c", shown)
    assert [int(line) > 0 for line in done.stdout.split()] == [True, False]


def test_functions_are_found_only_where_they_are(folder: Path, tmp_path: Path) -> None:
    """A program that asks for functions finds those of the libraries it has, and no others."""
    done = profile(folder, tmp_path / "run", "-q", "--trace", "cublas,rocblas", folder / "linked", "ask")
    assert (done.returncode, done.stdout) == (0, "00\n"), done.stderr
