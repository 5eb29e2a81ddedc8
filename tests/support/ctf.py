"""Writes small CTF 1.8 traces in LTTng-UST's manner from values: for layouts that no tracer at hand would write."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

UUID = bytes(range(16))
_COMPACT_BITS, _LARGE_BITS = 27, 32

HEAD = """/* CTF 1.8 */
typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 16; align = 8; signed = false; } := uint16_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
typealias integer { size = 5; align = 1; signed = false; } := uint5_t;
trace {
	major = 1; minor = 8; uuid = "00010203-0405-0607-0809-0a0b0c0d0e0f"; byte_order = le;
	packet.header := struct { uint32_t magic; uint8_t uuid[16]; uint32_t stream_id; uint64_t stream_instance_id; };
};
env { hostname = "made"; answer = 42; };
clock { name = "monotonic"; freq = 1000000000; offset = 5; };
typealias integer { size = 27; align = 1; signed = false; map = clock.monotonic.value; } := uint27_clock_t;
typealias integer { size = 32; align = 8; signed = false; map = clock.monotonic.value; } := uint32_clock_t;
typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } := uint64_clock_t;
struct packet_context {
	uint64_clock_t timestamp_begin; uint64_clock_t timestamp_end; uint64_t content_size; uint64_t packet_size;
};
struct event_header_compact {
	enum : uint5_t { compact = 0 ... 30, extended = 31 } id;
	variant <id> {
		struct { uint27_clock_t timestamp; } compact;
		struct { uint32_t id; uint64_clock_t timestamp; } extended;
	} v;
} align(8);
struct event_header_large {
	enum : uint16_t { compact = 0 ... 65534, extended = 65535 } id;
	variant <id> {
		struct { uint32_clock_t timestamp; } compact;
		struct { uint32_t id; uint64_clock_t timestamp; } extended;
	} v;
} align(8);
"""


class Cursor:
    """A packet's bytes."""

    def __init__(self) -> None:
        self.data = bytearray()

    def align(self, size: int) -> None:
        self.data.extend(bytes(-len(self.data) % size))


class Type:
    """A field's type: its text, its alignment in bytes, and how a value is written and shown."""

    align = 1

    def declare(self, name: str) -> str:
        raise NotImplementedError

    def write(self, cursor: Cursor, value: Any) -> None:
        raise NotImplementedError

    def shown(self, name: str, value: Any) -> list[tuple[str, Any]]:
        return [(name, value)]


