"""Numbers of plots → Vega-Lite specifications: what is drawn where, in which colour. Knows no tables, draws nothing itself.

Every colour here has its twin for dark pages in `DARK`; a page or a picture changes one for the other by CSS.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from occatrace.core.checked import printable
from occatrace.core.units import duration, size
from occatrace.reports import Column
from occatrace.views.plots.data import Distribution, Memory, Shares
from occatrace.views.plots.times import STEPS, Bands, Grid, steps

Spec = dict[str, Any]

INK, MUTED, GRID, BLUE, TRACK, ORANGE = "#1d2229", "#5b6470", "#dfe3e8", "#2b6cd4", "#eef1f5", "#c2570c"
GROUPS = (BLUE, "#12876f", ORANGE, "#8c4fc4", "#a67c00", "#7a8594")
# Of maps, from little to much.
HEAT = ("#d3e2f8", "#a5c3ef", "#6f9fe3", "#3b74cc", "#163f80")
DARK: Mapping[str, str] = {
    **dict(zip(HEAT, ("#1f3657", "#2c5084", "#3f73bd", "#76a9f7", "#cfe2ff"), strict=True)),
    INK: "#e6e9ee",
    MUTED: "#a3adb9",
    GRID: "#323942",
    BLUE: "#6ba1f5",
    TRACK: "#222a33",
    ORANGE: "#f0904f",
    "#12876f": "#3fc1a4",
    "#8c4fc4": "#b98aea",
    "#a67c00": "#d9b13b",
    "#7a8594": "#9aa5b3",
}
PAPER, DARK_PAPER = "#ffffff", "#14181d"

WIDE, NARROW = 560, 340
_NAME_LIMIT = 160  # characters; no plot has room for more
_ROW = 46
LEFT = 46  # room for the labels of rows; the same in all plots over time, so that their axes agree
_MARGIN: Mapping[str, Any] = {"minExtent": LEFT, "maxExtent": LEFT}
_TICKS = 7  # of durations
_FULL = 0.56  # height of a full bar within its row, whose name stands above it
_CONFIG: Spec = {
    "font": "Helvetica, Arial, sans-serif",
    "background": None,
    "padding": {"left": 2, "right": 8, "top": 4, "bottom": 2},
    "view": {"stroke": None},
    "axis": {
        "labelColor": MUTED, "titleColor": MUTED, "gridColor": GRID, "domainColor": GRID, "tickColor": GRID,
        "labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal", "labelFlush": True,
    },
    "legend": {"labelColor": INK, "labelFontSize": 12, "symbolType": "square", "title": None, "orient": "top"},
    "text": {"fontSize": 12, "color": INK},
}  # fmt: skip


def memory(found: Memory, width: int = WIDE) -> Spec:
    """Memory in use, one layer per group on top of the other; the peak is marked."""
    scale, unit = next((s, u) for s, u in _SIZES if found.peak >= s)
    time, time_unit = _time(found.end)
    # Two values of one moment would be stacked on each other.
    before = [found.begin] if found.times[0] > found.begin else []
    after = [found.end] if found.times[-1] < found.end else []
    values = [
        {"t": t / time, "v": held / scale, "g": g}
        for g, series in enumerate(found.bytes)
        for t, held in zip(
            (*before, *found.times, *after), (*(0 for _ in before), *series, *(series[-1] for _ in after)), strict=True
        )
    ]
    peak = {"t": found.peak_at / time, "v": found.peak / scale, "text": f"peak {size(found.peak)}"}
    late = found.peak_at - found.begin > (found.end - found.begin) / 2
    names = _distinct(found.groups)
    color = {
        "field": "g", "type": "nominal",
        "scale": {"domain": list(range(len(names))), "range": list(GROUPS[: len(names)])},
        "legend": {"labelExpr": f"{_texts(names)}[datum.value]", "columns": 1, "labelLimit": width - 100},
    }  # fmt: skip
    x = _time_axis(found.begin / time, found.end / time, time_unit)
    y = {
        "field": "v", "type": "quantitative", "scale": {"domain": [0, 1.14 * found.peak / scale], "nice": False},
        "axis": {"title": None, "tickCount": 5, "labelExpr": f"datum.label + ' {unit}'", "domain": False, "ticks": False, **_MARGIN},
    }  # fmt: skip
    return _spec(
        width, 230,
        {"data": {"values": values},
         "mark": {"type": "area", "interpolate": "step-after", "fillOpacity": 0.3, "line": {"strokeWidth": 1.5}},
         "encoding": {"x": x, "y": {**y, "stack": "zero"}, "color": color, "order": {"field": "g"}}},
        {"data": {"values": [peak]}, "mark": {"type": "point", "filled": True, "size": 40, "color": INK, "opacity": 1},
         "encoding": {"x": x, "y": y}},
        {"data": {"values": [peak]},
         "mark": {"type": "text", "align": "right" if late else "left", "dx": -7 if late else 7, "dy": -8},
         "encoding": {"x": x, "y": y, "text": {"field": "text"}}},
        description=f"memory in use over time: at most {size(found.peak)}, {size(found.left)} at the end",
    )  # fmt: skip


def bands(found: Bands, width: int = WIDE, description: str = "") -> Spec:
    """A band per row over time, as high as its numbers: what is full is the whole band."""
    time, unit = _time(found.end)
    count, step = len(found.rows), (found.end - found.begin) / len(found.rows[0].parts)
    x = _time_axis(found.begin / time, found.end / time, unit)
    points = [
        {
            "t": (found.begin + i * step) / time,
            "low": count - 1 - n,
            "high": round(count - 1 - n + _FULL * part, 4),
            "n": n,
        }
        for n, row in enumerate(found.rows)
        for i, part in _corners(row.parts)
    ]
    y = {
        **_rows(count),
        "axis": {**_MARGIN, "title": None, "labels": False, "grid": False, "ticks": False, "domain": False},
    }
    return _spec(
        width, _ROW * count,
        _tracks(count, 0, _FULL),
        {"data": {"values": points},
         "mark": {"type": "area", "interpolate": "step-after", "color": BLUE},
         "encoding": {"x": x, "y": {**y, "field": "high", "stack": None}, "y2": {"field": "low"}, "detail": {"field": "n"}}},
        *_labels([row.name for row in found.rows], [row.value for row in found.rows], width, left=LEFT),
        description=description,
    )  # fmt: skip


def _corners(parts: Sequence[float]) -> Iterator[tuple[int, float]]:
    """Where a step curve changes, and its end: more points would draw the same."""
    before = None
    for i, part in enumerate(parts):
        if part != before:
            yield i, part
        before = part
    yield len(parts), parts[-1]


def grid(found: Grid, width: int = WIDE, description: str = "", legend: Sequence[str] = ()) -> Spec:
    """Maps below one another, each with its title; a cell is as dark as its number is large. `legend`: what the colours mean."""
    place = Places.of(found)
    columns = len(found.maps[0][1][0])
    begin, end, top, x = 0.0, float(columns), 1.0, _axis_of_names(found.columns)
    if found.columns:
        top = max(value for _, cells in found.maps for row in cells for value in row)
    else:
        scale, unit = _time(found.end)
        begin, end = found.begin / scale, found.end / scale
        x = _time_axis(begin, end, unit)
    width_of = (end - begin) / columns
    boxes, names = [], []
    for at, (title, cells) in zip(place.tops, found.maps, strict=True):
        names.append({"y": at - 9, "title": title})
        for row, values in enumerate(cells):
            for first, beyond, level in _runs(values, top, logarithmic=bool(found.columns)):
                boxes.append(
                    {"t": round(begin + first * width_of, 6), "u": round(begin + beyond * width_of, 6),
                     "y": at + row * place.cell, "z": at + (row + 1) * place.cell, "s": level}
                )  # fmt: skip
    every = max(1, math.ceil(len(found.rows) * 13 / max(len(found.rows) * place.cell, 1)))
    shown = [
        (at + (row + 0.5) * place.cell, name)
        for at in place.tops
        for row, name in enumerate(found.rows)
        if row % every == 0
    ]
    y = {
        "type": "quantitative", "scale": {"domain": [0, place.height], "reverse": True, "nice": False},
        "axis": {**_MARGIN, "title": None, "grid": False, "domain": False, "ticks": False, "values": [at for at, _ in shown],
                 "labelExpr": f"{_texts([name for _, name in shown])}[indexof({[at for at, _ in shown]}, datum.value)]"},
    }  # fmt: skip
    tracks = [{"y": at, "z": at + place.cell * len(found.rows)} for at in place.tops]
    color = {
        "field": "s", "type": "ordinal", "scale": {"domain": list(range(1, STEPS + 1)), "range": list(HEAT)},
        "legend": {"labelExpr": f"{_texts(legend)}[datum.value - 1]", "columns": 3, "symbolSize": 120} if legend else None,
    }  # fmt: skip
    plain = {"aria": False}
    return _spec(
        width, place.height,
        {"data": {"values": tracks}, "mark": {"type": "rect", "color": TRACK, **plain},
         "encoding": {"x": {"value": 0}, "x2": {"value": "width"}, "y": {**y, "field": "y"}, "y2": {"field": "z"}}},
        {"data": {"values": boxes}, "mark": {"type": "rect", **plain},
         "encoding": {"x": {**x, "field": "t"}, "x2": {"field": "u"}, "y": {**y, "field": "y"}, "y2": {"field": "z"}, "color": color}},
        {"data": {"values": names}, "mark": {"type": "text", "align": "left", "baseline": "middle"},
         "encoding": {"x": {"value": 0}, "y": {**y, "field": "y"}, "text": {"field": "title"}}},
        description=description,
    )  # fmt: skip


@dataclass(frozen=True)
class Places:
    """Where the maps of a grid lie, in pixels from above: the first row of each, and the height of a row."""

    tops: Sequence[float]
    cell: float
    height: float

    @staticmethod
    def of(found: Grid) -> Places:
        """The places of the maps of a grid."""
        rows = len(found.rows)
        cell = max(5.0, min(22.0, round(180 / rows, 1)))
        tops = [round(20 + n * (rows * cell + 30), 1) for n in range(len(found.maps))]
        return Places(tops, cell, round(tops[-1] + rows * cell + 2, 1))


def _runs(values: Sequence[float], top: float, logarithmic: bool) -> Iterator[tuple[int, int, int]]:
    """Neighbours of one colour: first, the one behind the last, and the colour; what is (almost) nothing is left out."""
    levels = (
        [log_step(value, top) for value in values] if logarithmic else steps([value / top for value in values]).tolist()
    )
    first = 0
    for at in range(1, len(levels) + 1):
        # Neighbouring columns of a map of names stay apart, so that each can be seen.
        if at == len(levels) or levels[at] != levels[first] or logarithmic:
            if levels[first]:
                yield first, at, levels[first]
            first = at


def log_step(value: float, top: float) -> int:
    """The colour of a number on a logarithmic scale: each colour is a factor of ten below the next; 0: nothing."""
    return 0 if value <= 0 else max(STEPS - int(math.log10(top / value)), 1)


def _axis_of_names(names: Sequence[str]) -> Spec:
    every = max(1, math.ceil(len(names) / 8))
    at = [n + 0.5 for n in range(0, len(names), every)]
    return {
        "field": "t", "type": "quantitative", "scale": {"domain": [0, len(names)], "nice": False},
        "axis": {"title": "to", "grid": False, "ticks": False, "values": at, "labelFlush": False,
                 "labelExpr": f"{_texts(list(names))}[floor(datum.value)]"},
    }  # fmt: skip


def kernels(found: Shares, width: int = WIDE) -> Spec:
    """A bar per kernel."""
    rows = [*found.kernels, *([found.others] if found.others else [])]
    count = len(rows)
    bars = [
        {"low": count - 1 - n + 0.2, "high": count - 1 - n + 0.52, "share": row.share, "zero": 0}
        for n, row in enumerate(rows)
    ]
    x = {"field": "share", "type": "quantitative", "scale": {"domain": [0, 100], "nice": False}, "axis": None}
    return _spec(
        width, _ROW * 0.85 * count,
        _tracks(count, 0.2, 0.52),
        {"data": {"values": bars}, "mark": {"type": "rect", "color": BLUE},
         "encoding": {"x": x, "x2": {"field": "zero"}, "y": {**_rows(count), "field": "low"}, "y2": {"field": "high"}}},
        *_labels([row.name for row in rows],
                 [f"{row.share:.1f} %, {duration(row.total_ns)}" for row in rows], width, 0.76),
        description="share of each kernel in the time of all kernels",
    )  # fmt: skip


def distributions(found: Sequence[Distribution], width: int = WIDE) -> Spec:
    """A histogram per kernel over a common logarithmic axis, with the median."""
    count = len(found)
    boxes = [
        {
            "from": low,
            "to": high,
            "low": count - 1 - n,
            "high": count - 1 - n + _FULL * calls / max(b[2] for b in row.buckets),
        }
        for n, row in enumerate(found)
        for low, high, calls in row.buckets
    ]
    medians = [
        {"m": row.median_ns, "low": count - 1 - n, "high": count - 1 - n + _FULL}
        for n, row in enumerate(found)
        if row.median_ns
    ]
    lowest, highest = min(box["from"] for box in boxes), max(box["to"] for box in boxes)
    choices = [
        [m * 10.0**e for e in range(-1, 16) for m in steps if lowest <= m * 10.0**e <= highest]
        for steps in ((1, 2, 5), (1, 3), (1,))
    ]
    ticks = next((choice for choice in choices if len(choice) <= _TICKS), choices[-1])
    x = {
        "type": "quantitative", "scale": {"type": "log", "domain": [lowest, highest], "nice": False},
        "axis": {"title": None, "values": ticks, "labelExpr": _DURATION, "gridDash": [2, 3]},
    }  # fmt: skip
    y = _rows(count)
    return _spec(
        width, _ROW * count,
        _baselines(count),
        {"data": {"values": boxes}, "mark": {"type": "rect", "color": BLUE},
         "encoding": {"x": {**x, "field": "from"}, "x2": {"field": "to"}, "y": {**y, "field": "low"}, "y2": {"field": "high"}}},
        {"data": {"values": medians}, "mark": {"type": "rule", "color": ORANGE, "strokeWidth": 2},
         "encoding": {"x": {**x, "field": "m"}, "y": {**y, "field": "low"}, "y2": {"field": "high"}}},
        *_labels([row.name for row in found],
                 [f"{row.calls:,} call{'s' if row.calls != 1 else ''}, median {duration(row.median_ns or 0)}" for row in found], width),
        description="how long the calls of each kernel took",
    )  # fmt: skip


_SIZES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (0.0000001, "B"))
_DURATION = (
    "datum.value >= 1e9 ? format(datum.value / 1e9, '~g') + ' s' : datum.value >= 1e6 ? format(datum.value / 1e6, '~g') + ' ms'"
    " : datum.value >= 1e3 ? format(datum.value / 1e3, '~g') + ' µs' : format(datum.value, '~g') + ' ns'"
)


def bars(names: Sequence[str], values: Sequence[float], title: str, unit: str, width: int = WIDE) -> Spec:
    """A bar for each name, in the order given. `unit`: ns and bytes are shown in the unit that fits the largest value."""
    scale, label = _scaled(max(values), title, unit)
    layer: Spec = {
        "data": {"values": [{"at": at, "v": value / scale} for at, value in enumerate(values)]},
        "mark": {"type": "bar", "color": BLUE},
        "encoding": {
            "y": {
                "field": "at", "type": "ordinal",
                "axis": {"title": None, "labelExpr": f"{_texts([short(name) for name in names])}[datum.value]",
                         "labelLimit": width // 2, "ticks": False},
            },
            "x": {"field": "v", "type": "quantitative", "axis": {"title": label}},
        },
    }  # fmt: skip
    return _spec(width, 22 * len(names) + 20, layer, description=f"{label} of {len(names)} names")


def _scaled(largest: float, title: str, unit: str) -> tuple[float, str]:
    """By what values are divided for an axis, and the axis' title with the unit that fits the largest."""
    scale, shown = 1.0, {"percent": "%"}.get(unit, "")
    if unit == "ns":
        scale, shown = _time(int(largest))
    elif unit == "bytes":
        scale, shown = next(((float(s), u) for s, u in _SIZES if largest >= s), (1.0, "B"))
    return scale, f"{title} ({shown})" if shown else title


