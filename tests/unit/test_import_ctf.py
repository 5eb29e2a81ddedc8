"""Traces of THAPI and of AMD's runtimes as runs: real CTF with the events that these tools document, and known times."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import occatrace
from occatrace.cli.dispatch import main
from tests.support import ctf
from tests.support.foreign import need_native_layer

S32, U32, U64 = ctf.Integer(32, True), ctf.Integer(32), ctf.Integer(64)
TEXT, RAW, SIZES = ctf.String(), ctf.Bytes(), ctf.List(U64)
CONTEXT = ctf.Struct((("vpid", S32), ("vtid", S32)))
PID, MAIN, WORKER = 500, 500, 501
US = 1000
Said = tuple[int, str, dict[str, tuple[ctf.Type, Any]], int, int]


@pytest.fixture(autouse=True)
def _model() -> None:
    need_native_layer()


def said(
    at: int, event: str, fields: dict[str, tuple[ctf.Type, Any]] | None = None, tid: int = MAIN, pid: int = PID
) -> Said:
    return at, event, fields or {}, pid, tid


def call(
    at: int, length: int, event: str, tid: int = MAIN, *, within: Sequence[Said] = (), result: str = "errcode_ret_val", code: int = 0,
    out: dict[str, Any] | None = None, **fields: Any,
) -> list[Said]:  # fmt: skip
    """A begin and an end as THAPI writes them; a number is of 64 bits, but for the result."""

    def typed(values: dict[str, Any]) -> dict[str, tuple[ctf.Type, Any]]:
        kinds = {str: TEXT, bytes: RAW, list: SIZES, int: U64}
        return {name: (kinds[type(value)], value) for name, value in values.items()}

    end = typed(out or {}) | ({result: (S32, code)} if result else {})
    return [said(at, f"{event}_entry", typed(fields), tid), *within, said(at + length, f"{event}_exit", end, tid)]


def trace(folder: Path, events: Sequence[Said], context: ctf.Struct = CONTEXT) -> Path:
    """A trace of these events."""
    kinds: dict[str, ctf.EventClass] = {}
    rows = []
    for at, name, fields, pid, tid in sorted(events, key=lambda event: event[0]):
        members = tuple((field, kind) for field, (kind, _) in fields.items())
        kind = kinds.setdefault(name, ctf.EventClass(len(kinds), name, ctf.Struct(members)))
        common = {"vpid": pid, "vtid": tid} if context.members else {}
        rows.append(ctf.Event(at, kind, common, {}, {field: value for field, (_, value) in fields.items()}))
    stream = ctf.StreamClass(0, False, context, tuple(kinds.values()))
    ctf.write(folder / "ust/uid/0/64-bit", [stream], [ctf.packet(stream, 0, rows[0].time, rows, 0)])
    return folder


def imported(tmp_path: Path, events: Sequence[Said], **more: Any) -> occatrace.Run:
    folder = trace(tmp_path / "trace", events, **more)
    assert main(["import", str(folder), "-o", str(tmp_path / "run")]) == 0
    return occatrace.open(tmp_path / "run")


def timed(tool: str, at: int, event: int, tid: int = MAIN) -> Said:
    return said(at, f"lttng_ust_{tool}_profiling:event_profiling", {"status": (S32, 0), "event": (U64, event)}, tid)


def opencl_result(at: int, event: int, queued: int, start: int, end: int, tid: int = WORKER) -> Said:
    numbers = {"queued": queued, "submit": queued, "start": start, "end": end}
    fields: dict[str, tuple[ctf.Type, Any]] = {"event": (U64, event), "event_command_exec_status": (S32, 0)}
    for name, value in numbers.items():
        fields |= {f"{name}_status": (S32, 0), name: (U64, value)}
    return said(at, "lttng_ust_opencl_profiling:event_profiling_results", fields, tid)


AHEAD = 7_000_000_000  # of the device's clock


def opencl() -> list[Said]:
    """Two kernels and a copy on a queue; the results of one event, whose handle is used again, come before the call returns."""
    cl = "lttng_ust_opencl:"
    out = [
        said(500, "lttng_ust_opencl_devices:device_name", {"device": (U64, 77), "name": (TEXT, "A GPU")}),
        *call(1000, 500, f"{cl}clCreateCommandQueue", context=1, device=77, out={"command_queue": 10}),
        *call(2000, 500, f"{cl}clCreateBuffer", context=1, flags=1, size=4096, host_ptr=0, out={"mem": 0x1000}),
        said(2600, "lttng_ust_opencl_arguments:kernel_info", {"kernel": (U64, 12), "function_name": (TEXT, "scale")}),
        *call(9_000_000, 500, f"{cl}clReleaseMemObject", memobj=0x1000),
        *call(9_100_000, 500, f"{cl}clFinish", command_queue=10, code=-36),
    ]
    sizes: dict[str, Any] = {"global_work_size_vals": [1024, 2], "local_work_size_vals": [64, 1]}
    for turn in range(2):
        at = 10_000 + turn * 100_000
        within = [timed("opencl", at + 100, 17)]
        if turn:
            within.append(opencl_result(at + 200, 17, AHEAD + at + 50, AHEAD + at + 60, AHEAD + at + 150))
        out += call(at, 1000, f"{cl}clEnqueueNDRangeKernel", within=within, command_queue=10, kernel=12, **sizes)
        if not turn:
            out.append(opencl_result(at + 60_000, 17, AHEAD + at + 50, AHEAD + at + 5000, AHEAD + at + 45_000))
    at = 300_000
    within = [timed("opencl", at + 100, 18, WORKER)]
    out += call(
        at, 2000, f"{cl}clEnqueueWriteBuffer", WORKER, within=within, command_queue=10, buffer=0x1000, size=4096
    )
    out.append(opencl_result(at + 9000, 18, AHEAD + at + 2000, AHEAD + at + 3000, AHEAD + at + 8000))
    return out


def test_opencl(tmp_path: Path) -> None:
    with imported(tmp_path, opencl()) as run:
        assert run.facts["imported"]["format"] == "ctf" and run.facts["imported"]["product"] == "THAPI"
        assert run.sql("SELECT pid, host, realtime_ns - mono_ns FROM processes").fetchall() == [(PID, "made", 5)]
        assert run.sql("SELECT tid FROM threads ORDER BY 1").fetchall() == [(MAIN,), (WORKER,)]
        calls = {
            row["name"]: (row["api"], row["calls"], row["total_ns"], row["errors"]) for row in run.report("api_sum")
        }
        assert calls["clEnqueueNDRangeKernel"] == ("opencl", 2, 2000, "")
        assert calls["clFinish"] == ("opencl", 1, 500, "CL_INVALID_COMMAND_QUEUE") and len(calls) == 6
        work = run.sql(
            "SELECT a.kind, a.name, d.name, a.bytes, gx, gy, lx, a.end_ns - a.start_ns, c.function FROM activities a"
            " JOIN devices d USING (device) JOIN calls c ON c.thread = a.thread AND c.seq = a.seq ORDER BY a.start_ns"
        ).fetchall()
        kernel = ("kernel", "scale", "A GPU", 0, 1024, 2, 64)
        assert work == [
            (*kernel, 40_000, "clEnqueueNDRangeKernel"),
            (*kernel, 90, "clEnqueueNDRangeKernel"),
            ("HtoD", "HtoD", "A GPU", 4096, 0, 0, 0, 5000, "clEnqueueWriteBuffer"),
        ]
        # Commands were queued within their calls: the clocks differ by AHEAD and 0 to 50 ns, of which the middle is taken.
        assert run.sql("SELECT min(start_ns) FROM activities").fetchall() == [(14_975,)]
        (memory,) = run.report("mem_usage")
        assert (memory["kind"], memory["high_water_bytes"], memory["in_use_bytes"]) == ("device", 4096, 0)
        assert not run.losses.notes


def test_opencl_without_queued_times(tmp_path: Path) -> None:
    """As THAPI shows them: from the begin of the call."""
    within = [timed("opencl", 1100, 17)]
    events = call(1000, 500, "lttng_ust_opencl:clEnqueueNDRangeKernel", within=within, command_queue=10, kernel=12)
    with imported(tmp_path, [*events, opencl_result(9000, 17, 0, 0, 40)]) as run:
        assert run.sql("SELECT start_ns, end_ns FROM activities").fetchall() == [(1000, 1040)]
        assert any("when it was queued" in note for note in run.losses.notes)


def cuda_pair(at: int, tid: int = MAIN) -> Said:
    fields: dict[str, tuple[ctf.Type, Any]] = {"hStart": (U64, at), "hStop": (U64, at + 1)}
    return said(at, "lttng_ust_cuda_profiling:event_profiling", fields, tid)


def cuda_result(at: int, pair: int, milliseconds: float, status: int = 0) -> Said:
    fields: dict[str, tuple[ctf.Type, Any]] = {"hStart": (U64, pair), "hStop": (U64, pair + 1)}
    fields |= {"startStatus": (U32, 0), "stopStatus": (U32, 0), "status": (U32, status)}
    return said(
        at,
        "lttng_ust_cuda_profiling:event_profiling_results",
        fields | {"milliseconds": (ctf.Float(False), milliseconds)},
    )


def test_cuda(tmp_path: Path) -> None:
    cu = "lttng_ust_cuda:"
    got: dict[str, Any] = {"result": "cuResult"}
    launch: dict[str, Any] = {
        "f": 0xF0,
        "gridDimX": 10,
        "gridDimY": 1,
        "gridDimZ": 1,
        "blockDimX": 64,
        "blockDimY": 1,
        "blockDimZ": 1,
        "hStream": 3,
    }
    events = [
        said(
            500, "lttng_ust_cuda_properties:device", {"ordinal": (S32, 0), "device": (S32, 3), "name": (TEXT, "H100")}
        ),
        *call(1000, 100, f"{cu}cuDevicePrimaryCtxRetain", dev=3, out={"pctx_val": 0xC}, **got),
        *call(2000, 100, f"{cu}cuCtxSetCurrent", ctx=0xC, **got),
        *call(3000, 100, f"{cu}cuModuleGetFunction", name_val="add", out={"hfunc_val": 0xF0}, **got),
        *call(4000, 100, f"{cu}cuMemAlloc_v2", bytesize=256, out={"dptr_val": 0xD0}, **got),
        *call(4500, 100, f"{cu}cuMemAlloc_v2", bytesize=512, out={"dptr_val": 0}, code=2, **got),
        *call(10_000, 500, f"{cu}cuLaunchKernel", within=[cuda_pair(10_100)], **launch, **got),
        *call(20_000, 500, f"{cu}cuLaunchKernel", within=[cuda_pair(20_100)], **launch, **got),
        *call(30_000, 500, f"{cu}cuMemcpyDtoHAsync_v2", within=[cuda_pair(30_100)], ByteCount=256, hStream=3, **got),
        cuda_result(90_000, 10_100, 0.05),
        cuda_result(90_001, 20_100, 0.01),
        cuda_result(90_002, 30_100, 0.0, status=600),
    ]
    with imported(tmp_path, events) as run:
        # One after another in the stream: the second one begins when the first ends.
        work = run.sql(
            "SELECT a.name, start_ns, end_ns, gx, lx, d.name FROM activities a JOIN devices d USING (device) ORDER BY 2"
        )
        assert work.fetchall() == [("add", 10_000, 60_000, 640, 64, "H100"), ("add", 60_000, 70_000, 640, 64, "H100")]
        (memory,) = run.report("mem_usage")
        assert (memory["api"], memory["in_use_bytes"]) == ("cuda", 256)
        assert run.sql("SELECT function, error FROM failures").fetchall() == [
            ("cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY")
        ]
        assert "commands without times: 1 (their events did not end, or failed)" in run.losses.notes


def properties(name: bytes, resolution: int, bits: int) -> bytes:
    """struct ze_device_properties_t."""
    raw = bytearray(368)
    struct.pack_into("<I", raw, 0, 3)
    struct.pack_into("<QII", raw, 80, resolution, 36, bits)
    raw[112 : 112 + len(name)] = name
    return bytes(raw)


def test_level_zero(tmp_path: Path) -> None:
    """A device that counts 80 ns in 32 bits, and wraps between two kernels; the list is executed twice."""
    got: dict[str, Any] = {"result": "zeResult"}
    ze, on = "lttng_ust_ze:", {"hDevice": (U64, 0xDE)}
    wrap = 1 << 32

    def cycles(at: int) -> int:
        return (wrap - 1000 + (at - 1000) // 80) % wrap

    def result(at: int, start: int, end: int) -> Said:
        numbers = {"globalStart": cycles(start), "globalEnd": cycles(end), "contextStart": 0, "contextEnd": 0}
        fields: dict[str, tuple[ctf.Type, Any]] = {
            "hEvent": (U64, 0xE),
            "status": (S32, 0),
            "timestampStatus": (S32, 0),
        }
        return said(
            at, "lttng_ust_ze_profiling:event_profiling_results", fields | {n: (U64, v) for n, v in numbers.items()}
        )

    groups = struct.pack("<III", 10, 2, 1)
    profiled = said(30_100, "lttng_ust_ze_profiling:event_profiling", {"hEvent": (U64, 0xE)})
    copied = said(40_100, "lttng_ust_ze_profiling:event_profiling", {"hEvent": (U64, 0xF)})
    events = [
        said(900, "lttng_ust_ze_properties:device", {**on, "pDeviceProperties_val": (RAW, properties(b"Max 1550", 80, 32))}),
        said(1000, "lttng_ust_ze_properties:device_timer", {**on, "hostTimestamp": (U64, 5), "deviceTimestamp": (U64, cycles(1000))}),
        *call(2000, 100, f"{ze}zeCommandListCreate", hDevice=0xDE, out={"phCommandList_val": 0x11}, **got),
        *call(3000, 100, f"{ze}zeKernelCreate", desc__pKernelName_val="k", out={"phKernel_val": 0xA}, **got),
        *call(4000, 100, f"{ze}zeKernelSetGroupSize", hKernel=0xA, groupSizeX=32, groupSizeY=1, groupSizeZ=1, **got),
        *call(5000, 100, f"{ze}zeMemAllocDevice", size=64, hDevice=0xDE, out={"pptr_val": 0x5000}, **got),
        *call(30_000, 500, f"{ze}zeCommandListAppendLaunchKernel", within=[profiled], hCommandList=0x11, hKernel=0xA,
              pLaunchFuncArgs_val=groups, hSignalEvent=0xE, **got),
        *call(40_000, 500, f"{ze}zeCommandListAppendMemoryCopy", within=[copied], hCommandList=0x11, dstptr=0x5000, srcptr=0x99,
              size=64, hSignalEvent=0xF, **got),
        *call(60_000, 100, f"{ze}zeEventQueryStatus", hEvent=0xE, code=1, **got),  # not ready: no failure
        result(200_000, 49_000, 145_000),
        result(400_000, 249_000, 289_000),
    ]  # fmt: skip
    with imported(tmp_path, events) as run:
        work = run.sql(
            "SELECT a.name, start_ns, end_ns, gx, gy, lx, d.name FROM activities a JOIN devices d USING (device) ORDER BY 2"
        )
        assert work.fetchall() == [
            ("k", 49_000, 145_000, 320, 2, 32, "Max 1550"),
            ("k", 249_000, 289_000, 320, 2, 32, "Max 1550"),
        ]
        assert run.sql("SELECT count(*) FROM failures").fetchall() == [(0,)]
        assert "commands without times: 1 (their events did not end, or failed)" in run.losses.notes


def test_level_zero_with_cut_structures(tmp_path: Path) -> None:
    """As LTTng 2.13 writes them. Two readings of the clock, 50 ms apart, tell that a cycle lasts 80 ns."""
    got: dict[str, Any] = {"result": "zeResult"}
    ze, on = "lttng_ust_ze:", {"hDevice": (U64, 0xDE)}
    zero: dict[str, Any] = dict.fromkeys(("contextStart", "contextEnd"), (U64, 0))
    result = {
        "hEvent": (U64, 0xE),
        "status": (S32, 0),
        "timestampStatus": (S32, 0),
        "globalStart": (U64, 1000),
        "globalEnd": (U64, 2000),
    }
    profiled = said(30_100, "lttng_ust_ze_profiling:event_profiling", {"hEvent": (U64, 0xE)})
    events = [
        said(900, "lttng_ust_ze_properties:device", {**on, "pDeviceProperties_val": (RAW, b"\3".ljust(368, b"\0"))}),
        *(
            said(
                1000 + at,
                "lttng_ust_ze_properties:device_timer",
                {**on, "deviceTimestamp": (U64, (1 << 32) + 500 + at // 80)},
            )
            for at in (0, 50_000_000)
        ),
        *call(2000, 100, f"{ze}zeCommandListCreateImmediate", hDevice=0xDE, out={"phCommandList_val": 0x11}, **got),
        *call(
            30_000,
            500,
            f"{ze}zeCommandListAppendLaunchKernel",
            within=[profiled],
            hCommandList=0x11,
            hKernel=0xA,
            **got,
        ),
        said(200_000, "lttng_ust_ze_profiling:event_profiling_results", result | zero),
    ]
    with imported(tmp_path, events) as run:
        assert run.sql("SELECT start_ns, end_ns FROM activities").fetchall() == [(41_000, 121_000)]


def test_ranks_messages_ranges_and_openmp(tmp_path: Path) -> None:
    mpi = "lttng_ust_mpi:"
    got: dict[str, Any] = {"result": "mpiResult"}
    double = 0x4C00080B
    region = {"kind": (S32, 1), "device_num": (S32, 0)}
    events = [
        *call(1000, 10, f"{mpi}MPI_Comm_rank", comm=0x44000000, out={"rank_val": 3}, **got),
        *call(1100, 10, f"{mpi}MPI_Comm_size", comm=0x44000000, out={"size_val": 8}, **got),
        *call(2000, 100, f"{mpi}MPI_Send", count=10, datatype=double, dest=4, tag=7, comm=0x44000000, **got),
        *call(3000, 100, f"{mpi}MPI_Recv", count=5, datatype=double, source=2, tag=8, comm=0x44000000, **got),
        said(
            4000,
            "lttng_ust_itt:__itt_task_begin",
            {"domain__nameA_val": (TEXT, "solver"), "name__strA_val": (TEXT, "step")},
        ),
        said(5000, "lttng_ust_itt:__itt_task_end", {"domain": (U64, 0)}),
        said(6000, "lttng_ust_ompt:ompt_callback_target_emi", {"endpoint": (S32, 1), **region}),
        said(6500, "lttng_ust_ompt:ompt_callback_target_emi", {"endpoint": (S32, 2), **region}),
        said(7000, "lttng_ust_sampling:heartbeat", {"index": (U64, 1)}),
        *call(8000, 10, "lttng_ust_hip:hipDeviceSynchronize", result="hipResult"),
        *call(8100, 10, "lttng_ust_cudart:cudaMalloc", result="cudaResult", size=8, out={"devPtr_val": 0x77}),
        said(9000, f"{mpi}MPI_Finalize_entry"),
    ]
    with imported(tmp_path, events) as run:
        assert run.sql("SELECT rank, size FROM processes").fetchall() == [(3, 8)]
        sent = {row["name"]: (row["count"], row["total"]) for row in run.report("mpi_msg_size_sum")}
        assert sent == {"send": (1, 80), "receive": (1, 40)}
        assert run.sql('SELECT args.partner, args.tag, args.bytes FROM "mpi.MPI_Send"').fetchall() == [(4, 7, 80)]
        assert run.sql("SELECT api, domain, name, end_ns - start_ns FROM ranges").fetchall() == [
            ("itt", "solver", "step", 1000)
        ]
        apis = {row["name"]: (row["api"], row["total_ns"]) for row in run.report("api_sum")}
        assert apis["target"] == ("openmp", 500) and apis["hipDeviceSynchronize"] == ("hip", 10)
        assert run.sql("SELECT function FROM unfinished").fetchall() == [("MPI_Finalize",)]
        assert "not imported: 1 × lttng_ust_sampling:heartbeat" in run.losses.notes


def rocm(at: int, length: int, event: str, status: int = 0, within: Sequence[Said] = (), tid: int = MAIN) -> list[Said]:
    """One event twice, as AMD's runtimes write it (schema 1)."""
    ends = [{"size": (U64, 16), "phase": (S32, phase), "retstatus": (S32, status if phase else 0)} for phase in (0, 1)]
    return [said(at, event, ends[0], tid), *within, said(at + length, event, ends[1], tid)]  # type: ignore[arg-type]


