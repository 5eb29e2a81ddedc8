"""How the durations of each name developed over runs of several versions, and where their level changed: change points of the
package ruptures (PELT, squared error of the logarithms)."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from occatrace.errors import RunError
from occatrace.reports.compare import FLOOR, SHORTEST, Key, Run

FEWEST = 4  # versions that have a name, for a change point
RECENT = 5  # versions, the newest ones, in which a change counts as news
_SEGMENT = 2  # versions of one level: one alone is an outlier
_NORMAL = 1.4826  # standard deviations in a median absolute deviation
_SURE = 3.0  # deviations that a change of level must exceed
RUN: Key = ("run", "recorded time", "")


@dataclass(frozen=True)
class Change:
    """A change of level: at which version, from and to which median in ns."""

    version: int
    before_ns: float
    after_ns: float

    @property
    def ratio(self) -> float:
        """Above 1: slower."""
        return self.after_ns / self.before_ns


@dataclass(frozen=True)
class Entry:
    """A name: its median in ns in each version (None: it is not there), and its changes."""

    key: Key
    values: Sequence[float | None]
    total_ns: float  # of the newest version that has it
    changes: Sequence[Change]

    def news(self, versions: int) -> Change | None:
        """Its last change, if that is recent."""
        last = self.changes[-1] if self.changes else None
        return last if last and last.version >= versions - RECENT else None


def history(variants: Mapping[str, Sequence[Run]]) -> list[Entry]:
    """An entry per name, the most time first; the first is the run as a whole. Needs the package ruptures."""
    try:
        pelt = importlib.import_module("ruptures").Pelt
    except ImportError:
        raise RunError("change points are found by the package ruptures: pip install 'occatrace[ci]'") from None
    keys = dict.fromkeys(key for runs in variants.values() for run in runs for key in run.series)
    entries = []
    for key in (RUN, *keys):
        values = [_value(runs, key) for runs in variants.values()]
        newest = next(runs for runs in reversed(list(variants.values())) if _value(runs, key) is not None)
        total = median(run.elapsed_ns if key == RUN else run.series[key].total_ns for run in newest if _has(run, key))
        entries.append(Entry(key, values, total, changes(values, pelt)))
    return [entries[0], *sorted(entries[1:], key=lambda entry: (-entry.total_ns, entry.key))]


def _has(run: Run, key: Key) -> bool:
    return key == RUN or key in run.series


def _value(runs: Sequence[Run], key: Key) -> float | None:
    """Of repetitions of a version the median."""
    found = [run.elapsed_ns if key == RUN else run.series[key].median_ns for run in runs if _has(run, key)]
    return float(median(found)) if found else None


def changes(values: Sequence[float | None], pelt: Any) -> list[Change]:
    """Where the level of a series of durations changes by more than its noise and by more than 5 %."""
    places = [place for place, value in enumerate(values) if value]
    if len(places) < FEWEST:
        return []
    known = np.array([values[place] for place in places], np.float64)
    if known.max() < SHORTEST:
        return []
    logs = np.log(known)
    steps = np.diff(logs)
    # Each version as the median of it and its neighbours: one alone is no level.
    first = np.clip(np.arange(len(logs)) - 1, 0, len(logs) - 3)
    logs = np.median(logs[first[:, None] + np.arange(3)], axis=1)
    noise = _NORMAL * float(np.median(np.abs(steps - np.median(steps)))) / np.sqrt(2)
    noise = max(noise, FLOOR / (2 * _SURE))
    bounds = (
        pelt(model="l2", min_size=_SEGMENT, jump=1)
        .fit(logs.reshape(-1, 1))
        .predict(pen=_SURE * noise**2 * np.log(len(logs)))
    )
    out, begin, level = [], 0, 0.0
    for number, end in enumerate(bounds):
        now = float(np.median(logs[begin:end]))
        if number and abs(now - level) <= max(np.log1p(FLOOR), _SURE * noise):
            now = level  # no change of its own
        elif number:
            out.append(Change(places[begin], float(np.exp(level)), float(np.exp(now))))
        begin, level = end, now
    return out
