"""Processors of processes, as they are recorded."""

from __future__ import annotations

import pytest

from occatrace.reports import machine


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0-3,8", {0, 1, 2, 3, 8}),
        ("5", {5}),
        ("", set()),
        (None, set()),
        ("0-", {0}),
        ("x", set()),
        ("0-x", set()),
        ("-1", set()),
    ],
)
def test_numbers(text: str | None, numbers: set[int]) -> None:
    assert machine.numbers(text) == numbers


def test_a_damaged_list_fills_no_memory() -> None:
    assert len(machine.numbers("0-99999999999")) <= 1 << 17
