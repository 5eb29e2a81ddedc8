"""A program with a profiler and a tracer of its own, in all ways that its CPython has; prints what they saw."""

import cProfile
import pstats
import sys
import threading
from types import CodeType, FrameType
from typing import Any


def seen(n: int) -> int:
    return n if n == 0 else seen(n - 1)


def by_setprofile() -> int:
    calls = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code is seen.__code__

    sys.setprofile(note)
    seen(9)
    assert sys.getprofile() is note
    sys.setprofile(None)
    return calls


def by_settrace() -> int:
    lines = 0

    def note(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        if frame.f_code is seen.__code__:
            lines += event == "line"
            return note
        return None

    sys.settrace(note)
    seen(9)
    sys.settrace(None)
    return lines


def by_threading() -> int:
    calls = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code is seen.__code__

    threading.setprofile(note)
    thread = threading.Thread(target=seen, args=(4,))
    thread.start()
    thread.join()
    threading.setprofile(None)  # type: ignore[arg-type]
    return calls


def by_cprofile() -> int:
    profile = cProfile.Profile()
    profile.runcall(seen, 19)
    stats: dict[tuple[str, int, str], Any] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    return sum(row[1] for (_, _, name), row in stats.items() if name == "seen")


def by_monitoring() -> int:
    if sys.version_info < (3, 12):
        return 0
    starts = 0
    monitoring = sys.monitoring
    tool = monitoring.PROFILER_ID

    def note(code: CodeType, _: int) -> None:
        nonlocal starts
        starts += code is seen.__code__

    monitoring.use_tool_id(tool, "own")
    monitoring.register_callback(tool, monitoring.events.PY_START, note)
    monitoring.set_events(tool, monitoring.events.PY_START)
    seen(6)
    monitoring.set_events(tool, 0)
    monitoring.free_tool_id(tool)
    return starts


print(by_setprofile(), by_settrace(), by_threading(), by_cprofile(), by_monitoring(), seen(3))
