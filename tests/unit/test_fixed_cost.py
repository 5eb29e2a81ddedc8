"""What a run does once, whatever the program does: counted, because times depend on the machine. What is added here is
paid by everybody in every run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from occatrace.core import events, model
from occatrace.core.duck import duckdb
from occatrace.ingest.gathered.gathered import apis_with_handles
from occatrace.reports import OVERVIEW, SUMMARY, WITHOUT_OCCA, definitions, make
from occatrace.store.macros import make_views
from occatrace.store.tables import SMALL, connect, connect_ahead, open_store
from tests.support.fake import MODEL, FakeTrace, demo_trace, fake_device, fake_work, run_folder

# Runs occa_prof's command line and prints which modules it has loaded, which commands LTTng was given, and which files of
# the package were read.
WATCH = """
import json, sys
read, enabled = [], []
def hook(event, args):
    if event == "open" and isinstance(args[0], str) and "/occatrace/" in args[0]:
        read.append(args[0].rpartition("/occatrace/")[2])
sys.addaudithook(hook)
from occatrace import _session
real = _session.enable_events
def enable_events(session, channel, patterns, loglevel):
    enabled.extend(patterns)
    real(session, channel, patterns, loglevel)
_session.enable_events = enable_events
from occatrace.cli.dispatch import main
status = main(sys.argv[1:])
print(json.dumps({"status": status, "modules": sorted(sys.modules), "enabled": enabled, "read": read}))
"""
# Of the analysis, of extras, of other commands: a run that is only recorded needs none of them.
ANALYSIS = {"_duckdb", "duckdb", "numpy", "occatrace._native", "occatrace.core.model", "occatrace.store.tables", "rich"}
# Of the standard library, with OpenSSL, `random`, bz2 and lzma.
SLOW = {"_hashlib", "bz2", "lzma", "shutil", "tempfile"}
# Of the analysis: a summary of a small run that goes to a pipe needs none of them.
RARE = {"csv", "decimal", "numpy.ma", "occatrace.render.csv", "rich.console"}
NEVER = {"altair", "asyncio", "distributed", "jinja2", "pandas", "pyarrow", "vl_convert", "yaml"}


# A program of which something is recorded: it asks for tracing and makes no call.
TRACED = (sys.executable, "-c", "import ctypes; assert ctypes.CDLL(None).occatrace_start()")


def watched(*words: object) -> dict[str, Any]:
    command = [sys.executable, "-c", WATCH, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert seen["status"] == 0, done.stderr
    return seen


@pytest.mark.records
@pytest.mark.parametrize("mode", events.MODES)
def test_recording(tmp_path: Path, mode: str) -> None:
    """One command for all events, whatever the number of functions; nothing of the analysis."""
    seen = watched("-q", "-m", mode, "-o", tmp_path / "run", *TRACED)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["session"]["state"] == "recorded"
    assert seen["enabled"] == [events.PATTERN]
    assert not (ANALYSIS | NEVER | SLOW) & set(seen["modules"])
    assert not [name for name in seen["read"] if name.endswith((".json", ".sql"))]


@pytest.mark.records
def test_summary(tmp_path: Path) -> None:
    """The same and a summary, at the end of the run and again: what extras and other commands need is not loaded, and
    the model is read only for the tables."""
    run = tmp_path / "run"
    first = watched("-o", run, *TRACED)
    again = watched("report", run)
    for seen in (first, again):
        assert "occatrace.reports" in seen["modules"]
        # The extension alone: the Python part of its package takes three times as long to load.
        assert "_duckdb" not in seen["modules"] or "duckdb" not in seen["modules"]
        assert not (NEVER | RARE) & set(seen["modules"])
        # Of the reports only those of the summary, here with Python's.
        shown = {f"reports/{name}.sql" for name in (*SUMMARY, WITHOUT_OCCA, OVERVIEW, "python_sum", "_sums")}
        assert {name for name in seen["read"] if name.startswith("reports/") and name.endswith(".sql")} <= shown
        assert not [name for name in seen["read"] if name.startswith("libraries/")]
    assert again["read"].count("_model.json") == 1  # its first line
    assert not {"numpy", "occatrace.ingest", "occatrace.store.merge", "occatrace.reports.partial"} & set(
        again["modules"]
    )  # the tables are there


def test_a_run_reads_the_model_of_what_it_has() -> None:
    """APIs are read one by one, and all that is told of them before is their names."""
    loaded = model.load.__wrapped__()
    assert len(loaded.titles) > 5
    assert loaded.by_event["occatrace_opencl:clFinish"].name == "clFinish"
    assert "occatrace_nosuch:x" not in loaded.by_event
    assert loaded.function("occa", "kernel_run") is not None
    assert set(loaded._apis) == {"opencl", "occa"}
    codes = dict(loaded.memory_code)
    assert len(loaded.functions) > 1000
    assert codes.items() <= loaded.memory_code.items()  # numbers stay


def test_reports_of_nothing_ask_nothing(tmp_path: Path) -> None:
    """Planning a query is what a small run costs: where the tables of a report are empty, there is none."""
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=demo_trace().open) as store:
        assert "kernel_runs" in store.filled and "omp_regions" not in store.filled
        for name, report in definitions().items():
            empty = report.of and not report.of & store.filled
            if report.needs_calls:
                store.functions()
            rows = store.con.execute(report.sql).fetchall() if report.of else []
            assert not (empty and rows), name
        assert not make(store, "openmp_sum").rows
    assert {name for name, report in definitions().items() if report.of} >= {*SUMMARY, WITHOUT_OCCA}


def test_kinds_of_memory_operations_are_found_once(tmp_path: Path) -> None:
    """They were planned and made again in each report, and where there are none as well: 50 ms of a small run."""
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=demo_trace().open) as store:
        asked = "EXPLAIN (FORMAT json) " + definitions()["gpu_mem_time_sum"].sql

        def operators() -> int:
            return str(store.con.execute(asked).fetchall()).count('"name":')

        before = operators()
        first = make(store, "gpu_mem_time_sum")
        assert len(first.rows) == store.memory_groups == 2 and 0 < operators() < before
        assert make(store, "gpu_mem_time_sum").rows == first.rows
        assert sum(row[2] for row in make(store, "gpu_mem_size_sum").rows) > 0
    (tmp_path / "none").mkdir()
    trace = FakeTrace()
    thread = trace.process(1)
    fake_device(thread, 5)
    thread.call("opencl:clFinish", 10, 20, command_queue=1, ret=0)
    fake_work(thread, 10, 0, 1, 2, 3, "kernel")
    with open_store(run_folder(tmp_path / "none"), model=MODEL, open_trace=trace.open) as store:
        assert "activities" in store.filled and not store.memory_groups
        assert not make(store, "gpu_mem_time_sum").rows and not make(store, "gpu_mem_size_sum").rows


def test_few_rows_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query over a file takes longer to plan than these take to read. What has no rows is not read at all."""
    run = run_folder(tmp_path)
    kinds = "SELECT {0}_name FROM duckdb_{0}s() WHERE {0}_name IN ('kernel_runs', 'omp_regions') ORDER BY 1"

    def opened() -> tuple[Sequence[object], Sequence[object], Sequence[object]]:
        with open_store(run, model=MODEL, open_trace=demo_trace().open) as store:
            rows = make(store, "occa_kern_sum").rows
            tables, views = (store.con.execute(kinds.format(kind)).fetchall() for kind in ("table", "view"))
            return tables, views, rows

    both = [("kernel_runs",), ("omp_regions",)]
    tables, views, made = opened()
    assert (tables, views) == (both, []) and made  # as they were made of the trace
    assert opened() == (both[:1], both[1:], made)
    for limit in ("_READ_BYTES", "_HELD_ROWS"):  # a small file may have many rows
        with monkeypatch.context() as patched:
            patched.setattr(f"occatrace.store.tables.{limit}", 1)
            assert opened() == ([], both, made), limit


