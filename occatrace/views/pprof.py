"""Trees of stacks as a profile for pprof: the message Profile of github.com/google/pprof/proto/profile.proto, by gzip.

A sample type per measure that has weight; the process is a label of each sample. Nothing is rounded: values are ns, bytes and counts.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Sequence
from typing import Any

from occatrace.views.flamegraph import MEASURES, PROGRAM, PYTHON, Stacks

_UNITS = {"ns": "nanoseconds", "bytes": "bytes", "count": "count"}
_PLACED = re.compile(r"^(?P<name>.*) \((?P<file>[^()]+):(?P<line>\d+)\)$", re.DOTALL)


def _number(value: int) -> bytes:
    """A varint; negative values as 64 bits."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _number(number << 3) + _number(value) if value else b""
    return _number(number << 3 | 2) + _number(len(value)) + value


def _packed(number: int, values: Iterable[int]) -> bytes:
    return _field(number, b"".join(map(_number, values)))


def profile(found: Sequence[Stacks], start_ns: int = 0, duration_ns: int = 0) -> bytes:
    """The file. `start_ns`: wall-clock time of the run's begin; both 0: not known."""
    measures = [name for name in MEASURES if any(any(tree.weights[name]) for tree in found)]
    texts: dict[str, int] = {"": 0}
    functions: dict[tuple[str, str], int] = {}
    locations: dict[tuple[int, int], int] = {}
    out: list[bytes] = []

    def text(value: str) -> int:
        return texts.setdefault(value, len(texts))

    def location(name: str, category: str) -> int:
        placed = _PLACED.match(name) if category in (PROGRAM, PYTHON) else None
        file, line = (placed["file"], int(placed["line"])) if placed else ("", 0)
        name = placed["name"] if placed else name
        function = functions.get((name, file))
        if function is None:
            function = functions[name, file] = len(functions) + 1
            # Without a system_name: if that is the same as the name, pprof takes it for a mangled one, and what is in <> away.
            names = (_field(2, text(name)), _field(4, text(file)))
            out.append(_field(5, _field(1, function) + b"".join(names)))
        number = locations.get((function, line))
        if number is None:
            number = locations[function, line] = len(locations) + 1
            out.append(_field(4, _field(1, number) + _field(4, _field(1, function) + _field(2, line))))
        return number

    for name in measures:
        out.append(_field(1, _field(1, text(name)) + _field(2, text(_UNITS[MEASURES[name].unit]))))
    for tree in found:
        label = _field(3, _field(1, text("process")) + _field(2, text(tree.name)))
        above: list[tuple[Any, ...]] = []  # of each node, the locations from it outwards, as a chain
        for number, parent in enumerate(tree.parents):
            above.append((location(tree.names[number], tree.categories[number]), above[parent] if parent >= 0 else ()))
            values = [max(tree.weights[name][number], 0) for name in measures]
            if any(values):
                out.append(_field(2, _packed(1, _chain(above[number])) + _packed(2, values) + label))
    out += [_field(9, start_ns), _field(10, duration_ns)]
    if measures:
        out.append(_field(14, text(measures[0])))
    out += [_field(6, value.encode("utf-8", "replace")) for value in texts]
    return gzip.compress(b"".join(out), mtime=0)


def _chain(node: tuple[Any, ...]) -> Iterable[int]:
    while node:
        yield node[0]
        node = node[1]
