"""--python functions, lines and logging, against programs whose calls and messages are known."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support import runs
from tests.support.interpreters import interpreters
from tests.support.suites.mpi import MPIS
from tests.support.suites.python import PROGRAMS, Profile, Run

FIBONACCI = 177  # calls of fibonacci(10)


def counted(run: Run) -> dict[str, int]:
    rows = run.rows("SELECT name, count(*) AS n FROM python_calls WHERE kind = 'function' GROUP BY name")
    return {row["name"].rpartition(".")[2]: row["n"] for row in rows}


@pytest.mark.parametrize("python", interpreters())
def test_functions(python: str, profile: Profile) -> None:
    run = profile(python, PROGRAMS / "functions.py", python=("functions",))
    assert run.stdout == "right\n"
    counts = counted(run)
    expected = {
        "<module>": 1, "Thing": 1, "fibonacci": FIBONACCI, "numbers": 2, "raises": 3, "waits": 4, "main": 1, "in_thread": 3,
        "method": 15,
    }  # fmt: skip
    assert counts == expected | {"<genexpr>": 1}
    failed = run.rows("SELECT DISTINCT name FROM python_calls WHERE kind = 'function' AND failed")
    assert {row["name"].rpartition(".")[2] for row in failed} == {"raises"}
    resumed = run.rows(
        "SELECT name, count(*) AS n FROM python_calls WHERE kind = 'resumption' GROUP BY name ORDER BY name"
    )
    assert {row["name"]: row["n"] for row in resumed}["waits"] == 4
    # Inside of one another, to the nanosecond: own times of a thread add up to its outermost.
    own = run.rows(
        "SELECT thread, sum(end_ns - start_ns - inner_ns) AS own, sum(end_ns - start_ns) FILTER (depth = 0) AS whole"
        " FROM python_calls WHERE kind IN ('function', 'resumption') AND thread IN"
        " (SELECT thread FROM python_calls WHERE name LIKE '%in_thread') GROUP BY thread"
    )
    assert len(own) == 3 and all(row["own"] == row["whole"] for row in own)
    fibonacci = next(row for row in run.report("python_sum") if row["name"] == "fibonacci")
    assert fibonacci["calls"] == FIBONACCI and fibonacci["source"] == f"{PROGRAMS / 'functions.py'}:10"
    assert run.rows("SELECT * FROM losses") == []

    chosen = profile(python, PROGRAMS / "functions.py", python=("functions:functions.fib*,raises",))
    assert counted(chosen) == {"fibonacci": FIBONACCI, "raises": 3}
    library = profile(python, PROGRAMS / "functions.py", python=("functions:*/json/*",))
    assert counted(library)["dumps"] == 15 and "fibonacci" not in counted(library)


def _read(run: Run, *options: str) -> dict[str, list[runs.Row]]:
    """Rows of reports, as the command writes them."""
    done = runs.execute([*runs.OCCA_PROF, "report", run.folder, *options, "--format", "json"])
    assert done.returncode == 0, done.stderr
    reports: list[runs.Row] = json.loads(done.stdout)["reports"]
    return {one["name"]: one["rows"] for one in reports}


def marked(program: str) -> dict[str, int]:
    """Lines of a program that say what they do."""
    text = (PROGRAMS / program).read_text().splitlines()
    return {words[1]: n for n, words in enumerate((row.split("# line: ") for row in text), 1) if len(words) > 1}


def test_lines(profile: Profile) -> None:
    pytest.importorskip("pyopencl")
    run = profile(sys.executable, PROGRAMS / "lines.py", python=("lines",), PYOPENCL_NO_CACHE="1", PYOPENCL_CTX="0")
    assert run.stdout.endswith("right\n"), run.stderr
    line = marked("lines.py")
    rows = {int(row["source"].rpartition(":")[2]): row for row in run.report("python_line_sum")}
    amount = (2 * 1024 + 512) * 4
    launch, copy_in, copy_out, allocation = (
        rows[line[name]] for name in ("launch", "copy in", "copy out", "allocation")
    )
    assert (launch["launches"], launch["copies"], launch["name"]) == (9, 0, "launch")
    assert launch["device_ns"] == run.sql("SELECT sum(end_ns - start_ns) FROM activities WHERE kind = 'kernel'")[0][0]
    assert (copy_in["copies"], copy_in["bytes"], copy_in["name"]) == (3, amount, "copy_in")
    assert (copy_out["copies"], copy_out["bytes"], copy_out["name"]) == (3, amount, "step")  # blocking: without the GIL
    assert (allocation["allocations"], allocation["allocated_bytes"]) == (3, amount)
    assert all("pyopencl" in row["through"] for row in (launch, copy_in, copy_out))
    # Waits have their lines, too, and other reports the line of Python in place of one in the extension module.
    waits = run.sql(
        "SELECT count(*), count(l.frame) FROM calls LEFT JOIN python_lines l USING (thread, seq) WHERE function = 'clWaitForEvents'"
    )
    assert waits == [(6, 6)]
    callers = {row["name"]: row["caller"] for row in run.report("gpu_mem_size_sum")}
    program = PROGRAMS / "lines.py"
    assert callers == {"HtoD": f"{program}:{line['copy in']}", "DtoH": f"{program}:{line['copy out']}"}
    # Whether a kernel is on the critical path depends on who waited for whom; one that is has the line of its launch.
    sources = {row["source"] for row in run.report("critical_path_sum") if row["kind"] == "kernel"}
    assert sources <= {f"{program}:{line['launch']}"}
    shown = runs.execute([*runs.OCCA_PROF, "annotate", run.folder, "lines.py"])
    (margin,) = (text for text in shown.stdout.splitlines() if text.endswith("# line: copy out"))
    assert (
        margin.split()[4:7] == ["6", "10.00", "KiB"] and "-" not in margin.split()[:4]
    )  # device and host time, with units
    # Sums by line: each call once, those without a line of Python at their place in the extension module.
    sites = {row["line"]: row for row in run.report("callsite_sum") if row["file"] == str(program)}
    names = {
        "launch": (18, 9, 0, 0),  # and the creation of each kernel object
        "copy in": (6, 0, amount, 0),
        "copy out": (6, 0, amount, 0),
        "allocation": (3, 0, 0, 3),
    }
    for name, expected in names.items():
        row = sites[line[name]]
        assert (row["calls"], row["launches"], row["bytes"], row["allocations"]) == expected
    assert {sites[line[name]]["name"] for name in ("launch", "copy in", "copy out")} == {"launch", "copy_in", "step"}
    assert sites[line["launch"]]["device_ns"] == sum(row["total_ns"] for row in run.report("gpu_kern_sum"))
    sums = "SELECT function, sum(calls), sum(total_ns) FROM {} GROUP BY function ORDER BY function"
    single = "SELECT function, count(*), sum(span(start_ns, end_ns)) FROM calls WHERE caller IS NOT NULL GROUP BY ALL ORDER BY ALL"
    assert run.sql(sums.format("call_site_stats")) == run.sql(single)
    known = run.sql("SELECT count(*) FROM calls WHERE caller IS NOT NULL")
    assert [(sum(row["calls"] for row in run.report("callsite_sum")),)] == known
    for window in ((), ("--filter-time", "0%:100%")):
        parts = _read(run, "--report", "callsite_sum", "--by", "line", *window)["callsite_sum"]
        assert {row["line"]: row["calls"] for row in parts if ".py:" in row["line"]} == {
            f"{program}:{number}": row["calls"] for number, row in sites.items()
        }
        assert sum(row["calls"] for row in parts) == known[0][0]
    listed = runs.execute([*runs.OCCA_PROF, "trace", "--lines", run.folder]).stdout.splitlines()
    assert sum("clEnqueueNDRangeKernel(" in row and f" lines.py:{line['launch']} " in row for row in listed) == 9
    timeline = run.folder.with_suffix(".json")
    runs.execute([*runs.OCCA_PROF, "timeline", run.folder, "-o", timeline])
    slices = json.loads(timeline.read_text())["traceEvents"]
    assert [one["args"]["called from"] for one in slices if one["name"] == "clCreateBuffer"] == [
        f"{program}:{line['allocation']}"
    ] * 3
    # Where the time of the main thread went.
    time = {row["name"]: row["total_ns"] for row in run.report("python_time_sum")}
    (main,) = run.calls("run")
    until, in_api = 0, 0
    for start, end in run.sql(
        f"SELECT start_ns, end_ns FROM calls WHERE thread = {main['thread']} ORDER BY start_ns, end_ns DESC"
    ):
        if start >= until:
            until, in_api = end, in_api + end - start
    assert time["OpenCL"] == in_api > 0 and time["in all"] == main["ns"]
    rest = time["in all"] - time["Python and its extension modules"]
    assert max(in_api, time["imports"]) <= rest <= in_api + time["imports"]
    # The whole stack: the launch of a thread came by threading, the others by the module.
    stacks = run.rows(
        "WITH RECURSIVE up AS (SELECT id AS leaf, id, parent, function, 0 AS n FROM python_frames UNION ALL"
        " SELECT u.leaf, f.id, f.parent, f.function, u.n + 1 FROM up u JOIN python_frames f ON f.id = u.parent)"
        " SELECT string_agg(function, ' < ' ORDER BY n) AS stack FROM up GROUP BY leaf"
    )
    found = [row["stack"] for row in stacks if "launch" in row["stack"]]
    assert any(stack.endswith("launch < step < <module>") for stack in found)
    assert any("launch < step < Thread.run < Thread._bootstrap_inner" in stack for stack in found)
    assert run.rows("SELECT * FROM losses") == []


def test_pictures_know_the_lines(profile: Profile, tmp_path: Path) -> None:
    pytest.importorskip("pyopencl")
    run = profile(
        sys.executable, PROGRAMS / "lines.py", python=("lines", "logging"), PYOPENCL_NO_CACHE="1", PYOPENCL_CTX="0"
    )
    assert run.stdout.endswith("right\n"), run.stderr
    folded = tmp_path / "stacks.folded"
    done = runs.execute([*runs.OCCA_PROF, "flamegraph", run.folder, "-o", folded, "--weight", "memory"])
    assert done.returncode == 0, done.stderr
    line = marked("lines.py")["allocation"]
    held = [row.rpartition(" ") for row in folded.read_text().splitlines() if f";step (lines.py:{line});" in row]
    assert {stack.rpartition(";")[2] for stack, _, _ in held} == {"clCreateBuffer"}
    assert sum(int(weight) for _, _, weight in held) == (2 * 1024 + 512) * 4
    assert any(stack.split(";")[1].startswith("<module> (lines.py:") for stack, _, _ in held)
    timeline = tmp_path / "run.pftrace"
    done = runs.execute([*runs.OCCA_PROF, "timeline", run.folder, "-o", timeline])
    assert done.returncode == 0, done.stderr
    content = timeline.read_bytes()
    assert b"import pyopencl" in content and b"WARNING: about to end" in content


def test_logging(profile: Profile) -> None:
    alone = runs.execute([sys.executable, PROGRAMS / "logs.py"])
    run = profile(sys.executable, PROGRAMS / "logs.py", python=("logging",))
    assert run.stdout == alone.stdout and alone.stdout.count("\n") >= 6
    messages = run.rows("SELECT * FROM messages ORDER BY time_ns, seq")
    assert [(m["level_name"], m["logger"], m["function"], m["text"]) for m in messages] == [
        *(("INFO", "app.solver", "solve", f"step {step} of ä") for step in range(3)),
        ("WARNING", "app.solver", "solve", "slow"),
        ("ERROR", "other", "<module>", "text without arguments %d"),
        ("CRITICAL", "quiet", "<module>", "kept by nobody"),
    ]
    assert {m["source"] for m in messages} == {str(PROGRAMS / "logs.py")} and messages[3]["level"] == 30
    text = (PROGRAMS / "logs.py").read_text().splitlines()
    assert 'log.warning("slow")' in text[messages[3]["line"] - 1]
    top = run.report("log_sum")
    assert {(row["level"], row["logger"], row["calls"]) for row in top} >= {("INFO", "app.solver", 3)}


@pytest.mark.parametrize("way", ["fork", "spawn", "forkserver"])
def test_processes(way: str, profile: Profile) -> None:
    run = profile(sys.executable, PROGRAMS / "processes.py", way)
    assert run.stdout == "right\n"
    rows = run.rows("SELECT process, name, count(*) AS n FROM ranges GROUP BY ALL")
    assert sorted(row["n"] for row in rows if row["name"] == "work") == [1, 2, 3]
    assert [row["n"] for row in rows if row["name"] == "thread"] == [14] * 3
    assert [row["n"] for row in rows if row["name"] == "main"] == [1]
    # A pool ends its workers by a signal.
    assert sum(row["n"] for row in rows if row["name"] == "pooled") == 2 * sum(range(5))
    workers = {row["process"] for row in rows if row["name"] == "work"}
    threads = run.rows("SELECT process, count(DISTINCT thread) AS n FROM ranges WHERE name = 'thread' GROUP BY process")
    assert [row["n"] for row in threads] == [2] * 3 and {row["process"] for row in threads} == workers
    (own,) = run.sql(
        "SELECT count(*) FROM python_calls WHERE kind = 'run'"
        " AND process IN (SELECT process FROM ranges WHERE name IN ('main', 'work'))"
    )
    assert own == (4,) and run.rows("SELECT * FROM losses") == []


def with_lttngust() -> str:
    """Debian's Python, where Debian's python3-lttngust is installed."""
    python = "/usr/bin/python3"
    ask = "import importlib.util, sys; sys.exit(importlib.util.find_spec('lttngust') is None)"
    if not Path(python).exists() or subprocess.run([python, "-c", ask]).returncode != 0:
        pytest.skip("needs Debian's python3-lttngust")
    return python


@pytest.mark.parametrize("options", [(), ("logging",)])
def test_lttngust(options: tuple[str, ...], profile: Profile, tmp_path: Path) -> None:
    """A program that uses it has its log in the run, with the option and without, each record once."""
    run = profile(with_lttngust(), PROGRAMS / "lttngust_logs.py", "later", python=options)
    assert run.stdout == "".join(f"INFO app.part step {step}\n" for step in range(3)) + "WARNING app.part end\n"
    messages = run.rows("SELECT level_name, logger, text, source, line FROM messages ORDER BY time_ns, seq")
    before = [("WARNING", "app", "before")] if options else []
    steps = [("INFO", "app.part", f"step {step}") for step in range(3)]
    own = [m for m in messages if m["logger"].startswith("app")]
    assert [(m["level_name"], m["logger"], m["text"]) for m in own] == [*before, *steps, ("WARNING", "app.part", "end")]
    assert {m["source"] for m in own} == {str(PROGRAMS / "lttngust_logs.py")} and own[-1]["line"] > own[-2]["line"] > 0
    assert [row["calls"] for row in run.report("log_sum") if row["name"] == "step 0"] == [3]
    timeline = tmp_path / "run.pftrace"
    assert runs.execute([*runs.OCCA_PROF, "timeline", run.folder, "-o", timeline]).returncode == 0
    assert b"WARNING: end" in timeline.read_bytes()


def test_lines_of_mpi(profile: Profile) -> None:
    pytest.importorskip("mpi4py")
    mpi = next((mpi for mpi in MPIS if mpi.library and mpi.there), None)
    if mpi is None:
        pytest.skip("no MPI is there")
    run = profile(sys.executable, PROGRAMS / "mpi_lines.py", python=("lines",), MPI4PY_LIBMPI=mpi.library)
    assert run.status == 0, run.stderr
    line, program = marked("mpi_lines.py"), PROGRAMS / "mpi_lines.py"
    sites = {row["line"]: row for row in run.report("callsite_sum") if row["file"] == str(program)}
    assert {name: sites[number]["calls"] for name, number in line.items()} == {"add": 5, "barrier": 3, "once": 1}
    assert sites[line["add"]]["bytes"] == 5 * sites[line["once"]]["bytes"] > 0 and sites[line["add"]]["name"] == "add"
    callers = {row["name"]: row["caller"] for row in run.report("mpi_event_sum")}
    assert callers["MPI_Barrier"] == f"{program}:{line['barrier']}"
    assert callers["MPI_Allreduce"] in (f"{program}:{line[name]} (+1)" for name in ("add", "once"))
    listed = runs.execute([*runs.OCCA_PROF, "trace", "--lines", run.folder]).stdout.splitlines()
    assert sum("MPI_Barrier(" in row and f" mpi_lines.py:{line['barrier']} " in row for row in listed) == 3
    # What was only counted has no line, and is counted as before.
    counted = run.sql("SELECT sum(calls) FROM call_stats WHERE source = 'event' AND api = 'mpi'")
    assert run.sql("SELECT sum(calls) FROM call_site_stats WHERE api = 'mpi'") == counted
    assert run.sql("SELECT count(*) FROM call_stats WHERE source = 'tally' AND api = 'mpi'") > [(0,)]


ENGINE = """
import os
import pyopencl as cl

