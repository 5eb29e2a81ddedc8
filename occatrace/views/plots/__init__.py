"""Plots of a run: tables → numbers (data) → Vega-Lite (charts) → SVG, PNG (draw). The list of them, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import duckdb

from occatrace import reports
from occatrace.core.units import duration, size
from occatrace.errors import RunError
from occatrace.reports import critical
from occatrace.views.plots import charts, data, times

if TYPE_CHECKING:
    from occatrace.reports.scope import Scoped
    from occatrace.store.tables import Store


class UnknownPlot(RunError):
    """There is no plot of this name."""


@dataclass(frozen=True)
class Plot:
    """A plot with its numbers. `hover` is what a page needs to tell the values under the pointer; None: nothing more."""

    name: str
    title: str
    about: str
    chart: Callable[[int], charts.Spec]  # for a width
    hover: Mapping[str, Any] | None = None
    words: Sequence[str] = ()  # its rows, for who does not see it


@dataclass(frozen=True)
class Entry:
    """How a plot is made, and what it means when a run has nothing for it."""

    make: Callable[[Source], Plot | None]
    nothing: str


@dataclass(frozen=True)
class Source:
    """The tables of a run, or of a part of it."""

    store: Store
    scoped: Scoped | None

    @contextmanager
    def connection(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Where the tables of work are those of the part. Memory is always the whole run's: it does not begin in a part."""
        if self.scoped is None or self.scoped.plain:
            yield self.store.con
        else:
            with self.scoped.connection(_WORK, _WORK) as con:
                yield con

    @cached_property
    def kernels(self) -> data.Shares | None:
        """The kernels of the summary."""
        found = data.shares(reports.make(self.store, "occa_kern_sum", self.scoped))
        return found or data.shares(reports.make(self.store, "gpu_kern_sum", self.scoped))

    @cached_property
    def memory(self) -> data.Memory | None:
        """Memory over time."""
        return data.memory(self.store.con, *times.axis(self.store.con))

    @cached_property
    def axis(self) -> tuple[int, int]:
        """The time that plots show, since the first call of the run: all of it, or the chosen part."""
        begin, end = times.axis(self.store.con)
        if self.scoped is not None and self.part:
            first, last = self.scoped.bounds
            begin = begin if first is None else min(max(first, begin), end - 1)
            end = end if last is None else max(min(last, end), begin + 1)
        return begin, end

    @cached_property
    def whole(self) -> int:
        """The time (ns) that percentages of plots over time are of: that of the overview, or the chosen part."""
        begin, end = self.axis
        return end - begin if self.part else times.recorded(self.store.con)

    @property
    def share(self) -> str:
        """What percentages of plots over time are of, in words."""
        return " % is of the chosen part of the time." if self.part else " % is of the recorded time of the run."

    @cached_property
    def activity(self) -> times.Activity | None:
        """What each rank did over time."""
        return times.activity(self.store, *self.axis)

    @cached_property
    def traffic(self) -> times.Grid | None:
        """Bytes from rank to rank."""
        return times.traffic(reports.make(self.store, "mpi_matrix", self.scoped))

    @property
    def part(self) -> bool:
        """Whether it is only a part of the time."""
        return self.scoped is not None and self.scoped.scope.window is not None

    @property
    def remark(self) -> str:
        """What to say of a part."""
        return " Only what begins in the chosen part of the time." if self.part else ""


_WORK = frozenset({"activities", "kernel_runs", "occa_copies"})


def source(store: Store, scoped: Scoped | None = None) -> Source:
    """What plots are made of: the part that is wanted, but not split."""
    if scoped is not None and scoped.scope.by:
        from occatrace.reports.scope import Scoped as Parts

        scoped = Parts(store, replace(scoped.scope, by=None))
    return Source(store, scoped)


def make(tables: Source, name: str) -> Plot | None:
    """A plot of a run; None where the run has nothing for it."""
    try:
        entry = PLOTS[name]
    except KeyError:
        raise UnknownPlot(f"no plot {name!r}; there are: {', '.join(PLOTS)}") from None
    return entry.make(tables)


