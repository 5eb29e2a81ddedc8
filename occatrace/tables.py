"""The store of a run: `RUN/tables/*.parquet`, made once from the trace, opened at once later, as a DuckDB connection.

Reports, queries and the timeline see tables only; this module alone knows that there is a trace behind them.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from occatrace import __version__, reports
from occatrace import model as model_module
from occatrace.calls import CallsWriter
from occatrace.ingest import FirstPass, HostTrace, Reader
from occatrace.model import Model
from occatrace.run import RunError
from occatrace.schema import CALLS, SCHEMA_VERSION, TABLES, Table
from occatrace.sql import name as sql_name
from occatrace.sql import text as sql_text

MEMORY_LIMIT = "256MB"  # of DuckDB; the rest of the 512 MB is for the decoder's batches and Python itself
BATCH_ROWS = 1 << 18

OpenTrace = Callable[[Path, Sequence[str] | None], Reader]


class StoreError(RunError):
    """The tables of a run cannot be made or opened; the message says why and what to do."""


def native_reader(path: Path, events: Sequence[str] | None) -> Reader:
    """The real thing: `occatrace._native.Reader`."""
    from occatrace import _native

    threads = len(os.sched_getaffinity(0))
    try:
        reader: Reader = _native.Reader(str(path), threads=threads, batch_rows=BATCH_ROWS, events=events)
    except _native.TraceError as error:
        raise StoreError(f"the trace cannot be read: {error}") from error
    return reader


def connect(temporary: Path | None = None) -> duckdb.DuckDBPyConnection:
    """A DuckDB connection within our memory."""
    config: dict[str, Any] = {
        "memory_limit": MEMORY_LIMIT,
        "threads": len(os.sched_getaffinity(0)),
        "preserve_insertion_order": False,
    }
    if temporary:
        config["temp_directory"] = str(temporary)
    return duckdb.connect(config=config)


@dataclass
class Store:
    """The open tables of one run. Call `close` at the end, or use it as a context."""

    run: Path
    con: duckdb.DuckDBPyConnection
    model: Model
    problems: Sequence[str]
    path: Path
    _open_trace: OpenTrace
    _temporary: Path
    _calls: tuple[str, ...] | None = None

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give everything back."""
        self.con.close()
        shutil.rmtree(self._temporary, ignore_errors=True)

    @property
    def scratch(self) -> Path:
        """A folder for temporary files, gone with the store."""
        return self._temporary

    def functions(self) -> tuple[str, ...]:
        """Open the single calls: view `calls`, and one view per function ("opencl.clFinish"). Made at the first use."""
        if self._calls is None:
            folder = self.path / "calls"
            if not folder.is_dir():
                # A private copy of the tables (of somebody else's run) needs no lock.
                with _locked(self.run) if self.path.parent == self.run else nullcontext():
                    if not folder.is_dir():
                        self._write_calls(folder)
            self._calls = tuple(sorted(p.name for p in folder.iterdir() if p.is_dir()))
            common = ", ".join(c.name for c in CALLS.columns)
            parts = []
            for name in self._calls:
                api, _, function = name.partition(".")
                files = sql_text(str(folder / name / "*.parquet"))
                self.con.execute(f"CREATE OR REPLACE VIEW {sql_name(name)} AS SELECT * FROM read_parquet({files})")
                shown = self.model.tally_function(f"{api}:{function}")[1]
                parts.append(
                    f"SELECT {sql_text(api)} AS api, {sql_text(shown)} AS function, {common} FROM {sql_name(name)}"
                )
            empty = f"SELECT NULL::VARCHAR AS api, NULL::VARCHAR AS function, {_nulls(CALLS.columns)} WHERE false"
            self.con.execute(f"CREATE OR REPLACE VIEW calls AS {' UNION ALL '.join(parts or [empty])}")
        return self._calls

    def _write_calls(self, folder: Path) -> None:
        traces = _host_traces(self.run, self._open_trace)
        if not traces:
            raise StoreError(f"{self.run}: the trace is gone, so the single calls cannot be shown; summaries still can")
        partial = folder.with_name(f"calls.partial-{os.getpid()}")
        try:
            CallsWriter(self.con, self.model, partial).run(traces)
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _nulls(columns: Sequence[Any]) -> str:
    return ", ".join(f"NULL::{c.type} AS {c.name}" for c in columns)


def _host_traces(run: Path, open_trace: OpenTrace) -> list[HostTrace]:
    """The trace of each host, in the order of their names."""
    trace = run / "trace"
    if not trace.is_dir():
        return []

    def opener(path: Path) -> HostTrace:
        return HostTrace(path.name, lambda events: open_trace(path, events))

    return [opener(path) for path in sorted(trace.iterdir()) if path.is_dir()]


