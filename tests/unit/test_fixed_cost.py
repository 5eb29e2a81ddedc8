"""What a run does once, whatever the program does: counted, because times depend on the machine. What is added here is
paid by everybody in every run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from occatrace import events

# Runs occa_prof's command line and prints which modules it has loaded, which commands LTTng was given, and which files of
# the package were read.
WATCH = """
import json, sys
read, enabled = [], []
def hook(event, args):
    if event == "open" and isinstance(args[0], str) and "/occatrace/" in args[0]:
        read.append(args[0].rpartition("/occatrace/")[2])
sys.addaudithook(hook)
from occatrace import _session
real = _session.enable_events
def enable_events(session, channel, patterns, loglevel):
    enabled.extend(patterns)
    real(session, channel, patterns, loglevel)
_session.enable_events = enable_events
from occatrace.cli.dispatch import main
status = main(sys.argv[1:])
print(json.dumps({"status": status, "modules": sorted(sys.modules), "enabled": enabled, "read": read}))
"""
# Of the analysis, of extras, of other commands: a run that is only recorded needs none of them.
ANALYSIS = {"duckdb", "numpy", "occatrace._native", "occatrace.model", "occatrace.tables", "rich"}
NEVER = {"altair", "asyncio", "distributed", "jinja2", "pandas", "pyarrow", "vl_convert", "yaml"}


# A program of which something is recorded: it asks for tracing and makes no call.
TRACED = (sys.executable, "-c", "import ctypes; assert ctypes.CDLL(None).occatrace_start()")


def watched(*words: object) -> dict[str, Any]:
    command = [sys.executable, "-c", WATCH, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert seen["status"] == 0, done.stderr
    return seen


@pytest.mark.parametrize("mode", events.MODES)
def test_recording(tmp_path: Path, mode: str) -> None:
    """One command for all events, whatever the number of functions; nothing of the analysis."""
    seen = watched("-q", "-m", mode, "-o", tmp_path / "run", *TRACED)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["session"]["state"] == "recorded"
    assert seen["enabled"] == [events.PATTERN]
    assert not (ANALYSIS | NEVER) & set(seen["modules"])
    assert not [name for name in seen["read"] if name.endswith((".json", ".sql"))]


def test_summary(tmp_path: Path) -> None:
    """The same and a summary, at the end of the run and again: what extras and other commands need is not loaded."""
    run = tmp_path / "run"
    for words in (("-o", run, *TRACED), ("report", run)):
        seen = watched(*words)
        assert "occatrace.reports" in seen["modules"]
        assert not NEVER & set(seen["modules"])
