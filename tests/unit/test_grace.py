"""When a recording ends before a program that goes on after SIGTERM."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from occatrace.cli.grace import FOR_NODES, LONGEST_S, SLURM_S, VARIABLE, Grace, kill_wait
from occatrace.cli.messages import UsageError
from tests.support.runs import OCCA_PROF, PATIENCE


def test_where_the_time_comes_from() -> None:
    assert kill_wait({}) is None
    assert kill_wait({VARIABLE: ""}) is None
    assert kill_wait({"SLURM_JOB_ID": "7"}) == SLURM_S
    assert kill_wait({"SLURM_JOB_ID": "7", VARIABLE: "12.5"}) == 12.5
    assert kill_wait({VARIABLE: "60"}) == 60


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "30s", " ", f"{LONGEST_S + 1}"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(UsageError, match=VARIABLE):
        kill_wait({VARIABLE: text})


def test_a_wrong_time_is_one_line() -> None:
    done = subprocess.run([*OCCA_PROF, "true"], env={**os.environ, VARIABLE: "soon"}, text=True, capture_output=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert "'soon' is not a number of seconds" in done.stderr


def test_the_time_begins_with_the_first_signal() -> None:
    now = 100.0
    grace = Grace(30.0, lambda: now)
    assert grace.left() is None and not grace.over()
    grace.begin()
    assert grace.left() == pytest.approx(10)
    now = 105.0
    grace.begin()
    assert grace.left() == pytest.approx(5) and not grace.over()
    now = 111.0
    assert grace.left() == 0 and grace.over() and not grace.over(FOR_NODES)
    now = 121.0
    assert grace.over(FOR_NODES)
    assert "the program still ran 10 s after SIGTERM" in grace.line("the program")


def test_without_a_batch_system_there_is_no_end() -> None:
    grace = Grace(None)
    grace.begin()
    assert grace.left() is None and not grace.over() and not grace.over(FOR_NODES)


WAITING = """
import os
from occatrace.cli import program
with program.SignalGuard.block():
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(7)
    assert program.wait_for(pid, None, lambda: 0.0) is None
    waiting = program.Waiting(pid, lambda _: None)
    os.close(writer)
    print(waiting.end())
"""


def test_waiting_ends_with_the_time_and_goes_on_in_a_thread() -> None:
    """In a process of its own: no thread of the tests may take its signals."""
    done = subprocess.run([sys.executable, "-c", WAITING], text=True, capture_output=True, timeout=PATIENCE)
    assert done.stdout == "7\n", done.stderr
