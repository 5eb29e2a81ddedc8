"""Plots of reports: what the head of a report draws (`-- plot: KIND X Y [BY]`), or the function `plot(rows)` of a Python report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from occatrace.reports import Column, Drawing, Report, recipes
from occatrace.views.plots import charts

MOST = 5000  # marks of a plot: more are drawn by nobody's screen
NAMES = 20  # on an axis
_OTHERS = "all others"


def spec(report: Report, width: int = charts.WIDE) -> charts.Spec | None:
    """What a report itself says of its plot, as Vega-Lite; None where it says nothing, or has no rows.

    Raises recipes.BadRecipe where the function of a Python report fails.
    """
    rows = [{c.name: value for c, value in zip(report.columns, row, strict=True)} for row in report.rows]
    rows = [row for row in rows if row.get("parent") is None]
    if not rows:
        return None
    made = recipes.plot(report.definition, rows)
    if made is not None:
        return {"width": width, **made}
    drawing = report.definition.plot
    return None if drawing is None else _drawn(drawing, report, rows, width)


def _drawn(drawing: Drawing, report: Report, rows: Sequence[Mapping[str, Any]], width: int) -> charts.Spec | None:
    columns = {column.name: column for column in report.columns}
    x, y = columns[drawing.x], columns[drawing.y]
    by = columns[drawing.by] if drawing.by else None
    shown = [
        row
        for row in rows
        if row[x.name] is not None and row[(by if drawing.kind == "map" and by else y).name] is not None
    ]
    if drawing.kind in ("bars", "map"):
        shown = _of_first(shown, x, NAMES)
    if drawing.kind == "map":
        shown = _of_first(shown, y, NAMES)
    shown = shown[:MOST]
    if not shown:
        return None
    marks: list[dict[str, Any]] = [{} for _ in shown]
    encoding: dict[str, Any] = {}
    ordinal = {"bars": "x", "map": "xy"}.get(drawing.kind, "")
    for axis, column in (("x", x), ("y", y)):
        values = [row[column.name] for row in shown]
        if axis in ordinal or not column.is_number:
            encoding[axis] = charts.names_axis(_places(values, marks, axis), column.title)
        else:
            encoding[axis] = charts.numbers_axis([float(value) for value in values], column, marks, axis)
    if by and drawing.kind == "map":
        encoding["color"] = charts.heat([float(row[by.name]) for row in shown], by, marks)
    elif by:
        encoding["color"] = charts.groups(
            _places([row[by.name] for row in shown], marks, "c", len(charts.GROUPS)), width
        )
    mark = {"bars": "bar", "line": "line", "points": "point", "map": "rect"}[drawing.kind]
    return charts.layer(width, mark, marks, encoding, f"{report.definition.title}: {len(marks)} values")


def _of_first(rows: Sequence[Mapping[str, Any]], column: Column, most: int) -> list[Mapping[str, Any]]:
    kept = set(list(dict.fromkeys(row[column.name] for row in rows))[:most])
    return [row for row in rows if row[column.name] in kept]


def _places(values: Sequence[Any], marks: Sequence[dict[str, Any]], field: str, most: int = MOST) -> list[str]:
    """The distinct names in their order; each mark gets the place of its own. Above `most`, the last place is of all others."""
    names = list(dict.fromkeys(map(str, values)))
    if len(names) > most:
        names = [*names[: most - 1], _OTHERS]
    places = {name: at for at, name in enumerate(names)}
    for mark, value in zip(marks, values, strict=True):
        mark[field] = places.get(str(value), len(names) - 1)
    return names
