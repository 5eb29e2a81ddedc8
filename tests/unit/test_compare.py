"""Comparison: the same is the same, twice as slow is found, noise is noise."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from occatrace import reports
from occatrace.cli.compare import _brief, variants_of
from occatrace.errors import RunError
from occatrace.render import Document, renderer
from occatrace.reports.compare import (
    NOISE,
    SAME,
    Run,
    Series,
    between_runs,
    collect,
    compare,
    difference,
    in_words,
    series_of,
)
from occatrace.store.losses import Losses
from occatrace.store.tables import open_store
from occatrace.views import page
from tests.support.fake import MODEL, demo_trace, run_folder

Key = tuple[str, str, str]


def durations(seed: int, scale: float = 1.0, calls: int = 500, drift: float = 0.0) -> npt.NDArray[np.int64]:
    """Durations as machines make them: a slow first call, a long tail, a slow drift."""
    rng = np.random.default_rng(seed)
    base = 50_000 * scale * (1 + drift * np.sin(np.linspace(0, 6, calls)))
    values = base * rng.lognormal(0, 0.15, calls)
    values[rng.random(calls) < 0.02] *= 20
    values[0] = 10**7
    return values.astype(np.int64)


def noisy(seed: int, scale: float = 1.0, calls: int = 500, drift: float = 0.0) -> Series:
    return series_of(durations(seed, scale, calls, drift))


def run_of(
    seed: int, load: float = 0.0, slower: Mapping[int, float] | None = None, names: int = 12, calls: int = 300
) -> Run:
    """A run of some names; `load` is how much (in logarithms) whole runs vary for no reason, together and each name apart."""
    rng = np.random.default_rng(seed)
    together = rng.normal(0, load)
    series = {}
    for n in range(names):
        scale = (n + 1) * np.exp(together + rng.normal(0, load / 2)) * (slower or {}).get(n, 1.0)
        series["kernels", f"k{n}", ""] = noisy(1000 * seed + n, scale, calls)
    return Run(series, round(10**9 * float(np.exp(together))))


def verdicts(a: list[Run], b: list[Run]) -> dict[str, str]:
    report, _ = compare({"A": a, "B": b})
    return {row[1]: row[-1] for row in report.rows if row[0] != "total"}


def told(found: dict[str, str]) -> dict[str, str]:
    return {name: verdict for name, verdict in found.items() if verdict.endswith(("slower", "faster"))}


def test_a_run_with_itself() -> None:
    run = Run({("kernels", "a", ""): noisy(1), ("functions", "f", ""): noisy(2, calls=3)}, 1000)
    report, worst = compare({"A": [run], "B": [run]})
    found = {row[1]: row[-1] for row in report.rows if row[0] != "total"}
    assert found == {"a": SAME, "f": "too few calls to tell"} and worst == 0
    assert [row[1] for row in report.rows if row[0] == "total"] == ["whole run", "all kernels"]
    at = [c.name for c in report.columns].index("ratio_2")
    assert {row[at] for row in report.rows} == {1.0}


def test_a_total_that_tells_something_else_than_the_median_gets_a_remark() -> None:
    """Half of the calls take a tenth, the others a hundred times as long: faster by the median, slower in the sum."""
    before = np.full(1001, 10_000)
    after = np.where(np.arange(1001) % 5 < 3, 1_000, 1_000_000)
    a, b = (Run({("kernels", "dot", ""): series_of(v), ("kernels", "k", ""): noisy(1)}, 10**9) for v in (before, after))
    report, _ = compare({"A": [a], "B": [b]})
    assert [note for note in report.notes if "dot" in note] == [
        "dot: the median is 10× faster, but the total went from 10.01 ms (longest call 10.00 µs) to 400.6 ms (longest call"
        " 1.000 ms) in B: some calls take far longer than the others (occa_prof report RUN --report hist)"
    ]
    assert not any("dot" in note for note in compare({"A": [a], "B": [a]})[0].notes)
    three, _ = compare({"A": [a], "B": [b], "C": [a]})
    out = io.StringIO()
    renderer("markdown")(Document({}, Losses.none(), [_brief(three, ["A", "B", "C"])]), out)
    assert (
        "| Total A | Total B | Total C |" in out.getvalue() and "| 10.01 ms | 400.6 ms | 10.01 ms |" in out.getvalue()
    )


def test_a_total_that_went_the_way_of_the_median_gets_no_remark() -> None:
    """A few calls were long in the first run only: faster by the median, and by far more in the sum."""
    before = np.where(np.arange(1001) % 10, 10_000, 1_000_000)
    after = np.full(1001, 6_000)
    a, b = (Run({("kernels", "dot", ""): series_of(v), ("kernels", "k", ""): noisy(1)}, 10**9) for v in (before, after))
    for one, other in ((a, b), (b, a)):
        report, _ = compare({"A": [one], "B": [other]})
        assert not [note for note in report.notes if "dot" in note]


@pytest.mark.parametrize("load", [0.0, 0.01, 0.02])
def test_the_one_that_is_twice_as_slow_is_found(load: float) -> None:
    for seed in range(1, 11):
        a, b = run_of(seed, load), run_of(seed + 100, load, slower={5: 2.0})
        found = told(verdicts([a], [b]))
        assert set(found) == {"k5"} and found["k5"].endswith("slower"), (seed, found)
        assert told(verdicts([b], [a]))["k5"].endswith("faster")


@pytest.mark.parametrize("load", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("calls", [20, 300])
def test_identical_programs_do_not_cry_wolf(load: float, calls: int) -> None:
    runs = [run_of(seed, load, calls=calls) for seed in range(1, 11)]
    wrong = [told(verdicts([a], [b])) for i, a in enumerate(runs) for b in runs[i + 1 :]]
    assert sum(map(len, wrong)) <= 2, [w for w in wrong if w]
    repeated = [told(verdicts(runs[at : at + 3], runs[at + 3 : at + 6])) for at in range(5)]
    assert not any(repeated)


@pytest.mark.parametrize("calls", [10, 20, 100, 2000])
@pytest.mark.parametrize("drift", [0.0, 0.2])
def test_drifts_within_a_run_are_noise(calls: int, drift: float) -> None:
    runs = [noisy(seed, calls=calls, drift=drift) for seed in range(10)]
    found = [difference([a], [b]).verdict for i, a in enumerate(runs) for b in runs[i + 1 :]]
    assert sum(v not in (SAME, NOISE) for v in found) <= len(found) * (0.03 if calls >= 20 else 0.1), found


def test_few_calls_of_one_run_tell_nothing() -> None:
    """Six builds of kernels, all within one burst of other work: 41 % more, and no difference of the program."""
    runs = [noisy(seed, calls=6) for seed in range(4)]
    assert difference(runs[:1], runs[1:2]).verdict == "too few calls to tell"
    assert difference(runs[:2], runs[2:]).verdict in (SAME, NOISE)


def test_repetitions_tell_what_single_runs_cannot() -> None:
    """30 % on a machine on which whole runs vary by 10 %."""
    alone = together = 0
    for seed in range(1, 9):
        a = [run_of(seed * 10 + i, 0.05) for i in range(5)]
        b = [run_of(seed * 10 + 500 + i, 0.05, slower={3: 1.5}) for i in range(5)]
        alone += "k3" in told(verdicts(a[:1], b[:1]))
        found = told(verdicts(a, b))
        together += "k3" in found
        assert set(found) <= {"k3"}
    assert together >= 7 > alone


def test_everything_slower_is_the_program_when_no_machine_is_so_slow() -> None:
    a, b = run_of(1, 0.02), run_of(2, 0.02, slower=dict.fromkeys(range(12), 344.0))
    assert set(told(verdicts([a], [b]))) == {f"k{n}" for n in range(12)}
    half = run_of(2, 0.02, slower=dict.fromkeys(range(12), 1.5))
    assert not told(verdicts([a], [half])), "all names by half: so does a busy machine"
    report, _ = compare({"A": [a], "B": [half]})
    assert "counts as noise" in report.notes[0] and "A1,A2,A3" in report.notes[0]


def test_what_no_machine_does_is_no_noise() -> None:
    """Two of three names a hundred times slower, as when a program goes another way: the third tells what noise there is."""
    found = verdicts([run_of(1, names=3)], [run_of(2, names=3, slower={0: 150.0, 1: 2000.0})])
    assert {name for name, verdict in found.items() if verdict.endswith("slower")} == {"k0", "k1"}
    assert found["k1"].endswith("× slower") and "e+" not in found["k1"]


def test_only_slow_calls_differ() -> None:
    """Load lengthens some calls; the fast ones are as fast as ever."""
    values = durations(1)
    loaded = values.copy()
    loaded[::2] *= 3
    assert difference([series_of(values)], [series_of(loaded)]).verdict == NOISE


def test_very_short_calls_are_not_told() -> None:
    for short in ((100, 350), (222, 552)):
        a, b = (series_of(np.full(1000, ns)) for ns in short)
        assert difference([a], [b]).verdict == NOISE
    a, b = (series_of(np.full(1000, ns)) for ns in (1000, 3500))
    assert difference([a], [b]).verdict == "3.5× slower"


def test_calls_of_one_moment_see_one_state_of_the_machine() -> None:
    """Five builds within two milliseconds of a start, in runs of which five followed five others: seen of one program."""
    rng = np.random.default_rng(3)

    def five(ns: float, span_ns: int) -> list[Series]:
        return [series_of((ns * rng.lognormal(0, 0.1) * np.ones(6)).astype(np.int64), span_ns) for _ in range(5)]

    for span_ns, factor, verdict in (
        (2_000_000, 1.73, NOISE),
        (2_000_000, 4.0, "slower"),
        (300_000_000, 1.73, "slower"),
    ):
        a, b = five(120_900, span_ns), five(120_900 * factor, span_ns)
        found = difference(a, b, between_runs({"k": a}, {"k": b})["k"])
        assert found.verdict.endswith(verdict), (span_ns, factor, found)


def test_noise_of_repetitions_against_numpy() -> None:
    """The deviation between runs, computed by hand for one name with many repetitions."""
    rng = np.random.default_rng(5)
    medians = np.exp(rng.normal(11, 0.2, 400))
    runs = [series_of(np.full(20, m)) for m in medians]
    spread = between_runs({"k": runs[:200]}, {"k": runs[200:]})["k"]
    assert spread == pytest.approx(3.29 * 0.2 * np.sqrt(2 / 200), rel=0.1)


def test_new_and_gone() -> None:
    same = noisy(3)
    a = Run({("kernels", "old", ""): noisy(1), ("kernels", "same", ""): same}, 1)
    b = Run({("kernels", "young", ""): noisy(2), ("kernels", "same", ""): same}, 1)
    report, worst = compare({"A": [a], "B": [b]})
    assert {r[1]: r[-1] for r in report.rows if r[0] == "kernels"} == {"old": "gone", "young": "new", "same": SAME}
    assert worst == 0 and all(len(report.columns) == len(row) for row in report.rows)


def test_nothing_in_common() -> None:
    a = Run({("kernels", "old", ""): noisy(1)}, 1)
    b = Run({("functions", "old", ""): noisy(2)}, 1)
    with pytest.raises(RunError, match="A and B have nothing in common"):
        compare({"A": [a], "B": [b]})


def test_three_variants_and_modes() -> None:
    """Kernels of one name are compared whatever their mode; the mode is told where a run has the name in two."""
    series = {m: noisy(1, scale) for m, scale in (("Serial", 1), ("OpenMP", 1), ("OpenCL", 4))}
    variants = {mode: [Run({("kernels", "k", mode): s}, 1)] for mode, s in series.items()}
    report, worst = compare(variants)
    row = dict(zip([c.name for c in report.columns], report.rows[-1], strict=True))
    assert (row["name"], row["verdict_2"], row["verdict_3"]) == ("k", SAME, "4× slower")
    assert worst == pytest.approx(3, rel=0.01) and row["first_ns_1"] == 10**7 and row["calls_3"] == 500
    assert row["difference_ns_3"] == pytest.approx(3 * row["med_ns_1"], rel=0.001)
    both = {("kernels", "k", mode): s for mode, s in series.items()}
    report, _ = compare({"A": [Run(both, 1)], "B": [Run({("kernels", "k", "Serial"): series["Serial"]}, 1)]})
    assert {r[1]: r[-1] for r in report.rows if r[0] == "kernels"} == {
        "k [Serial]": SAME, "k [OpenMP]": "gone", "k [OpenCL]": "gone",
    }  # fmt: skip


def test_another_mode_changes_every_kernel() -> None:
    """That most names differ by much does not hide what each of them differs by; functions are as uncertain as ever."""
    scales = {"k0": 3.0, "k1": 0.5, "k2": 1.2, "k3": 30.0, "k4": 0.1, "k5": 8.0}
    base = {("kernels", name, "Serial"): noisy(n) for n, name in enumerate(scales)}
    base |= {("functions", f"f{n}", ""): noisy(50 + n) for n in range(6)}
    other = {("kernels", name, "OpenMP"): noisy(100 + n, scale) for n, (name, scale) in enumerate(scales.items())}
    other |= {("functions", f"f{n}", ""): noisy(150 + n, 2.0 if n % 2 else 0.5) for n in range(6)}
    report, _ = compare({"Serial": [Run(base, 1)], "OpenMP": [Run(other, 1)]})
    found = {row[1]: row[-1] for row in report.rows if row[0] in ("kernels", "functions")}
    assert {name: verdict.split()[-1] for name, verdict in told(found).items()} == {
        "k0": "slower", "k1": "faster", "k3": "slower", "k4": "faster", "k5": "slower",
    }  # fmt: skip
    assert "different modes" in report.notes[0] and "50 %" in report.notes[0]


def test_too_noisy() -> None:
    values = np.repeat(np.array([1_000, 50_000, 1_000_000]), 20)
    assert difference([series_of(values)], [series_of(values * 3)]).verdict == "too noisy to tell"


@pytest.mark.parametrize(
    ("ratio", "words"),
    [(344.2, "344× slower"), (1.07, "7 % slower"), (0.88, "12 % faster"), (0.25, "4× faster"), (2, "2× slower")],
)
def test_words(ratio: float, words: str) -> None:
    assert in_words(ratio) == words


def test_zero_durations() -> None:
    zero = series_of(np.zeros(20, np.int64))
    assert difference([zero], [zero]).verdict == SAME
    assert difference([zero], [noisy(1)]).verdict == "too short to tell"


def test_what_is_collected(tmp_path: Path) -> None:
    """The numbers of a run against the events it was made of."""
    trace = demo_trace()
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        run = collect(store)
        # The run time of the overview, of advice and of the page: one number for all of them.
        overview = reports.make(store, "overview")
        [time_ns] = [row[1] for row in overview.rows if row[4] == "run"]
        [tile] = [tile for tile in page.collect(store, {"program": ["app"]}).tiles if tile.title == "Run"]
    scale = run.series["kernels", "scale", "Serial"]
    values = [200 + i for i in range(10)]
    assert (scale.calls, scale.total_ns, scale.min_ns, scale.max_ns) == (10, sum(values), 200, 209)
    assert (scale.first_ns, scale.median_ns) == (200, np.median(values[1:]))
    finishes = run.series["functions", "clFinish", ""]
    assert finishes.calls == sum(event == "occatrace_opencl:clFinish" for event, _ in trace.rows)
    assert run.elapsed_ns == time_ns == 109_299 and tile.value == "109.3 µs"


def test_how_runs_are_named(tmp_path: Path) -> None:
    folders = []
    for name in ("a/x", "b/x", "c", "d,e"):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "run.json").write_text('{"schema": 1, "program": ["p"]}', encoding="utf-8")
        folders.append(folder)
    x, y, c, odd = map(str, folders)
    assert list(variants_of([x, c])) == ["x", "c"]
    assert list(variants_of([x, y])) == ["A", "B"], "folders of one name"
    assert variants_of([f"{x},{c}", f"OpenCL={y}", odd]) == {
        "x": [folders[0], folders[2]],
        "OpenCL": [folders[1]],
        "d,e": [folders[3]],
    }
    with pytest.raises(RunError, match="does not exist"):
        variants_of([x, "nowhere"])