def _kernels(tables: Source) -> Plot | None:
    found = tables.kernels
    if found is None:
        return None
    about = "Each kernel's part of the time of all kernels." + tables.remark
    rows = [*found.kernels, *([found.others] if found.others else [])]
    words = [f"{charts.short(row.name)}: {row.share:.1f} %, {duration(row.total_ns)}" for row in rows]
    return Plot("kernels", "Kernel time", about, lambda width: charts.kernels(found, width), words=words)


def _util(tables: Source) -> Plot | None:
    with tables.connection() as con:
        found = data.busy(con, *tables.axis)
    if found is None:
        return None
    about = "How much of the time each queue had work: a full band is all of it. Work that overlaps counts once."
    about += tables.share + tables.remark
    about += f" The {len(found.rows)} busiest; {found.left_out} more are left out." if found.left_out else ""
    rows = [times.Band(row.name, f"{100 * row.busy_ns / tables.whole:.1f} %", row.parts) for row in found.rows]
    bands = times.Bands(found.begin, found.end, rows)
    described = "busy time of each queue over time"
    return Plot(
        "util", "Busy time", about, lambda width: charts.bands(bands, width, described), _hover(bands), _words(bands)
    )


def _hover(found: times.Bands) -> Mapping[str, Any]:
    """What the pointer tells of bands."""
    series = [
        {
            "name": charts.short(row.name),
            "values": [round(part, 4) for part in row.parts],
            **({"low": row.low, "high": row.high, "unit": charts.short(row.unit)} if (row.low, row.high) != (0, 1) else {}),
        }
        for row in found.rows
    ]  # fmt: skip
    return {"begin": found.begin, "end": found.end, "unit": "part", "series": series}


def _words(found: times.Bands) -> Sequence[str]:
    return [f"{charts.short(row.name)}: {row.value}" for row in found.rows]


def _timeline(tables: Source) -> Plot | None:
    found = tables.activity
    bands = found.bands(tables.whole) if found else None
    if found is None or bands is None:
        return None
    ranks = sum(found.weights)
    about = "What the run did over its time: a full band is all of the time"
    about += f" of all {ranks:,} ranks." if ranks > 1 else "."
    about += " What is in several rows happened at the same time; the rest is host code and other calls."
    about += tables.share
    return Plot(
        "timeline", "Timeline", about, lambda width: charts.bands(bands, width, about), _hover(bands), _words(bands)
    )


def _ranks(tables: Source) -> Plot | None:
    found = tables.activity.grid if tables.activity else None
    if found is None:
        return None
    together = len(found.rows) < sum(tables.activity.weights if tables.activity else ())
    about = "What each rank did over time; the colours give the share of the time."
    about += f" Neighbouring ranks share a row: {len(found.rows)} rows." if together else ""
    legend = [f"{20 * n} to {20 * n + 20} %" for n in range(times.STEPS)]
    words = [
        f"{name}, {title}: {100 * sum(row) / len(row):.1f} %"
        for title, cells in found.maps
        for name, row in zip(found.rows, cells, strict=True)
    ]
    return Plot(
        "ranks", "Ranks over time", about, lambda width: charts.grid(found, width, about, legend), _cells(found), words
    )


def _cells(found: times.Grid) -> Mapping[str, Any]:
    """What the pointer tells of maps."""
    place = charts.Places.of(found)
    rows = [
        {"name": name, "map": title, "from": (top + at * place.cell) / place.height,
         "to": (top + (at + 1) * place.cell) / place.height, "values": [round(value, 3) for value in row]}
        for top, (title, cells) in zip(place.tops, found.maps, strict=True)
        for at, (name, row) in enumerate(zip(found.rows, cells, strict=True))
    ]  # fmt: skip
    return {"begin": found.begin, "end": found.end, "unit": "cells", "columns": list(found.columns), "rows": rows}


