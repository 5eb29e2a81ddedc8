"""Pages that come from the code are what the code says now, and the examples of the documentation run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from occatrace import reports, schema
from occatrace.model import load
from occatrace.tables import open_store
from tests.support.fake import MODEL, demo_trace, run_folder

DOCS = Path(__file__).parents[2] / "docs"


def test_pages_are_up_to_date() -> None:
    assert (DOCS / "schema.md").read_text(encoding="utf-8") == schema.markdown(), "python -m occatrace.schema"
    assert (DOCS / "reports.md").read_text(encoding="utf-8") == reports.markdown(), "python -m occatrace.reports"


def test_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        load()
    except OSError:
        pytest.skip("the native layer is not built")
    run = run_folder(tmp_path).rename(tmp_path / "RUN")
    (run / "run.json").write_text(json.dumps({"schema": 1, "program": ["app"]}), encoding="utf-8")
    with open_store(run, model=MODEL, open_trace=demo_trace().open) as store:
        store.functions()
    (example,) = re.findall(r"```python\n(.*?)```", (DOCS / "python.md").read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "docs/python.md", "exec"), {})
    told = capsys.readouterr().out
    assert "addVectors OpenCL 10 0.01409 ms" in told and "_occa_addVectors_" in told and "[(4096, 1)]" in told
