"""Plots of a run: tables → numbers (data) → Vega-Lite (charts) → SVG, PNG (draw). The list of them, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from occatrace.plots import charts, data
from occatrace.run import RunError
from occatrace.units import duration, size

if TYPE_CHECKING:
    from occatrace.tables import Store


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

    make: Callable[[Any], Plot | None]
    nothing: str


def make(store: Store, name: str) -> Plot | None:
    """A plot of a run; None where the run has nothing for it."""
    try:
        entry = PLOTS[name]
    except KeyError:
        raise UnknownPlot(f"no plot {name!r}; there are: {', '.join(PLOTS)}") from None
    return entry.make(store)


def _kernels(store: Store) -> Plot | None:
    found = data.shares(store)
    if found is None:
        return None
    about = "Each kernel's part of the time of all kernels."
    return Plot("kernels", "Kernel time", about, lambda width: charts.kernels(found, width))


def _util(store: Store) -> Plot | None:
    found = data.busy(store)
    if found is None:
        return None
    about = "How much of the time each queue had work: a full band is all of it. Work that overlaps counts once."
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


def _mem(store: Store) -> Plot | None:
    found = data.memory(store)
    if found is None:
        return None
    about = f"Memory in use: {size(found.peak)} at most, {duration(found.peak_at)} after tracing began"
    about += f"; {size(found.left)} never given back." if found.left else "; all of it was given back."
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


def _durations(store: Store) -> Plot | None:
    found = data.distributions(store)
    if not found:
        return None
    about = "How long the calls of the largest kernels took: four bars to the doubling, and the median as a line."
    return Plot("durations", "Kernel durations", about, lambda width: charts.distributions(found, width))


ALONE = 760  # width of a plot that stands alone

# In the order in which a page shows them.
PLOTS: Mapping[str, Entry] = {
    "kernels": Entry(_kernels, "no kernel was called"),
    "util": Entry(_util, "no device work was recorded, nor an OCCA kernel that ran on the host"),
    "mem": Entry(_mem, "no allocation was recorded"),
    "durations": Entry(_durations, "no kernel was called"),
}
