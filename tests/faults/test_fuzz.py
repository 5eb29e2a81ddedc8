"""A sample of tools/faults fuzz, with fixed numbers, and the inputs that failed once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.cases import CORPUS, Case, load
from tests.faults.execution import Outcome, execute, judge
from tests.faults.parts import PARTS
from tests.faults.runner import ROOT

NUMBER = 12


def of_fuzz(*words: object) -> subprocess.CompletedProcess[str]:
    """By a process of its own, in which nothing has used threads before it forks."""
    command = [sys.executable, "-m", "tests.faults", *map(str, words)]
    return subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=False)


def test_changed_inputs(tmp_path: Path) -> None:
    done = of_fuzz("fuzz", "--number", NUMBER, "--findings", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{NUMBER * len(PARTS)}  inputs, 0 broken" in done.stdout


def test_inputs_that_failed_once() -> None:
    done = of_fuzz("corpus")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(list(CORPUS.glob('*/case.json')))} cases, 0 broken" in done.stdout


def test_cases_are_kept_as_they_were(tmp_path: Path) -> None:
    case = Case("words", "files", ("report", "{in}/run"), {"a/b": b"\0\xff", "c": None}, "what was wrong")
    assert load(case.save(tmp_path)) == case
    base = tmp_path / "base"
    (base / "c").mkdir(parents=True)
    case.put(base, tmp_path / "in")
    assert [str(p.relative_to(tmp_path / "in")) for p in sorted((tmp_path / "in").rglob("*"))] == ["a", "a/b"]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise SystemExit(3)", "status 3"),
        ("1 / 0", "traceback: ZeroDivisionError"),
        ("import os; os.kill(os.getpid(), 11)", "ended by SIGSEGV"),
        ("import sys; print('one\\ntwo', file=sys.stderr); raise SystemExit(2)", "status 2 with 2 lines"),
        ("import sys; print('occa_prof: no', file=sys.stderr); raise SystemExit(2)", "without a reason"),
        ("print('\\x1b[2J')", "control character"),
        ("bytearray(4 << 40)", "traceback: MemoryError"),
        ("x = bytearray(2 << 30)", "MiB of memory"),
        ("import sys; print('occa_prof: a.json is damaged', file=sys.stderr); raise SystemExit(2)", None),
        ("print('fine')", None),
    ],
)
def test_judgement(code: str, said: str | None) -> None:
    """In a process of its own: a child of fork() counts the memory of its parent."""
    script = (
        f"from tests.faults.execution import execute, judge\ndef work():\n    exec({code!r}, {{}})\n    return 0\n"
        "print(judge(['report'], execute(work)))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, text=True, capture_output=True, check=True)
    assert (said or "None") in done.stdout
    assert judge(("decode", "fast"), Outcome(-6, b"", b"Assertion", 0, 0)) and execute(lambda: 5).status == 5
