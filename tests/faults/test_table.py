"""The table of faults names tests that are there, and docs/faults.md is that table."""

from __future__ import annotations

import re
from pathlib import Path

from tests.faults.runner import PAGE, ROOT, Result, page, read, result_of
from tests.faults.table import TABLE, Fault


def test_every_check_is_there() -> None:
    for row in TABLE:
        assert row.checks, row.fault
        for check in row.checks:
            file, _, name = check.partition("::")
            text = (ROOT / file).read_text(encoding="utf-8")
            assert f"def {name.partition('[')[0]}(" in text, check
    assert len({(row.group, row.fault) for row in TABLE}) == len(TABLE) > 50


def test_the_page_is_the_table() -> None:
    """When this fails: tools/faults --docs"""
    found = re.findall(
        r"^\| (.+) \| (.+) \| (held \(\d+\).*|not possible here) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert [(fault, expected) for fault, expected, _ in found] == [(row.fault, row.expected) for row in TABLE]


def test_results(tmp_path: Path) -> None:
    """A check that fails, or that does not run, breaks its row; one that is skipped does not hold it."""
    file = tmp_path / "results.xml"
    case = '<testcase classname="tests.a.test_b" name="{}">{}</testcase>'
    content = [
        ("test_one[x]", ""),
        ("test_one[y]", "<skipped/>"),
        ("test_two", "<failure/>"),
        ("test_three", "<skipped/>"),
    ]
    file.write_text(
        f"<testsuites><testsuite>{''.join(case.format(*each) for each in content)}</testsuite></testsuites>"
    )
    ended = read(file)

    def of(*names: str) -> Result:
        return result_of(Fault("g", "f", "e", tuple(f"tests/a/test_b.py::{name}" for name in names)), ended)

    assert of("test_one").text == "held (1), 1 not possible here"
    assert of("test_one[x").text == "held (1)"
    assert of("test_one", "test_two").text == "**broken** (1 of 3)" and of("test_two").broken == (
        "tests/a/test_b.py::test_two",
    )
    assert of("test_three").text == "not possible here"
    assert of("test_none").broken == ("tests/a/test_b.py::test_none did not run",)
    assert "| f | e | held (1) |" in page([Fault("g", "f", "e", ())], [Result(1)])
    assert read(tmp_path / "none.xml") == {}
