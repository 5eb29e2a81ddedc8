"""Places in the code: `file+0xoffset`, as the traced side records them, to function and source line by the debug information.

The work is addr2line's (of binutils, LLVM or elfutils, whichever is there), once per file for all its places.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tempfile
import threading
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from occatrace.core import naming
from occatrace.ingest.debuginfod import Servers
from occatrace.ingest.elf import (
    build_id,
    debug_link,
    functions,
    has_debug_information,
    has_more_lines_than_information,
)
from occatrace.ingest.reading import occurring

_BINUTILS, _LLVM, _ELFUTILS = "addr2line", "llvm-addr2line", "eu-addr2line"
_LLVM_VERSIONS = range(40, 12, -1)  # in names of tools that several versions bring, the newest first
# elfutils' tool adds the column to a line, and to the name of an inlined function where that was inlined.
_COLUMN = re.compile(r"(:\d+):\d+$")
_INLINED = re.compile(r" inlined at .* in .*$")
_STARTUP = ("_start",)  # of the C library's startup files, which have no lines
_SITE = re.compile(r"^(?P<module>/.+)\+0x(?P<offset>[0-9a-f]+)$", re.DOTALL)
# What compilers append to the name of the function that a region was taken out of.
_OUTLINED = re.compile(
    r"( \[clone )?\.?_omp_(cpy)?fn\.\d+\]?|( \[clone )?\.omp_(outlined|task_entry|outlined_debug__).*|\.omp_outlined.*"
)
_OFFLOADED = re.compile(r"^__omp_offloading_[0-9a-f]+_[0-9a-f]+_(?P<function>.+)_l\d+(_.*)?$")
_LINE = re.compile(r"^(?P<file>.+):(?P<line>\d+)( \(discriminator \d+\))?$")
# The runtimes themselves: without their local symbols any name found would be that of a neighbour.
_RUNTIME = re.compile(r"/lib(i?omp|omptarget|gomp)[^/]*$")
_NEAR = sorted(
    (*range(-400, 0, 4), *range(4, 101, 4)), key=abs
)  # bytes from a place to which the compiler gave no line
_ADDRESS = re.compile(r"0x[0-9a-f]+")
_Numbers = Sequence[int] | npt.NDArray[Any]
_SECONDS = 60  # for one file: debug information of gigabytes takes a while


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the code."""

    module: str
    offset: int
    function: str = ""  # empty: not known
    file: str = ""
    line: int = 0


def parse(text: str) -> Site | None:
    """The place that a name stands for; None: it is another name."""
    match = _SITE.match(text)
    return Site(match["module"], int(match["offset"], 16)) if match else None


def function_name(text: str) -> str:
    """The function as its author named it."""
    offloaded = _OFFLOADED.match(text)
    name = _OUTLINED.sub("", offloaded["function"] if offloaded else text)
    return "" if name.startswith("??") else name


def tools() -> list[str]:
    """The programs here that know debug information, in the order in which they are asked."""
    return list(filter(None, (shutil.which(_BINUTILS), _llvm(os.environ.get("PATH", "")), shutil.which(_ELFUTILS))))


@cache
def _llvm(path: str) -> str | None:
    """LLVM's tool: the newest, because an older one does not read all that a newer compiler writes."""
    versions = (f"{_LLVM}-{version}" for version in _LLVM_VERSIONS)
    return next(filter(None, (shutil.which(name, path=path) for name in (*versions, _LLVM))), None)


def tool() -> str | None:
    """The first of them; None: there is none here."""
    return next(iter(tools()), None)