def test_amd(tmp_path: Path) -> None:
    launched = {"kernel_name": (TEXT, "scale"), "stream": (U64, 9), "shared_mem_bytes": (U32, 0)}
    draft = [("hip_api_enter", 0), ("hip_api_exit_status", 30)]
    events = [
        *rocm(1000, 100, "rocm_hip:hipMalloc", status=2),
        *rocm(2000, 700, "rocm_hip:hipLaunchKernel", within=[
            said(2100, "rocm_hip:hip_kernel_dispatch_enqueue", launched), *rocm(2200, 300, "rocm_hsa:hsa_signal_create")]),
        *rocm(5000, 50, "rocm_hip:hipStreamSynchronize", tid=WORKER),
        *(said(7000 + at, f"rocm_hip:{name}", {"api_name": (TEXT, "hipFree"), "status": (S32, 0)}) for name, at in draft),
        said(8000, "rocm_hsa:hsa_doorbell_ring", {"queue_id": (U32, 1)}),
    ]  # fmt: skip
    with imported(tmp_path, events) as run:
        assert run.facts["imported"]["product"] == "AMD ROCm (LTTng)"
        calls = {
            row["name"]: (row["api"], row["calls"], row["total_ns"], row["errors"]) for row in run.report("api_sum")
        }
        assert calls == {
            "hipLaunchKernel": ("hip", 1, 700, ""),
            "hsa_signal_create": ("hsa", 1, 300, ""),
            "hipMalloc": ("hip", 1, 100, "hipErrorOutOfMemory"),
            "hipStreamSynchronize": ("hip", 1, 50, ""),
            "hipFree": ("hip", 1, 30, ""),
        }
        kernels = run.sql(
            "SELECT a.name, c.function FROM activities a JOIN calls c ON c.thread = a.thread AND c.seq = a.seq"
        )
        assert kernels.fetchall() == [("scale", "hipLaunchKernel")]
        notes = run.losses.notes
        assert "not imported: 1 × rocm_hsa:hsa_doorbell_ring" in notes and any(
            "no times of the device" in note for note in notes
        )


