"""Second pass over a trace: every single call with its typed arguments, one Parquet dataset per function.

It runs only when somebody asks for single calls; the threads, processes and names are known from the first pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from occatrace.core import progress
from occatrace.core.duck import duckdb
from occatrace.core.model import Function, Model
from occatrace.core.schema import CALLS
from occatrace.core.sql import enum_case
from occatrace.core.sql import name as sql_name
from occatrace.core.sql import text as sql_text
from occatrace.ingest import HostTrace, Reader, ThreadMap, texts_of

_PART_ROWS = 1 << 20  # rows of one Parquet file, where it is put together from small batches
_DIRECT_ROWS = 1 << 16  # a batch of so many rows is a file of its own: collecting it first would double the work
# Small groups of rows are short in time, so a reader of a window of time skips most of a file.
_FORMAT = "FORMAT parquet, PARQUET_VERSION V2, COMPRESSION zstd, COMPRESSION_LEVEL 1, ROW_GROUP_SIZE 16384"
_SHORT = 16  # arrays up to this length are built from columns, longer ones by grouping
_HEADER = ("tid", "seq", "start", "caller", "ts")


@dataclass
class _Sink:
    """Rows of one function on their way to its dataset."""

    function: Function
    table: str
    folder: Path
    rows: int = 0
    parts: int = 0


class CallsWriter:
    """Writes `folder/<api>.<function>/<part>.parquet`. DuckDB holds the rows of unfinished parts, and spills them."""

    def __init__(self, con: duckdb.DuckDBPyConnection, model: Model, folder: Path) -> None:
        self._con = con
        self._model = model
        self._folder = folder
        self._sinks: dict[str, _Sink] = {}

    def run(self, traces: Iterable[HostTrace]) -> None:
        """Read all hosts' calls."""
        self._folder.mkdir(mode=0o700)
        first = 0
        apis = self._con.execute("SELECT DISTINCT api FROM call_stats").fetchall()
        events = self._model.call_events(api for (api,) in apis)
        for trace in traces:
            threads, process_of = self._threads(first)
            reader = trace.open(events)
            for event, columns in (
                part for b in progress.along(reader) for part in self._model.by_function(b.event, b.columns)
            ):
                function = self._model.by_event.get(event)
                if function and len(columns["ts"]):
                    self._add(function, columns, threads, process_of, reader)
            first += len(process_of)
        for sink in self._sinks.values():
            self._flush(sink)
            self._con.execute(f"DROP TABLE {sink.table}")

    def _threads(self, first: int) -> tuple[ThreadMap, npt.NDArray[np.uint32]]:
        """The threads of one host as the first pass numbered them (from `first` on), and the process of each."""
        rows = self._con.execute(
            "SELECT t.tid, t.start_ns, t.process, p.trace FROM threads t JOIN processes p USING (process)"
            " WHERE t.thread > ? ORDER BY t.thread",
            [first],
        ).fetchall()
        rows = [row for row in rows if row[3] == rows[0][3]]
        return ThreadMap.known(first, [(row[0], row[1]) for row in rows]), np.array([row[2] for row in rows], np.uint32)

    def _add(
        self,
        function: Function,
        columns: Mapping[str, npt.NDArray[Any]],
        threads: ThreadMap,
        process_of: npt.NDArray[np.uint32],
        reader: Reader,
    ) -> None:
        slots = threads.of(columns["tid"], columns["ts"])
        batch = _Select()
        batch.column("process", process_of[np.minimum(slots - threads.first, len(process_of) - 1)])
        batch.column("thread", slots + np.int32(1))
        batch.column("seq", columns["seq"])
        batch.column("start_ns", np.minimum(columns["start"], columns["ts"]))
        batch.column("end_ns", columns["ts"])
        self._failure(batch, function, columns)
        if function.bytes and function.bytes in columns:
            batch.column("bytes", columns[function.bytes])
        if "caller" in columns:
            batch.column("caller", columns["caller"])
            batch.expressions["caller"] = "nullif(batch.caller, 0)"
        batch.args(function, columns, reader)
        key = f"{function.api}.{function.key}"
        sink = self._sinks.get(key)
        self._con.register("batch", batch.columns)
        if sink is None:
            sink = self._sinks[key] = _Sink(function, f"calls_{len(self._sinks)}", self._folder / key)
            sink.folder.mkdir(mode=0o700)
            self._con.execute(f"CREATE TABLE {sink.table} AS {batch.sql()} LIMIT 0")
        if len(slots) >= _DIRECT_ROWS:
            self._write(sink, batch.sql())
            self._con.unregister("batch")
            return
        self._con.execute(f"INSERT INTO {sink.table} BY NAME {batch.sql()}")
        self._con.unregister("batch")
        sink.rows += len(slots)
        if sink.rows >= _PART_ROWS:
            self._flush(sink)

    def _failure(self, batch: _Select, function: Function, columns: Mapping[str, npt.NDArray[Any]]) -> None:
        failed = function.failed
        if not failed or failed.field not in columns:
            return
        mask = failed.mask(columns[failed.field])
        batch.column("failed", mask)
        if not mask.any():
            return
        column = batch.hidden(columns[failed.field])
        arg = next((a for a in function.args if a.name == failed.field), None)
        enum = self._model.enums.get(function.api, {}).get(arg.enum) if arg and arg.enum else None
        if arg and arg.kind == "name":
            value = batch.name_of(column)
        elif enum:
            value = f"coalesce({enum_case(column, enum.values)}, {column}::VARCHAR)"
        else:
            value = f"{column}::VARCHAR"
        batch.expressions["error"] = f"CASE WHEN failed THEN {value} END"

    def _flush(self, sink: _Sink) -> None:
        if not sink.rows:
            return
        self._write(sink, f"FROM {sink.table}")
        self._con.execute(f"TRUNCATE {sink.table}")
        sink.rows = 0

    def _write(self, sink: _Sink, rows: str) -> None:
        file = sql_text(str(sink.folder / f"{sink.parts:04}.parquet"))
        self._con.execute(f"COPY ({rows}) TO {file} ({_FORMAT})")
        sink.parts += 1


