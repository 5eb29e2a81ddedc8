"""The Python interface to a run: `run = occatrace.open(path)`, then reports as rows, tables as numpy columns, SQL."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import duckdb
import numpy.typing as npt

from occatrace import losses, reports
from occatrace.run import RunError, open_run
from occatrace.schema import CALLS, TABLES
from occatrace.sql import name as sql_name
from occatrace.tables import Store, StoreError, open_store


class QueryError(RunError):
    """A query that cannot be answered; one line that says why."""


class Run:
    """One recorded run. Close it at the end, or use it as a context."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._run = open_run(Path(path))
        self._store = open_store(self._run.path)

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give everything back."""
        self._store.close()

    @property
    def path(self) -> Path:
        """The folder."""
        return self._run.path

    @property
    def facts(self) -> Mapping[str, Any]:
        """What run.json holds: program, mode, start, exit status, …"""
        return vars(self._run.info)

    @property
    def losses(self) -> losses.Losses:
        """What the run is missing."""
        return losses.read(self._store.con, self._store.problems, self.facts)

    @property
    def reports(self) -> Sequence[str]:
        """Names of the reports."""
        return list(reports.definitions())

    @property
    def tables(self) -> Sequence[str]:
        """Names of the tables; `calls`, and one per function such as "opencl.clFinish", hold the single calls."""
        return [*(t.name for t in TABLES), CALLS.name, *self._store.functions()]

    def report(self, name: str) -> list[dict[str, Any]]:
        """The rows of a report, by field name; durations in ns, sizes in bytes."""
        made = reports.make(self._store, name)
        names = [column.name for column in made.columns]
        return [dict(zip(names, row, strict=True)) for row in made.rows]

    def table(self, name: str) -> dict[str, npt.NDArray[Any]]:
        """A table as numpy columns (masked arrays where values may be missing)."""
        result: dict[str, npt.NDArray[Any]] = self.sql(f"SELECT * FROM {sql_name(name)}").fetchnumpy()
        return result

    def sql(self, query: str, parameters: Sequence[Any] = ()) -> duckdb.DuckDBPyConnection:
        """A SELECT over the tables; its result as DuckDB gives it (fetchall, fetchnumpy, df, …)."""
        return select(self._store, query, parameters)


def select(store: Store, query: str, parameters: Sequence[Any] = ()) -> duckdb.DuckDBPyConnection:
    """Run one query that only reads."""
    con = store.con
    try:
        statements = con.extract_statements(query)
        if len(statements) != 1:
            raise QueryError(f"one statement, please: there are {len(statements)}")
        kind = statements[0].type
        if kind not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
            raise QueryError(f"only SELECT is allowed here, not {kind.name}: the tables of a run are not changed")
        try:
            return con.execute(query, list(parameters))
        except duckdb.CatalogException:
            # Perhaps it is about single calls, which are opened when they are first asked for.
            store.functions()
            return con.execute(query, list(parameters))
    except duckdb.Error as error:
        raise QueryError(" ".join(str(error).split())) from error


__all__ = ["QueryError", "Run", "StoreError", "select"]
