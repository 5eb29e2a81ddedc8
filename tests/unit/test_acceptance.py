"""tools/acceptance: what differs under occa_prof is named, and what is not there is no failure."""

from __future__ import annotations

import argparse
import math
import re
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.tools import load

ROOT = Path(__file__).resolve().parents[2]
# Says one thing alone and another when it is traced.
TELLS = "import os; print('3 done'); print('traced' if 'OCCATRACE_RUN' in os.environ else 'alone')"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load("acceptance")


def results(tool: ModuleType, until: float = math.inf, case: str = "", **program: Any) -> list[Any]:
    given = {"name": "p", "title": "", "command": [sys.executable, "-c", TELLS], "count": r"(\d+) done", **program}
    args = argparse.Namespace(
        occa=[], occa_source=None, libparanumal=None, nekrs=None, rounds=1, jobs=2, until=until, case=case
    )
    return list(tool.test(tool.Program(**given), args))


def test_nothing_is_started_when_the_time_is_over(tool: ModuleType) -> None:
    (result,) = results(tool, until=time.monotonic())
    assert result.state == "not there" and "--within" in result.absent


def test_each_file_is_a_program(tool: ModuleType) -> None:
    found = {p.name: p for p in tool.programs()}
    assert {"pyopencl", "mpi4py", "occa-examples", "libparanumal"} <= found.keys()
    assert {name for name, p in found.items() if p.ci} == {"pyopencl", "mpi4py", "intel-opencl", "dpnp", "lightgbm"}
    for program in found.values():
        for pattern in (*program.ignore, program.count or ""):
            re.compile(pattern)


@pytest.mark.records
def test_what_differs_is_named(tool: ModuleType) -> None:
    (same,) = results(tool, ignore=["^(alone|traced)$"])
    assert (same.state, same.count, same.status, same.differs) == ("same", "3", 0, [])
    (other,) = results(tool, expect=["opencl"])
    assert other.state == "DIFFERS"
    assert other.differs == ["output, 2 lines: -alone | +traced", "not seen: opencl"]
    assert "| p | default | DIFFERS | 0 | 3 |" in tool.markdown([other])


def test_status_and_count(tool: ModuleType, tmp_path: Path) -> None:
    program = tool.Program(name="p", title="", command=[], count=r"(\d+) done")

    def compare(alone: Any, traced: Any) -> Any:
        return tool.compare(program, alone, traced, tmp_path)

    differs = compare(tool.Ran(0, "3 done", [], 1), tool.Ran(139, "2 done", [], 1))
    assert differs[0] == "exit status 0 alone, 139 under occa_prof"
    assert differs[2] == "count ['3'] alone, ['2'] under occa_prof"
    assert compare(tool.Ran(0, "0 done", [], 1), tool.Ran(0, "0 done", [], 1)) == ["it did nothing, alone as well"]
    hangs = compare(tool.Ran(0, "3 done", [], 1), tool.Ran(143, "", [], 600, ended=False))
    assert hangs == ["did not end within 600 s under occa_prof"]


def test_a_program_that_differs_from_itself_is_no_failure(tool: ModuleType, tmp_path: Path) -> None:
    program = tool.Program(name="p", title="", command=[])
    outputs = ["three", "two"]

    def differences(traced: str) -> tuple[list[str], int]:
        left = [tool.Ran(0, text, [], 1) for text in outputs]
        alone = [tool.Ran(0, "one", [], 1)]
        differs = tool.differences(program, alone, tool.Ran(0, traced, [], 1), tmp_path, left.pop)
        return differs, len(alone)

    assert differences("one") == ([], 1)
    assert differences("two") == ([], 2)
    assert differences("four") == (["output, 2 lines: -one | +four"], 3)


