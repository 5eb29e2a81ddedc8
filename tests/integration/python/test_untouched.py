"""A Python program is under occa_prof what it is alone, whatever --python asks for and whatever it does with its interpreter."""

from __future__ import annotations

import json
import sys
import zipapp
from pathlib import Path

import pytest

from tests.support import runs
from tests.support.interpreters import interpreters
from tests.support.suites.python import PROGRAMS, Profile

ALL = ("functions", "lines", "logging", "time")
TELL = (
    "import os, sys, json; names = ('PYTHONPATH', 'PYTHONHOME', 'PYTHONSTARTUP', 'PYTHONNOUSERSITE', 'VIRTUAL_ENV');"
    " print(json.dumps([sys.path, sys.prefix, sys.base_prefix, sys.argv, sys.executable, list(sys.flags), sys.warnoptions,"
    " hasattr(sys, 'customized'), [os.environ.get(name) for name in names], sorted(sys.meta_path, key=str).__len__()]))"
)


@pytest.mark.parametrize("python", interpreters())
@pytest.mark.parametrize("flags", [(), ("-E",), ("-I",), ("-S",), ("-s", "-O", "-B", "-W", "error"), ("-X", "dev")])
def test_options_and_paths(python: str, flags: tuple[str, ...], profile: Profile, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.customized = True\n")
    command = [python, *flags, "-c", TELL, "word"]
    alone = runs.execute(command, PYTHONPATH=str(tmp_path), OCCA_DIR=None)
    run = profile(*command, python=ALL, PYTHONPATH=str(tmp_path))
    assert run.stdout == alone.stdout and alone.returncode == 0, (run.stderr, alone.stderr)
    isolated = bool({"-E", "-I", "-S"} & set(flags))
    assert json.loads(run.stdout)[7] == (not isolated)
    (start,) = run.calls("start")
    (whole,) = run.calls("run")
    assert start["end_ns"] == whole["start_ns"] and whole["name"] == "-c"
    names = {row["name"] for row in run.calls("import")}
    assert "json" in names and ("site" in names) == ("-S" not in flags)
    assert isolated or "sitecustomize" in names


def test_virtual_environment(profile: Profile, tmp_path: Path) -> None:
    done = runs.execute([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"])
    assert done.returncode == 0, done.stderr
    python = tmp_path / "venv" / "bin" / "python"
    alone = runs.execute([python, "-c", TELL])
    run = profile(python, "-c", TELL, python=ALL)
    assert run.stdout == alone.stdout and json.loads(run.stdout)[1] == str(tmp_path / "venv")
    assert len(run.calls("run")) == 1


@pytest.mark.parametrize("python", interpreters())
@pytest.mark.parametrize("options", [(), ALL])
def test_profilers_of_the_program(python: str, options: tuple[str, ...], profile: Profile) -> None:
    run = profile(python, PROGRAMS / "profiled.py", python=options)
    assert run.stdout == runs.execute([python, PROGRAMS / "profiled.py"]).stdout
    expected = ["10", "10", "5", "20", "7", "0"]
    newer = python != sys.executable or sys.version_info >= (3, 12)
    assert run.stdout.split() == expected or (
        run.stdout.split() == [*expected[:4], "0", "0"] and (not newer or "3.1" in python)
    )
    assert run.rows("SELECT * FROM losses") == []


def test_coverage(profile: Profile, tmp_path: Path) -> None:
    pytest.importorskip("coverage")
    (tmp_path / "covered.py").write_text("def f(x):\n    if x:\n        return 1\n    return 2\n\n\nprint(f(1))\n")
    measured = []
    for n, options in enumerate((None, (), ALL)):
        data, report = tmp_path / f"data{n}", tmp_path / f"report{n}.json"
        command = [sys.executable, "-m", "coverage", "run", f"--data-file={data}", tmp_path / "covered.py"]
        done = runs.execute(command) if options is None else profile(*command, python=options)
        assert done.stdout == "1\n"
        told = [sys.executable, "-m", "coverage", "json", "-q", f"--data-file={data}", "-o", report]
        assert runs.execute(told).returncode == 0
        (file,) = json.loads(report.read_text())["files"].values()
        measured.append((file["executed_lines"], file["missing_lines"]))
    assert measured == [([1, 2, 3, 7], [4])] * 3


def test_program_in_an_archive(profile: Profile, tmp_path: Path) -> None:
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "__main__.py").write_text("import part\nprint(part.f(20), __spec__ is None)\n")
    (folder / "part.py").write_text("def f(n):\n    return n if n < 2 else f(n - 1) + f(n - 2)\n")
    archive = tmp_path / "program.pyz"
    zipapp.create_archive(folder, archive)
    run = profile(sys.executable, archive, python=ALL)
    assert run.stdout == runs.execute([sys.executable, archive]).stdout and run.stdout.startswith("6765 ")
    (calls,) = run.sql("SELECT count(*) FROM python_calls WHERE kind = 'function' AND name IN ('f', 'part.f')")[0]
    assert calls == 21891
