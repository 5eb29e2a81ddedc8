"""Places in the code: `file+0xoffset`, as the traced side records them, to function and source line by the debug information.

The work is addr2line's (of binutils, LLVM or elfutils, whichever is there), once per file for all its places.
"""

from __future__ import annotations

import gc
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from occatrace.ingest.debuginfod import Servers
from occatrace.ingest.elf import build_id

_TOOLS = ("addr2line", "llvm-addr2line", "eu-addr2line")
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


def tool() -> str | None:
    """The program that knows debug information; None: there is none here."""
    return next(filter(None, map(shutil.which, _TOOLS)), None)


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


def look_up(module: Module, offsets: Collection[int], servers: Servers) -> tuple[dict[int, list[Site]], str]:
    """What debug information says of addresses in the file, of that file or else of debuginfod's servers, and why there is none."""
    why = why_not(module)
    found = {} if why else chains(module.path, offsets)
    if not tool() or any(chain[-1].file for chain in found.values()):
        return found, why
    if debug := servers.find(module.build_id):
        better = {o: chain for o, chain in chains(str(debug), offsets).items() if chain[-1].file}
        return found | better, "" if better else why
    return found, why


def chains(module: str, offsets: Iterable[int]) -> dict[int, list[Site]]:
    """What the debug information says of addresses in the file: function and line, and those into which it was inlined, the
    innermost first. Addresses of which it says nothing are left out."""
    # A million of objects without cycles: looking for some takes a third of the time.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _known(module, sorted(set(offsets)))
    finally:
        if collecting:
            gc.enable()


def _known(module: str, offsets: list[int]) -> dict[int, list[Site]]:
    found = _chains(str(tool()), module, offsets)
    # Of inlined functions binutils often names the one around them, and no file after link-time optimization; LLVM takes longer
    # to start.
    inlined = [offset for offset, chain in found.items() if len(chain) > 1 or chain[0].file.endswith("<artificial>")]
    if inlined and (better := shutil.which("llvm-addr2line")):
        found |= _chains(better, module, inlined)
    return {offset: chain for offset, chain in found.items() if chain[0].function or chain[0].file}


def caller(chain: Sequence[Site], headers: re.Pattern[str]) -> Site:
    """Of inlined code the innermost function that is outside of these headers."""
    return _innermost(chain, headers) or chain[0]


def _chains(program: str, module: str, offsets: list[int]) -> dict[int, list[Site]]:
    """For each address (each once) the function that it is in and those into which that was inlined, the innermost first."""
    found: dict[int, list[Site]] = {}
    # A million of addresses have few functions and lines.
    name, where = cache(function_name), cache(_file_and_line)
    asked = iter(offsets)
    offset, function = -1, None
    for line in _run([program, "-a", "-i", "-f", "-C", "-e", module], offsets):
        if line[:2] == "0x" and _ADDRESS.fullmatch(line):
            offset, function = next(asked, -1), None
            if offset < 0:
                return {}
        elif function is None:
            function = line
        else:
            found.setdefault(offset, []).append(Site(module, offset, name(function), *where(line)))
            function = None
    return found if next(asked, None) is None else {}


def outside(sites: Iterable[Site], headers: re.Pattern[str]) -> dict[Site, Site]:
    """Each as it is, or where it lies in one of these headers, the innermost place into which that was inlined."""
    found = {site: site for site in sites}
    program = tool()
    by_module: dict[str, list[Site]] = {}
    for site in found:
        if program and headers.search(site.file):
            by_module.setdefault(site.module, []).append(site)
    for module, inlined in by_module.items():
        chains = _chains(str(program), module, sorted({site.offset for site in inlined}))
        for site in inlined:
            found[site] = _innermost(chains.get(site.offset, ()), headers) or site
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


def _run(command: list[str], offsets: Iterable[int]) -> list[str]:
    # What is on the network is asked for once for each file (debuginfod.py), not at each start of a tool.
    environment = os.environ | {"LC_ALL": "C", "DEBUGINFOD_URLS": ""}
    asked = "".join(f"{offset:#x}\n" for offset in offsets)
    try:
        done = subprocess.run(
            command,
            input=asked.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.decode("utf-8", "backslashreplace").splitlines()


def _ask(program: str, module: str, offsets: list[int]) -> dict[int, Site]:
    lines = _run([program, "-f", "-C", "-e", module], offsets)
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
