"""The store of a run: `RUN/tables/*.parquet`, made once from the trace, opened at once later, as a DuckDB connection.

Reports, queries and the timeline see tables only; this module alone knows that there is a trace behind them.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from occatrace import __version__
from occatrace.core import disk, files, halfway, progress, scratch
from occatrace.core import model as model_module
from occatrace.core.duck import duckdb
from occatrace.core.model import Model
from occatrace.core.schema import BY_NAME, CALLS, MOMENTS, SCHEMA_VERSION, TABLES, Table
from occatrace.core.sql import name as sql_name
from occatrace.core.sql import text as sql_text
from occatrace.errors import RunError, StoreError
from occatrace.run.folder import is_writable, run_facts
from occatrace.run.liveness import is_held, is_recorded, unended
from occatrace.run.nodes import node_tables
from occatrace.run.opening import open_run
from occatrace.store import call_files, captures, empty, memory
from occatrace.store.macros import macros, place_in_python, prepare, sum_in_python
from occatrace.store.made import Made, read_made, write_made

if TYPE_CHECKING:
    # What makes tables is loaded where they are made: mostly they are there.
    from occatrace.ingest import FirstPass, HostTrace, Reader
    from occatrace.ingest.reading import Batch
    from occatrace.store.losses import Losses
    from occatrace.store.moment import Moment

_BLOCK = 4096
POLL_S = 0.02
PATIENCE_S = 10.0
SMALL = 8 << 20  # bytes of a run below which one thread serves
BATCH_ROWS = 1 << 18
# A table is read at once if its file has no more bytes and it has no more rows: a query over a file takes longer to plan, and
# a summary has a hundred. Rows are counted, as a stranger's file may be small and have any number of them.
_READ_BYTES = 1 << 16
_HELD_ROWS = 1 << 14
_SINCE = "since"  # in the folder of single calls: from when on there are any

OpenTrace = Callable[[Path, Sequence[str] | None], "Reader"]


@dataclass(frozen=True)
class _Nothing:
    """The reader of a trace that LTTng came to write nothing to."""

    strings: Sequence[bytes | str] = ()
    schema: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    problems: Sequence[str] = ()

    def __iter__(self) -> Iterator[Batch]:
        return iter(())


def native_reader(
    path: Path, events: Sequence[str] | None, spans: Mapping[str, tuple[int, int]] = MappingProxyType({})
) -> Reader:
    """The real thing: `occatrace._native.Reader`."""
    if not _has_files(path):
        return _Nothing()
    from occatrace import _native

    threads = len(os.sched_getaffinity(0))
    try:
        reader: Reader = _native.Reader(
            str(path), threads=threads, batch_rows=BATCH_ROWS, events=events, spans=dict(spans)
        )
    except _native.TraceError as error:
        raise StoreError(f"the trace cannot be read: {error}") from error
    return reader


_ahead: list[duckdb.DuckDBPyConnection] = []
_making = threading.Lock()


def connect_ahead() -> None:
    """Make the next connection now, with the macros of the reports: 30 ms, in a thread while the program still runs."""
    with _making:
        con = _connection()
        macros(con)
        _ahead.append(con)


def _connection() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect(config={"memory_limit": memory.LIMIT, "threads": 1, "preserve_insertion_order": False})
    # Each query over a view reads how its files are laid out, and a report has many views over the same ones.
    con.execute("SET parquet_metadata_cache = true")
    # An ASOF join is made by comparing all rows where the left side is estimated below 64 rows. After joins and filters that is
    # often wrong: 17,000 messages and 64,000 calls took 7 s instead of 0.1.
    with suppress(duckdb.CatalogException):  # before DuckDB 1.3 it never is
        con.execute("SET asof_loop_join_threshold = 0")
    # It would write into the standard output, where the report goes, as soon as a query takes two seconds. In a notebook
    # without ipywidgets DuckDB has no bar, and refuses to be told so.
    with suppress(duckdb.InvalidInputException):
        con.execute("SET enable_progress_bar = false")
    return con


def connect(temporary: Path | None = None, small: bool = False) -> duckdb.DuckDBPyConnection:
    """A DuckDB connection within our memory. `small`: with one thread, as more cost time where there are few rows."""
    with _making:
        con = _ahead.pop() if _ahead else _connection()
    if temporary:
        con.execute(f"SET temp_directory = {sql_text(str(temporary))}")
    if not small:
        con.execute(f"SET threads = {len(os.sched_getaffinity(0))}")
        # Memory that a query has freed goes back to the system within a second; else a large run's stays with the process.
        con.execute("SET allocator_background_threads = true")
    return con


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
    _moment: Moment | None = None  # of a run that goes on
    _calls: tuple[str, ...] | None = None
    _calls_folder: Path | None = None
    _shut: bool = False
    # What was computed of the run and is wanted again, by its name.
    kept: dict[str, Any] = field(default_factory=dict)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give everything back."""
        self.con.close()
        if self._moment:
            self._moment.close()
        halfway.remove_path(self._temporary)

    def losses(self, facts: Mapping[str, Any]) -> Losses:
        """What the run is missing; `facts`: its run.json."""
        from occatrace.store import losses

        return losses.read(self.con, self.problems, facts, self.partial)

    @property
    def partial(self) -> str | None:
        """Of a run that goes on: a line that says so."""
        return self._moment.words if self._moment else None

    def shut(self) -> None:
        """From now on SQL reaches no file but the run's tables and ours, and loads nothing: for queries of others."""
        if not self._shut:
            folders = ", ".join(sql_text(str(path.resolve())) for path in (self.path, self._temporary))
            self.con.execute(f"SET allowed_directories = [{folders}]")
            self.con.execute("SET enable_external_access = false")
            self.con.execute("SET lock_configuration = true")
            self._shut = True

    @cached_property
    def zero(self) -> int:
        """The moment from which all views count: the first call, range or work, in ns of the host's clock."""
        return int(self.con.execute("SELECT run_zero()::BIGINT").fetchall()[0][0])

    @cached_property
    def ranks(self) -> int:
        """How many ranks were recorded; 0: the run is no job."""
        return int(self.con.execute("SELECT count(DISTINCT rank) FROM processes").fetchall()[0][0])

    @cached_property
    def filled(self) -> frozenset[str]:
        """The tables that have rows."""
        files = ((table.name, self.path / f"{table.name}.parquet") for table in TABLES)
        return frozenset(name for name, file in files if file.exists() and not empty.is_empty(file))

    @cached_property
    def memory_groups(self) -> int:
        """How many kinds of memory operations there are. Afterwards the view of their numbers is a table, and so is that of the
        operations if they are few: a query over memory operations reads them many times, and as views they are planned and
        made each time."""
        groups = self._hold("memory_groups")
        ((rows,),) = self.con.execute(
            "SELECT (SELECT count(*) FROM activities) + (SELECT count(*) FROM occa_copies)"
        ).fetchall()
        if rows <= _HELD_ROWS:
            self._hold("memory_operations")
        return groups

    def _hold(self, view: str) -> int:
        """Let a shared view be a table with its rows; returns how many these are."""
        ((rows,),) = self.con.execute(f"CREATE OR REPLACE TEMP TABLE held AS FROM {view}").fetchall()
        self.con.execute(f"DROP VIEW {view}; ALTER TABLE held RENAME TO {view}")
        return int(rows)

    @property
    def scratch(self) -> Path:
        """A folder for temporary files, gone with the store."""
        return self._temporary

    def arguments(self, view: str) -> tuple[str, ...]:
        """Names of the arguments that this run has of the function of a view: an imported run has fewer than the model."""
        described = self.con.execute(f"SELECT * FROM {sql_name(view)} LIMIT 0").description or ()
        if not any(column[0] == "args" for column in described):
            return ()
        names = self.con.execute(f"SELECT unnest(struct_keys(args)) FROM (SELECT args FROM {sql_name(view)} LIMIT 1)")
        return tuple(row[0] for row in names.fetchall())

    def functions(self) -> tuple[str, ...]:
        """Open the single calls: view `calls`, and one view per function ("opencl.clFinish"). Made at the first use."""
        if self._calls is None:
            folder = self.path / "calls"
            if not folder.is_dir():
                own = self.path.parent != self.run
                if not own and not is_writable(self.run):
                    own, folder = True, self._temporary / "calls"
                # Private copies (of somebody else's run) need no lock.
                with nullcontext() if own else _locked(self.run):
                    if not folder.is_dir():
                        self._write_calls(folder)
            self._calls_folder = folder
            self._calls = tuple(sorted(p.name for p in folder.iterdir() if p.is_dir()))
            if (folder / _SINCE).exists():
                since = (folder / _SINCE).read_text(encoding="utf-8")
                self.problems = [
                    *self.problems,
                    f"--stream: there are single calls from {since} on, those before are deleted",
                ]
            common = ", ".join(c.name for c in CALLS.columns)
            differ = _clocks_differ(self.con)
            parts, enqueuing, imported = [], [], _is_imported(self.run)
            for name in self._calls:
                api, _, function = name.partition(".")
                files = sql_text(str(folder / name / "*.parquet"))
                rows = _aligned(CALLS, f"read_parquet({files})", differ)
                self.con.execute(f"CREATE OR REPLACE VIEW {sql_name(name)} AS {rows}")
                shown = self.model.tally_function(f"{api}:{function}")[1]
                parts.append(
                    f"SELECT {sql_text(api)} AS api, {sql_text(shown)} AS function, {common} FROM {sql_name(name)}"
                )
                if imported or self._enqueues(api, function):
                    enqueuing.append(parts[-1])
            empty = f"SELECT NULL::VARCHAR AS api, NULL::VARCHAR AS function, {_nulls(CALLS.columns)} WHERE false"
            self.con.execute(f"CREATE OR REPLACE VIEW calls AS {' UNION ALL '.join(parts or [empty])}")
            # Joined with device work, a tenth of the calls takes a tenth of the time.
            self.con.execute(
                f"CREATE OR REPLACE MACRO enqueuing_calls() AS TABLE {' UNION ALL '.join(enqueuing or [empty])}"
            )
            if "python_lines" in self.filled:
                sum_in_python(self.con)
        return self._calls

    def _enqueues(self, api: str, name: str) -> bool:
        """Whether calls of a function may have device work: only those of which the model says so, where our hooks alone make
        it. Records of CUPTI and its like, and recordings of others, may name any function."""
        if api != "opencl":
            return True
        known = self.model.function(api, name)
        return known is not None and known.activity is not None

    def sum_lines(self, query: str) -> None:
        """Open the single calls if a query is about sums by call site that are of lines of Python: those are made of them."""
        if "call_site_stats" in query and "python_lines" in self.filled:
            self.functions()

    def parts(self, view: str) -> Iterator[str]:
        """SQL of the rows of a view of single calls, a part at a time. A part has no more than two million rows."""
        self.functions()
        assert self._calls_folder
        differ = _clocks_differ(self.con)
        for file in sorted((self._calls_folder / view).glob("*.parquet")):
            yield f"({_aligned(CALLS, f'read_parquet({sql_text(str(file))})', differ)})"

    def call_files(self) -> call_files.CallFiles:
        """Which files have the single calls of which time."""
        self.functions()
        # Moments on the clock of another host are not those in the files.
        if self._calls_folder is None or _clocks_differ(self.con):
            return call_files.CallFiles()
        return call_files.find(self.con, self._calls_folder)

    @property
    def calls_lacking(self) -> str | None:
        """A line for where single calls are shown, and not all are there."""
        self.functions()
        return next((line for line in self.problems if line.startswith("--stream: ")), None)

    def _write_calls(self, folder: Path) -> None:
        traces = self._moment.traces() if self._moment else _host_traces(self.run, self._open_trace)
        since = None
        if _recorded_nothing(self.run):
            traces = []
        elif not traces:
            raise StoreError(f"{self.run}: the trace is gone, so the single calls cannot be shown; summaries still can")
        elif (made := read_made(self.path)) and made.streamed:
            from occatrace.store import stream

            since = stream.kept_since(self.run)
        partial = self._temporary / f"{folder.name}.partial"
        try:
            from occatrace.ingest.calls import CallsWriter

            with progress.phase("reading single calls"):
                CallsWriter(self.con, self.model, partial).run(traces)
            if since:
                (partial / _SINCE).write_text(since, encoding="utf-8")
            partial.rename(folder)
        finally:
            halfway.remove_path(partial)


