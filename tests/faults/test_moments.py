"""Signals to occa_prof at moments of the start of a recording, which are those of the program, not of the clock."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.integration.session.test_command import info
from tests.support.suites.session import OCCA_PROF, Person, environment, nothing_left
from tests.unit.test_ending import HOOK, SIGNALS, heard

# Audit events of Python, and a part of their arguments.
MOMENTS = {
    "the recording's modules": ("import", "occatrace.record.session"),
    "the run folder": ("os.mkdir", "run"),
    "run.json": ("open", "run.json"),
    "LTTng's daemon": ("os.posix_spawn", "keeper"),
    "LTTng's library": ("import", "occatrace._session"),
}


@pytest.mark.parametrize(("number", "moment"), list(enumerate(MOMENTS)), ids=list(MOMENTS))
def test_signals_while_a_recording_starts(user: Person, folder: Path, probe: Path, number: int, moment: str) -> None:
    """The program does not run, or gets the signal; nothing of the run stays but its folder."""
    sent = SIGNALS[number % len(SIGNALS)]
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(HOOK)
    event, part = MOMENTS[moment]
    env = environment()
    env |= {
        "PYTHONPATH": f"{folder}/site:{env['PYTHONPATH']}",
        "OCCATRACE_TEST_MOMENT": f"{event}|{part}|{int(sent)}|{folder}/marker",
    }
    words = user.words([*OCCA_PROF, "-o", "run", str(probe), "3", "sleep", "0.2"])
    done = subprocess.run(words, text=True, capture_output=True, env=env, timeout=120, check=False, preexec_fn=heard)
    assert (folder / "marker").exists(), "that moment did not come"
    assert done.returncode in (128 + sent, 0), (done.returncode, done.stderr)
    assert "Traceback" not in done.stderr and "internal error" not in done.stderr, done.stderr
    if not (folder / "run" / "run.json").exists() or not (folder / "run/run.json").read_text():
        return
    nothing_left(info(folder / "run")["id"])
    shown = user.run([*OCCA_PROF, "report", "run"])
    assert shown.returncode == 0 or (shown.returncode == 2 and shown.stderr.count("\n") == 1), shown.stderr
