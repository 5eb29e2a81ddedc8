"""Times, ranges and units as people write them."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from occatrace.core.units import Moment, UnitError, Units, fixed, parse_moment, parse_range, parse_units


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1.5s", Moment(1_500_000_000)),
        ("200ms", Moment(200_000_000)),
        ("30 us", Moment(30_000)),
        ("30µs", Moment(30_000)),
        ("8ns", Moment(8)),
        ("2m", Moment(120 * 10**9)),
        (".25", Moment(250_000_000)),
        ("12345678.123456789s", Moment(12345678_123456789)),
        ("end-1s", Moment(10**9, "end")),
        ("-1s", Moment(10**9, "end")),
        ("25%", Moment(0.25, "part")),
        ("1970-01-01T00:00:01.5Z", Moment(1_500_000_000, "clock")),
        ("1970-01-01T01:00:01+01:00", Moment(1_000_000_000, "clock")),
    ],
)
def test_moments(text: str, moment: Moment) -> None:
    assert parse_moment(text) == moment


def test_moments_in_a_run() -> None:
    assert [m.at(1000, 3000, 50) for m in (Moment(7), Moment(7, "end"), Moment(0.5, "part"), Moment(1090, "clock"))] == [
        1007, 2993, 2000, 1040,
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "1", "x:1s", "1x:2s", "2s:1s", "end-1s:end-2s", "1s:2s:3s", "2026-11-21:"])
def test_bad_ranges(text: str) -> None:
    with pytest.raises(UnitError, match=r"^--filter-time .*(write|ends before)"):
        parse_range(text)


def test_ranges() -> None:
    assert parse_range("1s:2s").begin == Moment(10**9) and parse_range("1s:2s").end == Moment(2 * 10**9)
    assert parse_range(":").begin is None and parse_range(":5ms").end == Moment(5 * 10**6)
    day = parse_range("2026-11-21T14:03:05:2026-11-21T14:03:06")
    assert day.begin and day.end and day.end.value - day.begin.value == 10**9
    local = time.mktime((2026, 11, 21, 14, 3, 5, 0, 0, -1))
    assert day.begin.value == local * 1e9, "without a zone: the local one"


def test_units() -> None:
    assert parse_units("auto") is None and parse_units("base") == Units("ns", "B")
    assert parse_units("ms,MiB") == parse_units("MiB, ms") == Units("ms", "MiB")
    assert parse_units("µs") == Units("us", None)
    for bad in ("parsec", "ms,us", "MiB,kB", "", "ms,"):
        with pytest.raises(UnitError, match="--units"):
            parse_units(bad)


@given(st.floats(1e-12, 1e12))
def test_fixed_numbers_are_never_rounded_to_nothing(value: float) -> None:
    assert float(fixed(value).replace(",", "")) == pytest.approx(value, rel=0.005)
