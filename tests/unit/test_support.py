"""tools/support: the matrix of the README is that of docs/support.json, which is made of what CI leaves."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.runs import ROOT
from tests.support.tools import load

sys.path.insert(0, str(ROOT / "tools"))
from packer import trial


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load("support", "support_matrix")


def test_the_readme_has_the_recorded_matrix(tool: ModuleType) -> None:
    recorded = tool.recorded()
    assert recorded and not sum(result.failed for result in recorded)
    assert (ROOT / "README.md").read_text() == tool.readme(recorded), "tools/support --tables writes the README"
    assert tool.merged(recorded, recorded) == recorded


def test_each_part_has_its_tests(tool: ModuleType) -> None:
    for part, (files, _) in tool.PARTS.items():
        for file in files:
            assert list((ROOT / file).rglob("test_*.py")), f"{part}: {file} has no tests"


JUNIT = """<?xml version="1.0"?><testsuites><testsuite>
<testcase classname="tests.integration.opencl.test_a" name="x"/>
<testcase classname="tests.integration.opencl.test_a.Class" name="y"><skipped message="no device"/></testcase>
<testcase classname="tests.integration.slurm.test_slurm" name="z[1]"><failure message="m"/></testcase>
<testcase classname="tests.integration.elsewhere.test_b" name="z"/>
</testsuite></testsuites>"""


def test_results_of_tests(tool: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "tests.xml").write_text(JUNIT)
    (tmp_path / "aarch64.xml").write_text(JUNIT)
    found = {(r.part, r.system): (r.passed, r.failed, r.skipped) for r in tool.found(tmp_path)}
    under_qemu = next(system for _, system in found if "aarch64" in system)
    assert found == {
        ("OpenCL", tool.system()): (1, 0, 1),
        ("Slurm", tool.system()): (0, 1, 0),
        ("emit core, fork, exec, annotations", under_qemu): (2, 1, 1),
    }
    matrix = tool.matrix(tool.found(tmp_path))
    assert ": 1, 1 skipped; Slurm" in matrix and ": 0, 1 FAILED |" in matrix


def test_a_trial_in_a_root(tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The release and the C library are those of the root; a trial that is repeated counts once."""
    monkeypatch.setattr(trial, "RESULTS", tmp_path)
    root = tmp_path / "bullseye"
    for file, text in (
        ("etc/os-release", 'PRETTY_NAME="Debian"\nNAME="Debian GNU/Linux"\nVERSION_ID="11"\n'),
        (
            "var/lib/dpkg/status",
            "Package: a\nVersion: 9\n\nPackage: libc6\nStatus: x\nDepends: y\n z\nVersion: 2.31-13\n\n",
        ),
    ):
        (root / file).parent.mkdir(parents=True)
        (root / file).write_text(text)
    for home in ("writable", "read-only", "writable"):
        trial.note(root, "Python 3.10", home)
    trial.note(root, "packages", "writable")
    found = {(r.part.partition(":")[0], r.versions): (r.system, r.passed) for r in tool.found(tmp_path)}
    system, passed = found["wheel", "Python 3.10"]
    assert system.startswith("Debian 11, ") and system.endswith(", glibc 2.31") and passed == 2
    assert found["Debian packages", ""] == (system, 1)


def test_new_results_take_the_place_of_older_ones(tool: ModuleType) -> None:
    old = [tool.Result("OpenCL", "here", "PoCL 3", 1, 0, 0), tool.Result("wheel", "Debian 11", "Python 3.10", 2, 0, 0)]
    new = [tool.Result("OpenCL", "here", "PoCL 4", 2, 0, 0), tool.Result("wheel", "Debian 11", "Python 3.11", 2, 0, 0)]
    assert tool.merged(old, new) == [new[0], old[1], new[1]]


def test_nothing_to_show_is_one_line(tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "RESULTS", ROOT / "build" / "nothing-here")
    monkeypatch.setattr(sys, "argv", ["support"])
    with pytest.raises(SystemExit, match="no results in build/nothing-here"):
        tool.main()
    assert json.loads((ROOT / "docs/support.json").read_text())