def _nulls(columns: Sequence[Any]) -> str:
    return ", ".join(f"NULL::{c.type} AS {sql_name(c.name)}" for c in columns)


def _host_traces(run: Path, open_trace: OpenTrace, host: str | None = None) -> list[HostTrace]:
    """The trace of each host, or of one, in the order of their names."""
    trace = run / "trace"
    if not trace.is_dir():
        return []

    from occatrace.ingest import HostTrace

    def opener(path: Path) -> HostTrace:
        return HostTrace(path.name, lambda events: open_trace(path, events))

    found = (path for path in sorted(trace.glob("[!.]*")) if path.is_dir())
    return [opener(path) for path in found if host in (None, path.name)]


def _has_files(trace: Path) -> bool:
    """Whether there are any in a host's trace, which may be a link: `**` would not follow it."""
    return any(file.is_file() for file in trace.rglob("*"))


@contextmanager
def _locked(run: Path) -> Iterator[None]:
    """One writer of a run's tables at a time; it ends with the process, however that ends."""
    with files.open_own(run / ".tables.lock", "ab") as lock:
        files.lock(lock, fcntl.LOCK_EX)
        yield


def lacks_locks(error: BaseException) -> bool:
    """Whether DuckDB could not write a table because its file system has no locks (NFS and Lustre may be mounted so)."""
    said = str(error)
    return type(error).__name__ == "IOException" and (
        "Could not set lock" in said or "ile locks are not supported" in said
    )


