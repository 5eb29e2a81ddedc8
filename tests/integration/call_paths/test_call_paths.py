"""The stack of the program at its calls (--call-paths) and in samples (--sample-stacks): programs that tell their own stack."""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import occatrace
from tests.support.interpreters import interpreters
from tests.support.runs import OCCA_PROF, ROOT, Run, execute, profiled
from tests.support.suites.mpi import MPIS, Mpi
from tests.support.suites.occa import get_occa

PROGRAMS = ROOT / "tests" / "programs" / "call_paths"
# (Of code by link-time optimization binutils do not know the file.)
STACKS = """
    SELECT c.bytes, coalesce(string_agg(p.function || ':' || p.line, ' ' ORDER BY p.depth)
               FILTER (p.file LIKE '%{source}' OR p.file LIKE '%<artificial>'), '') AS stack,
           string_agg(DISTINCT p.cut, ', ') FILTER (p.cut != '') AS cut, count(DISTINCT w.path) AS paths
    FROM calls c JOIN path_calls w USING (thread, seq) JOIN call_paths p ON p.process = w.process AND p.path = w.path
    WHERE c.function IN ('{function}', 'clCreateBuffer') AND c.bytes < 2000 GROUP BY c.process, c.thread, c.seq, c.bytes"""
# Of 3.10 the frames of the interpreter are shown.
WITH_FRAMES = interpreters(11)
COMPILERS = (
    ("gcc", "-O0"),
    ("gcc", "-O2", "-fomit-frame-pointer"),
    ("gcc", "-O3", "-flto", "-fno-omit-frame-pointer"),
    ("clang-15", "-O2"),
)


def _compile(*command: object) -> None:
    subprocess.run([str(word) for word in command], check=True, timeout=300)


def _told(run: Run) -> dict[int, str]:
    lines = (line.split(" ", 2) for line in run.stderr.splitlines() if line.startswith("TRUE "))
    return {int(words[1]): words[2] for words in lines}


@pytest.mark.parametrize("compiler", COMPILERS, ids=" ".join)
def test_stacks_of_c(compiler: tuple[str, ...], tmp_path: Path) -> None:
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"{compiler[0]} is not there")
    program = tmp_path / "paths"
    _compile(*compiler, "-g", PROGRAMS / "paths.c", "-o", program, "-lOpenCL", "-pthread")
    run = profiled(Run, tmp_path / "run", [program], "--call-paths")
    assert run.status == 0, run.stderr
    told = _told(run)
    rows = run.sql(STACKS.format(source="paths.c", function="clEnqueueWriteBuffer"))
    assert {n: stack for n, stack, _, _ in rows} == told and len(rows) == len(told) == 40
    # Generated code has no table: there the stack ends, and says so.
    assert [(n, cut) for n, _, cut, _ in rows if cut] == [(max(told) - 1, "no unwind table")]


# The samples of programs that take them themselves (take_sample.c), by the number of periods for which they stand.
SAMPLES = """
    SELECT s.cpu_ns // 1000000000 AS n, coalesce(string_agg(f.function || ':' || f.line, ' ' ORDER BY f.depth)
               FILTER ((f.file LIKE '%{source}' OR f.file LIKE '%<artificial>') AND f.function != 'take_sample'), '') AS stack
    FROM stack_samples s JOIN joined_frames f USING (process, path, frame) GROUP BY s.process, s.thread, s.time_ns, n ORDER BY n"""


def _sampled(source: str, run: Run) -> list[tuple[int, str]]:
    with occatrace.open(run.folder) as opened:
        return opened.sql(SAMPLES.format(source=source)).fetchall()


