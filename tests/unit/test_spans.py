"""What is open at any moment, against a count at every moment; and the same read in windows of time as at once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pytest

from occatrace import _native
from occatrace.reports import spans
from occatrace.views.plots import times as plot
from occatrace.views.plots.data import PARTS

LONGEST = 1000
Columns = tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.int64], npt.NDArray[np.int64]]


def random_spans(rows: int, seed: int) -> Columns:
    """Place, kind, start and end; some without length, some that meet or are alike."""
    rng = np.random.default_rng(seed)
    start = rng.integers(-50, LONGEST, rows) // 3 * 3
    end = start + rng.integers(-2, 60, rows) // 3 * 3
    return rng.integers(1, 4, rows).astype(np.uint32), rng.integers(0, 3, rows).astype(np.uint32), start, end


def counted(columns: Columns) -> dict[tuple[int, int], int]:
    """ns by place and open kinds, moment by moment."""
    place, kind, start, end = columns
    out: Counter[tuple[int, int]] = Counter()
    for one in np.unique(place).tolist():
        own = (place == one) & (end > start)
        for moment in range(int(start[own].min()), int(end[own].max())):
            there = own & (start <= moment) & (end > moment)
            out[one, sum(1 << k for k in set(kind[there].tolist()))] += 1
    return {key: ns for key, ns in out.items() if ns}


def as_dict(times: tuple[npt.NDArray[Any], ...]) -> dict[tuple[int, int], int]:
    return {(p, k): ns for p, k, ns in zip(*(column.tolist() for column in times), strict=True)}


@pytest.mark.parametrize("windows", [1, 7])
def test_every_moment_counts_once(windows: int) -> None:
    columns = random_spans(400, windows)
    sweep = _native.Sweep(pieces=True)
    found: Counter[tuple[int, int]] = Counter()
    bounds = np.linspace(-50, LONGEST, windows + 1).astype(np.int64)
    for low, high in zip(bounds[:-1], bounds[1:], strict=True):
        own = (columns[2] >= low) & (columns[2] < high)
        sweep.add(*(column[own] for column in columns))
        sweep.advance(int(high))
        place, kinds, start, end = sweep.take_pieces()
        assert (end > start).all() and (end <= high).all() and (kinds > 0).all()
        for p, k, ns in zip(place.tolist(), kinds.tolist(), (end - start).tolist(), strict=True):
            found[p, k] += ns
    sweep.finish()
    for p, k, s, e in zip(*(column.tolist() for column in sweep.take_pieces()), strict=True):
        found[p, k] += e - s
    expected = counted(columns)
    assert as_dict(sweep.times()) == expected
    assert dict(found) == {key: ns for key, ns in expected.items() if key[1]}


def test_what_comes_too_late_or_is_too_much_is_refused() -> None:
    sweep = _native.Sweep()
    one, at = np.ones(1, np.uint32), np.array([5], np.int64)
    sweep.advance(10)
    with pytest.raises(ValueError, match="before what is done"):
        sweep.add(one, one, at, at + 1)
    with pytest.raises(ValueError, match="too many"):
        sweep.add(one, one * 32, at + 20, at + 21)
    with pytest.raises(ValueError, match="not as long"):
        sweep.add(one, one, at, np.zeros(2, np.int64))


def test_windows_of_time_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = random_spans(500, 3)
    con = duckdb.connect()
    con.register("_rows", dict(zip(("process", "kind", "s", "e"), columns, strict=True)))
    con.execute("CREATE TABLE rows AS SELECT * FROM _rows")
    names = ["a", "b", "c"]
    # A name may have several queries.
    found = [(names[kind], f"SELECT process, s, e FROM rows WHERE kind = {kind} AND s {sign} 300")
             for kind in range(3) for sign in ("<", ">=")]  # fmt: skip
    whole = spans.times(con, found, names)
    expected = counted(columns)
    assert {(p, k): ns for p, own in whole.items() for k, ns in own.items()} == expected
    monkeypatch.setattr(spans, "FEW", 499)  # natively
    assert spans.times(con, found, names) == whole
    monkeypatch.setattr(spans, "WINDOW_ROWS", 40)
    assert spans.times(con, found, names) == whole
    several = list(spans.pieces(con, found, names))
    assert len(several) > 5
    sums: Counter[tuple[int, int]] = Counter()
    for place, kinds, start, end in several:
        for p, k, ns in zip(place.tolist(), kinds.tolist(), (end - start).tolist(), strict=True):
            sums[p, k] += ns
    assert dict(sums) == {key: ns for key, ns in expected.items() if key[1]}


def test_parts_of_the_time_that_are_covered() -> None:
    rng = np.random.default_rng(5)
    length = 1013  # no multiple of the number of parts
    start = rng.integers(0, length - 1, 60)
    end = np.minimum(start + rng.integers(1, 500, 60), length)
    row = rng.integers(0, 3, 60)
    out = np.zeros((3, PARTS))
    plot._cover(out, row, start, end, length)
    edges = np.arange(PARTS + 1) * length / PARTS
    expected = np.zeros_like(out)
    for r, s, e in zip(row.tolist(), start.tolist(), end.tolist(), strict=True):
        expected[r] += np.clip(np.minimum(edges[1:], e) - np.maximum(edges[:-1], s), 0, None) * PARTS / length
    assert out == pytest.approx(expected)
