"""tools/acceptance: what differs under occa_prof is named, and what is not there is no failure."""

from __future__ import annotations

import argparse
import importlib.machinery
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Says one thing alone and another when it is traced.
TELLS = "import os; print('3 done'); print('traced' if 'OCCATRACE_RUN' in os.environ else 'alone')"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("acceptance", str(ROOT / "tools" / "acceptance"))
    spec = importlib.util.spec_from_loader("acceptance", loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    sys.modules["acceptance"] = module  # dataclasses look their module up
    loader.exec_module(module)
    return module


def results(tool: ModuleType, **program: Any) -> list[Any]:
    given = {"name": "p", "title": "", "command": [sys.executable, "-c", TELLS], "count": r"(\d+) done", **program}
    args = argparse.Namespace(occa=None, occa_source=None, libparanumal=None, rounds=1)
    return list(tool.test(tool.Program(**given), args))


def test_each_file_is_a_program(tool: ModuleType) -> None:
    found = {p.name: p for p in tool.programs()}
    assert {"pyopencl", "mpi4py", "occa-examples", "libparanumal"} <= found.keys()
    assert {name for name, p in found.items() if p.ci} == {"pyopencl", "mpi4py"}
    for program in found.values():
        for pattern in (*program.ignore, program.count or ""):
            re.compile(pattern)


def test_what_differs_is_named(tool: ModuleType) -> None:
    (same,) = results(tool, ignore=["^(alone|traced)$"])
    assert (same.state, same.count, same.status, same.differs) == ("same", "3", 0, [])
    (other,) = results(tool, expect=["opencl"])
    assert other.state == "DIFFERS"
    assert other.differs == ["output, 2 lines: -alone | +traced", "not seen: opencl"]
    assert "| p | default | DIFFERS | 0 | 3 |" in tool.markdown([other])


def test_status_and_count(tool: ModuleType, tmp_path: Path) -> None:
    program = tool.Program(name="p", title="", command=[], count=r"(\d+) done")
    result = tool.Result("p", "")
    tool.compare(result, program, tool.Ran(0, "3 done", [], 1), tool.Ran(139, "2 done", [], 1), tmp_path)
    assert result.differs[0] == "exit status 0 alone, 139 under occa_prof"
    assert result.differs[2] == "count ['3'] alone, ['2'] under occa_prof"
    nothing = tool.Result("p", "")
    tool.compare(nothing, program, tool.Ran(0, "0 done", [], 1), tool.Ran(0, "0 done", [], 1), tmp_path)
    assert nothing.differs == ["it did nothing, alone as well"]


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ({"needs": ["command:no-such-command"]}, "the command no-such-command"),
        ({"needs": ["python:no_such_module"]}, "the Python module no_such_module"),
        ({"command": ["{occa}/bin/occa"]}, "--occa"),
        ({"each": "/nowhere/*/main.cpp"}, "/nowhere/*/main.cpp"),
        ({"build": [["false"]]}, "does not build: false"),
    ],
)
def test_what_is_not_there(tool: ModuleType, program: dict[str, Any], said: str) -> None:
    (result,) = results(tool, **program)
    assert (result.state, result.absent) == ("not there", said)
