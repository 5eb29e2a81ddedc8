"""Traces to which nothing came: a process that ended before its first event leaves metadata that declares no stream, and
packets without events. That is an empty trace; where there are events, it is a damaged one."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from occatrace import _native
from tests.support import ctf, traces

EMPTY = 84  # bytes of a packet of LTTng-UST that has no event
SIZE = 4096


def packet(content: int) -> bytes:
    head = struct.pack("<I16sIQQQQQ", 0xC1FC1FC1, ctf.UUID, 0, 0, 1, 2, 8 * content, 8 * SIZE)
    return head.ljust(SIZE, b"\0")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    (tmp_path / "metadata").write_text(ctf.HEAD)
    return tmp_path


@pytest.fixture(params=["babeltrace2", "fast"])
def decoder(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("streams", [(b"", b""), (packet(EMPTY), 2 * packet(EMPTY)), (packet(EMPTY), b"")])
def test_packets_without_events(trace: Path, decoder: str, streams: tuple[bytes, ...]) -> None:
    for number, content in enumerate(streams):
        (trace / f"channel_{number}").write_bytes(content)
    reader = _native.Reader(trace, decoder=decoder)
    assert traces.rows_of(reader) == {}
    assert reader.problems == []


@pytest.mark.parametrize(
    "stream", [packet(EMPTY + 1), packet(EMPTY) + packet(EMPTY + 30), packet(EMPTY)[:50], b"x" * SIZE]
)
def test_events_that_nothing_declares(trace: Path, decoder: str, stream: bytes) -> None:
    (trace / "channel_0").write_bytes(packet(EMPTY))
    (trace / "channel_1").write_bytes(stream)
    with pytest.raises(_native.TraceError, match="ends before any event is declared.* record it again"):
        _native.Reader(trace, decoder=decoder)
