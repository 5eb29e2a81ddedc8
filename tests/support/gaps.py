"""Which events a trace lacks: each thread numbers its own."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from pathlib import Path

_EVENT = re.compile(r" (\w+:\w+): \{.*?\btid = (\d+), seq = (\d+)\b")


def gaps(run: Path) -> list[str]:
    """A line for each missing number: the thread, the number, and the events of the thread on both sides.

    Read by babeltrace2, not by our decoder. What is missing at a thread's end is not seen.
    """
    done = subprocess.run(["babeltrace2", run / "trace"], text=True, capture_output=True, check=False)
    threads: defaultdict[int, dict[int, str]] = defaultdict(dict)
    for name, tid, seq in _EVENT.findall(done.stdout):
        threads[int(tid)][int(seq)] = name
    out = [f"babeltrace2: {done.stderr.strip()[-300:]}"] if done.returncode else []
    for tid, events in threads.items():
        numbers = sorted(events)
        for before, after in zip([-1, *numbers], numbers, strict=False):
            if after != before + 1:
                out.append(f"thread {tid}: {events.get(before)} {before} .. {after} {events[after]}")
        out.append(f"thread {tid}: {len(events)} events, the last is {events[numbers[-1]]} {numbers[-1]}")
    return out