def names_axis(names: Sequence[str], title: str) -> Spec:
    """An axis of names; marks have their places."""
    axis = {"title": title, "labelExpr": f"{_texts(_distinct(names))}[datum.value]", "labelLimit": 200, "ticks": False}
    return {"type": "ordinal", "axis": axis}


def numbers_axis(values: Sequence[float], column: Column, marks: Sequence[Spec], field: str) -> Spec:
    """An axis of a column's values, in the unit that fits the largest; the marks get them in it."""
    scale, label = _scaled(max(map(abs, values)), column.title, column.unit)
    for mark, value in zip(marks, values, strict=True):
        mark[field] = value / scale
    return {"type": "quantitative", "axis": {"title": label}}


def heat(values: Sequence[float], column: Column, marks: Sequence[Spec]) -> Spec:
    """Colours from little to much."""
    scale, label = _scaled(max(map(abs, values)), column.title, column.unit)
    for mark, value in zip(marks, values, strict=True):
        mark["c"] = value / scale
    return {
        "field": "c", "type": "quantitative", "scale": {"type": "quantize", "range": list(HEAT), "nice": False},
        "legend": {"title": label, "format": ".3~g"},
    }  # fmt: skip


def groups(names: Sequence[str], width: int) -> Spec:
    """A colour for each of a few names."""
    return {
        "field": "c", "type": "nominal", "scale": {"domain": list(range(len(names))), "range": list(GROUPS[: len(names)])},
        "legend": {"labelExpr": f"{_texts(_distinct(names))}[datum.value]", "columns": 2, "labelLimit": width // 2 - 40},
    }  # fmt: skip


def layer(width: int, mark: str, marks: Sequence[Spec], encoding: Mapping[str, Spec], description: str) -> Spec:
    """Marks with the fields x, y and c (colour)."""
    kind: Spec = {"type": mark, "color": BLUE}
    if mark == "point":
        kind |= {"filled": True, "opacity": 0.8}
    if mark == "line":
        kind["point"] = {"size": 18}
    placed = {name: {"field": name, **part} for name, part in encoding.items()}
    return _spec(width, 260, {"data": {"values": marks}, "mark": kind, "encoding": placed}, description=description)


def _spec(width: int, height: float, *layers: Spec, description: str) -> Spec:
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "description": description,
        "width": width,
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "config": _CONFIG,
        "layer": list(layers),
    }


