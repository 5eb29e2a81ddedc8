"""Windows of time: all rows in order, none twice, and never more of them than were asked for."""

from __future__ import annotations

import pytest

from occatrace.core.duck import duckdb
from occatrace.store.windows import between, windows


def cut(times: list[int], most: int, first: int | None = None) -> list[list[int]]:
    """The rows of each window."""
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT unnest(?::UBIGINT[]) AS start_ns", [times])
    return [
        [row[0] for row in con.execute(f"SELECT start_ns FROM t WHERE {between('start_ns', *w)} ORDER BY 1").fetchall()]
        for w in windows(con, "FROM t", most, first)
    ]


# A few rows, a long pause, then many in a short time; and many at one moment.
UNEVEN = [5, 6, 7, *(10**12 + i // 2 for i in range(3000)), *[10**15] * 40, 10**15 + 1, 10**18]


@pytest.mark.parametrize("most", [1, 7, 100, 10**6])
@pytest.mark.parametrize("first", [None, 1, 5])
def test_every_row_is_in_one_window_in_order(most: int, first: int | None) -> None:
    found = cut(UNEVEN, most, first)
    assert [time for rows in found for time in rows] == UNEVEN
    assert all(len(rows) <= most or len({*rows}) == 1 for rows in found)


def test_first_windows_are_small_and_grow() -> None:
    sizes = [len(rows) for rows in cut([*range(0, 10**6, 100)], 5000, 10)]
    assert 0 < sizes[0] <= 10 and sizes[1] <= 40 and sizes[2] <= 160
    assert len(sizes) < 12  # each is a query


def test_nothing() -> None:
    assert cut([], 10) == []
