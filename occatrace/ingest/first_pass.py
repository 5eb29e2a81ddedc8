"""The first pass over a trace: batches of columns to statistics of the calls, to records, and to the raw tables of
occatrace/ingest/gathered, in one read.

Bounded memory: calls are folded into statistics as they come; whatever may be long goes to DuckDB, which spills. The
single calls with their arguments are left to occatrace/ingest/calls.py, for those who ask for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from occatrace import _native
from occatrace.core import progress
from occatrace.core.duck import duckdb
from occatrace.core.model import Function, Model
from occatrace.core.schema import NO_SEQ
from occatrace.ingest.assembly import Assembly
from occatrace.ingest.gathered import GATHERED, Gathered, callers
from occatrace.ingest.host import Host, HostTrace, Tally
from occatrace.ingest.reading import Columns, Reader, Slots, text_of, texts_of
from occatrace.ingest.threads import ThreadMap

_THREAD = "occatrace_process:thread"
_IMPORTED = ("lttng_ust_", "rocm_h")  # providers that occatrace/foreign reads
# Ranges, values and messages of the program begin when they are written.
_MOMENTS = frozenset(("occatrace_annotation:range_begin", "occatrace_annotation:counter", "occatrace_python:message"))
_SMALL_RECORDS = (
    "process",
    "thread",
    "name",
    "module",
    "code",
    "kernel",
    "exit",
    "device",
    "queue",
    "clock",
    "clock_warning",
    "failure",
    "capture",
    "excluded",
    "full",
    "sampled_thread",
)


class FirstPass:
    """Reads the traces of all hosts into the tables of `con`."""

    def __init__(self, con: duckdb.DuckDBPyConnection, model: Model) -> None:
        self._con = con
        self._model = model
        self._hosts: list[Host] = []
        self._raw: set[str] = set()  # raw tables that there are: planning queries is what a small run costs

    def run(self, traces: Iterable[HostTrace]) -> list[str]:
        """Fill all tables; returns what was wrong with the traces."""
        views: set[str] = set()
        for trace in traces:
            if trace.gathered:
                host, views = trace.gathered()
                self._raw |= views
                self._hosts.append(host)
                continue
            first = self._hosts[-1].threads.end if self._hosts else 0
            host = self._read(trace, ThreadMap(first))
            reused = host.reused()
            if reused:
                # Rare (an exec, or process ids that went round): read again, now knowing when each thread began.
                for raw in self._raw:
                    self._con.execute(f"DELETE FROM {raw} WHERE slot >= {first}")
                host = self._read(trace, ThreadMap(first, reused))
            self._hosts.append(host)
        Assembly(self._con, self._model, self._hosts, [g for g in GATHERED if g.raw in self._raw]).run()
        for raw in self._raw:
            self._con.execute(f"DROP {'VIEW' if raw in views else 'TABLE'} {raw}")
        return self._problems()

    # ---- piece by piece (occatrace/store/stream.py) ----

    def read_piece(self, trace: HostTrace, threads: ThreadMap) -> Host:
        """What one piece adds, with the threads of the pieces before; its rows are in the raw tables."""
        host = Host(trace.host, threads)
        begins: list[tuple[int, int]] = []
        for batch in trace.open([_THREAD]):
            begins += zip(batch.columns["tid"].tolist(), batch.columns["ts"].tolist(), strict=True)
        for tid, start in sorted(begins, key=lambda begin: begin[1]):
            threads.begin(tid, start)
        return self._read_into(host, trace)

    @property
    def raw(self) -> Mapping[str, str]:
        """Queries of the rows in the raw tables."""
        return {raw: f"FROM {raw}" for raw in sorted(self._raw)}

    def forget(self) -> None:
        """The rows are elsewhere by now."""
        for raw in self._raw:
            self._con.execute(f"DROP TABLE {raw}")
        self._raw.clear()

    def _problems(self) -> list[str]:
        out = []
        for host in self._hosts:
            prefix = f"{host.name}: " if len(self._hosts) > 1 else ""
            out += [prefix + p for p in host.problems]
            out += [
                f"{prefix}{n} events of the unknown kind {event} were left out"
                for event, n in sorted(host.unknown.items())
            ]
        if any(event.startswith(_IMPORTED) for host in self._hosts for event in host.unknown):
            out.append("events of THAPI and of AMD's runtimes are read by: occa_prof import FOLDER")
        return out

    def _read(self, trace: HostTrace, threads: ThreadMap) -> Host:
        return self._read_into(Host(trace.host, threads), trace)

    def _read_into(self, host: Host, trace: HostTrace) -> Host:
        threads = host.threads
        reader = trace.open(None)
        for event, columns in (
            part for b in progress.along(reader) for part in self._model.by_function(b.event, b.columns)
        ):
            if not len(columns["ts"]):
                continue
            if "tid" not in columns:
                host.unknown[event] = host.unknown.get(event, 0) + len(columns["ts"])
                continue
            slots = threads.of(columns["tid"], columns["ts"])
            host.stats.add(slots, columns["seq"], columns["ts"])
            host.begins(self._begin(event, columns))
            self._dispatch(host, event, columns, slots, reader)
        host.problems = [text_of(p) for p in reader.problems]
        return host

    def _begin(self, event: str, columns: Columns) -> int | None:
        """When the first call, work, range or Python code of a batch begins; None: there is none in it."""
        if event in self._model.by_event or event == "occatrace_python:call":
            return int(columns["start"].min())
        if event in self._model.begin_events or event in _MOMENTS:
            return int(columns["ts"].min())
        if event == "occatrace_annotation:range_end":  # `start` is a little before the event of the begin
            starts = columns["start"][columns["begin_seq"] != NO_SEQ]
            return int(starts.min()) if len(starts) else None
        if event == "occatrace_device:activity":
            queued = columns["queued"]
            return int(np.where(queued > 0, np.minimum(queued, columns["start"]), columns["start"]).min())
        return None

    def _dispatch(self, host: Host, event: str, columns: Columns, slots: Slots, reader: Reader) -> None:
        function = self._model.by_event.get(event)
        taken = False
        if "owner" in columns and "pid" in columns:
            self._add_owners(host, columns)
        for gathered in GATHERED:
            given = columns
            if gathered.texts:
                if not gathered.takes(event, function, columns):
                    continue
                given = {**columns, **{n: texts_of(columns[n], reader) for n in gathered.texts if n in columns}}
            rows = gathered.take(self._model, event, function, host.threads, given)
            if rows is not None:
                self._insert(gathered, {"slot": slots, **rows})
                taken = True
        if function:
            self._add_calls(host, function, slots, columns)
        if function or taken:
            return
        begun = self._model.begin_events.get(event)
        if begun:
            calls = host.calls.setdefault(begun.event, _native.CallStatistics())
            calls.begin(slots, columns["call_seq"], columns["ts"])
            return
        provider, _, record = event.partition(":")
        if record == "sampled_thread":
            columns = {**columns, "owner_slot": host.threads.of(columns["owner"], columns["ts"])}
        if provider in ("occatrace_process", "occatrace_device") and record in _SMALL_RECORDS:
            self._add_records(host, record, slots, columns, reader)
        elif record == "tally":
            self._add_tallies(host, columns)
        elif record == "counted":
            self._add_counted(host, slots, columns)
        elif record == "progress":
            owners = host.threads.of(columns["owner"], columns["ts"])
            for slot, next_seq in zip(owners.tolist(), columns["next_seq"].tolist(), strict=True):
                host.next_seq[slot] = max(next_seq, host.next_seq.get(slot, 0))
        else:
            host.unknown[event] = host.unknown.get(event, 0) + len(slots)

    def _add_calls(self, host: Host, function: Function, slots: Slots, columns: Columns) -> None:
        failed = moved = None
        if function.failed and function.failed.field in columns:
            failed = function.failed.mask(columns[function.failed.field])
        if function.bytes and function.bytes in columns:
            moved = columns[function.bytes].astype(np.uint64, copy=False)
        calls = host.calls.setdefault(function.event, _native.CallStatistics())
        calls.add(slots, columns["seq"], columns["start"], columns["ts"], failed, moved)
        if "caller" in columns:
            rows = callers.sums(function, slots, columns, failed, moved)
            if len(rows["slot"]):
                self._insert(callers.SUMS, rows)

    def _insert(self, gathered: Gathered, columns: Columns) -> None:
        if gathered.raw not in self._raw:
            self._con.execute(f"CREATE OR REPLACE TABLE {gathered.raw} ({gathered.ddl})")
            self._raw.add(gathered.raw)
        self._con.register("batch", dict(columns))
        self._con.execute(f"INSERT INTO {gathered.raw} BY NAME SELECT * FROM batch")
        self._con.unregister("batch")

    def _add_records(self, host: Host, record: str, slots: Slots, columns: Columns, reader: Reader) -> None:
        rows = host.records.setdefault(record, [])
        strings = reader.strings
        names = [name for name in columns if "." not in name]
        for slot, *values in zip(slots.tolist(), *(columns[name].tolist() for name in names), strict=True):
            row = dict(zip(names, values, strict=True))
            for name in _TEXT_FIELDS.get(record, ()):
                if name in row:  # not in traces of older versions
                    row[name] = strings[row[name]]
            rows.append({"slot": slot, **row})

    def _add_owners(self, host: Host, columns: Columns) -> None:
        """The processes of threads that another one writes about: they may have written nothing themselves."""
        owners = host.threads.of(columns["owner"], columns["time" if "time" in columns else "ts"])
        seen = np.zeros(host.threads.end, bool)
        seen[owners] = True
        for owner in np.flatnonzero(seen).tolist():
            if owner not in host.owners:
                host.owners.add(owner)
                pid = int(columns["pid"][np.argmax(owners == owner)])
                host.records.setdefault("owner", []).append({"owner_slot": owner, "pid": pid})

    def _add_counted(self, host: Host, slots: Slots, columns: Columns) -> None:
        rows = host.records.setdefault("counted", [])
        owners = host.threads.of(columns["owner"], columns["ts"]).tolist()
        ends, values = columns["returned"].tolist(), columns["returned.values"]
        for row, (slot, owner) in enumerate(zip(slots.tolist(), owners, strict=True)):
            returned = values[int(ends[row]) : int(ends[row + 1])].tolist()
            told = {"owner_slot": owner, "numbers": int(columns["numbers"][row]), "returned": returned}
            rows.append({"slot": slot, "ts": int(columns["ts"][row]), **told})

    def _add_tallies(self, host: Host, columns: Columns) -> None:
        owners = host.threads.of(columns["owner"], columns["ts"]).tolist()
        functions, times = columns["function"].tolist(), columns["ts"].tolist()
        latest: dict[tuple[int, int], int] = {}
        for row, key in enumerate(zip(owners, functions, strict=True)):
            known = host.tallies.get(key)
            if times[row] >= max(times[latest[key]] if key in latest else 0, known.ts if known else 0):
                latest[key] = row
        for key, row in latest.items():
            parts = [
                columns[f"{name}.values"][int(columns[name][row]) : int(columns[name][row + 1])].copy()
                for name in ("buckets", "counts")
            ]
            values = {name: int(columns[name][row]) for name in ("count", "failed", "total", "min", "max")}
            host.tallies[key] = Tally(times[row], values, int(columns["ticks_hz"][row]), parts[0], parts[1])


_TEXT_FIELDS: Mapping[str, Sequence[str]] = {
    "process": ("host", "exe", "cmdline", "run", "version", "mode", "job", "cpus"),
    "thread": ("name",),
    "sampled_thread": ("name",),
    "name": ("text",),
    "module": ("path", "build_id"),
    "code": ("function",),
}
