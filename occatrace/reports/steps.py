"""The report `steps`: time steps found by a range that repeats, or by a kernel that comes once in each of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from occatrace.core import naming
from occatrace.core.schema import HOST_MODES, MEMORY_KINDS
from occatrace.reports import limits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from occatrace.reports import Report
    from occatrace.store.tables import Store

Ints = npt.NDArray[np.int64]

LEAST = 3  # steps
SLOW_ROWS = 10  # of each rank
_SLOW = 1.25
_MOST = 0.9  # of the steps have what every step has
_EXTRA = 1 / 8  # of the steps at most have what comes only now and then, as output does
_EXACT = 8  # steps, from which their number of kernels may vary
_STARTING = 1 / 3  # of the steps at most are the start, in which kernels are missing that come in each one after it
_SAMPLE = 200_000  # kernels by which the steps are found
_SHIFTS = 1000  # kernels before the one that delimits steps that may be their first
_TRIED = 300  # kernels by name that may delimit steps
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
    """Steps of one process, in order, and by what they were found. `first` is the number of the first one: ranks that have not
    all steps in common count alike. `begins` are the kernels with which they begin, by name."""

    start: Ints
    end: Ints
    name: str
    first: int = 0
    begins: tuple[str, ...] = ()


def rows(store: Store, _: str, __: Sequence[Report] = ()) -> list[tuple[Any, ...]]:
    """Rows of the report: of each rank the distribution, then the slow steps."""
    zero = store.zero
    out: list[tuple[Any, ...]] = []
    for process, rank, found in of_all(store):
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
            out.append((*own, "slow", rank, step + found.first, int(found.start[step]) - zero, more, part))
    return out


def of_all(store: Store) -> Iterator[tuple[int, int | None, Steps]]:
    """The time steps of each process that has some, with its number and rank, in the order of ranks. Those of ranks begin with the
    same kernels as those of the first one, where they do the same, and have the number of the one there at about the same time."""
    known: Steps | None = None
    least = 0
    found: list[tuple[int, int | None, Steps]] = []
    for process, rank in store.con.execute(
        "SELECT process, rank FROM processes ORDER BY rank NULLS FIRST, process"
    ).fetchall():
        own = _of_ranges(store, process) or _of_kernels(
            store, process, known.begins if known and rank is not None else ()
        )
        if own is None:
            continue
        if rank is not None:
            if known is None:
                known = own
            own = replace(own, first=_shift(own, known))
            least = min(least, own.first)
        found.append((process, rank, own))
    for process, rank, own in found:
        yield process, rank, own if rank is None else replace(own, first=own.first - least)


def _shift(steps: Steps, others: Steps) -> int:
    """How many steps of the other rank are before the first one, of steps at the same time; 0 where they have less in common."""
    next_one = np.clip(np.searchsorted(others.start, steps.start), 1, len(others.start) - 1)
    before, after = others.start[next_one - 1], others.start[next_one]
    nearest = next_one - (steps.start - before < after - steps.start)
    shift = int(np.median(nearest - np.arange(len(nearest))))
    return shift if 2 * abs(shift) < min(len(steps.start), len(others.start)) else 0


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


def _of_kernels(store: Store, process: int, begins: tuple[str, ...]) -> Steps | None:
    """By the sequence of kernels; the first ones are `begins`, if they are in each step."""
    found = store.con.execute(
        f"SELECT name, dense_rank() OVER (ORDER BY name)::BIGINT - 1 AS id, s, e FROM ({_KERNELS}) WHERE process = ? ORDER BY s, e",
        [process],
    ).fetchnumpy()
    ids, s, e = found["id"], found["s"], found["e"]
    each, place = np.unique(ids, return_index=True)
    names = dict(zip(each.tolist(), map(str, found["name"][place].tolist()), strict=True))
    numbers = {name: number for number, name in names.items()}
    found_loop = loop(ids, s, e, [numbers.get(name, -1) for name in begins])
    if found_loop is None:
        return None
    starts, until = found_loop
    end = np.r_[s[starts[1:]], e[starts[-1] : until].max()]
    # What the first step of the usual length consists of.
    lengths = np.diff(starts)
    length = int(np.median(lengths))
    low, high = (int(np.quantile(lengths, part)) for part in (1 - _MOST, _MOST))
    begin = int(starts[np.argmin(np.abs(lengths - length))])
    first = tuple(names[number] for number in ids[begin : begin + min(length, _SHOWN)].tolist())
    more = f", … ({length} kernels)" if length > _SHOWN else ""
    if low < high:
        more = f", … (mostly {low} to {high} kernels)"
    return Steps(s[starts], end, ", ".join(map(naming.demangled, first)) + more, begins=first)


def loop(ids: Ints, s: Ints, e: Ints, begins: Sequence[int] = ()) -> tuple[Ints, int] | None:
    """The steps of a sequence of kernels (their names as numbers, in the order of their starts `s`, with their ends `e`, both in
    ns): the place of the first kernel of each step, and the place after the last kernel of the last one. None: nothing repeats.
    Steps that may begin with the kernels `begins` do so.

    A kernel delimits steps if it comes once in each: from one to the next all kernels come that repeat there. Of the names that do,
    the one with most steps is taken, of those that cover (nearly) as much time as any."""
    begin = max(len(ids) - _SAMPLE, 0) // 2
    sample, first, last = ids[begin : begin + _SAMPLE], s[begin : begin + _SAMPLE], e[begin : begin + _SAMPLE]
    possible = list(_delimiters(sample))
    if not possible:
        return None
    covered = [int(last[at[-1]] - first[at[0]]) for _, at, _ in possible]
    level = [entry for entry, ns in zip(possible, covered, strict=True) if ns >= _MOST * max(covered)]
    most = max(len(at) for _, at, _ in level)
    gap = np.maximum(np.r_[0, s[1:] - np.maximum.accumulate(e)[:-1]], 0)
    # Names of one loop have as many steps, or one less where the sample begins between them.
    options: list[tuple[float, Ints]] = []
    for each, at, base in level:
        if len(at) < most - 1:
            continue
        at = np.flatnonzero(ids == each)
        # Other first kernels are the same for each name.
        for starts in (at, *(() if options else _before(ids, at, base))):
            starts = _trimmed(ids, starts, base)
            if len(starts) >= LEAST:
                options.append((float(np.median(gap[starts[1:]])), starts))
    if not options:
        return None
    wanted = [option for option in options if begins and _begin_with(ids, option[1], begins)]
    # Before a step is the longest gap; where there are several, the loop begins with the first of them.
    longest = max(option[0] for option in wanted or options)
    _, starts = min(
        (option for option in wanted or options if option[0] >= longest / 2), key=lambda option: int(option[1][0])
    )
    # The last one has no next: it ends with the last kernel that may be part of a step.
    inside = np.isin(ids[starts[-1] : starts[-1] + int(np.diff(starts).max())], ids[starts[0] : starts[-1]])
    until = int(starts[-1]) + (int(np.argmin(inside)) if not inside.all() else len(inside))
    return starts, until


def _begin_with(ids: Ints, starts: Ints, kernels: Sequence[int]) -> bool:
    """Whether (nearly) all of these steps begin with the kernels."""
    inside = starts[starts + len(kernels) <= len(ids)]
    same = (ids[inside[:, None] + np.arange(len(kernels))] == np.array(kernels)).all(axis=1)
    return float(np.mean(same)) >= _MOST


def _delimiters(ids: Ints) -> Iterator[tuple[int, Ints, set[int]]]:
    """Names that delimit steps in a sequence, with their places and the names that each step has."""
    counts = np.bincount(ids) if len(ids) else np.zeros(0, np.int64)
    often = [number for number in np.argsort(counts, kind="stable").tolist() if counts[number] >= LEAST]
    known: dict[int, set[int]] = {}
    for number in often[:_TRIED]:
        at = np.flatnonzero(ids == number)
        base = known[number] if number in known else _every_step(ids, at, counts)
        if base is None and len(at) > _EXACT:
            # Solvers start with a lower order in time, and with fewer solutions from which they extrapolate. Behind that nothing may
            # come in some steps only: it is rare enough there by chance.
            regular = at[int(len(at) * _STARTING) :]
            base = _every_step(ids, regular, counts)
            if base is not None and set(ids[regular[0] : regular[-1]].tolist()) - base:
                base = None
        if base is not None:
            yield number, at, base
            known |= {other: base for other in base if counts[other] == counts[number]}  # each of them once as well


def _every_step(ids: Ints, at: Ints, counts: Ints) -> set[int] | None:
    """The names that come in (nearly) each of the pieces between these places; None: those are no steps."""
    pieces, width = len(at) - 1, len(counts)
    inside = ids[at[0] : at[-1]]
    within = np.bincount(inside, minlength=width)
    # What comes in some pieces only, but too often to come now and then.
    if ((within >= LEAST) & (within > _EXTRA * pieces) & (within < _MOST * pieces)).any():
        return None
    lengths = np.diff(at)
    usual = float(np.median(lengths))
    if float(np.mean(lengths == usual)) < _MOST and (
        pieces < _EXACT or float(np.median(np.abs(lengths - usual))) > usual / 2
    ):
        return None
    pairs = np.unique(np.repeat(np.arange(pieces), lengths) * width + inside)
    present = np.bincount(pairs % width, minlength=width)
    base = present >= _MOST * pieces
    extra = np.flatnonzero((within >= LEAST) & ~base)
    if (present[extra] > _EXTRA * pieces).any() or len(extra) > max(1, int(base.sum()) // 6):
        return None
    for number in extra.tolist():
        # Output comes after as many steps each time. What does not, or beside one kernel only, is a loop around this one.
        apart = np.diff(pairs[pairs % width == number] // width)
        if base.sum() < 2 or (len(apart) and float(np.mean(apart == np.median(apart))) < _MOST):
            return None
    full = np.bincount(pairs[base[pairs % width]] // width, minlength=pieces) == base.sum()
    return set(np.flatnonzero(base).tolist()) if float(np.mean(full)) >= _MOST else None


def _before(ids: Ints, at: Ints, base: set[int]) -> Iterator[Ints]:
    """Where steps may begin instead, if the kernel at these places is not their first one, as it comes several times or its number
    varies: the same number of kernels before it, and the place after it."""
    lengths = np.diff(at)
    length = int(np.median(lengths))
    if float(np.mean(lengths == length)) >= _MOST:
        for back in range(1, min(length, _SHIFTS)):
            shifted = at[at >= back] - back
            kernel = ids[shifted]
            if float(np.mean(kernel == kernel[-1])) >= _MOST:
                yield shifted[int(np.argmax(kernel == kernel[-1])) :]
    else:
        first, longest = int(at[0]), int(lengths.max())
        while first > 0 and at[0] - first < longest - 1 and int(ids[first - 1]) in base - {int(ids[at[0]])}:
            first -= 1
        yield np.r_[first, at[at + 1 < len(ids)] + 1]


def _trimmed(ids: Ints, at: Ints, base: set[int]) -> Ints:
    """Without the first and the last places after which there is less than a step; at the start a few kernels may be missing."""
    first, last = 0, len(at)
    longest = int(np.diff(at).max()) if last > 1 else 0
    while first < last - 1 and len(base & set(ids[at[first] : at[first + 1]].tolist())) < _MOST * len(base):
        first += 1
    while last > first and not base <= set(ids[at[last - 1] : at[last - 1] + longest].tolist()):
        last -= 1
    return at[first:last]


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
