"""Folders of LTTng traces (CTF) of other tools: THAPI's, and the HIP and HSA events of AMD's ROCm runtimes. By their published
events: calls by begin and end, and what device work, kernels, memory and messages need; `ctf_work` joins these."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from occatrace import _native
from occatrace.core import model as model_module
from occatrace.core.checked import printable
from occatrace.core.model import Function
from occatrace.errors import RunError
from occatrace.foreign import ctf_work
from occatrace.foreign.ctf_work import SPECS
from occatrace.foreign.staging import Process, Source, Staging
from occatrace.ingest.reading import text_of

NAME = "ctf"

# Providers of THAPI whose events are NAME_entry and NAME_exit, and the API.
_THAPI = {
    **{f"lttng_ust_{api}": api for api in ("opencl", "cuda", "cudart", "hip", "mpi")},
    **{f"lttng_ust_{name}": "ze" for name in ("ze", "zet", "zes", "zel", "zer", "zex")},
}
_OMPT, _ITT = "lttng_ust_ompt", "lttng_ust_itt"
# Those of AMD's runtimes: one event per function, with a field `phase`; an older draft has a pair for all functions.
_ROCM = {"rocm_hip": "hip", "rocm_hsa": "hsa"}
_DRAFT = re.compile(r"(hip|hsa)_api_(enter|exit_\w+)")
_OURS = "occatrace_"
_APIS = ("opencl", "cuda", "cudart", "hip", "mpi", "ze", "hsa", "openmp", "itt")
ITT = _APIS.index("itt")
# The field of an exit event that has the result.
_CODES = ("errcode_ret_val", "zeResult", "cuResult", "cudaResult", "hipResult", "mpiResult", "retstatus", "status")
# Fields of an entry event, by what they are; the first that is there.
_QUEUE = ("command_queue", "hStream", "stream", "hCommandList")
_IN = {
    "queue": _QUEUE,
    "kernel": ("kernel", "f", "hKernel"),
    "dev": ("device", "dev", "hDevice"),
    "ctx": ("ctx",),
    "way": ("kind",),
}
_MPI_IN = {
    "partner": ("dest", "source"),
    "tag": ("tag", "sendtag"),
    "count": ("count", "sendcount"),
    "dtype": ("datatype", "sendtype"),
    "handle": ("request_val", "request"),
}
_NAME_FIELDS = ("name_val", "kname_val", "desc__pKernelName_val", "kernel_name_val")
# Of an exit event: what a call made, or told.
_OUT = (
    *("hfunc_val", "phKernel_val", "function_val", "kernel", "command_queue", "phCommandList_val", "pctx_val"),
    *("request_val", "rank_val", "size_val"),
)
_AXES = "XYZ"
_MICROSTEPS = {1: (1,), 2: (-1,), 3: (1, -1)}  # ompt_scope_endpoint_t: begin, end, both at once
# Said by other events as well, or about the tool.
_SILENT = re.compile(
    r"lttng_ust_thapi:|lttng_ust_opencl_devices:device_timer|rocm_h(ip|sa):\w+_args$|lttng_ust_statedump:"
)
# struct ze_device_properties_t of the specification: bytes from its start.
_RESOLUTION, _BITS, _NAME_AT, _PROPERTIES = 80, 92, 112, 368
Columns = Mapping[str, npt.NDArray[Any]]


def read(folder: Path, into: Staging) -> None:
    """Fill the staging tables. Raises a RunError for what means nothing."""
    _Trace(folder, into).run()


class _Trace:
    """All traces below a folder."""

    def __init__(self, folder: Path, into: Staging) -> None:
        self._into = into
        self._con = into.con
        self._model = model_module.load()
        self._folder = folder
        self._processes: dict[tuple[str, int], int] = {}
        self._hosts: dict[str, str] = {}
        self._functions: dict[str, int] = {}  # by name: number of its text, below 0
        self._texts: set[int] = set()  # strings of the trace that are used
        self._unknown: dict[str, int] = {}
        self._next = 1
        self._offsets: list[int] = []
        self._tools: set[str] = set()
        self.devices: dict[tuple[int, int], str] = {}
        for name, ddl in SPECS.items():
            self._con.execute(f"CREATE TABLE {name} ({ddl})")
        into.sources += [Source(api, codes=api != "itt", fails=True) for api in _APIS]

    def run(self) -> None:
        """Read, then join."""
        try:
            reader = _native.Reader(self._folder, batch_rows=1 << 16, raw=True)
        except _native.TraceError as error:
            raise RunError(str(error)) from None
        with reader:
            for trace in reader.traces:
                if trace["clock_frequency"] != 1_000_000_000:
                    raise RunError(f"{printable(trace['path'])}: its clock does not count nanoseconds")
                self._offsets.append(trace["clock_offset"])
            self._reader = reader
            for batch in reader:
                host = reader.traces[batch.trace]["env"].get("hostname", "")
                self._batch(batch.event, host, batch.columns, self._offsets[batch.trace] - self._offsets[0])
            self._say_what_is_left(reader)
        self._into.realtime_ns = self._offsets[0]
        hosts = {host for host, _ in self._processes}
        self._into.host = printable(min(hosts, default=""))[:200]
        self._into.product = " and ".join(sorted(self._tools))
        kernels = sorted(self._functions.items())
        self._into.fill("texts", "id text", [(number, name) for name, number in kernels])
        strings = reader.strings
        self._into.fill("texts", "id text", [(i + 1, text_of(strings[i])) for i in sorted(self._texts)])
        functions = []
        for name, number in self._functions.items():
            for source, api in enumerate(_APIS):
                if found := self._function(api, name):
                    functions.append((source, number, name, found.activity or "", found.kind))
        ctf_work.join(self._into, functions, self._functions, self.devices, _APIS)

    def _say_what_is_left(self, reader: _native.Reader) -> None:
        if not self._tools:
            ours = any(name.startswith(_OURS) for name in self._unknown)
            shown = ", ".join(printable(name)[:60] for name in sorted(self._unknown)[:4]) or "no events"
            if ours:
                raise RunError(
                    f"its events are those of occatrace, no import is needed: occa_prof report {self._folder}"
                )
            raise RunError(
                f"it has {shown}: only the events of THAPI (lttng_ust_…) and of AMD's runtimes (rocm_hip, rocm_hsa) are known"
            )
        notes = self._into.notes
        if self._unknown:
            most = sorted(self._unknown, key=lambda name: (-self._unknown[name], name))
            shown = ", ".join(f"{self._unknown[name]:,} × {printable(name)[:80]}" for name in most[:8])
            notes.append(f"not imported: {shown}{f' and {len(most) - 8} more events' if len(most) > 8 else ''}")
        problems = reader.problems
        notes += [printable(problem)[:300] for problem in problems[:4]]
        if len(problems) > 4:
            notes.append(f"and {len(problems) - 4} more such problems")

    # ---- what an event says ----

    def _need(self, event: str, columns: Columns, *names: str) -> None:
        for name in names:
            if name not in columns:
                if name.startswith("ctx."):
                    word = name.removeprefix("ctx.")
                    raise RunError(
                        f"event {printable(event)} has no context {word}, without which it means nothing: record with"
                        " `lttng add-context -u -t vpid -t vtid`"
                    )
                raise RunError(f"event {printable(event)} has no field {name}, without which it means nothing")

    def _batch(self, event: str, host: str, columns: Columns, offset: int) -> None:
        provider, _, name = event.partition(":")
        if _SILENT.match(event):
            return
        at = columns["ts"].view(np.int64) + offset
        read = _OTHER.get(event)
        known = provider in (_OMPT, _ITT) or provider in _THAPI or provider in _ROCM or read is not None
        if not known:
            self._left(event, len(at))
            return
        self._need(event, columns, "ctx.vpid")
        p = self._process_of(host, _ints(columns["ctx.vpid"]))
        if read is not None:
            read(self, event, columns, p, at)
            self._tools.add("AMD ROCm (LTTng)" if provider in _ROCM else "THAPI")
            return
        self._need(event, columns, "ctx.vtid")
        t = self._thread_of(p, _ints(columns["ctx.vtid"]))
        rows = _Rows(event, columns, p, t, at)
        if provider in _THAPI:
            self._thapi(rows, _THAPI[provider], name)
        elif provider == _OMPT:
            self._ompt(rows, name)
        elif provider == _ITT:
            self._itt(rows, name)
        else:
            self._rocm(rows, _ROCM[provider], name)

    def _left(self, event: str, count: int) -> None:
        self._unknown[event] = self._unknown.get(event, 0) + count

    def _process_of(self, host: str, pids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        distinct, inverse = _distinct(pids)
        numbers = []
        for pid in distinct.tolist():
            p = self._processes.setdefault((host, pid), len(self._processes) + 1)
            self._into.processes.setdefault(p, Process(pid, host=printable(host)[:200]))
            numbers.append(p)
        result: npt.NDArray[np.int64] = np.array(numbers, np.int64)[inverse]
        return result

    def _thread_of(self, p: npt.NDArray[np.int64], tids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        threads = (p << 32) | (tids & 0xFFFFFFFF)
        for thread in _distinct(threads)[0].tolist():
            self._into.threads.setdefault(thread, (thread & 0xFFFFFFFF, ""))
        return threads

    def _function(self, api: str, name: str) -> Function | None:
        return self._model.function(api, name) or self._model.function(api, re.sub("_pt(sz|ds)$", "", name))

    def _name(self, name: str) -> int:
        return self._functions.setdefault(name, -1 - len(self._functions))

    def _text(self, column: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Numbers of the texts of a column of strings."""
        values = _ints(column)
        self._texts.update(_distinct(values)[0].tolist())
        return values + 1

    def _add(self, table: str, arrays: Mapping[str, Any], count: int) -> None:
        """Rows; a value that is no array is that of all rows."""
        if count:
            whole = {k: v if isinstance(v, np.ndarray) else np.full(count, v, np.int64) for k, v in arrays.items()}
            self._con.register("batch", {k: np.ascontiguousarray(v) for k, v in whole.items()})
            self._con.execute(f"INSERT INTO {table} BY NAME SELECT * FROM batch")
            self._con.unregister("batch")

    def _edges(
        self, rows: _Rows, api: str, fn: Any, step: int, code: npt.NDArray[np.int64] | None = None
    ) -> npt.NDArray[np.int64]:
        """Begins (step 1) or ends (step -1) of calls; returns their numbers."""
        count = len(rows.at)
        ids = np.arange(self._next, self._next + count)
        self._next += count
        known: dict[str, Any] = {"id": ids, "p": rows.p, "t": rows.t, "ts": rows.at, "step": step}
        known |= {"source": _APIS.index(api), "fn": fn}
        if code is not None:
            known["code"] = code
        self._add("m_edges", known, count)
        return ids

    # ---- THAPI ----

    def _thapi(self, rows: _Rows, api: str, name: str) -> None:
        function, _, end = name.rpartition("_")
        if end not in ("entry", "exit") or not function:
            self._left(rows.event, len(rows.at))
            return
        self._tools.add("THAPI")
        if end == "entry":
            self._begin(rows, api, function)
        else:
            self._end(rows, api, function)

    def _begin(self, rows: _Rows, api: str, name: str) -> None:
        ids = self._edges(rows, api, self._name(name), 1)
        of = self._function(api, name)
        columns = rows.columns
        told: dict[str, Any] = {}
        for role, fields in (_MPI_IN if api == "mpi" else _IN).items():
            field = next((f for f in fields if f in columns), None)
            if field is not None and columns[field].dtype.kind in "iu":
                told[role] = _ints(columns[field])
        if (
            of
            and (of.activity or of.allocates)
            and (size := of.allocates.bytes if of.allocates else of.bytes) in columns
        ):
            told["bytes"] = _ints(columns[size])  # type: ignore[index]
        if of and of.frees and of.frees.handle in columns:
            told["handle"], told["freed"] = _ints(columns[of.frees.handle]), 1
        elif name == "clReleaseMemObject" and "memobj" in columns:
            told["handle"], told["freed"] = _ints(columns["memobj"]), 1
        if of and of.allocates:
            told["mkind"] = of.allocates.kinds_of(columns, len(rows.at)).astype(np.int64)
        if of and of.activity == "copy":
            for role, field in (("src", "srcptr"), ("dst", "dstptr")):
                if field in columns:
                    told[role] = _ints(columns[field])
        told |= _threads(columns, len(rows.at))
        text = next((f for f in _NAME_FIELDS if f in columns and f"{f}.values" not in columns), None)
        if text:
            told["text"] = self._text(columns[text])
        if told:
            self._add("m_in", {"id": ids, **told}, len(ids))

    def _end(self, rows: _Rows, api: str, name: str) -> None:
        columns = rows.columns
        code = next((_ints(columns[f]) for f in _CODES if f in columns), None)
        ids = self._edges(rows, api, self._name(name), -1, code)
        of = self._function(api, name)
        fields: tuple[str, ...] = _OUT
        if of and of.allocates:
            fields = (f"{of.allocates.handle}_val", "mem", "_retval", "ret_ptr")
        field = next((f for f in fields if f in columns and f"{f}.values" not in columns), None)
        if field is not None:
            self._add("m_out", {"id": ids, "value": _ints(columns[field])}, len(ids))

    def _ompt(self, rows: _Rows, name: str) -> None:
        if "endpoint" not in rows.columns:
            self._left(rows.event, len(rows.at))
            return
        self._tools.add("THAPI")
        fn = self._name(name.removeprefix("ompt_callback_").removesuffix("_emi"))
        endpoint = _ints(rows.columns["endpoint"])
        for value, steps in _MICROSTEPS.items():
            part = rows.only(endpoint == value)
            for step in steps:
                self._edges(part, "openmp", fn, step)

    def _itt(self, rows: _Rows, name: str) -> None:
        if name not in ("__itt_task_begin", "__itt_task_end"):
            self._left(rows.event, len(rows.at))
            return
        self._tools.add("THAPI")
        begins = name.endswith("begin")
        ids = self._edges(rows, "itt", self._name("task"), 1 if begins else -1)
        if begins:
            self._need(rows.event, rows.columns, "name__strA_val")
            told = {"id": ids, "text": self._text(rows.columns["name__strA_val"])}
            if "domain__nameA_val" in rows.columns:
                told["handle"] = self._text(rows.columns["domain__nameA_val"])
            self._add("m_in", told, len(ids))

    def _profiled(self, event: str, columns: Columns, p: Any, at: Any) -> None:
        """Which events a command is timed by."""
        api, first, second = _TIMED[event.partition(":")[0]]
        self._need(event, columns, "ctx.vtid", first, *((second,) if second else ()))
        told = {"p": p, "t": self._thread_of(p, _ints(columns["ctx.vtid"])), "ts": at, "event": _ints(columns[first])}
        self._add(
            "m_profiled",
            {**told, "second": _ints(columns[second]) if second else 0, "source": _APIS.index(api)},
            len(at),
        )

    def _result(self, event: str, columns: Columns, p: Any, at: Any) -> None:
        """What the events said."""
        api, first, second = _TIMED[event.partition(":")[0]]
        told: dict[str, Any] = {"p": p, "ts": at, "source": _APIS.index(api)}
        good = np.ones(len(at), bool)
        if api == "cuda":
            self._need(event, columns, first, second, "status", "milliseconds")
            good &= columns["status"] == 0
            told["s"] = np.zeros(len(at), np.int64)
            told["e"] = np.rint(np.nan_to_num(columns["milliseconds"].astype(np.float64)) * 1e6).astype(np.int64)
        elif api == "ze":
            self._need(event, columns, first, "timestampStatus", "globalStart", "globalEnd")
            good &= columns["timestampStatus"] == 0
            told["s"], told["e"] = _ints(columns["globalStart"]), _ints(columns["globalEnd"])
        else:
            self._need(event, columns, first, "queued", "start", "end", "start_status", "end_status")
            good &= (columns["start_status"] == 0) & (columns["end_status"] == 0)
            told["s"], told["e"], told["queued"] = (_ints(columns[f]) for f in ("start", "end", "queued"))
        told |= {
            "event": _ints(columns[first]),
            "second": _ints(columns[second]) if second else 0,
            "good": good.astype(np.int64),
        }
        self._add("m_results", told, len(at))

    def _kernel_info(self, event: str, columns: Columns, p: Any, at: Any) -> None:
        self._need(event, columns, "kernel", "function_name")
        told = {"p": p, "ts": at, "kernel": _ints(columns["kernel"]), "text": self._text(columns["function_name"])}
        self._add("m_kernels", told, len(at))

    def _device_name(self, event: str, columns: Columns, p: Any, at: Any) -> None:
        self._need(event, columns, "device", "name")
        names = self._text(columns["name"])
        strings = self._reader.strings
        for of, device, name in zip(p.tolist(), _ints(columns["device"]).tolist(), names.tolist(), strict=True):
            self.devices[of, device] = text_of(strings[name - 1])

    def _device(self, event: str, columns: Columns, p: Any, at: Any) -> None:
        """Properties of a device or sub-device of Level Zero: the structure as the driver filled it."""
        handle = "hSubDevice" if event.endswith(":subdevice") else "hDevice"
        self._need(event, columns, handle, "pDeviceProperties_val", "pDeviceProperties_val.values")
        places, values = columns["pDeviceProperties_val"], columns["pDeviceProperties_val.values"]
        rows = []
        for row, (of, device) in enumerate(zip(p.tolist(), _ints(columns[handle]).tolist(), strict=True)):
            raw = values[places[row] : places[row + 1]].tobytes()
            if len(raw) < _PROPERTIES:
                raise RunError(f"event {event}: pDeviceProperties_val has {len(raw)} bytes, not {_PROPERTIES}")
            resolution = int.from_bytes(raw[_RESOLUTION : _RESOLUTION + 8], "little")
            bits = int.from_bytes(raw[_BITS : _BITS + 4], "little")
            # ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES counts ns in a cycle, its successor cycles in a second.
            ns = 1e9 / resolution if int.from_bytes(raw[:4], "little") != 3 and resolution else float(resolution)
            name = raw[_NAME_AT:_PROPERTIES].split(b"\0")[0].decode("utf-8", "backslashreplace")
            if handle == "hSubDevice" and name:
                name += f" sub-device {int.from_bytes(raw[32:36], 'little')}"
            if name:
                self.devices[of, device] = name
            rows.append((of, device, ns, min(bits or 64, 64)))
        self._con.executemany("INSERT INTO m_clocks VALUES (?, ?, ?, ?)", rows)

    def _device_timer(self, event: str, columns: Columns, p: Any, at: Any) -> None:
        self._need(event, columns, "hDevice", "deviceTimestamp")
        told = {"p": p, "ts": at, "dev": _ints(columns["hDevice"]), "cycles": _ints(columns["deviceTimestamp"])}
        self._add("m_timers", told, len(at))

    def _datatype(self, event: str, columns: Columns, p: Any, at: Any) -> None:
        self._need(event, columns, "datatype", "size")
        self._add("m_types", {"p": p, "dtype": _ints(columns["datatype"]), "size": _ints(columns["size"])}, len(at))

    # ---- AMD ----

    def _rocm(self, rows: _Rows, api: str, name: str) -> None:
        columns = rows.columns
        draft = _DRAFT.fullmatch(name)
        if draft:
            self._need(rows.event, columns, "api_name")
            names = _ints(columns["api_name"])
            strings = self._reader.strings
            begins = draft[2] == "enter"
            code = None if begins or "status" not in columns else _ints(columns["status"])
            for value in _distinct(names)[0].tolist():
                mask = names == value
                fn = self._name(text_of(strings[value]))
                self._edges(rows.only(mask), api, fn, 1 if begins else -1, None if code is None else code[mask])
        elif "phase" in columns:
            if re.fullmatch(r".*_\d", name) and f"rocm_{api}:{name[:-2]}" in self._reader.schema:
                return  # more fields of the same call
            phase = _ints(columns["phase"])
            fn = self._name(name)
            code = _ints(columns["retstatus"]) if "retstatus" in columns else None
            self._edges(rows.only(phase == 0), api, fn, 1)
            self._edges(rows.only(phase == 1), api, fn, -1, None if code is None else code[phase == 1])
        else:
            self._left(rows.event, len(rows.at))
            return
        self._tools.add("AMD ROCm (LTTng)")

    def _enqueued(self, event: str, columns: Columns, p: Any, at: Any) -> None:
        """A kernel on its way. These events have no times of the device."""
        self._need(event, columns, "ctx.vtid", "kernel_name", "stream")
        told = {
            "p": p,
            "t": self._thread_of(p, _ints(columns["ctx.vtid"])),
            "ts": at,
            "queue": _ints(columns["stream"]),
        }
        self._add("m_enqueued", {**told, "text": self._text(columns["kernel_name"])}, len(at))


