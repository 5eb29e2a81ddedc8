"""The Python interface to a run: `run = occatrace.open(path)`, then reports as rows, tables as numpy columns, SQL."""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from types import TracebackType
from typing import Any

import duckdb
import numpy.typing as npt

from occatrace import reports
from occatrace.core import progress, reasons
from occatrace.core.naming import NAMES
from occatrace.core.schema import CALLS, TABLES
from occatrace.core.sql import name as sql_name
from occatrace.core.units import Moment, Range, parse_range, parse_units
from occatrace.errors import RunError, StoreError
from occatrace.reports import Report
from occatrace.reports.scope import KEYS, Scope, Scoped
from occatrace.run.opening import open_run
from occatrace.store import losses
from occatrace.store.tables import Store, open_store
from occatrace.views.rows import Picture, Result, Rows, Summary

_INLINE = ("timeline", "kernels", "mem")  # plots of a run in a notebook


class QueryError(RunError):
    """A query that cannot be answered; one line that says why."""


class Run:
    """One recorded run. Close it at the end, or use it as a context."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not isinstance(path, str | os.PathLike):
            raise RunError(f"a run is given by its folder, a str or a path, not {type(path).__name__}")
        self._run = open_run(Path(path))
        self._store = open_store(self._run.path)
        self._last: Result | None = None

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the tables and temporary files."""
        self._store.close()

    def __repr__(self) -> str:
        info = self._run.info
        words = " ".join(info.program) or "imported trace"
        status = "not ended" if info.exit_status is None else f"exit status {info.exit_status}"
        return f"<occatrace.Run {str(self.path)!r}: {words}, {status}>"

    def _repr_html_(self) -> str:
        return f"<p><code>{html.escape(repr(self))}</code></p>{self.summary().html(self._pictures())}"

    def plot(self, name: str) -> Picture:
        """A plot of the run by its name, as `occa_prof report --plot` draws it.

        Raises a RunError for an unknown name, and for a run that has nothing to draw there. Plots of reports: `report(NAME).plot()`.
        """
        from occatrace.views import plots
        from occatrace.views.plots import charts

        _check_texts(name=name)
        self._forget()
        found = plots.make(plots.source(self._store), name)
        if found is None:
            raise RunError(f"no plot {name!r}: {plots.PLOTS[name].nothing}")
        return Picture(found.chart(charts.WIDE))

    def _pictures(self) -> Mapping[str, Picture]:
        """Plots that a notebook shows with the run, by their titles; none without vl-convert-python."""
        from occatrace.views import plots
        from occatrace.views.plots import charts, draw

        if not draw.available():
            return {}
        tables = plots.source(self._store)
        found = (plots.make(tables, name) for name in _INLINE)
        return {plot.title: Picture(plot.chart(charts.WIDE)) for plot in found if plot is not None}

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
        return self._store.losses(self.facts)

    @property
    def reports(self) -> Sequence[str]:
        """Names of the reports."""
        return list(reports.definitions())

    @property
    def tables(self) -> Sequence[str]:
        """Names of the tables; `calls`, and one per function such as "opencl.clFinish", hold the single calls."""
        return [*(t.name for t in TABLES), CALLS.name, *self._store.functions()]

    def report(
        self,
        name: str,
        *,
        filter_time: str | tuple[int | None, int | None] | None = None,
        filter_name: str | None = None,
        by: str | None = None,
        names: str = "raw",
        sort: str | None = None,
        rows: int | None = None,
        units: str | None = None,
    ) -> Rows:
        """The rows of a report, by field name; durations in ns, sizes in bytes, percentages of 0 to 100.

        The result is a list of dicts; `df()`, `pl()` and `arrow()` make a table of other libraries of it, `plot()` a picture.

        The options are those of `occa_prof report`. `filter_time` may be a pair of ns since the run's first call, too.
        Raises a RunError for an unknown report, column, unit, time or expression, and for a run that has no such data.
        """
        _check_texts(name=name, names=names)
        _check_texts(optional=True, by=by, filter_name=filter_name, sort=sort, units=units)
        if rows is not None and (not isinstance(rows, Integral) or rows < 0):
            raise RunError(f"rows={rows!r}: give the number of rows")
        made = self._made(name, filter_time, by, names)
        made = reports.Selection(rows, sort, filter_name).apply(made)
        fixed = parse_units(units) if units else None
        made = reports.in_units(made, fixed) if fixed else made
        return Rows(made)

    def summary(self) -> Summary:
        """The reports that `occa_prof` prints at the end of a run."""
        self._forget()
        return Summary(Rows(report) for report in reports.summary(self._store))

    def _made(
        self, name: str, filter_time: str | tuple[int | None, int | None] | None, by: str | None, names: str
    ) -> Report:
        if by is not None and by not in KEYS:
            raise RunError(f"by={by!r}: there are {', '.join(KEYS)}")
        if names not in NAMES:
            raise RunError(f"names={names!r}: there are {', '.join(NAMES)}")
        if isinstance(filter_time, str):
            window: Range | None = parse_range(filter_time, "filter_time")
        elif filter_time is not None:
            if not _is_window(filter_time):
                raise RunError(f"filter_time={filter_time!r}: write 'BEGIN:END', or give a pair of ns")
            begin, end = (None if moment is None else Moment(moment) for moment in filter_time)
            window = Range(begin, end, str(filter_time))
        else:
            window = None
        self._forget()
        return reports.make(self._store, name, Scoped(self._store, Scope(window, by, names)))

    def table(self, name: str) -> dict[str, npt.NDArray[Any]]:
        """A table as numpy columns (masked arrays where values may be missing), in the types and units of docs/schema.md."""
        _check_texts(name=name)
        result: dict[str, npt.NDArray[Any]] = self.sql(f"SELECT * FROM {sql_name(name)}").fetchnumpy()
        return result

    def sql(self, query: str, parameters: Sequence[Any] = ()) -> Result:
        """A SELECT over the tables; its result as DuckDB gives it (fetchall, fetchnumpy, df, …). After another call it begins
        anew. Notebooks and `repr` show its first rows.

        `?` in the query stands for the parameters. Raises a QueryError for whatever is not one SELECT: neither the tables
        nor any file can be changed, nor files read that are not the run's.
        """
        self._forget()
        self._last = Result(lambda: select(self._store, query, parameters))
        return self._last

    def _forget(self) -> None:
        """Before the connection gets another result than that of the last query."""
        if self._last is not None:
            self._last.forget()


