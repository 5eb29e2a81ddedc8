"""What pieces of a path are called: device work, and spans of host threads (kernels of Serial and OpenMP mode, copies, builds,
OpenMP, MPI, calls). No graph, no output."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from occatrace import _native
from occatrace.core import naming
from occatrace.core.schema import HOST_MODES, MEMORY_KINDS
from occatrace.core.sql import name as sql_name
from occatrace.reports.critical import lines
from occatrace.reports.critical.building import Narrow
from occatrace.reports.critical.graph import ARRIVES, slices
from occatrace.store import captures

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from occatrace.store.tables import Store

Ints = npt.NDArray[np.int64]

_MODES = f"({', '.join(repr(mode) for mode in HOST_MODES)})"
_PLACE = "coalesce(k.source || CASE WHEN k.line > 0 THEN ':' || k.line ELSE '' END, '')"
_FARTHEST = np.iinfo(np.int64).max
_AT_ONCE = 1 << 20  # calls that are read at a time


@dataclass(frozen=True)
class Label:
    """What a piece is: its kind, its name as people know it, other names of it, file and line."""

    kind: str
    name: str
    source: str = ""
    other: str = ""

    @property
    def shown(self) -> str:
        """Kind and name in one text."""
        return (
            f"{self.kind} {self.name}"
            if self.kind in ("kernel", "copy", "build", "import", "network")
            else self.name or self.kind
        )


@dataclass
class Spans:
    """Spans of one thread that do not overlap, in order, each with the number of its label."""

    start: Ints
    end: Ints
    label: npt.NDArray[np.signedinteger[Any]]

    def near(self, start: int, end: int) -> Spans:
        """Those between two moments, with the one before and the one after."""
        low = max(int(np.searchsorted(self.end, start, "left")) - 1, 0)
        high = int(np.searchsorted(self.start, end, "right")) + 1
        return Spans(self.start[low:high], self.end[low:high], self.label[low:high])

    def at(self, moments: Ints) -> Ints:
        """The label at each moment; -1: none."""
        which = np.searchsorted(self.start, moments, "right") - 1
        inside = (which >= 0) & (moments < self.end[which]) if len(self.start) else np.zeros(len(moments), bool)
        return np.where(inside, self.label[which] if len(self.label) else -1, -1)

    def covered(self, moments: Ints, labels: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
        """How much time of the chosen labels lies before each moment."""
        chosen = labels[self.label] if len(self.label) else np.zeros(0, bool)
        start, end = self.start[chosen], self.end[chosen]
        if not len(start):
            return np.zeros(len(moments))
        before = np.r_[0, np.cumsum(end - start)]
        which = np.searchsorted(start, moments, "right")
        within = np.clip(moments - start[np.maximum(which - 1, 0)], 0, (end - start)[np.maximum(which - 1, 0)])
        return np.where(which > 0, before[np.maximum(which - 1, 0)] + within, 0).astype(np.float64)


class Labels:
    """All labels of a run, by number."""

    def __init__(self) -> None:
        self.all: list[Label] = []
        self._numbers: dict[Label, int] = {}

    def number(self, label: Label) -> int:
        """The number of a label."""
        known = self._numbers.get(label)
        if known is None:
            known = self._numbers[label] = len(self.all)
            self.all.append(label)
        return known


def of_work(store: Store, labels: Labels) -> Ints:
    """Make the table `critical_labels`, by which device work is told apart; the label of each of its numbers."""
    kinds = ", ".join(repr(kind) for kind in MEMORY_KINDS)
    store.con.execute(f"""
        CREATE OR REPLACE TEMP VIEW critical_work AS
        SELECT a.* REPLACE (coalesce(a.name, '') AS name), coalesce(a.kernel::BIGINT, -1) AS named_kernel,
               CASE WHEN a.kernel IS NULL OR a.kind IN ({kinds}) THEN coalesce(l.source, '') ELSE '' END AS line
        FROM activities a LEFT JOIN call_lines l ON l.thread = a.thread AND l.seq = a.seq""")
    store.con.execute("""
        CREATE OR REPLACE TABLE critical_labels AS
        SELECT *, row_number() OVER (ORDER BY kind, name, kernel, line) - 1 AS label FROM (
            SELECT DISTINCT kind, name, named_kernel AS kernel, line FROM critical_work)""")
    rows = store.con.execute(f"""
        SELECT l.kind, l.name, k.name, {_PLACE}, l.line FROM critical_labels l LEFT JOIN kernels k ON k.kernel = l.kernel
        ORDER BY l.label""").fetchall()
    out = []
    for kind, name, kernel, source, line in rows:
        shown = naming.demangled(name)
        if kind == "kernel":
            label = Label("kernel", kernel or shown or "(unknown kernel)", source or line, shown if kernel else name)
        elif kind in MEMORY_KINDS:
            label = Label("copy", kind, line)
        else:
            label = Label("device work", shown or kind, line)
        out.append(labels.number(label))
    return np.array(out, np.int64)


def special(store: Store, labels: Labels, zero: int) -> dict[int, Spans]:
    """Spans of host threads that are more than a call: what was not recorded, kernels, copies, builds, OpenMP."""
    rows: list[tuple[int, int, int, int, Label]] = []
    con, filled = store.con, store.filled

    def add(level: int, sql: str, label: Any) -> None:
        for thread, start, end, *words in con.execute(sql).fetchall():
            rows.append((thread, start - zero, end - zero, level, label(*words)))

    if captures.partly(con):
        add(
            0,
            "SELECT t.thread, greatest(u.start_ns, p.start_ns)::BIGINT, least(u.end_ns, p.end_ns)::BIGINT FROM unrecorded u"
            " JOIN processes p USING (process) JOIN threads t USING (process) WHERE u.start_ns < p.end_ns AND u.end_ns > p.start_ns",
            lambda: Label("not recorded", "recording was paused"),
        )
    if "kernel_runs" in filled:
        add(
            1,
            f"SELECT r.thread, r.start_ns::BIGINT, r.end_ns::BIGINT, k.name, {_PLACE} FROM kernel_runs r JOIN kernels k USING (kernel)"
            f" WHERE k.mode IN {_MODES}",
            lambda name, source: Label("kernel", name, source),
        )
    if "occa_copies" in filled:
        add(
            1,
            "SELECT c.thread, c.start_ns::BIGINT, c.end_ns::BIGINT, c.kind, coalesce(l.source, '') FROM occa_copies c"
            f" LEFT JOIN call_lines l ON l.thread = c.thread AND l.seq = c.seq WHERE c.mode IN {_MODES}",
            lambda kind, source: Label("copy", kind, source),
        )
    if "builds" in filled:
        add(
            1,
            f"SELECT b.thread, b.start_ns::BIGINT, b.end_ns::BIGINT, coalesce(b.name, b.function), "
            f" coalesce(nullif({_PLACE}, ''), nullif(b.source, ''), l.source, '')"
            " FROM builds b LEFT JOIN kernels k ON k.kernel = b.kernel"
            " LEFT JOIN call_lines l ON l.thread = b.thread AND l.seq = b.seq",
            lambda name, source: Label("build", name, source),
        )
    if "omp_threads" in filled:
        place = "CASE WHEN coalesce(r.source, '') != '' THEN r.source ELSE " + _PLACE + " END"
        add(
            1,
            f"SELECT t.thread, t.start_ns::BIGINT, {ARRIVES}::BIGINT, k.name, coalesce(r.function, ''), {place}, {_PLACE}"
            " FROM omp_threads t JOIN omp_regions r ON r.thread = t.region_thread AND r.seq = t.region_seq"
            " LEFT JOIN kernels k ON k.kernel = r.kernel",
            lambda kernel, function, source, own: (
                Label("kernel", kernel, own) if kernel else Label("function", function, source)
            ),
        )
    if not rows:
        return {}
    rows.sort(key=itemgetter(3))  # of equal ones that of a lower level counts
    thread, start, end = (np.array([row[i] for row in rows], np.int64) for i in (0, 1, 2))
    number = np.array([labels.number(row[4]) for row in rows], np.int64)
    return outermost(thread, start, end, number)


def calls(store: Store, labels: Labels, zero: int, threads: Sequence[int]) -> dict[int, Spans]:
    """The outermost traced calls of some threads. All calls of the run are gone through, however few the threads are; of many calls
    a part of the time after the other, for the sake of memory."""
    names = store.functions()
    if not names or not threads:
        return {}
    chosen = ", ".join(str(int(thread)) for thread in threads)
    reading = _Reading(store, labels, zero)
    sources = [(name, sql_name(name)) for name in names]
    found: dict[int, list[Spans]] = {int(thread): [] for thread in threads}
    until = dict.fromkeys(found, -1)  # when the last call of a thread so far is over
    for between in _times(store, chosen):
        start, end, label, thread = reading.of(sources, f"thread IN ({chosen}){between}")
        for one, outer in outermost(thread, start, end, label).items():
            # What began before is within a call of the part before.
            free = int(np.searchsorted(outer.start, until[one]))
            if free < len(outer.start):
                found[one].append(Spans(outer.start[free:], outer.end[free:], outer.label[free:]))
                until[one] = max(until[one], int(outer.end[-1]))
    return {thread: _joined(found.pop(thread)) for thread in tuple(found)}


def _times(store: Store, chosen: str) -> list[str]:
    """Conditions that divide the calls of these threads by their start."""
    ((count,),) = store.con.execute(
        f"SELECT coalesce(sum(calls), 0)::BIGINT FROM call_stats WHERE source = 'event' AND thread IN ({chosen})"
    ).fetchall()
    return slices(store, f"calls WHERE thread IN ({chosen}) AND end_ns > start_ns", count, _AT_ONCE)


def _joined(parts: list[Spans]) -> Spans:
    """The same in one, in which the parts are not kept."""
    if len(parts) == 1:
        return parts[0]
    count, at = sum(len(part.start) for part in parts), 0
    out = Spans(np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int32))
    parts.reverse()
    while parts:
        part = parts.pop()
        own = slice(at, at + len(part.start))
        out.start[own], out.end[own], out.label[own] = part.start, part.end, part.label
        at = own.stop
    return out


def parts_of_calls(store: Store, labels: Labels, zero: int) -> Iterator[tuple[Ints, Ints, Narrow, Narrow]]:
    """All traced calls of the run, some at a time, in no order: starts, ends, labels, threads."""
    reading = _Reading(store, labels, zero)
    for name in store.functions():
        for part in store.parts(name):
            yield reading.of([(name, part)], "true")


class _Reading:
    """Reads calls, with the numbers of their labels."""

    def __init__(self, store: Store, labels: Labels, zero: int) -> None:
        self._store, self._labels, self._zero = store, labels, zero
        self._lines = lines.of_calls(store)
        self._numbers: dict[tuple[str, int], int] = {}

    def of(self, sources: Sequence[tuple[str, str]], condition: str) -> tuple[Ints, Ints, Narrow, Narrow]:
        """Start, end, label and thread of the calls in `sources`, which are function and SQL, for which a condition holds."""
        parts = [
            f"SELECT {at} AS f, process, thread, seq, caller, start_ns, end_ns FROM {source}"
            f" WHERE {condition} AND end_ns > start_ns"
            for at, (_, source) in enumerate(sources)
        ]
        rows = self._store.con.execute(
            f"SELECT f::INTEGER AS f, c.thread::INTEGER AS thread, {self._lines.number} AS line,"
            f" start_ns::BIGINT - {self._zero} AS s, end_ns::BIGINT - {self._zero} AS e"
            f" FROM ({' UNION ALL '.join(parts)}) c{self._lines.join}"
        ).fetchnumpy()
        f, line, thread, start, end = (np.ma.getdata(rows[name]) for name in ("f", "line", "thread", "s", "e"))
        del rows
        count = len(self._lines.texts)
        numbers = np.full((len(sources), count), -1, np.int32)
        there = np.bincount(f * count + line, minlength=numbers.size).reshape(numbers.shape)
        for at, of in np.argwhere(there).tolist():
            numbers[at, of] = self._number(sources[at][0], of)
        return start, end, numbers[f, line], thread

    def _number(self, name: str, line: int) -> int:
        known = self._numbers.get((name, line))
        if known is None:
            title = self._store.model.tally_function(name.replace(".", ":", 1))[1]
            known = self._numbers[name, line] = self._labels.number(Label("call", title, self._lines.texts[line]))
        return known


def python(store: Store, labels: Labels, zero: int, chosen: str) -> dict[int, Spans]:
    """What Python did, by thread: its start, programs, imports and calls into it, if they are chosen (a condition in SQL) and in no
    other one."""
    rows = store.con.execute(
        "SELECT thread, start_ns::BIGINT, end_ns::BIGINT, kind, name FROM python_calls"
        f" WHERE parent IS NULL AND end_ns > start_ns AND {chosen} ORDER BY thread, start_ns"
    ).fetchall()
    thread, start, end = (np.array([row[i] for row in rows], np.int64) for i in range(3))
    number = np.array([labels.number(_python_label(*row[3:])) for row in rows], np.int64)
    return outermost(thread, start - zero, end - zero, number)


def _python_label(kind: str, name: str) -> Label:
    if kind == "import":
        return Label("import", name)
    return Label("python", f"start of {name}" if kind == "start" else name or "Python")


def outermost(thread: npt.NDArray[Any], start: Ints, end: Ints, label: npt.NDArray[Any]) -> dict[int, Spans]:
    """By thread, of spans that may enclose each other the outer ones; of equal ones the first."""
    thread, start, end, label = _native.outermost(
        thread.astype(np.int32, copy=False), start, end, label.astype(np.int32, copy=False)
    )
    if not len(thread):
        return {}
    first = np.flatnonzero(np.r_[True, thread[1:] != thread[:-1]])
    each = zip(thread[first].tolist(), itertools.pairwise([*first.tolist(), len(thread)]), strict=True)
    return {one: Spans(start[low:high], end[low:high], label[low:high]) for one, (low, high) in each}


def split(labels: Labels, start: Ints, end: Ints, spans_of: Sequence[Spans]) -> tuple[Ints, Ints, Ints]:
    """Pieces of a thread, in order, cut where what it does changes: their starts, ends and labels. What is in no call is host code
    between two of them."""
    layers = [near for spans in spans_of if len((near := spans.near(int(start[0]), int(end[-1]))).start)]
    cuts = [start, end, *(spans.start for spans in layers), *(spans.end for spans in layers)]
    # Sorted, as they are nearly: np.unique puts them into a hash table first, which takes ten times as long.
    edges = np.sort(np.concatenate(cuts))
    edges = edges[np.r_[True, edges[1:] > edges[:-1]]]
    low, high = edges[:-1], edges[1:]
    within = np.searchsorted(start, low, "right") - 1
    inside = (within >= 0) & (low < end[np.maximum(within, 0)])
    low, high = low[inside], high[inside]
    label = np.full(len(low), -1, np.int64)
    for spans in layers:
        label = np.where(label >= 0, label, spans.at(low))
    gaps = np.flatnonzero(label < 0)
    if len(gaps):
        label[gaps] = _between(labels, low[gaps], layers)
    return low, high, label


def _between(labels: Labels, moments: Ints, layers: Sequence[Spans]) -> Ints:
    """Labels of host code at moments in no span: after which one, before which one."""
    before = np.full(len(moments), -1, np.int64)
    before_at = np.full(len(moments), -1, np.int64)
    after = np.full(len(moments), -1, np.int64)
    after_at = np.full(len(moments), _FARTHEST, np.int64)
    for spans in layers:
        at = np.searchsorted(spans.start, moments, "right")
        there = at > 0
        ended = np.where(there, spans.end[np.maximum(at - 1, 0)], -1)
        nearer = there & (ended > before_at)
        before = np.where(nearer, spans.label[np.maximum(at - 1, 0)], before)
        before_at = np.where(nearer, ended, before_at)
        there = at < len(spans.start)
        begins = np.where(there, spans.start[np.minimum(at, len(spans.start) - 1)], _FARTHEST)
        nearer = there & (begins < after_at)
        after = np.where(nearer, spans.label[np.minimum(at, len(spans.start) - 1)], after)
        after_at = np.where(nearer, begins, after_at)
    pairs, which = np.unique((before + 1) << 32 | (after + 1), return_inverse=True)
    numbers = [labels.number(_host(labels, (pair >> 32) - 1, (pair & 0xFFFFFFFF) - 1)) for pair in pairs.tolist()]
    return np.array(numbers, np.int64)[which]


def _host(labels: Labels, before: int, after: int) -> Label:
    def named(number: int) -> str:
        label = labels.all[number]
        return label.shown if label.kind == "import" else label.name

    words = []
    if before >= 0:
        words.append(f"after {named(before)}")
    if after >= 0:
        words.append(f"before {named(after)}")
    # It begins at the line of the call before it, which is the only one that is known.
    source = labels.all[before].source if before >= 0 and labels.all[before].kind == "call" else ""
    return Label("host", ", ".join(words) or "no traced call", source)
