"""Numbers of plots → Vega-Lite specifications: what is drawn where, in which colour. Knows no tables, draws nothing itself.

Every colour here has its twin for dark pages in `DARK`; a page or a picture changes one for the other by CSS.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from occatrace.core.checked import printable
from occatrace.core.units import duration, size
from occatrace.views.plots.data import Busy, Distribution, Memory, Shares

Spec = dict[str, Any]

INK, MUTED, GRID, BLUE, TRACK, ORANGE = "#1d2229", "#5b6470", "#dfe3e8", "#2b6cd4", "#eef1f5", "#c2570c"
GROUPS = (BLUE, "#12876f", ORANGE, "#8c4fc4", "#a67c00", "#7a8594")
DARK: Mapping[str, str] = {
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
        "axis": {"title": None, "tickCount": 5, "labelExpr": f"datum.label + ' {unit}'", "domain": False, "ticks": False},
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


def busy(found: Busy, width: int = WIDE) -> Spec:
    """A band per queue, as high as it was busy at each time."""
    time, unit = _time(found.end)
    count, step = len(found.rows), (found.end - found.begin) / len(found.rows[0].parts)
    x = _time_axis(found.begin / time, found.end / time, unit)
    points = [
        {"t": (found.begin + i * step) / time, "low": count - 1 - n, "high": count - 1 - n + _FULL * part, "n": n}
        for n, row in enumerate(found.rows)
        for i, part in enumerate((*row.parts, row.parts[-1]))
    ]
    y = _rows(count)
    return _spec(
        width, _ROW * count,
        _tracks(count, 0, _FULL),
        {"data": {"values": points},
         "mark": {"type": "area", "interpolate": "step-after", "color": BLUE},
         "encoding": {"x": x, "y": {**y, "field": "high", "stack": None}, "y2": {"field": "low"}, "detail": {"field": "n"}}},
        *_labels([row.name for row in found.rows],
                 [f"{100 * row.busy_ns / (found.end - found.begin):.1f} %" for row in found.rows], width),
        description="busy time of each queue over time",
    )  # fmt: skip


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
    scale, shown = 1.0, {"percent": "%"}.get(unit, "")
    if unit == "ns":
        scale, shown = _time(int(max(values)))
    elif unit == "bytes":
        scale, shown = next(((float(s), u) for s, u in _SIZES if max(values) >= s), (1.0, "B"))
    label = f"{title} ({shown})" if shown else title
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


def _labels(names: Sequence[str], values: Sequence[str], width: int, at: float = 0.78) -> list[Spec]:
    """The name of each row above it, and on the right its value."""
    count = len(names)
    rows = [
        {"y": count - 1 - n + at, "name": short(name), "value": value}
        for n, (name, value) in enumerate(zip(names, values, strict=True))
    ]
    room = width - 40 - max(map(len, values)) * 7
    y = {**_rows(count), "field": "y"}
    return [
        {"data": {"values": rows}, "mark": {"type": "text", "align": "left", "baseline": "middle", "limit": room},
         "encoding": {"x": {"value": 0}, "y": y, "text": {"field": "name"}}},
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