def open_store(run: Path, *, model: Model | None = None, open_trace: OpenTrace = native_reader) -> Store:
    """The tables of a run; made from its trace where they are not there yet, or are those of an older version. Where the run's
    disk has no room for them they are made among temporary files."""
    model = model or model_module.load()
    apart = not is_writable(run)  # somebody else's run, too
    try:
        return _open_store(run, model, open_trace, apart)
    except Exception as error:
        lockless = not apart and lacks_locks(error)
        if not lockless and not disk.is_full(error):
            raise
        if apart:
            raise StoreError(disk.needs_room(Path(tempfile.gettempdir()))) from error
    try:
        store = _open_store(run, model, open_trace, apart=True)
    except Exception as error:
        if not disk.is_full(error):
            raise
        lacking = disk.needs_room(Path(tempfile.gettempdir()) if lockless else run)
        raise StoreError(f"{lacking}, or name a folder with more room in TMPDIR") from error
    lack = f"files in {run} cannot be locked" if lockless else f"{disk.needs_room(run)}: until then"
    line = f"{lack}{',' if lockless else ''} its tables are not kept, and are made again for each report"
    store.problems = [*store.problems, line]
    return store


def _open_store(run: Path, model: Model, open_trace: OpenTrace, apart: bool) -> Store:
    """`apart`: leave the run as it is, and work on a private copy of the tables, gone when we are."""
    path = run / "tables"
    temporary = _scratch(run, apart)
    moment: Moment | None = None
    try:
        con = connect(temporary, is_small(run))
        problems = None
        if _to_be_made(run, path):
            from occatrace.lttng import recovery

            if os.access(run, os.W_OK) and _is_recorded(run):
                path = temporary / "tables"
                from occatrace.store.moment import Moment

                moment = Moment(run, open_run(run).info, temporary / "now", native_reader)
                problems = _build(run, path, con, model, open_trace, moment=moment)
            elif apart:
                path = temporary / "tables"
                _check_metadata(run)
                problems = _build(run, path, con, model, open_trace)
            else:
                with _locked(run):
                    if _to_be_made(run, path):
                        recovery.rescue(run)
                        _check_metadata(run)
                        problems = _build(run, path, con, model, open_trace)
                        if (run / "stream").is_dir():
                            from occatrace.store import stream

                            stream.discard(run)
        if problems is None:
            problems = _reopen(path, con)
        place_in_python(con)
        prepare(con)
        captures.make(con, run_facts(run))
        return Store(run, con, model, problems, path, open_trace, temporary, moment)
    except BaseException:
        if moment:
            moment.close()
        halfway.remove_path(temporary)
        raise


