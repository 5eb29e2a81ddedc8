"""Times and sizes as people write and read them: "1.5 ms", "200ms:1.2s", "--units us,MiB". No code that knows of runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from occatrace.errors import ChoiceError, RunError

TIMES: Mapping[str, int] = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
SIZES: Mapping[str, int] = {
    **{unit: 1024**power for power, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB"))},
    **{unit: 1000**power for power, unit in enumerate(("kB", "MB", "GB", "TB"), 1)},
}
AUTO, BASE = "auto", "base"

_INPUT = {**TIMES, "µs": 10**3, "": 10**9, "m": 60 * 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}


class UnitError(RunError):
    """A time, a range or a unit that cannot be understood; one line that says how to write it."""


@dataclass(frozen=True)
class Units:
    """Fixed units for all times and all sizes; None: what fits (for people), or ns and bytes (for programs)."""

    time: str | None = None
    size: str | None = None


def parse_units(text: str) -> Units | None:
    """Of --units: `ms`, `us,MiB`, `base` (ns and bytes), `auto` (what fits); None for auto."""
    if text == AUTO:
        return None
    if text == BASE:
        return Units("ns", "B")
    time = size = None
    for word in (word.strip() for word in text.split(",")):
        unit = {"µs": "us"}.get(word, word)
        if unit in TIMES and time is None:
            time = unit
        elif unit in SIZES and size is None:
            size = unit
        else:
            known = f"{', '.join(TIMES)} and {', '.join(SIZES)}"
            raise UnitError(f"--units {text}: write auto, base, or one of each of {known}, as in ms,MiB")
    return Units(time, size)


def duration(ns: float) -> str:
    """Four digits and the unit that fits."""
    for limit, scale, unit in ((1e3, 1.0, "ns"), (1e6, 1e3, "µs"), (1e9, 1e6, "ms")):
        if abs(ns) < limit * 0.99995:
            return f"{digits(ns / scale, whole=scale == 1.0)} {unit}"
    return f"{digits(ns / 1e9)} s"


def size(count: float) -> str:
    """Four digits and the unit that fits."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1023.5 or unit == "TiB":
            return f"{digits(value, whole=unit == 'B')} {unit}"
        value /= 1024
    raise AssertionError


def digits(value: float, whole: bool = False) -> str:
    """Four digits, or all before the point."""
    if whole and float(value).is_integer():
        return f"{value:.0f}"
    before = len(str(int(abs(value))))
    if round(abs(value), max(0, 4 - before)) >= 10**before:  # 9.9996 is 10.00
        before += 1
    return f"{value:,.{max(0, 4 - before)}f}"


def fixed(value: float) -> str:
    """A number in a unit that is told elsewhere: never rounded to nothing."""
    if isinstance(value, int) or value == 0:
        return f"{value:,.0f}"
    return digits(value) if abs(value) >= 0.1 else f"{value:.4g}"


@dataclass(frozen=True)
class Moment:
    """A moment of a run: ns from its first call ("start"), before its end ("end"), a part of it, or a time of day."""

    value: float
    kind: str = "start"

    def at(self, zero: int, end: int, clock: int) -> int:
        """In ns of the host's clock, where the run lies between `zero` and `end` and the time of day is `clock` later."""
        if self.kind == "start":
            return zero + round(self.value)
        if self.kind == "end":
            return end - round(self.value)
        if self.kind == "part":
            return zero + round((end - zero) * self.value)
        return round(self.value) - clock


@dataclass(frozen=True)
class Range:
    """A part of a run; open where None."""

    begin: Moment | None = None
    end: Moment | None = None
    text: str = ""


def parse_moment(text: str) -> Moment:
    """`1.5s`, `200ms`, `30us`, `8ns`, `2m`, `1.5` (seconds), `end-1s` (as `-1s`), `25%`, `2026-11-21T14:03:05.5`."""
    text = text.strip()
    if part := re.fullmatch(r"(\d+\.?\d*|\.\d+)\s*%", text):
        return Moment(float(part[1]) / 100, "part")
    from_end = re.match(r"(end)?-", text)
    ns = nanoseconds(text[from_end.end() :] if from_end else text)
    if ns is not None:
        return Moment(ns, "end" if from_end else "start")
    from datetime import datetime

    try:
        day = datetime.fromisoformat(
            re.sub(r"(\.\d{6})\d+", r"\1", text.removesuffix("Z") + "+00:00" * text.endswith("Z"))
        )
    except ValueError:
        raise UnitError(
            f"{text!r} is not a time: write 1.5s, 200ms, 30us or 8ns, end-1s, 25%, or 2026-11-21T14:03:05"
        ) from None
    if "T" not in text and " " not in text:
        raise UnitError(f"{text!r} is a day, not a time: write 2026-11-21T14:03:05")
    return Moment(round(day.timestamp() * 1e6) * 1000, "clock")


def parse_range(text: str, option: str = "--filter-time") -> Range:
    """`BEGIN:END`, either may be empty."""
    for colon in (place for place, char in enumerate(text) if char == ":"):
        halves = (text[:colon].strip(), text[colon + 1 :].strip())
        try:
            begin, end = (parse_moment(half) if half else None for half in halves)
        except UnitError:
            continue
        if begin and end and begin.kind == end.kind:
            first, last = (end, begin) if begin.kind == "end" else (begin, end)
            if last.value < first.value:
                raise UnitError(f"{option} {text}: ends before it begins")
        return Range(begin, end, text.strip())
    for half in text.split(":") if text.count(":") == 1 else ():
        if half.strip():
            try:
                parse_moment(half)
            except UnitError as error:
                raise UnitError(f"{option} {text}: {error}") from None
    raise UnitError(f"{option} {text}: write BEGIN:END, as in 1.2s:1.4s, 500ms: or 25%:75%")


def nanoseconds(text: str) -> int | None:
    """A length of time as people write it (`1.5s`, `200ms`, `30us`, `2m`, `1.5` for seconds); None: it is none."""
    match = re.fullmatch(r"(\d+\.?\d*|\.\d+)\s*([a-zµ]*)", text.strip())
    if not match or match[2] not in _INPUT:
        return None
    # By parts: seconds with nine digits behind the point are more than a double holds.
    whole, _, behind = match[1].partition(".")
    scale = _INPUT[match[2]]
    return int(whole or "0") * scale + (round(int(behind) * scale / 10 ** len(behind)) if behind else 0)


def seconds(option: str, text: str) -> float:
    """A length of time of an option. Raises a ChoiceError for what is none."""
    ns = nanoseconds(text)
    if ns is None:
        raise ChoiceError(f"{option} {text}: write a time, as in 2, 0.5, 500ms or 3m")
    return ns / 10**9
