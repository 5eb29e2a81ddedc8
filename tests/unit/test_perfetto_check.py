"""The checker of timelines can fail: each kind of damage, done to a good file, is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("perfetto")

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema

from occatrace import _native
from tests.support.perfetto_check import check, check_bytes, frames

Packets = list[Any]


def array(*values: int) -> Any:
    return np.array(values, np.uint64)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A small file with something of everything."""
    path = tmp_path_factory.mktemp("check") / "x.pftrace"
    timeline = _native.Timeline(str(path), 1000, 10**18)
    name, category = (np.array([timeline.string(t)] * 3, np.uint32) for t in ("work", "kernel"))
    text = timeline.string("value")
    timeline.process(1, 10, "app", ["app"], ["host here"])
    timeline.thread(2, 10, 11, "main")
    timeline.group(3, 1, "Device 0", 5)
    calls = timeline.lanes(2, 1, "main (overlapping)", 0, nested=True, announced=True)
    offsets = np.array([0, 1, 2, 3], np.uint32)
    arguments = [(timeline.string("mode"), "text", np.array([text] * 3, np.uint32), None)]
    calls.add(array(1000, 1010, 1050), array(1100, 1020, 1060), name, category, (offsets, array(5, 6, 7)), arguments)
    queue = timeline.lanes(4, 3, "queue 1", 1, nested=False)
    queue.add(array(1030, 1060, 1070), array(1060, 1070, 1071), name, category, (offsets, array(5, 6, 7)), [])
    timeline.counter(9, 3, "in flight", 7, "commands").add(array(1000, 1050), np.array([1, 0]))
    calls.finish()
    queue.finish()
    timeline.close()
    return path.read_bytes()


def parse(data: bytes) -> Packets:
    return [schema.TracePacket.FromString(data[body:end]) for _, body, end in frames(data)]


def serialize(packets: Packets) -> bytes:
    content: bytes = schema.Trace(packet=packets).SerializeToString()
    return content


def events(packets: Packets, kind: int) -> list[int]:
    """Indexes of the packets with an event of this type."""
    return [i for i, p in enumerate(packets) if p.HasField("track_event") and p.track_event.type == kind]


def test_good_file(good: bytes) -> None:
    content = check_bytes(good)
    assert content.problems == []
    assert len(content.slices) == 6
    assert [s.arguments for s in content.slices if s.track == 2] == [(("mode", "value"),)] * 3
    assert content.values == [(9, 10**18, 1), (9, 10**18 + 50, 0)]
    assert check_bytes(serialize(parse(good))) == content


def unknown_field(packets: Packets) -> None:
    begin = packets[events(packets, 1)[0]]
    begin.track_event.MergeFromString(bytes([0xF8, 0xFF, 0x01, 0x07]))  # field 4095, varint 7


def undefined_iid(packets: Packets) -> None:
    packets[events(packets, 1)[1]].track_event.name_iid = 999


def undefined_text(packets: Packets) -> None:
    packets[events(packets, 1)[0]].track_event.debug_annotations[0].string_value_iid = 77


def redefined_iid(packets: Packets) -> None:
    names = packets[events(packets, 1)[1]].interned_data.event_names.add()
    names.iid, names.name = 1, "something else"


def not_cleared(packets: Packets) -> None:
    for packet in packets:
        if packet.sequence_flags & 1:
            packet.sequence_flags = 0


def undescribed_track(packets: Packets) -> None:
    del packets[next(i for i, p in enumerate(packets) if p.track_descriptor.uuid == 4)]


def undescribed_parent(packets: Packets) -> None:
    del packets[next(i for i, p in enumerate(packets) if p.track_descriptor.uuid == 3)]


def end_missing(packets: Packets) -> None:
    del packets[events(packets, 2)[-1]]


def begin_missing(packets: Packets) -> None:
    del packets[events(packets, 1)[-1]]


def flow_with_one_end(packets: Packets) -> None:
    del packets[events(packets, 1)[0]].track_event.flow_ids[:]


