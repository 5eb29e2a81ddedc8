"""What the commands on runs say to bad input: one line that says what to do, and the documented exit status."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from occatrace.cli.commands import STATUSES, overview
from occatrace.cli.dispatch import main
from tests.support.fake import FakeTrace, recorded

ROOT = Path(__file__).resolve().parents[2]


def one_line(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The message of a command that fails."""
    assert main([str(word) for word in words]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("occa_prof: ") and err.count("\n") == 1, err
    return err


def test_options_that_cannot_be_understood(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in {
        ("--sort", "colour"): r"no column 'colour'; it has share, total_ns",
        ("--sort", "calls:up"): r"write calls:asc or calls:desc",
        ("--filter-name", "("): r"'\(' is not a regular expression",
        ("--filter-time", "soon"): r"write BEGIN:END",
        ("--filter-time", "2s:1s"): r"ends before it begins",
        ("--filter-time", "1x:2s"): r"'1x' is not a time: write 1\.5s",
        ("--units", "parsec"): r"write auto, base, or one of each of ns",
        ("--rows", "-1"): r"--rows -1: write a number of rows",
        ("--rows", "many"): r"--rows many: write a number of rows, as in --rows 10",
        ("--report", "x"): r"no report 'x'; `occa_prof report --list` lists all \d+$",
    }.items():
        assert re.search(said, one_line(capsys, "report", run, *words)), words
        if words[0] != "--sort":
            # Before the program runs, not after.
            assert re.search(said, one_line(capsys, "run", *words, sys.executable, "-c", "raise SystemExit(3)")), words


def test_the_parser_refuses_in_its_own_way(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (("report", run, "--names", "nice"), "invalid choice: 'nice'"),
        (("report", run, "--by", "colour"), "invalid choice: 'colour'"),
        (("report", run, "api_sum"), "unexpected argument: api_sum; for a report write --report api_sum"),
        (("report", run, "gpukernsum"), "unexpected argument: gpukernsum; for a report write --report gpu_kern_sum"),
        (("report", run, "zzz"), "unexpected argument: zzz (occa_prof report --help)"),
        (("report", run, "--format", "pdf"), "invalid choice: 'pdf'"),
        (("compare", run, run, "--fail-above", "much"), "'much' is not a percentage: write 5% or 5"),
        (("compare", run, run, "--fail-above", "-3"), "is not a percentage"),
    ):
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        assert ended.value.code == 2 and said in capsys.readouterr().err


def test_what_is_not_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, empty, broken, newer, bare = (tmp_path / n for n in ("file", "empty", "broken", "newer", "bare"))
    file.write_text("x")
    for folder in (empty, broken, newer, bare):
        folder.mkdir()
    (broken / "run.json").write_text("{")
    (newer / "run.json").write_text('{"schema": 99, "version": "9.9"}')
    (bare / "run.json").write_text('{"schema": 1, "program": ["app"]}')
    for path, said in (
        (tmp_path / "nowhere", "does not exist: give the folder that"),
        (file, "is a file, not a run"),
        (empty, "is not a run"),
        (tmp_path, "is not a run, but"),
        (broken, "is damaged: it is not JSON"),
        (newer, "newer occatrace 9.9 (schema 99, this one knows 1): update occatrace"),
        (bare, "neither tables nor a trace in it"),
    ):
        for command in (["report"], ["query"], ["trace"], ["timeline"], ["export", "-o", tmp_path / "out"]):
            assert said in one_line(capsys, command[0], path, *command[1:])
        assert said in one_line(capsys, "compare", path, path)


def test_damaged_tables(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("activities", "processes"):
        file = run / "tables" / f"{name}.parquet"
        content = file.read_bytes()
        file.write_bytes(b"PAR1" + b"\0" * 100 + b"PAR1")
        assert f"{name}.parquet is damaged" in (err := one_line(capsys, "report", run)) and "remove" in err
        # Its head is whole, its pages are not: found only when they are read.
        middle = len(content) // 3
        file.write_bytes(content[:8] + bytes(255 - b for b in content[8:middle]) + content[middle:])
        status = main(["report", str(run), "--report", "gpu_kern_sum", "--report", "rank_sum"])
        err = capsys.readouterr().err
        assert status == 2 and err.count("\n") == 1 and "remove" in err, err
        file.unlink()
        assert f"{name}.parquet is missing; remove" in one_line(capsys, "report", run)
        file.write_bytes(content)
    assert main(["report", str(run)]) == 0


def test_runs_without_much(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nothing = FakeTrace()
    nothing.process(1).record("exit", 5, reason=0)
    empty = recorded(tmp_path / "a", nothing)
    assert main(["report", str(empty)]) == 0
    assert "nothing was recorded: no traced API was used" in capsys.readouterr().out
    assert main(["report", str(empty), "--report", "gpu_kern_sum", "--by", "rank", "--filter-time", "1s:2s"]) == 0
    assert "nothing recorded" in capsys.readouterr().out
    host = FakeTrace()
    t = host.process(1)
    for at in range(100, 2000, 100):
        t.call("occa:device_buildKernel", at, at + 10, source=0, error=0)
    t.record("exit", 5000, reason=0)
    without_device = recorded(tmp_path / "b", host)
    assert main(["report", str(without_device)]) == 0
    assert "occa::device::buildKernel" in capsys.readouterr().out
    for name in ("gpu_kern_sum", "gpu_trace", "gpu_util", "occa_kern_sum", "kern_exec_sum", "advice", "hist"):
        assert main(["report", str(without_device), "--report", name]) == 0
    capsys.readouterr()
    assert "have nothing in common" in one_line(capsys, "compare", without_device, run)
    said = "has nothing to compare: none of kernels, memory, ranges, python, functions was recorded"
    assert said in one_line(capsys, "compare", without_device, empty)
    tallied = FakeTrace()
    t = tallied.process(1)
    tallied.tally(t, "opencl:clGetDeviceInfo", [5, 6], 900)
    t.record("exit", 1000, reason=0)
    counts = recorded(tmp_path / "c", tallied, mode="tally")
    assert "recorded with -m tally" in one_line(capsys, "compare", counts, run)


def test_the_trace_is_gone(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(run / "trace")
    shutil.rmtree(run / "tables" / "calls")
    assert main(["report", str(run)]) == 0
    capsys.readouterr()
    assert "the trace is gone" in one_line(capsys, "report", run, "--report", "api_trace")
    assert "the trace is gone" in one_line(capsys, "query", run, "SELECT * FROM calls")


def test_queries(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for query, said in (
        ("SELEC 1", "syntax error"),
        ("SELECT nothing FROM kernels", "nothing"),
        ("FROM nothing", "does not exist"),
        ("SELECT 1/", "syntax error"),
        ("SELECT CAST('x' AS INTEGER)", "Could not convert"),
    ):
        assert said in one_line(capsys, "query", run, query)


def test_an_old_locale(run: Path) -> None:
    for fmt in ("table", "json", "csv", "markdown"):
        command = [sys.executable, "-m", "occatrace.cli", "query", str(run), "SELECT '漢字 µ' AS name", "--format", fmt]
        for encoding in ("ascii", "latin-1"):
            done = subprocess.run(
                command, env={**os.environ, "PYTHONIOENCODING": encoding}, capture_output=True, check=True
            )
            assert "漢字 µ" in done.stdout.decode("utf-8")


def test_statuses_are_told_in_one_list() -> None:
    page = (ROOT / "docs" / "run-folder.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| (.+?) \| (.+) \|$", page.partition("## Exit status")[2], re.MULTILINE))
    told.pop("status")
    told.pop("---", None)
    assert told == dict(STATUSES)
    assert all(about in overview() for about in STATUSES.values())


def test_statuses_of_the_command(run: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "occatrace.cli"]

    def status(*words: object, **more: Any) -> int:
        return subprocess.run([*command, *map(str, words)], capture_output=True, check=False, **more).returncode

    assert status("report", run) == 0
    assert status("report", tmp_path / "nowhere") == 2
    assert status("report", run, "--colour") == 2
    for format in ("csv", "table"):
        asked = f"query {run} 'FROM range(1000000)' --format {format}"
        closed = f"{' '.join(command)} {asked} | head -1 > /dev/null; exit ${{PIPESTATUS[0]}}"
        assert subprocess.run(["bash", "-c", closed], check=False, env=dict(os.environ)).returncode == 141
