"""Each command of each page of the documentation runs as it is printed. The tutorials have a test of their own.

RUN is a recorded run of the demo in OpenCL, ./a.out a small program, app.py one in Python. What cannot run here is named in
ELSEWHERE, with the file that runs or checks it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import occatrace
from occatrace.cli import dispatch
from occatrace.cli.commands import COMMANDS, DEFAULT
from occatrace.cli.parser import of_command
from tests.support.runs import ROOT, execute

PAGES = {
    str(page.relative_to(ROOT)): page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if not page.stem.startswith("tutorial-")
}
# Pages that were written with commands: a page that loses all of them by another layout is noticed.
FEWEST = 20
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(occa_prof [^`\n]+)`")
PROGRAMS = frozenset(
    ("occa_prof", "mpirun", "srun", "eval", "lttng", "lttng-sessiond", "nsys", "pip", "python3", "man", "extrap", "make", "tar",
     "#!/bin/sh")
)  # fmt: skip
# Part of a command, or of a block of them: a file or folder that runs or checks it instead.
ELSEWHERE = {
    "tools/demo": "tests/unit/test_ending.py",
    "tools/test": "tools/test",
    "tools/setup": "tests/unit/test_install.py",
    "tools/acceptance": "tests/unit/test_acceptance.py",
    "tools/wheel": "tools/wheel",
    "tools/cross": "tools/cross",
    "pip install": "tests/unit/test_install.py",
    "python3 -m venv": "tests/unit/test_install.py",
    "venv/bin/": "tests/unit/test_install.py",
    "/apps": "tests/integration/install",
    "nsys export": "tests/unit/test_import_nsys.py",
    "occa_prof import app.sqlite": "tests/unit/test_import_nsys.py",
    "mpirun": "tests/integration/mpi",
    "--start-paused": "tests/integration/choosing",
    "occa_prof resume": "tests/integration/choosing",
    "./simulation &": "tests/faults/test_stream.py",
    "--papi": "tests/integration/counters",
    "occa_prof top": "tests/unit/test_top.py",
    "occa_prof view": "tests/unit/test_view.py",
    "extrap --json": "tests/integration/other_tools/test_scaling.py",
    "occa_prof -o RUN mpirun": "tests/integration/mpi",
}
BLOCKS_ELSEWHERE = {
    "examples/embedding": "tests/integration/python",
    "lttng create my-session": "tests/integration/foreign",
    "lttng create job": "tests/integration/slurm",
    'eval "$(occa_prof start': "tests/integration/session",
}
NUMBERED = [f"{name}{number}" for name in ("A", "B", "RUN", "main", "new", "r") for number in range(1, 9)]
RUNS = ("A", "B", "C", "OTHER", "main", "new", "runs/1", "runs/2", *NUMBERED)
PLACEHOLDERS = {"SELECT …": "SELECT 1", " [OPTIONS]": "", " [ARGS]": "", "TOPIC": "mpi", "solver.cpp": "operator.okl"}
PROGRAM = r"""
#include "occatrace.h"
#include <stdlib.h>
int main(void) {
    occatrace_capture_start();
    for (int step = 0; step < 12; step++) {
        occatrace_push("step");
        occatrace_push("solve");
        free(malloc(4096));
        occatrace_pop();
        occatrace_pop();
    }
    occatrace_capture_stop();
    return 0;
}
"""
APPLICATION = """
import logging, solver
logging.warning("begins")
solver.work()
"""
SOLVER = """
def work():
    return sum(range(1000))
