"""Programs and libraries as files: the build id, which tells whether a file is the one that has run, where its functions are, and
where its debug information is."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

_PROGRAM_HEADER, _NOTE, _GNU_BUILD_ID = 56, 4, 3
_MOST = 1 << 20  # bytes of notes that are looked at
_SECTION_HEADER, _SYMTAB, _DYNSYM, _FUNC, _GNU_IFUNC = 64, 2, 11, 2, 10
_MOST_SYMBOLS = 1 << 23  # of a table
_MOST_TEXTS = 1 << 28  # bytes of their names
_MOST_LINK = 4096  # bytes of a section that names a file
_DEBUG_FOLDER = Path("/usr/lib/debug")


def build_id(path: Path) -> str | None:
    """In hexadecimal digits; "" where the file has none, None where it cannot be read as a 64-bit ELF file."""
    try:
        with path.open("rb") as file:
            headers = _headers(file, 32, 54, _PROGRAM_HEADER)
            if headers is None:
                return None
            for kind, _, offset, _, _, length in headers.rows:
                if kind == _NOTE and (found := _in_notes(file, offset, min(length, _MOST), headers.order)):
                    return found
    except (OSError, struct.error):
        return None
    return ""


class _Headers(NamedTuple):
    order: str  # of bytes, as struct writes it
    entries: int  # how many there are to be; a file that is cut short has fewer
    rows: Sequence[tuple[int, ...]]  # the first 40 bytes of each: two 32-bit numbers and four of 64 bits


def _headers(file: BinaryIO, place_at: int, size_at: int, size: int) -> _Headers | None:
    """The table of headers that a file's head leads to; None: it is no 64-bit ELF file, or its entries have another size."""
    head = file.read(64)
    if len(head) < 64 or head[:5] != b"\x7fELF\x02":
        return None
    order = "<" if head[5] == 1 else ">"
    (place,) = struct.unpack_from(order + "Q", head, place_at)
    own, count = struct.unpack_from(order + "HH", head, size_at)
    if own != size:
        return None
    file.seek(place)
    table = file.read(size * count)
    rows = [struct.unpack_from(order + "IIQQQQ", table, at) for at in range(0, len(table) - size + 1, size)]
    return _Headers(order, count, rows)


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


def has_debug_information(path: Path) -> bool:
    """Whether it is in the file, or in a file of its own where debuggers look for it: by its name, or by the build id."""
    if not _sections(path).keys().isdisjoint((".debug_info", ".zdebug_info")):
        return True
    number = build_id(path) or ""
    beside = [_DEBUG_FOLDER / ".build-id" / number[:2] / f"{number[2:]}.debug"] if number else []
    if link := debug_link(path):
        folder = path.resolve().parent
        beside += [folder / link, folder / ".debug" / link, _DEBUG_FOLDER / folder.relative_to("/") / link]
    return any(file.is_file() for file in beside)


def has_more_lines_than_information(path: Path) -> bool:
    """So it is where most of the information is elsewhere, in files of split debug information."""
    sections = _sections(path)
    return 0 < sections.get(".debug_info", (0, 0))[1] < sections.get(".debug_line", (0, 0))[1]


def debug_link(path: Path) -> str:
    """The name of the file with the debug information, as the file itself has it; empty: it has none."""
    offset, length = _sections(path).get(".gnu_debuglink", (0, 0))
    if not length:
        return ""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            content = file.read(min(length, _MOST_LINK)).partition(b"\0")[0]
    except (OSError, OverflowError):
        return ""
    return content.decode("utf-8", "backslashreplace").rpartition("/")[2]


