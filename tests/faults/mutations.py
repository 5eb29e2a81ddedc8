"""Changes to valid inputs that know their structure. Every function takes a random.Random and returns bytes: the same number
gives the same input."""

from __future__ import annotations

import copy
import json
import re
import struct
from collections.abc import Callable, Iterator, MutableMapping, MutableSequence, Sequence
from random import Random
from typing import Any

NUMBERS = (
    0,
    1,
    -1,
    7,
    31,
    65,
    255,
    2**15,
    2**31 - 1,
    2**31,
    -(2**31),
    2**32,
    2**53 + 1,
    2**63 - 1,
    2**63,
    -(2**63),
    2**64 - 1,
    2**64,
    10**40,
)
TEXTS = (
    "",
    "x",
    "x" * 70_000,
    "\x1b[31mred\x07",
    "../../../etc/passwd",
    "/dev/zero",
    "a\0b",
    "\ud800",
    "漢字",
    "%s%n{0}",
    "'; DROP TABLE calls; --",
    "*",
    "NaN",
    "-1",
    "2026-01-01T00:00:00+0000",
    "9999999999999999999",
)
OTHERS: tuple[Any, ...] = (
    None,
    True,
    False,
    0.5,
    -0.0,
    1e308,
    float("nan"),
    float("inf"),
    [],
    {},
    [[]],
    {"": {}},
    [None],
    [0] * 5000,
)


def value(random: Random) -> Any:
    """Something that may have the wrong type, or an extreme of the right one."""
    return random.choice(random.choice((NUMBERS, TEXTS, OTHERS)))


# ---- any bytes ----


def cut(data: bytes, random: Random) -> bytes:
    return data[: random.randrange(len(data) + 1)] if data else data


def flip(data: bytes, random: Random) -> bytes:
    """Turn some bits."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 3, 30)) if changed else 0):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def overwrite(data: bytes, random: Random) -> bytes:
    """Put a number, zeros or noise somewhere."""
    changed = bytearray(data)
    if not changed:
        return data
    at = random.randrange(len(changed))
    number = random.choice(NUMBERS) & (2**64 - 1)
    what = random.choice((number.to_bytes(8, "little"), number.to_bytes(8, "big"), bytes(64), random.randbytes(100)))
    changed[at : at + len(what)] = what
    return bytes(changed)


def repeat(data: bytes, random: Random) -> bytes:
    """Write a part twice."""
    if not data:
        return data
    begin = random.randrange(len(data))
    end = min(len(data), begin + random.choice((1, 16, 4096)))
    return data[:end] + data[begin:]


def replaced(data: bytes, random: Random) -> bytes:
    """Something else altogether."""
    return random.choice(
        (b"", b"\0" * 100, b"{}", b"PAR1" + bytes(20) + b"PAR1", random.randbytes(500), b"[" * 100_000, data * 2)
    )


BYTES: Sequence[Callable[[bytes, Random], bytes]] = (cut, flip, flip, overwrite, overwrite, repeat, replaced)


def any_bytes(data: bytes, random: Random) -> bytes:
    """One or two of these."""
    for _ in range(random.choice((1, 1, 2))):
        data = random.choice(BYTES)(data, random)
    return data


# ---- JSON and TOML ----


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with each of its keys."""
    if isinstance(node, MutableMapping):
        keys: Any = list(node)
    elif isinstance(node, MutableSequence):
        keys = range(len(node))
    else:
        return
    for key in keys:
        yield node, key
        yield from _places(node[key])


def tree(document: Any, random: Random, changes: int = 0) -> Any:
    """A document with some values replaced, removed, renamed, exchanged or nested."""
    document = copy.deepcopy(document)
    for _ in range(changes or random.choice((1, 1, 2, 4))):
        places = list(_places(document))
        if not places:
            return value(random)
        node, key = random.choice(places)
        how = random.randrange(8)
        if how <= 3:
            node[key] = value(random)
        elif how == 4:
            del node[key]
        elif how == 5:
            node[key] = random.choice(([node[key]], {"x": node[key]}, [node[key]] * 3))
        elif how == 6:
            other, there = random.choice(places)
            try:
                node[key] = copy.deepcopy(other[there])
            except (KeyError, IndexError):
                continue
        elif isinstance(node, dict):
            node[random.choice((str(key).upper(), "", "x" * 300, "../x"))] = node[key]
        else:
            node.insert(0, node[key])
    return document


def json_bytes(data: bytes, random: Random) -> bytes:
    """A JSON text whose document, or whose bytes, are changed."""
    if random.random() < 0.2:
        return any_bytes(data, random)
    text = json.dumps(tree(json.loads(data), random))
    if random.random() < 0.05:
        text = "\ufeff" + text
    return text.encode("utf-8", "surrogatepass")