def _is_recorded(run: Path) -> bool:
    """Whether a run goes on. One that has only begun, or whose end is being written down, is waited for, but not for ever: its
    program may run without being traced."""
    until = time.monotonic() + PATIENCE_S
    while not is_recorded(run):
        if not is_held(run):
            return False
        if time.monotonic() > until:
            raise StoreError(
                f"{run}: its program still runs, and nothing of it can be read yet; try again when it has ended"
            )
        time.sleep(POLL_S)
    return True


def is_small(run: Path) -> bool:
    """Whether a run has so little that threads of DuckDB cost more than they gain."""
    left = SMALL
    # A folder or file counts for a block at least: links of a stranger's run that lead in circles end soon.
    for part in ("trace", "stream", "tables", "samples", "nodes"):
        for folder, _, names in os.walk(run / part, followlinks=True):  # the trace may be elsewhere
            left -= _BLOCK
            for name in names:
                with suppress(OSError):  # of a run that goes on files come and go
                    left -= max(os.stat(os.path.join(folder, name)).st_size, _BLOCK)
            if left < 0:
                return False
    return True


def _to_be_made(run: Path, path: Path) -> bool:
    """Whether there are no tables, or older ones that can be made again. Raises a StoreError for newer ones."""
    made = read_made(path)
    if made is None:
        return True
    if made.schema > SCHEMA_VERSION:
        raise StoreError(
            f"{path}: made by {made.maker} (tables of version {made.schema}; this one, {__version__}, reads up to"
            f" {SCHEMA_VERSION}): update occatrace, or remove {path} to make them again from the trace"
        )
    if made.streamed:
        return False
    return bool(made.schema < SCHEMA_VERSION and (run / "trace").is_dir() and any((run / "trace").iterdir()))