def resolve(sites: Iterable[Site]) -> dict[Site, Site]:
    """Each with what the debug information of its file says; as it was where there is none."""
    by_module: dict[str, set[int]] = {}
    for site in sites:
        by_module.setdefault(site.module, set()).add(site.offset)
    found: dict[Site, Site] = {}
    program = tool()
    for module, offsets in by_module.items():
        known: dict[int, Site] = {}
        if program and Path(module).is_file() and not _RUNTIME.search(module):
            known = _ask(program, module, sorted(offsets))
            _look_around(program, module, known)
            lacking = [site.offset for site in known.values() if not site.line]
            if lacking and has_debug_information(Path(module)):
                for other in tools()[1:]:
                    known.update({o: site for o, site in _ask(other, module, lacking).items() if site.line})
            known = _without_nearest(module, known)
        for offset in offsets:
            found[Site(module, offset)] = known.get(offset, Site(module, offset))
    return found


@dataclass(frozen=True)
class Module:
    """A program or library that has run."""

    path: str
    build_id: str  # empty: it has none
    since_ns: int  # wall-clock time at which it was in use


def why_not(module: Module) -> str:
    """Why the debug information of its file is of no use; empty: it is."""
    path = Path(module.path)
    try:
        status = path.stat()
    except OSError:
        return f"{module.path} is not there (any more)"
    # The path comes with the run, which may be a stranger's: a pipe would never be read to its end.
    known = build_id(path) if stat.S_ISREG(status.st_mode) else None
    if known is None:
        return f"{module.path} is no program that can be read here"
    # Without a build id a file that is younger than the run counts as another one.
    if known != module.build_id if module.build_id else known or status.st_mtime_ns > module.since_ns:
        return f"{module.path} is not the file that was run: it was built again since"
    return "" if tool() else "addr2line (binutils) is missing"


def why_no_line(module: Module, servers: Servers) -> str:
    """Why an address in its file, which can be read, has no line."""
    if why := servers.why_not():
        return why
    path = Path(module.path)
    if has_debug_information(path):
        return "its debug information has no line there, or one that addr2line cannot read"
    if naming.is_of_python(path.name):
        return "called from Python: record with --python lines"
    link = debug_link(path)
    return f"its debug information, {link}, is not there" if link else "no debug information (compile with -g)"


