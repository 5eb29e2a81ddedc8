"""CUDA driver calls and device work against what the programs did: counts, bytes, durations, order, failures."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import live
from tests.support.runs import execute
from tests.support.suites.cuda import OCCA_PROF, ROOT, Traced, compiled

Run = Callable[..., Traced]
MS = 1_000_000


@pytest.fixture(params=["linked", "by_name"])
def cases(request: pytest.FixtureRequest) -> Path:
    """The program of cases, in both ways to find the driver's functions."""
    path: Path = request.getfixturevalue(request.param)
    return path


def test_a_series_of_kernels_lies_end_to_end(traced: Run, cases: Path) -> None:
    run = traced(cases, "series", "300")
    assert (run.status, run.stdout) == (0, "done\n"), run.stderr
    rows = run.sql(
        "SELECT start_ns, end_ns, gx, gy, lx, ly, queued_ns FROM activities WHERE kind = 'kernel' AND name = 'tick' ORDER BY start_ns"
    )
    assert len(rows) == 300
    assert all(end - start >= MS for start, end, *_ in rows)
    assert all(row[2:6] == (256, 4, 64, 2) for row in rows)
    # No slice begins before the one before it has ended, nor before it was enqueued; what they take is what they were.
    assert all(b[0] >= a[1] for a, b in zip(rows, rows[1:], strict=False))
    assert all(row[0] >= row[6] for row in rows)
    assert run.sql("SELECT count(DISTINCT queue), count(DISTINCT device) FROM activities WHERE kind = 'kernel'") == [
        (1, 1)
    ]
    assert run.sql("SELECT name FROM devices") == [("Fake GPU 0",)]
    assert run.sql("SELECT sum(calls), sum(failed) FROM call_stats WHERE function = 'cuLaunchKernel'") == [(300, 0)]


def test_overlapping_streams(traced: Run, linked: Path) -> None:
    run = traced(linked, "overlap")
    assert run.status == 0, run.stderr
    # The first alone in its queue; the third after the second in the other.
    first, second, third = run.sql(
        "SELECT start_ns, end_ns, queue FROM activities WHERE kind = 'kernel'"
        " ORDER BY count(*) OVER (PARTITION BY queue), start_ns"
    )
    for (start, end, _), length in ((first, 60), (second, 30), (third, 20)):
        assert end - start >= length * MS
    assert first[2] != second[2] and second[2] == third[2]
    assert third[0] >= max(first[1], second[1])  # what it waits is not in it
    if "beside" in run.stdout:
        assert second[1] < first[1]


def test_bytes_and_kinds_of_copies(traced: Run, cases: Path) -> None:
    run = traced(cases, "copies")
    assert run.status == 0, run.stdout + run.stderr
    assert run.sql("SELECT kind, count(*), sum(bytes) FROM activities GROUP BY kind ORDER BY kind") == [
        ("DtoD", 1, 5000),
        ("DtoH", 3, 300 + 400 + 70),
        ("HtoD", 3, 1000 + 2000 + 60),
        ("fill", 2, 800 + 4 * 900),
    ]
    assert run.sql("SELECT count(*) FROM activities WHERE kind != 'fill' AND end_ns - start_ns < 2000") == [(0,)]


def test_several_copies_by_one_call(traced: Run, cases: Path) -> None:
    run = traced(cases, "batches")
    assert (run.status, run.stdout) == (0, "done\n"), run.stderr
    check_batches(run)
    assert run.sql("SELECT sum(end_ns - start_ns) > 0 FROM activities WHERE kind = 'DtoH'") == [(True,)]


