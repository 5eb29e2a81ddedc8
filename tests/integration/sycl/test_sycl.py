"""SYCL by XPTI: a fake framework that says what a runtime says, and, where there is one, DPC++'s runtime with Intel's OpenCL for
CPUs (of PyPI, as tools/acceptance installs it, or in the environment that OCCATRACE_TEST_SYCL names)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import occatrace
from tests.support.perfetto_check import check
from tests.support.suites.opencl import OCCA_PROF, ROOT, Profile, Run, native, profile

__all__ = ["profile"]
PROGRAMS = ROOT / "tests" / "programs" / "sycl"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "occatrace" / "acceptance"


def report(run: Run, name: str) -> list[dict[str, Any]]:
    """The rows of a report, by the names of its columns."""
    with occatrace.open(run.folder) as opened:
        return list(opened.report(name, names="demangled"))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program and the framework that it speaks to."""
    folder = tmp_path_factory.mktemp("told")
    library, program = folder / "libxptifw.so", folder / "told"
    fake = ROOT / "tests" / "fakes" / "sycl" / "xpti.cpp"
    subprocess.run(["g++", "-std=c++17", "-O1", "-shared", "-fPIC", fake, "-o", library], check=True)
    linked: list[str | Path] = [library, "-Wl,-rpath,$ORIGIN", "-lOpenCL"]
    subprocess.run(["gcc", "-O1", PROGRAMS / "told.c", "-o", program, *linked], check=True)
    return program


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mapping[str, str]]:
    """An environment of Python with dpnp, and what its programs need to find Intel's OpenCL."""
    given = os.environ.get("OCCATRACE_TEST_SYCL")
    places = [Path(given)] if given else sorted(CACHE.glob("venv-*"))
    found = [p for p in places if (p / "lib/libsycl.so").exists() and (p / "lib/libintelocl.so").exists()]
    if not found:
        pytest.skip("needs PyPI's dpnp and intel-opencl-rt: `tools/acceptance dpnp`, or OCCATRACE_TEST_SYCL=VENV")
    vendors = tmp_path_factory.mktemp("vendors")
    (vendors / "intel.icd").write_text(f"{found[0]}/lib/libintelocl.so\n")
    return found[0], {"OCL_ICD_VENDORS": str(vendors)}


def test_commands_with_their_lines_and_work(told: Path, profile: Profile) -> None:
    run = profile(told)
    assert run.truth == native(told).truth == {"shared": 1}
    assert run.lost == 0
    run.check_times()
    assert run.sql(
        "select operation, command, name, function, source, sycl_queue from sycl_calls order by start_ns"
    ) == [
        ("malloc", None, "", "main", "told.cc:11", None),
        ("submit", 2, "ns::scale<float>", "", "told.cc:21", 7),
        ("submit", 3, "ns::scale<float>", "", "told.cc:21", 7),
        ("submit", 5, "memcpy", "", "", 7),
        ("wait", None, "", "main", "told.cc:31", None),
    ]
    assert run.sql("select command, after from sycl_dependencies") == [(3, 2)]
    # The third fill is no command's.
    times = "select coalesce(sum(end_ns - start_ns), 0)::BIGINT from activities where bytes = {}"
    ((fills,),), ((read,),) = run.sql(times.format(4096)), run.sql(times.format(64))
    rows = report(run, "sycl_sum")
    assert {row["name"]: (row["calls"], row["device_ns"], row["dependencies"], row["source"]) for row in rows} == {
        "ns::scale<float>": (2, fills, 1, "told.cc:21"),
        "memcpy": (1, read, None, ""),
    }
    (row,) = report(run, "sycl_mem_sum")
    assert (row["bytes"], row["never_freed"], row["kind"], row["source"]) == (12288, 12288, "svm", "told.cc:11")


def test_the_timeline_calls_commands_by_their_kernels(told: Path, profile: Profile, tmp_path: Path) -> None:
    run = profile(told)
    path = tmp_path / "told.pftrace"
    subprocess.run([*OCCA_PROF, "timeline", str(run.folder), "-o", str(path)], check=True, capture_output=True)
    slices = [s for s in check(path).slices if s.category == "sycl"]
    assert sorted(s.name for s in slices) == [
        "malloc in main",
        "submit memcpy",
        "submit ns::scale",
        "submit ns::scale",
        "wait in main",
    ]
    assert {dict(s.arguments)["source"] for s in slices if s.name == "submit ns::scale"} == {"told.cc:21"}


def test_a_command_that_never_ends(told: Path, profile: Profile) -> None:
    run = profile(told, "cut")
    assert run.status == 0
    assert run.sql("select operation from sycl_calls") == [("malloc",)]
    assert "were lost" not in run.stderr


