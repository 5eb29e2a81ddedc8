"""Calls from C and Fortran into Python, against programs that say themselves what they did and when."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.support.suites.python import PROGRAMS, Profile


@pytest.fixture(scope="session")
def border(example: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """border.c with its Fortran, and its Python behind CFFI."""
    cffi = pytest.importorskip("cffi")

    folder = tmp_path_factory.mktemp("border")
    builder = cffi.FFI()
    builder.embedding_api((PROGRAMS / "spins.h").read_text().split("*/")[1])
    builder.set_source("embedded_spins", '#include "spins.h"', include_dirs=[str(PROGRAMS)])
    builder.embedding_init_code(
        f"import sys; sys.path[:0] = [{str(PROGRAMS)!r}]\nfrom embedded_spins import ffi\nimport spins\nspins.define(ffi)"
    )
    builder.compile(tmpdir=str(folder), target="libspins.so")
    words = ["gcc", "-O1", PROGRAMS / "border.c", "-c", "-o", folder / "border.o"]
    subprocess.run([str(word) for word in words], check=True)
    words = ["gfortran", "-O1", folder / "border.o", PROGRAMS / "spin.f90", "-o", folder / "border"]
    words += [f"-L{folder}", "-lspins", f"-Wl,-rpath,{folder}"]
    subprocess.run([str(word) for word in words], check=True)
    return folder / "border"


def test_known_times_in_fortran_c_and_python(border: Path, profile: Profile) -> None:
    run = profile(border)
    lines = [line.split() for line in run.stdout.splitlines()]
    spins = [(where, int(begin), int(end), int(inside)) for where, begin, end, inside in lines]
    around = [spin for spin in spins if spin[0] == "python"]
    name = "spins.define.<locals>.spin_in_python"
    calls = [row for row in run.calls("border") if row["name"] == name]
    assert len(calls) == 21 and len(around) == 20
    assert [row["failed"] for row in calls] == [False] * 20 + [True]
    for row, (_, begin, end, inside) in zip(calls, around, strict=False):
        assert begin <= row["start_ns"] < row["end_ns"] <= end  # within what C saw of it
        assert row["ns"] >= inside  # and no less than Python spun
    # Nothing of C or Fortran is in any call across the border, nor in the start of the interpreter.
    python = [*run.calls("border"), *run.calls("start")]
    for where, begin, end, _ in spins:
        if where != "python":
            assert all(row["end_ns"] <= begin or row["start_ns"] >= end for row in python), where
    row = next(row for row in run.report("python_sum") if row["name"] == name)
    assert (row["calls"], row["failed"], row["part"]) == (21, 1, "calls from C or Fortran")
    assert row["first_ns"] == calls[0]["ns"] and row["total_ns"] == sum(call["ns"] for call in calls)
    assert (row["min_ns"], row["max_ns"]) == (min(c["ns"] for c in calls), max(c["ns"] for c in calls))
    assert row["others_ns"] == pytest.approx((row["total_ns"] - row["first_ns"]) / 20)
    assert row["source"] == f"{PROGRAMS / 'spins.py'}:15"
    # The interpreter started at the first call: within what C saw of it.
    (start,) = run.calls("start")
    assert around[0][1] <= start["start_ns"] < start["end_ns"] < calls[0]["start_ns"]
    whole = next(row for row in run.report("python_time_sum") if row["name"] == "in all")
    assert whole["total_ns"] == sum(row["ns"] for row in run.calls("border"))


def test_a_python_that_is_loaded_later(border: Path, profile: Profile) -> None:
    program = border.with_name("late")
    subprocess.run(["gcc", "-O1", PROGRAMS / "late.c", "-o", program, "-ldl"], check=True)
    run = profile(program, border.with_name("libspins.so"))
    assert run.stdout == "01\n"  # no program is told of a Python that it does not have
    names = [row["name"] for row in run.calls("border")]
    assert names.count("spins.define.<locals>.spin_in_python") == 3 and len(run.calls("start")) == 1


def test_every_way_to_call(embed: Callable[..., Path], profile: Profile) -> None:
    program = embed("direct.c")
    run = profile(program)
    assert run.stdout == "right\n"
    counts: dict[str, int] = {}
    for row in run.calls("border"):
        counts[row["name"]] = counts.get(row["name"], 0) + 1
    assert counts == {
        "PyRun_SimpleString": 1,
        "import mine": 1,
        "mine.total": 4,
        "module.total": 1 + 4 * 10,
        "module.Thing": 1,
        "mine.Thing.method": 1,
        "mine.nested": 1,  # what it calls is inside
        "module.fails": 1,
    }
    by_thread = run.rows(
        "SELECT count(*) AS n FROM python_calls WHERE name = 'module.total' GROUP BY thread ORDER BY n DESC"
    )
    assert [row["n"] for row in by_thread] == [10, 10, 10, 10, 1]
    assert [row["name"] for row in run.calls("border") if row["failed"]] == ["module.fails"]
    assert len(run.calls("finalize")) == 1 and len(run.calls("start")) == 1
    assert run.rows("SELECT * FROM losses") == []
    untouched = profile(program, python=("off",))
    assert untouched.stdout == "right\n" and not untouched.folder.joinpath("tables", "python_calls.parquet").exists()


def test_a_program_of_python_has_no_border(profile: Profile) -> None:
    """Extension modules call into Python too; that is no call from outside."""
    program = (
        "import functools; print(functools.reduce(lambda a, b: a + b, range(10)), sorted([2, 1], key=lambda x: x))"
    )
    run = profile(sys.executable, "-c", program)
    assert run.stdout == "45 [1, 2]\n" and run.calls("border") == []


@pytest.fixture(scope="session")
def called(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Folder of libcalled.so, a Python that pybind11 or Cython starts; or of a program with the latter in it (way "linked in")."""

    @cache
    def built(way: str) -> Path:
        folder = tmp_path_factory.mktemp("called")
        flags = [f"-I{sysconfig.get_paths()['include']}", f"-I{PROGRAMS}", f'-DFOLDER="{PROGRAMS}"']
        if way == "pybind11":
            pybind11 = pytest.importorskip("pybind11")
            words: list[str | Path] = [
                "g++",
                *flags,
                f"-I{pybind11.get_include()}",
                "-std=c++17",
                "-fvisibility=hidden",
            ]
            words += [PROGRAMS / "by_pybind11.cpp"]
        else:
            if importlib.util.find_spec("Cython") is None:
                pytest.skip("needs Cython")
            translate = [sys.executable, "-m", "cython", PROGRAMS / "spun.pyx", "-o", folder / "spun.c"]
            subprocess.run([str(word) for word in translate], check=True, capture_output=True)
            words = ["gcc", *flags, PROGRAMS / "by_cython.c", folder / "spun.c"]
        if way == "linked in":
            words += [PROGRAMS / "caller.c", "-o", folder / "caller"]
        else:
            words += ["-shared", "-fPIC", "-o", folder / "libcalled.so"]
        libpython = sysconfig.get_config_var("LIBDIR")
        words += [
            f"-L{libpython}",
            f"-Wl,-rpath,{libpython}",
            f"-lpython{sys.version_info.major}.{sys.version_info.minor}",
        ]
        subprocess.run([str(word) for word in words], check=True)
        return folder

    return built