class Lines:
    """What debug information says of addresses in a file: the function and line of each, and those into which it was inlined.

    In arrays, as there may be a million of addresses: `offsets` in ascending order; the frames of the i-th one are those from
    `starts[i]` to before `starts[i + 1]`, the innermost first. `functions` and `files` are numbers in `texts`; "" is the first text.
    """

    def __init__(
        self, texts: Sequence[str] = ("",), offsets: _Numbers = (), starts: _Numbers = (0,),
        functions: _Numbers = (), files: _Numbers = (), lines: _Numbers = (),
    ) -> None:  # fmt: skip
        self.texts = texts
        self.offsets = np.asarray(offsets, np.uint64)
        self.starts = np.asarray(starts, np.int64)
        self.functions, self.files, self.lines = (np.asarray(column, np.uint32) for column in (functions, files, lines))

    def find(self, offsets: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """The places of these in `offsets`; -1: nothing is known of them."""
        at = np.searchsorted(self.offsets, offsets)
        if not len(self.offsets):
            return np.full(len(offsets), -1)
        return np.where(self.offsets[np.minimum(at, len(self.offsets) - 1)] == offsets, at, -1)

    def callers(self, headers: re.Pattern[str], passing: Collection[str] = ()) -> npt.NDArray[np.int64]:
        """Of each address the frame that stands for it: of inlined code the innermost function that is outside of these headers and
        none of those that only pass a call on."""
        if not len(self.offsets):
            return self.starts[:0]
        outside = np.array([bool(text) and not headers.search(text) for text in self.texts])[self.files]
        outside &= ~np.array([text in passing for text in self.texts])[self.functions]
        first = self.starts[:-1]
        found = np.minimum.reduceat(np.where(outside, np.arange(len(self.files)), len(self.files)), first)
        return np.where(found < self.starts[1:], found, first)

    def chain(self, module: str, offset: int) -> list[Site]:
        """The frames of one address in the file `module`."""
        (at,) = self.find(np.array([offset], np.uint64)).tolist()
        frames = range(int(self.starts[at]), int(self.starts[at + 1])) if at >= 0 else ()
        return [
            Site(module, offset, self.texts[self.functions[i]], self.texts[self.files[i]], int(self.lines[i]))
            for i in frames
        ]

    def inlined(self) -> npt.NDArray[np.bool_]:
        """Which addresses have more than one frame, or a file of link-time optimization's making."""
        artificial = np.array([text.endswith("<artificial>") for text in self.texts])[self.files]
        found: npt.NDArray[np.bool_] = (np.diff(self.starts) > 1) | artificial[self.starts[:-1]]
        return found

    def has_files(self) -> npt.NDArray[np.bool_]:
        """Which addresses have a source file, by their outermost frame."""
        found: npt.NDArray[np.bool_] = self.files[self.starts[1:] - 1] > 0
        return found

    def of(self, wanted: npt.NDArray[np.bool_]) -> Lines:
        """Only these addresses."""
        counts = np.diff(self.starts)
        frames = np.repeat(wanted, counts)
        starts = np.concatenate(([0], np.cumsum(counts[wanted])))
        return Lines(
            self.texts, self.offsets[wanted], starts, self.functions[frames], self.files[frames], self.lines[frames]
        )

    def known(self) -> Lines:
        """Only addresses of which something is known."""
        first = self.starts[:-1]
        return self.of((self.functions[first] > 0) | (self.files[first] > 0))

    def replaced_by(self, better: Lines) -> Lines:
        """These, and instead of them those of the same address that are better."""
        if not len(better.offsets):
            return self
        kept = self.of(better.find(self.offsets) < 0)
        texts = [*kept.texts, *better.texts[1:]]

        def numbers(column: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
            return np.where(column > 0, column + np.uint32(len(kept.texts) - 1), column)

        offsets = np.concatenate((kept.offsets, better.offsets))
        order = np.argsort(offsets, kind="stable")
        counts = np.concatenate((np.diff(kept.starts), np.diff(better.starts)))
        firsts = np.concatenate((kept.starts[:-1], better.starts[:-1] + len(kept.lines)))[order]
        counts = counts[order]
        starts = np.concatenate(([0], np.cumsum(counts)))
        frames = np.repeat(firsts - starts[:-1], counts) + np.arange(starts[-1])
        columns = (
            np.concatenate(pair)[frames]
            for pair in (
                (kept.functions, numbers(better.functions)),
                (kept.files, numbers(better.files)),
                (kept.lines, better.lines),
            )
        )
        return Lines(texts, offsets[order], starts, *columns)


def look_up(module: Module, offsets: Iterable[int], servers: Servers) -> tuple[Lines, str]:
    """What debug information says of addresses in the file (ascending, each once), of that file or else of debuginfod's servers,
    and why there is none."""
    why = why_not(module)
    found = Lines() if why else lines_of(module.path, offsets)
    if not tool() or found.has_files().any():
        return found, why
    if debug := servers.find(module.build_id):
        better = lines_of(str(debug), offsets)
        better = better.of(better.has_files())
        return found.replaced_by(better), "" if len(better.offsets) else why
    return found, why


def lines_of(module: str, offsets: Iterable[int]) -> Lines:
    """What the debug information says of addresses in the file (ascending, each once). Those of which it says nothing are left out."""
    asked = np.asarray(offsets if isinstance(offsets, memoryview) else list(offsets), np.uint64)
    found = _lines(str(tool()), module, memoryview(asked.data))
    # Of inlined functions binutils often names the one around them, no file after link-time optimization, and only the function
    # around them of split debug information; LLVM takes longer to start.
    inlined = found.offsets if has_more_lines_than_information(Path(module)) else found.offsets[found.inlined()]
    if len(inlined) and (better := _llvm(os.environ.get("PATH", ""))):
        found = found.replaced_by(_with_files(better, module, inlined))
    found = _by_other_tools(module, asked, found)
    return _shortened(_within_functions(module, found.known()))


def _by_other_tools(module: str, asked: npt.NDArray[np.uint64], found: Lines) -> Lines:
    """With what other tools say of addresses without a file: each reads some debug information that the others do not. Binutils
    2.40 does not read gcc's split DWARF 5 and dwz's supplementary files of DWARF 5, LLVM 14 not zstd."""
    for number, other in enumerate(tools()[1:]):
        has_files = found.has_files()
        if len(has_files) == len(asked) and has_files.all():
            break
        startup = np.array([text in _STARTUP for text in found.texts])[found.functions[found.starts[:-1]]]
        lacking = np.setdiff1d(asked, found.offsets[has_files | startup], assume_unique=True)
        if not len(lacking) or (number == 0 and not has_debug_information(Path(module))):
            break
        found = found.replaced_by(_with_files(other, module, lacking))
    return found


def _with_files(program: str, module: str, offsets: npt.NDArray[np.uint64]) -> Lines:
    """What a tool says of addresses; those of which it knows no file are left out."""
    found = _lines(program, module, offsets.tolist())
    return found.of(found.has_files())


def _shortened(found: Lines) -> Lines:
    """With functions as stacks show them."""
    texts = list(found.texts)
    numbers = np.arange(len(texts), dtype=np.uint32)
    for at in occurring(found.functions, len(texts)).tolist():
        if (shown := naming.function(texts[at])) != texts[at]:
            numbers[at] = len(texts)
            texts.append(shown)
    return Lines(texts, found.offsets, found.starts, numbers[found.functions], found.files, found.lines)


def _within_functions(module: str, found: Lines) -> Lines:
    """Without those whose function is only the nearest one before: tools name that for all that follows it, also for functions of
    which a stripped file has no symbol."""
    last = found.starts[1:] - 1
    by_symbol = (np.diff(found.starts) == 1) & (found.files[last] == 0)
    if not by_symbol.any():
        return found
    return found.of(~by_symbol | _in_functions(module, found.offsets, bool(found.has_files().any())))


def _without_nearest(module: str, known: dict[int, Site]) -> dict[int, Site]:
    """The same of sites, of which each is one frame."""
    named = [offset for offset, site in known.items() if site.function and not site.file]
    if not named:
        return known
    inside = _in_functions(module, np.array(named, np.uint64), any(site.file for site in known.values()))
    outside = {offset for offset, within in zip(named, inside.tolist(), strict=True) if not within}
    return {offset: site for offset, site in known.items() if offset not in outside}


def _in_functions(module: str, offsets: npt.NDArray[np.uint64], files: bool) -> npt.NDArray[np.bool_]:
    """Which addresses are in a function of the file, as far as its symbols tell. `files`: files of others in it are known."""
    there = functions(Path(module))
    # With files, but without a symbol table: debug information is in a file of its own, and so are the symbols.
    if there is None or (not there.is_whole and files):
        return np.ones(len(offsets), bool)
    return there.cover(offsets)


def _lines(program: str, module: str, offsets: Iterable[int]) -> Lines:
    """Of each address (ascending, each once) what a tool says; nothing at all if it does not answer for all of them."""
    texts, numbers = [""], {"": 0}

    def number(text: str) -> int:
        if text not in numbers:
            numbers[text] = len(texts)
            texts.append(text)
        return numbers[text]

    at, starts = array("Q"), array("Q")
    functions, files, lines = array("I"), array("I"), array("I")
    places: dict[str, int] = {}
    asked = iter(offsets)
    function = -1
    for text in _answers([program, "-a", "-i", "-f", "-C", "-e", module], offsets):
        if function >= 0:
            # A million of addresses have few files: only the number behind the last colon differs.
            place, _, digits = text.rpartition(":")
            file = places.get(place, 0) if digits.isdecimal() else 0
            line = int(digits) if file else 0
            if not line:
                path, line = _file_and_line(text)
                file = number(path)
                if path:
                    places[place] = file
            functions.append(function)
            files.append(file)
            lines.append(line)
            function = -1
        elif text[:2] == "0x" and _ADDRESS.fullmatch(text):
            offset = next(asked, -1)
            if offset < 0:
                return Lines()
            at.append(offset)
            starts.append(len(lines))
        else:
            function = numbers.get(text, -1)
            if function < 0:
                function = numbers[text] = number(function_name(text))
    starts.append(len(lines))
    if next(asked, None) is not None or function >= 0:
        return Lines()
    found = Lines(texts, at, starts, functions, files, lines)
    return found.of(np.diff(found.starts) > 0)


def outside(sites: Iterable[Site], headers: re.Pattern[str]) -> dict[Site, Site]:
    """Each as it is, or where it lies in one of these headers, the innermost place into which that was inlined."""
    found = {site: site for site in sites}
    program = tool()
    by_module: dict[str, list[Site]] = {}
    for site in found:
        if program and headers.search(site.file):
            by_module.setdefault(site.module, []).append(site)
    for module, inlined in by_module.items():
        lines = _lines(str(program), module, sorted({site.offset for site in inlined}))
        for site in inlined:
            found[site] = _innermost(lines.chain(module, site.offset), headers) or site
    return found


def _innermost(chain: Iterable[Site], headers: re.Pattern[str]) -> Site | None:
    """The first that is outside of these headers."""
    return next((site for site in chain if site.file and not headers.search(site.file)), None)


def _look_around(program: str, module: str, known: dict[int, Site]) -> None:
    """What compilers add of their own has line 0: the nearest line in the same function stands for it."""
    without = [site for site in known.values() if site.function and not site.line]
    if not without:
        return
    near = _ask(program, module, sorted({max(site.offset + by, 0) for site in without for by in _NEAR}))
    for site in without:
        around = (near.get(site.offset + by) for by in _NEAR)
        found = next((b for b in around if b and b.line and b.function == site.function), None)
        if found:
            known[site.offset] = Site(module, site.offset, site.function, found.file, found.line)


def _answers(command: list[str], offsets: Iterable[int]) -> Iterator[str]:
    """What a tool writes, in the form of binutils."""
    lines = _run(command, offsets)
    if not Path(command[0]).name.startswith("eu-"):
        return lines
    return (_COLUMN.sub(r"\1", _INLINED.sub("", line)) for line in lines)


def _run(command: list[str], offsets: Iterable[int]) -> Iterator[str]:
    """The lines that a tool writes when it is asked for these addresses, while it writes them; fewer if it takes too long."""
    # What is on the network is asked for once for each file (debuginfod.py), not at each start of a tool.
    environment = os.environ | {"LC_ALL": "C", "DEBUGINFOD_URLS": ""}
    with tempfile.TemporaryFile("w+", encoding="ascii") as asked:
        asked.writelines(f"{offset:#x}\n" for offset in offsets)
        asked.seek(0)
        try:
            process = subprocess.Popen(
                command,
                stdin=asked,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                encoding="utf-8",
                errors="backslashreplace",
            )
        except OSError:
            return
    too_long = threading.Timer(_SECONDS, process.kill)
    too_long.start()
    with process:
        try:
            for line in process.stdout or ():
                yield line[:-1]
        finally:
            too_long.cancel()
            process.kill()


def _ask(program: str, module: str, offsets: list[int]) -> dict[int, Site]:
    lines = list(_answers([program, "-f", "-C", "-e", module], offsets))
    if len(lines) != 2 * len(offsets):
        return {}
    return {
        offset: _site(module, offset, function, place)
        for offset, function, place in zip(offsets, lines[::2], lines[1::2], strict=True)
    }


def _site(module: str, offset: int, function: str, place: str) -> Site:
    """What a tool says of an address in two lines."""
    return Site(module, offset, function_name(function), *_file_and_line(place))


def _file_and_line(place: str) -> tuple[str, int]:
    match = _LINE.match(place)
    known = match is not None and not place.startswith("??") and int(match["line"]) > 0
    return (os.path.normpath(match["file"]), int(match["line"])) if known and match else ("", 0)