def check_batches(run: Traced) -> None:
    """Bytes, direction and order of each; the launches of old with the blocks that their function was given."""
    found = run.sql(
        "SELECT c.function, a.kind, a.bytes FROM activities a JOIN calls c ON c.thread = a.thread AND c.seq = a.seq"
        " WHERE a.kind <> 'kernel' ORDER BY c.seq, a.start_ns, a.end_ns"
    )
    assert sorted(found) == sorted(
        [
            ("cuMemcpyBatchAsync", "HtoD", 1000),
            ("cuMemcpyBatchAsync", "DtoH", 20000),
            ("cuMemcpyBatchAsync", "DtoD", 300),
            ("cuMemcpyBatchAsync", "HtoH", 4),
            ("cuMemcpy3DBatchAsync", "HtoD", 6000),
            ("cuMemcpy3DBatchAsync", "DtoH", 7),
            ("cuMemPrefetchBatchAsync", "migrate", 111),
            ("cuMemPrefetchBatchAsync", "migrate", 222),
        ]
    )
    # They share the time of their call, one after another.
    overlaps = run.sql(
        "SELECT count(*) FROM activities a JOIN activities b ON a.thread = b.thread AND a.seq = b.seq"
        " AND a.start_ns < b.start_ns AND a.end_ns > b.start_ns"
    )
    assert overlaps == [(0,)]
    bytes_of = dict(
        run.sql("SELECT function, sum(bytes)::BIGINT FROM call_stats WHERE function LIKE '%BatchAsync' GROUP BY 1")
    )
    assert (bytes_of["cuMemcpyBatchAsync"], bytes_of["cuMemPrefetchBatchAsync"]) == (21304, 333)
    launches = run.sql("SELECT gx, gy, lx, ly, lz FROM activities WHERE kind = 'kernel' ORDER BY gx")
    assert launches == [(8, 4, 8, 4, 2), (24, 20, 8, 4, 2), (48, 28, 8, 4, 2)]
    assert run.sql("SELECT count(*) FROM losses") == [(0,)]


def test_memory_in_use_and_never_freed(traced: Run, linked: Path) -> None:
    run = traced(linked, "copies")
    assert run.sql("SELECT kind, bytes, function, free_function FROM allocations ORDER BY start_ns") == [
        ("device", 1 << 20, "cuMemAlloc", "cuMemFree"),
        ("device", 1 << 20, "cuMemAlloc", None),
        ("host", 1 << 20, "cuMemHostAlloc", "cuMemFreeHost"),
    ]


def test_each_copy_knows_what_memory_it_reads_and_writes(traced: Run, linked: Path) -> None:
    run = traced(linked, "kinds")
    assert run.status == 0, run.stdout + run.stderr
    assert run.sql(
        "SELECT bytes, kind, source, target FROM activities WHERE kind IN ('HtoD', 'DtoH', 'DtoD') ORDER BY bytes"
    ) == [
        (101, "HtoD", "pageable", "device"),
        (102, "HtoD", "pinned", "device"),
        (103, "DtoH", "device", "mapped"),
        (104, "DtoH", "device", "registered"),
        (105, "DtoD", "device", "managed"),
        (106, "HtoD", "pinned", "device"),
        (107, "DtoH", "device", "pageable"),
        (108, "DtoD", "managed", "device"),
        (109, "HtoD", "pageable", "device"),
        (110, "HtoD", "pinned", "array"),
        (3 * 37, "HtoD", "mapped", "device"),
        (112, "DtoD", "peer", "peer"),
        (113, "HtoD", "pinned", "device"),
    ]
    # Reports say it.
    report = execute([*OCCA_PROF, "report", run.folder, "--report", "gpu_mem_size_sum", "--format", "json"])
    rows = json.loads(report.stdout)["reports"][0]["rows"]
    assert {row["name"]: (row["calls"], row["bytes"]) for row in rows} == {
        "HtoD (pageable)": (2, 101 + 109),
        "HtoD (pinned)": (4, 102 + 106 + 110 + 113),
        "HtoD (mapped)": (1, 111),
        "DtoH (mapped)": (1, 103),
        "DtoH (registered)": (1, 104),
        "DtoH (pageable)": (1, 107),
        "DtoD (managed)": (2, 105 + 108),
        "DtoD (peer)": (1, 112),
    }
    kinds = "SELECT kind, bytes, function, free_function FROM allocations WHERE bytes != 65536 OR kind = 'wrapped' ORDER BY start_ns"
    assert run.sql(kinds) == [
        ("wrapped", 1 << 16, "cuMemHostRegister", "cuMemHostUnregister"),
        ("array", 32 * 16 * 2 * 4, "cuArrayCreate", "cuArrayDestroy"),
        ("device", 4096, "cuMemAllocFromPoolAsync", "cuMemFreeAsync"),
        ("device", 8192, "cuMemAllocAsync", "cuMemFreeAsync"),
    ]
    # All of it in the memory of the device that was current.
    assert run.sql("SELECT DISTINCT d.name FROM allocations LEFT JOIN devices d USING (device)") == [("Fake GPU 0",)]