def caller(language: str, folder: Path, target: Path) -> Path:
    """caller.c or caller.f90 with libcalled.so."""
    if language == "f90" and not shutil.which("gfortran"):
        pytest.skip("needs gfortran")
    compiler = ["gfortran"] if language == "f90" else ["gcc"]
    words = [
        *compiler,
        "-O1",
        PROGRAMS / f"caller.{language}",
        "-o",
        target,
        f"-L{folder}",
        "-lcalled",
        f"-Wl,-rpath,{folder}",
    ]
    subprocess.run([str(word) for word in words], check=True)
    return target


@pytest.mark.parametrize(
    ("way", "language", "name"),
    [
        ("pybind11", "c", "spins.spin"),
        ("pybind11", "f90", "spins.spin"),
        ("cython", "c", "spin_in_python"),
        ("cython", "f90", "spin_in_python"),
        ("linked in", "c", "spin_in_python"),
    ],
)
def test_started_by_pybind11_and_cython(
    way: str, language: str, name: str, called: Callable[[str], Path], profile: Profile, tmp_path: Path
) -> None:
    folder = called(way)
    run = profile(folder / "caller" if way == "linked in" else caller(language, folder, tmp_path / "caller"))
    lines = [line.split() for line in run.stdout.splitlines()]
    around = [(int(begin), int(end), int(inside)) for where, begin, end, inside in lines if where == "python"]
    (alone,) = [(int(begin), int(end)) for where, begin, end, _ in lines if where == "alone"]
    (start,) = run.calls("start")
    assert start["start_ns"] < start["end_ns"] <= around[0][0] and len(run.calls("finalize")) == 1
    calls = [row for row in run.calls("border") if row["name"] == name]
    assert len(calls) == len(around) == 12
    for row, (begin, end, inside) in zip(calls, around, strict=True):
        assert begin <= row["start_ns"] < row["end_ns"] <= end and row["ns"] >= inside and not row["failed"]
    assert all(
        row["end_ns"] <= alone[0] or row["start_ns"] >= alone[1]
        for row in [*run.calls("border"), *run.calls("finalize")]
    )
    assert {"spins", "spun"} & {row["name"] for row in run.calls("import")}
    assert run.rows("SELECT * FROM losses") == []
