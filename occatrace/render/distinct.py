"""Values → texts for formats that write millions of rows: in a block of them most values come again and again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


def map_distinct(values: Sequence[Any], function: Callable[[Any], T]) -> list[T]:
    """The function of each value, called once for equal values of one type."""
    # 1, 1.0 and True are one key, but not one text; neither are 0.0 and -0.0.
    kinds = set(map(type, values)) - {type(None)}
    if len(kinds) > 1 or not kinds <= {int, str, float} or (float in kinds and 0.0 in values):
        return [function(value) for value in values]
    found = {value: function(value) for value in set(values)}
    return [found[value] for value in values]
