"""The single calls of a run as lines of text, in time order, with every argument: enumerations and bit fields as names; and
the ranges and marks of its annotations between them.

The text of a call is put together in SQL, function by function, one window of time after another: the first lines come at once,
and memory stays bounded. A window is sorted and made lines of by _native, while the next one is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from occatrace import _native
from occatrace.core.model import Arg, Enum, Function
from occatrace.core.sql import bit_names, enum_case
from occatrace.core.sql import name as sql_name
from occatrace.core.sql import text as sql_text
from occatrace.store.macros import PYTHON_SOURCES
from occatrace.store.tables import Store
from occatrace.store.windows import ahead, between, windows

_AT_ONCE = 1 << 14  # lines that are put together at a time
_FEW, _MANY = 2_000, 400_000  # lines of a window: of the first, and about so many of later ones
_NEVER = 0xFFFF_FFFF_FFFF_FFFF  # end of what never returned
Columns = dict[str, npt.NDArray[Any]]


_PLACE = """line_place(s.file, s.line, s.module, s."offset")"""

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
    nesting = _native.Nesting()
    for rows in _in_order(store, places=True):
        depths = nesting.depths(rows["thread"], rows["start"], rows["end"], rows["nests"])
        ids = [rows["ids"][i] for i in rows["head"].tolist()]
        columns = (rows[name].tolist() for name in ("start", "end", "failed", "text", "place"))
        for (pid, tid), depth, start, end, failed, text, place in zip(ids, depths.tolist(), *columns, strict=True):
            yield Line(start, None if end == _NEVER else end - start, pid, tid, depth, failed, text, place)


def text(
    store: Store,
    zero: int | None,
    nesting: bool,
    place: Callable[[str], str] | None,
    printable: Callable[[str], str],
) -> Iterator[str]:
    """All recorded calls and ranges as lines of text, some lines at a time.

    Times (ns) count from `zero`, None: from the first line. `nesting`: indent calls within others. `place`: the text before a
    call for the place in the program; None: none.
    """
    open_calls = _native.Nesting()
    with closing(ahead(_in_order(store, places=place is not None))) as found:
        for rows in found:
            if zero is None:
                zero = int(rows["start"][0])
            start, end = rows["start"], rows["end"]
            took = np.where(end == _NEVER, end, end - start)
            depths = open_calls.depths(rows["thread"], start, end, rows["nests"]) if nesting else None
            heads = [f"{f'{pid}:{tid}':>15}" for pid, tid in rows["ids"].tolist()]
            shown = {known: place(known) for known in set(rows["place"].tolist())} if place else {}
            for first in range(0, len(start), _AT_ONCE):
                some = slice(first, first + _AT_ONCE)
                yield _native.call_lines(
                    start[some] - np.uint64(zero),
                    took[some],
                    rows["head"][some],
                    heads,
                    None if depths is None else depths[some],
                    rows["text"][some].tolist(),
                    [shown[known] for known in rows["place"][some].tolist()] if place else None,
                    printable,
                )


def _unknown(key: str) -> Function:
    """A function that the model does not have, as in runs that were imported."""
    api, _, name = key.partition(".")
    return Function(api, name, name, "", False, (), None, None, None)


def _in_order(store: Store, places: bool) -> Iterator[Columns]:
    """The rows of all parts by their start, window by window, with `ids` of threads (pid, tid) to which `head` leads."""
    keys = store.functions()
    calls = {key: _select(store, key, store.model.function(*key.split(".", 1)) or _unknown(key)) for key in keys}
    others = [
        "SELECT start_ns, NULL::UBIGINT AS end_ns, process, thread, seq, false AS failed,"
        " function || '(…) never returned' AS text, NULL::UBIGINT AS caller, true AS nests FROM unfinished",
        _RANGES,
    ]
    starts = " UNION ALL ".join(f"SELECT start_ns FROM {table}" for table in ("calls", "unfinished", "ranges"))
    cursor = store.con.cursor()
    spans = _spans(store, keys)
    site, join = "", ""
    if places:
        site = f", coalesce({_PLACE}, '') AS place"
        join = " LEFT JOIN call_sites s ON s.process = c.process AND s.address = c.caller"
        if "python_lines" in store.filled:
            cursor.execute(PYTHON_SOURCES)
            site = f", coalesce(y.source, {_PLACE}, '') AS place"
            join += " LEFT JOIN python_sources y ON y.thread = c.thread AND y.seq = c.seq"
    for begin, end in windows(store.con, starts, _MANY, _FEW):
        # Each function costs time to plan.
        there = [
            f"SELECT *, true AS nests FROM ({calls[key]})"
            for key, (first, last) in spans.items()
            if (begin is None or last >= begin) and (end is None or first < end)
        ]
        rows = cursor.execute(
            f"SELECT c.start_ns::UBIGINT AS start, coalesce(c.end_ns, {_NEVER})::UBIGINT AS end, c.thread::UINTEGER AS thread,"
            f" c.seq::UINTEGER AS seq, c.failed, c.text, c.nests{site}"
            f" FROM (SELECT * FROM ({' UNION ALL '.join(there + others)}) WHERE {between('start_ns', begin, end)}) c{join}"
        ).fetchnumpy()
        known = cursor.execute(
            "SELECT t.thread, p.pid, t.tid FROM threads t JOIN processes p USING (process)"
        ).fetchnumpy()
        rows = {name: np.ma.getdata(values) for name, values in rows.items()}
        if _find_threads(rows, known):
            yield rows


def _find_threads(rows: Columns, known: Columns) -> bool:
    """Sorts rows, adds `ids` and `head`, and leaves out those of unknown threads; whether there are any."""
    threads = np.ma.getdata(known["thread"]).astype(np.int64)
    highest = max(int(threads.max(initial=0)), int(rows["thread"].max(initial=0)))
    slots = np.full(highest + 1, -1, np.int64)
    slots[threads] = np.arange(len(threads))
    head = slots[rows["thread"]]
    zeros = np.zeros(len(head), np.uint64)
    number = rows["thread"].astype(np.uint64) << np.uint64(32) | rows["seq"]
    order = _native.order(zeros, rows["start"], zeros, number)
    if order is not None:
        head = head[order]
        for name in rows:
            rows[name] = rows[name][order]
    if (head < 0).any():
        for name in rows:
            rows[name] = rows[name][head >= 0]
        head = head[head >= 0]
    rows["head"] = head.astype(np.uint32)
    rows["ids"] = np.stack([np.ma.getdata(known[name]).astype(np.int64) for name in ("pid", "tid")], axis=1)
    return len(head) > 0


def _spans(store: Store, keys: Sequence[str]) -> dict[str, tuple[int, int]]:
    """When the first and the last call of each function began (ns)."""
    each = (f"SELECT {sql_text(key)}, min(start_ns), max(start_ns) FROM {sql_name(key)}" for key in keys)
    rows = store.con.execute(" UNION ALL ".join(each)).fetchall() if keys else []
    return {key: (first, last) for key, first, last in rows if first is not None}


def _select(store: Store, key: str, function: Function) -> str:
    """SELECT of one function's calls with their text."""
    fields = store.arguments(key)
    args = {arg.name: arg for arg in function.args}
    enums = store.model.enums.get(function.api, {})
    shown: list[str] = []
    result: list[str] = []
    for field in fields:
        if function.failed and field == function.failed.field and args[field].kind == "name":
            continue  # the error's text is told at the end of the line
        if function.allocates and field == function.allocates.scope:
            continue  # ours, for reports: the OCCA call around it, which is listed
        arg = args.get(field, Arg(field, "uint"))
        value = f"coalesce({_value(f'args.{sql_name(field)}', arg, enums.get(arg.enum or ''))}, '')"
        if function.api == "occa" and field == "kernel":
            query = "SELECT name FROM kernels k WHERE k.process = f.process AND k.id = f.args.kernel"
            value = f"coalesce('\"' || ({query}) || '\"', {value})"
        if field == "ret":
            result = ["' = '", value]
        else:
            shown += [sql_text(("" if not shown else ", ") + field + "="), value]
    failure = "CASE WHEN failed THEN ' FAILED ' || coalesce(error, '') ELSE '' END"
    # Each || would make a text of its own.
    text = f"concat({', '.join([sql_text(function.name + '('), *shown, sql_text(')'), *result, failure])})"
    return f"SELECT start_ns, end_ns, process, thread, seq, failed, {text} AS text, caller FROM {sql_name(key)} f"


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