def _sections(path: Path) -> dict[str, tuple[int, int]]:
    """Where in the file its sections are, and their lengths, by name; none where it cannot be read as a 64-bit ELF file."""
    try:
        with path.open("rb") as file:
            headers = _headers(file, 40, 58, _SECTION_HEADER)
            if headers is None:
                return {}
            file.seek(62)
            (texts,) = struct.unpack(headers.order + "H", file.read(2))
            _, _, _, _, offset, length = headers.rows[texts]
            file.seek(offset)
            table = file.read(min(length, _MOST))
    except (IndexError, OSError, OverflowError, struct.error):
        return {}
    names = (table[row[0] : table.find(b"\0", row[0])].decode("ascii", "replace") for row in headers.rows)
    return {name: (row[4], row[5]) for name, row in zip(names, headers.rows, strict=True)}


class Functions:
    """Where the functions of a file are, by its symbols: those of `.symtab`, or else the exported ones (`is_whole` is false)."""

    def __init__(self, starts: npt.NDArray[np.uint64], sizes: npt.NDArray[np.uint64], is_whole: bool) -> None:
        order = np.lexsort((sizes, starts))
        self._starts, sizes = starts[order], sizes[order]
        # One without a size, as of assembly, goes on to the next.
        after = np.searchsorted(self._starts, self._starts, "right")
        following = np.r_[self._starts, np.iinfo(np.uint64).max].astype(np.uint64)[after]
        self._ends = (
            np.maximum.accumulate(np.where(sizes > 0, self._starts + sizes, following)) if len(sizes) else sizes
        )
        self.is_whole = is_whole

    def cover(self, offsets: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Which addresses are in one of them."""
        at = np.searchsorted(self._starts, offsets, "right").astype(np.int64) - 1
        if not len(self._starts):
            return np.zeros(len(offsets), bool)
        found: npt.NDArray[np.bool_] = (at >= 0) & (offsets < self._ends[np.maximum(at, 0)])
        return found


def kernels(path: Path) -> set[str]:
    """The kernels for which nvcc or hipcc has made a function that launches them (`_Z27__device_stub__Z5scalePfPf` for
    `_Z5scalePf`), by the symbols of the file; mangled as C++ functions, those in C, too."""
    try:
        at, length = _sections(path).get(".strtab", (0, 0))
        with path.open("rb") as file:
            file.seek(at)
            texts = file.read(min(length, _MOST_TEXTS))
    except (OSError, OverflowError):
        return set()
    found = set()
    # From its text on, so that all the names of a large program are gone through fast. The number before it is its length.
    for stub in re.finditer(rb"__device_stub_(\w+)", texts):
        number = re.search(rb"\d+$", texts[max(stub.start() - 8, 0) : stub.start()])
        if number and (name := stub[1][: max(int(number[0]) - len("__device_stub_"), 0)]):
            found.add(name.decode("ascii"))
    return found


def functions(path: Path) -> Functions | None:
    """Where the functions of a file are; None where it cannot be read as a 64-bit ELF file with section headers."""
    try:
        with path.open("rb") as file:
            headers = _headers(file, 40, 58, _SECTION_HEADER)
            if headers is None or not headers.entries:
                return None
            tables = {kind: (offset, length) for _, kind, _, _, offset, length in headers.rows}
            whole = _SYMTAB in tables
            offset, length = tables.get(_SYMTAB, tables.get(_DYNSYM, (0, 0)))
            file.seek(offset)
            kinds = [
                ("name", "u4"),
                ("info", "u1"),
                ("other", "u1"),
                ("section", "u2"),
                ("value", "u8"),
                ("size", "u8"),
            ]
            symbol = np.dtype([(name, headers.order + kind) for name, kind in kinds])
            content = file.read(min(length // symbol.itemsize, _MOST_SYMBOLS) * symbol.itemsize)
            symbols = np.frombuffer(content[: len(content) // symbol.itemsize * symbol.itemsize], symbol)
    except (OSError, OverflowError, struct.error):
        return None
    is_function = np.isin(symbols["info"] & 15, (_FUNC, _GNU_IFUNC)) & (symbols["section"] != 0)
    there = symbols[is_function]
    return Functions(there["value"].astype(np.uint64), there["size"].astype(np.uint64), whole)
