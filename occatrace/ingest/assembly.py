"""Puts the pieces of the first pass together: whose thread, which name, which device; then the gathered tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from occatrace.core import histogram, naming
from occatrace.core.duck import duckdb
from occatrace.core.model import Model
from occatrace.core.schema import BY_NAME, NO_SEQ
from occatrace.core.units import duration
from occatrace.ingest import call_sites, debuginfod, elf
from occatrace.ingest.gathered import Gathered, callers
from occatrace.ingest.host import Host, Tally
from occatrace.ingest.reading import text_of

Index = npt.NDArray[np.int64]


_START, _END, _RANK, _SIZE, _JOB = 9, 10, 15, 16, 18  # in rows of processes
_ALONE = (None, None, None, "", "", None)  # rank, size, local rank, job, processors, first call
_DEEPEST = 4  # calls within calls
_ENCLOSING = 2
_OCCA_HEADERS = re.compile(r"/occa/(array|core|defines|experimental|functional|loops|types|utils)/[^/]*[.][ht]pp$")
# Inlined from there is what only passes a call on: also templates of CUDA's and HIP's runtime, and what nvcc makes of a kernel.
_PASSING = re.compile(
    _OCCA_HEADERS.pattern
    + r"|/cuda_runtime(_api)?[.]h$|/include/crt/[^/]*$|[.]cudafe1[.]stub[.]c$|/hip/[^/]*(/[^/]*)?[.]h$"
)
_STATISTICS = ("calls", "failed", "total", "mean", "m2", "min", "max", "bytes")


def _in_time(host: Host, record: str) -> list[dict[str, Any]]:
    return sorted(host.records.get(record, ()), key=lambda r: (r["ts"], r["slot"], r["seq"]))


def _first_ranks(rows: Sequence[Sequence[Any]]) -> dict[int, int]:
    """By process, from which number on its ranks count: where a job ran beside another one with the same ranks (one that
    MPI_Comm_spawn started, a second mpirun of a script), after those of that one. Otherwise it is not there. The ranks of one
    MPI_COMM_WORLD may be of several jobs (those of Slurm, each with ranks of its own)."""
    jobs: dict[str, list[Sequence[Any]]] = {}
    for row in rows:
        if row[_RANK] is not None:
            jobs.setdefault(row[_JOB], []).append(row)
    if len(jobs) < 2:
        return {}
    placed: list[tuple[int, int, set[int]]] = []  # the end of a job, the rank after its last one, its ranks
    out: dict[int, int] = {}
    begins = {job: min(row[_START] for row in own) for job, own in jobs.items()}
    for job, start in sorted(begins.items(), key=lambda begin: begin[1]):
        own = jobs[job]
        ranks, first = {row[_RANK] for row in own}, 0
        beside = [(after, others) for end, after, others in placed if start < end]
        if any(ranks & others for _, others in beside):
            first = max(after for after, _ in beside)
            ranks = {rank + first for rank in ranks}
            out.update((row[0], first) for row in own)
        after = max(max(ranks) + 1, first + max(row[_SIZE] or 0 for row in own))
        placed.append((max(row[_END] for row in own), after, ranks))
    return out


class Assembly:
    """Puts the pieces of the first pass together: whose thread, which name, which device."""

    def __init__(
        self, con: duckdb.DuckDBPyConnection, model: Model, hosts: Sequence[Host], gathered: Sequence[Gathered]
    ) -> None:
        """`gathered`: those of which something was gathered."""
        self._con = con
        self._model = model
        self._hosts = hosts
        self._given = gathered
        self._process_of: dict[int, int] = {}  # by thread
        self._names: dict[tuple[int, int], str] = {}
        self._hists: list[tuple[Any, ...]] = []
        self._unfinished: dict[int, int] = {}  # by thread
        self._places: dict[tuple[int, int], call_sites.Site] = {}  # by process and name
        self._killed: set[int] = set()  # processes that did not say how they ended

    def run(self) -> None:
        for table in BY_NAME.values():
            self._con.execute(f"CREATE OR REPLACE TABLE {table.name} ({table.ddl()})")
        self._processes_and_threads()
        self._name_table()
        self._sites()
        self._objects()
        self._calls()
        self._losses()
        self._full()
        self._choices()
        self._gathered()

    def _records(self, record: str) -> Iterator[tuple[Host, dict[str, Any]]]:
        """In the order of time, whichever stream was read first: so numbers are the same at every reading."""
        for host in self._hosts:
            for row in _in_time(host, record):
                yield host, row

    def _fill(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        if not rows:
            return
        arrays = {}
        for column, values in zip(BY_NAME[table].columns, zip(*rows, strict=True), strict=True):
            kind = object if column.type == "VARCHAR" or None in values else _NUMPY[column.type]
            arrays[column.name] = np.array(values, dtype=kind)
        self._fill_arrays(table, arrays)

    def _fill_arrays(self, table: str, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self._con.register("batch", dict(arrays))
        self._con.execute(f"INSERT INTO {table} BY NAME SELECT * FROM batch")
        self._con.unregister("batch")

    def _processes_and_threads(self) -> None:
        rows: list[list[Any]] = []
        threads: list[tuple[Any, ...]] = []
        for host in self._hosts:
            begin = len(rows)
            images: dict[int, list[tuple[int, int]]] = {}  # pid: (start, process), in time order
            records = sorted(host.records.get("process", ()), key=lambda r: int(r["start"]))
            for r in records:
                images.setdefault(r["pid"], []).append((int(r["start"]), len(rows) + 1))
                rows.append(
                    [len(rows) + 1, text_of(r["host"]) or host.name, r["pid"], r["ppid"]]
                    + [text_of(r[name]) for name in ("exe", "cmdline", "run", "mode", "version")]
                    + [r["start"], r["start"], r["realtime"], r["mono"], None, host.name]
                    + [None if r.get(name, -1) < 0 else r[name] for name in ("rank", "size", "local_rank")]
                    + [text_of(r.get("job", "")), text_of(r.get("cpus", "")), None]
                )
            # Threads that were sampled may have made no call.
            # Of several records of one the latest, which has the name that it gave itself.
            known = {r["owner_slot"]: r for r in _in_time(host, "sampled_thread")}
            known |= {r["slot"]: r for r in host.records.get("thread", ())}
            told = {r["owner_slot"]: r["pid"] for r in host.records.get("owner", ())}
            named = {r["pid"] for r in known.values()}
            first = host.threads.end - len(host.threads.tids)
            stats = host.stats.columns()
            own = [process for entries in images.values() for _, process in entries]
            stray: int | None = None
            for slot, tid in enumerate(host.threads.tids, first):
                start, end = 0, 0
                if slot < len(stats["seen"]) and stats["seen"][slot]:
                    start, end = int(stats["start"][slot]), int(stats["end"][slot])
                record = known.get(slot)
                pid = record["pid"] if record else told.get(slot, tid)
                entries = images.get(pid)
                if entries:
                    process = next((p for since, p in reversed(entries) if since <= start), entries[0][1])
                elif len(own) == 1 and not record and slot not in told:
                    process = own[0]
                else:
                    # Its process record is missing (lost, or the trace was cut): a row of its own.
                    if record or slot in told or pid in named:  # the main thread has the number of its process
                        process = len(rows) + 1
                        images[pid] = [(0, process)]
                        rows.append(
                            [process, host.name, pid, 0, "", "", "", "", "", start, end, 0, 0, None, host.name, *_ALONE]
                        )
                    else:
                        if stray is None:
                            stray = len(rows) + 1
                            rows.append(
                                [stray, host.name, 0, 0, "", "", "", "", "", start, end, 0, 0, None, host.name, *_ALONE]
                            )
                        process = stray
                self._process_of[slot] = process
                rows[process - 1][10] = max(rows[process - 1][10], end)
                threads.append((slot + 1, process, tid, text_of(record["name"]) if record else "", start, end))
            for r in host.records.get("exit", ()):
                rows[self._process_of[r["slot"]] - 1][13] = self._model.texts("process", "exit_reason").get(
                    r["reason"], str(r["reason"])
                )
            for row in rows[begin:]:
                row[-1] = host.first_ns
        self._killed = {row[0] for row in rows if row[13] is None}
        self._first_rank = _first_ranks(rows)
        for process, first in self._first_rank.items():
            rows[process - 1][_RANK] += first
        self._fill("processes", rows)
        self._fill("threads", threads)

    def _name_table(self) -> None:
        pieces: dict[tuple[int, int], dict[int, bytes | str]] = {}
        for _, r in self._records("name"):
            pieces.setdefault((self._process_of[r["slot"]], r["id"]), {})[r["offset"]] = r["text"]
        for key, parts in pieces.items():
            raw = b"".join(
                p if isinstance(p, bytes) else p.encode("utf-8", "surrogateescape") for _, p in sorted(parts.items())
            )
            self._names[key] = text_of(raw)
        self._fill("names", [(process, id_, text) for (process, id_), text in self._names.items()])

    def _sites(self) -> None:
        places = {key: site for key, text in self._names.items() if (site := call_sites.parse(text))}
        if places and not call_sites.tool():
            self._hosts[0].problems.append(
                "places in the code have no function and line: addr2line (binutils) is missing"
            )
        found = call_sites.resolve(places.values())
        self._places = {key: found[place] for key, place in places.items()}
        rows = [
            (*key, s.module, s.offset, s.function, s.file, s.line)
            for key, s in ((k, found[p]) for k, p in places.items())
        ]
        self._fill("sites", rows)
        self._con.execute("""
            CREATE OR REPLACE TEMP VIEW site_texts AS
            SELECT process, id, CASE WHEN function != '' THEN function
                   ELSE regexp_extract(module, '[^/]*$') || '+0x' || lower(to_hex("offset")) END AS function,
                   CASE WHEN file != '' THEN file || ':' || line ELSE '' END AS source
            FROM sites""")

    def _name(self, process: int, id_: int) -> str:
        return self._names.get((process, id_), f"name {id_}" if id_ else "")

    def _objects(self) -> None:
        """Kernels, devices, queues, clocks. A rotation repeats them: the last record of an object counts."""
        kernels: dict[tuple[int, int], tuple[Any, ...]] = {}
        devices: dict[tuple[int, int], tuple[Any, ...]] = {}
        queues: dict[tuple[int, int], tuple[Any, ...]] = {}
        # Of inline kernels the source is the place that calls them. OCCA's headers are no such place.
        called = {(self._process_of[r["slot"]], r["source"]) for _, r in self._records("kernel")} & self._places.keys()
        callers = call_sites.outside((self._places[key] for key in called), _OCCA_HEADERS)
        for _, r in self._records("kernel"):
            p = self._process_of[r["slot"]]
            number = kernels.get((p, r["id"]), (len(kernels) + 1,))[0]
            name, mode, source = (self._name(p, r[field]) for field in ("name", "mode", "source"))
            caller = callers.get(self._places[p, r["source"]]) if (p, r["source"]) in called else None
            place = (caller.file, caller.line) if caller and caller.file else (source, r["line"])
            kernels[p, r["id"]] = (number, p, r["id"], name, mode, *place, self._name(p, r["binary"]))
        for _, r in self._records("device"):
            p = self._process_of[r["slot"]]
            number = devices.get((p, r["id"]), (len(devices) + 1,))[0]
            texts = [self._name(p, r[name]) for name in ("api", "platform", "name", "vendor")]
            devices[p, r["id"]] = (number, p, r["id"], *texts, r["handle"])
        for _, r in self._records("queue"):
            p = self._process_of[r["slot"]]
            number = queues.get((p, r["id"]), (len(queues) + 1,))[0]
            device = devices.get((p, r["device"]), (None,))[0]
            queues[p, r["id"]] = (number, p, r["id"], device, r["handle"], r["flags"], r["context"])
        self._fill("kernels", list(kernels.values()))
        self._fill("devices", list(devices.values()))
        self._fill("queues", list(queues.values()))

        def device_of(r: Mapping[str, Any]) -> int | None:
            number: int | None = devices.get((self._process_of[r["slot"]], r["device"]), (None,))[0]
            return number

        self._fill(
            "clocks", [(device_of(r), r["host"], r["device_time"], r["uncertainty"]) for _, r in self._records("clock")]
        )
        worst: dict[tuple[int, int], tuple[int | None, int, int]] = {}
        for _, r in self._records("clock_warning"):
            key = (self._process_of[r["slot"]], r["device"])
            before = worst.get(key, (None, 0, 0))
            worst[key] = (device_of(r), max(before[1], r["clamped"]), max(before[2], r["worst"]))
        self._fill("clock_warnings", list(worst.values()))

    def _calls(self) -> None:
        stats: list[tuple[Any, ...]] = []
        unfinished: list[tuple[Any, ...]] = []
        for host in self._hosts:
            returned: dict[int, set[int]] = {}
            for r in host.records.get("counted", ()):
                returned.setdefault(r["owner_slot"], set()).update(r["returned"])
            for event, calls in host.calls.items():
                function = self._model.by_event[event]
                head = (function.api, function.name)
                columns = calls.columns()
                for slot in np.flatnonzero(columns["calls"]).tolist():
                    values = (columns[name][slot].item() for name in _STATISTICS)
                    stats.append((self._process_of[slot], slot + 1, *head, "event", *values))
                slots, buckets, amounts = calls.histogram()
                if len(slots):
                    self._hist(function.api, function.name, slots, histogram.middle(buckets), amounts)
                for slot in np.flatnonzero(columns["begin_seq"] > columns["max_seq"]).tolist():
                    seq, ts = int(columns["begin_seq"][slot]), int(columns["begin_ts"][slot])
                    if seq in returned.get(slot, ()):
                        continue
                    unfinished.append((self._process_of[slot], slot + 1, seq, *head, ts))
                    self._unfinished[slot] = self._unfinished.get(slot, 0) + 1
            for (slot, function_id), tally in host.tallies.items():
                stats.append(self._tally(slot, function_id, tally))
        self._fill_hist()
        self._fill("call_stats", stats)
        self._failures()
        self._fill("unfinished", unfinished)

    def _failures(self) -> None:
        rows = []
        for _, r in self._records("failure"):
            process = self._process_of[r["slot"]]
            name = self._name(process, r["function"])
            error = self._name(process, r["text"]) if r["text"] else self._model.error_name(name, r["code"])
            seq = None if r["call_seq"] == NO_SEQ else r["call_seq"]
            head = (process, r["slot"] + 1, seq, *self._model.tally_function(name))
            rows.append((*head, r["code"], error, self._model.lost(name)))
        self._fill("failures", rows)

    def _tally(self, slot: int, function_id: int, tally: Tally) -> tuple[Any, ...]:
        process = self._process_of[slot]
        api, function = self._model.tally_function(self._name(process, function_id))
        scale = 1e9 / tally.ticks_hz if tally.ticks_hz else 1.0
        v = tally.values
        middles = histogram.middle(tally.buckets) * scale
        mean = v["total"] * scale / v["count"] if v["count"] else 0.0
        m2 = float(np.sum(tally.counts * (middles - mean) ** 2)) if v["count"] > 1 else 0.0
        if len(tally.buckets):
            self._hist(api, function, np.full(len(middles), slot), middles, tally.counts)
        head = (process, slot + 1, api, function, "tally", v["count"], v["failed"])
        return (*head, round(v["total"] * scale), mean, m2, round(v["min"] * scale), round(v["max"] * scale), 0)

    def _hist(self, api: str, function: str, slots: Index, values: npt.NDArray[Any], counts: npt.NDArray[Any]) -> None:
        process = np.array([self._process_of[s] for s in slots.tolist()], np.uint32)
        self._hists.append(((api, function), process, slots + 1, values, counts))

    def _fill_hist(self) -> None:
        """All histograms at once; the functions by number first, as texts are slow to hand over one by one."""
        if not self._hists:
            return
        functions = sorted({head for head, *_ in self._hists})
        number = {head: i for i, head in enumerate(functions)}
        self._con.register(
            "functions",
            {
                "number": np.arange(len(functions)),
                "api": np.array([api for api, _ in functions], object),
                "function": np.array([function for _, function in functions], object),
            },
        )
        self._con.register(
            "batch",
            {
                "number": np.concatenate([np.full(len(values), number[head]) for head, _, _, values, _ in self._hists]),
                **{
                    name: np.concatenate([entry[place] for entry in self._hists])
                    for place, name in enumerate(("process", "thread", "value_ns", "calls"), 1)
                },
            },
        )
        self._con.execute(
            "INSERT INTO call_hist BY NAME SELECT * EXCLUDE (number) FROM batch JOIN functions USING (number)"
        )
        self._con.unregister("batch")
        self._con.unregister("functions")

    def _losses(self) -> None:
        rows = []
        for host in self._hosts:
            stats = host.stats.columns()
            counted: dict[int, int] = {}
            for r in host.records.get("counted", ()):
                counted[r["owner_slot"]] = max(r["numbers"], counted.get(r["owner_slot"], 0))
            for slot, (seen, highest) in enumerate(zip(stats["seen"].tolist(), stats["max_seq"].tolist(), strict=True)):
                if slot not in self._process_of:
                    continue
                expected = max(host.next_seq.get(slot, 0), highest + 1)
                missing = expected - seen - counted.get(slot, 0)
                # Calls in flight at the end have a number and no event: those that said so when they began; those after
                # which nothing came; and, when the process was killed, an enclosing call or two of the last events.
                unfinished = max(self._unfinished.get(slot, 0), min(expected - highest - 1, _DEEPEST))
                if self._process_of[slot] in self._killed:
                    unfinished = max(unfinished, min(missing, _ENCLOSING))
                lost = missing - unfinished
                if lost > 0:
                    rows.append((self._process_of[slot], slot + 1, expected, seen, unfinished, lost))
        self._fill("losses", rows)

    def _full(self) -> None:
        """When the buffers had no room, and calls were counted instead."""
        spans: dict[int, list[int]] = {}
        for _, r in self._records("full"):
            spans.setdefault(self._process_of[r["slot"]], []).append(max(0, r["end"] - r["begin"]))
        if not spans:
            return
        times = sum(map(len, spans.values()))
        ns = max(map(sum, spans.values()))
        what = f"{len(spans)} processes" if len(spans) > 1 else "the process"
        self._hosts[0].problems.append(
            f"the buffers were full {times} time{'s' * (times > 1)}: for {'up to ' * (len(spans) > 1)}{duration(ns)} calls of {what}"
            " were only counted, and their device work was not recorded (record less: -m minimal, --trace, --kernels)"
        )

    def _choices(self) -> None:
        """When processes recorded, and what they left out."""
        turns: dict[int, list[tuple[int, int]]] = {}
        for _, r in self._records("capture"):
            turns.setdefault(self._process_of[r["slot"]], []).append((int(r["ts"]), int(r["state"])))
        spans: list[tuple[int, int, int]] = []
        off, on = 0, 1  # the third state: off from the begin
        if turns:
            lives = {
                row[0]: row[1:]
                for row in self._con.execute("SELECT process, start_ns, end_ns FROM processes").fetchall()
            }
            for process, changes in turns.items():
                begin, end = lives[process]
                since: int | None = begin if changes[0][1] == off else None
                for time, state in changes:
                    if state == on and since is None:
                        since = time
                    elif state != on and since is not None:
                        spans.append((process, since, time))
                        since = None
                if since is not None:
                    spans.append((process, since, max(since, end)))
                elif not spans or spans[-1][0] != process:
                    spans.append((process, begin, begin))  # it never did
        self._fill("captures", spans)
        sampled = {
            r["owner_slot"]: (self._process_of[r["owner_slot"]], r["owner_slot"] + 1, r["cpu"], r["taken"], r["lost"])
            for _, r in self._records("sampled_thread")
        }
        self._fill("sampled_threads", [sampled[slot] for slot in sorted(sampled)])
        if lost := sum(lost for *_, lost in sampled.values()):
            whole = sum(cpu for _, _, cpu, _, _ in sampled.values())
            self._hosts[0].problems.append(
                f"{lost / 1e9:.3g} s of {whole / 1e9:.3g} s of CPU time have no stacks: they were sampled faster than they could be"
                " written (a long time before the first traced call, or too many samples per second)"
            )
        latest: dict[tuple[int, int, int], tuple[int, str, str, int]] = {}
        reasons = self._model.texts("process", "excluded_reason")
        for _, r in self._records("excluded"):
            process = self._process_of[r["slot"]]
            key = (process, r["reason"], r["name"])
            latest[key] = (process, reasons.get(r["reason"], ""), self._name(process, r["name"]), r["count"])
        self._fill("excluded", list(latest.values()))

    def _gathered(self) -> None:
        slots = np.array(sorted(self._process_of), np.int32)
        processes = [self._process_of[s] for s in slots.tolist()]
        first_ranks = np.array([self._first_rank.get(process, 0) for process in processes], np.int32)
        self._con.register(
            "batch", {"slot": slots, "process": np.array(processes, np.uint32), "first_rank": first_ranks}
        )
        self._con.execute("CREATE OR REPLACE TEMP TABLE slots AS SELECT * FROM batch")
        self._con.unregister("batch")
        if any(gathered in (callers.SUMS, callers.PATH_FRAMES) for gathered in self._given):
            self._call_sites()
        for gathered in self._given:
            self._con.execute(gathered.insert(self._model))

    def _call_sites(self) -> None:
        """The places in the program: in which file they are, and what the debug information of that says."""
        wall = {
            process: realtime - mono
            for process, realtime, mono in self._con.execute(
                "SELECT process, realtime_ns, mono_ns FROM processes"
            ).fetchall()
        }
        modules: dict[int, dict[tuple[str, str, int], _Loaded]] = {}  # by process; path, build id and base
        for _, r in self._records("module"):
            process = self._process_of[r["slot"]]
            used = call_sites.Module(text_of(r["path"]), text_of(r["build_id"]), int(r["ts"]) + wall.get(process, 0))
            of_process = modules.setdefault(process, {})
            loaded = of_process.setdefault((used.path, used.build_id, r["base"]), _Loaded(used, r["base"], []))
            loaded.ranges.append((r["begin"], r["begin"] + r["size"]))
        raw = {callers.SUMS: "caller", callers.PATH_FRAMES: "address"}
        parts = [
            f"SELECT slot, {column} AS address, {gathered is callers.PATH_FRAMES} AS on_path FROM {gathered.raw}"
            for gathered, column in raw.items()
            if gathered in self._given
        ]
        asked = self._con.execute(
            f"SELECT s.process, r.address, bool_or(on_path) AS on_path FROM ({' UNION ALL '.join(parts)}) r"
            " JOIN slots s USING (slot) GROUP BY ALL ORDER BY ALL"
        ).fetchnumpy()
        addresses = np.asarray(asked["address"], np.uint64)
        # The file of each address: the number of one of `files`; none, or several in turn.
        files: list[_File] = []
        of_file = {}
        file = np.full(len(addresses), _NO_FILE, np.int32)
        offsets = addresses - np.uint64(1)
        for process in modules:
            begin, end = np.searchsorted(asked["process"], (process, process + 1)).tolist()
            here, file_here = addresses[begin:end], file[begin:end]
            for (path, build, base), loaded in modules[process].items():
                if (path, build) not in of_file:
                    of_file[path, build] = len(files)
                    files.append(_File(loaded.module))
                within = np.zeros(len(here), np.bool_)
                for first, past in loaded.ranges:
                    low, high = np.searchsorted(here, np.array((first, past), np.uint64)).tolist()
                    within[low:high] = True
                several = within & (file_here != _NO_FILE)
                alone = within & ~several
                file_here[alone] = of_file[path, build]
                file_here[several] = _SEVERAL
                offsets[begin:end][alone] = here[alone] - np.uint64(base + 1)
        offsets[file == _SEVERAL] = addresses[file == _SEVERAL] - np.uint64(1)
        unusable: list[str] = []
        servers = debuginfod.Servers()
        for number, one in enumerate(files):
            wanted = np.sort(offsets[file == number])
            wanted = wanted[np.concatenate(([True], wanted[1:] != wanted[:-1]))] if len(wanted) else wanted
            if not len(wanted):
                continue
            one.lines, one.why = call_sites.look_up(one.module, memoryview(wanted.data), servers)
            if one.why and not one.module.path.startswith("linux-vdso"):  # of the kernel, no file
                unusable.append(one.why)
        if unusable:
            more = f" (and {len(unusable) - 1} more files)" if len(unusable) > 1 else ""
            self._hosts[0].problems.append(f"calls have no lines where {unusable[0]}{more}")
        self._con.execute(
            "CREATE OR REPLACE TEMP TABLE path_sites (process UINTEGER, site UINTEGER, address UBIGINT, level UINTEGER,"
            " inlined BOOLEAN, function VARCHAR, file VARCHAR, line UINTEGER)"
        )
        processes = np.asarray(asked["process"], np.uint32)
        # The number of an address among those of its process, from 1.
        sites = np.arange(1, len(addresses) + 1) - np.searchsorted(processes, processes)
        columns = {"process": processes, "site": sites, "address": addresses, "offset": offsets}
        for number in (_NO_FILE, _SEVERAL, *range(len(files))):
            chosen = np.flatnonzero(file == number)
            for at in range(0, len(chosen), _SITES_AT_ONCE):
                rows = chosen[at : at + _SITES_AT_ONCE]
                batch = {name: column[rows] for name, column in columns.items()}
                self._fill_sites(batch, files[number] if number >= 0 else None, number == _SEVERAL, servers)
                self._fill_path_sites(batch, files[number] if number >= 0 else None, asked["on_path"][rows])
        self._name_code()

    def _name_code(self) -> None:
        """The functions of places of which the file has no name, but the process had."""
        parts = [
            (self._process_of[r["slot"]], r["begin"], r["begin"] + r["size"], text_of(r["function"]))
            for _, r in self._records("code")
        ]
        if not parts:
            return
        names = ("process", "first", "past", "function")
        types = (np.uint32, np.uint64, np.uint64, object)
        columns = zip(names, zip(*parts, strict=True), types, strict=True)
        self._con.register("batch", {name: np.array(column, kind) for name, column, kind in columns})
        for table in ("call_sites", "path_sites"):
            self._con.execute(
                f"UPDATE {table} AS t SET function = b.function FROM batch b"
                " WHERE t.function = '' AND t.process = b.process AND t.address - 1 >= b.first AND t.address - 1 < b.past"
            )
        self._con.unregister("batch")

    def _fill_sites(
        self, batch: Mapping[str, npt.NDArray[Any]], file: _File | None, several: bool, servers: debuginfod.Servers
    ) -> None:
        """Some places of one file, or in none."""
        count = len(batch["address"])
        if file is None:
            # Code that the program made itself, or libraries that were unloaded and gave room to others.
            why = "several files were at this address in turn" if several else "in no file of the process"
            texts = {"module": "", "build_id": "", "function": "", "file": "", "why": why}
            lines = np.zeros(count, np.uint32)
            self._fill_arrays(
                "call_sites", {**batch, **{n: np.full(count, t, object) for n, t in texts.items()}, "line": lines}
            )
            return
        why = file.why or call_sites.why_no_line(file.module, servers)
        known = file.lines
        found = known.find(batch["offset"])
        frame = np.where(found >= 0, np.append(file.callers, 0)[found], -1)

        def of(column: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
            return np.append(column, np.uint32(0))[frame]

        has_line = of(known.files) > 0
        self._fill_arrays(
            "call_sites",
            {
                **batch,
                "module": np.full(count, file.module.path, object),
                "build_id": np.full(count, file.module.build_id, object),
                "function": file.texts[of(known.functions)],
                "file": file.texts[of(known.files)],
                "line": of(known.lines),
                "why": np.where(has_line, file.why, why).astype(object),
            },
        )

    def _fill_path_sites(
        self, batch: Mapping[str, npt.NDArray[Any]], file: _File | None, on_path: npt.NDArray[np.bool_]
    ) -> None:
        """The frames at some places of one file, or in none, that are on paths: with those into which code was inlined."""
        # Tracers' own frames are there where a vendor's callback recorded the call.
        if not on_path.any() or (file and file.module.path.rpartition("/")[2].startswith("liboccatrace")):
            return
        batch = {name: batch[name][on_path] for name in ("process", "site", "address", "offset")}
        known = file.lines if file else call_sites.Lines()
        found = known.find(batch["offset"])
        begins = np.append(known.starts[:-1], 0)[found]
        counts = np.where(found >= 0, np.append(np.diff(known.starts), 1)[found], 1)
        ends = np.cumsum(counts)
        level = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
        frame = np.where(np.repeat(found, counts) >= 0, np.repeat(begins, counts) + level, -1)

        def of(column: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
            return np.append(column, np.uint32(0))[frame]

        texts = file.texts if file else np.array([""], object)
        rows: dict[str, npt.NDArray[Any]] = {
            **{name: np.repeat(batch[name], counts) for name in ("process", "site", "address")},
            "level": level,
            "inlined": level + 1 < np.repeat(counts, counts),
            "function": texts[of(known.functions)],
            "file": texts[of(known.files)],
            "line": of(known.lines),
        }
        self._con.register("batch", rows)
        self._con.execute("INSERT INTO path_sites BY NAME SELECT * FROM batch")
        self._con.unregister("batch")


@dataclass
class _Loaded:
    """A file as a process had it."""

    module: call_sites.Module
    base: int
    ranges: list[tuple[int, int]]


@dataclass
class _File:
    """A file of code, and what is known of the addresses in it that are asked for."""

    module: call_sites.Module
    lines: call_sites.Lines = field(default_factory=call_sites.Lines)
    why: str = ""

    @cached_property
    def callers(self) -> Index:
        inlined = bool((np.diff(self.lines.starts) > 1).any())
        kernels = (
            {naming.function(naming.demangled(name)) for name in elf.kernels(Path(self.module.path))}
            if inlined
            else set()
        )
        return self.lines.callers(_PASSING, kernels)

    @cached_property
    def texts(self) -> npt.NDArray[Any]:
        return np.array(self.lines.texts, object)


_NO_FILE, _SEVERAL = -1, -2
_SITES_AT_ONCE = 1 << 17
_NUMPY = {
    "UTINYINT": np.uint8,
    "UINTEGER": np.uint32,
    "UBIGINT": np.uint64,
    "INTEGER": np.int32,
    "BIGINT": np.int64,
    "DOUBLE": np.float64,
}