@pytest.mark.parametrize("compiler", COMPILERS, ids=" ".join)
def test_samples_of_c(compiler: tuple[str, ...], tmp_path: Path) -> None:
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"{compiler[0]} is not there")
    program = tmp_path / "paths"
    sources = (PROGRAMS / "paths.c", PROGRAMS / "take_sample.c")
    _compile(*compiler, "-g", "-DSAMPLED", *sources, "-o", program, "-lOpenCL", "-pthread")
    run = profiled(Run, tmp_path / "run", [program], "--sample-stacks=1")
    assert run.status == 0, run.stderr
    told = _told(run)
    rows = _sampled("paths.c", run)
    assert dict(rows) == told and len(rows) == len(told) == 40


def test_samples_of_fortran(tmp_path: Path) -> None:
    if shutil.which("gfortran") is None:
        pytest.skip("gfortran is not there")
    source, program = PROGRAMS / "sampled.f90", tmp_path / "sampled"
    _compile("gcc", "-O2", "-g", "-c", PROGRAMS / "take_sample.c", "-o", tmp_path / "take_sample.o")
    _compile("gfortran", "-O2", "-g", source, tmp_path / "take_sample.o", "-o", program, "-lOpenCL")
    run = profiled(Run, tmp_path / "run", [program], "--sample-stacks=1")
    assert run.status == 0, run.stderr
    text = source.read_text(encoding="utf-8").splitlines()
    at = {line.rpartition("TRUE ")[2]: n for n, line in enumerate(text, 1) if "! TRUE" in line}
    outer, sample = f"step:{at['outer']} ", f"step:{at['sample']}"
    # Below the C function main, which gfortran makes.
    found = [(n, stack.partition(" ")[2]) for n, stack in _sampled("sampled.f90", run)]
    assert found == [(n, f"sampled:{at['main']} " + outer * (n - 1) + sample) for n in range(1, 4)]


@pytest.mark.parametrize("python", WITH_FRAMES, ids=os.path.basename)
def test_samples_of_python(python: str, tmp_path: Path) -> None:
    """Frames of Python, also of code that is gone when the sample is written, and below them those of the C functions they called."""
    library, program = tmp_path / "take_sample.so", PROGRAMS / "sampled.py"
    _compile("gcc", "-O2", "-g", "-shared", "-fPIC", PROGRAMS / "take_sample.c", "-o", library)
    run = profiled(Run, tmp_path / "run", [python, program, library], "--sample-stacks=1")
    assert run.status == 0 and run.stdout == execute([python, program, library]).stdout, run.stderr
    told = _told(run)
    rows = _sampled("sampled.py", run)
    assert dict(rows) == told and len(rows) == len(told) == 15
    with occatrace.open(run.folder) as opened:
        inner = "SELECT DISTINCT bool_and(f.depth > g.depth) FROM joined_frames f JOIN joined_frames g USING (process, path, frame)"
        assert opened.sql(f"{inner} WHERE f.function = 'take_sample' AND g.python").fetchall() == [(True,)]
        # What C called by Python has called is between the two.
        [(stack,)] = opened.sql("""
            SELECT string_agg(function, ' ' ORDER BY depth) FROM joined_frames
            WHERE (process, path, frame) IN (SELECT process, path, frame FROM joined_frames WHERE frame != 0 AND function = 'call_back')
            AND (python OR function IN ('call_back', 'take_sample')) GROUP BY process, path, frame""").fetchall()
        assert stack == "<module> " + "𐐀 call_back 𐐀.<locals>.<lambda> " * 2 + "leaf take_sample"
        modules = (
            "SELECT count(*) FROM joined_frames WHERE frame != 0 AND regexp_matches(module, '/(lib)?python3[^/]*$')"
        )
        assert opened.sql(modules).fetchall() == [(0,)]


def _path_arguments(run: Run, folder: Path, name: str) -> list[str]:
    """The argument `call path` of slices in a timeline."""
    done = execute([*OCCA_PROF, "timeline", run.folder, "-o", folder / "timeline.csv"])
    assert done.returncode == 0, done.stderr
    with (folder / "timeline.csv").open(encoding="utf-8", newline="") as file:
        return [row["call path"] for row in csv.DictReader(file) if row["name"] == name]


