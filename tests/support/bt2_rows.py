"""
Prints (pickled) the rows of a CTF trace as babeltrace2's own Python bindings see them. Run by the system's Python, which has
bt2; an independent reading, so nothing here comes from occatrace.
"""

from __future__ import annotations

import pickle
import sys
from itertools import zip_longest
from typing import Any

import bt2


def plain(value: Any) -> Any:
    if isinstance(value, bt2._StringFieldConst):
        # The bytes of an empty text are those of an earlier one in babeltrace 2.0.
        return str(value) if len(value) else ""
    if isinstance(value, bt2._RealFieldConst):
        return float(value)
    if isinstance(value, bt2._ArrayFieldConst):
        return tuple(plain(item) for item in value)
    return int(value)


def flat(prefix: str, structure: Any, row: list[tuple[str, Any]]) -> None:
    names = list(structure)
    for name, following in zip_longest(names, names[1:], fillvalue=""):
        # LTTng's length of the list that follows
        if name == f"_{following}_length":
            continue
        value = structure[name]
        full = f"{prefix}.{name}" if prefix else name
        if isinstance(value, bt2._StructureFieldConst):
            flat(full, value, row)
        else:
            row.append((full, plain(value)))


def main() -> None:
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for message in bt2.TraceCollectionMessageIterator(sys.argv[1]):
        if type(message) is not bt2._EventMessageConst:
            continue
        event = message.event
        row: list[tuple[str, Any]] = [("ts", message.default_clock_snapshot.value)]
        for prefix, field in (
            ("ctx", event.common_context_field),
            ("ctx", event.specific_context_field),
            ("", event.payload_field),
        ):
            if field is not None:
                flat(prefix, field, row)
        rows.setdefault(event.name, []).append(tuple(row))
    for name in rows:
        rows[name].sort(key=repr)
    sys.stdout.buffer.write(pickle.dumps(rows))


main()
