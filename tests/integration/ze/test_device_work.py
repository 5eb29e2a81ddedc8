"""Device work of Level Zero against what the fake driver did and when."""

from __future__ import annotations

from pathlib import Path
from statistics import median

from tests.support.suites.ze import Run


def truth(log: Path) -> list[tuple[str, int, int]]:
    """Name, start and end of each command that the driver ran, on the host's clock."""
    words = [line.split() for line in log.read_text().splitlines()]
    return sorted(((name, int(start), int(end)) for name, start, end in words), key=lambda command: command[1])


def test_kernels_and_copies_of_an_immediate_list(traced: Run, cases: Path, tmp_path: Path) -> None:
    log, count = tmp_path / "log", 20

    # The counter of kernels wraps while the program runs.
    run = traced(cases, "work", str(count), env={"FAKE_ZE_LOG": str(log), "FAKE_ZE_WRAPS_IN_MS": "2"})
    found = run.sql("SELECT start_ns, end_ns FROM activities ORDER BY start_ns")
    done = truth(log)
    assert len(found) == len(done) == 6 * count
    # Each end of a command is known as well as the clock was calibrated: better than a microsecond where nobody interrupted it.
    ((unsure,),) = run.sql("SELECT max(uncertainty_ns) FROM clocks")
    most = 1000 + 2 * unsure
    lengths = [(end - start) - (last - first) for (start, end), (_, first, last) in zip(found, done, strict=True)]
    assert max(map(abs, lengths)) <= most
    offsets = [start - first for (start, _), (_, first, _) in zip(found, done, strict=True)]
    assert abs(median(offset - offsets[0] for offset in offsets)) <= most
    assert (run.status, run.stdout) == (0, "x\n"), run.stderr
    assert "have no duration" not in run.stderr
    assert run.sql(
        "SELECT kind, name, bytes, count(*), sum(status) FROM activities GROUP BY 1, 2, 3 ORDER BY 3, 2"
    ) == [
        ("kernel", "tick", 0, count, 0),
        ("kernel", "tock", 0, count, 0),
        ("HtoD", "HtoD", 1001, count, 0),
        ("DtoD", "DtoD", 1002, count, 0),
        ("DtoH", "DtoH", 1003, count, 0),
        ("fill", "fill", 1004, count, 0),
    ]
    assert run.sql("SELECT DISTINCT gx, gy, gz, lx, ly, lz FROM activities WHERE kind = 'kernel'") == [
        (128, 2, 1, 32, 1, 1)
    ]
    assert run.sql("SELECT api, platform, name, vendor FROM devices") == [
        ("Level Zero", "Level Zero", "Fake GPU", "Intel")
    ]


def test_a_list_that_is_executed_many_times(traced: Run, cases: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    run = traced(cases, "again", "5", env={"FAKE_ZE_LOG": str(log)})
    assert (run.status, run.stdout) == (0, "5 right\n"), run.stderr
    assert "have no duration" not in run.stderr
    found = run.sql("SELECT name, end_ns - start_ns FROM activities ORDER BY start_ns")
    done = truth(log)
    assert [name for name, _ in found] == [name for name, _, _ in done] == ["tick", "tock"] * 5 + ["tock"]
    assert max(abs(length - (end - start)) for (_, length), (_, start, end) in zip(found, done, strict=True)) <= 1000
    # The first execution belongs to the calls that appended, the others to those that executed.
    assert run.sql(
        "SELECT function, count(*) FROM activities a JOIN calls c ON (c.process, c.thread, c.seq) = (a.process, a.thread, a.seq)"
        " GROUP BY 1 ORDER BY 1"
    ) == [("zeCommandListAppendLaunchKernel", 3), ("zeCommandQueueExecuteCommandLists", 8)]


def test_executions_that_overlap_have_their_own_times(traced: Run, cases: Path, tmp_path: Path) -> None:
    log, count = tmp_path / "log", 6
    run = traced(cases, "overlapping", str(count), env={"FAKE_ZE_LOG": str(log)})
    assert (run.status, run.stdout) == (0, ""), run.stderr
    # Those whose event the list itself resets.
    assert "2 commands of Level Zero have no duration" in run.stderr
    found = run.sql("SELECT name, start_ns, end_ns FROM activities WHERE end_ns > start_ns ORDER BY start_ns")
    done = truth(log)[:-2]
    one = ["tick", "tock"]
    assert [name for name, _, _ in found] == [name for name, _, _ in done] == [*one, *one, "tock", *one] * count
    base = found[0][1] - done[0][1]
    # Not those of the execution before or after: a kernel lasts a millisecond or more.
    for (_, start, end), (_, first, last) in zip(found, done, strict=True):
        assert abs((end - start) - (last - first)) <= 1000
        assert abs(start - first - base) <= 500_000
    calls = run.sql('SELECT args.numCommandLists FROM "ze.zeCommandQueueExecuteCommandLists" ORDER BY start_ns')
    assert calls == [(1,), (3,)] * count + [(1,)] * 2


def test_an_event_of_the_programs_for_many_commands(traced: Run, cases: Path) -> None:
    run = traced(cases, "reused", "30")
    assert run.status == 0, run.stderr
    assert "have no duration" not in run.stderr
    assert run.sql("SELECT count(*), min(end_ns - start_ns) >= 4900 FROM activities") == [(30, True)]


def test_without_device_time_nothing_of_the_programs_is_changed(traced: Run, cases: Path) -> None:
    run = traced(cases, "work", "2", options=("--device-time", "off"))
    assert run.status == 0, run.stderr
    assert run.sql("SELECT count(*) FROM activities") == [(0,)]
    assert run.sql("SELECT calls FROM call_stats WHERE function = 'zeCommandListAppendLaunchKernel'") == [(4,)]


def test_sub_devices_have_their_own_names(traced: Run, cases: Path) -> None:
    run = traced(cases, "tiles")
    assert run.status == 0, run.stderr
    assert run.sql(
        "SELECT d.name, count(*), min(end_ns - start_ns) >= 4900 FROM activities JOIN devices d USING (device) GROUP BY 1 ORDER BY 1"
    ) == [("Fake GPU sub-device 0", 1, True), ("Fake GPU sub-device 1", 1, True)]


def test_the_log_of_a_failed_build(traced: Run, cases: Path) -> None:
    run = traced(cases, "calls")
    assert run.sql('SELECT args.ret != 0, args.log, args.phBuildLog FROM "ze.zeModuleCreate" ORDER BY start_ns') == [
        (False, "", 0),
        (True, "error: no code", 0),
    ]