def _build(
    run: Path,
    path: Path,
    con: duckdb.DuckDBPyConnection,
    model: Model,
    open_trace: OpenTrace,
    host: str | None = None,
    moment: Moment | None = None,
) -> Sequence[str] | None:
    """Tables from the traces of all hosts, of one, or of what there is of a run that goes on. The tables of a single host
    stay in `con`, those of several are opened again, with their times on one clock; then the result is None."""
    traces = moment.traces() if moment else _host_traces(run, open_trace, host)
    traces = [trace for trace in traces if host in (None, trace.host)]
    # Numbers of threads in what --stream has made of several hosts are those of each host.
    by_nodes = host is None and (len(moment.held.manifests) > 1 if moment else (run / "nodes").is_dir())
    if (run / "stream").is_dir() and not by_nodes:
        traces = _streamed(run, traces, path, con, model, open_trace, moment)
    partial = halfway.add_path(path.with_name(f"{scratch.prefix()}{path.name}"))
    shutil.rmtree(partial, ignore_errors=True)
    try:
        if by_nodes:
            _build_from_nodes(run, partial, con, model, open_trace, [trace.host for trace in traces], moment)
            _put_in_place(partial, path)
            return None
        if _recorded_nothing(run):
            traces = []
        elif not traces and moment is None:
            raise StoreError(f"{run}: {_why_nothing(run)}")
        from occatrace.ingest import FirstPass

        problems = _first_pass(FirstPass(con, model), traces)
        if moment is None:
            problems = [*problems, *_resized(run, traces, problems)]
        if (run / "samples").is_dir():
            from occatrace.ingest import samples

            for trace in traces:
                samples.read(con, run, trace.host)
        partial.mkdir(mode=0o700)
        filled = _with_rows(con)
        for table in TABLES:
            file = partial / f"{table.name}.parquet"
            if table.name in filled:
                con.execute(f"COPY {table.name} TO {sql_text(str(file))} (FORMAT parquet, COMPRESSION zstd)")
            else:
                empty.write(file, table)
        made = Made(SCHEMA_VERSION, __version__, tuple(problems), any(trace.gathered for trace in traces))
        write_made(partial, made)
        if len(traces) > 1:
            for table in TABLES:
                con.execute(f"DROP TABLE {table.name}")
            _write_clocks(partial, con)
        _put_in_place(partial, path)
    finally:
        halfway.remove_path(partial)
    return None if len(traces) > 1 else problems


def _with_rows(con: duckdb.DuckDBPyConnection) -> set[str]:
    """The tables that have rows."""
    query = " UNION ALL ".join(f"(SELECT '{table.name}' FROM {table.name} LIMIT 1)" for table in TABLES)
    return {name for (name,) in con.execute(query).fetchall()}


def _resized(run: Path, traces: Sequence[HostTrace], problems: Sequence[str]) -> list[str]:
    """Files that were lost since they were recorded, or parts of them; a reader sees it of some only."""
    from occatrace.run import checksums

    try:
        found = [damage for trace in traces for damage in checksums.resized(run / "trace" / trace.host)]
    except checksums.Unverified as error:
        return [str(error)]
    return [f"{each.file} {each.what}" for each in found if not any(str(each.file) in line for line in problems)]