def test_stacks_through_python_to_mpi(tmp_path: Path) -> None:
    """Below Python's lines the frames of the extension, without those of the interpreter; reports name the line of Python."""
    pytest.importorskip("mpi4py")
    mpi = next((mpi for mpi in MPIS if mpi.library and mpi.there), None)
    if mpi is None:
        pytest.skip("no MPI is there")
    program = PROGRAMS / "barrier.py"
    run = profiled(
        Run,
        tmp_path / "run",
        [sys.executable, program],
        "--call-paths=mpi",
        "--python=lines",
        MPI4PY_LIBMPI=mpi.library,
    )
    assert run.status == 0, run.stderr
    text = program.read_text(encoding="utf-8").splitlines()
    at = {line.rpartition("TRUE ")[2]: n for n, line in enumerate(text, 1) if "# TRUE" in line}
    with occatrace.open(run.folder) as opened:
        [(python, inner)] = opened.sql("""
            SELECT list((f.function, f.line) ORDER BY depth) FILTER (python), arg_max(module, depth) FROM joined_frames f
            JOIN path_calls USING (process, path) JOIN python_lines l USING (process, thread, seq, frame)
            JOIN calls c ON c.thread = l.thread AND c.seq = l.seq WHERE c.function = 'MPI_Barrier' GROUP BY process, path""").fetchall()
        assert python == [(name, at[name]) for name in ("<module>", "outer", "inner")] and "/mpi4py/" in inner
        events = opened.report("mpi_event_sum")
        assert [row["caller"] for row in events if row["name"] == "MPI_Barrier"] == [f"{program}:{at['inner']}"]
    (shown,) = _path_arguments(run, tmp_path, "MPI_Barrier")
    assert f" → outer (barrier.py:{at['outer']}) → inner (barrier.py:{at['inner']}) → " in shown


