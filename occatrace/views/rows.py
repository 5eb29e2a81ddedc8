"""Rows of a report as Python programs and notebooks use them: a list of dicts that is also a table, a data frame, a plot."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from occatrace.errors import RunError
from occatrace.reports import Column, Report

if TYPE_CHECKING:
    from occatrace.core.duck import duckdb

BARS = 20  # rows of a plot
SHOWN = 20  # rows of a query
_OF_DUCKDB = ("fetchall", "fetchmany", "fetchone", "fetchnumpy", "df", "pl", "to_arrow_table", "description")
_STYLE = (
    "<style>.occatrace table{border-collapse:collapse}.occatrace caption,.occatrace .about{display:none}"
    ".occatrace h2{font-size:1.05em;margin:.8em 0 .2em}.occatrace th,.occatrace td{padding:.15em .6em;text-align:left}"
    ".occatrace td.n,.occatrace th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}"
    ".occatrace tr.part .name{padding-left:1.6em}</style>"
)


class MissingPackage(RunError):
    """A package that this needs is not installed; one line that says which."""


class Picture:
    """A plot as SVG. Notebooks show it; `save` writes SVG or PNG."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._spec = spec

    def __repr__(self) -> str:
        return "<a plot: notebooks show it, save(FILE) writes SVG or PNG>"

    def _repr_svg_(self) -> str:
        from occatrace.views.plots import draw

        return draw.svg(self._spec)

    def html(self, title: str) -> str:
        """As an image with a heading: what names and colours mean within one SVG does not reach the next one."""
        data = base64.b64encode(self._repr_svg_().encode()).decode()
        return f'<h4>{escape(title)}</h4><img alt="{escape(title)}" src="data:image/svg+xml;base64,{data}">'

    def save(self, path: str | Path) -> Path:
        """Write the picture: PNG for a name that ends in .png, else SVG. Raises a RunError without vl-convert-python."""
        from occatrace.views.plots import draw

        path = Path(path)
        content = draw.png(self._spec) if path.suffix == ".png" else draw.svg(self._spec).encode()
        path.write_bytes(content)
        return path


class Rows(list[dict[str, Any]]):
    """The rows of one report: dicts by field name, in the units of docs/reports.md (ns, bytes, percent of 0 to 100)."""

    def __init__(self, report: Report) -> None:
        fields = [column.name for column in report.columns]
        super().__init__(dict(zip(fields, row, strict=True)) for row in report.rows)
        self._report = report

    @property
    def name(self) -> str:
        """The report's name."""
        return self._report.name

    @property
    def title(self) -> str:
        """The report's title."""
        return self._report.definition.title

    @property
    def columns(self) -> Sequence[str]:
        """The fields of a row, in the report's order."""
        return [column.name for column in self._report.columns]

    def arrow(self) -> Any:
        """A pyarrow table. Raises MissingPackage without pyarrow."""
        try:
            pyarrow = import_module("pyarrow")
        except ImportError:
            raise MissingPackage("arrow() needs pyarrow: pip install pyarrow") from None
        return pyarrow.table({name: [row[name] for row in self] for name in self.columns})

    def df(self) -> Any:
        """A pandas data frame. Raises MissingPackage without pandas."""
        try:
            pandas = import_module("pandas")
        except ImportError:
            raise MissingPackage("df() needs pandas: pip install pandas") from None
        return pandas.DataFrame(list(self), columns=list(self.columns))

    def pl(self) -> Any:
        """A polars data frame. Raises MissingPackage without polars."""
        try:
            polars = import_module("polars")
        except ImportError:
            raise MissingPackage("pl() needs polars: pip install polars") from None
        # All rows decide the types: a column may begin with None.
        return polars.DataFrame(
            {name: [row[name] for row in self] for name in self.columns}, infer_schema_length=None, strict=False
        )

    def plot(self, column: str | None = None) -> Picture:
        """What the head of the report draws, or bars of one numeric column (default: the first time, size or count) for the first 20
        names.

        Raises a RunError for a column that the report does not have or that has no numbers, and where there are no rows.
        """
        return Picture(self.spec(column))

    def spec(self, column: str | None = None) -> dict[str, Any]:
        """The plot as a Vega-Lite specification."""
        from occatrace.views.plots import charts, own

        if column is None and (drawn := own.spec(self._report)):
            return drawn
        chosen = self._numeric(column)
        label = next((c.name for c in self._report.columns if c.name == "name"), self.columns[0])
        shown = [row for row in self if row[chosen.name] is not None and row.get("parent") is None][:BARS]
        if not shown:
            raise RunError(f"{self.name} has no rows to plot")
        return charts.bars(
            [str(row[label]) for row in shown],
            [float(row[chosen.name]) for row in shown],
            chosen.title,
            chosen.unit,
        )

    def _numeric(self, name: str | None) -> Column:
        numeric = [c for c in self._report.columns if c.unit in ("ns", "bytes", "count", "percent", "number")]
        if name is None:
            for unit in ("ns", "bytes", "count", "percent", "number"):
                for column in numeric:
                    if column.unit == unit:
                        return column
        for column in numeric:
            if column.name == name:
                return column
        there = ", ".join(column.name for column in numeric) or "none"
        raise RunError(f"{self.name} has no numeric column {name!r}; there are: {there}")

    def _repr_html_(self) -> str:
        return f'<div class="occatrace">{_STYLE}{"".join(self._sections())}</div>'

    def _sections(self) -> Iterator[str]:
        from occatrace.render import html
        from occatrace.render.text import sections

        for title, rows in sections(self._report):
            yield from html.table(0, title, rows, self._report, html.Wholes(), more=None)

    def __repr__(self) -> str:
        """The table as `occa_prof report` prints it."""
        from occatrace.render import Document, text
        from occatrace.store.losses import Losses

        told = text.plain(Document({}, Losses.none(), [self._report])).strip("\n")
        return told or f"{self.title} ({self.name}): no rows"


