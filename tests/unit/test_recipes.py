"""Reports of users: SQL, Python, packages; what is wrong with one is said in one line."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import occatrace
from occatrace import reports
from occatrace.cli.dispatch import main
from occatrace.reports import recipes
from tests.support.runs import ROOT

GUIDE = (ROOT / "docs/guides/recipes.md").read_text()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's folder with the two reports of the guide."""
    made = tmp_path / "config" / "occatrace" / "reports"
    made.mkdir(parents=True)
    for name, language in (("copies_by_size.sql", "sql"), ("lengths.py", "python")):
        block = re.search(rf"```{language}\n(.*?)```", GUIDE, re.S)
        assert block
        (made / name).write_text(block[1])
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    recipes._read.cache_clear()
    yield made
    recipes._read.cache_clear()


def rows_of(run: Path, name: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    assert main(["report", str(run), "--report", name, "--format", "json"]) == 0
    result: list[dict[str, object]] = json.loads(capsys.readouterr().out)["reports"][0]["rows"]
    return result


def test_files_are_reports(folder: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with occatrace.open(run) as opened:
        copies = opened.sql("SELECT count(*) FROM activities WHERE kind != 'kernel' AND bytes > 0").fetchall()[0][0]
        names = {name for (name,) in opened.sql("SELECT DISTINCT name FROM activities").fetchall()}
        assert "lengths" in opened.reports
        assert {row["name"] for row in opened.report("lengths")} == names
    assert sum(int(str(row["copies"])) for row in rows_of(run, "copies_by_size", capsys)) == copies > 0
    lengths = rows_of(run, "lengths", capsys)
    assert [row["length"] for row in lengths] == sorted((len(name) for name in names), reverse=True)
    assert main(["report", "--list"]) == 0
    assert "copies_by_size" in capsys.readouterr().out
    assert main(["help", "copies_by_size"]) == 0
    assert "| `copies` | count | Copies |" in capsys.readouterr().out
    assert main(["report", str(run), "--report", "length"]) == 2
    assert "did you mean lengths?" in capsys.readouterr().err
    assert "lengths" not in (ROOT / "docs/reports.md").read_text() and "lengths" not in reports.built_in()


def test_plots_and_advice(folder: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The guide's sign is a row of the advice, here of all copies; one that cannot be made is a row that says why."""
    block = re.search(r"`slow_copies.sql`:\n\n```sql\n(.*?)```", GUIDE, re.S)
    assert block and "HAVING" in block[1]
    (folder / "slow_copies.sql").write_text(re.sub("HAVING.*", "", block[1]))
    head = "".join(line + "\n" for line in block[1].splitlines() if line.startswith("--"))
    (folder / "broken.sql").write_text(head + "SELECT nothing AS share, 1 AS name, 1 AS evidence, 1 AS advice")
    recipes._read.cache_clear()
    (own,) = rows_of(run, "slow_copies", capsys)
    signs = {str(row["name"]): row for row in rows_of(run, "advice", capsys)}
    assert own["name"] == "slow copies HtoD" and own["evidence"] == "4 copies"
    assert {key: signs["slow copies HtoD"][key] for key in own} == own
    assert "nothing" in str(signs["broken"]["evidence"]) and "mend this report" in str(signs["broken"]["advice"])
    if importlib.util.find_spec("vl_convert"):
        out = tmp_path / "x.svg"
        assert main(["report", str(run), "--plot", "copies_by_size", "-o", str(out)]) == 0
        assert "axis titled 'Total (" in out.read_text()
    assert main(["report", str(run), "--plot", "no_such"]) == 2


@pytest.mark.parametrize(
    ("kind", "mark"), [("bars", "bar"), ("line", "line"), ("points", "point"), ("map", "rect"), ("python", "bar")]
)
def test_kinds_of_plots(kind: str, mark: str, folder: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The guide's examples, with each kind; the values drawn are those of the rows."""
    block = re.search(r"`copies_over_time.sql`:\n\n```sql\n(.*?)```", GUIDE, re.S)
    function = re.search(r"```python\n(def plot.*?)```", GUIDE, re.S)
    assert block and function
    drawing = "map kind bytes at_ns" if kind == "map" else f"{kind} at_ns bytes kind"
    (folder / "over_time.sql").write_text(
        block[1].replace("points at_ns bytes kind", drawing) if kind != "python" else block[1]
    )
    with (folder / "lengths.py").open("a") as file:
        file.write(f"\n\n{function[1]}")
    recipes._read.cache_clear()
    name = "lengths" if kind == "python" else "over_time"
    with occatrace.open(run) as opened:
        rows = opened.report(name)
        spec = rows.spec()
    layer = spec if kind == "python" else spec["layer"][0]
    marks = layer["data"]["values"]
    assert (layer["mark"] if kind == "python" else layer["mark"]["type"]) == mark
    if kind == "python":
        assert [each["length"] for each in marks] == [row["length"] for row in rows]
    else:
        assert len(marks) == len(rows) > 3
    if kind in ("line", "points"):
        assert [each["y"] * max(r["bytes"] for r in rows) for each in marks] == pytest.approx(
            [row["bytes"] * max(each["y"] for each in marks) for row in rows]
        )
    if importlib.util.find_spec("vl_convert"):
        assert main(["report", str(run), "--plot", name, "-o", "-"]) == 0
        drawn = capsys.readouterr().out
        assert drawn.startswith("<svg") and ("Copies over time" in drawn or kind == "python")


@pytest.mark.parametrize(
    ("plot", "said"),
    [
        ("pie x y", "not `KIND X Y [BY]` with a kind of bars, line, points, map"),
        ("bars x", "not `KIND X Y [BY]`"),
        ("bars x nothing", "no column 'nothing'"),
        ("line n x", "x has no numbers"),
        ("map x n", "map needs BY"),
    ],
)
def test_a_plot_that_is_none_is_one_line(
    plot: str, said: str, folder: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = f"-- title: T\n-- about: a\n-- plot: {plot}\n-- column: x text X\n-- column: n count N\n"
    (folder / "bad.sql").write_text(head + "SELECT 'a' AS x, 1 AS n")
    assert main(["report", str(run), "--plot", "bad"]) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [("def plot(rows): return 1", "returned int"), ("def plot(rows): 1 / 0", "ZeroDivisionError"),
     ("def plot(rows): return {'mark': 'nothing'}", "cannot be drawn")],
)  # fmt: skip
def test_a_function_that_draws_nothing_is_one_line(
    text: str, said: str, folder: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not importlib.util.find_spec("vl_convert"):
        pytest.skip("nothing is drawn without vl-convert")
    with (folder / "lengths.py").open("a") as file:
        file.write(f"\n\n{text}\n")
    recipes._read.cache_clear()
    assert main(["report", str(run), "--plot", "lengths", "-o", "-"]) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("bad.sql", "SELECT 1", "its head has no `title:` line"),
        ("bad.sql", "-- title: T\n-- about: a\n-- column: x parsec X\nSELECT 1 AS x", "with a unit of"),
        ("bad.sql", "-- title: T\n-- about: a\n-- column: x count X\nSELECT nothing AS x", "nothing"),
        (
            "bad.sql",
            "-- title: T\n-- about: a\n-- column: x count X\nSELECT 1 AS y",
            "no column 'x', which its head names",
        ),
        ("bad.py", '"""\ntitle: T\nabout: a\ncolumn: x count X\n"""', "it has no function rows(con)"),
        (
            "bad.py",
            '"""\ntitle: T\nabout: a\ncolumn: x count X\n"""\ndef rows(con): return [(1, 2)]',
            "2 values, the head has 1",
        ),
        (
            "bad.py",
            '"""\ntitle: T\nabout: a\ncolumn: x count X\n"""\ndef rows(con): 1 / 0',
            "ZeroDivisionError: division",
        ),
        ("bad.py", "def rows(", "was never closed"),
    ],
)
def test_what_is_wrong_is_one_line(
    file: str, text: str, said: str, folder: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / file).write_text(text)
    assert main(["report", str(run), "--report", "bad"]) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1
    # The others are not in the way of ours, nor of each other.
    assert main(["report", str(run), "--report", "api_sum", "--report", "copies_by_size"]) == 0


def test_no_report_of_ours_is_replaced(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "api_sum.sql").write_text("-- title: Mine\n-- about: mine\n-- column: x count X\nSELECT 1 AS x")
    assert reports.definition("api_sum").title != "Mine"
    assert main(["report", "--list"]) == 0
    assert "api_sum.sql: there is a report of this name already" in capsys.readouterr().err


def test_code_that_others_can_change_is_not_run(folder: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "lengths.py").chmod(0o646)
    assert main(["report", str(run), "--report", "lengths"]) == 2
    assert "other users can change it" in capsys.readouterr().err


def test_packages_add_reports(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = tmp_path / "site" / "their_reports"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (folder / "copies_by_size.sql").rename(package / "theirs.sql")
    info = tmp_path / "site" / "their_reports-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their_reports\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[occatrace.reports]\ntheirs = their_reports\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    recipes._read.cache_clear()
    assert rows_of(run, "theirs", capsys)