@contextmanager
def _locked(run: Path) -> Iterator[None]:
    """One writer of a run's tables at a time; it ends with the process, however that ends."""
    with (run / ".tables.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _manifest(path: Path) -> Mapping[str, Any] | None:
    try:
        manifest: Mapping[str, Any] = json.loads((path / "tables.json").read_text(encoding="utf-8"))
        schema = manifest["schema"] + 0
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise StoreError(f"{path} is a file, where the tables of the run should be: remove it") from None
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(f"{path}: tables.json is damaged ({error}); remove {path} to make the tables again") from error
    return {**manifest, "schema": schema}


def open_store(run: Path, *, model: Model | None = None, open_trace: OpenTrace = native_reader) -> Store:
    """The tables of a run; made from its trace where they are not there yet, or are those of an older version."""
    model = model or model_module.load()
    path = run / "tables"
    temporary = Path(tempfile.mkdtemp(prefix="occatrace-"))
    try:
        con = connect(temporary)
        problems = None
        if _to_be_made(run, path):
            if not os.access(run, os.W_OK):
                # Somebody else's run: work on a private copy of the tables, gone when we are.
                path = temporary / "tables"
                problems = _build(run, path, con, model, open_trace)
            else:
                with _locked(run):
                    if _to_be_made(run, path):
                        problems = _build(run, path, con, model, open_trace)
        if problems is None:
            problems = _reopen(path, con)
        reports.prepare(con)
        return Store(run, con, model, problems, path, open_trace, temporary)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _to_be_made(run: Path, path: Path) -> bool:
    """Whether there are no tables, or older ones that can be made again. Raises a StoreError for newer ones."""
    manifest = _manifest(path)
    if manifest is None:
        return True
    schema = manifest["schema"]
    if schema > SCHEMA_VERSION:
        raise StoreError(
            f"{path}: made by {_maker(manifest)} (tables of version {schema}; this one, {__version__}, reads up to"
            f" {SCHEMA_VERSION}): update occatrace, or remove {path} to make them again from the trace"
        )
    return bool(schema < SCHEMA_VERSION and (run / "trace").is_dir() and any((run / "trace").iterdir()))


def _maker(manifest: Mapping[str, Any]) -> str:
    version = manifest.get("version")
    return f"occatrace {version}" if version else "an occatrace that does not say its version"


def _build(
    run: Path,
    path: Path,
    con: duckdb.DuckDBPyConnection,
    model: Model,
    open_trace: OpenTrace,
    host: str | None = None,
) -> Sequence[str]:
    """Tables from the traces of all hosts, or of one."""
    traces = [trace for trace in _host_traces(run, open_trace) if host in (None, trace.host)]
    if not traces:
        raise StoreError(f"{run}: neither tables nor a trace in it; is this the folder of a run?")
    problems = FirstPass(con, model).run(traces)
    partial = path.with_name(f"tables.partial-{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(mode=0o700)
    try:
        for table in TABLES:
            file = sql_text(str(partial / f"{table.name}.parquet"))
            con.execute(f"COPY {table.name} TO {file} (FORMAT parquet, COMPRESSION zstd)")
        manifest = {"schema": SCHEMA_VERSION, "version": __version__, "problems": list(problems)}
        (partial / "tables.json").write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        older = path.with_name(f"tables.older-{os.getpid()}")
        if path.exists():
            path.rename(older)
        partial.rename(path)
        shutil.rmtree(older, ignore_errors=True)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return problems


def build_node(run: Path, host: str, path: Path) -> None:
    """The tables of one node of a job, from its own trace alone."""
    temporary = Path(tempfile.mkdtemp(prefix=".occatrace-", dir=run))
    try:
        with connect(temporary) as con:
            _build(run, path, con, model_module.load(), native_reader, host)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _reopen(path: Path, con: duckdb.DuckDBPyConnection) -> Sequence[str]:
    """Open the tables that are there; those of an older version, without a trace to make them again, as far as they go."""
    manifest = _manifest(path) or {}
    older = manifest.get("schema", 0) < SCHEMA_VERSION
    lacking = []
    for table in TABLES:
        file = path / f"{table.name}.parquet"
        if older and not file.exists():
            lacking.append(table.name)
            con.execute(f"CREATE TABLE {table.name} ({table.ddl()})")
            continue
        try:
            con.execute(f"CREATE VIEW {table.name} AS {_columns_of(con, table, file)}")
        except duckdb.Error as error:
            reason = "is missing" if not file.exists() else f"is damaged ({str(error).splitlines()[0]})"
            raise StoreError(f"{file} {reason}; remove {path} to make the tables again from the trace") from error
    problems = list(manifest.get("problems", ()))
    if older:
        empty = f": nothing is known of {', '.join(lacking)}" if lacking else ""
        problems.append(
            f"the tables were made by {_maker(manifest)}, of version {manifest.get('schema')} (now {SCHEMA_VERSION}), and the"
            f" trace is gone{empty}"
        )
    return problems


def _columns_of(con: duckdb.DuckDBPyConnection, table: Table, file: Path) -> str:
    """SELECT of a table's columns from its file; one that the file does not have is null."""
    source = f"read_parquet({sql_text(str(file))})"
    there = {row[0] for row in con.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
    columns = (sql_name(c.name) if c.name in there else f"NULL::{c.type} AS {sql_name(c.name)}" for c in table.columns)
    return f"SELECT {', '.join(columns)} FROM {source}"
