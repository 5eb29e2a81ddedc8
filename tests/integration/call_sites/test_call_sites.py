"""Where in the program calls were made: programs that tell their own lines, against the lines in the run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

import occatrace
from tests.support.runs import OCCA_PROF, ROOT, Run, execute, profiled
from tests.support.suites.mpi import MPIS, Mpi
from tests.support.suites.occa import get_occa

PROGRAMS = ROOT / "tests" / "programs" / "call_sites"
SERIAL = "{mode: 'Serial'}"
MADE = "SELECT s.function, c.line, sum(s.calls)::INTEGER FROM call_site_stats s JOIN call_sites c USING (process, site)"


def _compile(*command: object) -> None:
    subprocess.run([str(word) for word in command], check=True, timeout=300)


def _told(run: Run) -> Counter[tuple[str, int]]:
    lines = (line.split() for line in run.stderr.splitlines() if line.startswith("TRUE "))
    return Counter((function, int(line)) for _, function, line in lines)


def _found(run: Run, condition: str = "true") -> dict[tuple[str, int], int]:
    return {(function, line): n for function, line, n in run.sql(f"{MADE} WHERE {condition} GROUP BY ALL")}


@pytest.fixture(scope="module")
def opencl(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    """An optimized program in C, with its library, and its run."""
    folder = tmp_path_factory.mktemp("opencl")
    _compile("gcc", "-O2", "-g", PROGRAMS / "calls.c", "-o", folder / "calls", "-lOpenCL", "-ldl")
    _compile("gcc", "-O2", "-g", "-DLIBRARY", "-fPIC", "-shared", PROGRAMS / "calls.c", "-o", folder / "library.so")
    run = profiled(Run, folder / "run", [folder / "calls", folder / "library.so"], "-m", "full")
    return folder, run


def test_lines_of_an_optimized_program_its_library_and_its_child(opencl: tuple[Path, Run]) -> None:
    folder, run = opencl
    assert run.status == 0, run.stderr
    assert _found(run) == _told(run)
    modules = dict(run.sql("SELECT module, count(DISTINCT process) FROM call_sites GROUP BY ALL"))
    assert modules == {str(folder / "calls"): 2, str(folder / "library.so"): 1}
    assert run.sql("SELECT DISTINCT why FROM call_sites") == [("",)]
    assert run.sql("SELECT function FROM call_sites WHERE line = 20") == [("make",)]


def test_reports_by_line(opencl: tuple[Path, Run]) -> None:
    _, run = opencl
    with occatrace.open(run.folder) as opened:
        by_line = opened.report("gpu_mem_size_sum", by="line")
        names = list(by_line.columns)
        [whole] = opened.report("gpu_mem_size_sum")
    assert names[0] == "line" and "caller" not in names
    written = Counter(
        line for (function, line), n in _told(run).items() for _ in range(n) if function == "clEnqueueWriteBuffer"
    )
    assert {int(row["line"].rpartition(":")[2]): row["calls"] for row in by_line} == written
    assert sum(row["bytes"] for row in by_line) == whole["bytes"]
    # What counts calls that have no place of their own is not split.
    shown = execute([*OCCA_PROF, "report", run.folder, "--report", "api_sum", "--by", "line"])
    assert shown.returncode == 0 and "not by line: some of what it counts has none" in shown.stdout + shown.stderr


def test_reports_show_the_line(opencl: tuple[Path, Run]) -> None:
    _, run = opencl
    with_line = [line for function, line in _told(run) if function == "clEnqueueWriteBuffer"]
    shown = execute([*OCCA_PROF, "report", run.folder, "--report", "callsite_sum", "--format", "json"])
    assert shown.returncode == 0, shown.stderr
    (report,) = json.loads(shown.stdout)["reports"]
    row = report["rows"][0]
    assert (row["name"], Path(row["file"]).name, row["line"]) == ("main", "calls.c", with_line[0])
    assert (row["calls"], row["bytes"]) == (3, 3 * 4096)
    assert row["device_ns"] == run.sql("SELECT sum(end_ns - start_ns) FROM activities")[0][0]
    for name in ("gpu_mem_time_sum", "gpu_mem_size_sum", "critical_path_sum"):
        other = execute([*OCCA_PROF, "report", run.folder, "--report", name, "--format", "json"])
        (copies,) = (
            r
            for r in json.loads(other.stdout)["reports"][0]["rows"]
            if r["name"].startswith("HtoD") and r.get("kind", "copy") == "copy"
        )
        assert Path(copies["source" if name == "critical_path_sum" else "caller"]).name == f"calls.c:{with_line[0]}"
    # Of a part of the run from the single calls: of the whole of it the same.
    part = execute(
        [*OCCA_PROF, "report", run.folder, "--report", "callsite_sum", "--format", "json", "--filter-time", "0s:100s"]
    )
    assert json.loads(part.stdout)["reports"][0]["rows"] == report["rows"]
    listed = execute([*OCCA_PROF, "trace", "--lines", run.folder])
    assert sum(f"calls.c:{with_line[0]}" in line for line in listed.stdout.splitlines()) == 3


def test_annotate_shows_what_a_line_caused(opencl: tuple[Path, Run], tmp_path: Path) -> None:
    _, run = opencl
    (number,) = (line for function, line in _told(run) if function == "clEnqueueWriteBuffer")
    source = (PROGRAMS / "calls.c").read_text(encoding="utf-8").splitlines()
    shown = execute([*OCCA_PROF, "annotate", run.folder, "calls.c", "--all"])
    assert shown.returncode == 0, shown.stderr
    head, *lines = shown.stdout.splitlines()
    assert head.split() == ["Device", "Host", "Calls", "Moved", "Line", "Source"] and len(lines) == len(source)
    assert [line[45:].split()[0] for line in lines] == [str(n + 1) for n in range(len(source))]
    margin, text = lines[number - 1][:45], lines[number - 1][45:]
    assert margin.split()[-3:] == ["3", "12.00", "KiB"] and text.endswith(source[number - 1].strip())
    calls = sum(
        int(line[:45].split()[-2 if line[:45].split()[-1] == "-" else -3]) for line in lines if line[:45].strip()
    )
    assert calls == sum(_told(run).values())
    # Not below the folder of the run, and nobody's file: the lines alone.
    other = tmp_path / "run"
    shutil.copytree(run.folder, other, symlinks=True)
    listed = execute([*OCCA_PROF, "annotate", other])
    assert listed.stdout.splitlines()[1].endswith(str(PROGRAMS / "calls.c"))
    wrong = execute([*OCCA_PROF, "annotate", other, "other.c"])
    assert (
        wrong.returncode == 2
        and wrong.stderr.count("\n") == 1
        and "no recorded call was made in other.c" in wrong.stderr
    )


def test_a_program_that_was_built_again_has_no_lines(opencl: tuple[Path, Run], tmp_path: Path) -> None:
    folder, run = opencl
    again = tmp_path / "run"
    shutil.copytree(run.folder, again, symlinks=True)
    shutil.rmtree(again / "tables")
    program = folder / "calls"
    kept = tmp_path / "kept"
    program.rename(kept)
    try:
        _compile("gcc", "-O0", "-g", PROGRAMS / "calls.c", "-o", program, "-lOpenCL", "-ldl")
        other = Run(again, 0, "", "")
        rows = other.sql(f"SELECT DISTINCT function, file, line, why FROM call_sites WHERE module = '{program}'")
        assert rows == [("", "", 0, f"{program} is not the file that was run: it was built again since")]
        # What was made before keeps its lines.
        assert _found(run) == _told(run)
        shown = execute([*OCCA_PROF, "report", again, "--report", "callsite_sum"])
        assert f"calls have no lines where {program} is not the file that was run" in shown.stdout + shown.stderr
        # What has no lines says so where they are asked for.
        (folder / "library.so").rename(tmp_path / "library.so")
        shutil.rmtree(again / "tables")
        for command in (("annotate", again, "calls.c"), ("annotate", again)):
            shown = execute([*OCCA_PROF, *command])
            assert shown.returncode == 2 and shown.stderr.count("\n") == 1
            assert f"call sites have no line: {program} is not the file that was run" in shown.stderr
    finally:
        kept.replace(program)
        if (tmp_path / "library.so").exists():
            (tmp_path / "library.so").replace(folder / "library.so")


def test_a_stripped_program_has_places_in_its_file(opencl: tuple[Path, Run], tmp_path: Path) -> None:
    folder, run = opencl
    program = tmp_path / "calls"
    _compile("strip", "-s", "-o", program, folder / "calls")
    stripped = profiled(Run, tmp_path / "run", [program, folder / "library.so"], "-m", "full")
    rows = stripped.sql(f"SELECT function, file, line, why, \"offset\" FROM call_sites WHERE module = '{program}'")
    assert {row[:4] for row in rows} == {("", "", 0, "no debug information (compile with -g)")}
    ours = f"SELECT \"offset\" FROM call_sites WHERE module = '{folder / 'calls'}'"
    assert {row[4] for row in rows} == {offset for (offset,) in run.sql(ours)}


REPLACED = """#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
int main(int argc, char **argv) {
  if (argc > 1 ? rename(argv[1], argv[0]) : remove(argv[0])) return 1;
  return clGetPlatformIDs(0, 0, &(cl_uint){0}) + 0 * argc;
}
"""


@pytest.mark.parametrize(
    ("other", "function", "line", "why"),
    [
        ("same", "main", 6, ""),
        ("other", "", 0, "{} is not the file that was run: it was built again since"),
        ("", "", 0, "{} is not there (any more)"),
    ],
)
def test_a_program_that_is_replaced_while_it_runs(
    other: str, function: str, line: int, why: str, tmp_path: Path
) -> None:
    """The file that has its path by then is used if it is the same."""
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text(REPLACED)
    _compile("gcc", "-g", source, "-o", program, "-lOpenCL")
    _compile("gcc", "-g", "-O2", source, "-o", tmp_path / "other", "-lOpenCL")
    shutil.copy(program, tmp_path / "same")
    run = profiled(Run, tmp_path / "run", [program, *([tmp_path / other] if other else [])], "-m", "full")
    assert run.status == 0, run.stderr
    rows = run.sql("SELECT DISTINCT module, function, line, why FROM call_sites")
    assert rows == [(str(program), function, line, why.format(program))]


def test_libraries_that_have_a_place_in_turn(tmp_path: Path) -> None:
    _compile("gcc", "-O2", "-g", PROGRAMS / "plugins.c", "-o", tmp_path / "plugins", "-lOpenCL", "-ldl")
    plugins = {"first": (5, 4096), "second": (10, 8192), "third": (1, 64)}
    for name, (calls, size) in plugins.items():
        defined = (f"-DPLUGIN={name}", f"-DCALLS={calls}", f"-DSIZE={size}")
        _compile(
            "gcc", "-O2", "-g", "-fPIC", "-shared", *defined, PROGRAMS / "plugins.c", "-o", tmp_path / f"{name}.so"
        )
    program = [tmp_path / "plugins", "3", *(tmp_path / f"{name}.so" for name in plugins)]
    run = profiled(Run, tmp_path / "run", program, "-m", "full", "--call-paths")
    assert (run.status, run.stdout) == (0, "3\n"), run.stderr  # the same place in each round
    made = run.sql("""
        SELECT split_part(module, '/', -1), c.function, line, calls, total FROM (
            SELECT process, site, sum(calls)::INTEGER AS calls, sum(bytes)::INTEGER AS total FROM call_site_stats
            WHERE function = 'clCreateBuffer' GROUP BY ALL) JOIN call_sites c USING (process, site) ORDER BY line, calls""")
    source = (PROGRAMS / "plugins.c").read_text(encoding="utf-8").splitlines()
    [line] = [at for at, text in enumerate(source, 1) if "clCreateBuffer(" in text]
    assert sorted(made) == sorted(
        (f"{name}.so", name, line, 3 * calls, 3 * calls * size) for name, (calls, size) in plugins.items()
    )
    stacks = run.sql("""
        SELECT function, count(*) FROM path_calls JOIN call_paths USING (process, path)
        WHERE function IN ('first', 'second', 'third') GROUP BY ALL""")
    assert dict(stacks) == {name: 3 * calls for name, (calls, _) in plugins.items()}


def test_tallies_have_none(opencl: tuple[Path, Run], tmp_path: Path) -> None:
    folder, _ = opencl
    run = profiled(Run, tmp_path / "run", [folder / "calls"], "-m", "tally")
    assert run.sql("SELECT count(*) FROM call_sites") == [(0,)]


@pytest.mark.parametrize(
    ("source", "compiler", "optimized"),
    [("calls.cpp", "g++", "-O0"), ("calls.cpp", "g++", "-O2"), ("through_c.c", "gcc", "-O2")],
)
def test_lines_of_occa(source: str, compiler: str, optimized: str, tmp_path: Path) -> None:
    occa = get_occa()
    program = tmp_path / "calls"
    options = ("-I", occa / "include", "-L", occa / "lib", "-locca", f"-Wl,-rpath,{occa / 'lib'}")
    _compile(compiler, optimized, "-g", PROGRAMS / source, "-o", program, *options)
    cache = {
        "OCCA_DIR": str(occa),
        "OCCA_CACHE_DIR": os.environ.get("OCCA_CACHE_DIR", str(ROOT / "build/tests/call_sites")),
    }
    run = profiled(Run, tmp_path / "run", [program, SERIAL], **cache)
    assert run.status == 0, run.stderr
    told = _told(run)
    lines = ", ".join(str(line) for _, line in told)
    assert _found(run, f"api = 'occa' AND line IN ({lines})") == told
    assert run.sql(f"SELECT DISTINCT module FROM call_sites WHERE line IN ({lines})") == [(str(program),)]


@pytest.mark.parametrize("mpi", [mpi for mpi in MPIS if mpi.fortran], ids=lambda mpi: mpi.name)
def test_lines_of_fortran(mpi: Mpi, tmp_path: Path) -> None:
    if shutil.which(mpi.fortran) is None:
        pytest.skip(f"{mpi.fortran} is not there")
    program = tmp_path / "calls"
    source = PROGRAMS / "calls.f90"
    _compile(mpi.fortran, "-O2", "-g", source, "-o", program)
    run = profiled(Run, tmp_path / "run", [program])
    text = source.read_text(encoding="utf-8").splitlines()
    told = {line.rpartition("TRUE ")[2]: at for at, line in enumerate(text, 1) if "! TRUE" in line}
    found = run.sql(f"{MADE} WHERE s.function IN ('MPI_Allreduce', 'MPI_Barrier') GROUP BY ALL ORDER BY ALL")
    assert found == [("MPI_Allreduce", told["MPI_Allreduce"], 3), ("MPI_Barrier", told["MPI_Barrier"], 1)]


def test_lines_of_openmp(tmp_path: Path) -> None:
    source, program = PROGRAMS / "regions.c", tmp_path / "regions"
    _compile("gcc", "-O1", "-g", "-fopenmp", source, "-o", program)
    run = profiled(Run, tmp_path / "run", [program], "-m", "full")
    text = source.read_text(encoding="utf-8").splitlines()
    told = {line.rpartition("TRUE ")[2]: at for at, line in enumerate(text, 1) if "// TRUE" in line}
    found = run.sql("SELECT DISTINCT s.function, c.line FROM call_site_stats s JOIN call_sites c USING (process, site)")
    assert {("parallel", told["parallel"]), ("barrier", told["barrier"])} <= set(found)
