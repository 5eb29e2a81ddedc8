"""Queries that need more memory than a connection has: again with one thread, then with more memory.

DuckDB's operators hold buffers per thread that they cannot write to disk, so a query on a large run may fail under the limit
although most of what it holds could be on disk. With one thread it mostly succeeds. No output.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import TypeVar

from occatrace.core.duck import duckdb

T = TypeVar("T")
LIMIT = "256MB"  # of DuckDB; the rest of the 512 MB is for the decoder's batches and Python itself
_MORE_MB = (512, 1024, 2048)
_SHARE = 4  # of the machine's memory no more than one part in so many


def give_back() -> None:
    """Give free memory of the C library back to the system. It keeps what is free between arrays that are in use: hundreds of MB
    after windows of some million rows."""
    import ctypes  # takes time to load

    with contextlib.suppress(AttributeError):  # of a C library that has no such thing
        ctypes.CDLL(None).malloc_trim(0)


def within(con: duckdb.DuckDBPyConnection, work: Callable[[], T]) -> T:
    """The result of `work`, which uses `con` (with the limit LIMIT) and can be done again. Raises duckdb.OutOfMemoryException
    where no limit suffices that the machine bears."""
    try:
        return work()
    except duckdb.OutOfMemoryException:
        if con.execute("SELECT current_setting('lock_configuration')").fetchall() == [(True,)]:
            raise  # the store was shut, for queries of others
    threads = con.execute("SELECT current_setting('threads')").fetchall()[0][0]
    room = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // _SHARE
    try:
        con.execute("SET threads = 1")
        for limit in (megabytes for megabytes in _MORE_MB if megabytes << 20 <= room):
            try:
                return work()
            except duckdb.OutOfMemoryException:
                con.execute(f"SET memory_limit = '{limit}MiB'")
        return work()
    finally:
        con.execute(f"SET threads = {int(threads)}")
        con.execute(f"SET memory_limit = '{LIMIT}'")