# The providers of profiling events: their API, and the fields that name the events.
_TIMED = {
    "lttng_ust_opencl_profiling": ("opencl", "event", ""),
    "lttng_ust_cuda_profiling": ("cuda", "hStart", "hStop"),
    "lttng_ust_ze_profiling": ("ze", "hEvent", ""),
}
# Events that are no begins and ends of calls.
_OTHER = {
    **{f"{provider}:event_profiling": _Trace._profiled for provider in _TIMED},
    **{f"{provider}:event_profiling_results": _Trace._result for provider in _TIMED},
    "lttng_ust_opencl_arguments:kernel_info": _Trace._kernel_info,
    "lttng_ust_opencl_devices:device_name": _Trace._device_name,
    "lttng_ust_cuda_properties:device": _Trace._device_name,
    "lttng_ust_ze_properties:device": _Trace._device,
    "lttng_ust_ze_properties:subdevice": _Trace._device,
    "lttng_ust_ze_properties:device_timer": _Trace._device_timer,
    "lttng_ust_mpi_type:property": _Trace._datatype,
    "rocm_hip:hip_kernel_dispatch_enqueue": _Trace._enqueued,
}


class _Rows:
    """Rows of an event of calls."""

    def __init__(self, event: str, columns: Columns, p: Any, t: Any, at: Any) -> None:
        self.event, self.columns, self.p, self.t, self.at = event, columns, p, t, at

    def only(self, mask: npt.NDArray[np.bool_]) -> _Rows:
        """Some of them, without their fields."""
        return _Rows(self.event, {}, self.p[mask], self.t[mask], self.at[mask])