"""


def blocks(page: Path) -> list[list[str]]:
    """The commands of each block of a page in which the first line is one, without comments."""
    found: list[list[str]] = []
    for _, language, content in FENCE.findall(page.read_text(encoding="utf-8")):
        lines = [line.strip() for line in content.splitlines() if line.strip()]
        if language in ("", "sh") and "─" not in content and is_command(lines[0]):
            found.append([line for line in (re.sub(r"(^|\s+)#( |$).*", "", line) for line in lines) if line])
    return found


def is_command(line: str) -> bool:
    first = line.split()[0]
    return first in PROGRAMS or first.startswith(("tools/", ".venv/", "/", "./"))


def commands(page: Path) -> list[str]:
    """What of a page is to be run here."""
    kept = [block for block in blocks(page) if not any(part in "\n".join(block) for part in BLOCKS_ELSEWHERE)]
    return [line for block in kept for line in block if not any(part in line for part in ELSEWHERE)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a reader would stand: with a run, other runs to compare, a program and its sources."""
    place = tmp_path_factory.mktemp("pages")
    (place / "RUN").mkdir()
    subprocess.run(["tar", "-xf", str(ROOT / "tests/golden/demo-opencl/trace.tar.xz")], cwd=place / "RUN", check=True)
    with occatrace.open(place / "RUN") as run:  # the tables are made once
        assert run.tables
    for name in RUNS:
        shutil.copytree(place / "RUN", place / name, copy_function=os.link)
    (place / "app.py").write_text(APPLICATION)
    (place / "solver.py").write_text(SOLVER)
    (place / "a.c").write_text(PROGRAM)
    shutil.copy(ROOT / "examples/demo/operator.okl", place)
    subprocess.run(["gcc", "-g", f"-I{ROOT / 'include'}", "a.c", "-o", "a.out"], cwd=place, check=True)
    shutil.copy(place / "a.out", place / "simulation")
    return place


@pytest.fixture
def here(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page's own copy of the folder."""
    place = tmp_path / "here"
    shutil.copytree(folder, place, copy_function=os.link)
    monkeypatch.chdir(place)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    return place


@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if commands(page)])
def test_commands(name: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for printed in commands(PAGES[name]):
        if printed.startswith("man ") and not shutil.which("man"):
            continue
        command = printed
        for placeholder, word in PLACEHOLDERS.items():
            command = command.replace(placeholder, word)
        is_recorded = re.search(r"-o RUN .*\./", command) is not None
        if is_recorded:
            (here / "RUN").rename(here / "before")
        words = shlex.split(command)
        if words[0] == "occa_prof" and words[1] in COMMANDS and not re.search(r"[;&|$>*](?![^']*'$)", command):
            status = dispatch.main(words[1:])  # in this process: it costs a third
            said = capsys.readouterr().err
        else:
            done = execute(["bash", "-c", f"set -eo pipefail\n{command}"])
            status, said = done.returncode, done.stderr
        assert status == 0, f"{printed}\n{said}"
        if is_recorded:  # what follows on the page is asked of the demo's run
            assert (here / "RUN/run.json").exists()
            shutil.rmtree(here / "RUN")
            (here / "before").rename(here / "RUN")
        assert "Traceback" not in said and "internal error" not in said, f"{printed}\n{said}"


def test_what_does_not_run_here_is_on_a_page_and_runs_elsewhere() -> None:
    known = {**ELSEWHERE, **BLOCKS_ELSEWHERE}
    assert [file for file in known.values() if not (ROOT / file).exists()] == []
    said = ["\n".join(block) for page in PAGES.values() for block in blocks(page)]
    assert [part for part in known if not any(part in text for text in said)] == []
    assert sum(bool(blocks(page)) for page in PAGES.values()) >= FEWEST


@pytest.mark.parametrize(
    "name", [name for name, page in PAGES.items() if INLINE.search(page.read_text(encoding="utf-8"))]
)
def test_commands_within_sentences_have_known_options(name: str) -> None:
    """They are parsed, not run: an option that a page names exists."""
    for command in INLINE.findall(FENCE.sub("", PAGES[name].read_text(encoding="utf-8"))):
        words = shlex.split(re.sub(r"\[[^\]]*\]|\\\||[|]", " ", command))[1:]
        subcommand = words[0] if words and words[0] in COMMANDS else DEFAULT
        parser, module = of_command(subcommand)
        if getattr(module, "TAKES_PROGRAM", False):
            words = dispatch.split_program(parser, words)[0]
        known = parser._option_string_actions
        options = [word.partition("=")[0] for word in words if word.startswith("-") and word != "--"]
        assert [option for option in options if option not in known] == [], command