@dataclass(frozen=True)
class Integer(Type):
    size: int = 32
    signed: bool = False
    big_endian: bool = False
    align: int = 1

    def specifier(self) -> str:
        order = " byte_order = be;" if self.big_endian else ""
        signed = str(self.signed).lower()
        return f"integer {{ size = {self.size}; align = {self.align * 8}; signed = {signed};{order} }}"

    def declare(self, name: str) -> str:
        return f"{self.specifier()} {name};"

    def write(self, cursor: Cursor, value: int) -> None:
        cursor.align(self.align)
        order = "big" if self.big_endian else "little"
        cursor.data += value.to_bytes(self.size // 8, order, signed=self.signed)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Enum(Type):
    integer: Integer

    @property
    def align(self) -> int:  # type: ignore[override]
        return self.integer.align

    def declare(self, name: str) -> str:
        return f'enum : {self.integer.specifier()} {{ "zero" = 0, one, "some more" = 5 ... 9, }} {name};'

    def write(self, cursor: Cursor, value: int) -> None:
        self.integer.write(cursor, value)


@dataclass(frozen=True)
class Float(Type):
    double: bool

    def declare(self, name: str) -> str:
        digits = "exp_dig = 11; mant_dig = 53" if self.double else "exp_dig = 8; mant_dig = 24"
        return f"floating_point {{ {digits}; align = 8; }} {name};"

    def write(self, cursor: Cursor, value: float) -> None:
        cursor.data += struct.pack("<d" if self.double else "<f", value)


@dataclass(frozen=True)
class String(Type):
    def declare(self, name: str) -> str:
        return f"string {name};"

    def write(self, cursor: Cursor, value: str) -> None:
        cursor.data += value.encode() + b"\0"


_CHAR = "integer { size = 8; align = 8; signed = 1; encoding = UTF8; base = 10; }"


@dataclass(frozen=True)
class Text(Type):
    """Characters in an array of `length`, or in a sequence if it is 0."""

    length: int = 0

    def declare(self, name: str) -> str:
        if self.length:
            return f"{_CHAR} {name}[{self.length}];"
        return f"uint32_t _{name}_length; {_CHAR} {name}[ _{name}_length ];"

    def write(self, cursor: Cursor, value: bytes) -> None:
        if self.length:
            value = value[: self.length].ljust(self.length, b"\0")
        else:
            cursor.data += struct.pack("<I", len(value))
        cursor.data += value

    def shown(self, name: str, value: bytes) -> list[tuple[str, Any]]:
        if self.length:
            value = value[: self.length]
        return [(name, value.split(b"\0")[0].decode())]


@dataclass(frozen=True)
class Bytes(Type):
    """A sequence of bytes that is declared as text, as LTTng's `sequence_text` of `uint8_t`."""

    def declare(self, name: str) -> str:
        character = _CHAR.replace("signed = 1", "signed = 0")
        return f"uint32_t _{name}_length; {character} {name}[ _{name}_length ];"

    def write(self, cursor: Cursor, value: bytes) -> None:
        cursor.data += struct.pack("<I", len(value)) + value


@dataclass(frozen=True)
class List(Type):
    """Numbers in an array of `length`, or in a sequence with a length of its own type."""

    element: Type
    length: int | None = None
    counter: Integer = field(default_factory=Integer)

    @property
    def align(self) -> int:  # type: ignore[override]
        return max(self.element.align, 1 if self.length is not None else self.counter.align)

    def declare(self, name: str) -> str:
        if self.length is not None:
            return self.element.declare(f"{name}[{self.length}]")
        return self.counter.declare(f"_{name}_length") + " " + self.element.declare(f"{name}[ _{name}_length ]")

    def write(self, cursor: Cursor, value: Sequence[Any]) -> None:
        if self.length is None:
            self.counter.write(cursor, len(value))
        cursor.align(self.element.align)
        for item in value:
            self.element.write(cursor, item)

    def shown(self, name: str, value: Sequence[Any]) -> list[tuple[str, Any]]:
        return [(name, tuple(value))]


@dataclass(frozen=True)
class Struct(Type):
    members: tuple[tuple[str, Type], ...]

    @property
    def align(self) -> int:  # type: ignore[override]
        return max((member.align for _, member in self.members), default=1)

    def specifier(self) -> str:
        return "struct { " + " ".join(member.declare(f"_{name}") for name, member in self.members) + " }"

    def declare(self, name: str) -> str:
        return f"{self.specifier()} {name};"

    def write(self, cursor: Cursor, value: dict[str, Any]) -> None:
        cursor.align(self.align)
        for name, member in self.members:
            member.write(cursor, value[name])

    def shown(self, name: str, value: dict[str, Any]) -> list[tuple[str, Any]]:
        prefix = f"{name}." if name else ""
        return [pair for inner, member in self.members for pair in member.shown(prefix + inner, value[inner])]


@dataclass(frozen=True)
class EventClass:
    id: int
    name: str
    fields: Struct
    context: Struct = Struct(())


@dataclass(frozen=True)
class StreamClass:
    id: int
    compact: bool
    context: Struct
    events: tuple[EventClass, ...]


@dataclass(frozen=True)
class Event:
    time: int
    kind: EventClass
    common: dict[str, Any]
    specific: dict[str, Any]
    payload: dict[str, Any]

    def row(self, stream: StreamClass) -> tuple[tuple[str, Any], ...]:
        """As the readers of traces.py show it."""
        return (
            ("ts", self.time),
            *stream.context.shown("ctx", self.common),
            *self.kind.context.shown("ctx", self.specific),
            *self.kind.fields.shown("", self.payload),
        )


def metadata(streams: Sequence[StreamClass]) -> str:
    text = HEAD
    for stream in streams:
        header = "event_header_compact" if stream.compact else "event_header_large"
        text += f"stream {{ id = {stream.id}; event.header := struct {header};\n"
        text += "packet.context := struct packet_context;"
        if stream.context.members:
            text += f" event.context := {stream.context.specifier()};"
        text += " };\n"
        for event in stream.events:
            text += f'event {{ name = "{event.name}"; id = {event.id}; stream_id = {stream.id}; loglevel = 13;\n'
            if event.context.members:
                text += f"context := {event.context.specifier()};\n"
            text += f"fields := {event.fields.specifier()}; }};\n"
    return text


def packetized(text: str, size: int = 200) -> bytes:
    """Metadata as LTTng's consumer writes it."""
    out = bytearray()
    for place in range(0, len(text), size):
        piece = text[place : place + size].encode()
        content = (len(piece) + 37) * 8
        head = struct.pack("<I16sIIIBBBBB", 0x75D11D57, UUID, 0, content, content + 64, 0, 0, 0, 1, 8)
        out += head + piece + bytes(8)
    return bytes(out)


def packet(stream: StreamClass, instance: int, begin: int, events: Sequence[Event], padding: int) -> bytes:
    """A packet whose events' times do not decrease, the first not before `begin`."""
    cursor = Cursor()
    cursor.data += struct.pack("<I16sIQ", 0xC1FC1FC1, UUID, stream.id, instance)
    sizes = len(cursor.data) + 16
    end = events[-1].time if events else begin
    cursor.data += struct.pack("<QQQQ", begin, end, 0, 0)
    clock = begin
    for event in events:
        _event_header(cursor, stream, event, clock)
        clock = event.time
        for structure, value in (
            (stream.context, event.common),
            (event.kind.context, event.specific),
            (event.kind.fields, event.payload),
        ):
            structure.write(cursor, value)
    content = len(cursor.data)
    cursor.data += bytes(padding)
    cursor.data[sizes : sizes + 16] = struct.pack("<QQ", content * 8, len(cursor.data) * 8)
    return bytes(cursor.data)


def _event_header(cursor: Cursor, stream: StreamClass, event: Event, clock: int) -> None:
    number, time = event.kind.id, event.time
    if stream.compact:
        if number < 31 and time - clock < 1 << _COMPACT_BITS:
            cursor.data += struct.pack("<I", number | (time % (1 << _COMPACT_BITS)) << 5)
        else:
            cursor.data += struct.pack("<BIQ", 31, number, time)
    elif number < 65535 and time - clock < 1 << _LARGE_BITS:
        cursor.data += struct.pack("<HI", number, time % (1 << _LARGE_BITS))
    else:
        cursor.data += struct.pack("<HIQ", 65535, number, time)


def write(folder: Path, streams: Sequence[StreamClass], files: Sequence[bytes], packets: bool = True) -> Path:
    """A trace's folder of its metadata and its streams' files."""
    folder.mkdir(parents=True)
    text = metadata(streams)
    (folder / "metadata").write_bytes(packetized(text) if packets else text.encode())
    for number, data in enumerate(files):
        (folder / f"stream_{number}").write_bytes(data)
    return folder