def _ints(column: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Whole numbers as 64 bits."""
    return column.view(np.int64) if column.dtype == np.uint64 else column.astype(np.int64)


def _distinct(values: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The values in order, each once, and where each row's is among them."""
    ordered = np.sort(values)
    first = np.ones(len(ordered), bool)
    first[1:] = ordered[1:] != ordered[:-1]
    distinct = ordered[first]
    return distinct, np.searchsorted(distinct, values)


def _threads(columns: Columns, count: int) -> dict[str, npt.NDArray[np.int64]]:
    """Threads of all groups (gx …) and of one (lx …), or their groups alone (nx …), where an entry event tells them."""
    out = {}
    for axis, at in zip("xyz", _AXES, strict=True):
        for name, field in (
            (f"n{axis}", f"gridDim{at}"),
            (f"l{axis}", f"blockDim{at}"),
            (f"l{axis}", f"groupSize{at}"),
        ):
            if field in columns:
                out[name] = _ints(columns[field])
    for name, field in (("g", "global_work_size_vals"), ("l", "local_work_size_vals")):
        if f"{field}.values" in columns:
            for number, axis in enumerate("xyz"):
                out[f"{name}{axis}"] = _nth(
                    columns[field], _ints(columns[f"{field}.values"]), number, 1 if name == "g" else 0
                )
    groups = "pLaunchFuncArgs_val"
    if f"{groups}.values" in columns and columns[f"{groups}.values"].dtype == np.uint8:
        places, raw = columns[groups].astype(np.int64), columns[f"{groups}.values"]
        whole = places[1:] - places[:-1] >= 12
        for number, axis in enumerate("xyz"):
            value = np.zeros(count, np.int64)
            for byte in range(4):
                value[whole] |= raw[places[:-1][whole] + 4 * number + byte].astype(np.int64) << (8 * byte)
            out[f"n{axis}"] = value
    return out


def _nth(places: npt.NDArray[Any], values: npt.NDArray[np.int64], number: int, default: int) -> npt.NDArray[np.int64]:
    """Of a column of lists: the n-th value of each row."""
    places = places.astype(np.int64)
    result = np.full(len(places) - 1, default, np.int64)
    there = places[1:] - places[:-1] > number
    result[there] = values[places[:-1][there] + number]
    return result
