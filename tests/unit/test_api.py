"""The Python interface: the examples of the documentation run, rows are those of the command line, and SQL only reads."""

from __future__ import annotations

import contextlib
import csv
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import occatrace
from occatrace.cli.dispatch import main
from occatrace.store.tables import open_store
from tests.support.fake import MODEL, demo_trace, run_folder

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python.md"


def test_the_public_names_are_stated() -> None:
    """Each name of `occatrace.__all__` is there, and stands in the section that says what is stable; no other stands there."""
    section = PAGE.read_text(encoding="utf-8").split("### What is stable\n")[1].split("\n## ")[0]
    names = section.split("public names:")[1].split(". They,")[0]
    assert sorted(re.findall(r"`(\w+)`", names)) == sorted(occatrace.__all__)
    assert all(hasattr(occatrace, name) for name in occatrace.__all__)


def test_the_examples_of_the_documentation_run(run: Path) -> None:
    """All of them, as they stand, in one notebook."""
    cells = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(cells) == 2
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        space: dict[str, Any] = {}
        for cell in cells:
            exec(compile(cell.replace('"RUN"', repr(str(run))), str(PAGE), "exec"), space)
    said = out.getvalue()
    assert "addVectors OpenCL 10 0.01409 ms" in said and "_occa_addVectors_" in said and "[(4096, 1)]" in said
    assert "addVectors OpenCL 10" in said and "100:100 occa::memory::copyFrom" in said
    assert "only SELECT is allowed here, not DELETE" in said and "20 pieces of device work in the first 10 ms" in said


def test_reports_are_those_of_the_command_line(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options: dict[str, Any] = {"by": "thread", "sort": "min_ns:asc", "rows": 3, "filter_name": "clEnqueue|occa"}
    with occatrace.open(run) as opened:
        rows = opened.report("api_sum", filter_time="1us:end-1us", **options)
    words = [w for k, v in options.items() for w in (f"--{k.replace('_', '-')}", str(v))]
    assert (
        main(["report", str(run), "--report", "api_sum", "--filter-time", "1us:end-1us", "--format", "csv", *words])
        == 0
    )
    printed = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [{k: "" if v is None else str(v) for k, v in row.items()} for row in rows] == printed and printed


def test_units(run: Path) -> None:
    with occatrace.open(run) as opened:
        plain = opened.report("gpu_trace")
        scaled = opened.report("gpu_trace", units="us,KiB")
    assert [r["duration_us"] * 1000 for r in scaled] == pytest.approx([r["duration_ns"] for r in plain])
    assert [r["kib"] * 1024 for r in scaled if r["kib"]] == pytest.approx([r["bytes"] for r in plain if r["bytes"]])


def test_tables_are_numpy_columns(run: Path) -> None:
    with occatrace.open(run) as opened:
        work = opened.table("activities")
        calls = opened.table("opencl.clEnqueueNDRangeKernel")
        assert {"activities", "calls", "opencl.clFinish"} <= set(opened.tables)
        found = opened.sql("SELECT count(*) FROM calls WHERE api = ? AND NOT failed", ["opencl"]).fetchall()
    assert work["start_ns"].dtype == np.uint64 and len(work["start_ns"]) == 24
    assert len(calls["seq"]) == 20
    assert found[0][0] > 20


def test_bad_questions(run: Path, tmp_path: Path) -> None:
    with occatrace.open(run) as opened:
        cases: list[tuple[dict[str, Any], str]] = [
            ({"name": "nothing"}, "no report 'nothing'; `occa_prof report --list` lists all"),
            ({"name": "api_sum", "by": "colour"}, "there are rank, thread, device, stream"),
            ({"name": "api_sum", "names": "nice"}, "there are okl, short, demangled, raw"),
            ({"name": "api_sum", "units": "parsec"}, "ms,MiB"),
            ({"name": "api_sum", "filter_time": "soon"}, "write BEGIN:END"),
            ({"name": "api_sum", "sort": "colour"}, "no column 'colour'"),
            ({"name": "api_sum", "filter_name": "("}, "not a regular expression"),
        ]
        for words, said in cases:
            with pytest.raises(occatrace.RunError, match=re.escape(said)) as error:
                opened.report(**words)
            assert "\n" not in str(error.value)
        with pytest.raises(occatrace.RunError, match="nothing does not exist"):
            opened.table("nothing")
    with pytest.raises(occatrace.RunError, match="does not exist"):
        occatrace.open(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda run: type(run)(5), "a run is given by its folder, a str or a path, not int"),
        (lambda run: run.sql(5), "a query is a str, such as 'SELECT * FROM kernels', not int"),
        (lambda run: run.sql("SELECT ?", 5), "the parameters of a query are a list, one for each `?`, not int"),
        (lambda run: run.table(5), "name=5: give a str, not int"),
        (lambda run: run.report(None), "name=None: give a str, not NoneType"),
        (lambda run: run.report("api_sum", rows="all"), "rows='all': give the number of rows"),
        (lambda run: run.report("api_sum", rows=-1), "rows=-1: give the number of rows"),
        (lambda run: run.report("api_sum", sort=3), "sort=3: give a str, not int"),
        (lambda run: run.report("api_sum", by=["rank"]), "by=['rank']: give a str, not list"),
        (lambda run: run.report("api_sum", filter_name=3), "filter_name=3: give a str, not int"),
        (lambda run: run.report("api_sum", units=3), "units=3: give a str, not int"),
        (lambda run: run.report("api_sum", filter_time=5), "filter_time=5: write 'BEGIN:END', or give a pair of ns"),
        (lambda run: run.report("api_sum", filter_time=("a", "b")), "or give a pair of ns"),
    ],
)
def test_arguments_of_another_type(run: Path, ask: Callable[[Any], object], said: str) -> None:
    """What a notebook shows for them is one line; those of numpy's integers are as good as int."""
    with occatrace.open(run) as opened:
        with pytest.raises(occatrace.RunError, match=re.escape(said)):
            ask(opened)
        one: Any = np.int64(1)
        assert len(opened.report("api_sum", rows=one, filter_time=(one, None))) <= 1


