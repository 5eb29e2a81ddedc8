"""The stock babeltrace2 command with our plug-in: the table of a trace's calls, against numpy over the columns."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from occatrace import _native, install
from tests.support import traces

pytestmark = pytest.mark.skipif(bool(traces.why_no_recording()), reason=traces.why_no_recording())


def _summary(trace: Path) -> dict[str, list[str]]:
    command = ["babeltrace2", f"--plugin-path={install.PLUGINS}", str(trace), "--component=sink.occatrace.summary"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return {line.split()[-1]: line.split()[:-1] for line in done.stdout.splitlines()[1:]}


def test_summary(tmp_path: Path) -> None:
    trace = traces.record(tmp_path / "calls", "3", "5000", "calls", events="columns_test:call")
    batches = [batch.columns for batch in _native.Reader(trace)]
    times = np.concatenate([each["ts"] - each["start"] for each in batches])
    assert _summary(trace) == {
        "columns_test:call": [
            "100.00",
            str(times.sum()),
            "15000",
            str(times.sum() // 15000),
            str(times.min()),
            str(times.max()),
        ]
    }


def test_events_that_are_no_calls_are_counted(tmp_path: Path) -> None:
    trace = traces.record(tmp_path / "all", "1", "100")
    summary = _summary(trace)
    assert summary["columns_test:text"] == ["100"]
    assert len(summary) == 7