def _first_pass(reading: FirstPass, traces: Sequence[HostTrace]) -> Sequence[str]:
    try:
        with progress.phase("reading the trace"):
            return reading.run(traces)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        streamed = ", ".join(trace.host for trace in traces if trace.gathered)
        if not streamed:
            raise
        raise StoreError(f"what --stream kept of {streamed} is damaged ({type(error).__name__}: {error})") from error


def _streamed(
    run: Path,
    traces: Sequence[HostTrace],
    path: Path,
    con: duckdb.DuckDBPyConnection,
    model: Model,
    open_trace: OpenTrace,
    moment: Moment | None,
) -> list[HostTrace]:
    """The traces, of which those that `--stream` made tables of are taken from these and from what is still to be added."""
    from occatrace.store import stream
    from occatrace.store.moment import so_far

    apart = None if moment is None and path.parent in (run, run / "nodes") else path.parent
    kept = {
        host: so_far(run, host, moment, con, model, path.parent)
        if moment
        else stream.finish(run, host, con, model, open_trace, apart)
        for host in stream.hosts(run)
        if any(trace.host == host for trace in traces)  # those of other nodes may still be written
    }
    return [replace(trace, gathered=kept[trace.host].gathered) if trace.host in kept else trace for trace in traces]


def _recorded_nothing(run: Path) -> bool:
    """Whether a run ended and LTTng wrote nothing: no process asked, or those that asked ended before their first record. Then
    its tables are empty."""
    try:
        info = open_run(run).info
    except RunError:
        return False
    hosts = [path for path in run.glob("trace/*") if path.is_dir()]
    if info.imported:
        return False
    return info.ended is not None and (not info.processes or bool(hosts)) and not any(map(_has_files, hosts))


def _is_imported(run: Path) -> bool:
    try:
        return bool(open_run(run).info.imported)
    except RunError:
        return True


def _why_nothing(run: Path) -> str:
    """What became of a run that has neither tables nor a trace."""
    try:
        info = open_run(run).info
        if info.imported:
            return (
                f"its tables were removed: import {info.imported.get('file', 'the recording')} again (occa_prof import)"
            )
        killed = bool(info.id) and info.ended is None
    except RunError:
        killed = False
    if killed:
        return "nothing is recorded: occa_prof was killed before the program's first traced call, or has only begun"
    return "neither tables nor a trace in it: they were removed; record the program again"


def _check_metadata(run: Path) -> None:
    """Raise a StoreError for a run whose end is not known and whose trace LTTng had not described yet: it writes that late."""
    if unended(run) and any(not file.stat().st_size for file in run.glob("trace/*/ust/*/*/*/metadata")):
        raise StoreError(
            f"{run}: its recording had only begun, or went on, when it was copied or killed, and the description of its"
            " trace is not there yet. While the program runs, give the run itself, as the user who records it; copy it"
            " when the program has ended"
        )


def _put_in_place(made: Path, path: Path) -> None:
    """New tables instead of those of an older version, if there are any."""
    older = path.with_name(f"{scratch.prefix()}older")
    if path.exists():
        path.rename(older)
    made.rename(path)
    shutil.rmtree(older, ignore_errors=True)


def _build_from_nodes(
    run: Path,
    out: Path,
    con: duckdb.DuckDBPyConnection,
    model: Model,
    open_trace: OpenTrace,
    hosts: Sequence[str],
    moment: Moment | None = None,
) -> None:
    """Tables of a job from those of its nodes. Of a node that was cut off, what its trace still gives."""
    from occatrace.store import merge

    parts = {part.name: part for part in (run / "nodes").glob("[!.]*") if merge.is_part(part) and moment is None}
    problems = []
    for host in hosts:
        name = node_tables(run, host).name
        if name not in parts:
            made = out.with_name(f"{out.name}.{name}")
            try:
                with (
                    halfway.scratch(out.parent) as temporary,
                    connect(temporary) as own,
                ):
                    _build(run, made, own, model, open_trace, host, moment)
                parts[name] = made
            except RunError as error:
                problems.append(f"{host} is missing below: {error}")
    try:
        if not parts:
            raise StoreError(f"{run}: {problems[0] if problems else 'neither tables nor a trace in it'}")
        merge.merge_tables([parts[name] for name in sorted(parts)], out, con, problems)
        _write_clocks(out, con)
    except (duckdb.Error, ValueError, OSError) as error:
        raise StoreError(f"the tables of the nodes cannot be merged: {error}; remove {run}/nodes") from error
    finally:
        for part in parts.values():
            if part.parent != run / "nodes":
                shutil.rmtree(part, ignore_errors=True)


