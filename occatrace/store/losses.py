"""What a run is missing: lost events, calls that never returned, corrected clocks, damage. Reports begin with it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from occatrace.core import disk
from occatrace.core.duck import duckdb
from occatrace.core.units import duration
from occatrace.store import captures


@dataclass(frozen=True)
class ThreadLoss:
    """One thread of which events are missing."""

    host: str
    pid: int
    tid: int
    expected: int
    lost: int


@dataclass(frozen=True)
class Unfinished:
    """A blocking call that never returned."""

    host: str
    pid: int
    tid: int
    api: str
    function: str
    since_ns: int


@dataclass(frozen=True)
class Losses:
    """Everything that is missing or was corrected."""

    events: int
    expected: int
    threads: Sequence[ThreadLoss]
    unfinished: Sequence[Unfinished]
    killed: Sequence[int]  # processes that did not get to say how they ended
    clamped: int
    clamped_worst_ns: int
    failed_activities: int
    missing: Sequence[int]  # processes that asked to be traced and left no record
    problems: Sequence[str]
    notes: Sequence[str]  # what the recording noticed
    untraced: Sequence[
        tuple[str, Sequence[str]]
    ] = ()  # functions by API, handed to the program and unknown to the model
    untimed: Sequence[tuple[str, int]] = ()  # by device: commands without times when their process ended
    captured: tuple[int, int] | None = None  # ns that were recorded, of how many; None: all
    excluded: Mapping[str, tuple[int, int]] = field(
        default_factory=dict
    )  # by reason: calls or launches, of how many names
    partial: str | None = None  # of a run that goes on: a line that says so
    end_unknown: Sequence[
        int
    ] = ()  # processes whose end is not in the trace, which lacks events at its end or elsewhere

    @classmethod
    def none(cls) -> Losses:
        """Nothing is missing."""
        return cls(0, 0, (), (), (), 0, 0, 0, (), (), ())

    def lines(self) -> list[str]:
        """One line for each matter; none for a complete run."""
        out = [*([self.partial] if self.partial else ()), *self.notes, *self.problems]
        if self.captured:
            recorded, whole = self.captured
        # A program that stopped and at once started again misses nothing that a line could show.
        if self.captured and duration(recorded) != duration(whole):
            out.append(f"captured {duration(recorded)} of {duration(whole)}: what is below is of that time")
        if self.excluded:
            left = [_excluded(reason, *counts) for reason, counts in self.excluded.items()]
            out.append(f"excluded: {', '.join(left)}")
        if self.missing:
            out.append(f"asked to be traced and left no record, so missing below: process {_some(self.missing)}")
        if self.events:
            threads = f"{len(self.threads)} thread{'s' if len(self.threads) > 1 else ''}"
            lost = f"{self.events:,} of {self.expected:,} events of {threads} were lost"
            out.append(f"{lost}: counts and times below are too low")
        if self.unfinished:
            first = self.unfinished[0]
            more = f", and {len(self.unfinished) - 1} more" if len(self.unfinished) > 1 else ""
            how = "running at this moment" if self.partial else "never returned"
            out.append(f"{how}: {first.function} in process {first.pid}, thread {first.tid}{more}")
        if self.killed:
            # Programs in Go end by the kernel's call itself, which no library sees.
            how = "ended without notice (killed, crashed, cut off, or a program in Go), last tallies may be missing"
            out.append(f"{how}: process {_some(self.killed)}")
        if self.end_unknown:
            out.append(f"how it ended is not known, its last events are missing: process {_some(self.end_unknown)}")
        if self.clamped:
            worst = f"by up to {self.clamped_worst_ns / 1000:,.1f} µs"
            out.append(f"{self.clamped:,} device times were moved to fit between enqueue and completion, {worst}")
        if self.failed_activities:
            out.append(f"{self.failed_activities:,} device operations failed")
        for device, commands in self.untimed:
            what = "command" if commands == 1 else "commands"
            out.append(
                f"{commands:,} {what} on {device} had not finished at the end of the process: not among the device work below"
            )
        for api, names in self.untraced:
            some = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
            one = len(names) == 1
            out.append(
                f"{len(names):,} function{'' if one else 's'} of {api} that this version does not know"
                f" {'was' if one else 'were'} handed to the program, calls of {'it' if one else 'them'} are not here: {some}"
            )
        return out

    def as_json(self) -> Mapping[str, Any]:
        """For the JSON format."""
        return {
            **({"partial": self.partial} if self.partial else {}),
            "events": self.events,
            "expected": self.expected,
            "threads": [vars(t) for t in self.threads],
            "unfinished": [vars(u) for u in self.unfinished],
            "killed": list(self.killed),
            "end_unknown": list(self.end_unknown),
            "clamped": self.clamped,
            "clamped_worst_ns": self.clamped_worst_ns,
            "failed_activities": self.failed_activities,
            "missing": list(self.missing),
            "problems": list(self.problems),
            "notes": list(self.notes),
            "untimed": dict(self.untimed),
            "untraced": {api: list(names) for api, names in self.untraced},
            "captured_ns": self.captured[0] if self.captured else None,
            "excluded": {reason: counts[0] for reason, counts in self.excluded.items()},
        }


def _excluded(reason: str, count: int, names: int) -> str:
    calls = f"{count:,} call{'s' if count != 1 else ''}"
    if reason == "kernel" and names:
        return f"{calls} of {names} kernel{'s' if names != 1 else ''}"
    return f"{calls} {_REASONS.get(reason, reason)}"


_REASONS = {
    "kernel": "below those kernels",
    "function": "of functions",
    "thread": "in threads",
    "tag": "without a tag",
    "queue": "in queues",
}


# As native/device/engine.cpp writes it.
_UNTIMED = """
    SELECT told.device, sum(told.commands::BIGINT)::BIGINT
    FROM (SELECT regexp_extract(text, '^unfinished device work ([0-9]+) (.*)$', ['commands', 'device']) AS told FROM names
          WHERE text.starts_with('unfinished device work '))
    GROUP BY ALL ORDER BY ALL"""

_EXCLUDED = """
    SELECT reason, sum(count), count(DISTINCT nullif(name, '')) FROM excluded
    WHERE reason != 'kernel' OR name != '' GROUP BY reason ORDER BY reason"""


def _captured(con: duckdb.DuckDBPyConnection, facts: Mapping[str, Any]) -> tuple[int, int] | None:
    """The time in which anything was recorded, and the run time."""
    if not captures.make(con, facts):
        return None
    return captures.length(con), int(con.execute("SELECT run_length()").fetchall()[0][0])


def _some(pids: Sequence[int]) -> str:
    return ", ".join(map(str, pids[:8])) + (" …" if len(pids) > 8 else "")


# What a note or a problem says where the end of a trace may be missing, whatever became of the processes.
_CUT = re.compile(
    rf"{disk.WORDS}|occa_prof was killed|went away before the end|does not answer|still had data to write"
    r"|the recording ended before the program|truncated|damaged|is missing \(| were recorded"
)
_SURVIVORS = re.compile(r"still running when the program ended.*?: process (.*)")  # with the name of each in brackets


def _timed_by_host(con: duckdb.DuckDBPyConnection) -> list[str]:
    """Devices whose driver gives no time stamps."""
    rows = con.execute(
        "SELECT d.name, sum(w.clamped)::BIGINT FROM clock_warnings w JOIN devices d USING (device) WHERE w.worst_ns = 0"
        " GROUP BY d.name ORDER BY d.name"
    ).fetchall()
    return [
        f"{name} gives no time stamps: {count:,} activities last from their launch, or the end of the work before, until the host saw"
        " them complete; of several seen at once each has an equal part"
        for name, count in rows
    ]


def _without_end(
    con: duckdb.DuckDBPyConnection, problems: Sequence[str], facts: Mapping[str, Any]
) -> tuple[list[int], list[int]]:
    """Processes that did not get to say how they ended, and those of which that may have been lost. Neither are those that
    were still running."""
    lines = [*facts.get("notes", ()), *problems]
    cut = any(map(_CUT.search, lines))
    running = {
        int(pid) for line in lines for found in _SURVIVORS.findall(line) for pid in re.findall(r"(?:^|, )(\d+)", found)
    }
    # What a rank's occa_prof saw of it; that is the parent of its program.
    ranks = {r["pid"]: r for r in facts.get("job", {}).get("ranks", ()) if r.get("pid") and r.get("state") == "ended"}
    killed: list[int] = []
    unknown: list[int] = []
    rows = con.execute(
        "SELECT pid, ppid, process IN (SELECT process FROM losses WHERE lost > 0) FROM processes WHERE exit IS NULL"
        " ORDER BY process"
    ).fetchall()
    for pid, ppid, lost in rows:
        if pid in running:
            continue
        rank = ranks.get(ppid)
        (unknown if (lost or cut if rank is None else not rank.get("signal")) else killed).append(pid)
    return killed, unknown


def read(
    con: duckdb.DuckDBPyConnection, problems: Sequence[str], facts: Mapping[str, Any], partial: str | None = None
) -> Losses:
    """From the open tables of a run and its run.json; `partial`: the line of one that goes on."""
    threads = con.execute(
        "SELECT p.host, p.pid, t.tid, l.expected, l.lost FROM losses l JOIN threads t USING (thread)"
        " JOIN processes p ON p.process = l.process ORDER BY l.lost DESC"
    ).fetchall()
    unfinished = con.execute(
        "SELECT p.host, p.pid, t.tid, u.api, u.function, u.start_ns FROM unfinished u JOIN threads t USING (thread)"
        " JOIN processes p ON p.process = u.process ORDER BY u.start_ns"
    ).fetchall()
    killed, end_unknown = ([], []) if partial else _without_end(con, problems, facts)
    clamped, worst = con.execute(
        "SELECT coalesce(sum(clamped), 0), coalesce(max(worst_ns), 0) FROM clock_warnings WHERE worst_ns > 0"
    ).fetchall()[0]
    failed = con.execute("SELECT count(*) FROM activities WHERE status < 0").fetchall()[0][0]
    untraced = con.execute(
        "SELECT array_to_string(word[3:-2], ' ') AS api, list_sort(list(DISTINCT word[-1])) FROM"
        " (SELECT string_split(text, ' ') AS word FROM names WHERE text.starts_with('untraced function ')) GROUP BY api ORDER BY api"
    ).fetchall()
    untimed = con.execute(_UNTIMED).fetchall()
    there = {row[0] for row in con.execute("SELECT DISTINCT pid FROM processes").fetchall()}
    losses = [ThreadLoss(*row) for row in threads]
    return Losses(
        events=sum(t.lost for t in losses),
        expected=sum(t.expected for t in losses),
        threads=losses,
        unfinished=[Unfinished(*row) for row in unfinished],
        killed=killed,
        end_unknown=end_unknown,
        clamped=int(clamped),
        clamped_worst_ns=int(worst),
        failed_activities=int(failed),
        missing=[pid for pid in facts.get("processes", ()) if pid not in there],
        problems=problems,
        notes=[*facts.get("notes", ()), *_timed_by_host(con)],
        untimed=[(device, int(commands)) for device, commands in untimed],
        untraced=[(api, names) for api, names in untraced],
        captured=_captured(con, facts),
        partial=partial,
        excluded={row[0]: (int(row[1]), row[2]) for row in con.execute(_EXCLUDED).fetchall()},
    )
