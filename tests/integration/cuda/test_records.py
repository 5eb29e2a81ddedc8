"""What CUPTI tells besides the work: managed memory that the driver moves, and waits; both by the shim and past it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.runs import execute
from tests.support.suites.cuda import OCCA_PROF, Traced, headers

Run = Callable[..., Traced]
MS = 1_000_000


@pytest.fixture
def told(traced: Run, cupti: Path, driver: Path, by_name: Path) -> Run:
    """Runs a case with this CUPTI. `past`: by the driver's path."""
    if not (headers() / "generated_cuda_meta.h").exists():
        pytest.skip("no headers of CUPTI: the package nvidia-cuda-cupti is not installed")

    def run(case: str, *options: str, past: bool = False, **more: str) -> Traced:
        env = {"OCCATRACE_CUPTI": str(cupti), "OCCATRACE_DEVICE_TIME": "", **more}
        if past:
            env["CASES_DRIVER"] = str(driver / "libcuda.so.1")
        done = traced(by_name, case, options=options, env=env)
        # Which of two streams ends first, where the driver says so, is in another test.
        assert (done.status, done.stdout.removeprefix("beside\n")) == (0, "done\n"), done.stderr
        return done

    return run


@pytest.mark.parametrize("past", [False, True])
def test_managed_memory_and_waits(told: Run, past: bool) -> None:
    run = told("managed", past=past)
    # In blocks of 64 KiB, as the driver for tests moves them.
    assert run.sql(
        "SELECT kind, m.bytes, count, d.name FROM managed_memory m LEFT JOIN devices d USING (device) ORDER BY start_ns"
    ) == [
        *[("HtoD", 65536, None, "Fake GPU 0")] * 3,
        ("HtoD", 200000 - 3 * 65536, None, "Fake GPU 0"),
        ("DtoH", 65536, None, "Fake GPU 0"),
        ("DtoH", 70000 - 65536, None, "Fake GPU 0"),
    ]
    # Each takes 20 µs of the host's raw clock.
    assert run.sql("SELECT min(end_ns - start_ns) >= 19000 FROM managed_memory") == [(True,)]
    # Each at its place in the memory that was asked for, between the program's first prefetch and its last wait.
    assert run.sql(
        "SELECT DISTINCT m.address - a.handle FROM managed_memory m, allocations a WHERE a.kind = 'managed' ORDER BY 1"
    ) == [(0,), (65536,), (131072,), (196608,)]
    assert run.sql(
        "SELECT count(*) FROM managed_memory"
        " WHERE start_ns >= (SELECT min(queued_ns) FROM activities WHERE kind = 'migrate')"
        " AND end_ns <= (SELECT max(end_ns) FROM waits)"
    ) == [(6,)]
    # No work of devices is more for it.
    assert run.sql("SELECT kind, count(*) FROM activities GROUP BY 1 ORDER BY 1") == [("kernel", 2), ("migrate", 2)]
    first, second = (row[0] for row in run.sql("SELECT queue FROM activities WHERE kind = 'kernel' ORDER BY queue"))
    assert run.sql("SELECT kind, queue, waiting_queue FROM waits ORDER BY start_ns") == [
        ("stream", first, None),
        ("stream", first, None),
        ("stream for event", first, second),
        ("event", first, None),
        ("stream", second, None),
        ("context", None, None),
    ]
    # Each belongs to its call, within whose time it lies; who waits for the event waits for the kernel before it.
    assert run.sql(
        "SELECT c.function FROM waits w JOIN calls c USING (thread, seq)"
        " WHERE w.start_ns >= c.start_ns AND w.end_ns <= c.end_ns ORDER BY w.start_ns"
    ) == [
        ("cuStreamSynchronize",),
        ("cuStreamSynchronize",),
        ("cuStreamWaitEvent",),
        ("cuEventSynchronize",),
        ("cuStreamSynchronize",),
        ("cuCtxSynchronize",),
    ]
    ((kernel,),) = run.sql("SELECT end_ns FROM activities WHERE name = 'spin_long'")
    ((waited,),) = run.sql("SELECT end_ns FROM waits WHERE kind = 'event'")
    assert waited >= kernel - MS  # the kernel's is as sure as its clock's bracket on a busy machine
    assert run.sql("SELECT count(*) FROM losses") == [(0,)]


def test_reports_and_timeline(told: Run, tmp_path: Path) -> None:
    run = told("managed", "-m", "full")
    command = [*OCCA_PROF, "report", run.folder, "--report", "um_sum", "--report", "sync_sum", "--format", "json"]
    managed, waits = (report["rows"] for report in json.loads(execute(command).stdout)["reports"])
    found = {row["name"]: (row["calls"], row["bytes"], row["faults"], row["device"]) for row in managed}
    # Faults are counted in this mode.
    assert found == {
        "HtoD": (4, 200000, None, "Fake GPU 0"),
        "DtoH": (2, 70000, None, "Fake GPU 0"),
        "GPU page faults": (1, None, 5, "Fake GPU 0"),
        "CPU page faults": (1, None, 1, ""),
    }
    assert sum(row["calls"] for row in waits) == 6
    assert {
        (row["name"], row["waiting"].split()[0], row["queue"]) for row in waits if row["waiting"].startswith("queue")
    } == {("stream for event", "queue", "queue 1")}
    execute([*OCCA_PROF, "timeline", run.folder, "-o", tmp_path / "t.pftrace"])
    picture = (tmp_path / "t.pftrace").read_bytes()
    for text in (b"managed memory", b"HtoD", b"GPU page faults", b"waits", b"queue 2 waits for event of queue 1"):
        assert text in picture, text


@pytest.mark.parametrize(
    ("options", "more"),
    [
        (("-m", "minimal"), {}),
        (("--device-time", "events"), {}),
        ((), {"FAKE_CUPTI": "old"}),
    ],
)
def test_where_they_are_not_to_be_had(told: Run, options: tuple[str, ...], more: dict[str, str]) -> None:
    run = told("managed", *options, **more)
    assert run.sql("SELECT count(*) FROM waits") == [(0,)]
    assert run.sql("SELECT count(*) FROM activities WHERE kind = 'kernel'") == [(2,)]


def test_a_program_without_managed_memory_has_none_recorded(told: Run) -> None:
    run = told("overlap")
    assert run.sql("SELECT count(*) FROM managed_memory") == [(0,)]
    assert run.sql("SELECT kind, count(*) FROM waits GROUP BY 1 ORDER BY 1") == [("context", 1), ("stream", 2)]
