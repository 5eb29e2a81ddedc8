"""How much of the processors other programs used during a run: threads that share them are late without a fault of their own."""

from __future__ import annotations

import os
import time
from pathlib import Path

_STAT = Path("/proc/stat")
_IDLE, _IOWAIT, _GUEST = 3, 4, 8  # columns of /proc/stat; guests are counted as users, too


class OtherLoad:
    """From its making on: the processors that this process may use, and what others did there."""

    def __init__(self, stat: Path = _STAT) -> None:
        self._stat = stat
        self._before = self._read()

    def share(self) -> float | None:
        """The part of the processors' time, 0 to 1, that neither this process nor its ended children used; None: not known."""
        before, now = self._before, self._read()
        if before is None or now is None or now[0] <= before[0]:
            return None
        whole, busy, own = (after - earlier for earlier, after in zip(before, now, strict=True))
        return min(max((busy - own) / whole, 0.0), 1.0)

    def _read(self) -> tuple[float, float, float] | None:
        """Seconds since some moment: of all these processors, those in which they worked, those of this process and its children."""
        try:
            allowed = os.sched_getaffinity(0)
            busy = 0
            for line in self._stat.read_text(encoding="ascii").splitlines():
                name, *words = line.split()
                if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in allowed:
                    numbers = [int(word) for word in words[:_GUEST]]
                    busy += sum(numbers) - numbers[_IDLE] - numbers[_IOWAIT]
        except (OSError, ValueError, IndexError):
            return None
        own = os.times()
        used = own.user + own.system + own.children_user + own.children_system
        return time.monotonic() * len(allowed), busy / os.sysconf("SC_CLK_TCK"), used
