"""What the dynamic linker finds, without loading it."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

CACHE = Path("/etc/ld.so.cache")
FOLDERS: Sequence[str] = (
    f"/usr/lib/{os.uname().machine}-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
)  # where there is no cache
# glibc's sysdeps/generic/dl-cache.h: a header of 48 bytes, entries of 24, texts by their distance from the header. An older cache
# may come before it in the same file.
_MAGIC = b"glibc-ld.so.cache1.1"
_HEADER, _ENTRY = struct.Struct("<20sII20x"), struct.Struct("<iIIIQ")
# FLAG_ELF_LIBC6 with the kind of library of a processor.
_KINDS = {"x86_64": 0x0303, "aarch64": 0x0A03}


def find(soname: str, environment: Mapping[str, str]) -> Path | None:
    """The library that a program gets which asks for this soname; None where there is none."""
    path = environment.get("LD_LIBRARY_PATH", "")
    first = [os.path.join(folder or ".", soname) for folder in path.split(":")] if path else []
    last = [os.path.join(folder, soname) for folder in FOLDERS]
    for place in (*first, *known(CACHE).get(soname, ()), *last):
        if os.path.exists(place):  # of Path it would raise where a folder may not be entered
            return Path(place).resolve()
    return None


@cache
def known(path: Path = CACHE) -> Mapping[str, Sequence[str]]:
    """The libraries of this processor in the linker's cache: paths by name, the one that programs get first. Empty if there is
    no such cache, or one of a form that is not known."""
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
    found: dict[str, list[str]] = {}
    for flags, key, value, _, _ in _ENTRY.iter_unpack(data[first : first + count * _ENTRY.size]):
        if kind is None or flags == kind:
            found.setdefault(_text(data, begin + key), []).append(_text(data, begin + value))
    return found


def _text(data: bytes, at: int) -> str:
    """A text that ends with a zero byte."""
    end = data.find(b"\0", at)
    return os.fsdecode(data[at:end]) if end >= 0 else ""
