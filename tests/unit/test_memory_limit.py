"""Queries that need more memory than a connection has are done again, with fewer threads and then with more memory."""

from __future__ import annotations

from typing import Any

import pytest

from occatrace.core.duck import duckdb
from occatrace.store import memory

# A list is in memory as a whole: 8 bytes for each of its numbers, and more while it grows.
LONG = "SELECT len(list(i)) FROM range(8000000) t(i)"


@pytest.fixture(autouse=True)
def limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "LIMIT", "40MB")


def small() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"memory_limit": memory.LIMIT, "threads": 2})


def settings(con: duckdb.DuckDBPyConnection) -> Any:
    return con.execute("SELECT current_setting('threads'), current_setting('memory_limit')").fetchall()


def test_more_memory_where_it_is_needed() -> None:
    con = small()
    before = settings(con)
    with pytest.raises(duckdb.OutOfMemoryException):
        con.execute(LONG).fetchall()
    assert memory.within(con, lambda: con.execute(LONG).fetchall()) == [(8000000,)]
    assert settings(con) == before


def test_one_thread_first() -> None:
    """What one thread can do gets no more memory."""
    con = small()
    seen = []

    def work() -> int:
        seen.append(settings(con)[0])
        if len(seen) == 1:
            con.execute(LONG).fetchall()
        return len(seen)

    assert memory.within(con, work) == 2
    assert [threads for threads, _ in seen] == [2, 1]
    assert seen[0][1] == seen[1][1]


def test_a_store_that_was_shut_keeps_its_limit() -> None:
    """The error is that of the query, not of the settings."""
    con = small()
    con.execute("SET lock_configuration = true")
    with pytest.raises(duckdb.OutOfMemoryException):
        memory.within(con, lambda: con.execute(LONG).fetchall())


def test_no_more_than_the_machine_bears(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is the one of DuckDB, and the settings are as before."""
    monkeypatch.setattr(memory, "_MORE_MB", (48,))
    con = small()
    before = settings(con)
    with pytest.raises(duckdb.OutOfMemoryException):
        memory.within(con, lambda: con.execute(LONG).fetchall())
    assert settings(con) == before
