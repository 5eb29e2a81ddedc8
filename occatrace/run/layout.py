"""Names inside a run folder that its writers and its readers share."""

from __future__ import annotations

import os

RUN_MARK = "run"  # in the folder of buffers: the number of the run's folder in its file system


SAMPLES_FOLDER = "samples"
# Totals are written in this unit, and become shares of the time between two samples; 100 %: one core.
SAMPLES_TOTAL = "ns"


STREAM_FOLDER = "stream"


def new_id() -> str:
    """An identifier that two runs do not share."""
    return os.urandom(4).hex()
