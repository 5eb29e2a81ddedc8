"""A second checker of Perfetto traces, on the official schema: finds what the trace processor swallows in silence.

It reads packet by packet and keeps what each packet sequence has said so far, as an importer must. What it cannot see
is a slice that closes the wrong one (the format has no way to tell): for that, compare `Content.slices` with what was
meant.
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema

_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
_CLEARED, _NEEDS_STATE = 1, 2
_PACKET_TAG = 0x0A
_INTERNED = ("event_names", "event_categories", "debug_annotation_names", "debug_annotation_string_values")


@dataclass(frozen=True)
class Slice:
    """A slice as the file tells it, times in CLOCK_REALTIME."""

    start: int
    duration: int
    name: str
    track: int
    category: str = ""
    arguments: tuple[tuple[str, Any], ...] = ()
    flows: tuple[int, ...] = ()
    instant: bool = False


@dataclass
class Content:
    """What is in a file, and what is wrong with it."""

    problems: list[str] = field(default_factory=list)
    slices: list[Slice] = field(default_factory=list)
    values: list[tuple[int, int, float]] = field(default_factory=list)  # track, time, value
    tracks: dict[int, Any] = field(default_factory=dict)  # descriptors

    def name(self, track: int) -> str:
        """What people see as the name of a track."""
        descriptor = self.tracks[track]
        if descriptor.HasField("thread"):
            return str(descriptor.thread.thread_name)
        if descriptor.HasField("process"):
            return str(descriptor.process.process_name)
        return str(descriptor.name)


@dataclass
class _Sequence:
    """What a packet sequence has said so far."""

    cleared: bool = False
    texts: dict[str, dict[int, bytes]] = field(default_factory=lambda: {kind: {} for kind in _INTERNED})
    track: int = 0
    clock: int = 0
    clocks: dict[int, bool] = field(default_factory=dict)  # whether it counts from packet to packet
    now: int = 0  # of such a clock
    last: dict[int, int] = field(default_factory=dict)  # per track, the time of the last event


@dataclass
class _Open:
    """A slice that has begun."""

    start: int
    name: str
    category: str
    arguments: tuple[tuple[str, Any], ...]
    flows: tuple[int, ...]


def check(path: Path) -> Content:
    """Read a trace, compressed or not."""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    return check_bytes(data)


def check_bytes(data: bytes) -> Content:
    """Read a trace."""
    checker = _Checker()
    for packet in _packets(data, checker.content.problems):
        checker.packet(packet)
    checker.end()
    return checker.content


def frames(data: bytes) -> Iterator[tuple[int, int, int]]:
    """The packets of a trace: where each begins, its body begins, and it ends (or would, if it were whole)."""
    at = 0
    while at < len(data):
        begin = at
        if data[at] != _PACKET_TAG:
            raise ValueError(f"no packet at byte {at}")
        at += 1
        size = shift = 0
        while True:
            if at >= len(data):
                yield begin, at, at + 1
                return
            byte = data[at]
            at += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        yield begin, at, at + size
        at += size


def _packets(data: bytes, problems: list[str]) -> Iterator[Any]:
    try:
        for begin, body, end in frames(data):
            if end > len(data):
                problems.append(f"truncated: the packet at byte {begin} ends beyond the file")
                return
            yield schema.TracePacket.FromString(data[body:end])
    except Exception as error:
        problems.append(f"damaged: {error}")


def _unknown(message: Any, where: str) -> Iterator[str]:
    for unknown in UnknownFieldSet(message):
        yield f"unknown field {unknown.field_number} in {where}"
    for descriptor, value in message.ListFields():
        if descriptor.message_type is not None:
            for part in value if descriptor.is_repeated else [value]:
                yield from _unknown(part, descriptor.message_type.name)


class _Checker:
    """The state of the whole file."""

    def __init__(self) -> None:
        self.content = Content()
        self._sequences: dict[int, _Sequence] = {}
        self._open: dict[int, list[_Open]] = {}
        self._flows: Counter[int] = Counter()
        self._flow_start: dict[int, int] = {}
        self._used: set[tuple[int, str]] = set()  # tracks that events stand on
        self._pids: dict[tuple[int, int], int] = {}

    def packet(self, packet: Any) -> None:
        problems = self.content.problems
        problems.extend(_unknown(packet, "TracePacket"))
        sequence = self._sequences.setdefault(packet.trusted_packet_sequence_id, _Sequence())
        if packet.sequence_flags & _CLEARED:
            sequence.cleared = True
            sequence.texts = {kind: {} for kind in _INTERNED}
        if packet.sequence_flags & _NEEDS_STATE and not sequence.cleared:
            problems.append(f"sequence {packet.trusted_packet_sequence_id}: needs state that it has not cleared first")
        if packet.HasField("trace_packet_defaults"):
            sequence.clock = packet.trace_packet_defaults.timestamp_clock_id
            sequence.track = packet.trace_packet_defaults.track_event_defaults.track_uuid
        if packet.HasField("clock_snapshot"):
            for clock in packet.clock_snapshot.clocks:
                sequence.clocks[clock.clock_id] = clock.is_incremental
                if clock.is_incremental:
                    sequence.now = clock.timestamp
        self._intern(sequence, packet.interned_data)
        if packet.HasField("track_descriptor"):
            self._descriptor(packet.track_descriptor, packet.machine_id)
        if packet.HasField("track_event"):
            self._event(sequence, packet)

    def _intern(self, sequence: _Sequence, data: Any) -> None:
        for kind in _INTERNED:
            known = sequence.texts[kind]
            for entry in getattr(data, kind):
                text = entry.str if isinstance(getattr(entry, "str", None), bytes) else entry.name.encode()
                if known.setdefault(entry.iid, text) != text:
                    self.content.problems.append(f"iid {entry.iid} of {kind} is defined again as something else")

    def _descriptor(self, descriptor: Any, machine: int) -> None:
        problems = self.content.problems
        before = self.content.tracks.setdefault(descriptor.uuid, descriptor)
        if before != descriptor:
            problems.append(f"track {descriptor.uuid} is described twice, differently")
        if descriptor.HasField("process"):
            owner = self._pids.setdefault((machine, descriptor.process.pid), descriptor.uuid)
            if owner != descriptor.uuid:
                problems.append(f"process {descriptor.process.pid} is there twice on machine {machine}")

    def _event(self, sequence: _Sequence, packet: Any) -> None:
        problems, event = self.content.problems, packet.track_event
        number = packet.trusted_packet_sequence_id
        clock = packet.timestamp_clock_id or sequence.clock
        if 64 <= clock <= 127 and clock not in sequence.clocks:
            problems.append(f"sequence {number}: clock {clock} has no snapshot")
        track = event.track_uuid or sequence.track
        if not track:
            problems.append(f"sequence {number}: an event without a track")
        self._used.add((track, "counter" if event.type == _COUNTER else "slice"))
        time = packet.timestamp
        if sequence.clocks.get(clock):
            time = sequence.now = sequence.now + time
        if time < sequence.last.get(track, 0):
            problems.append(f"track {track}: time goes back from {sequence.last[track]} to {time}")
        sequence.last[track] = time
        for flow in (*event.flow_ids, *event.terminating_flow_ids):
            self._flows[flow] += 1
        for flow in event.flow_ids:
            self._flow_start[flow] = min(time, self._flow_start.get(flow, time))
        for flow in event.terminating_flow_ids:
            if flow in self._flow_start and time < self._flow_start[flow]:
                problems.append(f"flow {flow} ends before it starts")
        stack = self._open.setdefault(track, [])
        if event.type == _BEGIN:
            stack.append(
                _Open(
                    time,
                    self._text(sequence, "event_names", event.name_iid, event.name),
                    ",".join(self._text(sequence, "event_categories", iid, "") for iid in event.category_iids),
                    tuple(self._argument(sequence, a) for a in event.debug_annotations),
                    tuple(event.flow_ids),
                )
            )
        elif event.type == _END:
            if not stack:
                problems.append(f"track {track}: an end at {time} without a begin")
                return
            began = stack.pop()
            self.content.slices.append(
                Slice(began.start, time - began.start, began.name, track, began.category, began.arguments, began.flows)
            )
        elif event.type == _INSTANT:
            name = self._text(sequence, "event_names", event.name_iid, event.name)
            categories = (self._text(sequence, "event_categories", iid, "") for iid in event.category_iids)
            arguments = tuple(self._argument(sequence, a) for a in event.debug_annotations)
            moment = Slice(time, 0, name, track, ",".join(categories), arguments, tuple(event.flow_ids), instant=True)
            self.content.slices.append(moment)
        elif event.type == _COUNTER:
            value = event.double_counter_value if event.HasField("double_counter_value") else event.counter_value
            self.content.values.append((track, time, value))
        else:
            problems.append(f"track {track}: an event of type {event.type}")

    def _text(self, sequence: _Sequence, kind: str, iid: int, plain: str) -> str:
        if not iid:
            if not plain:
                self.content.problems.append(f"neither text nor iid where one of {kind} should be")
            return plain
        text = sequence.texts[kind].get(iid)
        if text is None:
            self.content.problems.append(f"iid {iid} of {kind} is not defined")
            return ""
        return text.decode(errors="surrogateescape")

    def _argument(self, sequence: _Sequence, argument: Any) -> tuple[str, Any]:
        name = self._text(sequence, "debug_annotation_names", argument.name_iid, argument.name)
        kind = argument.WhichOneof("value")
        if kind == "string_value_iid":
            return name, self._text(sequence, "debug_annotation_string_values", argument.string_value_iid, "")
        if kind is None:
            self.content.problems.append(f"argument {name} has no value")
            return name, None
        return name, getattr(argument, kind)

    def end(self) -> None:
        problems = self.content.problems
        for track, kind in sorted(self._used):
            descriptor = self.content.tracks.get(track)
            if descriptor is None:
                problems.append(f"track {track} is not described")
            elif descriptor.HasField("counter") != (kind == "counter"):
                problems.append(f"track {track} is described as something else than a {kind} track")
        for descriptor in self.content.tracks.values():
            if descriptor.HasField("parent_uuid") and descriptor.parent_uuid not in self.content.tracks:
                problems.append(
                    f"track {descriptor.uuid} is below track {descriptor.parent_uuid}, which is not described"
                )
        for track, stack in self._open.items():
            if stack:
                problems.append(f"track {track}: {len(stack)} slices never end")
        problems.extend(f"flow {flow} has one end only" for flow, count in self._flows.items() if count < 2)
