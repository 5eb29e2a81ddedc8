"""report, trace, query, export and compare on a finished run: what they write, and what they say to bad input."""

from __future__ import annotations

import csv
import fcntl
import json
import os
import pty
import re
import sqlite3
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import duckdb
import pytest

from occatrace.cli.dispatch import main


@pytest.fixture
def run(run: Path) -> Path:
    """With a note."""
    facts = json.loads((run / "run.json").read_text(encoding="utf-8"))
    (run / "run.json").write_text(json.dumps(facts | {"notes": ["a note"]}), encoding="utf-8")
    return run


def say(capsys: pytest.CaptureFixture[str], *words: object, status: int = 0) -> tuple[str, str]:
    assert main([str(w) for w in words]) == status
    out, err = capsys.readouterr()
    return out, err


def test_report(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = say(capsys, "report", run)
    assert out.index("! a note") < out.index("OCCA kernels (occa_kern_sum)") < out.index("OpenCL calls (api_sum)")
    out, _ = say(capsys, "report", run, "--report", "gpu_kern_sum", "--report", "api_sum", "--format", "json")
    content = json.loads(out)
    assert [r["name"] for r in content["reports"]] == ["gpu_kern_sum", "api_sum"] and content["run"]["program"] == [
        "app"
    ]
    out, err = say(capsys, "report", run, "--report", "occa_kern_sum", "--format", "csv")
    assert [r["name"] for r in csv.DictReader(out.splitlines()) if not r["parent"]] == ["addVectors", "scale"]
    assert "! a note" in err
    file = tmp_path / "out.html"
    out, _ = say(capsys, "report", run, "--format", "html", "-o", file)
    assert out == f"{file}: page, {file.stat().st_size / 1000:,.0f} kB (open it in a browser)\n"
    assert "<title>occatrace: app</title>" in file.read_text(encoding="utf-8")
    out, _ = say(capsys, "report", "--list")
    assert "occa_kern_sum" in out and "advice" in out


def test_bad_input_is_one_line(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "there"
    file.touch()
    cases: dict[str, tuple[Any, ...]] = {
        "api_sum is a report, not a run: occa_prof report RUN --report api_sum": ("report", "api_sum"),
        "no report 'x'; `occa_prof report --list` lists all": ("report", run, "--report", "x"),
        "does not exist": ("report", tmp_path / "nowhere"),
        "not a run": ("trace", tmp_path),
        "exists already": ("report", run, "-o", file),
        "cannot write": ("report", run, "-o", tmp_path / "no" / "folder"),
        "no run given": ("report",),
        "no column 'x'": ("report", run, "--sort", "x"),
        "only SELECT": ("query", run, "DROP TABLE names"),
        "expected one SQL statement": ("query", run, "SELECT 1; SELECT 2"),
        "nothing does not exist": ("query", run, "FROM nothing"),
        "no table 'x'": ("export", run, "-o", tmp_path / "e1", "--table", "x"),
        "no export made": ("export", run, "-o", tmp_path, "--force"),
        "two or more": ("compare", run),
    }
    for expected, words in cases.items():
        _, err = say(capsys, *words, status=2)
        assert expected in err and err.startswith("occa_prof: ") and err.count("\n") == 1, (words, err)


def test_query(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = say(capsys, "query", run, "SELECT api, count(*) AS n FROM calls GROUP BY 1 ORDER BY 1", "--format", "csv")
    assert list(csv.reader(out.splitlines())) == [["api", "n"], ["occa", "24"], ["opencl", "25"]]
    out, _ = say(capsys, "query", run)
    assert "activities" in out and "opencl.clFinish" in out


def test_export(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for fmt in ("parquet", "csv", "json"):
        say(capsys, "export", run, "--format", fmt, "-o", tmp_path / fmt, "--calls")
    kernels = duckdb.execute(f"SELECT name FROM '{tmp_path}/parquet/kernels.parquet' ORDER BY 1").fetchall()
    assert kernels == [("addVectors",), ("scale",)]
    with (tmp_path / "csv" / "activities.csv").open(newline="", encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == 24
    lines = (tmp_path / "json" / "opencl.clEnqueueNDRangeKernel.json").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 20 and json.loads(lines[0])["args"] == {"global": [64, 2], "ret": 0}
    database = tmp_path / "run.db"
    say(capsys, "export", run, "--format", "sqlite", "-o", database, "--calls")
    with sqlite3.connect(database) as db:
        assert db.execute("SELECT count(*) FROM calls").fetchone() == (49,)
        assert db.execute('SELECT count(*) FROM "opencl.clFinish" WHERE failed').fetchone() == (1,)
    say(capsys, "export", run, "-o", tmp_path / "csv", "--force", "--table", "kernels")
    assert sorted(p.name for p in (tmp_path / "csv").iterdir()) == ["kernels.parquet", "tables.json"]


def test_compare(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = say(capsys, "compare", run, run, "--fail-above", "5%", "--format", "json")
    (report,) = json.loads(out)["reports"]
    assert {r["verdict_2"] for r in report["rows"]} == {"no difference", "too few calls to tell", ""}
    assert {r["name"] for r in report["rows"] if r["kind"] == "kernels"} == {"addVectors", "scale"}
    out, _ = say(capsys, "compare", run, run)
    assert "no difference" in out
    # A page has all columns; what became of each name is in sight, before what is only to be looked up.
    page, _ = say(capsys, "compare", run, run, "--format", "html")
    totals, *named = (
        re.findall(r'<th scope="col"[^>]*><span>([^<]*)', table)
        for table in re.findall(r"<table.*?</table>", page, flags=re.DOTALL)
    )
    assert totals == ["Name", "Ratio", "Difference", "Total A", "Total B", "Calls A", "Calls B"]  # sums have no medians
    assert len(named) == 3
    for heads in named:
        assert heads[:4] == ["Name", "Med A", "Med B", "Verdict"] and {"Min A", "First B", "Total B"} <= set(heads)


def test_trace(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = say(capsys, "trace", run)
    lines = out.splitlines()
    assert len(lines) == 50 and "! a note" in err
    assert lines[0].split(maxsplit=4)[:4] == ["0.000000000", "300", "ns", "100:100"]
    assert "\n" not in lines[-1] and "never returned" in lines[-1]


def at_terminal(*words: object, columns: int, **environment: str) -> str:
    """What a command shows on a terminal of so many columns."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    known = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}
    running = subprocess.Popen(
        [sys.executable, "-m", "occatrace.cli", *map(str, words)],
        stdin=child,
        stdout=child,
        stderr=child,
        env={**known, "TERM": "xterm-256color", **environment},
    )
    os.close(child)
    shown = b""
    while True:
        try:
            piece = os.read(parent, 1 << 16)
        except OSError:  # nobody has the other side any more
            break
        shown += piece
    os.close(parent)
    assert running.wait(60) == 0, shown
    return shown.decode()


def test_tables_fit_the_terminal(run: Path) -> None:
    shown = at_terminal("report", run, "--report", "occa_kern_sum", "--report", "api_sum", columns=60)
    assert re.search(r"\x1b\[[0-9;]*m", shown)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    lines = [line for line in plain.splitlines() if "━" not in line]  # a bar is there if this took a second
    assert max(map(len, lines)) <= 60
    assert "no room for: Med" in plain and "addVectors" in plain
    uncoloured = at_terminal("report", run, "--report", "occa_kern_sum", columns=60, NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*[34]\d", uncoloured), "no colours, bold and dim at most"


def test_progress_of_a_timeline(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A bar on a terminal, gone when all is written; nothing in a pipe."""
    file = tmp_path / "x.pftrace"
    shown = at_terminal("timeline", run, "-o", file, columns=100)
    rest = shown.rpartition("\x1b[2K")[2]  # after a line that is wiped, if this took a second
    assert rest.startswith(str(file)[:60]) and file.stat().st_size > 0
    _, err = say(capsys, "timeline", run, "-o", file, "--force", "--split", "rank")
    assert err == "occa_prof: the run has no ranks, so --split rank made one file\n"
    out, err = say(capsys, "timeline", run, "-o", file, "--force")
    assert out.startswith(str(file)) and err == ""
    _, err = say(capsys, "timeline", run, "-o", file, "--force", "--filter-name", "no such name")
    assert err == "occa_prof: nothing is left after these filters: the timeline has only counters\n"
