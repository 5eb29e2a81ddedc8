"""The report `advice`: signs found by the query of its file, and those of wait states and idle devices; what the fix of a sign would
gain is predicted on the graph of the run, where there is a change that stands for it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from occatrace.errors import RunError
from occatrace.reports import critical, idle, wait_states
from occatrace.reports.critical import whatif

if TYPE_CHECKING:
    from collections.abc import Sequence

    from occatrace.reports import Report
    from occatrace.store.tables import Store

_LEAST = 0.05  # of the run, from which a sign is worth a word
_OTHER_RANKS = frozenset(
    (
        wait_states.SENDER,
        wait_states.RECEIVER,
        wait_states.BARRIER,
        wait_states.NXN,
        wait_states.BROADCAST,
        wait_states.REDUCE,
    )
)


@dataclass(frozen=True)
class _Sign:
    """A row, and the change of `why --what-if` that stands for its fix; None: there is none."""

    share: float
    name: str
    evidence: str
    advice: str
    change: str | None
    caller: str = ""


def rows(store: Store, name: str, _: Sequence[Report] = ()) -> list[tuple[Any, ...]]:
    """Rows of the report, by predicted gain; without a prediction the share counts."""
    from occatrace import reports

    entry = reports.definition(name)
    found = reports.rows_of(store.con.execute(entry.sql), entry)
    signs = [_Sign(row[1], row[2], row[3], row[4], _change(row[2], row[3]), row[5]) for row in found]
    run = critical.Run(store)
    if run.graph is None:
        return found
    states = wait_states.found(store, run)
    length = float(run.graph.time[run.graph.end])
    signs += [*_late_ranks(states), *_queues(states, length), *_python(store, run, length)]
    gains: dict[str, float | None] = {}
    for change in {sign.change for sign in signs if sign.change}:
        try:
            answer = run.answer(whatif.parse([change]))
        except RunError:
            gains[change] = None  # nothing of the graph matches it
            continue
        predicted = answer.predicted_ns if answer.predicted_ns is not None else answer.wall_ns
        gains[change] = max(100.0 * (1 - predicted / answer.wall_ns), 0.0) if answer.wall_ns else None
    made = [
        (gains.get(sign.change or ""), sign.share, sign.name, sign.evidence, sign.advice, sign.caller) for sign in signs
    ]
    return sorted(made, key=lambda row: (-(row[1] if row[0] is None else row[0]), row[2], row[3]))


def _change(name: str, evidence: str) -> str | None:
    """The change that stands for the fix of a sign of the query."""
    if name == "kernel builds":
        return "build*0"
    kind = re.match(r"[\d,]+ (\w+) copies", evidence)
    if kind and name in ("pageable copies", "small copies"):
        return f"copy:{kind[1]}*0.5" if name == "pageable copies" else f"copy:{kind[1]}*0"
    return None


def _late_ranks(states: Sequence[tuple[Any, ...]]) -> list[_Sign]:
    """Ranks for which others wait, with what they do meanwhile. A culprit that is in a call of MPI waits itself."""
    total: dict[int, float] = {}
    share: dict[int, float] = {}
    most: dict[int, tuple[Any, ...]] = {}
    for row in states:
        rank, doing, culprit = row[8], row[9], row[10]
        if row[4] not in _OTHER_RANKS or rank is None or (doing == "call" and culprit.startswith("MPI_")):
            continue
        total[rank] = total.get(rank, 0.0) + row[1]
        share[rank] = share.get(rank, 0.0) + row[0]
        most.setdefault(rank, row)  # the largest comes first
    out = []
    for rank, ns in total.items():
        if share[rank] < 100 * _LEAST:
            continue
        row = most[rank]
        place = f" ({row[11]})" if row[11] else ""
        evidence = (
            f"others waited {ns / 1e6:,.1f} ms for rank {rank}, most of it ({row[1] / 1e6:,.1f} ms, {row[4]} in {row[7]} of"
            f" rank {row[5]}) while it was in {row[9]}: {row[10]}{place}"
        )
        out.append(
            _Sign(
                share[rank], "late rank", evidence, "give this rank less work, or make this faster", f"rank:{rank}=mean"
            )
        )
    return out


def _queues(states: Sequence[tuple[Any, ...]], length: float) -> list[_Sign]:
    """Work that waits for work of another queue."""
    out = []
    for row in states:
        if row[4] == wait_states.QUEUE and row[1] >= _LEAST * length:
            evidence = (
                f"{row[7]} in {row[6]} waited {row[1] / 1e6:,.1f} ms in {row[2]:,} times for {row[10]} of another queue"
            )
            words = "remove the dependency if there is no need for it, or begin the other work earlier"
            out.append(_Sign(100.0 * row[1] / length, "work that waits for another queue", evidence, words, None))
    return out


def _python(store: Store, run: critical.Run, length: float) -> list[_Sign]:
    """Devices that have nothing to do while the host is in Python."""
    if "python_calls" not in store.filled:
        return []
    out = []
    for row in idle.found(store, run):
        if (row[3], row[4]) == (idle.NOTHING, "Python") and row[1] >= 2 * _LEAST * length and row[2] >= 20:
            evidence = (
                f"{row[8]} had nothing to do for {row[1] / 1e6:,.1f} ms ({row[0]:.0f} % of its idle time), {row[2]:,} times,"
                f" while the host was in Python ({row[5]})"
            )
            words = "move the work of the loop out of Python, or enqueue more work at a time (--python functions names the functions)"
            out.append(_Sign(100.0 * row[1] / length, "Python while the device is idle", evidence, words, None))
    return out
