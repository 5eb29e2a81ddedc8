"""Comparison: the same is the same, twice as slow is found, noise is noise."""

from __future__ import annotations

import numpy as np
import pytest

from occatrace.compare import Series, compare, difference, in_words, series_of


def noisy(seed: int, scale: float = 1.0, calls: int = 500, drift: float = 0.0) -> Series:
    """Durations as machines make them: a slow first call, a long tail, a slow drift."""
    rng = np.random.default_rng(seed)
    base = 50_000 * scale * (1 + drift * np.sin(np.linspace(0, 6, calls)))
    values = base * rng.lognormal(0, 0.15, calls)
    values[rng.random(calls) < 0.02] *= 20
    values[0] = 10**7
    return series_of(values.astype(np.int64))


def test_a_run_with_itself() -> None:
    run = {("kernels", "a"): noisy(1), ("functions", "f"): noisy(2, calls=3)}
    report, worst = compare({"A": run, "B": run})
    verdicts = {row[1]: row[-1] for row in report.rows}
    assert verdicts == {"a": "no difference", "f": "too few calls to tell"} and worst == 0


def test_twice_as_slow_is_found() -> None:
    for seed in range(10):
        found = difference(noisy(seed), noisy(seed + 100, scale=2))
        assert found.ratio == pytest.approx(2, rel=0.1) and found.slower > 0.8, found
        assert found.verdict.endswith("slower")
        assert difference(noisy(seed, scale=2), noisy(seed + 100)).verdict.endswith("faster")


@pytest.mark.parametrize("calls", [5, 20, 100, 2000])
@pytest.mark.parametrize("drift", [0.0, 0.2])
def test_identical_programs_do_not_cry_wolf(calls: int, drift: float) -> None:
    runs = [noisy(seed, calls=calls, drift=drift) for seed in range(10)]
    verdicts = [difference(a, b).verdict for i, a in enumerate(runs) for b in runs[i + 1 :]]
    assert sum(v != "no difference" for v in verdicts) <= len(verdicts) * (0.03 if calls >= 20 else 0.1), verdicts


def test_new_and_gone() -> None:
    a = {("kernels", "old"): noisy(1)}
    b = {("kernels", "young"): noisy(2)}
    report, worst = compare({"A": a, "B": b})
    assert {row[1]: row[-1] for row in report.rows} == {"old": "gone", "young": "new"} and worst == 0
    assert len(report.columns) == len(report.rows[0])


def test_three_runs() -> None:
    runs = {name: {("kernels", "k"): noisy(1, scale)} for name, scale in (("A", 1), ("B", 1), ("C", 4))}
    report, worst = compare(runs)
    row = dict(zip([c.name for c in report.columns], report.rows[0], strict=True))
    assert (
        row["verdict_2"] == "no difference" and row["verdict_3"] == "4× slower" and worst == pytest.approx(3, rel=0.01)
    )
    assert row["first_ns_1"] == 10**7 and row["calls_3"] == 500


@pytest.mark.parametrize(
    ("ratio", "words"),
    [(344.2, "344× slower"), (1.07, "7 % slower"), (0.88, "12 % faster"), (0.25, "4× faster"), (2, "2× slower")],
)
def test_words(ratio: float, words: str) -> None:
    assert in_words(ratio) == words


def test_zero_durations() -> None:
    zero = series_of(np.zeros(20, np.int64))
    assert difference(zero, zero).verdict == "no difference"
    assert difference(zero, noisy(1)).verdict == "too short to tell"
