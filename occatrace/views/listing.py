"""The single calls of a run as lines of text, in time order, with every argument: enumerations and bit fields as names; and
the ranges and marks of its annotations between them.

The text is put together in SQL, function by function, and sorted by DuckDB, one window of time after another: the first lines
come at once, and memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from occatrace.core.model import Arg, Enum, Function
from occatrace.core.sql import bit_names, enum_case
from occatrace.core.sql import name as sql_name
from occatrace.core.sql import text as sql_text
from occatrace.store.tables import Store
from occatrace.store.windows import between, windows

_FETCH = 4096
_FEW, _MANY = 2_000, 200_000  # lines of a window: of the first, and about so many of later ones


_PLACE = """coalesce(line_place(s.file, s.line, s.module, s."offset"), '')"""

# What may overlap others encloses nothing.
_RANGES = """
    SELECT start_ns, end_ns, process, thread, coalesce(seq, 0) AS seq, false AS failed,
           CASE kind WHEN 'mark' THEN 'mark' ELSE 'range' END || ' "' || replace(replace(name, '\\', '\\\\'), '"', '\\"') || '"'
           || coalesce(' (' || payload || ')', '') || ' [' || concat_ws(' ', api, nullif(domain, ''), category) || ']' AS text,
           NULL::UBIGINT AS caller, kind = 'push' AS nests
    FROM ranges"""


@dataclass(frozen=True)
class Line:
    """One call or range."""

    start_ns: int
    duration_ns: int | None  # None: it never returned
    pid: int
    tid: int
    depth: int
    failed: bool
    text: str
    place: str = ""  # in the program, of the outermost call around it; empty: not known


def lines(store: Store) -> Iterator[Line]:
    """All recorded calls and ranges."""
    keys = store.functions()
    parts = [_select(store, key, store.model.function(*key.split(".", 1)) or _unknown(key)) for key in keys]
    parts.append(
        "SELECT start_ns, NULL::UBIGINT AS end_ns, process, thread, seq, false AS failed,"
        " function || '(…) never returned' AS text, NULL::UBIGINT AS caller FROM unfinished"
    )
    parts = [f"SELECT *, true AS nests FROM ({part})" for part in parts] + [_RANGES]
    open_calls: dict[int, list[int]] = {}
    for start, duration, pid, tid, thread, end, failed, text, nests, place in _in_order(
        store, " UNION ALL ".join(parts)
    ):
        stack = open_calls.setdefault(thread, [])
        while stack and stack[-1] <= start:
            stack.pop()
        yield Line(start, duration, pid, tid, len(stack), failed, text, place)
        if nests:
            stack.append(end if end is not None else 1 << 64)


def _unknown(key: str) -> Function:
    """A function that the model does not have, as in runs that were imported."""
    api, _, name = key.partition(".")
    return Function(api, name, name, "", False, (), None, None, None)


def _in_order(store: Store, parts: str) -> Iterator[tuple[Any, ...]]:
    """The rows of all parts by their start, window by window."""
    starts = " UNION ALL ".join(f"SELECT start_ns FROM {table}" for table in ("calls", "unfinished", "ranges"))
    cursor = store.con.cursor()
    for begin, end in windows(store.con, starts, _MANY, _FEW):
        cursor.execute(
            f"SELECT c.start_ns, c.end_ns - c.start_ns, p.pid, t.tid, c.thread, c.end_ns, c.failed, c.text, c.nests, {_PLACE}"
            f" FROM (SELECT * FROM ({parts}) WHERE {between('start_ns', begin, end)}) c"
            f" JOIN processes p ON p.process = c.process JOIN threads t ON t.thread = c.thread"
            f" LEFT JOIN call_sites s ON s.process = c.process AND s.address = c.caller"
            f" ORDER BY c.start_ns, c.thread, c.seq"
        )
        while rows := cursor.fetchmany(_FETCH):
            yield from rows


def _select(store: Store, key: str, function: Function) -> str:
    """SELECT of one function's calls with their text."""
    fields = store.arguments(key)
    args = {arg.name: arg for arg in function.args}
    enums = store.model.enums.get(function.api, {})
    shown: list[str] = []
    result = ""
    for field in fields:
        if function.failed and field == function.failed.field and args[field].kind == "name":
            continue  # the error's text is told at the end of the line
        arg = args.get(field, Arg(field, "uint"))
        value = f"coalesce({_value(f'args.{sql_name(field)}', arg, enums.get(arg.enum or ''))}, '')"
        if function.api == "occa" and field == "kernel":
            query = "SELECT name FROM kernels k WHERE k.process = f.process AND k.id = f.args.kernel"
            value = f"coalesce('\"' || ({query}) || '\"', {value})"
        if field == "ret":
            result = f" || ' = ' || {value}"
        else:
            shown.append(f"{sql_text(('' if not shown else ', ') + field + '=')} || {value}")
    text = " || ".join([sql_text(function.name + "("), *shown, sql_text(")")]) + result
    failure = "CASE WHEN failed THEN ' FAILED ' || coalesce(error, '') ELSE '' END"
    return f"SELECT start_ns, end_ns, process, thread, seq, failed, {text} || {failure} AS text, caller FROM {sql_name(key)} f"


def _value(column: str, arg: Arg, enum: Enum | None) -> str:
    """SQL text of one value."""
    if arg.kind == "array":
        element = Arg(arg.name, arg.element or "uint", arg.enum, None, arg.hex)
        return f"'[' || array_to_string(list_transform({column}, lambda v: {_value('v', element, enum)}), ', ') || ']'"
    if arg.kind in ("string", "name"):
        return f"'\"' || replace(replace({column}, '\\', '\\\\'), '\"', '\\\"') || '\"'"
    if enum is not None and enum.bitfield:
        return bit_names(column, enum.values)
    if enum is not None:
        return f"coalesce({enum_case(column, enum.values)}, {_number(column, arg)})"
    return _number(column, arg)


def _number(column: str, arg: Arg) -> str:
    if arg.hex or arg.kind in ("handle", "pointer"):
        return f"CASE {column} WHEN 0 THEN '0' ELSE printf('0x%x', {column}) END"
    return f"{column}::VARCHAR"
