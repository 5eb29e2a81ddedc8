"""Runs in notebooks: cells are executed by a real Jupyter kernel, which has neither ipywidgets nor a terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from occatrace.views.plots import draw
from tests.integration.notebook import documented
from tests.support.fake import demo_trace
from tests.support.fake import recorded as recorded_run
from tests.support.runs import PATIENCE

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

Outputs = list[list[Any]]


@pytest.fixture
def execute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outputs]:
    """The outputs of cells, which a kernel of this Python executes in one notebook."""
    for name, value in documented.kernel(tmp_path).items():
        monkeypatch.setenv(name, value)

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
    assert [output for output in outputs if output.output_type == "display_data"] == []
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
    pictures = re.findall(r'<img alt="([^"]+)" src="data:image/svg\+xml;base64,', shown(opened)["text/html"])
    assert pictures == (["Timeline", "Kernel time"] if draw.available() else [])
    assert "addVectors" in shown(rows)["text/html"] and "addVectors" in shown(rows)["text/plain"]
    assert text_of(frame).split()[:2] == ["True", "True"] and int(text_of(frame).split()[2]) > 0
    assert text_of(arrow).split() == ["True", "True"]
    assert text_of(polars).split() == ["True", "True"]
    assert "addVectors" in shown(plot)["image/svg+xml"]


def test_a_query_shows_its_first_rows(execute: Callable[..., Outputs], recorded: Path) -> None:
    """They are not taken from what is fetched later, and another query in between does not matter."""
    _, rows, _, fetched, long, wrong, inner = execute(
        f"import occatrace\nrun = occatrace.open({str(recorded)!r})",
        "found = run.sql('SELECT process, 7 AS seven FROM processes')\nfound",
        "run.sql('SELECT 1').fetchall(), run.report('api_sum')[:0]",
        "print(found.fetchall(), found.description[1][0])",
        "run.sql('SELECT i FROM range(30) t(i)')",
        "show = get_ipython().showtraceback\ntry:\n    run.sql('SELECT nope FROM processes')\n"
        "except occatrace.RunError:\n    show()",
        "def asked():\n    return run.report('nope')\ntry:\n    asked()\nexcept occatrace.RunError:\n    show()",
    )
    assert "seven" in shown(rows)["text/plain"] and "<table" in shown(rows)["text/html"]
    assert text_of(fetched).split() == ["[(1,", "7)]", "seven"]
    assert shown(long)["text/plain"].endswith("the first 20 rows; fetchall(), df() and others have all of them")
    (told,) = [output.traceback for output in wrong if output.output_type == "error"]
    assert len(told) == 1 and told[0].startswith('QueryError: Binder Error: Referenced column "nope" not found')
    (told,) = [output.traceback for output in inner if output.output_type == "error"]
    assert told[-1].startswith("UnknownReport: no report 'nope'") and "return run.report('nope')" in "".join(told)
    assert not any("occatrace/api.py" in line for line in told)


def test_a_program_and_a_cell_are_profiled(execute: Callable[..., Outputs], tmp_path: Path) -> None:
    _, program, facts, _, cell, answer, wrong, missing, mistyped, told, plain = execute(
        "%load_ext occatrace",
        f"first = %occa_prof -o named {sys.executable} -c \"print('from the program')\" -o theirs",
        "print(first.path.name, first.facts['exit_status'], first.facts['program'][-1])",
        "text = 'ab'",
        "%%occa_prof --in text --out answer\nimport occatrace\nwith occatrace.annotate('in the cell'):\n    answer = text * 2",
        "run = _\nprint(answer, [row['name'] for row in run.report('range_sum')])",
        "%occa_prof",
        "%%occa_prof --in nothing\npass",
        "%%occa_prof --tracee occa\npass",
        "%occa_prof --help",
        "print(repr(run.report('range_sum')))",
    )
    assert text_of(program) == "from the program\n"
    assert text_of(facts).split() == ["named", "0", "theirs"]
    assert "in the cell" in shown(cell)["text/html"]
    assert text_of(answer).split(" ", 1) == ["abab", "['in the cell']\n"]
    assert text_of(wrong, "stderr").startswith("occa_prof: usage: %occa_prof")
    assert text_of(missing, "stderr") == "occa_prof: --in nothing: the notebook has no such name\n"
    assert text_of(mistyped, "stderr") == "occa_prof: unknown option --tracee; did you mean --trace?\n"
    assert text_of(told).startswith("usage: occa_prof") and not text_of(told, "stderr")
    assert "in the cell" in text_of(plain) and "\x1b" not in text_of(plain), "ipykernel asks for colours"


@pytest.mark.parametrize("file", sorted(documented.FOLDER.glob("*.ipynb")), ids=lambda file: file.stem)
def test_the_notebooks_of_the_documentation(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They show what their cells give today. Of a cell that profiles, the times differ, and the rest is checked by the cells after it.

    When this fails: python -m tests.integration.notebook.documented
    """
    if "pyopencl" in file.read_text():
        pytest.importorskip("pyopencl")
    for name, value in documented.kernel(tmp_path / "files").items():
        monkeypatch.setenv(name, value)
    (tmp_path / "here").mkdir()
    shown = nbformat.read(file, as_version=4).cells
    executed = documented.execute(file, tmp_path / "here").cells
    assert len(shown) == len(executed) > 8
    for cell, now in zip(shown, executed, strict=True):
        if cell.cell_type == "code" and "%%occa_prof" not in cell.source:
            assert [plain(output) for output in cell.outputs] == [plain(output) for output in now.outputs], cell.source


def plain(output: Any) -> str:
    """An output as text."""
    return str(output.text if output.output_type == "stream" else output.data["text/plain"])
