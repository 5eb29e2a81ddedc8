"""Recorded runs cut by thread and by time: what reports say of the merged parts is what they say of the whole."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from occatrace import reports
from occatrace.core.units import parse_range
from occatrace.reports import partial
from occatrace.reports.scope import Scope, Scoped, tables_of
from occatrace.store.tables import open_store
from tests.golden.test_golden import CASES, unpack
from tests.support import parts

# What began in a window counts in it, whole. (OpenMP's threads and regions begin at different moments.)
OF_WINDOWS = ("occa_kern_sum", "gpu_kern_sum", "gpu_mem_time_sum", "gpu_mem_size_sum", "api_sum", "range_sum")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_golden_runs(case: Path, tmp_path: Path) -> None:
    unpack(case / "trace.tar.xz", tmp_path)
    with open_store(tmp_path) as store:
        names = [name for name in partial.NAMES if name not in (*partial.BY_RANK, *parts.OF_PROCESSES)]
        filled = parts.check(store.con, names, "thread", 3, 1)
        # The same processes as three windows of time, without what has no times.
        read = frozenset().union(*(tables_of(reports.definition(name).sql) for name in partial.NAMES))
        scopes = [Scoped(store, Scope(parse_range(text))) for text in ("0:", ":30%", "30%:31%", "31%:")]
        found = []
        for scope in scopes[1:]:
            with scope.connection(read, read) as con:
                partial.make(con)
                found.append(partial.columns(con))
        with scopes[0].connection(read, read) as whole:
            expected = {name: parts.of_whole(whole, name) for name in OF_WINDOWS}
        with duckdb.connect() as con:
            partial.load(con, found)
            for name in OF_WINDOWS:
                parts.same(list(partial.report(con, name).rows), expected[name], name)
    assert filled & set(OF_WINDOWS) == {name for name, rows in expected.items() if rows}
    if case.name.startswith("demo"):
        assert {"occa_kern_sum", "api_sum"} < filled
