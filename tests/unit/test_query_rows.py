"""Rows of a query are written as they come: in bounded memory, the first at once, and the command ends when it is asked to."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from occatrace import reports
from occatrace.cli.dispatch import main
from occatrace.render import stream
from tests.support.fake import demo_trace, recorded

COMMAND = (sys.executable, "-m", "occatrace.cli", "query")
PATIENCE = 300.0
MIXED = (
    "SELECT range AS n, range * 1.5 AS x, CASE WHEN range % 3 = 0 THEN NULL ELSE 'a\"b' || chr(10) || ',' || range END AS t,"
    " [range, 2] AS list, {'a': range, 'b': 'c'} AS struct FROM range(50) ORDER BY n"
)
FORMATS = ("table", "csv", "tsv", "json", "markdown", "html")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run for all of them: none changes it."""
    return recorded(tmp_path_factory.mktemp("rows"), demo_trace())


@pytest.mark.parametrize("fmt", FORMATS)
def test_in_parts_it_is_the_same(
    fmt: str, run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = []
    for most in (1000, 1, 7, 25, 50):  # all at once first
        monkeypatch.setattr(stream, "MOST_ROWS", most)
        monkeypatch.setattr(stream, "MOMENT_S", PATIENCE)
        assert main(["query", str(run), MIXED, "--format", fmt]) == 0
        shown.append(capsys.readouterr().out)
    if fmt == "table":  # columns are as wide as the first rows want them
        shown = [" ".join(text.split()) for text in shown]
    assert shown[0].count("2") > 5 and all(text == shown[0] for text in shown)
    if fmt == "json":
        assert len(json.loads(shown[-1])["reports"][0]["rows"]) == 50


@pytest.mark.parametrize("fmt", FORMATS)
def test_a_report_of_single_events_comes_in_parts(
    fmt: str, run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is the same as at once, narrowed and sorted too, and never all in memory."""
    chosen = ["--filter-name", "Kernel|Finish", "--units", "us", "--sort", "duration_ns", "--rows", "9"]
    for words in ([], chosen):
        shown = []
        for most in (1000, 1, 7):  # all at once first
            monkeypatch.setattr(stream, "MOST_ROWS", most)
            monkeypatch.setattr(stream, "MOMENT_S", PATIENCE)
            monkeypatch.setattr(reports, "_FETCH", most)
            monkeypatch.setattr(reports, "rows_of", None)  # that fetches them all
            assert main(["report", str(run), "--report", "api_trace", "--format", fmt, *words]) == 0
            shown.append(capsys.readouterr().out)
            assert "clEnqueueNDRangeKernel" in shown[-1]
        if fmt == "table":  # columns are as wide as the first rows want them, and all are there
            shown = [f"{text.count('clFinish')} {text.count(chr(10))}" for text in shown]
        assert all(text == shown[-1] for text in shown[0 if fmt != "table" else 1 :])


@pytest.mark.parametrize("fmt", ["table", "csv", "tsv", "markdown"])
def test_reports_one_after_another(
    fmt: str, run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["api_sum", "gpu_trace", "gpu_kern_sum"]
    words = [word for name in names for word in ("--report", name)]
    assert main(["report", str(run), *words, "--format", fmt]) == 0
    streamed = capsys.readouterr().out
    monkeypatch.setattr(reports, "is_endless", lambda name: False)
    assert main(["report", str(run), *words, "--format", fmt]) == 0
    assert capsys.readouterr().out == streamed


def test_what_is_wider_than_the_first_rows_is_whole(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stream, "MOST_ROWS", 5)
    query = "SELECT repeat('x', range::INT) AS text, 10 ** range AS number, NULL AS bytes FROM range(12) ORDER BY ALL"
    assert main(["query", str(run), query]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["text", "number", "bytes"] and lines[-1].split()[0] == "x" * 11


def test_json_of_what_json_has_not(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT 1.5::DECIMAL AS a, 2::DECIMAL AS b, DATE '2026-01-02' AS c, 'x'::BLOB AS d, 3::UHUGEINT AS e"
    assert main(["query", str(run), query, "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["reports"][0]["rows"]
    assert row == {"a": 1.5, "b": 2, "c": "2026-01-02", "d": "x", "e": 3}


def test_a_page_has_a_limit(run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(stream, "PAGE_ROWS", 3000)
    assert main(["query", str(run), "FROM range(3001)", "--format", "html"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "3,000 rows: take another --format, or add LIMIT" in err


def test_an_error_among_the_rows(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line, whatever rows come before it."""
    query = "SELECT CASE WHEN range < 200000 THEN range ELSE error('no more') END AS n FROM range(200001)"
    assert main(["query", str(run), query, "--format", "csv"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("occa_prof: ") and err.count("\n") == 1 and "no more" in err


# The command, and the most memory that its process had.
MEASURED = """
import sys
from occatrace.cli.dispatch import main
status = main()
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM:")), file=sys.stderr)
sys.exit(status)
"""


@pytest.mark.parametrize("fmt", ["table", "csv", "json"])
def test_memory(fmt: str, run: Path) -> None:
    """300 MB of rows, of which all would be in memory twice otherwise."""
    query = "SELECT repeat('x', 10000) AS text, range AS n FROM range(30000)"
    words = [sys.executable, "-c", MEASURED, "query", str(run), query, "--format", fmt]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    done = subprocess.run(words, text=True, timeout=PATIENCE, check=True, **pipes)  # type: ignore[call-overload]
    assert int(done.stderr.split()[1]) < 400 << 10, done.stderr


def as_by_default() -> None:
    """In a child: signals are not ignored, as they are where the tests were started in the background."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


ENDLESS = "SELECT * FROM range(100000000000)"


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_ends_when_it_is_asked_to(sent: signal.Signals, run: Path) -> None:
    before = {path.name for path in run.iterdir()} | {".tables.lock"}
    words = [*COMMAND, str(run), ENDLESS, "--format", "csv"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdout=pipe, stderr=pipe, preexec_fn=as_by_default) as running:
        assert running.stdout and running.stdout.readline()
        running.send_signal(sent)
        _, err = running.communicate(timeout=PATIENCE)
        assert (running.returncode, err) == (128 + sent, b"")
    assert {path.name for path in run.iterdir()} <= before


@pytest.mark.parametrize("fmt", ["table", "json", "markdown"])
def test_the_reader_goes(fmt: str, run: Path) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([*COMMAND, str(run), ENDLESS, "--format", fmt], stdout=pipe, stderr=pipe) as running:
        assert running.stdout and running.stderr and running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == b"" and running.wait(PATIENCE) == 141
