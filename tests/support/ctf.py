"""Writes small traces in LTTng-UST's manner from values, as CTF 1.8 or CTF 2: for layouts that no tracer at hand would write."""

from __future__ import annotations

import json
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
typealias integer { size = 16; align = 16; signed = false; } := aligned16_t;
typealias integer { size = 32; align = 32; signed = false; } := aligned32_t;
typealias integer { size = 32; align = 32; signed = false; map = clock.monotonic.value; } := aligned32_clock_t;
typealias integer { size = 64; align = 64; signed = false; map = clock.monotonic.value; } := aligned64_clock_t;
struct event_header_compact_natural {
	enum : uint5_t { compact = 0 ... 30, extended = 31 } id;
	variant <id> {
		struct { uint27_clock_t timestamp; } compact;
		struct { aligned32_t id; aligned64_clock_t timestamp; } extended;
	} v;
} align(32);
struct event_header_large_natural {
	enum : aligned16_t { compact = 0 ... 65534, extended = 65535 } id;
	variant <id> {
		struct { aligned32_clock_t timestamp; } compact;
		struct { aligned32_t id; aligned64_clock_t timestamp; } extended;
	} v;
} align(16);
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

    def field_class(self) -> dict[str, Any]:
        """As the metadata of CTF 2 has it."""
        raise NotImplementedError

    def member_classes(self, name: str, path: Sequence[str]) -> list[dict[str, Any]]:
        """As members of a structure there, which is at a path."""
        return [_member(name, self.field_class())]


def _member(name: str, field_class: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "field-class": field_class}


def _dynamic(name: str, path: Sequence[str], kind: dict[str, Any], counter: dict[str, Any]) -> list[dict[str, Any]]:
    length = f"_{name}_length"
    location = {"origin": path[0], "path": [*path[1:], length]}
    return [_member(length, counter), _member(name, {**kind, "length-field-location": location})]


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

    def field_class(self) -> dict[str, Any]:
        kind = f"fixed-length-{'' if self.signed else 'un'}signed-integer"
        order = "big-endian" if self.big_endian else "little-endian"
        return {"type": kind, "length": self.size, "byte-order": order, "alignment": self.align * 8}


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

    def field_class(self) -> dict[str, Any]:
        return {**self.integer.field_class(), "mappings": {"some more": [[5, 9]], "one": [[1, 1]], "zero": [[0, 0]]}}


@dataclass(frozen=True)
class Float(Type):
    double: bool

    def declare(self, name: str) -> str:
        digits = "exp_dig = 11; mant_dig = 53" if self.double else "exp_dig = 8; mant_dig = 24"
        return f"floating_point {{ {digits}; align = 8; }} {name};"

    def write(self, cursor: Cursor, value: float) -> None:
        cursor.data += struct.pack("<d" if self.double else "<f", value)

    def field_class(self) -> dict[str, Any]:
        kind = "fixed-length-floating-point-number"
        return {"type": kind, "length": 64 if self.double else 32, "byte-order": "little-endian", "alignment": 8}


@dataclass(frozen=True)
class String(Type):
    def declare(self, name: str) -> str:
        return f"string {name};"

    def write(self, cursor: Cursor, value: str) -> None:
        cursor.data += value.encode() + b"\0"

    def field_class(self) -> dict[str, Any]:
        return {"type": "null-terminated-string"}


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

    def member_classes(self, name: str, path: Sequence[str]) -> list[dict[str, Any]]:
        if self.length:
            return [_member(name, {"type": "static-length-string", "length": self.length})]
        return _dynamic(name, path, {"type": "dynamic-length-string"}, Integer(32).field_class())


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

    def member_classes(self, name: str, path: Sequence[str]) -> list[dict[str, Any]]:
        kind = {"element-field-class": self.element.field_class()}
        if self.length is not None:
            return [_member(name, {"type": "static-length-array", "length": self.length, **kind})]
        return _dynamic(name, path, {"type": "dynamic-length-array", **kind}, self.counter.field_class())


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

    def at(self, path: Sequence[str]) -> dict[str, Any]:
        """The structure of CTF 2 at a path: where lengths are found."""
        members = [each for name, member in self.members for each in member.member_classes(name, path)]
        return {"type": "structure", "member-classes": members}

    def member_classes(self, name: str, path: Sequence[str]) -> list[dict[str, Any]]:
        return [_member(name, self.at([*path, name]))]


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
    natural: bool = False  # headers aligned as in C, which LTTng-UST does on AArch64


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
        header += "_natural" if stream.natural else ""
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


def _unsigned(size: int, align: int, *roles: str, **more: Any) -> dict[str, Any]:
    made = {"type": "fixed-length-unsigned-integer", "length": size, "byte-order": "little-endian", "alignment": align}
    return {**made, **({"roles": roles} if roles else {}), **more}


