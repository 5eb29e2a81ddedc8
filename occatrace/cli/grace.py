"""How long the recording waits for a program that goes on after SIGTERM. A batch system ends a job by SIGTERM and, after a time of
grace, by SIGKILL for all processes: what is not written by then is lost. So the recording ends in time, before the program does."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping

from occatrace.cli.messages import UsageError

VARIABLE = "OCCATRACE_KILL_WAIT"  # seconds from SIGTERM to SIGKILL
# KillWait where slurm.conf has none. Asking slurmctld from each rank of a large job would be a load on it.
SLURM_S = 30.0
LONGEST_S = 7 * 86400.0
FOR_PROGRAM = 1 / 3  # part of the grace for the program to end by itself; the rest is for the trace and the report
FOR_NODES = 2 / 3  # from then on the node that merges a job waits for no other node


def kill_wait(environment: Mapping[str, str] | None = None) -> float | None:
    """Seconds from SIGTERM to SIGKILL; None where nobody says that SIGKILL comes. Raises a UsageError for what is no such time."""
    given = os.environ if environment is None else environment
    if not (text := given.get(VARIABLE, "")):
        return SLURM_S if given.get("SLURM_JOB_ID") else None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= LONGEST_S:
        raise UsageError(f"{VARIABLE}: {text!r} is not a number of seconds above 0 and up to {LONGEST_S:.0f}")
    return seconds


class Grace:
    """The grace of one program or node. It begins with the first SIGTERM."""

    def __init__(self, seconds: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._began: float | None = None

    def begin(self) -> None:
        """SIGTERM has come; batch systems repeat it, and the first one counts."""
        if self._began is None:
            self._began = self._clock()

    def left(self, part: float = FOR_PROGRAM) -> float | None:
        """Seconds until this part of the grace is over, 0 when it is; None: there is no end to wait for."""
        if self.seconds is None or self._began is None:
            return None
        return max(self._began + part * self.seconds - self._clock(), 0.0)

    def over(self, part: float = FOR_PROGRAM) -> bool:
        """Whether this part of the grace has passed."""
        return self.left(part) == 0.0

    def line(self, what: str) -> str:
        """For the person and the run: `what` goes on."""
        assert self.seconds is not None
        return (
            f"the recording ended before the program: {what} still ran {FOR_PROGRAM * self.seconds:.3g} s after SIGTERM,"
            f" and SIGKILL is expected after {self.seconds:.3g} s ({VARIABLE})"
        )
