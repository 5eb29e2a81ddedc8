"""Runs against each other, name by name: what became slower or faster beyond the noise, what is new, what is gone.

A single run does not know how much the next one would differ, and on a shared machine that is far more than the spread
within it: whole runs of the same program differ by half. So noise has two parts. Within a run, durations in time order
are cut into blocks whose medians are bootstrapped, so that slow drifts count. Between runs it is what the repetitions of
a variant differ by, where there are some; else what the other names of the two runs differ by, most of which nobody
changed. Calls that all lie in one moment of a run see one state of the machine, and such states last: runs that follow
one another share them, so repetitions do not show how much they matter. A difference is told only where the median and
the fast calls (the tenth percentile, which load on the machine moves least) both show it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from occatrace.core.units import duration
from occatrace.errors import RunError
from occatrace.reports import Column, Definition, Report
from occatrace.reports.scope import Scope, Scoped
from occatrace.store.tables import Store

KINDS = ("kernels", "memory", "ranges", "python", "functions")
TOTAL = "total"

SAME, NOISE = "no difference", "within the noise"
CHANGES = ("slower", "faster", "new", "gone")  # what verdicts that tell of one end with

FLOOR = 0.05  # differences below this are never told: frequency scaling and placement do as much
SHORTEST = 500  # ns; nor are these: caches, and the recording itself; 330 ns lay between two runs of the same
ENOUGH = 5  # calls in each run, for a verdict
ALONE = 10  # calls, where a variant is one run: fewer lie so close together that one disturbance reaches them all
_BLOCKS = 20
_RESAMPLES = 400
_FEW = 8  # calls, for blocks
_CONFIDENCE = 99.5
_SAMPLE = 200_000  # calls of one name that are looked at; sums and extremes are of all
_SURE = 0.9995  # quantile of Student's t, times the deviation between runs, that a difference must exceed
_NORMAL = 1.4826  # standard deviations in a median absolute deviation
_PRIOR, _PRIOR_NAMES = 0.1, 4  # assumed deviation between runs, and how many names it counts as
_EFFICIENCY = 0.4  # of the median absolute deviation: so many true deviations it is worth
_KNOWN = 8  # names, to do without that
_MACHINE = float(np.log(4))  # no machine is this much slower in everything: then it is the program
_NUMBERS = ("calls", "min", "avg", "max", "total", "first", "med")  # the columns of a variant
_CONTRARY = 2.0  # a total that differs from what medians and calls let expect by more than this is worth a remark,
_LITTLE = 0.1  # unless the median changed the same way, by more than this,
_COUNTS = 0.01  # if it differs by this part of the longest run
_REMARKS = 3  # remarks of this kind
_MODES = float(np.log(1.5))  # what whole runs of one program were seen to differ by; see between_runs
_MOMENT = 20_000_000  # ns, a few time slices: calls of a run that begin within it see one state of the machine
_TOO_NOISY = float(np.log(10))


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
    fast_ns: float  # their tenth percentile
    span_ns: int  # from the start of the first call to that of the last
    noise: float  # relative half-width of what the median may as well be


def series_of(values: npt.NDArray[np.int64], span_ns: int = 10 * _MOMENT) -> Series:
    """From durations in time order."""
    exact = (len(values), int(values.sum()), int(values.min()), float(values.mean()), int(values.max()), int(values[0]))
    return _series(exact, span_ns, values)


def _series(exact: tuple[int, int, int, float, int, int], span_ns: int, values: npt.NDArray[np.int64]) -> Series:
    steady = values[1:] if len(values) > 1 else values
    median, fast = np.percentile(steady, [50, 10])
    return Series(*exact, float(median), float(fast), span_ns, _noise(steady))


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


# What of a run is compared: `name`, `mode` (told beside the name only where a name has several), `start_ns`, `v`.
_QUERIES: Mapping[str, tuple[frozenset[str], str]] = {
    "occa kernels": (
        frozenset({"kernel_runs", "activities"}),
        """
        SELECT k.name, k.mode, r.start_ns, CASE WHEN host_mode(k.mode) THEN span(r.start_ns, r.end_ns) ELSE w.ns END AS v
        FROM kernel_runs r JOIN kernels k USING (kernel) LEFT JOIN (
            SELECT thread, run_seq, sum(span(start_ns, end_ns)) AS ns FROM activities
            WHERE kind = 'kernel' AND run_seq IS NOT NULL GROUP BY ALL
        ) w ON w.thread = r.thread AND w.run_seq = r.seq
        """,
    ),
    "kernels": (
        frozenset({"activities"}),
        "SELECT name, '' AS mode, start_ns, span(start_ns, end_ns) AS v FROM activities WHERE kind = 'kernel'",
    ),
    "memory": (
        frozenset({"activities", "occa_copies"}),
        "SELECT g.name, g.mode, o.start_ns, span(o.start_ns, o.end_ns) AS v"
        " FROM memory_operations o JOIN memory_groups g USING (key)",
    ),
    "ranges": (
        frozenset({"ranges"}),
        "SELECT CASE WHEN domain <> '' THEN domain || ': ' ELSE '' END || name AS name, '' AS mode, start_ns,"
        " span(start_ns, end_ns) AS v FROM ranges WHERE kind <> 'mark' AND end_ns IS NOT NULL",
    ),
    "python": (
        frozenset({"python_calls"}),
        """
        WITH own AS (
            SELECT CASE kind WHEN 'start' THEN 'start of Python' ELSE name END AS name, start_ns, span(start_ns, end_ns) AS v
            FROM python_calls WHERE kind IN ('start', 'border', 'function')
        ),
        outermost AS (
            SELECT start_ns, span(start_ns, end_ns) AS v FROM python_imports WHERE within IS NULL
        )
        SELECT name, '' AS mode, start_ns, v FROM own
        UNION ALL
        SELECT name || ' (first call)', '', min(start_ns), arg_min(v, start_ns) FROM own GROUP BY name HAVING count(*) > 1
        UNION ALL
        SELECT 'imports, all', '', min(start_ns), sum(v)::BIGINT FROM outermost HAVING count(*) > 0
        """,
    ),
    "functions": (
        frozenset({"calls"}),
        "SELECT function AS name, '' AS mode, start_ns, span(start_ns, end_ns) AS v FROM calls",
    ),
}

Key = tuple[str, str, str]  # kind, name, mode


@dataclass(frozen=True)
class Run:
    """What is compared of one run."""

    series: Mapping[Key, Series]
    elapsed_ns: int  # of it, what was recorded
    captured: bool = False  # not all of it was


def has_occa_kernels(store: Store) -> bool:
    """Whether kernels have the names that their author gave them."""
    return bool(store.con.execute("SELECT 1 FROM kernel_runs LIMIT 1").fetchall())


def collect(store: Store, kinds: Sequence[str] = KINDS, *, occa: bool | None = None, names: str = "raw") -> Run:
    """All series of a run. `occa`: kernels by the author's names (default: where there are any)."""
    out: dict[Key, Series] = {}
    occa = has_occa_kernels(store) if occa is None else occa
    scoped = Scoped(store, Scope(names=names))
    for kind in kinds:
        tables, query = _QUERIES["occa kernels" if kind == "kernels" and occa else kind]
        if kind == "functions":
            store.functions()
        with scoped.connection(tables, tables) as con:
            exact = con.execute(
                "SELECT name, mode, count(v), sum(v)::BIGINT, min(v), avg(v), max(v), arg_min(v, start_ns),"
                " max(start_ns) - min(start_ns)"
                f" FROM ({query}) WHERE v IS NOT NULL AND name IS NOT NULL GROUP BY ALL ORDER BY name, mode"
            ).fetchall()
            if not exact:
                continue
            con.register("groups", {
                "id": np.arange(len(exact)),
                "name": np.array([row[0] for row in exact], object),
                "mode": np.array([row[1] for row in exact], object),
                "every": np.array([-(-row[2] // _SAMPLE) for row in exact]),
            })  # fmt: skip
            found = con.execute(
                f"SELECT g.id, v FROM ({query}) q JOIN groups g ON g.name = q.name AND g.mode = q.mode"
                " WHERE v IS NOT NULL AND (every = 1 OR hash(start_ns) % every = 0) ORDER BY g.id, start_ns"
            ).fetchnumpy()
            con.unregister("groups")
        ids, values = np.asarray(found["id"]), np.asarray(found["v"]).astype(np.int64)
        parts = np.split(values, np.searchsorted(ids, np.arange(1, len(exact))))
        for (name, mode, *numbers, span), part in zip(exact, parts, strict=True):
            out[kind, name, mode] = _series(tuple(numbers), int(span), part)
    elapsed, recorded = store.con.execute("SELECT run_length(), recorded_ns(run_length())").fetchall()[0]
    return Run(out, max(int(recorded), 0), elapsed != recorded)


@dataclass(frozen=True)
class Difference:
    """One name in the first variant and in another."""

    ratio: float | None  # of the medians; None: not in both
    noise: float
    verdict: str

    @property
    def unknown(self) -> bool:
        """Whether there is too little to know the noise."""
        return self.ratio is None or self.verdict.startswith("too")

    @property
    def slower(self) -> float:
        """By what part it became slower beyond the noise; 0: it did not."""
        return self.ratio - 1 if self.ratio is not None and self.verdict.endswith("slower") else 0.0


def difference(a: Sequence[Series], b: Sequence[Series], between: float = 0.0) -> Difference:
    """The second variant against the first, each with its repetitions; `between`: how far apart, in logarithms, their
    medians may lie when nothing changed."""
    if not a or not b:
        return Difference(None, 0.0, "new" if b else "gone")
    medians = [float(np.median([s.median_ns for s in variant])) for variant in (a, b)]
    if min(medians) <= 0:
        return Difference(None, 1.0, SAME if medians[0] == medians[1] else "too short to tell")
    ratio = medians[1] / medians[0]
    own = float(
        np.hypot(*(np.median([np.log1p(s.noise) for s in variant]) / np.sqrt(len(variant)) for variant in (a, b)))
    )
    # A state of the machine adds to what repetitions differ by, as it may be that of all those of a variant.
    state = _MODES if all(s.span_ns < _MOMENT for s in (*a, *b)) else 0.0
    bound = max(float(np.log1p(FLOOR)), state + float(np.hypot(own, between)))
    noise = float(np.expm1(bound))
    if min(s.calls for s in (*a, *b)) < (ENOUGH if min(len(a), len(b)) > 1 else ALONE):
        return Difference(ratio, noise, "too few calls to tell")
    if bound > _TOO_NOISY:
        return Difference(ratio, noise, "too noisy to tell")
    fast = [max(float(np.median([s.fast_ns for s in variant])), 1.0) for variant in (a, b)]
    steps = np.log(ratio), np.log(fast[1] / fast[0])
    # The smaller of the two; none where they do not agree on the direction.
    shown = 0.0 if steps[0] * steps[1] <= 0 else float(min(map(abs, steps)))
    told = shown > bound and abs(medians[1] - medians[0]) > SHORTEST
    return Difference(ratio, noise, in_words(ratio) if told else _not_told(ratio))


def _not_told(ratio: float) -> str:
    return NOISE if max(ratio, 1 / ratio) > 1 + FLOOR else SAME


def between_runs(
    a: Mapping[Any, Sequence[Series]], b: Mapping[Any, Sequence[Series]], *, modes_differ: bool = False
) -> dict[Any, float]:
    """For each name that two variants have: how far apart, in logarithms, their medians may lie when nothing changed.

    In two modes of OCCA every kernel has changed: what names differ by is not all noise, and of kernels no more of it is
    taken for noise than a busy machine makes.
    """
    repeated = [v for variant in (a, b) for series in variant.values() if (v := _variance(series))]
    steps = {
        key: float(np.log(np.median([s.median_ns for s in b[key]]) / np.median([s.median_ns for s in a[key]])))
        for key in a.keys() & b.keys()
        if all(s.median_ns > 0 and s.calls >= ENOUGH for s in (*a[key], *b[key]))
    }
    out = {}
    for key in a.keys() & b.keys():
        if repeated:
            # The repetitions of this name, steadied by those of all.
            own = [(v, len(s) - 1) for s in (a[key], b[key]) if (v := _variance(s)) is not None]
            weight = sum(n for _, n in own)
            prior = float(np.median(repeated))
            variance = (sum(v * n for v, n in own) + prior * _PRIOR_NAMES) / (weight + _PRIOR_NAMES)
            runs = 1 / len(a[key]) + 1 / len(b[key])
            out[key] = _student(weight + _PRIOR_NAMES) * float(np.sqrt(variance * runs))
            continue
        # What differs by more than any machine does is the program's, and says nothing of the noise.
        others = np.array([step for other, step in steps.items() if other != key and abs(step) < _MACHINE])
        n = len(others)
        centre = float(np.median(others)) if n else 0.0
        spread = _NORMAL * float(np.median(np.abs(others - centre))) if n else 0.0
        if n < _KNOWN:
            spread = float(np.sqrt((n * spread**2 + _PRIOR_NAMES * _PRIOR**2) / (n + _PRIOR_NAMES)))
        # What all names share may be the machine's, and says nothing of the program, unless no machine is so slow.
        shared = abs(centre) if abs(centre) < _MACHINE else 0.0
        out[key] = shared + _student(max(_EFFICIENCY * n, _PRIOR_NAMES)) * spread
        if modes_differ and key[0] == "kernels":
            out[key] = min(out[key], _MODES)
    return out


def _modes(runs: Sequence[Run]) -> set[str]:
    """The modes of OCCA in which runs had kernels."""
    return {mode for run in runs for kind, _, mode in run.series if kind == "kernels" and mode}


def _student(freedom: float) -> float:
    """Quantile of Student's t by its expansion about the normal one (within 2 % from five degrees of freedom on)."""
    z = NormalDist().inv_cdf(_SURE)
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def _variance(series: Sequence[Series]) -> float | None:
    if len(series) < 2 or min(s.median_ns for s in series) <= 0:
        return None
    return float(np.var([np.log(s.median_ns) for s in series], ddof=1))


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 1000 else f"{ratio:.3g}"


def in_words(ratio: float) -> str:
    """As people say it: "12 % faster", "344× slower"."""
    if ratio >= 2:
        return f"{_times(ratio)}× slower"
    if ratio >= 1:
        return f"{100 * (ratio - 1):.0f} % slower"
    if ratio <= 0.5:
        return f"{_times(1 / ratio)}× faster"
    return f"{100 * (1 - ratio):.0f} % faster"


def compare(variants: Mapping[str, Sequence[Run]], kinds: Sequence[str] = KINDS) -> tuple[Report, float]:
    """A report with one row per name, and the worst slowdown (0.05: 5 %) of them. The first variant is the base. Names of
    other kinds than the given ones only tell what the noise is."""
    labels = list(variants)
    gathered = [_by_name(runs, _ambiguous(variants)) for runs in variants.values()]
    first, *others = gathered
    common = set(first).intersection(*others)
    if not common:
        raise RunError(
            f"{' and '.join(labels)} have nothing in common: no kernel, memory operation, range or function of one name"
        )
    base, *rest = (_modes(runs) for runs in variants.values())
    spreads = [between_runs(first, o, modes_differ=modes != base) for o, modes in zip(others, rest, strict=True)]
    names = {key for variant in gathered for key in variant}
    weight = {key: max(sum(s.total_ns for s in v[key]) / len(v[key]) for v in gathered if key in v) for key in names}
    rows: list[tuple[Any, ...]] = _totals(variants)
    worst = 0.0
    chosen = [key for key in names if key[0] in kinds]
    for key in sorted(chosen, key=lambda key: (KINDS.index(key[0]), -weight[key], key)):
        row: list[Any] = [*key]
        for variant in gathered:
            row += _numbers(variant.get(key, ()))
        for other, spread in zip(others, spreads, strict=True):
            a, b = first.get(key, ()), other.get(key, ())
            found = difference(a, b, spread.get(key, 0.0))
            worst = max(worst, found.slower)
            apart = (
                float(np.median([s.median_ns for s in b]) - np.median([s.median_ns for s in a])) if a and b else None
            )
            row += [apart, found.ratio, None if found.unknown else 100 * found.noise, found.verdict]
        rows.append(tuple(row))
    notes = _notes(variants, spreads, any(modes != base for modes in rest)) + _contrary(labels, rows, variants)
    return Report(_definition(labels), rows, notes), worst


def _ambiguous(variants: Mapping[str, Sequence[Run]]) -> set[tuple[str, str]]:
    """Kinds and names that one run has in several modes."""
    out: set[tuple[str, str]] = set()
    for run in (run for runs in variants.values() for run in runs):
        seen: set[tuple[str, str]] = set()
        for kind, name, _ in run.series:
            (out if (kind, name) in seen else seen).add((kind, name))
    return out


def _by_name(runs: Sequence[Run], ambiguous: set[tuple[str, str]]) -> dict[tuple[str, str], list[Series]]:
    out: dict[tuple[str, str], list[Series]] = {}
    for run in runs:
        for (kind, name, mode), series in run.series.items():
            shown = f"{name} [{mode}]" if (kind, name) in ambiguous and mode else name
            out.setdefault((kind, shown), []).append(series)
    return out


def _numbers(series: Sequence[Series]) -> list[Any]:
    """The columns of one variant: of several runs the middle one of each value."""
    if not series:
        return [None] * 7
    calls, total, low, mean, high, first, median = (
        float(np.median([getattr(s, name) for s in series]))
        for name in ("calls", "total_ns", "min_ns", "avg_ns", "max_ns", "first_ns", "median_ns")
    )
    return [round(calls), round(low), mean, round(high), round(total), round(first), median]


def _totals(variants: Mapping[str, Sequence[Run]]) -> list[tuple[Any, ...]]:
    """Rows of the whole: the run time, and the sums of kernels and memory operations. A single run says
    nothing of how much these vary: only repetitions give them a verdict. Of runs that were recorded in part they are not
    compared: who recorded longer has more."""
    out = []
    partly = any(run.captured for runs in variants.values() for run in runs)
    for name, kind in (
        ("recorded time" if partly else "whole run", ""),
        ("all kernels", "kernels"),
        ("all memory operations", "memory"),
    ):
        sums = []
        for runs in variants.values():
            if not kind:
                sums.append([(1, run.elapsed_ns) for run in runs])
                continue
            each = [[s for key, s in run.series.items() if key[0] == kind] for run in runs]
            sums.append([(sum(s.calls for s in mine), sum(s.total_ns for s in mine)) for mine in each if mine])
        if not any(sums):
            continue
        row: list[Any] = [TOTAL, name]
        middle = [[round(float(np.median(column))) for column in zip(*one, strict=True)] for one in sums]
        for one in middle:
            row += [one[0], None, None, None, one[1], None, None] if one else [None] * 7
        for one, of_one in zip(middle[1:], sums[1:], strict=True):
            if partly or not one or not middle[0] or min(one[1], middle[0][1]) <= 0:
                row += [None] * 3 + [""]
                continue
            ratio = one[1] / middle[0][1]
            row += [one[1] - middle[0][1], ratio, *_verdict_of_totals(ratio, sums[0], of_one)]
        out.append(tuple(row))
    return out


def _verdict_of_totals(ratio: float, a: Sequence[tuple[int, int]], b: Sequence[tuple[int, int]]) -> tuple[Any, str]:
    logs = [np.log([max(total, 1) for _, total in sums]) for sums in (a, b)]
    freedom = len(a) + len(b) - 2
    if freedom < 2:
        return None, ""
    variance = sum(float(((v - v.mean()) ** 2).sum()) for v in logs) / freedom
    deviation = float(np.sqrt(variance * (1 / len(a) + 1 / len(b))))
    bound = max(float(np.log1p(FLOOR)), _student(max(freedom, 5)) * deviation)
    told = abs(float(np.log(ratio))) > bound
    return 100 * float(np.expm1(bound)), in_words(ratio) if told else _not_told(ratio)


def _notes(
    variants: Mapping[str, Sequence[Run]], spreads: Sequence[Mapping[Any, float]], modes_differ: bool
) -> list[str]:
    if any(len(runs) > 1 for runs in variants.values()):
        counts = ", ".join(f"{label}: {len(runs)}" for label, runs in variants.items())
        return [f"runs of each: {counts}; the noise is what they differ by"]
    usual = max((float(np.median(list(spread.values()))) for spread in spreads if len(spread) > _KNOWN), default=0.0)
    bound = 100 * float(np.expm1(usual))
    if bound < 25:
        return []
    repeat = "several runs of each, as in A1,A2,A3 B1,B2,B3, show smaller differences"
    if modes_differ:
        limit = 100 * float(np.expm1(_MODES))
        return [f"different modes: of single runs, up to {limit:.0f} % between kernels counts as noise; {repeat}"]
    return [f"most names differ, as on a busy machine: up to {bound:.0f} % counts as noise; {repeat}"]


def _contrary(
    labels: Sequence[str], rows: Sequence[tuple[Any, ...]], variants: Mapping[str, Sequence[Run]]
) -> list[str]:
    """Names whose total contradicts their median, which are compared: some of their calls take far longer than the
    others. Those that count in the run, the largest first."""
    found: list[tuple[float, str]] = []
    for row in rows:
        kind, name = row[:2]
        one = dict(zip(_NUMBERS, row[2:9], strict=True))
        for number, label in enumerate(labels[1:], 1):
            other = dict(zip(_NUMBERS, row[2 + 7 * number : 9 + 7 * number], strict=True))
            if kind == TOTAL or None in (one["med"], other["med"]) or min(one["total"], one["med"], other["med"]) <= 0:
                continue
            apart = abs(other["total"] - one["total"])
            longest = max(run.elapsed_ns for runs in (variants[labels[0]], variants[label]) for run in runs)
            median, total = other["med"] / one["med"], other["total"] / one["total"]
            calls = other["calls"] / one["calls"]
            if apart < _COUNTS * longest or 1 / _CONTRARY < total / (median * calls) < _CONTRARY:
                continue
            moved = median if abs(median - 1) >= _LITTLE else 1.0
            if (moved - 1) * (other["total"] - one["total"]) > 0:
                continue  # both became faster, or slower: only by how much differs
            before, after = (
                f"{duration(each['total'])} (longest call {duration(each['max'])})" for each in (one, other)
            )
            words = f"{name}: the median is {in_words(median)}, but the total went from {before} to {after} in {label}"
            found.append(
                (apart, f"{words}: some calls take far longer than the others (occa_prof report RUN --report hist)")
            )
    return [words for _, words in sorted(found, reverse=True)[:_REMARKS]]


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
            Column(f"difference_ns_{number}", "ns", f"Difference{suffix}", "of the medians; of totals: of the sums"),
            Column(f"ratio_{number}", "number", f"Ratio{suffix}", "of the medians, to the first run"),
            Column(f"noise_{number}", "percent", f"Noise{suffix}", "differences of the medians below this are noise"),
            Column(f"verdict_{number}", "text", f"Verdict{suffix}", ""),
        ]
    title = "Comparison: " + ", ".join(labels)
    about = f"each name in {len(labels)} runs, in steady state (without its first call)"
    return Definition("compare", title, about, "", "kind", False, tuple(columns), "")