def toml_bytes(random: Random, options: Sequence[str]) -> bytes:
    """A configuration of some options with values of any type."""

    def written(what: Any, depth: int = 0) -> str:
        if isinstance(what, bool):
            return str(what).lower()
        if isinstance(what, (int, float)):
            return str(what)
        if isinstance(what, list):
            return f"[{', '.join(written(each, depth + 1) for each in what[:200])}]"
        if isinstance(what, dict):
            return f"{{{', '.join(f'{json.dumps(k)} = {written(v, depth + 1)}' for k, v in what.items())}}}"
        return json.dumps("" if what is None else str(what))

    lines = []
    for _ in range(random.randrange(1, 5)):
        name = (
            random.choice(options)
            if random.random() < 0.9
            else random.choice(("x", '""', "a.b", "mode.x", "[mode]", "[[mode]]"))
        )
        likely = random.choice(
            ("default", "full", "tally", "1s", "10M", "0", "occa,mpi", "a|b", "(", "5:1", "all", "1e9", "-3", "100")
        )
        lines.append(f"{name} = {written(likely if random.random() < 0.5 else value(random))}")
    text = "\n".join(lines)
    if random.random() < 0.15:
        text += random.choice(("\n[", "\nx = " + "[" * 3000, "\n= 1", "\nx = '''", "\n\x00", "\nmode = 1\nmode = 2"))
    data = text.encode("utf-8", "surrogatepass")
    return any_bytes(data, random) if random.random() < 0.1 else data


# ---- CTF ----

_PACKET = struct.Struct("<IIIBBBBB")  # of the metadata, after magic and uuid


