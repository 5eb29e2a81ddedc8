"""Runs in notebooks: cells are executed by a real Jupyter kernel, which has neither ipywidgets nor a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake import demo_trace
from tests.support.fake import recorded as recorded_run
from tests.support.runs import PATIENCE, ROOT

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

Outputs = list[list[Any]]


@pytest.fixture
def execute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outputs]:
    """The outputs of cells, which a kernel of this Python executes in one notebook."""
    spec = tmp_path / "jupyter" / "kernels" / "here"
    spec.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "here", "language": "python"}))
    for name, folder in (
        ("JUPYTER_DATA_DIR", "jupyter"),
        ("JUPYTER_RUNTIME_DIR", "runtime"),
        ("IPYTHONDIR", "ipython"),
    ):
        monkeypatch.setenv(name, str(tmp_path / folder))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")

    def run(*cells: str) -> Outputs:
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
        client = nbclient.NotebookClient(
            notebook, timeout=int(PATIENCE), startup_timeout=int(PATIENCE), kernel_name="here",
            resources={"metadata": {"path": str(tmp_path)}},
        )  # fmt: skip
        client.execute()
        return [cell.outputs for cell in notebook.cells]

    return run


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    return recorded_run(tmp_path / "demo", demo_trace())


def text_of(outputs: list[Any], name: str = "stdout") -> str:
    return "".join(output.text for output in outputs if output.output_type == "stream" and output.name == name)


def shown(outputs: list[Any]) -> dict[str, str]:
    (result,) = [output for output in outputs if output.output_type == "execute_result"]
    data: dict[str, str] = result.data
    return data


def test_a_run_opens_and_shows_itself(execute: Callable[..., Outputs], recorded: Path) -> None:
    opened, rows, frame, arrow, polars, plot = execute(
        f"import occatrace\nrun = occatrace.open({str(recorded)!r})\nrun",
        "rows = run.report('occa_kern_sum')\nrows",
        "frame = rows.df()\nprint(list(frame.columns) == rows.columns, len(frame) == len(rows), frame['calls'].sum())",
        "table = rows.arrow()\nprint(table.column_names == rows.columns, table.num_rows == len(rows))",
        "table = rows.pl()\nprint(table.columns == rows.columns, table['calls'].sum() == frame['calls'].sum())",
        "rows.plot()",
    )
    assert "<table" in shown(opened)["text/html"] and "occatrace.Run" in shown(opened)["text/plain"]
    assert "addVectors" in shown(rows)["text/html"] and "addVectors" in shown(rows)["text/plain"]
    assert text_of(frame).split()[:2] == ["True", "True"] and int(text_of(frame).split()[2]) > 0
    assert text_of(arrow).split() == ["True", "True"]
    assert text_of(polars).split() == ["True", "True"]
    assert "addVectors" in shown(plot)["image/svg+xml"]


def test_a_program_and_a_cell_are_profiled(execute: Callable[..., Outputs], tmp_path: Path) -> None:
    _, program, facts, _, cell, answer, wrong, missing = execute(
        "%load_ext occatrace",
        f"first = %occa_prof -o named {sys.executable} -c \"print('from the program')\" -o theirs",
        "print(first.path.name, first.facts['exit_status'], first.facts['program'][-1])",
        "text = 'ab'",
        "%%occa_prof --in text --out answer\nimport occatrace\nwith occatrace.annotate('in the cell'):\n    answer = text * 2",
        "run = _\nprint(answer, [row['name'] for row in run.report('range_sum')])",
        "%occa_prof",
        "%%occa_prof --in nothing\npass",
    )
    assert text_of(program) == "from the program\n"
    assert text_of(facts).split() == ["named", "0", "theirs"]
    assert "in the cell" in shown(cell)["text/html"]
    assert text_of(answer).split(" ", 1) == ["abab", "['in the cell']\n"]
    assert text_of(wrong, "stderr").startswith("occa_prof: usage: %occa_prof")
    assert text_of(missing, "stderr") == "occa_prof: --in nothing: the notebook has no such name\n"