def test_calls_that_exceptions_have_left(told: Path, profile: Profile) -> None:
    run = profile(told, "thrown")
    assert run.status == 0 and "were lost" not in run.stderr
    assert run.sql("select operation, count(*) from sycl_calls group by 1 order by 1") == [
        ("malloc", 1),
        ("submit", 3),
        ("wait", 41),
    ]


def test_counted(told: Path, profile: Profile) -> None:
    run = profile(told, mode="minimal")
    assert run.status == 0
    assert run.sql("select function, sum(calls) from call_stats where api = 'sycl' group by 1 order by 1") == [
        ("malloc", 1),
        ("submit", 3),
        ("wait", 1),
    ]


def test_another_tool_keeps_its_place(told: Path, profile: Profile, tmp_path: Path) -> None:
    tool = tmp_path / "tool.so"
    source = tmp_path / "tool.c"
    source.write_text(
        "#include <stdio.h>\nvoid xptiTraceInit(unsigned a, unsigned b, const char *c, const char *s)"
        ' {(void)a, (void)b, (void)c; fprintf(stderr, "tool: %s\\n", s);}\nvoid xptiTraceFinish(const char *s) {(void)s;}\n'
    )
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tool, source], check=True)
    run = profile(told, XPTI_SUBSCRIBERS=str(tool), XPTI_TRACE_ENABLE="1")
    assert "tool: sycl\n" in run.stderr
    assert run.sql("select count(*) from sycl_calls") == [(0,)]
    assert run.bytes_of("fill") == 2 * 4096 + 1024


def test_lines_of_the_real_runtime(runtime: tuple[Path, Mapping[str, str]], profile: Profile, tmp_path: Path) -> None:
    place, environment = runtime
    if shutil.which("g++") is None or not (place / "include/sycl/sycl.hpp").exists():
        pytest.skip("needs g++ and the headers of SYCL")
    program = tmp_path / "lines"
    libraries = [f"-L{place}/lib", "-lsycl", f"-Wl,-rpath,{place}/lib", f"-Wl,-rpath-link,{place}/lib"]
    options = ["-std=c++17", "-w", f"-I{place}/include"]
    subprocess.run(["g++", *options, PROGRAMS / "lines.cpp", "-o", program, *libraries], check=True)
    environment = {**environment, "LD_LIBRARY_PATH": str(place / "lib")}
    run = profile(program, **environment)
    assert run.truth == native(program, **environment).truth
    assert run.lost == 0
    line = run.truth["line"]
    commands = [row for row in report(run, "sycl_sum") if row["calls"]]
    assert {(row["name"], row["source"].rpartition("/")[2], row["calls"]) for row in commands} == {
        ("fill usm", f"lines.cpp:{line + 5}", 3),
        ("copy usm", f"lines.cpp:{line + 9}", 3),
        ("host task", f"lines.cpp:{line + 14}", 1),
    }
    # Each but the first waits for the one before.
    assert run.sql("select count(*) from sycl_dependencies") == [(6,)]
    assert sum(row["device_ns"] or 0 for row in commands) == sum(
        row["end"] - row["start"] for row in run.activities if row["kind"] in ("fill", "DtoH")
    )
    assert run.bytes_of("fill") == run.bytes_of("DtoH") == 3 * 4096
    allocated = {row["source"].rpartition("/")[2]: row for row in report(run, "sycl_mem_sum")}
    assert {source: (row["bytes"], row["never_freed"], row["kind"]) for source, row in allocated.items()} == {
        f"lines.cpp:{line + 1}": (4096, None, "device"),
        f"lines.cpp:{line + 2}": (1024, 1024, "managed"),
    }


def test_kernels_of_dpnp_take_what_their_events_say(runtime: tuple[Path, Mapping[str, str]], profile: Profile) -> None:
    place, environment = runtime
    run = profile(place / "bin/python", PROGRAMS / "known_times.py", **environment)
    truth = run.truth
    assert truth["last"] == 20.0 and run.lost == 0
    found = {row["name"]: (row["calls"], row["device_ns"]) for row in report(run, "sycl_sum")}
    kernel = "dpnp::tensor::kernels::constructors::linear_sequence_step_kernel"
    for name, expected in ((kernel, truth["linspace"]), ("fill usm", truth["full"])):
        ((calls, device_ns),) = [of for title, of in found.items() if title.startswith(name)]
        assert calls == expected[0]
        assert device_ns == pytest.approx(expected[1], rel=0.01)
    assert set(run.kernels) and all("typeinfo" not in name for name in found)
