"""What the dynamic linker finds: the cache that ldconfig writes."""

from __future__ import annotations

import os
import struct
from functools import cache
from pathlib import Path

CACHE = Path("/etc/ld.so.cache")
# glibc's sysdeps/generic/dl-cache.h: a header of 48 bytes, entries of 24, texts by their distance from the header. An older cache
# may come before it in the same file.
_MAGIC = b"glibc-ld.so.cache1.1"
_HEADER, _ENTRY = struct.Struct("<20sII20x"), struct.Struct("<iIIIQ")
# FLAG_ELF_LIBC6 with the kind of library of a processor.
_KINDS = {"x86_64": 0x0303, "aarch64": 0x0A03}


@cache
def known(path: Path = CACHE) -> dict[str, str]:
    """The libraries of this processor in the linker's cache: path by name, of several the one that programs get. Empty if there
    is no such cache, or one of a form that is not known."""
    try:
        data = path.read_bytes()
    except OSError:
        return {}
    begin = data.find(_MAGIC)
    if begin < 0 or len(data) < begin + _HEADER.size:
        return {}
    _, count, _ = _HEADER.unpack_from(data, begin)
    first = begin + _HEADER.size
    if len(data) < first + count * _ENTRY.size:
        return {}
    kind = _KINDS.get(os.uname().machine)
    found: dict[str, str] = {}
    for flags, key, value, _, _ in _ENTRY.iter_unpack(data[first : first + count * _ENTRY.size]):
        if kind is None or flags == kind:
            found.setdefault(_text(data, begin + key), _text(data, begin + value))
    return found


def _text(data: bytes, at: int) -> str:
    """A text that ends with a zero byte."""
    end = data.find(b"\0", at)
    return os.fsdecode(data[at:end]) if end >= 0 else ""