@pytest.mark.parametrize(
    ("python", "options"),
    [*((python, ["--call-paths"]) for python in WITH_FRAMES), (WITH_FRAMES[0], ["--call-paths", "--python=lines"])],
    ids=lambda one: os.path.basename(one) if isinstance(one, str) else str(len(one)),
)
def test_one_path_through_python_and_cpp(python: str, options: list[str], tmp_path: Path) -> None:
    """From Python through ctypes to C++, back to Python and to C++ again; and each call is at the line of Python that caused it."""
    program, library = PROGRAMS / "mixed.py", tmp_path / "libsolver.so"
    _compile("g++", "-O2", "-g", "-fPIC", "-shared", PROGRAMS / "solver.cpp", "-o", library, "-lOpenCL")
    run = profiled(Run, tmp_path / "run", [python, program, library], *options)
    assert run.status == 0, run.stderr
    text = program.read_text(encoding="utf-8").splitlines()
    at = {line.rpartition("TRUE ")[2]: n for n, line in enumerate(text, 1) if "# TRUE" in line}
    paths = run.sql("""
        SELECT list((f.function, f.line) ORDER BY f.depth) FILTER (f.python OR f.module LIKE '%/libsolver.so') FROM calls c
        JOIN path_calls p USING (process, thread, seq)
        JOIN python_lines l USING (process, thread, seq)
        JOIN joined_frames f ON f.process = p.process AND f.path = p.path AND f.frame = l.frame
        WHERE c.function = 'clEnqueueNDRangeKernel' GROUP BY c.thread, c.seq ORDER BY c.seq""")
    outer = [("<module>", at["<module>"]), ("run_solver", at["run_solver"])]
    step = ["advance", "solver::Field<float>::step"]
    assert [[(f, line) for f, line in path if f not in step] for (path,) in paths] == [
        outer, [*outer, ("in_callback", at["in_callback"])],
        outer, [*outer, ("in_callback", at["in_callback"])],
    ]  # fmt: skip
    around = [name for name, _ in outer]
    assert [[f for f, _ in path] for (path,) in paths] == 2 * [
        [*around, *step],
        [*around, "advance", "in_callback", *step],
    ]
    # With lines, contexts and queues, too: what is recorded one by one and made below Python. Those have no stack.
    without = run.sql("SELECT function FROM calls c ANTI JOIN lined_calls l ON l.thread = c.thread AND l.seq = c.seq")
    set_up = {"clCreateContext", "clCreateCommandQueue", "clCreateProgramWithSource", "clCreateKernel"}
    unlined = set() if "--python=lines" in options else set_up
    assert {function for (function,) in without} == unlined
    lined = {"clCreateContext", "clCreateCommandQueue", "clCreateBuffer"} - unlined
    made = run.sql(f"""
        SELECT DISTINCT c.line FROM call_site_stats s JOIN call_sites c USING (process, site)
        WHERE s.function IN ({", ".join(f"'{name}'" for name in lined)})""")
    assert made == [(at["make"],)]
    # The source of each language has what was caused through its lines.
    for source, mark, calls in (
        (program, "TRUE in_callback", 4),
        (PROGRAMS / "solver.cpp", "clEnqueueNDRangeKernel(", 4),
    ):
        shown = execute([*OCCA_PROF, "annotate", run.folder, source.name])
        assert shown.returncode == 0, shown.stderr
        [margin] = (line.split() for line in shown.stdout.splitlines() if mark in line)
        assert margin[4] == str(calls) and margin[0] != "-" and margin[2] != "-", margin


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the program is x86-64 assembly")
def test_a_table_that_leads_out_of_memory_ends_the_stack(tmp_path: Path) -> None:
    program = tmp_path / "astray"
    _compile("gcc", "-O1", "-g", PROGRAMS / "astray.c", "-o", program, "-lOpenCL")
    run = profiled(Run, tmp_path / "run", [program], "--call-paths=alloc")
    assert run.status == 0 and run.stdout == execute([program]).stdout, run.stderr
    frames = set(run.sql("SELECT p.function, p.cut FROM call_paths p JOIN path_calls USING (process, path)"))
    assert frames == {("allocate", ""), ("astray", "no unwind table")}


def test_depth_kinds_and_the_flame_graph(tmp_path: Path) -> None:
    program = tmp_path / "paths"
    _compile("gcc", "-O2", "-g", PROGRAMS / "paths.c", "-o", program, "-lOpenCL", "-pthread")
    run = profiled(Run, tmp_path / "run", [program], "--call-paths=3,copy")
    told = _told(run)
    rows = run.sql(STACKS.format(source="paths.c", function="clEnqueueWriteBuffer"))
    assert {n for n, *_ in rows} == set(told) - {max(told)}  # the last one is an allocation
    # Three frames, and what was inlined into them.
    assert all(told[n].endswith(stack) and len(stack.split()) <= 5 for n, stack, *_ in rows)
    assert {cut for n, _, cut, _ in rows if len(told[n].split()) > 3} == {"more frames than recorded"}
    assert run.sql("SELECT DISTINCT function FROM calls JOIN path_calls USING (thread, seq)") == [
        ("clEnqueueWriteBuffer",)
    ]

    whole = profiled(Run, tmp_path / "whole", [program], "--call-paths")
    folded = tmp_path / "out.folded"
    made = execute([*OCCA_PROF, "flamegraph", whole.folder, "-o", folded, "--weight", "bytes"])
    assert made.returncode == 0, made.stderr
    found: dict[str, int] = {}
    for line in folded.read_text(encoding="utf-8").splitlines():
        stack, _, weight = line.rpartition(" ")
        frames = [frame.partition(" (")[0] for frame in stack.split(";")[1:]]
        if frames[0] == "main" and frames[1] == "recursive":
            found[";".join(frames)] = found.get(";".join(frames), 0) + int(weight)
    expected: dict[str, int] = {}
    for n, stack in _told(whole).items():
        names = [frame.partition(":")[0] for frame in stack.split()]
        if names[:2] == ["main", "recursive"]:
            key = ";".join([*names, "clEnqueueWriteBuffer", "HtoD"])
            expected[key] = expected.get(key, 0) + n
    assert found == expected
    shown = _path_arguments(whole, tmp_path, "clEnqueueWriteBuffer")
    assert len(shown) == len(_told(whole)) - 1 and all(re.search(r"\w+ \(paths\.c:\d+\)$", text) for text in shown)


