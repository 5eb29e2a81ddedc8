"""Parquet files of tables without rows. Most tables of most runs are empty, and DuckDB takes a millisecond and more for each:
half of what a small run's tables cost."""

from __future__ import annotations

from pathlib import Path

from occatrace.core.schema import Table

# DuckDB's type: Parquet's physical type and the ConvertedType that says what is meant, where there is one
# (parquet.thrift of the format; the same as DuckDB writes).
_BOOLEAN, _INT32, _INT64, _DOUBLE, _BYTE_ARRAY = 0, 1, 2, 5, 6
_TYPES: dict[str, tuple[int, int | None]] = {
    "BOOLEAN": (_BOOLEAN, None),
    "INTEGER": (_INT32, 17),
    "UINTEGER": (_INT32, 13),
    "BIGINT": (_INT64, 18),
    "UBIGINT": (_INT64, 14),
    "DOUBLE": (_DOUBLE, None),
    "VARCHAR": (_BYTE_ARRAY, 0),
}
_REQUIRED, _OPTIONAL = 0, 1
_MAGIC = b"PAR1"
# Thrift's compact protocol: a field is its distance to the one before and its type, in a byte.
_I32, _I64, _BINARY, _LIST, _STRUCT, _STOP = 5, 6, 8, 9, 12, b"\0"


def write(file: Path, table: Table) -> None:
    """The table's file, with its columns and no rows."""
    file.write_bytes(content(table))


def is_empty(file: Path) -> bool:
    """Whether a Parquet file has no rows: its footer is all that it has. Anything else, and one that cannot be read, is not."""
    try:
        with open(file, "rb") as opened:
            size = opened.seek(-len(_MAGIC) - 4, 2) + 4 + len(_MAGIC)
            end = opened.read()
    except OSError:  # also of one that is shorter
        return False
    return end[4:] == _MAGIC and int.from_bytes(end[:4], "little") == size - 4 - 2 * len(_MAGIC)


def content(table: Table) -> bytes:
    """The bytes of such a file."""
    columns = b"".join(_element(column.name, *_TYPES[column.type]) for column in table.columns)
    root = _field(3, _I32) + _number(_REQUIRED) + _field(1, _BINARY) + _text("duckdb_schema")
    root += _field(1, _I32) + _number(len(table.columns)) + _STOP
    footer = (
        (_field(1, _I32) + _number(1))  # version
        + (_field(1, _LIST) + _list(len(table.columns) + 1, _STRUCT) + root + columns)
        + (_field(1, _I64) + _number(0))  # rows
        + (_field(1, _LIST) + _list(0, _STRUCT))  # row groups
        + (_field(2, _BINARY) + _text("occatrace"))  # created by
        + _STOP
    )
    return _MAGIC + footer + len(footer).to_bytes(4, "little") + _MAGIC


def _element(name: str, physical: int, converted: int | None) -> bytes:
    said = _field(1, _I32) + _number(physical)
    said += _field(2, _I32) + _number(_OPTIONAL) + _field(1, _BINARY) + _text(name)
    return said + (b"" if converted is None else _field(2, _I32) + _number(converted)) + _STOP


def _field(distance: int, kind: int) -> bytes:
    return bytes([distance << 4 | kind])


def _list(count: int, kind: int) -> bytes:
    return bytes([count << 4 | kind]) if count < 15 else bytes([0xF0 | kind]) + _varint(count)


def _text(text: str) -> bytes:
    return _varint(len(text.encode())) + text.encode()


def _number(value: int) -> bytes:
    return _varint(2 * value)  # zigzag, of what is not negative


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
