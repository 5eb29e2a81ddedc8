"""Windows of time with so many rows, so that what begins in each of them is read, sorted and handed on in bounded memory: nothing
is sorted as a whole. Of a window DuckDB reads what may be in it: Parquet files say of each group of rows when it begins and ends.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from occatrace.core.duck import duckdb

# Into so many pieces a time is divided to find windows: a power of two, so that the finer ones fit into the others.
BUCKETS = 4096
_GROWTH = 4  # of windows, from one to the next

Rows = TypeVar("Rows")
Count = Callable[[int, int | None, int | None], list[tuple[int, int]]]


def cut(
    counts: Sequence[tuple[int, int]],
    width: int,
    most: int,
    count: Count,
    begin: int | None = None,
    end: int | None = None,
) -> Iterator[tuple[int | None, int | None]]:
    """Windows of time from `begin` to `end`, with at most `most` rows where these are not all at one moment.

    `counts`: number and rows of pieces of time that are `width` ns long; `count` counts those between two times in finer
    pieces. Widths are powers of two.
    """
    total: dict[int, int] = {}
    for at, rows in counts:
        total[at] = total.get(at, 0) + rows
    held = 0
    for at in sorted(total):
        here, after = at * width, (at + 1) * width
        if held and held + total[at] > most:
            yield begin, here
            begin, held = here, 0
        if total[at] > most and width > 1:
            finer = max(width // BUCKETS, 1)
            yield from cut(count(finer, here, after), finer, most, count, begin, after)
            begin = after
        else:
            held += total[at]
    if held:
        yield begin, end


def between(column: str, begin: int | None, end: int | None) -> str:
    """SQL: the condition that a time lies in a window."""
    bounds = [f"{column} {sign} {at}" for sign, at in ((">=", begin), ("<", end)) if at is not None]
    return " AND ".join(bounds) or "true"


def windows(
    con: duckdb.DuckDBPyConnection, starts: str, most: int, first: int | None = None
) -> Iterator[tuple[int | None, int | None]]:
    """Windows of time with at most `most` rows of a query `starts`, which has a column `start_ns`; at first with `first` rows, then
    with more and more. None as a bound: whatever comes before the first, or after the last."""
    begin, end = con.execute(f"SELECT min(start_ns), max(start_ns) FROM ({starts})").fetchall()[0]
    if begin is None:
        return

    def count(width: int, since: int | None, until: int | None) -> list[tuple[int, int]]:
        where = between("start_ns", since, until)
        return con.execute(
            f"SELECT (start_ns // {width})::BIGINT, count(*) FROM ({starts}) WHERE {where} GROUP BY ALL"
        ).fetchall()

    def pieces(since: int, until: int) -> int:
        return 1 << max((until - since) // BUCKETS, 1).bit_length()

    width = pieces(begin, end)
    found = cut(count(width, None, None), width, most, count)
    if first is not None and first < most:
        since, until = next(found)
        finer = pieces(begin, end if until is None else until)
        few = cut(count(finer, since, until), finer, first, count, since, until)
        # Each query takes its time, so there are few of them.
        held = 1
        while together := list(islice(few, held)):
            yield together[0][0], together[-1][1]
            held *= _GROWTH
    yield from found


def ahead(windows: Iterator[Rows]) -> Generator[Rows, None, None]:
    """What comes next is read while the last is written."""
    from concurrent.futures import ThreadPoolExecutor  # takes time to load

    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, windows, None)
        while (rows := coming.result()) is not None:
            coming = reader.submit(next, windows, None)
            yield rows