def plain_metadata(data: bytes) -> str:
    """The text of metadata that LTTng's consumer has written in packets, or that is plain."""
    if data[:4] != b"\x57\x1d\xd1\x75":
        return data.decode("utf-8", "replace")
    text, at = bytearray(), 0
    while at + 37 <= len(data):
        _, content, size, *_ = _PACKET.unpack_from(data, at + 20)
        text += data[at + 37 : at + content // 8]
        at += max(size // 8, 37)
    return text.decode("utf-8", "replace")


WORDS = (
    "integer",
    "enum",
    "string",
    "struct",
    "variant",
    "floating_point",
    "uint8_t",
    "uint64_t",
    "typealias",
    "event",
    "stream",
    "trace",
    "clock",
    "env",
    "fields",
    "context",
    ":=",
    "=",
    "{",
    "}",
    ";",
    "[",
    "]",
    "<",
    ">",
    "...",
    ",",
    '"',
    "/*",
    "//",
    "signed",
    "true",
    "be",
    "0x",
    "align(8)",
)
_DEEP = 3000


def metadata(text: str, random: Random) -> bytes:
    """Types, sizes, numbers and blocks of a TSDL text changed."""
    for _ in range(random.choice((1, 1, 2, 3))):
        how = random.randrange(12)
        numbers = list(re.finditer(r"(?<![\w.])\d+(?![\w.])", text))
        if how <= 3 and numbers:
            found = random.choice(numbers)
            text = text[: found.start()] + str(random.choice((*NUMBERS, 3, 64, 128))) + text[found.end() :]
        elif how == 4:
            tokens = list(re.finditer(r"[A-Za-z_]\w*|[{}\[\];<>=]", text))
            if tokens:
                found = random.choice(tokens)
                other = random.choice((*WORDS, random.choice(tokens)[0], ""))
                text = text[: found.start()] + other + text[found.end() :]
        elif how == 5:
            blocks = list(
                re.finditer(
                    r"^(?:event|stream|typealias|enum|struct|clock|env)\b.*?;\s*$", text, re.MULTILINE | re.DOTALL
                )
            )
            if blocks:
                found = random.choice(blocks)
                text = text[: found.start()] + random.choice(("", found[0] * 2)) + text[found.end() :]
        elif how == 6:
            brackets = list(re.finditer(r"\[[^\]]*\]", text))
            if brackets:
                found = random.choice(brackets)
                inside = random.choice(
                    ("4294967295", "0", "-1", "18446744073709551615", "x", "1000000", "", "_length", "a.b.c")
                )
                text = text[: found.start()] + f"[{inside}]" + text[found.end() :]
        elif how == 7:
            at = random.randrange(len(text) + 1)
            text = text[:at] + random.choice(
                (
                    "struct { " * _DEEP,
                    "{" * _DEEP,
                    "typealias integer { size = 8; } := x; typealias x := integer;",
                    "typealias a := b; typealias b := a;",
                    "struct loop { struct loop l; };",
                    "enum { a = 5 ... 1, b = a }",
                    "variant <nothing> { uint8_t a; }",
                    "\0",
                    "é",
                    "/*",
                    '"',
                    "integer { size = 0; }",
                    "integer { size = 64; align = 3; }",
                    "integer { size = 64; align = 4611686018427387904; }",
                    "string { encoding = UTF8; } s[1000000][1000000];",
                )
            )
        elif how == 8:
            text = text[: random.randrange(len(text) + 1)]
        elif how == 9:
            ids = list(re.finditer(r"\bid = (\d+)", text))
            if ids:
                found = random.choice(ids)
                text = (
                    text[: found.start(1)]
                    + random.choice((random.choice(ids)[1], "4294967296", "0"))
                    + text[found.end(1) :]
                )
        elif how == 10:
            names = list(re.finditer(r'name = "([^"]*)"', text))
            if names:
                found = random.choice(names)
                name = random.choice(
                    (random.choice(names)[1], "", "x" * 70_000, "\\", "a\\nb", "\x1b[2J", "occatrace_process:start")
                )
                text = text[: found.start(1)] + name + text[found.end(1) :]
        else:
            keys = list(
                re.finditer(
                    r"\b(align|size|signed|byte_order|base|encoding|map|freq|offset|major)\s*=\s*([^;]+);", text
                )
            )
            if keys:
                found = random.choice(keys)
                other = random.choice(
                    (*map(str, NUMBERS), "be", "le", "true", "UTF8", "hexadecimal", "clock.nothing.value", '"x"', "")
                )
                text = text[: found.start(2)] + other + text[found.end(2) :]
    return text.encode("utf-8", "replace")


def metadata2(text: str, random: Random) -> bytes:
    """The same of CTF 2, whose metadata is a sequence of JSON texts, each after a record separator."""
    if random.random() < 0.2:
        return any_bytes(text.encode(), random)
    records = [record for record in text.split("\x1e") if record.strip()]
    for _ in range(random.choice((1, 1, 2))):
        at = random.randrange(len(records))
        if not records[at]:
            continue
        records[at] = json.dumps(tree(json.loads(records[at]), random)) if random.random() < 0.9 else ""
    return "".join(f"\x1e{record}\n" for record in records if record).encode("utf-8", "surrogatepass")


# Of a packet of LTTng-UST: magic, uuid, stream_id, stream_instance_id, timestamp_begin, timestamp_end, content_size, packet_size,
# packet_seq_num, events_discarded, cpu_id.
_FIELDS = (
    (0, 4),
    (4, 8),
    (20, 4),
    (24, 8),
    (32, 8),
    (40, 8),
    (48, 8),
    (56, 8),
    (64, 8),
    (72, 8),
    (80, 4),
    (84, 2),
    (84, 4),
    (88, 8),
)
_SIZES = (48, 56)


def packets(data: bytes) -> list[bytes]:
    """The packets of a stream."""
    found, at = [], 0
    while at + 64 <= len(data):
        size = int.from_bytes(data[at + 56 : at + 64], "little") // 8
        if not 64 <= size <= len(data) - at:
            break
        found.append(data[at : at + size])
        at += size
    return found + ([data[at:]] if at < len(data) else [])


def stream(data: bytes, random: Random) -> bytes:
    """Packets with changed headers, sizes that do not fit, in another order, cut, with noise."""
    parts = packets(data)
    for _ in range(random.choice((1, 1, 2, 4))):
        if not parts:
            break
        at = random.randrange(len(parts))
        packet = bytearray(parts[at])
        how = random.randrange(8)
        if how <= 2:
            place, size = random.choice(_FIELDS)
            number = random.choice((*NUMBERS, len(packet) * 8 + 8, len(packet) * 8 - 8, 8, 64, 83 * 8))
            packet[place : place + size] = (number & (2 ** (8 * size) - 1)).to_bytes(size, "little")
        elif how == 3:
            place = random.choice(_SIZES)
            number = int.from_bytes(packet[place : place + 8], "little") + random.choice(
                (-8, 8, -1, 1, 8 * 4096, -8 * 4096)
            )
            packet[place : place + 8] = (number & (2**64 - 1)).to_bytes(8, "little")
        elif how == 4:
            content = int.from_bytes(packet[48:56], "little") // 8
            for _ in range(random.choice((1, 5, 50))):
                if 84 < content <= len(packet):
                    packet[random.randrange(84, content)] = random.choice((0, 0xFF, 0x1F, random.randrange(256)))
        elif how == 5:
            parts = random.choice((parts[::-1], parts + parts, parts[:at] + parts[at + 1 :], parts[at:] + parts[:at]))
            continue
        elif how == 6:
            packet = bytearray(any_bytes(bytes(packet), random))
        else:
            packet = packet[: random.choice((0, 1, 20, 63, 64, 84, 85, len(packet) - 1))]
        parts[at] = bytes(packet)
    return b"".join(parts)


def index(data: bytes, random: Random) -> bytes:
    """An index of LTTng: a head of 16 bytes, and entries of numbers of 8 bytes, big-endian."""
    changed = bytearray(data)
    if len(changed) < 24 or random.random() < 0.3:
        return any_bytes(data, random)
    for _ in range(random.choice((1, 2, 5))):
        if random.random() < 0.3:
            at, size = 4 * random.randrange(4), 4
        else:
            at, size = 16 + 8 * random.randrange((len(changed) - 16) // 8), 8
        changed[at : at + size] = (random.choice(NUMBERS) & (2 ** (8 * size) - 1)).to_bytes(size, "big")
    return bytes(changed)