def test_without_the_option_there_is_nothing(tmp_path: Path) -> None:
    program = tmp_path / "paths"
    _compile("gcc", "-O2", "-g", PROGRAMS / "paths.c", "-o", program, "-lOpenCL", "-pthread")
    run = profiled(Run, tmp_path / "run", [program])
    assert run.sql("SELECT (SELECT count(*) FROM path_calls), (SELECT count(*) FROM call_paths)") == [(0, 0)]
    refused = execute([*OCCA_PROF, "--call-paths=many", program])
    assert refused.returncode != 0 and "--call-paths=many" in refused.stderr and "Traceback" not in refused.stderr


@pytest.mark.parametrize("optimized", ["-O0", "-O2"])
def test_stacks_through_occa(optimized: str, tmp_path: Path) -> None:
    """Lambdas, templates, std::function and OpenMP above calls of OCCA."""
    occa = get_occa()
    program = tmp_path / "paths"
    options = ("-I", occa / "include", "-L", occa / "lib", "-locca", f"-Wl,-rpath,{occa / 'lib'}")
    _compile("g++", "-std=c++17", optimized, "-g", "-fopenmp", PROGRAMS / "paths.cpp", "-o", program, *options)
    cache = {
        "OCCA_DIR": str(occa),
        "OCCA_CACHE_DIR": os.environ.get("OCCA_CACHE_DIR", str(ROOT / "build/tests/call_paths")),
    }
    run = profiled(Run, tmp_path / "run", [program], "--call-paths", **cache)
    assert run.status == 0, run.stderr
    told = _told(run)
    rows = run.sql(
        STACKS.replace("p.function || ':' || p.line", "p.line::VARCHAR").format(
            source="paths.cpp", function="occa::device::malloc"
        )
    )
    found = {n: stack for n, stack, *_ in rows}
    last = max(told)  # by the thread that meets the region: main is above it, and OpenMP's runtime between them
    assert found[last].endswith(f" {told[last]}") and len(found[last].split()) == len(told[last].split()) + 1
    found[last] = told[last]
    assert found == told and len(rows) == len(told) == 6


@pytest.mark.parametrize("mpi", [mpi for mpi in MPIS if mpi.fortran], ids=lambda mpi: mpi.name)
def test_stacks_of_fortran(mpi: Mpi, tmp_path: Path) -> None:
    if shutil.which(mpi.fortran) is None:
        pytest.skip(f"{mpi.fortran} is not there")
    source, program = PROGRAMS / "paths.f90", tmp_path / "paths"
    _compile(mpi.fortran, "-O2", "-g", source, "-o", program)
    run = profiled(Run, tmp_path / "run", [program], "--call-paths=mpi")
    text = source.read_text(encoding="utf-8").splitlines()
    at = {line.rpartition("TRUE ")[2]: n for n, line in enumerate(text, 1) if "! TRUE" in line}
    rows = run.sql(STACKS.format(source="paths.f90", function="MPI_Barrier"))
    # Below the C function main, which gfortran makes.
    stacks = sorted(stack.partition(" ")[2] for _, stack, *_ in rows)
    outer, barrier = f"step:{at['outer']} ", f"step:{at['barrier']}"
    assert stacks == sorted(f"paths:{at['main']} " + outer * n + barrier for n in range(3))