def _write_clocks(path: Path, con: duckdb.DuckDBPyConnection) -> None:
    """Compare the clocks of the hosts, from the tables in a folder, and write `host_clocks` beside them."""
    from occatrace.store import merge

    _views(path, con)
    rows = merge.compare_clocks(con)
    con.execute(f"CREATE OR REPLACE TEMP TABLE found_clocks ({BY_NAME['host_clocks'].ddl()})")
    if rows:
        con.executemany(f"INSERT INTO found_clocks VALUES ({', '.join('?' * len(rows[0]))})", rows)
    for table in TABLES:
        con.execute(f"DROP VIEW {table.name}")
    file = path / "host_clocks.parquet"
    file.unlink(missing_ok=True)
    con.execute(f"COPY found_clocks TO {sql_text(str(file))} (FORMAT parquet, COMPRESSION zstd)")
    con.execute("DROP TABLE found_clocks")


def read_clocks(run: Path) -> Mapping[str, Any]:
    """What run.json says of the clocks of a run of several hosts: by host, how far ahead it is, and how surely."""
    file = run / "tables" / "host_clocks.parquet"
    try:
        with duckdb.connect() as con:
            rows = con.execute(f"SELECT * FROM read_parquet({sql_text(str(file))})").fetchall()
    except duckdb.Error:
        return {}
    names = [column.name for column in BY_NAME["host_clocks"].columns[1:]]
    return {row[0]: dict(zip(names, row[1:], strict=True)) for row in rows}


def _scratch(run: Path, apart: bool) -> Path:
    """A folder for temporary files: in the run, where whoever is killed leaves them for the next to clear away."""
    if apart:
        return halfway.make_folder()
    scratch.clear(run)
    return halfway.make_folder(run, scratch.prefix())


def build_node(
    run: Path, host: str, path: Path, summarize: Callable[[duckdb.DuckDBPyConnection, Path], object]
) -> list[str]:
    """The tables of one node of a job, from its own trace alone; returns what is missing. `summarize` writes their partial
    summary into a folder."""
    from occatrace.store import losses

    temporary = _scratch(run, not is_writable(run))
    try:
        with connect(temporary) as con:
            problems = _build(run, path, con, model_module.load(), native_reader, host) or ()
            lines = losses.read(con, problems, {}).lines()
            prepare(con)
            summarize(con, path / "summary")
        return lines
    except (OSError, duckdb.Error) as error:
        if not disk.is_full(error):
            raise
        raise StoreError(disk.needs_room(run)) from error
    finally:
        halfway.remove_path(temporary)


def open_tables(path: Path, con: duckdb.DuckDBPyConnection) -> Sequence[str]:
    """Views of the tables in a folder; returns what was wrong with the trace that they were made of."""
    problems = _reopen(path, con)
    place_in_python(con)
    return problems


def _reopen(path: Path, con: duckdb.DuckDBPyConnection) -> Sequence[str]:
    """Open the tables that are there; those of an older version, without a trace to make them again, as far as they go."""
    made = read_made(path) or Made(0)
    older = made.schema < SCHEMA_VERSION
    differ = _hosts_differ(path, con)
    lacking = _views(path, con, older, read=not differ)
    if differ:
        con.execute(
            "CREATE OR REPLACE TABLE process_clocks AS SELECT process, ahead_ns, drift, since_ns"
            " FROM processes JOIN host_clocks USING (trace)"
        )
        for table in TABLES:
            file = path / f"{table.name}.parquet"
            if file.exists() and any(c.name == "process" for c in table.columns):
                rows = _aligned(table, f"({_columns_of(con, table, file)})", True)
                con.execute(f"CREATE OR REPLACE VIEW {table.name} AS {rows}")
    problems = list(made.problems)
    if older:
        empty = f": nothing is known of {', '.join(lacking)}" if lacking else ""
        problems.append(
            f"the tables were made by {made.maker}, of version {made.schema} (now {SCHEMA_VERSION}), and the trace is"
            f" gone{empty}"
        )
    return problems


