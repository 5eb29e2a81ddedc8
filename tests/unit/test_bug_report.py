"""`occa_prof doctor --report`: complete, and without private data."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import occatrace
from occatrace.cli import bug_report, doctor, findings
from occatrace.cli.dispatch import main
from tests.support.fake import demo_trace, recorded
from tests.support.runs import ROOT


def test_it_has_what_is_needed_and_nothing_private(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = findings.Finding("ok", "piece", "/home/ada/venv/lib/piece.so on babbage")
    monkeypatch.setattr(doctor, "CHECKS", [("Pieces", lambda: iter([found]))])
    names = [("/home/ada", "~"), ("babbage", "HOST"), ("ada", "USER")]
    monkeypatch.setattr(bug_report, "_private", lambda: names)
    monkeypatch.setattr(bug_report, "COMMANDS", ())
    monkeypatch.setenv("OCCATRACE_PYTHON", "lines")
    monkeypatch.setenv("OCCATRACE_LIVE", "/data/secret-project/x")
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    run = recorded(
        tmp_path, demo_trace(), program=["/data/secret-project/solver", "--key", "hunter3"], user="ada", host="babbage",
        cwd="/data/secret-project", choice={"OCCATRACE_KERNELS": "secretKernel"}, notes=["/data/secret-project/a.out is odd"],
    )  # fmt: skip
    assert main(["doctor", "--report", str(run)]) == 0
    out, err = capsys.readouterr()
    assert "nothing has been sent" in err
    for needed in (
        f"- occatrace: {occatrace.__version__}", "- Python: ", "- duckdb: ", "/dev/shm: ", "OCCATRACE_PYTHON=lines",
        "  ok      piece: ~/venv/lib/piece.so on HOST", "- mode: default", "- filters: OCCATRACE_KERNELS", "- note: …/a.out is odd",
        "- calls of occa: ",
    ):  # fmt: skip
        assert needed in out, needed
    for private in ("hunter", "secret", "solver", "ada", "babbage", "addVectors", "SECRET_TOKEN"):
        assert private not in out, private


def test_a_run_needs_the_option(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(run)]) == 2
    assert "occa_prof doctor --report" in capsys.readouterr().err


def test_words_that_contain_a_name_stay() -> None:
    assert bug_report.clean("metadata of ada, adaptive", [("ada", "USER")]) == "metadata of USER, adaptive"


def test_the_citation_is_of_this_version() -> None:
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^version: (.*)$", citation, re.M)[1] == occatrace.__version__  # type: ignore[index]
    assert json.dumps("BSD-3-Clause")[1:-1] in citation