def test_a_scoped_report_makes_only_the_views_that_it_reads(tmp_path: Path) -> None:
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=demo_trace().open) as store:
        for query, views in (
            ("SELECT count(*) FROM memory_lines", {"call_lines", "memory_groups", "memory_operations", "memory_lines"}),
            ("SELECT count(*) FROM memory_lines_of_mine", set()),
        ):
            with store.con.cursor() as con:
                make_views(con, query)
                made = con.execute("SELECT view_name FROM duckdb_views() WHERE temporary AND NOT internal").fetchall()
                assert {name for (name,) in made} == views


def test_a_connection_made_ahead_is_the_next_one(tmp_path: Path) -> None:
    """While the program still runs; it has the macros, and is set as any other."""
    connect_ahead()
    with connect(tmp_path, small=True) as con:
        assert con.execute("SELECT share(1, 4)").fetchone() == (25.0,)
        settings = "SELECT current_setting('threads'), current_setting('temp_directory')"
        assert con.execute(settings).fetchone() == (1, str(tmp_path))
    with connect(tmp_path) as con:
        assert con.execute(settings).fetchone() == (len(os.sched_getaffinity(0)), str(tmp_path))
        with pytest.raises(duckdb.Error):
            con.execute("SELECT share(1, 4)")


def test_few_rows_need_no_threads(tmp_path: Path) -> None:
    run = run_folder(tmp_path)
    threads = "SELECT current_setting('threads')"
    with open_store(run, model=MODEL, open_trace=demo_trace().open) as store:
        assert store.con.execute(threads).fetchone() == (1,)
    (tmp_path / "elsewhere").mkdir()
    (run / "tables" / "linked").symlink_to(tmp_path / "elsewhere")
    with (tmp_path / "elsewhere" / "large").open("wb") as file:
        file.truncate(SMALL + 1)
    with open_store(run, model=MODEL, open_trace=demo_trace().open) as store:
        assert store.con.execute(threads).fetchone() == (len(os.sched_getaffinity(0)),)


def test_apis_that_map_memory_are_known_without_reading_any() -> None:
    """Asked of every run with copies: it read all functions of all APIs, 0.15 s."""
    loaded = model.load.__wrapped__()
    asked = apis_with_handles(loaded)
    assert not loaded._apis
    assert asked == ", ".join(sorted({f"'{f.api}'" for f in loaded.by_event.values() if f.maps}))