def _structure(**members: dict[str, Any]) -> dict[str, Any]:
    return {"type": "structure", "member-classes": [_member(name, each) for name, each in members.items()]}


def _event_header_class(stream: StreamClass) -> dict[str, Any]:
    """LTTng's: the number and the low bits of the time, or both at full length."""
    id_bits, time_bits = (5, _COMPACT_BITS) if stream.compact else (16, _LARGE_BITS)
    time, last = "default-clock-timestamp", (1 << id_bits) - 1

    def align(bits: int) -> int:
        return 1 if bits % 8 else bits if stream.natural else 8

    mappings = {"compact": [[0, last - 1]], "extended": [[last, last]]}
    short = _structure(timestamp=_unsigned(time_bits, align(time_bits), time))
    number = _unsigned(32, align(32), "event-record-class-id")
    whole = _structure(id=number, timestamp=_unsigned(64, align(64), time))
    options = [
        {"selector-field-ranges": mappings["compact"], "field-class": short},
        {"selector-field-ranges": mappings["extended"], "field-class": whole},
    ]
    location = {"origin": "event-record-header", "path": ["id"]}
    variant = {"type": "variant", "selector-field-location": location, "options": options}
    made = _structure(id=_unsigned(id_bits, align(id_bits), "event-record-class-id", mappings=mappings), v=variant)
    return {**made, "minimum-alignment": (32 if stream.compact else 16) if stream.natural else 8}


def metadata2(streams: Sequence[StreamClass]) -> str:
    """The metadata of CTF 2 for the same packets."""
    uuid = {"type": "static-length-blob", "length": 16, "roles": ["metadata-stream-uuid"]}
    header = _structure(
        magic=_unsigned(32, 8, "packet-magic-number"),
        uuid=uuid,
        stream_id=_unsigned(32, 8, "data-stream-class-id"),
        stream_instance_id=_unsigned(64, 8, "data-stream-id"),
    )
    context = _structure(
        timestamp_begin=_unsigned(64, 8, "default-clock-timestamp"),
        timestamp_end=_unsigned(64, 8, "packet-end-default-clock-timestamp"),
        content_size=_unsigned(64, 8, "packet-content-length"),
        packet_size=_unsigned(64, 8, "packet-total-length"),
    )
    environment = {"hostname": "made", "answer": 42}
    offset = {"seconds": 0, "cycles": 5}
    fragments: list[dict[str, Any]] = [
        {"type": "preamble", "version": 2, "uuid": list(UUID)},
        {"type": "trace-class", "environment": environment, "packet-header-field-class": header},
        {"type": "clock-class", "id": "monotonic", "frequency": 1_000_000_000, "offset-from-origin": offset},
    ]
    for stream in streams:
        fragment: dict[str, Any] = {"type": "data-stream-class", "id": stream.id, "default-clock-class-id": "monotonic"}
        fragment["packet-context-field-class"] = context
        fragment["event-record-header-field-class"] = _event_header_class(stream)
        if stream.context.members:
            fragment["event-record-common-context-field-class"] = stream.context.at(["event-record-common-context"])
        fragments.append(fragment)
        for event in stream.events:
            fragment = {"type": "event-record-class", "id": event.id, "data-stream-class-id": stream.id}
            fragment["name"] = event.name
            if event.context.members:
                fragment["specific-context-field-class"] = event.context.at(["event-record-specific-context"])
            fragment["payload-field-class"] = event.fields.at(["event-record-payload"])
            fragments.append(fragment)
    return "".join(f"\x1e{json.dumps(each, indent=2)}\n" for each in fragments)


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

    def write(form: str, value: int) -> None:
        if stream.natural:
            cursor.align(struct.calcsize(form))
        cursor.data += struct.pack(f"<{form}", value)

    def write_long() -> None:
        if stream.natural:
            cursor.align(8)
        write("I", number)
        write("Q", time)

    if stream.compact:
        if stream.natural:
            cursor.align(4)
        if number < 31 and time - clock < 1 << _COMPACT_BITS:
            write("I", number | (time % (1 << _COMPACT_BITS)) << 5)
        else:
            write("B", 31)
            write_long()
    elif number < 65535 and time - clock < 1 << _LARGE_BITS:
        write("H", number)
        write("I", time % (1 << _LARGE_BITS))
    else:
        write("H", 65535)
        write_long()


def write(
    folder: Path, streams: Sequence[StreamClass], files: Sequence[bytes], packets: bool = True, version: int = 1
) -> Path:
    """A trace's folder of its metadata (of CTF 1.8 or 2) and its streams' files."""
    folder.mkdir(parents=True)
    text = metadata(streams) if version == 1 else metadata2(streams)
    (folder / "metadata").write_bytes(packetized(text) if packets else text.encode())
    for number, data in enumerate(files):
        (folder / f"stream_{number}").write_bytes(data)
    return folder
