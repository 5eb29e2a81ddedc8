"""The build id of a program or library: what tells whether a file is the one that has run."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

_PROGRAM_HEADER, _NOTE, _GNU_BUILD_ID = 56, 4, 3
_MOST = 1 << 20  # bytes of notes that are looked at


def build_id(path: Path) -> str | None:
    """In hexadecimal digits; "" where the file has none, None where it cannot be read as a 64-bit ELF file."""
    try:
        with path.open("rb") as file:
            head = file.read(64)
            if len(head) < 64 or head[:5] != b"\x7fELF\x02":
                return None
            order = "<" if head[5] == 1 else ">"
            (place,) = struct.unpack_from(order + "Q", head, 32)
            size, count = struct.unpack_from(order + "HH", head, 54)
            if size != _PROGRAM_HEADER:
                return None
            file.seek(place)
            headers = file.read(size * count)
            for at in range(0, len(headers) - size + 1, size):
                kind, _, offset, _, _, length = struct.unpack_from(order + "IIQQQQ", headers, at)
                if kind == _NOTE and (found := _in_notes(file, offset, min(length, _MOST), order)):
                    return found
    except (OSError, struct.error):
        return None
    return ""


def _in_notes(file: BinaryIO, offset: int, length: int, order: str) -> str:
    file.seek(offset)
    notes = file.read(length)
    at = 0
    while at + 12 <= len(notes):
        name, text, kind = struct.unpack_from(order + "III", notes, at)
        begin = at + 12 + (name + 3 & ~3)
        if kind == _GNU_BUILD_ID and notes[at + 12 : at + 12 + name] == b"GNU\0":
            return notes[begin : begin + text].hex()
        at = begin + (text + 3 & ~3)
    return ""
