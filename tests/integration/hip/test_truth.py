"""HIP calls and device work against what the programs did: counts, bytes, durations, order, memory, failures."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import occatrace
from occatrace.views.monitor import Monitor
from tests.support import live, timelines
from tests.support.runs import OCCA_PROF, execute
from tests.support.suites.hip import Run

MS = 1_000_000
DEVICE_TRACKS = """
    SELECT above.name AS device, count(*) AS kernels FROM slice s JOIN track t ON t.id = s.track_id
    JOIN track above ON above.id = t.parent_id WHERE s.name LIKE 'tick%' GROUP BY t.id, above.name ORDER BY device"""
KERNELS = "SELECT start_ns, end_ns, queue, name FROM activities WHERE kind = 'kernel' ORDER BY start_ns"


def test_a_series_of_kernels_lies_end_to_end_on_one_track(traced: Run, cases: Path) -> None:
    run = traced(cases, "series", "1000")
    assert (run.status, run.stdout) == (0, "done\n"), run.stderr
    rows = run.sql(
        "SELECT start_ns, end_ns, gx, gy, lx, ly, queued_ns FROM activities"
        " WHERE kind = 'kernel' AND name = '_Z4tickm' ORDER BY start_ns"
    )
    assert len(rows) == 1000
    assert all(end - start >= MS for start, end, *_ in rows)
    assert all(row[2:6] == (256, 4, 64, 2) for row in rows)
    # No slice begins before the one before it has ended, nor before it was enqueued.
    assert all(b[0] >= a[1] for a, b in zip(rows, rows[1:], strict=False))
    assert all(row[0] >= row[6] for row in rows)
    assert run.sql("SELECT count(DISTINCT queue), count(DISTINCT device) FROM activities") == [(1, 1)]
    assert run.sql("SELECT name, vendor FROM devices") == [("Fake GPU 0", "AMD")]
    assert run.sql("SELECT sum(calls), sum(failed) FROM call_stats WHERE function = 'hipLaunchKernel'") == [(1000, 0)]


def test_overlapping_streams(traced: Run, cases: Path) -> None:
    run = traced(cases, "overlap")
    assert run.status == 0, run.stderr
    first, second, third = run.sql(KERNELS)
    lengths = sorted(end - start for start, end, *_ in (first, second))
    assert lengths[0] >= 30 * MS and lengths[1] >= 60 * MS and third[1] - third[0] >= 20 * MS
    assert first[2] != second[2] and third[2] in (first[2], second[2])
    assert third[0] >= max(first[1], second[1])


def test_every_way_to_launch(traced: Run, cases: Path) -> None:
    run = traced(cases, "launches", options=("--report", "gpu_kern_sum", "--report", "kern_exec_sum"))
    assert run.status == 0, run.stdout + run.stderr
    for_each = run.stderr.split("(kern_exec_sum)")
    assert len(for_each) == 2 and all("empty(unsigned long)" in text and "of_module" in text for text in for_each)
    assert run.sql("SELECT name, gx // lx AS blocks FROM activities ORDER BY blocks") == [
        *(("_Z5emptym", blocks) for blocks in (2, 3, 4, 5)),
        *(("of_module", blocks) for blocks in (6, 7, 8, 9)),
    ]
    # The last of them is made of another one inside HIP: the program made one call.
    assert run.sql(
        "SELECT function, sum(calls) FROM call_stats WHERE function LIKE '%Launch%' GROUP BY 1 ORDER BY 1"
    ) == [
        ("hipExtLaunchKernel", 1),
        ("hipExtModuleLaunchKernel", 1),
        ("hipLaunchCooperativeKernel", 1),
        ("hipLaunchKernel", 2),
        ("hipModuleLaunchCooperativeKernel", 1),
        ("hipModuleLaunchKernel", 2),
    ]


def test_each_function_that_launches(traced: Run, cases: Path) -> None:
    """The two forms and the older name of one, a launch in pieces, and launches on two devices by one call; each of 3 ms."""
    run = traced(cases, "all_launches")
    # The host's function ran once; a launch of no blocks fails and is no work; the device is as the program chose.
    assert (run.status, run.stdout) == (0, "1 9 0\ndone\n"), run.stderr
    rows = run.sql(
        "SELECT gx // lx AS blocks, a.name, c.function, d.name, a.end_ns - a.start_ns >= 3000000 FROM activities a"
        " JOIN devices d USING (device) JOIN calls c ON c.thread = a.thread AND c.seq = a.seq ORDER BY blocks"
    )
    on_both = ["hipLaunchCooperativeKernelMultiDevice", "hipExtLaunchMultiKernelMultiDevice"]
    on_both += ["hipModuleLaunchCooperativeKernelMultiDevice"]
    assert rows == [
        (2, "spin_module", "hipExtModuleLaunchKernel", "Fake GPU 0", True),
        (3, "spin_module", "hipExtModuleLaunchKernel", "Fake GPU 0", True),
        (4, "spin_module", "hipHccModuleLaunchKernel", "Fake GPU 0", True),
        (5, "_Z9spin_longm", "hipLaunchByPtr", "Fake GPU 0", True),
        *(
            (6 + 2 * at + device, name, on_both[at], f"Fake GPU {device}", True)
            for at, name in enumerate(("_Z9spin_longm", "_Z9spin_longm", "spin_module"))
            for device in (0, 1)
        ),
    ]
    assert run.sql("SELECT function, error FROM failures") == [(on_both[0], "hipErrorInvalidConfiguration")]
    assert run.sql("SELECT calls FROM call_stats WHERE function = 'hipLaunchHostFunc'") == [(1,)]


def test_rows_volumes_and_arrays_have_the_bytes_that_move(traced: Run, cases: Path) -> None:
    run = traced(cases, "volumes")
    assert (run.status, run.stdout) == (0, "done\n"), run.stderr
    assert run.sql("SELECT bytes, kind, source, target FROM activities ORDER BY bytes") == [
        (32, "DtoH", "array", "pageable"),
        (44, "HtoD", "pageable", "array"),
        (77, "DtoD", "peer", "peer"),
        (50 * 3 * 2, "HtoD", "pageable", "device"),
        (10 * 6 * 2 * 4, "HtoD", "pageable", "array"),
        (120 * 7, "DtoH", "array", "pageable"),
        (70 * 13, "fill", None, None),
        (90 * 11, "DtoH", "device", "pageable"),
        (100 * 5 * 3, "DtoH", "device", "pageable"),
        (100 * 5 * 4, "HtoD", "pageable", "device"),
        (100 * 30, "HtoD", "pageable", "device"),
    ]
    assert run.sql("SELECT kind, bytes, function, free_function FROM allocations ORDER BY start_ns") == [
        ("device", 100 * 30, "hipMallocPitch", "hipFree"),
        ("device", 100 * 5 * 4, "hipMalloc3D", "hipFree"),
        ("array", 10 * 6 * 3 * 4, "hipMalloc3DArray", None),
        ("array", 30 * 40 * 4, "hipMallocArray", "hipFreeArray"),
    ]


def test_memory_in_use_by_kind_with_its_flags(traced: Run, cases: Path) -> None:
    run = traced(cases, "kinds")
    assert (run.status, run.stdout) == (0, "2\ndone\n"), run.stderr
    assert run.sql("SELECT function, kind, bytes, flags, end_ns IS NULL FROM allocations ORDER BY start_ns") == [
        ("hipMalloc", "device", 1000, None, False),
        ("hipMallocAsync", "device", 2000, None, False),
        ("hipMallocFromPoolAsync", "device", 4000, None, False),
        ("hipExtMallocWithFlags", "device", 8000, "hipDeviceMallocFinegrained", True),
        ("hipMalloc", "device", 500, None, True),
        ("hipHostMalloc", "host", 100, None, False),
        ("hipHostMalloc", "mapped", 300, "hipHostMallocPortable|hipHostMallocMapped", True),
        ("hipHostAlloc", "host", 700, "hipHostMallocWriteCombined", False),
        ("hipMallocManaged", "managed", 900, "hipMemAttachHost", False),
        ("hipHostRegister", "wrapped", 5000, "hipHostRegisterMapped", False),
    ]
    assert run.sql("SELECT bytes, kind, source, target FROM activities ORDER BY bytes") == [
        (50, "HtoD", "mapped", "device"),
        (60, "DtoH", "device", "pinned"),
    ]
    with occatrace.open(run.folder) as opened:
        usage = {row["kind"]: (row["high_water_bytes"], row["in_use_bytes"]) for row in opened.report("mem_usage")}
        leaks = sorted((row["kind"], row["bytes"]) for row in opened.report("mem_leaks"))
        monitor = Monitor(run.folder)
        devices = monitor.refresh().devices
        monitor.close()
    in_use = np.cumsum([1000, 2000, 4000, 8000, -2000, 500, -1000, -4000])
    assert usage["device"] == (in_use.max(), in_use[-1])
    assert (usage["host"], usage["mapped"], usage["managed"]) == ((800, 0), (300, 300), (900, 0))
    assert leaks == [("device", 500), ("device", 8000), ("mapped", 300)]
    # Pinned memory, mapped or not, is none of the device's to those who watch.
    assert sum(device.memory.in_use for device in devices) == in_use[-1]
    assert run.sql("SELECT function, error FROM failures") == [("hipMalloc", "hipErrorOutOfMemory")]


def test_copies_and_memory(traced: Run, cases: Path) -> None:
    run = traced(cases, "copies", options=("--report", "gpu_mem_size_sum", "--report", "mem_leaks"))
    assert run.status == 0, run.stdout + run.stderr
    assert " HIP " in run.stderr and "hipMallocAsync" in run.stderr
    assert run.sql("SELECT kind, bytes, source, target FROM activities ORDER BY kind, bytes") == [
        ("DtoD", 70, "peer", "peer"),
        ("DtoD", 5000, "device", "device"),
        ("DtoH", 7, "device", "pageable"),
        ("DtoH", 300, "device", "pageable"),
        ("DtoH", 400, "device", "mapped"),
        ("HtoD", 11, "pageable", "device"),
        ("HtoD", 21, "registered", "managed"),
        ("HtoD", 60, "mapped", "device"),
        ("HtoD", 200, "pageable", "device"),
        ("HtoD", 360, "pageable", "array"),
        ("HtoD", 1000, "pageable", "device"),
        ("HtoD", 2000, "mapped", "device"),
        ("fill", 800, None, None),
        ("fill", 3600, None, None),
        ("migrate", 1000, None, None),
    ]
    # 10 GB/s and 2 µs is what the runtime takes for a copy.
    assert run.sql("SELECT count(*) FROM activities WHERE kind != 'fill' AND end_ns - start_ns < 2000") == [(0,)]
    assert run.sql(
        "SELECT a.kind, bytes, function, free_function, d.name FROM allocations a LEFT JOIN devices d USING (device) ORDER BY start_ns"
    ) == [
        ("device", 1 << 20, "hipMalloc", "hipFree", "Fake GPU 0"),
        ("device", 1 << 20, "hipMallocAsync", None, "Fake GPU 0"),
        ("managed", 1000, "hipMallocManaged", "hipFree", "Fake GPU 0"),
        ("mapped", 1 << 20, "hipHostMalloc", "hipHostFree", "Fake GPU 0"),
        ("wrapped", 5000, "hipHostRegister", "hipHostUnregister", "Fake GPU 0"),
        ("array", 30 * 40 * 4, "hipMallocArray", "hipFreeArray", "Fake GPU 0"),
    ]


def test_failures_have_names_and_an_answer_is_none(traced: Run, cases: Path) -> None:
    run = traced(cases, "failures")
    assert run.stdout == "2 500 9 600 700\ndone\n", run.stderr
    assert run.sql("SELECT function, error FROM failures ORDER BY function") == [
        ("hipLaunchKernel", "hipErrorInvalidConfiguration"),
        ("hipMalloc", "hipErrorOutOfMemory"),
        ("hipModuleGetFunction", "hipErrorNotFound"),
        ("hipStreamSynchronize", "hipErrorIllegalAddress"),
    ]
    assert run.sql("SELECT sum(failed) FROM call_stats WHERE function IN ('hipStreamQuery', 'hipGetLastError')") == [
        (0,)
    ]


def test_nothing_of_ours_goes_into_a_capture(traced: Run, cases: Path) -> None:
    run = traced(cases, "graphs")
    # What the runtime counted: three nodes, and no event of anybody's in them. Nor was any asked while the capture went on,
    # which would have broken it.
    assert run.stdout == "3 0\ndone\n", run.stderr
    assert run.sql("SELECT name, count(*) FROM activities GROUP BY name ORDER BY name") == [
        ("_Z4tickm", 301),
        ("graph", 5),
    ]
    assert run.sql("SELECT min(end_ns - start_ns) >= 3000000 FROM activities WHERE name = 'graph'") == [(True,)]


def test_events_are_bounded_and_the_last_error_stays_the_programs(traced: Run, cases: Path) -> None:
    run = traced(cases, "many", "8000")
    # Live events after each half, and how often a launch that went well left an error behind.
    first, second, errors = map(int, run.stdout.splitlines()[0].split())
    assert first == second < 2000
    assert errors == 0
    assert run.sql("SELECT count(*) FROM activities WHERE name = '_Z5emptym'") == [(16600,)]
    assert run.sql("SELECT count(*) FROM losses") == [(0,)]


def test_the_mode_of_tallies_leaves_streams_alone(traced: Run, cases: Path) -> None:
    run = traced(cases, "many", "500", options=("-m", "tally"))
    assert run.stdout.splitlines()[0] == "0 0 0", run.stderr
    assert run.sql("SELECT sum(calls) FROM call_stats WHERE function = 'hipLaunchKernel'") == [(1601,)]
    assert run.sql("SELECT count(*) FROM activities") == [(0,)]


def test_each_thread_has_a_default_stream_of_its_own(traced: Run, cases: Path) -> None:
    run = traced(cases, "threads")
    assert run.status == 0, run.stdout + run.stderr
    assert run.sql("SELECT queue, count(*), count(DISTINCT thread) FROM activities GROUP BY queue ORDER BY queue") == [
        (queue, 50, 1) for queue in range(1, 5)
    ]


def test_a_streams_device_is_its_own(traced: Run, cases: Path) -> None:
    run = traced(cases, "devices")
    assert run.stdout == "1\ndone\n", run.stderr  # the device that the program had chosen
    assert run.sql(
        "SELECT d.name, count(*), count(DISTINCT queue) FROM activities a JOIN devices d USING (device) GROUP BY d.name ORDER BY 1"
    ) == [("Fake GPU 0", 1, 1), ("Fake GPU 1", 2, 2)]
    # Memory that is allocated in the order of a stream is on that stream's device.
    assert run.sql("SELECT bytes, d.name FROM allocations JOIN devices d USING (device) ORDER BY bytes") == [
        (1000, "Fake GPU 0"),
        (3000, "Fake GPU 1"),
        (5000, "Fake GPU 1"),
    ]
    # A track for each stream, below its device.
    done = execute([*OCCA_PROF, "timeline", run.folder, "-o", run.folder.parent / "devices.pftrace"])
    assert done.returncode == 0, done.stderr
    tracks = [
        (row.device, row.kernels) for row in timelines.perfetto(run.folder.parent / "devices.pftrace", DEVICE_TRACKS)
    ]
    assert tracks == [("Device 0: Fake GPU 0", 1), ("Device 1: Fake GPU 1", 1), ("Device 1: Fake GPU 1", 1)]


def test_contexts_and_flags(traced: Run, cases: Path) -> None:
    run = traced(cases, "contexts")
    assert (run.status, run.stdout) == (0, "done\n"), run.stderr
    assert run.sql(
        "SELECT d.name, list(gx // lx ORDER BY gx) FROM activities a JOIN devices d USING (device) GROUP BY d.name ORDER BY 1"
    ) == [("Fake GPU 0", [1, 3, 5]), ("Fake GPU 1", [2, 4, 6])]
    listed = execute([*OCCA_PROF, "trace", run.folder]).stdout
    flags = ["hipDeviceScheduleYield|hipDeviceMapHost", "hipDeviceScheduleSpin", "hipDeviceScheduleBlockingSync"]
    assert re.findall(r"hip(?:SetDeviceFlags|CtxCreate)\(.*flags=([\w|]+)", listed) == flags


def test_choosing(traced: Run, cases: Path) -> None:
    names = "SELECT name, count(*) FROM activities GROUP BY name"
    run = traced(cases, "launches", options=("--kernels", "of_mod"))
    assert (run.stdout, run.sql(names)) == ("done\n", [("of_module", 4)]), run.stderr
    run = traced(cases, "range", options=("--capture-range", "hipProfilerApi"))
    assert (run.stdout, run.sql(names)) == ("done\n", [("_Z4tickm", 3)]), run.stderr
    # Of two devices, the second with two streams; a launch in a stream of it is made while the first is the thread's.
    found = (
        "SELECT d.name, count(*), count(DISTINCT queue) FROM activities a JOIN devices d USING (device) GROUP BY d.name"
    )
    first, second = ("Fake GPU 0", 1, 1), ("Fake GPU 1", 2, 2)
    wanted = {"--devices 0": first, "--devices 1": second, "--streams 0": first, "--streams 1": ("Fake GPU 1", 1, 1)}
    for option, work in wanted.items():
        run = traced(cases, "devices", options=tuple(option.split()))
        assert run.sql(found) == [work], (option, run.stderr)
    run = traced(cases, "launches", options=("--trace", "opencl"))
    assert (run.status, run.stdout) == (0, "done\n"), run.stderr


def test_functions_by_name_and_one_that_nobody_knows(traced: Run, cases: Path) -> None:
    run = traced(cases, "names")
    assert (run.status, run.stdout) == (0, "1 8 500\ndone\n"), run.stderr
    assert run.sql("SELECT sum(calls), sum(failed) FROM call_stats WHERE function = 'hipGetProcAddress'") == [(3, 1)]
    assert run.sql("SELECT kind, bytes, function FROM allocations") == [("device", 4096, "hipMalloc")]
    assert "1 function of HIP that this version does not know was handed to the program" in run.stderr
    assert "hipOfTheFuture" in run.stderr


def test_a_crash_amid_work_leaves_what_had_finished(traced: Run, cases: Path) -> None:
    run = traced(cases, "crash")
    assert run.status == 134
    ((count,),) = run.sql("SELECT count(*) FROM activities WHERE kind = 'kernel'")
    assert 5 <= count < 1005
    assert run.sql("SELECT exit FROM processes") == [("abort",)]


@pytest.mark.parametrize("case", ["launches", "copies"])
def test_live_quantities(traced: Run, cases: Path, tmp_path: Path, case: str) -> None:
    run = traced(cases, case, env=live.counting(tmp_path))
    live.check(run, tmp_path)
