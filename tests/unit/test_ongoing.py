"""Looks at the files of a run that goes on."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np

from occatrace.ingest.live_buffers import HostWatch
from occatrace.lttng.packets import EVENTS, EVENTS_MAGIC
from occatrace.run.folder import RunInfo
from occatrace.views.monitor import Monitor, Work, _Host


def packet(number: int, end: int) -> bytes:
    return EVENTS.pack(EVENTS_MAGIC, bytes(16), 0, 0, end - 10, end, 8 * EVENTS.size, 8 * EVENTS.size, number)


def test_a_file_that_takes_the_place_of_another(tmp_path: Path) -> None:
    """`--stream` deletes what is in its tables, and the next file may get the number of the one that went."""
    stream = tmp_path / "trace" / "h" / "ust" / "uid" / "1000" / "64-bit" / "channel_0"
    stream.parent.mkdir(parents=True)
    (stream.parent / "metadata").write_text("declarations")
    stream.write_bytes(packet(0, 10) + packet(1, 20) + packet(2, 30))
    watch = HostWatch(tmp_path, cast("RunInfo", None), "h")

    def look() -> list[tuple[int, int]]:
        found = watch.look(tmp_path / "scratch")
        found.close()
        shutil.rmtree(found.folder, ignore_errors=True)
        return list(found.spans.values())

    assert not watch.complete
    assert look() == [(0, 3 * EVENTS.size)]
    assert look() == []
    node = stream.stat().st_ino
    stream.write_bytes(packet(3, 40) + packet(4, 50))
    assert stream.stat().st_ino == node
    assert look() == [(0, 2 * EVENTS.size)]
    with stream.open("ab") as file:
        file.write(packet(5, 60))
    assert look() == [(2 * EVENTS.size, 3 * EVENTS.size)]
    assert watch.gaps == 0
    stream.write_bytes(packet(7, 80))
    assert look() == [(0, EVENTS.size)]
    assert watch.gaps == 1


def test_names_that_come_later() -> None:
    """A thread of which nothing but work has come so far is looked for in the parts that have gone, a few times; its work is
    of no device until then."""
    host = _Host(cast("HostWatch", SimpleNamespace(gaps=1, complete=True)), behind=2)
    monitor = Monitor.__new__(Monitor)
    (slot,) = host.threads.of(np.array([12]), np.array([5])).tolist()
    host.work[slot, 0, 3] = Work(1, 10)
    host.queues[7, 2] = (4, 0)
    one = np.array([slot], np.int32), np.array([2], np.uint32), np.array([100]), np.array([110])
    monitor._place(host, *one)
    assert monitor._is_nameless(host) and host.busy == {} and len(host.unplaced) == 1
    monitor._know(host, "thread", {"tid": 12, "pid": 7})
    monitor._place(host, *host.unplaced.pop())
    assert not monitor._is_nameless(host) and list(host.busy) == [(7, 4)] and not host.unplaced
    # Where it never comes the work is shown all the same.
    host.behind, host.pids = 0, {}
    monitor._place(host, *one)
    assert list(host.busy) == [(7, 4), (12, 0)]


def test_memory_of_a_context_without_queues() -> None:
    """It is on the only device of its API; where there are two, nobody knows."""
    host = _Host(cast("HostWatch", None))
    host.texts = {(1, 3): {0: "OpenCL"}, (1, 4): {0: "CUDA"}}
    host.devices = {(1, 5): (3, 0), (1, 6): (4, 0), (2, 7): (3, 0)}
    monitor = Monitor.__new__(Monitor)
    assert monitor._device_of(host, 1, "opencl", 9) == 5
    host.queues = {(1, 8): (6, 9)}
    assert monitor._device_of(host, 1, "opencl", 9) == 6
    host.devices[1, 8] = (3, 0)
    assert monitor._device_of(host, 1, "opencl", 10) == "opencl"