def _views(path: Path, con: duckdb.DuckDBPyConnection, older: bool = False, read: bool = False) -> list[str]:
    """A view of each table as it is; `read`: of a small one the table itself. Returns those that tables of an older version do
    not have."""
    lacking = []
    there: dict[str, set[str]] = {}
    if older:
        with suppress(duckdb.Error):  # one is damaged: which, is found below
            there = _columns_there(path, con)
    for table in TABLES:
        file = path / f"{table.name}.parquet"
        if older and not file.exists():
            lacking.append(table.name)
            con.execute(f"CREATE TABLE {table.name} ({table.ddl()})")
            continue
        if empty.is_empty(file):
            con.execute(f"CREATE VIEW {table.name} AS SELECT {_nulls(table.columns)} WHERE false")
            continue
        try:
            columns = there.get(table.name) if older else {column.name for column in table.columns}
            source = _columns_of(con, table, file, columns)
            if not (read and file.stat().st_size <= _READ_BYTES and _read_few(con, table.name, source)):
                con.execute(f"CREATE VIEW {table.name} AS {source}")
        except (duckdb.Error, OSError) as error:
            reason = "is missing" if not file.exists() else f"is damaged ({str(error).splitlines()[0]})"
            raise StoreError(f"{file} {reason}; remove {path} to make the tables again from the trace") from error
    return lacking


def _read_few(con: duckdb.DuckDBPyConnection, name: str, source: str) -> bool:
    """Make a table of the rows of a query if they are few; whether they are."""
    ((rows,),) = con.execute(f"CREATE TABLE {name} AS {source} LIMIT {_HELD_ROWS + 1}").fetchall()
    if rows <= _HELD_ROWS:
        return True
    con.execute(f"DROP TABLE {name}")
    return False


def _files(path: Path) -> str:
    """SQL: the files of the tables in a folder, by name, as a pattern would read brackets in the folder's name."""
    files = (path / f"{table.name}.parquet" for table in TABLES)
    return f"[{', '.join(sql_text(str(file)) for file in files if file.exists())}]"


def _columns_there(path: Path, con: duckdb.DuckDBPyConnection) -> dict[str, set[str]]:
    """Columns of the tables in a folder. One query, as planning them is what opening a small run costs."""
    out: dict[str, set[str]] = {}
    query = "SELECT parse_filename(file_name, true), name FROM parquet_schema({})"
    for table, column in con.execute(query.format(_files(path))).fetchall():
        out.setdefault(table, set()).add(column)
    return out


def _columns_of(con: duckdb.DuckDBPyConnection, table: Table, file: Path, there: set[str] | None = None) -> str:
    """SELECT of a table's columns from its file; one that the file does not have (`there`) is null."""
    source = f"read_parquet({sql_text(str(file))})"
    if there is None:
        there = {row[0] for row in con.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
    columns = (sql_name(c.name) if c.name in there else f"NULL::{c.type} AS {sql_name(c.name)}" for c in table.columns)
    return f"SELECT {', '.join(columns)} FROM {source}"


def _hosts_differ(path: Path, con: duckdb.DuckDBPyConnection) -> bool:
    """Whether the clocks of the hosts of tables in a folder differ."""
    file = path / "host_clocks.parquet"
    if empty.is_empty(file):
        return False
    try:
        query = f"SELECT 1 FROM read_parquet({sql_text(str(file))}) WHERE ahead_ns != 0 OR drift != 0 LIMIT 1"
        return bool(con.execute(query).fetchall())
    except duckdb.Error:
        return False  # it is not there, or damaged, which is found when its view is made


def _clocks_differ(con: duckdb.DuckDBPyConnection) -> bool:
    return bool(con.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'process_clocks'").fetchall())


def _aligned(table: Table, source: str, differ: bool) -> str:
    """Rows with their moments on the clock of the first host, where the run has several that differ."""
    moments = [column for column in table.columns if column.name in MOMENTS]
    if not moments or not differ:
        return f"SELECT * FROM {source}"
    shifted = ", ".join(
        f'CASE WHEN t."{c.name}" > 0 THEN (t."{c.name}"::BIGINT - round(k.ahead_ns + k.drift *'
        f' (t."{c.name}"::BIGINT - k.since_ns))::BIGINT)::{c.type} ELSE t."{c.name}" END AS "{c.name}"'
        for c in moments
    )
    return f"SELECT t.* REPLACE ({shifted}) FROM {source} t JOIN process_clocks k ON k.process = t.process"