def test_functions_by_name_and_one_that_nobody_knows(traced: Run, linked: Path) -> None:
    run = traced(linked, "names")
    assert (run.status, run.stdout) == (0, "6 8 500 1\ndone\n"), run.stderr
    assert run.sql("SELECT sum(failed) FROM call_stats WHERE function = 'cuGetProcAddress'") == [(0,)]
    # The launches went into the two default streams.
    assert run.sql("SELECT count(*), count(DISTINCT queue) FROM activities WHERE kind = 'kernel'") == [(2, 2)]
    assert "1 function of CUDA that this version does not know was handed to the program" in run.stderr
    assert "cuOfTheFuture" in run.stderr


def test_a_preloaded_shim_of_the_programs_own_keeps_working(traced: Run, linked: Path, driver: Path) -> None:
    shim = compiled(ROOT / "tests/programs/cuda/preloaded.cpp", driver / "preloaded.so", ["-shared", "-fPIC", "-ldl"])
    run = traced(linked, "series", "20", env={"LD_PRELOAD": str(shim)})
    assert (run.status, run.stdout) == (0, "done\nlaunches: 20\n"), run.stderr
    assert run.sql("SELECT count(*) FROM activities WHERE name = 'tick'") == [(20,)]


def test_a_driver_without_a_device_answers_as_without_us(traced: Run, cases: Path) -> None:
    run = traced(cases, "series", "1", env={"FAKE_CUDA_DEVICES": "0"})
    assert run.status == 3 and run.stdout.endswith(": 100\n")
    assert run.sql("SELECT error FROM failures WHERE function = 'cuInit'") == [("CUDA_ERROR_NO_DEVICE",)]


def test_failures_have_names_and_an_answer_is_none(traced: Run, cases: Path) -> None:
    run = traced(cases, "failures")
    assert run.stdout == "2 500 600 700\ndone\n", run.stderr
    assert run.sql("SELECT function, error FROM failures ORDER BY function") == [
        ("cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY"),
        ("cuModuleGetFunction", "CUDA_ERROR_NOT_FOUND"),
        ("cuStreamSynchronize", "CUDA_ERROR_ILLEGAL_ADDRESS"),
    ]
    assert run.sql("SELECT sum(failed) FROM call_stats WHERE function = 'cuStreamQuery'") == [(0,)]


def test_nothing_of_ours_goes_into_a_capture(traced: Run, linked: Path) -> None:
    run = traced(linked, "graphs")
    # What the driver counted: three nodes, and no event of anybody's in them.
    assert run.stdout == "3 0\ndone\n", run.stderr
    assert run.sql("SELECT name, count(*) FROM activities GROUP BY name ORDER BY name") == [("graph", 5), ("tick", 301)]
    assert run.sql("SELECT min(end_ns - start_ns) >= 3000000 FROM activities WHERE name = 'graph'") == [(True,)]