def _width_of(spec: Spec) -> int:
    width = spec.get("width")
    return width if isinstance(width, int) else WIDE


def titled(spec: Spec, title: str, subtitle: str) -> Spec:
    """A chart that stands alone, with what it shows and of what."""
    text = {"text": short(title), "subtitle": short(subtitle), "anchor": "start", "offset": 12}
    look = {"color": INK, "fontSize": 15, "subtitleColor": MUTED, "subtitleFontSize": 12, "limit": _width_of(spec)}
    return {**spec, "title": {**text, **look}}


def _time(end: int) -> tuple[float, str]:
    return next((s, u) for s, u in ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")) if end >= s or s == 1.0)


def _time_axis(begin: float, end: float, unit: str) -> Spec:
    return {
        "field": "t", "type": "quantitative", "scale": {"domain": [begin, end], "nice": False},
        "axis": {"title": f"{unit} since the first call", "tickCount": 6, "grid": False},
    }  # fmt: skip


def _rows(count: int) -> Spec:
    return {"type": "quantitative", "scale": {"domain": [0, count], "nice": False}, "axis": None}


def _baselines(count: int) -> Spec:
    return {
        "data": {"values": [{"low": n} for n in range(count)]},
        "mark": {"type": "rule", "color": GRID},
        "encoding": {"y": {**_rows(count), "field": "low"}},
    }


def _tracks(count: int, low: float, high: float) -> Spec:
    """What a full bar would cover."""
    return {
        "data": {"values": [{"low": n + low, "high": n + high} for n in range(count)]},
        "mark": {"type": "rect", "color": TRACK},
        "encoding": {
            "x": {"value": 0}, "x2": {"value": "width"}, "y": {**_rows(count), "field": "low"}, "y2": {"field": "high"},
        },
    }  # fmt: skip


def _labels(names: Sequence[str], values: Sequence[str], width: int, at: float = 0.78, left: int = 0) -> list[Spec]:
    """The name of each row above it, and on the right its value. `left`: by how much names begin before the plot."""
    count = len(names)
    rows = [
        {"y": count - 1 - n + at, "name": short(name), "value": short(value)}
        for n, (name, value) in enumerate(zip(names, values, strict=True))
    ]
    room = width - 40 - min(max(map(len, values)), 40) * 7
    y = {**_rows(count), "field": "y"}
    return [
        {"data": {"values": rows}, "mark": {"type": "text", "align": "left", "baseline": "middle", "limit": room},
         "encoding": {"x": {"value": -left}, "y": y, "text": {"field": "name"}}},
        {"data": {"values": rows}, "mark": {"type": "text", "align": "right", "baseline": "middle", "color": MUTED},
         "encoding": {"x": {"value": "width"}, "y": y, "text": {"field": "value"}}},
    ]  # fmt: skip


def short(name: str) -> str:
    """A name as plots show it: printable, and no longer than any of them has room for."""
    text = printable(name[: 2 * _NAME_LIMIT])
    return text if len(text) <= _NAME_LIMIT else text[: _NAME_LIMIT - 1] + "…"


def _distinct(names: Sequence[str]) -> list[str]:
    return [short(name) for name in names]


def _texts(names: Sequence[str]) -> str:
    """A list of texts as an expression of Vega: quotes and what is not ASCII by their numbers."""
    texts = (
        "".join(c if (c.isascii() and c.isalnum()) or c in " ,.()-_" else f"\\u{{{ord(c):x}}}" for c in n)
        for n in names
    )
    return "[" + ",".join(f"'{text}'" for text in texts) + "]"