def flow_ends_first(packets: Packets) -> None:
    first, last = (packets[i].track_event for i in (events(packets, 1)[0], events(packets, 1)[3]))
    first.terminating_flow_ids.append(first.flow_ids.pop())
    assert last.flow_ids[0] == first.terminating_flow_ids[0]
    packets.insert(4, packets.pop(events(packets, 1)[3]))


def time_goes_back(packets: Packets) -> None:
    packet = packets[events(packets, 2)[-1]]  # in a sequence whose times count from one to the next
    packet.timestamp_clock_id, packet.timestamp = 1, 10**18


def same_process_twice(packets: Packets) -> None:
    other = schema.TracePacket()
    other.track_descriptor.uuid, other.track_descriptor.process.pid = 77, 10
    packets.append(other)


def clock_without_snapshot(packets: Packets) -> None:
    for packet in packets:
        packet.ClearField("clock_snapshot")


def values_on_a_slice_track(packets: Packets) -> None:
    packets[events(packets, 4)[0]].track_event.track_uuid = 4


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (unknown_field, "unknown field 4095 in TrackEvent"),
        (undefined_iid, "iid 999 of event_names is not defined"),
        (undefined_text, "iid 77 of debug_annotation_string_values is not defined"),
        (redefined_iid, "iid 1 of event_names is defined again"),
        (not_cleared, "needs state that it has not cleared"),
        (undescribed_track, "track 4 is not described"),
        (undescribed_parent, "below track 3, which is not described"),
        (end_missing, "1 slices never end"),
        (begin_missing, "without a begin"),
        (flow_with_one_end, "flow 5 has one end only"),
        (flow_ends_first, "flow 5 ends before it starts"),
        (time_goes_back, "time goes back"),
        (same_process_twice, "process 10 is there twice"),
        (clock_without_snapshot, "clock 65 has no snapshot"),
        (values_on_a_slice_track, "described as something else"),
    ],
)
def test_damage_is_found(good: bytes, damage: Callable[[Packets], None], told: str) -> None:
    packets = parse(good)
    damage(packets)
    problems = check_bytes(serialize(packets)).problems
    assert any(told in problem for problem in problems), problems


@pytest.mark.parametrize("cut", [1, 2, 5, 40])
def test_truncation_is_found(good: bytes, cut: int) -> None:
    assert any("truncated" in problem or "never end" in problem for problem in check_bytes(good[:-cut]).problems)


def test_wrong_pairing_shows_in_the_slices(good: bytes) -> None:
    """Two slices that overlap on one track: no problem of form, but other durations."""
    packets = parse(good)
    begins = events(packets, 1)
    # The second begins 15 ns early, within the first; times count from packet to packet.
    first_end, second = packets[begins[3] + 1], packets[begins[4]]
    assert (first_end.timestamp, second.timestamp) == (30, 0)
    second.timestamp, first_end.timestamp = 15, 15
    packets.insert(begins[3] + 1, packets.pop(begins[4]))
    before, after = check_bytes(good), check_bytes(serialize(packets))
    assert not after.problems
    assert sorted((s.start, s.duration) for s in before.slices) != sorted((s.start, s.duration) for s in after.slices)


def test_wrong_order_of_equal_times_shows_in_the_slices(good: bytes) -> None:
    """A begin before the end of the same moment: the end closes the wrong slice."""
    packets = parse(good)
    begins = events(packets, 1)
    end, begin = packets[begins[3] + 1], packets[begins[4]]
    assert (end.timestamp, begin.timestamp, begins[4]) == (30, 0, begins[3] + 2)
    end.timestamp, begin.timestamp = 0, 30
    packets.insert(begins[3] + 1, packets.pop(begins[4]))
    before, after = check_bytes(good), check_bytes(serialize(packets))
    assert not after.problems
    assert sum(s.duration for s in before.slices) == sum(s.duration for s in after.slices)
    assert sorted((s.start, s.duration) for s in before.slices) != sorted((s.start, s.duration) for s in after.slices)


def test_compressed(good: bytes, tmp_path: Path) -> None:
    import gzip

    path = tmp_path / "x.pftrace.gz"
    path.write_bytes(gzip.compress(good))
    assert check(path) == check_bytes(good)
