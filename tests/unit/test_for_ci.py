"""What CI reads: JUnit XML, annotations of GitHub, names of what became slower, JSON Schemas."""

from __future__ import annotations

import io
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from occatrace import reports
from occatrace.cli import compare as command
from occatrace.cli.dispatch import main
from occatrace.render import ci, schemas
from occatrace.reports import compare
from tests.support.fake import FakeTrace, demo_trace, recorded
from tests.support.schemas import validate
from tests.unit.test_compare import run_of


def verdicts() -> list[ci.Verdict]:
    """Three runs, then three in which k3 takes twice and k5 half as long."""
    before = [run_of(seed) for seed in (1, 2, 3)]
    after = [run_of(seed, slower={3: 2.0, 5: 0.5}) for seed in (4, 5, 6)]
    report, _ = compare.compare({"A": before, "B": after})
    return ci.verdicts(report, ["A", "B"])


def test_junit() -> None:
    out = io.StringIO()
    ci.junit(verdicts(), 0.05, out)
    suite = ElementTree.fromstring(out.getvalue())
    assert suite.get("tests") == "12" and suite.get("failures") == "1" and len(suite) == 12
    failed = [case for case in suite if case.find("failure") is not None]
    assert [(case.get("classname"), case.get("name")) for case in failed] == [("B.kernels", "k3")]
    message = failed[0][0].get("message") or ""
    assert (
        message.startswith("k3 (kernels) ")
        and "slower: median " in message
        and 3e-4 < float(failed[0].get("time") or 0) < 5e-4
    )


def test_github() -> None:
    out = io.StringIO()
    ci.github(verdicts(), 0.05, out)
    error, notice = out.getvalue().splitlines()
    assert error.startswith("::error title=occa_prof: slower::k3 (kernels) ") and " %25" in error
    assert notice == "::notice title=occa_prof compare::12 names compared: 1 slower, 1 faster, 0 otherwise changed"
    out = io.StringIO()
    ci.github(verdicts(), 5.0, out)
    assert out.getvalue().startswith("::warning title=occa_prof: changed::k3 ")


def test_names_with_odd_characters_are_escaped() -> None:
    odd = ci.Verdict("B", "kernels", 'k<"&\x01', "50 % slower", 1.5, None, 1.0, 2.0)
    out = io.StringIO()
    ci.junit([odd], 0.0, out)
    assert ElementTree.fromstring(out.getvalue())[0].get("name") == 'k<"&\\x01'


def test_the_names_of_what_became_slower(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before, after = [run_of(seed) for seed in (1, 2, 3)], [run_of(seed, slower={3: 2.0}) for seed in (4, 5, 6)]
    monkeypatch.setattr(command, "collect_runs", lambda *_: ({"A": before, "B": after}, []))
    monkeypatch.setattr(command, "variants_of", lambda _: {"A": [], "B": []})
    words = ["compare", str(run), str(run), "--fail-above", "5%"]
    assert main([*words, "-o", str(tmp_path / "x.txt")]) == 1
    err = capsys.readouterr().err.splitlines()
    assert err[0].startswith("occa_prof: slower by ") and err[0].endswith("more than 5 %")
    assert [line.split()[:2] for line in err[1:]] == [["k3", "(kernels)"]]
    assert main([*words, "--format", "junit", "--filter-name", "k3"]) == 1
    out, err_text = capsys.readouterr()
    assert len(ElementTree.fromstring(out)) == 1 and "  k3 (kernels) " in err_text


# ---- schemas ----


@pytest.mark.parametrize("trace", [demo_trace, FakeTrace], ids=["demo", "empty"])
def test_outputs_are_as_their_schemas_say(
    trace: type[FakeTrace], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = recorded(tmp_path, trace())
    check = validate
    check("run", (run / "run.json").read_text())
    assert main(["report", str(run), "--format", "json"]) == 0
    check("report", capsys.readouterr().out)
    assert main(["query", str(run), "SELECT 1 AS one, 'x' AS text, [1, 2] AS list", "--format", "json"]) == 0
    check("report", capsys.readouterr().out)
    for form in ("parquet", "csv", "json"):
        assert main(["export", str(run), "--format", form, "-o", str(tmp_path / form), "--table", "processes"]) == 0
        check("tables", (tmp_path / form / "tables.json").read_text())
    capsys.readouterr()
    if trace is FakeTrace:
        return
    assert main(["why", str(run), "--format", "json", "--what-if", "kernel:**0.5"]) == 0
    text = capsys.readouterr().out
    check("why", text)
    assert next(iter(json.loads(text))) == "schema"
    for more in ([], ["--scale", str(run)]):
        assert main(["efficiency", str(run), *more, "--format", "json"]) == 0
        check("report", capsys.readouterr().out)
    assert main(["compare", str(run), str(run), "--format", "json"]) == 0
    check("report", capsys.readouterr().out)
    # All reports at once: each has exactly its fields.
    names = [name for name in reports.definitions() if name != "idle_sum"]  # the small model has not its arguments
    assert main(["report", str(run), "--format", "json", *(word for name in names for word in ("--report", name))]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [report["name"] for report in document["reports"]] == names
    for report in document["reports"]:
        check(report["name"], json.dumps({**document, "reports": [report]}))


def test_schemas_have_versions_and_refuse_other_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "report"]) == 0
    assert json.loads(capsys.readouterr().out)["$id"] == "urn:occatrace:schema:report:1"
    for name in schemas.NAMES:
        assert schemas.schema(name)["$id"].rpartition(":")[2].isdigit()
    assert main(["schema", "reporrrt"]) == 2
    told = capsys.readouterr().err
    assert "no schema 'reporrrt': write report, why, run, history, tables, reports, runs or a report" in told
