"""Where slices stand in the picture: processes with their threads, under them devices with queues, and counters."""

from __future__ import annotations

import hashlib
import os
from typing import Any

from occatrace.schema import HOST_MODES
from occatrace.timeline.selection import ALLOCATED, IN_FLIGHT, MEMORY, PROBLEMS, QUEUE, THREAD, UNKNOWN

_PROCESS, _DEVICE, _COUNTER = 4, 5, 6  # further kinds of things with a number, after those of slices
_LAST = 1 << 20  # order of what stands below the queues


def salt(run: str) -> int:
    """A number that differs between runs, so that their timelines may be put into one file."""
    return int.from_bytes(hashlib.blake2b(run.encode(), digest_size=8).digest(), "little")


class Tracks:
    """The tracks of a run: described when they are first needed, so that none is empty."""

    def __init__(self, con: Any, timeline: Any, salt_: int) -> None:
        self._timeline = timeline
        self._salt = salt_
        self._lanes: dict[tuple[int, int], Any] = {}
        self._described: set[int] = set()

        def fetch(sql: str) -> dict[int, tuple[Any, ...]]:
            return {row[0]: row[1:] for row in con.execute(sql).fetchall()}

        self._processes = fetch("SELECT process, host, pid, exe, cmdline FROM processes")
        self._threads = fetch("SELECT thread, process, tid, name FROM threads")
        self._devices = fetch("SELECT device, process, id, name, api FROM devices")
        self._queues = fetch("SELECT queue, process, device, id, flags FROM queues")
        self._many_hosts = len({row[0] for row in self._processes.values()}) > 1

    def lanes(self, kind: int, track: int) -> Any:
        """The track of a thread, a queue, a device's memory operations, or a process's problems."""
        key = (kind, track)
        if key not in self._lanes:
            make = {THREAD: self._thread, QUEUE: self._queue, MEMORY: self._memory, PROBLEMS: self._problems}[kind]
            self._lanes[key] = make(track)
        return self._lanes[key]

    def finish(self) -> None:
        """End all slices that are still open."""
        for lanes in self._lanes.values():
            lanes.finish()

    def counter(self, number: int, kind: int, process: int, device: int, mode: str) -> Any:
        """A counter, under its device where it is known which that is."""
        uuid = self._uuid(_COUNTER, number)
        if kind == IN_FLIGHT:
            parent = self._device(device or UNKNOWN + process, process)
            return self._timeline.counter(uuid, parent, "enqueued, not finished", _LAST + 1, "commands")
        assert kind == ALLOCATED
        owners = [
            d for d, (owner, _, _, api) in self._devices.items() if owner == process and api.lower() == mode.lower()
        ]
        if len(owners) == 1:
            return self._timeline.counter(
                uuid, self._device(owners[0], process), "memory in use (OCCA)", _LAST + 2, "bytes"
            )
        where = f", {mode}" if mode else ""
        name = f"memory in use (OCCA{where})"
        return self._timeline.counter(uuid, self._process(process), name, 10 if mode in HOST_MODES else _LAST, "bytes")

    def _uuid(self, kind: int, number: int) -> int:
        """Unique within the run, spread over all 64 bits, and never 0 in practice."""
        return ((number << 3 | kind) * 0x9E3779B97F4A7C15 + self._salt) & 0xFFFF_FFFF_FFFF_FFFF

    def _describe(self, uuid: int) -> bool:
        """Whether this is the first time."""
        new = uuid not in self._described
        self._described.add(uuid)
        return new

    def _process(self, process: int) -> int:
        uuid = self._uuid(_PROCESS, process)
        host, pid, exe, cmdline = self._processes.get(process, ("", 0, "", ""))
        # Process ids mean something on their host only. A single host needs no number.
        self._timeline.machine(salt(host) & 0x7FFF_FFFF if self._many_hosts else 0)
        if self._describe(uuid):
            name = os.path.basename(exe) or "process"
            self._timeline.process(uuid, pid, name, [cmdline] if cmdline else [], [f"host {host}"] if host else [])
        return uuid

    def _thread(self, thread: int) -> Any:
        process, tid, name = self._threads[thread]
        parent = self._process(process)
        uuid = self._uuid(THREAD, thread)
        self._timeline.thread(uuid, self._processes[process][1], tid, name)
        # A thread's calls are nested, so further lanes are for damaged traces.
        return self._timeline.lanes(
            uuid, parent, f"{name or 'thread'} {tid} (overlapping)", 20, nested=True, announced=True
        )

    def _device(self, device: int, process: int) -> int:
        parent = self._process(process)
        uuid = self._uuid(_DEVICE, device)
        if self._describe(uuid):
            _, number, name, _ = self._devices.get(device, (process, 0, "unknown device", ""))
            self._timeline.group(
                uuid, parent, f"Device {number - 1}: {name}" if number else name, 1000 + device % UNKNOWN
            )
        return uuid

    def _queue(self, queue: int) -> Any:
        process, device, number, flags = self._queues.get(queue, (queue % UNKNOWN, 0, 0, 0))
        parent = self._device(device or UNKNOWN + process, process)
        name = f"queue {number}" if number else "unknown queue"
        if flags & 1:
            name += " (out of order)"
        return self._timeline.lanes(self._uuid(QUEUE, queue), parent, name, number, nested=False)

    def _memory(self, device: int) -> Any:
        process = self._devices[device][0] if device in self._devices else device % UNKNOWN
        parent = self._device(device, process)
        return self._timeline.lanes(self._uuid(MEMORY, device), parent, "memory operations", _LAST, nested=False)

    def _problems(self, process: int) -> Any:
        uuid = self._uuid(PROBLEMS, process)
        return self._timeline.lanes(uuid, self._process(process), "! problems", 0, nested=False)
