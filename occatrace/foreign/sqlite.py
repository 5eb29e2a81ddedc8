"""SQLite files of strangers, column by column: read-only, ordinary tables alone, every value of the type that it should have."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from occatrace import _native
from occatrace.core.checked import printable
from occatrace.core.sql import name as sql_name
from occatrace.errors import RunError
from occatrace.foreign.staging import NULL

MAGIC = b"SQLite format 3\0"
LATEST = 1 << 61  # ns: no clock shows more
_BATCH = 1 << 16
_LONGEST = 64 << 20  # bytes of a value
_LIMIT_LENGTH = 0  # SQLITE_LIMIT_LENGTH
_SETTINGS = tuple(
    f"PRAGMA {pragma}"
    for pragma in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON", "mmap_size = 0")
)

Columns = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Column:
    """A column that is wanted. `kind`: time, int, size (not negative), text, or any (a number or text, as text)."""

    name: str
    kind: str = "int"
    required: bool = False


def columns(text: str) -> tuple[Column, ...]:
    """Columns from words: `start:time!` is a time that the table must have."""
    out = []
    for word in text.split():
        name, _, kind = word.rstrip("!").partition(":")
        out.append(Column(name, kind or "int", word.endswith("!")))
    return tuple(out)


class Database:
    """One SQLite file. Close it at the end, or use it as a context."""

    def __init__(self, path: Path) -> None:
        """Raises a RunError for what cannot be read."""
        self._path = path
        for suffix in ("-wal", "-journal"):
            beside = path.with_name(path.name + suffix)
            if beside.is_file() and beside.stat().st_size:
                raise RunError(
                    f"{beside} holds changes that are not in {path.name} yet: close the program that writes it"
                )
        # Immutable: no locks and no files beside it. Its schema may name no function that does anything.
        self._uri = f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"
        try:
            self._con = sqlite3.connect(self._uri, uri=True, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise RunError(f"{path}: cannot be read as SQLite ({error})") from None
        if hasattr(self._con, "setlimit"):  # Python 3.11
            self._con.setlimit(_LIMIT_LENGTH, _LONGEST)
        self._con.text_factory = lambda raw: raw.decode("utf-8", "backslashreplace").replace("\0", "")
        try:
            for setting in _SETTINGS:
                self._con.execute(setting)
            rows = self._con.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
        except (sqlite3.Error, OverflowError) as error:
            self._con.close()
            raise self._damaged(error) from None
        # A virtual table is a program of its own.
        self.tables = frozenset(
            name
            for name, sql in rows
            if isinstance(name, str) and isinstance(sql, str) and sql.upper().split()[:2] == ["CREATE", "TABLE"]
        )

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self._con.close()

    def _damaged(self, error: Exception) -> RunError:
        return RunError(f"{self._path}: the database is damaged or no SQLite file ({printable(str(error))})")

    def columns_of(self, table: str) -> frozenset[str]:
        """Names of a table's columns, without generated ones."""
        try:
            return frozenset(row[1] for row in self._con.execute(f"PRAGMA table_info({sql_name(table)})").fetchall())
        except sqlite3.Error as error:
            raise self._damaged(error) from None

    def batches(self, table: str, wanted: Sequence[Column], where: str = "") -> Iterator[Columns]:
        """The rows of a table, batch by batch. `table`, `wanted` and `where` (SQL) are words of ours, or checked. A column that
        the table does not have is NULL; raises a RunError for a required one, and for values of another type."""
        there = self.columns_of(table)
        for column in wanted:
            if column.required and column.name not in there:
                raise RunError(
                    f"{self._path}: table {table} has no column {column.name}, without which it means nothing"
                )
        found = [column for column in wanted if column.name in there]
        shown = [
            sql_name(c.name)
            if c.required or c.kind in ("text", "any")
            else f"ifnull({sql_name(c.name)}, {NULL + 1} - 1)"
            for c in found
        ]
        query = f"SELECT {', '.join(shown)} FROM {sql_name(table)}{f' WHERE {where}' if where else ''}"
        numbers = all(column.kind not in ("text", "any") for column in found)
        if found and numbers and _native.has_sqlite():
            yield from self._numbers(table, wanted, found, query)
        else:
            yield from self._values(table, wanted, found, query)

    def _numbers(self, table: str, wanted: Sequence[Column], found: Sequence[Column], query: str) -> Iterator[Columns]:
        """Rows of whole numbers alone, without an object for each."""
        try:
            for arrays in _native.SqliteNumbers(self._uri, _SETTINGS, query, _BATCH):
                out: Columns = {column.name: values for column, values in zip(found, arrays, strict=True)}
                yield self._complete(table, wanted, out, len(arrays[0]))
        except RuntimeError as error:
            raise self._damaged(error) from None
        except ValueError:
            # Which value it is.
            for _ in self._values(table, wanted, found, query):
                pass
            raise

    def _values(self, table: str, wanted: Sequence[Column], found: Sequence[Column], query: str) -> Iterator[Columns]:
        try:
            cursor = self._con.execute(query)
            while rows := cursor.fetchmany(_BATCH):
                yield self._batch(table, wanted, found, rows)
        except (sqlite3.Error, OverflowError) as error:
            raise self._damaged(error) from None

    def rows(self, table: str, wanted: Sequence[Column]) -> Iterator[tuple[Any, ...]]:
        """The rows of a small table; numbers without value are None."""
        for batch in self.batches(table, wanted):
            lists = [
                [None if v == NULL else v for v in batch[c.name].tolist()]
                if c.kind not in ("text", "any")
                else batch[c.name].tolist()
                for c in wanted
            ]
            yield from zip(*lists, strict=True)

    def _batch(self, table: str, wanted: Sequence[Column], found: Sequence[Column], rows: list[Any]) -> Columns:
        out: Columns = {}
        if all(column.kind not in ("text", "any") for column in found):
            try:
                flat = np.frombuffer(array("q", chain.from_iterable(rows)), np.int64)
            except (TypeError, OverflowError):
                raise self._wrong(table, found, rows) from None
            for at, column in enumerate(found):
                out[column.name] = np.ascontiguousarray(flat.reshape(len(rows), len(found))[:, at])
        else:
            for column, values in zip(found, zip(*rows, strict=True), strict=True):
                if column.kind == "text" and all(
                    isinstance(v, str) or (v is None and not column.required) for v in values
                ):
                    out[column.name] = np.array(values, object)
                elif column.kind == "any" and not any(isinstance(v, bytes) for v in values):
                    out[column.name] = np.array([None if v is None else str(v) for v in values], object)
                elif column.kind in ("text", "any"):
                    raise self._wrong(table, found, rows)
                else:
                    try:
                        out[column.name] = np.array(array("q", values), np.int64)
                    except (TypeError, OverflowError):
                        raise self._wrong(table, found, rows) from None
        return self._complete(table, wanted, out, len(rows))

    def _complete(self, table: str, wanted: Sequence[Column], out: Columns, count: int) -> Columns:
        """With the columns that the table does not have, checked."""
        for column in wanted:
            if column.name not in out:
                empty = None if column.kind in ("text", "any") else NULL
                out[column.name] = np.full(count, empty, object if empty is None else np.int64)
        self._check(table, wanted, out)
        return out

    def _check(self, table: str, wanted: Sequence[Column], batch: Mapping[str, npt.NDArray[Any]]) -> None:
        for column in wanted:
            if column.kind not in ("time", "size"):
                continue
            values = batch[column.name]
            if values.dtype == object:
                continue
            absent = values == NULL
            low = -LATEST if column.kind == "time" else 0 if column.kind == "size" else NULL
            bad = ~absent & ((values < low) | ((values > LATEST) & (column.kind == "time")))
            if bad.any():
                value = int(values[bad][0])
                raise RunError(f"{self._path}: table {table}: {column.name} is {value}, which cannot be")

    def _wrong(self, table: str, found: Sequence[Column], rows: list[Any]) -> RunError:
        """For the first value of another type."""
        for row in rows:
            for column, value in zip(found, row, strict=True):
                kinds = {"text": (str,), "any": (str, int, float)}.get(column.kind, (int,))
                if not isinstance(value, kinds) and (value is not None or column.required):
                    what = {"text": "text", "any": "text or a number"}.get(column.kind, "a whole number")
                    shown = "NULL" if value is None else printable(repr(value))[:40]
                    return RunError(f"{self._path}: table {table}: {column.name} is {shown}, not {what}")
        return RunError(f"{self._path}: table {table} cannot be read")
