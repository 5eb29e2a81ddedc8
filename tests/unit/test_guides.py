"""The guides to extending occatrace: the examples work, and the files that they name are there."""

from __future__ import annotations

import argparse
import ast
import re
import tarfile
import textwrap
from pathlib import Path
from typing import Any

import pytest

import occatrace
from occatrace import reports
from occatrace.run import ranks

ROOT = Path(__file__).resolve().parents[2]
GUIDES = sorted((ROOT / "docs/guides").glob("*.md"))


def example(guide: str, language: str) -> str:
    block = re.search(rf"```{language}\n(.*?)```", (ROOT / f"docs/guides/{guide}.md").read_text(), re.S)
    assert block
    return block[1]


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_the_files_that_a_guide_names_are_there(guide: Path) -> None:
    named = re.findall(r"`((?:occatrace|native|tools|tests|docs|tracepoints)/[\w./-]+)`", guide.read_text())
    assert [path for path in named if "NAME" not in path and not (ROOT / path).exists()] == []


def test_the_report_of_the_guide(tmp_path: Path) -> None:
    definition = reports.parse("longest", example("add-a-report", "sql"))
    assert definition.title == "Longest kernels"
    with tarfile.open(ROOT / "tests/golden/demo-opencl/trace.tar.xz") as archive:
        archive.extractall(tmp_path)
    with occatrace.open(tmp_path) as run:
        found = run.sql(definition.sql)
        names = [column[0] for column in found.description or ()]
        rows = found.fetchall()
    assert names == [column.name for column in definition.columns]
    assert rows and all(row[0] > 0 for row in rows)


def test_the_launcher_of_the_guide(monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = eval(example("add-a-launcher", "python"), {"Launcher": ranks.Launcher})
    monkeypatch.setattr(ranks, "LAUNCHERS", (launcher, *ranks.LAUNCHERS))
    place = ranks.place({"EXAMPLE_RANK": "3", "EXAMPLE_SIZE": "8", "EXAMPLE_JOB": "17"})
    assert (place.rank, place.size) == (3, 8)
    assert "EXAMPLE_RANK" in ranks.header()


def test_the_option_of_the_guide(capsys: pytest.CaptureFixture[str]) -> None:
    """The example is a whole option: its help begins with a verb and says the default, a wrong value is one line."""
    place: dict[str, Any] = {"argparse": argparse}
    exec(textwrap.dedent(example("add-an-option", "python")), place)
    parser = argparse.ArgumentParser(prog="occa_prof")
    place["add"](parser)
    assert parser.parse_args([]).most_samples == 1000
    assert parser.parse_args(["--most-samples", "7"]).most_samples == 7
    (option,) = (action for action in parser._actions if action.dest == "most_samples")
    assert re.match(r"[a-z]+ .*\(default: 1000\)$", option.help or "")
    for wrong in ("0", "many"):
        with pytest.raises(SystemExit):
            parser.parse_args(["--most-samples", wrong])
        assert capsys.readouterr().err.splitlines()[-1].endswith(f"{wrong!r} is not a number above 0")


def test_argparse_stays_in_the_command_line() -> None:
    """Options reach other packages as plain values: none of them knows argparse."""
    package = Path(occatrace.__file__).parent
    knowing = set()
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import) and any(name.name == "argparse" for name in node.names):
                knowing.add(path.relative_to(package).parts[0])
            if isinstance(node, ast.ImportFrom) and node.module == "argparse":
                knowing.add(path.relative_to(package).parts[0])
    assert knowing == {"cli"}
