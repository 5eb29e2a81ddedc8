"""Streams of millions of rows write each value of a block once: the text is that of each value by itself."""

from __future__ import annotations

import json
import math

import pytest

from occatrace.render import json as json_format
from occatrace.render import text as text_format
from occatrace.render.distinct import map_distinct
from occatrace.reports import Column

VALUES = [
    [1, 1, 2, None, 2],
    ["a", "ä", "漢字", "a", None, "x" * 40],
    [0.0, -0.0, 1.5, 1.5],
    [1, 1.0, True, "1"],
    [math.inf, -math.inf, math.nan],
    [],
]


@pytest.mark.parametrize("values", VALUES)
def test_each_value_gives_its_own_text(values: list[object]) -> None:
    assert map_distinct(values, repr) == [repr(value) for value in values]


def test_equal_values_are_written_once() -> None:
    asked: list[object] = []

    def seen(value: object) -> object:
        asked.append(value)
        return value

    assert map_distinct(["a", "b", "a", None, "a"], seen) == ["a", "b", "a", None, "a"]
    assert len(asked) == 3


@pytest.mark.parametrize("values", VALUES)
def test_rows_in_json_are_those_of_the_standard_library(values: list[object]) -> None:
    names = ["name", 'quoted "text"']
    rows = [(value, [value]) for value in values]
    expected = [json_format.text_of(dict(zip(names, row, strict=True))).replace("\n", "\n    ") for row in rows]
    assert json_format.rows_of(names, rows) == expected
    if not any(isinstance(value, float) and not math.isfinite(value) for value in values):
        assert [json.loads(text) for text in json_format.rows_of(names, rows)] == [
            {names[0]: value, names[1]: [value]} for value in values
        ]


@pytest.mark.parametrize("width", [4, 8, 30])
def test_lines_of_a_stream_are_those_of_single_rows(width: int) -> None:
    columns = [Column("time_ns", "ns", "Time", ""), Column("name", "text", "Name", "")]
    rows = [(5, "short"), (None, "漢字"), (123456789, "a name that is wider than its column"), (5, "ends  "), (7, None)]
    widths = {"time_ns": 8, "name": width}
    shown = list(enumerate(columns))
    single = [line for row in rows for line in text_format._single(shown, widths, row, None)]
    assert text_format._stream_lines(shown, widths, rows, None) == single
