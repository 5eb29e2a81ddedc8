"""The histogram's numbering: Python, SQL and the header of the traced program's side agree."""

from __future__ import annotations

import duckdb
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from occatrace.core.bounds import HISTOGRAM_BUCKETS, SUB
from occatrace.core.histogram import BUCKETS, bucket, middle
from occatrace.store import macros


def by_definition(value: int) -> int:
    """As native/emit/histogram.h says it."""
    if value < 64:
        return value
    octave = value.bit_length() - 1
    return (octave - 5) * 64 + ((value >> (octave - 6)) & 63)


@given(st.integers(0, 2**53))
def test_bucket_is_as_defined(value: int) -> None:
    assert bucket(np.array([value], np.uint64))[0] == by_definition(value)


@given(st.integers(0, 2**53))
def test_middle_is_near(value: int) -> None:
    found = middle(bucket(np.array([value], np.uint64)))[0]
    assert found == value if value < 128 else abs(found - value) <= value / 128


def test_edges_of_octaves() -> None:
    values = np.unique(np.array([v for e in range(53) for v in (2**e - 1, 2**e, 2**e + 1)], np.uint64))
    assert bucket(values).tolist() == [by_definition(int(v)) for v in values]
    con = duckdb.connect()
    macros.macros(con)
    con.register("v", {"v": values})
    rows = con.execute("SELECT bucket(v), bucket_middle(bucket(v)) FROM v ORDER BY v").fetchall()
    assert [r[0] for r in rows] == bucket(values).tolist()
    assert np.allclose([r[1] for r in rows], middle(bucket(values)), rtol=1e-15)


def test_there_is_a_bucket_for_each_value() -> None:
    assert by_definition(2**64 - 1) + 1 == HISTOGRAM_BUCKETS <= BUCKETS and SUB == 64
