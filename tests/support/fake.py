"""Traces made in Python: events written one by one, handed out as batches like the native reader's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import occatrace
from occatrace.core.histogram import bucket
from occatrace.core.model import Model, from_json
from occatrace.store.tables import open_store

_TYPES: Mapping[str, type] = {
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "i32": np.int32,
    "i64": np.int64,
    "str": np.uint32,
}


def _call(*args: str, failed: tuple[str, str, int] | None = None, **more: Any) -> dict[str, Any]:
    """A function of the fake model; an argument is `name:kind` or `name:kind:enum`."""
    entry: dict[str, Any] = {
        "args": [],
        "failed": dict(zip(("field", "op", "value"), failed, strict=True)) if failed else None,
    }
    for arg in args:
        name, kind, *enum = arg.split(":")
        entry["args"].append({"name": name, "kind": kind, "enum": enum[0] if enum else None})
    return entry | more


_OCCA_FAILED = ("error", "!=", 0)
_CL_FAILED = ("ret", "<", 0)
# Of MPI, some functions as they are.
_MPI_FUNCTIONS = (
    "MPI_Init", "MPI_Finalize", "MPI_Send", "MPI_Recv", "MPI_Isend", "MPI_Irecv", "MPI_Wait", "MPI_Barrier", "MPI_Allreduce",
    "MPI_Bcast", "MPI_Reduce", "MPI_Test", "MPI_Probe", "MPI_Mprobe", "MPI_Mrecv", "MPI_Ssend", "MPI_Iallreduce", "MPI_Ibarrier",
    "MPI_Scan", "MPI_Win_fence", "MPI_Win_lock", "MPI_Win_unlock", "MPI_File_open", "MPI_Comm_split",
)  # fmt: skip
# Records are as the real model has them; calls are a few of our own.
_WHOLE = json.loads((Path(occatrace.__file__).parent / "_model.json").read_text(encoding="utf-8"))
_REAL = _WHOLE["apis"]
MODEL_JSON: Mapping[str, Any] = {
    "copy_sides": _WHOLE["copy_sides"],
    "apis": {
        "process": _REAL["process"],
        "device": _REAL["device"],
        "python": _REAL["python"] | {"functions": {}},
        "mpi": _REAL["mpi"] | {"functions": {name: _REAL["mpi"]["functions"][name] for name in _MPI_FUNCTIONS}},
        "occa": {
            "title": "OCCA",
            "provider": "occatrace_occa",
            "functions": {
                "kernel_run": _call(
                    "kernel:uint",
                    "launches:uint",
                    "error:name",
                    failed=_OCCA_FAILED,
                    name="occa::kernel::run",
                    activity="kernel",
                ),
                "memory_copyFrom": _call(
                    "handle:handle",
                    "bytes:uint",
                    "kind:enum:kind",
                    "mode:name",
                    "error:name",
                    failed=_OCCA_FAILED,
                    name="occa::memory::copyFrom",
                    bytes="bytes",
                ),
                "device_malloc": _call(
                    "handle:handle",
                    "bytes:uint",
                    "mode:name",
                    "error:name",
                    failed=_OCCA_FAILED,
                    name="occa::device::malloc",
                    bytes="bytes",
                    allocates={"handle": "handle", "bytes": "bytes", "kind": "device", "mode": "mode"},
                ),
                "memory_free": _call(
                    "handle:handle",
                    "bytes:uint",
                    "mode:name",
                    "error:name",
                    failed=_OCCA_FAILED,
                    name="occa::memory::free",
                    frees={"handle": "handle"},
                ),
                "device_buildKernel": _call(
                    "source:name", "error:name", failed=_OCCA_FAILED, name="occa::device::buildKernel", compiles=True
                ),
            },
            "enums": {"kind": {"values": {"HtoD": 2, "DtoH": 3}, "bitfield": False}},
        },
        "annotation": {
            "title": "Annotations",
            "provider": "occatrace_annotation",
            "functions": {},
            "enums": {
                "annotation_api": {"values": {"occatrace": 0, "nvtx": 1}, "bitfield": False},
                "range_kind": {"values": {"push": 0, "start": 1, "mark": 2}, "bitfield": False},
            },
        },
        "opencl": {
            "title": "OpenCL",
            "provider": "occatrace_opencl",
            "functions": {
                "clFinish": _call("command_queue:handle", "ret:enum:error", failed=_CL_FAILED, blocking=True),
                "clCreateBuffer": _call(
                    "flags:bitfield:flags",
                    "size:uint",
                    "buffer:handle",
                    "ret:enum:error",
                    failed=_CL_FAILED,
                    bytes="size",
                    allocates={
                        "handle": "buffer",
                        "bytes": "size",
                        "kind": "device",
                        "kind_field": "flags",
                        "bits": True,
                        "kinds": [[16, "host"]],
                    },
                ),
                "clEnqueueNDRangeKernel": _call("global:array", "ret:enum:error", failed=_CL_FAILED, activity="kernel"),
                "clEnqueueWriteBuffer": _call(
                    "buffer:handle",
                    "offset:uint",
                    "size:uint",
                    "ptr:handle",
                    "ret:enum:error",
                    failed=_CL_FAILED,
                    bytes="size",
                    activity="HtoD",
                    copies={"from": "ptr", "to": "device"},
                ),
                "clBuildProgram": _call(
                    "options:string", "ret:enum:error", failed=_CL_FAILED, blocking=True, compiles=True
                ),
                "clCreateSubBuffer": _call(
                    "buffer:handle",
                    "size:uint",
                    "part:handle",
                    "ret:enum:error",
                    failed=_CL_FAILED,
                    allocates={"handle": "part", "bytes": "size", "kind": "slice", "parent": "buffer"},
                ),
                "clEnqueueSVMFree": _call(
                    "svm_pointers:array",
                    "pfn_free_func:pointer",
                    "ret:enum:error",
                    failed=_CL_FAILED,
                    frees={"handle": "svm_pointers", "unless": "pfn_free_func"},
                ),
                "clGetDeviceInfo": _call("ret:enum:error", failed=_CL_FAILED),
                "clGetProgramInfo": _call("ret:enum:error", failed=_CL_FAILED),
            },
            "records": {"memory_released": _REAL["opencl"]["records"]["memory_released"]},
            "enums": {
                "releasing": _REAL["opencl"]["enums"]["releasing"],
                "error": {
                    "values": {"CL_SUCCESS": 0, "CL_INVALID_VALUE": -30, "CL_INVALID_COMMAND_QUEUE": -36},
                    "bitfield": False,
                },
                "flags": {
                    "values": {"CL_MEM_READ_WRITE": 1, "CL_MEM_ALLOC_HOST_PTR": 16, "CL_MEM_COPY_HOST_PTR": 32},
                    "bitfield": True,
                },
            },
        },
    },
    "records": {},
    "memory_kinds": _WHOLE["memory_kinds"],
}

MODEL: Model = from_json(MODEL_JSON)

_ACTIVITY = {
    "kind": "u8", "corr_tid": "u32", "corr_seq": "u32", "run_seq": "u32", "queue": "u32", "queued": "u64", "submitted": "u64",
    "start": "u64", "end": "u64", "bytes": "u64", "name": "u32", "gx": "u32", "gy": "u32", "gz": "u32", "lx": "u32", "ly": "u32",
    "lz": "u32", "status": "i32",
}  # fmt: skip
SCHEMA: Mapping[str, Mapping[str, str]] = {
    "occatrace_process:process": {
        "pid": "u32", "ppid": "u32", "host": "str", "exe": "str", "cmdline": "str", "run": "str", "start": "u64",
        "realtime": "u64", "mono": "u64", "ticks": "u64", "ticks_hz": "u64", "version": "str", "mode": "str",
        "rank": "i32", "size": "i32", "local_rank": "i32", "job": "str", "cpus": "str",
    },
    "occatrace_process:thread": {"pid": "u32", "name": "str"},
    "occatrace_process:name": {"pid": "u32", "id": "u32", "offset": "u32", "total": "u32", "text": "str"},
    "occatrace_process:kernel": {
        "pid": "u32", "id": "u32", "name": "u32", "mode": "u32", "source": "u32", "line": "u32", "binary": "u32",
    },
    "occatrace_process:tally": {
        "pid": "u32", "owner": "u32", "function": "u32", "count": "u64", "failed": "u64", "total": "u64", "min": "u64",
        "max": "u64", "ticks_hz": "u64", "buckets": "seq<u16>", "counts": "seq<u32>",
    },
    "occatrace_process:progress": {"pid": "u32", "owner": "u32", "next_seq": "u32"},
    "occatrace_process:path_frame": {"pid": "u32", "id": "u32", "parent": "u32", "address": "u64", "end": "u8"},
    "occatrace_process:stack_sample": {"pid": "u32", "owner": "u32", "time": "u64", "path": "u32", "cpu": "u64"},
    "occatrace_process:sampled_thread": {
        "pid": "u32", "owner": "u32", "name": "str", "cpu": "u64", "taken": "u64", "lost": "u64",
    },
    "occatrace_process:exit": {"pid": "u32", "reason": "u8"},
    "occatrace_process:failure": {"pid": "u32", "function": "u32", "call_seq": "u32", "code": "i64", "text": "u32"},
    "occatrace_device:device": {
        "pid": "u32", "id": "u32", "api": "u32", "platform": "u32", "name": "u32", "vendor": "u32", "handle": "u64",
    },
    "occatrace_device:queue": {"pid": "u32", "id": "u32", "device": "u32", "handle": "u64", "flags": "u32", "context": "u64"},
    "occatrace_device:activity": _ACTIVITY,
    "occatrace_device:clock_warning": {"device": "u32", "clamped": "u64", "worst": "u64"},
    "occatrace_occa:kernel_run": {"start": "u64", "kernel": "u32", "launches": "u32", "error": "u32"},
    "occatrace_occa:device_malloc": {"start": "u64", "handle": "u64", "bytes": "u64", "mode": "u32", "error": "u32"},
    "occatrace_occa:memory_free": {"start": "u64", "handle": "u64", "bytes": "u64", "mode": "u32", "error": "u32"},
    "occatrace_occa:device_buildKernel": {"start": "u64", "source": "u32", "error": "u32"},
    "occatrace_occa:memory_copyFrom": {
        "start": "u64", "handle": "u64", "bytes": "u64", "kind": "u8", "mode": "u32", "error": "u32",
    },
    "occatrace_opencl:clFinish": {"start": "u64", "command_queue": "u64", "ret": "i32"},
    "occatrace_opencl:clFinish_begin": {"call_seq": "u32"},
    "occatrace_python:frame": {
        "pid": "u32", "id": "u32", "parent": "u32", "function": "u32", "source": "u32", "line": "u32", "entered": "u16",
    },
    "occatrace_python:call": {
        "owner": "u32", "number": "u32", "parent": "u32", "kind": "u8", "failed": "u8", "depth": "u16", "name": "u32", "source": "u32",
        "line": "u32", "start": "u64", "end": "u64", "inner": "u64",
    },
    "occatrace_python:line": {"call_seq": "u32", "frame": "u32"},
    "occatrace_opencl:clCreateBuffer": {"start": "u64", "flags": "u64", "size": "u64", "buffer": "u64", "ret": "i32"},
    "occatrace_opencl:clCreateSubBuffer": {"start": "u64", "buffer": "u64", "size": "u64", "part": "u64", "ret": "i32"},
    "occatrace_opencl:clEnqueueSVMFree": {"start": "u64", "svm_pointers": "seq<u64>", "pfn_free_func": "u64", "ret": "i32"},
    "occatrace_opencl:memory_released": {"memobj": "u64", "by": "u8"},
    "occatrace_opencl:clEnqueueNDRangeKernel": {"start": "u64", "global": "seq<u64>", "ret": "i32"},
    "occatrace_opencl:clEnqueueWriteBuffer": {
        "start": "u64", "buffer": "u64", "offset": "u64", "size": "u64", "ptr": "u64", "ret": "i32",
    },
    "occatrace_opencl:clGetProgramInfo": {"start": "u64", "ret": "i32"},
    "occatrace_opencl:clGetDeviceInfo": {"start": "u64", "ret": "i32"},
    "occatrace_opencl:clBuildProgram": {"start": "u64", "options": "str", "ret": "i32"},
    "occatrace_opencl:clBuildProgram_begin": {"call_seq": "u32"},
    **{
        f"occatrace_mpi:{name}": {"start": "u64", **{arg["name"]: arg["column"] for arg in _REAL["mpi"]["functions"][name]["args"]}}
        for name in _MPI_FUNCTIONS
    },
    **{
        f"occatrace_mpi:{name}": {each["name"]: each["column"] for each in record["fields"]}
        for name, record in _REAL["mpi"]["records"].items()
    },
    **{
        f"occatrace_openmp:{name}": {
            "start": "u64", **{arg["name"]: arg["column"] for arg in _REAL["openmp"]["functions"][name]["args"]}
        }
        for name in ("parallel", "implicit_task")
    },
    "occatrace_openmp:join_tasks": {"region_seq": "u32", "thread_num": "u32", "tasks": "u32", "task_ns": "u64"},
}  # fmt: skip
NONE = 0xFFFFFFFF  # no call of OCCA


@dataclass(frozen=True)
class FakeBatch:
    event: str
    columns: Mapping[str, Any]


@dataclass
class FakeReader:
    """One pass over a fake trace."""

    trace: FakeTrace
    events: Sequence[str] | None
    problems: Sequence[str] = ()
    trace_env: Mapping[str, str] = field(default_factory=dict)
    clock_offset: int = 0

    @property
    def strings(self) -> Sequence[bytes]:
        return self.trace.strings

    @property
    def schema(self) -> Mapping[str, Mapping[str, str]]:
        return SCHEMA

    def __iter__(self) -> Iterator[FakeBatch]:
        by_event: dict[str, list[Mapping[str, Any]]] = {}
        for event, row in self.trace.rows:
            if self.events is None or event in self.events:
                by_event.setdefault(event, []).append(row)
        # Events in an order that no reader may rely on.
        for event in sorted(by_event, reverse=True):
            rows = sorted(by_event[event], key=lambda row: int(row["ts"]))
            for at in range(0, len(rows), self.trace.batch_rows):
                yield FakeBatch(event, _columns(event, rows[at : at + self.trace.batch_rows]))


def _columns(event: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    columns: dict[str, Any] = {"ts": np.array([r["ts"] for r in rows], np.uint64)}
    for name, kind in {"tid": "u32", "seq": "u32", **SCHEMA[event]}.items():
        if kind.startswith("seq<"):
            lengths = [len(r[name]) for r in rows]
            columns[name] = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32)
            columns[f"{name}.values"] = np.array([v for r in rows for v in r[name]], _TYPES[kind[4:-1]])
        else:
            columns[name] = np.array([r[name] for r in rows], _TYPES[kind])
    return columns


@dataclass
class FakeThread:
    """Writes the events of one thread, numbering them."""

    trace: FakeTrace
    pid: int
    tid: int
    seq: int = 0

    def event(self, event: str, ts: int, seq: int | None = None, **values: Any) -> int:
        """One event; the number is the next one, or one taken before."""
        if seq is None:
            seq = self.take()
        fields = SCHEMA[event]
        row = {name: self.trace.string(v) if fields[name] == "str" else v for name, v in values.items()}
        missing = set(fields) - set(row)
        assert missing <= {"pid"} | {n for n, k in fields.items() if not k.startswith("seq")}, missing
        defaults = {
            name: self.pid if name == "pid" else self.trace.string("") if fields[name] == "str" else 0
            for name in missing
        }
        self.trace.rows.append((event, {"ts": ts, "tid": self.tid, "seq": seq, **defaults, **row}))
        return seq

    def take(self) -> int:
        """The next number, as a call takes it at its entry."""
        self.seq += 1
        return self.seq - 1

    def record(self, record: str, ts: int, **values: Any) -> None:
        self.event(f"occatrace_process:{record}", ts, **values)

    def name(self, text: str | bytes, ts: int = 2) -> int:
        """Intern a name, in pieces of seven bytes."""
        raw = text if isinstance(text, bytes) else text.encode()
        if (self.pid, raw) in self.trace.interned:
            return self.trace.interned[self.pid, raw]
        number = self.trace.names.setdefault(self.pid, 0) + 1
        self.trace.names[self.pid] = number
        self.trace.interned[self.pid, raw] = number
        for at in range(0, max(len(raw), 1), 7):
            self.record("name", ts, id=number, offset=at, total=len(raw), text=raw[at : at + 7])
        return number

    def call(self, function: str, start: int, end: int, seq: int | None = None, /, **values: Any) -> int:
        provider, _, name = function.partition(":")
        return self.event(f"occatrace_{provider}:{name}", end, seq, start=start, **values)


@dataclass
class FakeTrace:
    """A trace under construction."""

    batch_rows: int = 1000
    rows: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    strings: list[bytes] = field(default_factory=list)
    names: dict[int, int] = field(default_factory=dict)
    interned: dict[tuple[int, bytes], int] = field(default_factory=dict)
    _index: dict[bytes, int] = field(default_factory=dict)

    def string(self, value: str | bytes) -> int:
        raw = value if isinstance(value, bytes) else value.encode()
        if raw not in self._index:
            self._index[raw] = len(self.strings)
            self.strings.append(raw)
        return self._index[raw]

    def process(self, pid: int, start: int = 1, exe: str = "/bin/app", **more: Any) -> FakeThread:
        """A process with its main thread."""
        main = self.thread(pid, pid, start, "main")
        self.names[pid] = 0
        self.interned = {key: number for key, number in self.interned.items() if key[0] != pid}
        main.record(
            "process", start, host="node0", exe=exe, start=start, realtime=start + 10**18, mono=start, ticks_hz=10**9,
            version="0.1", mode="default", **{"cmdline": exe, "rank": -1, "size": -1, "local_rank": -1, "cpus": ""} | more,
        )  # fmt: skip
        return main

    def thread(self, pid: int, tid: int, start: int = 1, name: str = "worker") -> FakeThread:
        thread = FakeThread(self, pid, tid)
        thread.record("thread", start, name=name)
        return thread

    def tally(
        self, thread: FakeThread, function: str, durations: Sequence[int], ts: int, failed: int = 0, hz: int = 10**9
    ) -> None:
        """The cumulative tally of one function, from its durations in ns."""
        ticks = np.array(durations, np.uint64) * hz // 10**9
        indexes, counts = np.unique(bucket(ticks), return_counts=True)
        number = thread.name(function, ts)
        thread.record(
            "tally", ts, owner=thread.tid, function=number, count=len(ticks), failed=failed, total=int(ticks.sum()),
            min=int(ticks.min()), max=int(ticks.max()), ticks_hz=hz, buckets=indexes.tolist(), counts=counts.tolist(),
        )  # fmt: skip

    def open(self, _path: Path, events: Sequence[str] | None) -> FakeReader:
        """As tables.open_store wants it."""
        return FakeReader(self, events)


def run_folder(parent: Path, hosts: Sequence[str] = ("node0",)) -> Path:
    """The folder of a run whose traces come from somewhere else."""
    run = parent / "run"
    for host in hosts:
        (run / "trace" / host).mkdir(parents=True)
    return run


def recorded(folder: Path, trace: FakeTrace, **facts: Any) -> Path:
    """A run with its tables and single calls, whose trace cannot be read."""
    folder.mkdir(exist_ok=True)
    run = run_folder(folder)
    known = {"schema": 1, "program": ["app"], "mode": "default", "version": "0.1.0"}
    (run / "run.json").write_text(json.dumps(known | facts), encoding="utf-8")
    with open_store(run, model=MODEL, open_trace=trace.open) as store:
        store.functions()
    return run


def python_call(t: FakeThread, number: int, kind: str, name: str, start: int, end: int, parent: int = 0) -> None:
    """A call of Python by its number in the process: a start, an import, a program."""
    kinds = MODEL.enums["python"]["call_kind"].values
    t.event(
        "occatrace_python:call", end, owner=t.tid, number=number, parent=parent, kind=kinds[kind], failed=0, depth=0,
        name=t.name(name), source=0, line=0, start=start, end=end, inner=0,
    )  # fmt: skip


def fake_device(t: FakeThread, at: int, queues: int = 2, number: int = 1) -> None:
    """A device of a process, and its queues, numbered from `number` on."""
    t.event(
        "occatrace_device:device", at, id=number, api=t.name("opencl", at), platform=0, name=t.name("cpu", at), vendor=0,
        handle=number,
    )  # fmt: skip
    for queue in range(number, number + queues):
        t.event("occatrace_device:queue", at, id=queue, device=number, handle=queue, flags=0)


def fake_work(
    t: FakeThread, at: int, seq: int, queued: int, start: int, end: int, name: str, kind: int = 1, queue: int = 1,
    run: int = NONE, seen: int = 900,
) -> None:  # fmt: skip
    """Work of the call `seq`; all moments are after `at`."""
    t.event(
        "occatrace_device:activity", at + seen, kind=kind, corr_tid=t.tid, corr_seq=seq, run_seq=run, queue=queue,
        queued=at + queued, submitted=at + queued, start=at + start, end=at + end, name=t.name(name, at), bytes=8, gx=1,
    )  # fmt: skip


def launch(
    t: FakeThread, at: int, call: int, start: int, end: int, name: str, queue: int = 1, kind: int = 1, seen: int = 900
) -> None:
    """A call of 10 ns that enqueues work at its begin; the work starts and ends at these moments."""
    seq = t.call("opencl:clEnqueueNDRangeKernel", at + call, at + call + 10, **{"global": [1]}, ret=0)
    fake_work(t, at, seq, call, start, end, name, kind, queue, seen=seen)


def fake_rank(trace: FakeTrace, rank: int, size: int, at: int, init: int = 0) -> FakeThread:
    """A process that is this rank; MPI_Init takes its time from `init` to 10 ns later, where it is given."""
    t = trace.process(100 + rank, start=at, rank=rank, size=size)
    if init:
        t.call("mpi:MPI_Init", at + init, at + init + 10, ret=0)
        t.event("occatrace_mpi:rank", at + init + 10, rank=rank, size=size, library=0, abi=0)
    t.event(
        "occatrace_mpi:communicator",
        at + init + 10,
        id=1,
        handle=1,
        size=size,
        rank=rank,
        first=0,
        name=t.name("world", at),
    )
    return t


def mpi(t: FakeThread, function: str, start: int, end: int, **values: Any) -> int:
    """A call of MPI in the communicator of all."""
    known = {"comm": 1} if "comm" in SCHEMA[f"occatrace_mpi:{function}"] else {}
    return t.call(f"mpi:{function}", start, end, **{"ret": 0} | known | values)


def demo_trace() -> FakeTrace:
    """A small run with something of everything."""
    trace = FakeTrace()
    t = trace.process(100)
    add, scale = t.name("addVectors"), t.name("scale")
    opencl, serial, source = t.name("OpenCL"), t.name("Serial"), t.name("/home/me/addVectors.okl")
    backend0, backend1 = t.name("_occa_addVectors_0"), t.name("_occa_addVectors_1")
    t.record("kernel", 5, id=1, name=add, mode=opencl, source=source, line=3, binary=0)
    t.record("kernel", 5, id=2, name=scale, mode=serial, source=source, line=20, binary=0)
    t.event(
        "occatrace_device:device", 6, id=1, api=t.name("opencl"), platform=t.name("Portable"), name=t.name("cpu-model"),
        vendor=t.name("Me"), handle=0x10,
    )  # fmt: skip
    t.event("occatrace_device:queue", 7, id=1, device=1, handle=0x20, flags=0)
    t.event("occatrace_device:queue", 7, id=2, device=1, handle=0x30, flags=1)
    at = 1000
    for i in range(10):
        run = t.take()
        for launch, backend in enumerate((backend0, backend1)):
            launched = t.call(
                "opencl:clEnqueueNDRangeKernel",
                at + 10 + 100 * launch,
                at + 90 + 100 * launch,
                **{"global": [64, 2]},
                ret=0,
            )
            begin = at + 1000 + 500 * launch
            t.event(
                "occatrace_device:activity", at + 5000, kind=1, corr_tid=100, corr_seq=launched, run_seq=run, queue=1 + launch,
                queued=at + 20 + 100 * launch, submitted=begin - 5, start=begin, end=begin + 700 + i, name=backend, gx=64, gy=2, gz=1,
                lx=8, ly=1, lz=1,
            )  # fmt: skip
        t.call("occa:kernel_run", at, at + 300, run, kernel=1, launches=2, error=0)
        t.call("occa:kernel_run", at + 400, at + 600 + i, kernel=2, launches=0, error=0)
        at += 10_000
    error = t.name("out of bounds")
    for i in range(4):
        t.call(
            "occa:memory_copyFrom",
            at,
            at + 50,
            handle=1,
            bytes=1 << 20,
            kind=2,
            mode=serial,
            error=error if i == 3 else 0,
        )
        seq = t.take()
        t.event("occatrace_device:activity", at + 900, seq, kind=2, corr_tid=100, corr_seq=seq, run_seq=0xFFFFFFFF, queue=1,
                queued=at, submitted=at + 1, start=at + 10, end=at + 500, bytes=4096, status=0)  # fmt: skip
        at += 1000
    for ret in (0, 0, -36):
        seq = t.take()
        t.event("occatrace_opencl:clFinish_begin", at + 1, call_seq=seq)
        t.call("opencl:clFinish", at, at + 200, seq, command_queue=0x20, ret=ret)
        at += 1000
    t.call("opencl:clCreateBuffer", at, at + 10, flags=33, size=4096, ret=0)
    t.call("opencl:clBuildProgram", at + 20, at + 900, options="-cl-std=CL3.0 'x'\n", ret=0)
    hung = t.take()
    t.event("occatrace_opencl:clFinish_begin", at + 1000, call_seq=hung)
    trace.tally(t, "opencl:clGetDeviceInfo", [100, 200, 300], at + 1100, failed=1)
    t.record("progress", at + 1200, owner=100, next_seq=t.seq + 1)
    t.record("exit", at + 1300, reason=0)
    return trace