def _traffic(tables: Source) -> Plot | None:
    found = tables.traffic
    if found is None:
        return None
    cells = found.maps[0][1]
    most = int(max(value for row in cells for value in row))
    about = "Bytes of messages and one-sided transfers from a rank (row) to a rank (column); each colour is a factor of ten."
    about += tables.remark
    bounds = [size(int(most / 10 ** (times.STEPS - 1 - n))) for n in range(times.STEPS)]
    legend = [f"up to {bounds[0]}", *(f"to {bound}" for bound in bounds[1:])]
    pairs = [
        (value, f"{source} to {target}: {size(int(value))}")
        for source, row in zip(found.rows, cells, strict=True)
        for target, value in zip(found.rows, row, strict=True)
        if value
    ]
    words = [text for _, text in sorted(pairs, key=lambda pair: -pair[0])[:40]]
    return Plot(
        "traffic",
        "Traffic between ranks",
        about,
        lambda width: charts.grid(found, width, about, legend),
        _cells(found),
        words,
    )


def _counters(tables: Source) -> Plot | None:
    found = times.counters(tables.store, *tables.axis)
    if found is None:
        return None
    about = "Counters over time, each on a scale of its own from 0 (or its lowest value, if that is negative) to its highest value."
    about += f" The {len(found.rows)} with most values; {found.left_out} more are left out." if found.left_out else ""
    return Plot(
        "counters", "Counters", about, lambda width: charts.bands(found, width, about), _hover(found), _words(found)
    )


def _critical(tables: Source) -> Plot | None:
    path = critical.recorded(tables.store)
    found = times.path(path, *tables.axis, tables.whole) if path else None
    if found is None:
        return None
    about = (
        "Where the critical path is at each time: the chain of work without waits that decides how long the run takes."
    )
    about += " Only what is on it can make the run shorter." + tables.share
    about += f" The rows with most of it; {found.left_out} more are left out." if found.left_out else ""
    return Plot(
        "critical",
        "Critical path",
        about,
        lambda width: charts.bands(found, width, about),
        _hover(found),
        _words(found),
    )


def _mem(tables: Source) -> Plot | None:
    found = tables.memory
    if found is None:
        return None
    about = f"Memory in use: {size(found.peak)} at most, {duration(found.peak_at)} after the first call"
    about += f"; {size(found.left)} never given back." if found.left else "; all of it was freed."
    if not found.exact:
        about += f" Of each of {data.POINTS} equal parts of the time, its highest moment is shown."
    hover = {
        "begin": found.begin,
        "end": found.end,
        "unit": "bytes",
        "times": list(found.times),
        "series": [
            {"name": charts.short(name), "values": list(values)}
            for name, values in zip(found.groups, found.bytes, strict=True)
        ],
    }
    return Plot("mem", "Memory in use", about, lambda width: charts.memory(found, width), hover)


def _durations(tables: Source) -> Plot | None:
    with tables.connection() as con:
        found = data.distributions(con)
    if not found:
        return None
    about = (
        "How long the calls of the largest kernels took: four bars to the doubling, and the median as a line."
        + tables.remark
    )
    words = [f"{charts.short(row.name)}: median {duration(row.median_ns or 0)}" for row in found]
    return Plot("durations", "Kernel durations", about, lambda width: charts.distributions(found, width), words=words)


ALONE = 760  # width of a plot that stands alone

# In the order in which a page shows them.
PLOTS: Mapping[str, Entry] = {
    "timeline": Entry(_timeline, "nothing that takes time was recorded one by one"),
    "util": Entry(_util, "no device work was recorded, nor an OCCA kernel that ran on the host"),
    "mem": Entry(_mem, "no allocation was recorded"),
    "counters": Entry(_counters, "no counter was sampled (occa_prof --sample host), and the program gave no values"),
    "ranks": Entry(_ranks, "it needs at least two ranks"),
    "critical": Entry(_critical, "nothing was recorded"),
    "kernels": Entry(_kernels, "no kernel was called"),
    "durations": Entry(_durations, "no kernel was called"),
    "traffic": Entry(_traffic, "no rank sent anything to another one"),
}
