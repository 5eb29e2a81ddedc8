"""Runs against each other, name by name: what became slower or faster beyond the noise, what is new, what is gone.

Noise is judged from the spread within each run: durations in time order are cut into blocks, whose medians are
bootstrapped, so that slow drifts of a machine count as noise too. The first call of a name stands apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from occatrace.reports import Column, Definition, Report
from occatrace.tables import Store

FLOOR = 0.05  # differences below this are never told: frequency scaling and placement do as much
_BLOCKS = 20
_RESAMPLES = 400
_FEW = 8  # calls, for blocks
_ENOUGH = 5  # calls, for a verdict
_CONFIDENCE = 99.5

_KERNELS = """
WITH work AS (
    SELECT thread, run_seq, sum(span(start_ns, end_ns)) AS ns FROM activities
    WHERE kind = 'kernel' AND run_seq IS NOT NULL GROUP BY ALL
)
SELECT k.name || ' [' || k.mode || ']', CASE WHEN host_mode(k.mode) THEN span(r.start_ns, r.end_ns) ELSE w.ns END
FROM kernel_runs r JOIN kernels k USING (kernel) LEFT JOIN work w ON w.thread = r.thread AND w.run_seq = r.seq
ORDER BY r.start_ns
"""
_DEVICE_KERNELS = "SELECT name, span(start_ns, end_ns) FROM activities WHERE kind = 'kernel' ORDER BY start_ns"
_MEMORY = """
SELECT g.name || ' [' || g.mode || ']', span(o.start_ns, o.end_ns) FROM memory_operations o JOIN memory_groups g USING (key)
ORDER BY o.start_ns
"""
_FUNCTIONS = "SELECT function, span(start_ns, end_ns) FROM calls ORDER BY start_ns"


@dataclass(frozen=True)
class Series:
    """The durations of one name in one run."""

    calls: int
    total_ns: int
    min_ns: int
    avg_ns: float
    max_ns: int
    first_ns: int
    median_ns: float  # of all but the first
    noise: float  # relative half-width of what the median may as well be


def series_of(values: npt.NDArray[np.int64]) -> Series:
    """From durations in time order."""
    steady = values[1:] if len(values) > 1 else values
    median = float(np.median(steady))
    return Series(
        len(values),
        int(values.sum()),
        int(values.min()),
        float(values.mean()),
        int(values.max()),
        int(values[0]),
        median,
        _noise(steady),
    )


def _noise(values: npt.NDArray[np.int64]) -> float:
    median = float(np.median(values))
    if median <= 0 or len(values) < _FEW:
        return max(float(values.max() - values.min()) / max(median, 1.0), 0.1)
    blocks = np.array([np.median(block) for block in np.array_split(values, min(_BLOCKS, len(values) // 2))])
    picks = np.random.default_rng(0).integers(0, len(blocks), (_RESAMPLES, len(blocks)))
    low, high = np.percentile(np.median(blocks[picks], axis=1), [100 - _CONFIDENCE, _CONFIDENCE])
    # A drift shows in the blocks' own spread; the median of all may lie anywhere within its middle half.
    drift = float(np.subtract(*np.percentile(blocks, [75, 25])))
    return max(float(high - low) / 2, drift) / median


def collect(store: Store, kinds: Sequence[str] = ("kernels", "memory", "functions")) -> dict[tuple[str, str], Series]:
    """All series of a run, by kind and name."""
    out: dict[tuple[str, str], Series] = {}
    for kind in kinds:
        for query in _queries(store, kind):
            found = store.con.execute(query).fetchnumpy()
            names, values = (np.asarray(column) for column in found.values())
            if not len(names):
                continue
            known = ~np.ma.getmaskarray(found[list(found)[1]])
            unique, inverse = np.unique(names[known].astype(str), return_inverse=True)
            order = np.argsort(inverse, kind="stable")
            parts = np.split(values[known].astype(np.int64)[order], np.cumsum(np.bincount(inverse))[:-1])
            out |= {(kind, str(name)): series_of(part) for name, part in zip(unique, parts, strict=True)}
            break
    return out


def _queries(store: Store, kind: str) -> Iterator[str]:
    if kind == "kernels":
        yield from (_KERNELS, _DEVICE_KERNELS)
    elif kind == "memory":
        yield _MEMORY
    else:
        store.functions()
        yield _FUNCTIONS


@dataclass(frozen=True)
class Difference:
    """One name in the first run and in another."""

    ratio: float | None  # of the medians; None: not in both
    noise: float
    verdict: str

    @property
    def slower(self) -> float:
        """By what part it became slower beyond the noise; 0: it did not."""
        return self.ratio - 1 if self.ratio is not None and self.verdict.endswith("slower") else 0.0


def difference(a: Series | None, b: Series | None) -> Difference:
    """The second against the first."""
    if a is None or b is None:
        return Difference(None, 0.0, "new" if a is None else "gone")
    if a.median_ns <= 0 or b.median_ns <= 0:
        return Difference(None, 1.0, "no difference" if a.median_ns == b.median_ns else "too short to tell")
    ratio = b.median_ns / a.median_ns
    if min(a.calls, b.calls) < _ENOUGH:
        return Difference(ratio, max(a.noise, b.noise), "too few calls to tell")
    noise = max(FLOOR, float(np.hypot(a.noise, b.noise)))
    away = max(ratio, 1 / ratio) - 1
    return Difference(ratio, noise, "no difference" if away <= noise else in_words(ratio))


def in_words(ratio: float) -> str:
    """As people say it: "12 % faster", "344× slower"."""
    if ratio >= 2:
        return f"{ratio:.3g}× slower"
    if ratio >= 1:
        return f"{100 * (ratio - 1):.0f} % slower"
    if ratio <= 0.5:
        return f"{1 / ratio:.3g}× faster"
    return f"{100 * (1 - ratio):.0f} % faster"


def compare(runs: Mapping[str, Mapping[tuple[str, str], Series]]) -> tuple[Report, float]:
    """A report with one row per name, and the worst slowdown (0.05: 5 %) of all."""
    labels = list(runs)
    first, *others = runs.values()
    names = sorted({key for run in runs.values() for key in run})
    weight = {key: max(run[key].total_ns for run in runs.values() if key in run) for key in names}
    rows: list[tuple[Any, ...]] = []
    worst = 0.0
    for key in sorted(names, key=lambda key: (("kernels", "memory", "functions").index(key[0]), -weight[key], key)):
        series = [run.get(key) for run in runs.values()]
        row: list[Any] = [key[0], key[1]]
        for s in series:
            row += [None] * 6 if s is None else [s.calls, s.min_ns, s.avg_ns, s.max_ns, s.total_ns, s.first_ns]
            row.append(s.median_ns if s else None)
        for other in others:
            found = difference(first.get(key), other.get(key))
            worst = max(worst, found.slower)
            row += [found.ratio, 100 * found.noise, found.verdict]
        rows.append(tuple(row))
    return Report(_definition(labels), rows), worst


def _definition(labels: Sequence[str]) -> Definition:
    columns = [Column("kind", "text", "Kind", ""), Column("name", "text", "Name", "")]
    for number, label in enumerate(labels, 1):
        columns += [
            Column(f"calls_{number}", "count", f"Calls {label}", ""),
            Column(f"min_ns_{number}", "ns", f"Min {label}", ""),
            Column(f"avg_ns_{number}", "ns", f"Avg {label}", ""),
            Column(f"max_ns_{number}", "ns", f"Max {label}", ""),
            Column(f"total_ns_{number}", "ns", f"Total {label}", ""),
            Column(f"first_ns_{number}", "ns", f"First {label}", "the first call"),
            Column(f"med_ns_{number}", "ns", f"Med {label}", "median of all but the first call"),
        ]
    for number, label in enumerate(labels[1:], 2):
        suffix = f" {label}" if len(labels) > 2 else ""
        columns += [
            Column(f"ratio_{number}", "number", f"Ratio{suffix}", "of the medians, to the first run"),
            Column(f"noise_{number}", "percent", f"Noise{suffix}", "what the medians may differ by for no reason"),
            Column(f"verdict_{number}", "text", f"Verdict{suffix}", ""),
        ]
    title = "Comparison: " + ", ".join(labels)
    about = f"each name in {len(labels)} runs, in steady state (without its first call)"
    return Definition("compare", title, about, "", "kind", False, tuple(columns), "")
