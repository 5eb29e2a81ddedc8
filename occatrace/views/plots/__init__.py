"""Plots of a run: tables → numbers (data) → Vega-Lite (charts) → SVG, PNG (draw). The list of them, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import duckdb

from occatrace import reports
from occatrace.core.units import duration, size
from occatrace.errors import RunError
from occatrace.views.plots import charts, data

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
        return data.memory(self.store.con)

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
    return Plot("kernels", "Kernel time", about, lambda width: charts.kernels(found, width))


def _util(tables: Source) -> Plot | None:
    with tables.connection() as con:
        found = data.busy(con, work_only=tables.part)
    if found is None:
        return None
    about = "How much of the time each queue had work: a full band is all of it. Work that overlaps counts once."
    about += tables.remark
    about += f" The {len(found.rows)} busiest; {found.left_out} more are left out." if found.left_out else ""
    hover = {
        "begin": found.begin,
        "end": found.end,
        "unit": "part",
        "series": [
            {"name": charts.short(row.name), "values": [round(part, 4) for part in row.parts]} for row in found.rows
        ],
    }
    return Plot("util", "Busy time", about, lambda width: charts.busy(found, width), hover)


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
    return Plot("durations", "Kernel durations", about, lambda width: charts.distributions(found, width))


ALONE = 760  # width of a plot that stands alone

# In the order in which a page shows them.
PLOTS: Mapping[str, Entry] = {
    "kernels": Entry(_kernels, "no kernel was called"),
    "durations": Entry(_durations, "no kernel was called"),
    "util": Entry(_util, "no device work was recorded, nor an OCCA kernel that ran on the host"),
    "mem": Entry(_mem, "no allocation was recorded"),
}