def run(depth):
    if depth:
        return run(depth - 1)
    context = cl.Context([cl.get_platforms()[0].get_devices()[0]])
    queue = cl.CommandQueue(context)
    data = bytearray(4096)
    there = cl.Buffer(context, cl.mem_flags.READ_WRITE, len(data))
    cl.enqueue_copy(queue, data, there)  # line: copy

def main():
    run(int(os.environ["DEPTH"]))
    return 0
"""
SCRIPT = """#!/usr/bin/env python
# -*- coding: utf-8 -*-
import re
import sys
from solver.engine import main
if __name__ == '__main__':
    sys.argv[0] = re.sub(r'(-script\\.pyw|\\.exe)?$', '', sys.argv[0])
    sys.exit(main())
"""
DRIVER = "import solver.engine\n\n\ndef step():\n    solver.engine.main()\n\n\nstep()\n"
THREAD = """
import concurrent.futures
import solver.engine
with concurrent.futures.ThreadPoolExecutor() as pool:
    pool.submit(solver.engine.main).result()
"""


@pytest.mark.parametrize(
    "started",
    ["by a script", "by its short script", "as a module", "by a driver", "in a thread of the standard library"],
)
@pytest.mark.parametrize("depth", [0, 30])
def test_whose_line_it_is(started: str, depth: int, tmp_path: Path, profile: Profile) -> None:
    """A program that is an installed package has the lines of that package; others those of their own code, however far out
    it is; and where there is none, the one by which a package was entered."""
    pytest.importorskip("pyopencl")
    packages = tmp_path / "lib" / "python3" / "site-packages"
    package, scripts = packages / "solver", tmp_path / "bin"
    package.mkdir(parents=True)
    scripts.mkdir()
    (package / "__init__.py").touch()
    (package / "engine.py").write_text(ENGINE)
    (package / "__main__.py").write_text("import sys\nfrom solver.engine import main\nsys.exit(main())\n")
    (scripts / "solve").write_text(
        SCRIPT if "short" not in started else "import solver.engine\nexit(solver.engine.main())\n"
    )
    (tmp_path / "driver.py").write_text(DRIVER if "driver" in started else THREAD)
    copy = next(n for n, text in enumerate(ENGINE.splitlines(), 1) if text.endswith("# line: copy"))
    entry = next(n for n, text in enumerate(ENGINE.splitlines(), 1) if "run(int" in text)
    ways: dict[str, tuple[list[str | Path], str]] = {
        "by a script": ([scripts / "solve"], f"{package / 'engine.py'}:{copy}"),
        "by its short script": (["-X", "utf8", scripts / "solve"], f"{package / 'engine.py'}:{copy}"),
        "as a module": (["-um", "solver"], f"{package / 'engine.py'}:{copy}"),
        "by a driver": ([tmp_path / "driver.py"], f"{tmp_path / 'driver.py'}:5"),
        "in a thread of the standard library": ([tmp_path / "driver.py"], f"{package / 'engine.py'}:{entry}"),
    }
    words, expected = ways[started]
    run = profile(
        sys.executable,
        *words,
        python=("lines", "functions"),
        PYTHONPATH=str(packages),
        DEPTH=str(depth),
        PYOPENCL_CTX="0",
    )
    (copied,) = (row for row in run.report("gpu_mem_size_sum") if row["name"] == "DtoH")
    assert copied["caller"] == expected
    functions = counted(run)
    is_package = "driver.py" not in str(words[-1])
    assert functions.get("run", 0) == (depth + 1 if is_package else 0)
    assert ("step" in functions) == (started == "by a driver")
    program = "-m solver" if started == "as a module" else str(words[-1])
    assert run.sql("SELECT name FROM python_calls WHERE kind = 'run'") == [(program,)]


@pytest.mark.parametrize("mode", ["Serial", "OpenCL"])
def test_lines_of_occa(mode: str, profile: Profile) -> None:
    """What OCCA does below counts once."""
    if find_spec("occa") is None:  # importing it fails where OCCA_DIR is set
        pytest.skip("OCCA's Python package is not installed")
    if mode == "OpenCL":
        pytest.importorskip("pyopencl")
    run = profile(sys.executable, PROGRAMS / "occa_lines.py", mode, python=("lines",))
    assert run.stdout == "right\n", run.stderr
    line = marked("occa_lines.py")
    rows = {int(row["source"].rpartition(":")[2]): row for row in run.report("python_line_sum")}
    # OCCA's calls and those within them at one line, of which each is counted once.
    sites = {row["line"]: row for row in run.report("callsite_sum") if row["file"] == str(PROGRAMS / "occa_lines.py")}
    assert {name: sites[line[name]]["calls"] for name in ("allocation", "copy in", "many")} == {
        "allocation": 3, "copy in": 2, "many": 4,
    }  # fmt: skip
    within = "SELECT count(*) FROM call_site_stats JOIN call_sites USING (process, site) WHERE address IS NOT NULL"
    assert run.sql(within) == [(0,)]
    found = {
        name: tuple(
            rows[number][column] or 0 for column in ("launches", "copies", "bytes", "allocations", "allocated_bytes")
        )
        for name, number in line.items()
    }
    assert found == {
        "allocation": (0, 0, 0, 3, 3 * 4000),
        "copy in": (0, 2, 8000, 0, 0),
        "many": (4, 0, 0, 0, 0),
        "few": (2, 0, 0, 0, 0),
        "copy out": (0, 1, 4000, 0, 0),
    }
    assert rows[line["many"]]["device_ns"] > 0 and rows[line["allocation"]]["name"] == "allocate"
    assert run.rows("SELECT * FROM losses") == []
