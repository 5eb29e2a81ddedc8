"""The summary of a run by Dask: each task reads the processes of some ranks from the tables and makes their partial
summary (occatrace/reports/partial.py); these are merged as a tree. Needs Dask and tables that all workers see."""

from __future__ import annotations

import contextlib
import importlib
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from occatrace import reports
from occatrace.core import halfway
from occatrace.core.duck import duckdb
from occatrace.core.schema import TABLES
from occatrace.errors import RunError
from occatrace.reports import partial
from occatrace.store import tables
from occatrace.store.macros import prepare

FAN = 8  # partial summaries that one task merges
PER_WORKER = 4  # tasks, so that workers that are done early take from the others


def part(path: str, processes: Sequence[int]) -> partial.Part:
    """The partial summary of some processes; runs on a worker."""
    with halfway.scratch() as scratch, tables.connect(scratch) as con:
        tables.open_tables(Path(path), con)
        wanted = ", ".join(map(str, processes))
        for table in TABLES:
            if any(column.name == "process" for column in table.columns):
                con.execute(
                    f"CREATE TEMP VIEW {table.name} AS SELECT * FROM memory.main.{table.name} WHERE process IN ({wanted})"
                )
        prepare(con)
        partial.make(con)
        return partial.columns(con)


def groups_of(con: duckdb.DuckDBPyConnection) -> list[list[int]]:
    """The processes that a part has together: all of a rank, because ranks are compared with each other."""
    found = con.execute(
        "SELECT list(process ORDER BY process) FROM processes GROUP BY rank, CASE WHEN rank IS NULL THEN process END"
        " ORDER BY rank, min(process)"
    ).fetchall()
    return [group for (group,) in found]


def summary(run: Path, names: Sequence[str] = (), scheduler: str | None = None) -> list[reports.Report]:
    """The given reports, or the summary. `scheduler`: address of a cluster; without one, workers of this machine."""
    for name in names:
        if name not in partial.MADE:
            why = f" (it needs {partial.LEFT_OUT[name][1]})" if name in partial.LEFT_OUT else ""
            raise RunError(
                f"{name} is not made by Dask{why}; it makes {', '.join(partial.MADE)}. Leave out --engine dask"
            )
    with tables.open_store(run) as store:
        groups = groups_of(store.con)
        ranks = store.ranks
        path, scratch = str(store.path), str(store.scratch)
        with _client(scheduler, scratch) as client, duckdb.connect() as con:
            workers = max(len(client.scheduler_info(n_workers=-1)["workers"]), 1)
            count = max(min(PER_WORKER * workers, len(groups)), 1)
            futures = [
                client.submit(part, path, [process for group in groups[i::count] for process in group], pure=False)
                for i in range(count)
            ]
            while len(futures) > FAN:
                futures = [
                    client.submit(partial.merge_columns, futures[at : at + FAN], pure=False)
                    for at in range(0, len(futures), FAN)
                ]
            partial.load(con, client.gather(futures))
            return [partial.report(con, name, ranks) for name in names] or partial.summary(con, ranks)


@contextlib.contextmanager
def _client(scheduler: str | None, scratch: str) -> Iterator[Any]:
    dask: Any
    distributed: Any
    try:
        dask = importlib.import_module("dask")
        distributed = importlib.import_module("distributed")
    except ImportError as error:
        raise RunError(f"--engine dask needs Dask ({error}): pip install dask distributed") from None
    if scheduler is not None:
        try:
            client = distributed.Client(scheduler, timeout=10, set_as_default=False)
        except (OSError, ValueError) as error:
            raise RunError(f"no Dask scheduler answers at {scheduler}: {error}") from None
        with client:
            yield client
        return
    # Nobody else connects to it: on 127.0.0.1, on whatever ports are free.
    with (
        dask.config.set({"temporary-directory": scratch}),
        _nothing_to_import(),
        distributed.LocalCluster(host="127.0.0.1", dashboard_address="127.0.0.1:0", threads_per_worker=1) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@contextlib.contextmanager
def _nothing_to_import() -> Iterator[None]:
    """Python's new processes import the program that started them, and so would run this command again."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