def test_other_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    imported(tmp_path, opencl()).close()
    for words in (("timeline", "-o", tmp_path / "t.pftrace"), ("trace",), ("why",), ("report",)):
        assert main([words[0], str(tmp_path / "run"), *map(str, words[1:])]) == 0
    assert "clEnqueueNDRangeKernel" in capsys.readouterr().out


BAD: dict[str, tuple[list[Said], ctf.Struct, str]] = {
    "another tool": ([said(1, "mine:step")], CONTEXT, "it has mine:step: only the events of THAPI"),
    "occatrace": ([said(1, "occatrace_opencl:clFinish")], CONTEXT, "no import is needed"),
    "no contexts": ([said(1, "lttng_ust_opencl:clFinish_entry")], ctf.Struct(()), "clFinish_entry has no context vpid"),
    "no field": (
        [said(1, "lttng_ust_cuda_profiling:event_profiling_results", {"hStart": (U64, 1)})],
        CONTEXT,
        "event lttng_ust_cuda_profiling:event_profiling_results has no field hStop",
    ),
    "a short structure": (
        [said(1, "lttng_ust_ze_properties:device", {"hDevice": (U64, 1), "pDeviceProperties_val": (RAW, b"short")})],
        CONTEXT,
        "pDeviceProperties_val has 5 bytes, not 368",
    ),
    "nothing of a program": (
        [said(1, "lttng_ust_mpi_type:property", {"datatype": (U64, 1), "size": (S32, 4)})],
        CONTEXT,
        "no calls, no device work",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_not_understood_is_one_line(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events, context, told = BAD[what]
    folder = trace(tmp_path / "trace", events, context)
    assert main(["import", str(folder), "-o", str(tmp_path / "run")]) == 2 and not (tmp_path / "run").exists()
    out, err = capsys.readouterr()
    assert not out and err.count("\n") == 1 and told in err
