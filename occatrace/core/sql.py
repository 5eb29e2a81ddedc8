"""Quoting for SQL, and names of numbers in it."""

from __future__ import annotations

from collections.abc import Mapping


def text(value: str) -> str:
    """A text literal."""
    return "'" + value.replace("'", "''") + "'"


def name(value: str) -> str:
    """A quoted identifier."""
    return '"' + value.replace('"', '""') + '"'


def enum_case(column: str, names: Mapping[str, int]) -> str:
    """What names a value; null where it has no name."""
    whens = {value: key for key, value in reversed(list(names.items()))}
    if not whens:
        return "NULL::VARCHAR"
    # One after the other is compared with the rows that are left: 0, success, with most of them.
    order = sorted(whens.items(), key=lambda pair: pair[0] != 0)
    return f"CASE {column} " + " ".join(f"WHEN {value} THEN {text(key)}" for value, key in order) + " END"


def bit_names(column: str, names: Mapping[str, int]) -> str:
    """Names of the bits that are set, and what is left over in hexadecimal."""
    single = {key: value for key, value in names.items() if value and not value & (value - 1)}
    known = 0
    for value in single.values():
        known |= value
    parts = [f"CASE WHEN {column} & {value} != 0 THEN {text(key)} END" for key, value in single.items()]
    rest = f"{column} & ~{known}::UBIGINT" if known else column
    parts.append(f"CASE WHEN {rest} != 0 THEN printf('0x%x', {rest}) END")
    joined = f"concat_ws('|', {', '.join(parts)})"
    # A value with a name of its own, such as "all", is told by it.
    whole = {key: value for key, value in names.items() if key not in single}
    if whole:
        return f"coalesce({enum_case(column, whole)}, {joined})"
    return f"CASE {column} WHEN 0 THEN '0' ELSE {joined} END"