class _Select:
    """A SELECT over one batch, put together column by column."""

    def __init__(self) -> None:
        self.columns: dict[str, npt.NDArray[Any]] = {}
        self.expressions = {
            "failed": "false",
            "error": "NULL::VARCHAR",
            "bytes": "NULL::UBIGINT",
            "caller": "NULL::UBIGINT",
        }
        self._args: dict[str, str] = {}
        self._joins: list[str] = []

    def column(self, name: str, values: npt.NDArray[Any]) -> None:
        """A column as it is."""
        self.columns[name] = values
        self.expressions[name] = f"batch.{name}"

    def hidden(self, values: npt.NDArray[Any]) -> str:
        """A column for use in an expression."""
        name = f"c{len(self.columns)}"
        self.columns[name] = values
        return name

    def name_of(self, column: str) -> str:
        """The interned name of a column's ids."""
        alias = f"n{len(self._joins)}"
        self._joins.append(f"LEFT JOIN names {alias} ON {alias}.process = batch.process AND {alias}.id = {column}")
        return f"{alias}.text"

    def args(self, function: Function, columns: Mapping[str, npt.NDArray[Any]], reader: Reader) -> None:
        """All fields of the event that are the function's own."""
        kinds = {arg.name: arg.kind for arg in function.args}
        fields = reader.schema.get(function.event, {})
        for field in columns:
            if field in _HEADER or "." in field:
                continue
            values = columns[field]
            if fields.get(field) == "str":
                self._args[field] = self.hidden(texts_of(values, reader))
            elif f"{field}.values" in columns:
                self._args[field] = self._list(values, columns[f"{field}.values"])
            elif kinds.get(field) == "name":
                self._args[field] = self.name_of(self.hidden(values))
            else:
                self._args[field] = self.hidden(values)

    def _list(self, offsets: npt.NDArray[Any], values: npt.NDArray[Any]) -> str:
        offsets = offsets.astype(np.int64)
        lengths = np.diff(offsets)
        longest = int(lengths.max()) if len(lengths) else 0
        count = self.hidden(lengths)
        if longest <= _SHORT:
            # Column by column, padded, then cut to length: all vectorized in DuckDB.
            padded = np.concatenate([values, np.zeros(longest + 1, values.dtype)])
            parts = [self.hidden(padded[offsets[:-1] + i]) for i in range(max(longest, 1))]
            return f"[{', '.join(parts)}][1:{count}]"
        rows = np.empty(len(lengths), object)
        for i in range(len(lengths)):
            rows[i] = values[offsets[i] : offsets[i + 1]]
        return self.hidden(rows)

    def sql(self) -> str:
        """The statement."""
        parts = [f"({self.expressions[c.name]})::{c.type} AS {c.name}" for c in CALLS.columns]
        if self._args:
            parts.append("{" + ", ".join(f"{sql_name(k)}: {v}" for k, v in self._args.items()) + "} AS args")
        return f"SELECT {', '.join(parts)} FROM batch {' '.join(self._joins)}"