def _check_texts(optional: bool = False, **values: object) -> None:
    """Raises a RunError for what is no str (nor None, where it is optional)."""
    for name, value in values.items():
        if not (isinstance(value, str) or (optional and value is None)):
            raise RunError(f"{name}={value!r}: give a str, not {type(value).__name__}")


def _is_window(value: object) -> bool:
    """Whether it is a pair of moments in ns."""
    return isinstance(value, tuple | list) and len(value) == 2 and all(m is None or isinstance(m, Real) for m in value)


def select(store: Store, query: str, parameters: Sequence[Any] = ()) -> duckdb.DuckDBPyConnection:
    """Run one query that only reads."""
    if not isinstance(query, str):
        raise QueryError(f"a query is a str, such as 'SELECT * FROM kernels', not {type(query).__name__}")
    if isinstance(parameters, str) or not isinstance(parameters, Iterable):
        raise QueryError(f"the parameters of a query are a list, one for each `?`, not {type(parameters).__name__}")
    con = store.con
    try:
        statements = con.extract_statements(query)
        if len(statements) != 1:
            raise QueryError(f"expected one SQL statement, got {len(statements)}")
        _check_that_it_reads(con, statements[0])
        store.shut()
        store.sum_lines(query)
        try:
            with progress.phase("running the query"):
                return con.execute(query, list(parameters))
        except duckdb.CatalogException:
            # Perhaps it is about single calls, which are opened when they are first asked for.
            store.functions()
            return con.execute(query, list(parameters))
    except duckdb.Error as error:
        raise QueryError(reasons.of_query(error)) from None  # DuckDB's text has several lines of its own


def _check_that_it_reads(con: duckdb.DuckDBPyConnection, statement: duckdb.Statement) -> None:
    kind, text = statement.type, statement.query
    if kind == duckdb.StatementType.EXPLAIN:
        # EXPLAIN ANALYZE does what it explains.
        text = re.sub(r"^\s*EXPLAIN(\s+ANALYZE)?(\s*\([^)]*\))?", "", text, flags=re.IGNORECASE)
    elif kind != duckdb.StatementType.SELECT:
        raise QueryError(f"only SELECT is allowed here, not {kind.name}: the tables of a run are not changed")
    tree = json.loads(con.execute("SELECT json_serialize_sql(?)", [text]).fetchall()[0][0])
    if tree.get("error") or _changes(tree):
        raise QueryError("only SELECT is allowed here: the tables of a run are not changed")


def _changes(node: Any) -> bool:
    """Whether INSERT or the like stands somewhere in a SELECT."""
    if isinstance(node, dict):
        kind = node.get("type")
        if isinstance(kind, str) and kind.startswith(("INSERT", "UPDATE", "DELETE", "MERGE", "COPY")):
            return True
        return any(map(_changes, node.values()))
    return isinstance(node, list) and any(map(_changes, node))


__all__ = ["QueryError", "Run", "RunError", "StoreError", "select"]