def test_events_of_ours_are_bounded_and_none_is_lost(traced: Run, linked: Path) -> None:
    run = traced(linked, "many", "20000")
    first, second = map(int, run.stdout.splitlines()[0].split())
    # A harvest from the background may hold a few while the program goes on.
    assert second <= first + 256 < 2000
    assert run.sql("SELECT count(*) FROM activities WHERE name = 'empty'") == [(40000,)]
    assert run.sql("SELECT count(*) FROM losses") == [(0,)]


def test_memory_in_the_process_is_bounded(traced: Run, linked: Path) -> None:
    # Recording waits for nobody: what a busy machine loses of so many is not asked here.
    run = traced(linked, "many", "10000", "1000000", options=("-q",))
    events, heap = (list(map(int, line.split())) for line in run.stdout.splitlines()[:2])
    assert events[1] <= events[0] + 256
    # Of a million launches nothing stays: not a byte in five of them.
    assert heap[1] - heap[0] < 200_000, heap


def test_the_mode_of_tallies_leaves_streams_alone(traced: Run, linked: Path) -> None:
    run = traced(linked, "many", "500", options=("-m", "tally"))
    assert run.stdout.splitlines()[0] == "0 0", run.stderr
    assert run.sql("SELECT sum(calls) FROM call_stats WHERE function = 'cuLaunchKernel'") == [(1000,)]
    assert run.sql("SELECT count(*) FROM activities") == [(0,)]


def test_each_thread_has_a_default_stream_of_its_own(traced: Run, linked: Path) -> None:
    run = traced(linked, "threads")
    assert run.status == 0, run.stdout + run.stderr
    assert run.sql("SELECT queue, count(*), count(DISTINCT thread) FROM activities GROUP BY queue ORDER BY queue") == [
        (queue, 50, 1) for queue in range(1, 5)
    ]


def test_work_pending_when_a_context_goes_is_kept(traced: Run, cases: Path) -> None:
    run = traced(cases, "devices")
    assert run.status == 0, run.stdout + run.stderr
    assert run.sql(
        "SELECT d.name, count(*) FROM activities a JOIN devices d USING (device) WHERE kind = 'kernel' GROUP BY d.name ORDER BY 1"
    ) == [("Fake GPU 0", 1), ("Fake GPU 1", 2)]


def test_contexts_of_one_device_have_queues_of_their_own(traced: Run, linked: Path) -> None:
    run = traced(linked, "contexts")
    assert run.status == 0, run.stdout + run.stderr
    assert run.sql(
        "SELECT count(*), count(DISTINCT device), min(status) FROM activities WHERE kind = 'kernel' GROUP BY queue ORDER BY 1"
    ) == [(3, 1, 0), (4, 1, 0), (5, 1, 0)]
    # What was pending when a context went has its time.
    assert run.sql("SELECT count(*) FROM activities WHERE end_ns - start_ns < 1000000") == [(0,)]


def test_a_crash_amid_work_leaves_what_had_finished(traced: Run, linked: Path) -> None:
    run = traced(linked, "crash")
    assert run.status == 134
    ((count,),) = run.sql("SELECT count(*) FROM activities WHERE name = 'tick'")
    assert 5 <= count < 1005
    assert run.sql("SELECT exit FROM processes") == [("abort",)]


def test_a_program_that_looks_for_an_absent_driver_finds_none(traced: Run, by_name: Path, tmp_path: Path) -> None:
    alone = subprocess.run(
        [by_name, "series", "1"], capture_output=True, text=True, env={"PATH": "/usr/bin"}, check=False
    )
    if alone.returncode != 4:
        pytest.skip("this machine has a CUDA driver")
    run = traced(by_name, "series", "1", env={"LD_LIBRARY_PATH": str(tmp_path)})
    assert (run.status, run.stdout) == (alone.returncode, alone.stdout) == (4, "no driver\n")


@pytest.mark.parametrize("case", ["copies", "kinds", "graphs"])
def test_live_quantities(traced: Run, linked: Path, tmp_path: Path, case: str) -> None:
    run = traced(linked, case, env=live.counting(tmp_path))
    live.check(run, tmp_path)