def hostile(folder: Path) -> list[str]:
    out = folder / "written"
    return [
        f"COPY activities TO '{out}'",
        f"COPY (SELECT 1) TO '{out}' (FORMAT csv)",
        f"EXPLAIN ANALYZE COPY activities TO '{out}'",
        f"ATTACH '{out}'",
        f"EXPORT DATABASE '{out}'",
        "INSERT INTO activities SELECT * FROM activities",
        "WITH x AS (INSERT INTO kernels (name) VALUES ('k') RETURNING name) SELECT * FROM x",
        "EXPLAIN ANALYZE INSERT INTO kernels (name) VALUES ('k')",
        "DELETE FROM kernels",
        "UPDATE kernels SET name = 'x'",
        "CREATE TABLE t AS SELECT 1",
        "DROP VIEW kernels",
        "SET memory_limit = '1GB'",
        "PRAGMA enable_profiling",
        "INSTALL sqlite",
        "LOAD sqlite",
        "CALL enable_logging()",
        f"SELECT * FROM enable_logging(storage = 'file', storage_path = '{out}')",
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM glob('/etc/*')",
        "SELECT 1; DROP VIEW kernels",
        "",
        "SELEC 1",
    ]


def test_queries_only_read(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {p: p.read_bytes() for p in run.rglob("*") if p.is_file()}
    with occatrace.open(run) as opened:
        kernels = opened.sql("SELECT * FROM kernels").fetchall()
        for query in hostile(tmp_path):
            with pytest.raises(occatrace.RunError) as error:
                opened.sql(query).fetchall()
            assert "\n" not in str(error.value), query
        assert opened.sql("EXPLAIN SELECT 1").fetchall()
        assert opened.sql("SELECT * FROM kernels").fetchall() == kernels
        assert len(opened.report("api_sum")) > 1, "reports work on"
    for query in hostile(tmp_path)[:12]:
        assert main(["query", str(run), query]) == 2
        err = capsys.readouterr().err
        assert err.startswith("occa_prof: ") and err.count("\n") == 1
    assert {p: p.read_bytes() for p in run.rglob("*") if p.is_file()} == before
    assert not (tmp_path / "written").exists()


def test_single_calls_are_opened_after_a_query(tmp_path: Path) -> None:
    """The first look at them writes the run's tables: the lock on files allows that."""
    run = run_folder(tmp_path)
    from occatrace.api import select

    with open_store(run, model=MODEL, open_trace=demo_trace().open) as store:
        assert select(store, "SELECT count(*) FROM kernels").fetchall() == [(2,)]
        assert not (run / "tables" / "calls").exists()
        assert select(store, "SELECT count(*) FROM calls").fetchall() == [(49,)]


def test_plots_by_name(run: Path, tmp_path: Path) -> None:
    """Those of `occa_prof report --plot`; for what cannot be drawn one line says why."""
    pytest.importorskip("vl_convert")
    with occatrace.open(run) as opened:
        picture = opened.plot("kernels")
        assert "addVectors" in picture._repr_svg_()
        assert picture.save(tmp_path / "kernels.svg").stat().st_size > 1000
        for name, why in (("kernel", "no plot 'kernel'; there are: "), ("ranks", "it needs at least two ranks")):
            with pytest.raises(occatrace.RunError, match=why) as raised:
                opened.plot(name)
            assert "\n" not in str(raised.value)
        with pytest.raises(occatrace.RunError, match="name=3: give a str"):
            opened.plot(3)  # type: ignore[arg-type]