class Result:
    """The result of a query, with what DuckDB's results have: `fetchall`, `fetchone`, `fetchnumpy`, `df`, `pl`, `to_arrow_table`,
    `description`, … The first rows of it are shown without being taken from those."""

    def __init__(self, query: Callable[[], duckdb.DuckDBPyConnection]) -> None:
        self._query = query
        self._result: duckdb.DuckDBPyConnection | None = query()

    def forget(self) -> None:
        """The connection has another result now: begin anew where this one is used again."""
        self._result = None

    def fetchall(self) -> list[Any]:
        """All rows, as tuples."""
        return self._begun().fetchall()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # what notebooks look for
            raise AttributeError(name)
        return getattr(self._begun(), name)

    def _begun(self) -> duckdb.DuckDBPyConnection:
        if self._result is None:
            self._result = self._query()
        return self._result

    def __dir__(self) -> Sequence[str]:
        return [*super().__dir__(), *_OF_DUCKDB]

    def _first(self) -> tuple[Rows, str]:
        """The first rows, and what to say of the others."""
        from dataclasses import replace

        from occatrace.reports import of_query

        result = self._query()
        self.forget()
        rows = result.fetchmany(SHOWN + 1)
        more = f"the first {SHOWN} rows; fetchall(), df() and others have all of them" if len(rows) > SHOWN else ""
        return Rows(replace(of_query(result), rows=rows[:SHOWN])), more

    def __repr__(self) -> str:
        rows, more = self._first()
        return "\n".join(filter(None, (repr(rows), more)))

    def _repr_html_(self) -> str:
        rows, more = self._first()
        return rows._repr_html_() + (f"<p>{escape(more)}</p>" if more else "")


class Summary(list[Rows]):
    """The reports of a run's summary, as `occa_prof ./a.out` prints them."""

    def _repr_html_(self) -> str:
        return self.html({})

    def html(self, pictures: Mapping[str, Picture]) -> str:
        """For a notebook, with plots by their titles below the first report."""
        parts = [rows._repr_html_() for rows in self]
        if not parts:
            return "<p>nothing was recorded</p>"
        return "".join([parts[0], *(picture.html(title) for title, picture in pictures.items()), *parts[1:]])

    def __repr__(self) -> str:
        return "\n\n".join(map(repr, self)) or "nothing was recorded"
