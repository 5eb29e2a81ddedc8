"""The report `steps`: time steps found by a range that repeats, or by the period of the sequence of kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from occatrace.core import naming
from occatrace.core.schema import HOST_MODES, MEMORY_KINDS
from occatrace.reports import limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from occatrace.reports import Report
    from occatrace.store.tables import Store

Ints = npt.NDArray[np.int64]

LEAST = 3  # steps
SLOW_ROWS = 10  # of each rank
_SLOW = 1.25
_MATCHES = 0.9  # of a sequence, to be one with this period
_SMALL = 256  # periods that are tried in any case
_SAMPLE = 200_000  # kernels by which the period is found
_SHOWN = 4  # kernels of a period that are named
_MODES = f"({', '.join(repr(mode) for mode in HOST_MODES)})"
_COPIED = f"({', '.join(repr(kind) for kind in MEMORY_KINDS)})"

_KERNELS = f"""
    SELECT a.process, coalesce(k.name, a.name, '') AS name, a.start_ns::BIGINT AS s, greatest(a.start_ns, a.end_ns)::BIGINT AS e
    FROM activities a LEFT JOIN kernels k ON k.kernel = a.kernel WHERE a.kind = 'kernel'
    UNION ALL
    SELECT r.process, k.name, r.start_ns::BIGINT, greatest(r.start_ns, r.end_ns)::BIGINT
    FROM kernel_runs r JOIN kernels k USING (kernel) WHERE k.mode IN {_MODES}"""
# What a step consists of, as process, name, start and end.
_PARTS = f"""
    SELECT process, 'kernel ' || name AS name, s, e FROM ({_KERNELS})
    UNION ALL SELECT process, 'copies ' || kind, start_ns::BIGINT, end_ns::BIGINT FROM activities WHERE kind IN {_COPIED}
    UNION ALL SELECT process, 'copies ' || kind, start_ns::BIGINT, end_ns::BIGINT FROM occa_copies WHERE mode IN {_MODES}
    UNION ALL SELECT process, 'kernel builds', start_ns::BIGINT, end_ns::BIGINT FROM builds
    UNION ALL SELECT process, function, start_ns::BIGINT, end_ns::BIGINT FROM mpi_messages WHERE function IS NOT NULL"""
REST = "host code and other calls"


@dataclass(frozen=True)
class Steps:
    """Steps of one process, in order, and by what they were found."""

    start: Ints
    end: Ints
    name: str


def rows(store: Store, _: str, __: Sequence[Report] = ()) -> list[tuple[Any, ...]]:
    """Rows of the report: of each rank the distribution, then the slow steps."""
    con = store.con
    zero = store.zero
    out: list[tuple[Any, ...]] = []
    for process, rank in con.execute(
        "SELECT process, coalesce(m.rank, p.rank) AS rank FROM processes p LEFT JOIN mpi_ranks m USING (process)"
        " ORDER BY rank NULLS FIRST, process"
    ).fetchall():
        found = of_process(store, process)
        if found is None:
            continue
        time = found.end - found.start
        median = float(np.median(time))
        deviation = float(time.std(ddof=1))
        spread = (int(time.min()), int(time.max()), deviation, len(time))
        out.append((median, None, *spread, "steps", rank, None, int(found.start[0]) - zero, None, found.name))
        usual = 3 * 1.4826 * float(np.median(np.abs(time - median)))
        slow = np.flatnonzero((time > _SLOW * median) & (time - median > usual))
        slow = slow[np.argsort(-time[slow], kind="stable")][:SLOW_ROWS]
        for step, (part, more) in zip(slow.tolist(), _differs(store, process, found, slow), strict=True):
            own = (int(time[step]), time[step] - median, None, None, None, None)
            out.append((*own, "slow", rank, step, int(found.start[step]) - zero, more, part))
    return out


def of_process(store: Store, process: int) -> Steps | None:
    """The time steps of a process; None: it has none."""
    return _of_ranges(store, process) or _of_kernels(store, process)


def notes(store: Store, _: str) -> list[str]:
    """What cannot be told."""
    return limits.lines(
        store,
        "without ranges there are no steps",
        "a step in which kernels are missing seems longer than it was",
        "a step that contains such a time seems longer than it was",
    )


def _of_ranges(store: Store, process: int) -> Steps | None:
    """By the range with most time."""
    if "ranges" not in store.filled:
        return None
    names = store.con.execute(
        "SELECT domain, name, thread FROM ranges WHERE process = ? AND kind != 'mark' AND end_ns > start_ns"
        f" GROUP BY ALL HAVING count(*) >= {LEAST} ORDER BY sum(end_ns - start_ns) DESC, min(depth), name LIMIT 1",
        [process],
    ).fetchall()
    if not names:
        return None
    found = store.con.execute(
        "SELECT start_ns::BIGINT AS s, end_ns::BIGINT AS e FROM ranges WHERE process = ? AND domain IS NOT DISTINCT FROM ? AND name = ?"
        " AND thread = ? AND kind != 'mark' AND end_ns > start_ns ORDER BY s",
        [process, *names[0]],
    ).fetchnumpy()
    return Steps(found["s"], found["e"], f"range {names[0][1]}")


def _of_kernels(store: Store, process: int) -> Steps | None:
    """By the period of the sequence of kernels."""
    found = store.con.execute(
        f"SELECT name, dense_rank() OVER (ORDER BY name)::BIGINT - 1 AS id, s, e FROM ({_KERNELS}) WHERE process = ? ORDER BY s, e",
        [process],
    ).fetchnumpy()
    ids, s, e = found["id"], found["s"], found["e"]
    if len(ids) < LEAST:
        return None
    names = {int(number): str(name) for number, name in zip(ids.tolist(), found["name"].tolist(), strict=True)}
    length = period(ids)
    if length is None:
        return None
    match = ids[length:] == ids[:-length]
    first, last = _longest(match)
    window = ids[first : first + length]
    gap = np.r_[0, s[1:] - np.maximum.accumulate(e)[:-1]]
    # A step begins with a kernel that comes once in it, after the longest gap.
    once = [number for number in np.unique(window).tolist() if (window == number).sum() == 1]
    if once:
        begin = max(once, key=lambda number: (float(np.median(gap[ids == number])), -int(np.argmax(window == number))))
        starts = np.flatnonzero(ids == begin)
    else:
        there = np.arange(first, last + length)
        phase = max(range(length), key=lambda at: (float(np.median(gap[there[at::length]])), -at))
        starts = there[phase::length]
    if len(starts) < LEAST:
        return None
    # The last one has no next: it ends as many kernels later as the others.
    until = min(int(starts[-1]) + length, len(s)) - 1
    end = np.r_[s[starts[1:]], e[starts[-1] : until + 1].max()]
    first_names = [
        naming.demangled(names[number]) for number in ids[starts[0] : starts[0] + min(length, _SHOWN)].tolist()
    ]
    more = f", … ({length} kernels)" if length > _SHOWN else ""
    return Steps(s[starts], end, ", ".join(first_names) + more)


def period(ids: Ints) -> int | None:
    """After how many kernels a sequence repeats: the shortest of those that fit best; None: it does not."""
    if len(ids) > _SAMPLE:
        middle = len(ids) // 2
        ids = ids[middle - _SAMPLE // 2 : middle + _SAMPLE // 2]
    tried = set(range(1, min(_SMALL, len(ids) // 2) + 1))
    for number in np.unique(ids).tolist():
        at = np.flatnonzero(ids == number)
        if len(at) >= LEAST:
            tried.add(int(np.median(np.diff(at))))
    scores = {length: float(np.mean(ids[length:] == ids[:-length])) for length in sorted(tried) if length < len(ids)}
    best = max(scores.values(), default=0.0)
    if best < _MATCHES:
        return None
    return next(length for length, score in scores.items() if score >= best - 0.005)


def _longest(match: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """The longest run of true values, as first and end."""
    edges = np.flatnonzero(np.diff(np.r_[0, match.astype(np.int8), 0]))
    begins, ends = edges[::2], edges[1::2]
    at = int(np.argmax(ends - begins)) if len(begins) else 0
    return (int(begins[at]), int(ends[at])) if len(begins) else (0, 0)


def _differs(store: Store, process: int, steps: Steps, slow: Ints) -> list[tuple[str, float]]:
    """Of each slow step what took longest above its median over all steps, and by how much. Work counts where it begins."""
    if not len(slow):
        return []
    found = store.con.execute(
        f"SELECT name, dense_rank() OVER (ORDER BY name)::BIGINT - 1 AS id, s, greatest(s, e) AS e FROM ({_PARTS}) WHERE process = ?"
        " ORDER BY s",
        [process],
    ).fetchnumpy()
    ids, s, e = found["id"], found["s"], found["e"]
    step = np.searchsorted(steps.start, s, "right") - 1
    inside = (step >= 0) & (s < steps.end[np.maximum(step, 0)])
    out = [("", 0.0)] * len(slow)

    def compare(name: str, ns: npt.NDArray[Any]) -> None:
        more = ns[slow] - np.median(ns)
        for at in np.flatnonzero(more > np.array([known for _, known in out])).tolist():
            out[at] = (name, float(more[at]))

    count = len(steps.start)
    for number in np.unique(ids[inside]).tolist():
        own = inside & (ids == number)
        name = str(found["name"][np.flatnonzero(ids == number)[0]])
        head, _, kernel = name.partition(" ")
        shown = f"{head} {naming.demangled(kernel)}" if head == "kernel" else name
        compare(shown, np.bincount(step[own], weights=(e - s)[own], minlength=count))
    # What none of these covers: the union of all is taken out.
    until = np.r_[0, np.maximum.accumulate(e)[:-1]] if len(e) else e
    begins = np.maximum(s, until)
    alone = np.maximum(e - begins, 0)
    covered = np.bincount(step[inside], weights=alone[inside], minlength=count)
    compare(REST, steps.end - steps.start - covered)
    return out