@pytest.mark.records
def test_a_difference_that_shows_once_is_a_remark(tool: ModuleType, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    once = f'[ -z "$OCCATRACE_RUN" ] || [ -e {mark} ] || {{ touch {mark}; echo crash; }}; echo 3 done'
    (result,) = results(tool, command=["sh", "-c", once], warm=False)
    assert result.state == "same"
    assert result.said[-1] == "differed in one of two runs: output, 1 lines: +crash"


def test_a_program_that_does_not_end_is_ended(tool: ModuleType, tmp_path: Path) -> None:
    program = tool.Program(name="p", title="", command=[], timeout=1)
    ran = tool.run(["sh", "-c", "sleep 600 & echo $!; wait"], program, {}, tmp_path, tmp_path)
    assert not ran.ended
    while Path(f"/proc/{ran.output.strip()}/exe").exists():  # it ends, or this test does not
        time.sleep(0.02)


def test_a_signal_ends_the_programs_too(tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "STOPPED", threading.Event())
    program = tool.Program(name="p", title="", command=[])
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(tool.run, ["sleep", "600"], program, {}, tmp_path, tmp_path)
        while not tool.GROUPS:
            time.sleep(0.02)
        with pytest.raises(SystemExit):
            tool.stop(signal.SIGTERM, None)
        assert running.result().status == 128 + signal.SIGTERM
    with pytest.raises(SystemExit):
        tool.run(["true"], program, {}, tmp_path, tmp_path)


@pytest.mark.records
def test_cases_of_a_matrix_share_a_build(tool: ModuleType, tmp_path: Path) -> None:
    found = results(
        tool,
        matrix={"word": {"first": "a b", "second": "c"}, "number": ["1", "2"]},
        build=[["sh", "-c", "echo made >> log"]],
        command=["sh", "-c", "echo '{word}' {number}; cat {build}/log"],
        count="^(\\S+).* \\d\nmade$",
        warm=False,
    )
    assert [(r.case, r.count, r.state) for r in found] == [
        ("first 1", "a", "same"),
        ("first 2", "a", "same"),
        ("second 1", "c", "same"),
        ("second 2", "c", "same"),
    ]


@pytest.mark.records
def test_cases_by_name(tool: ModuleType) -> None:
    (result,) = results(tool, case="^b$", matrix={"word": ["a", "b"]}, command=["echo", "3 done"], warm=False)
    assert (result.case, result.state) == ("b", "same")


@pytest.mark.records
def test_occa_prof_stands_where_the_command_says(tool: ModuleType) -> None:
    """Behind a launcher, for example."""
    (result,) = results(tool, command=["env", "WORD=3", "{prof}", "sh", "-c", "echo $WORD done $OCCATRACE_RUN"])
    assert (result.count, result.status) == ("3", 0)
    assert result.differs and result.differs[0].startswith("output, 2 lines: -3 done | +3 done ")


def test_a_new_result_takes_the_place_of_the_old_one(tool: ModuleType) -> None:
    old = [tool.Result("a", "1", ""), tool.Result("a", "2", "", calls=2), tool.Result("b", "", "", calls=1)]
    new = [tool.Result("a", "1", "", calls=3), tool.Result("a", "1", "-l"), tool.Result("b", "", "", absent="command")]
    assert [(r.program, r.case, r.options, r.calls) for r in tool.merged(old, new)] == [
        ("a", "1", "", 3),
        ("a", "2", "", 2),
        ("a", "1", "-l", 0),
        ("b", "", "", 1),
    ]


def test_the_tables_are_those_of_the_recorded_result(tool: ModuleType) -> None:
    recorded = tool.recorded()
    assert recorded
    for path, content in tool.tables(recorded).items():
        assert path.read_text() == content, f"tools/acceptance --tables writes {path.name}"


def test_the_recorded_result_has_no_difference(tool: ModuleType) -> None:
    recorded = tool.recorded()
    assert [f"{r.program} {r.case} {r.options}: {r.differs}" for r in recorded if r.state != "same"] == []
    assert not sum(r.lost for r in recorded)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ({"needs": ["command:no-such-command"]}, "the command no-such-command"),
        ({"needs": ["python:no_such_module"]}, "the Python module no_such_module"),
        ({"command": ["{occa}/bin/occa"]}, "--occa"),
        ({"each": "/nowhere/*/main.cpp"}, "/nowhere/*/main.cpp"),
        ({"build": [["false"]]}, "does not build: false"),
        ({"packages": ["no-such-package-of-occatrace==1", "--no-index"]}, "no-such-package-of-occatrace"),
    ],
)
def test_what_is_not_there(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: dict[str, Any], said: str
) -> None:
    monkeypatch.setattr(tool, "CACHE", tmp_path)
    (result,) = results(tool, **program)
    assert result.state == "not there"
    assert said in result.absent
    assert not list(tmp_path.iterdir())
