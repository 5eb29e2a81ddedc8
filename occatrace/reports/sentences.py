"""Times and sizes in sentences that SQL makes: its macros `time_text` and `size_text` mark them, and they are written as in tables."""

from __future__ import annotations

import re

from occatrace.core.units import duration, size

_MARKED = re.compile("\x1f(ns|B) ([^\x1f]+)\x1f")


def written(sentence: str) -> str:
    """The sentence with its marked numbers as people write them."""
    return _MARKED.sub(lambda found: (duration if found[1] == "ns" else size)(float(found[2])), sentence)
