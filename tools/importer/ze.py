"""What the calls of Level Zero mean: core (ze), tools (zet), sysman (zes) and the runtime interface (zer)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from .clang import Declaration, Enumeration, Headers, ImportFailed, Parameter, merged, read
from .writer import Rules

_FILES = ("ze_api.h", "zet_api.h", "zes_api.h", "zer_api.h")
# Headers before version 1.14 of the specification have no zer_api.h.
TEXT = """\
#include <level_zero/ze_api.h>
#include <level_zero/zet_api.h>
#include <level_zero/zes_api.h>
#if __has_include(<level_zero/zer_api.h>)
#include <level_zero/zer_api.h>
#endif
"""

HEAD = """\
# Level Zero: what the calls of ze_api.h, zet_api.h, zes_api.h and zer_api.h mean, of versions 1.8 to 1.17 of the specification
# together. Written by tools/import_headers.py ze, which holds the rules; this file is what the generator reads. The names are
# facts of the headers; structures are declared by their size only.
#
# anchor     a symbol that only the loader has: our functions are found where it is loaded
# activity   the device work; its expressions are C++ over the arguments (tools/generator/model.py: Activity)
# failed     `except`: a code other than 0 that is an answer and no failure (ZE_RESULT_NOT_READY)
# array      the argument with the length of a list that the call is given
"""

# Recorded as events by default; everything else is counted.
_EVENTS = re.compile(
    r"ze(Init(Drivers)?$|Context(Create|Destroy|SystemBarrier|MakeMemory|MakeImage|Evict)|DeviceSynchronize"
    r"|CommandQueue(Create|Destroy|Execute|Synchronize)"
    r"|CommandList(Create|Destroy|Close|Reset|Append|HostSynchronize|ImmediateAppend|Update|Begin|End)"
    r"|EventPool(Create|Destroy|OpenIpc|CloseIpc)|Event(Create|CounterBased(Create|OpenIpc|CloseIpc)|Destroy)"
    r"|EventHost(Signal|Synchronize|Reset)|Fence(Create|Destroy|HostSynchronize|Reset)"
    r"|Mem(Alloc|Free|OpenIpc|CloseIpc)|VirtualMem(Reserve|Free|Map|Unmap)|PhysicalMem(Create|Destroy)"
    r"|Image(Create|Destroy|ViewCreate)|Sampler(Create|Destroy)|Module(Create|Destroy|DynamicLink)|Kernel(Create|Destroy)"
    r"|(Executable)?Graph(Create|Destroy|Instantiate)|DeviceImportExternal|DeviceReleaseExternal)"
    r"|zet(ContextActivate|MetricStreamer(Open|Close)|CommandListAppend)|zesDeviceReset"
)
_BLOCKING = re.compile(
    r"ze(CommandQueueSynchronize|(CommandList|Event|Fence)HostSynchronize|DeviceSynchronize|ModuleCreate)$"
)
# ZE_RESULT_NOT_READY: not yet, or a wait that took as long as it may.
_ASKS = re.compile(
    r"ze[ts]?\w*(QueryStatus|Synchronize|QueryKernelTimestamp|QueryTimestampsExp|ReadData|GetData|ReadEvent)$"
)
_NOT_READY = 1
_MOVES = re.compile(
    r"ze(MemAlloc|CommandListAppendMemory(Copy(WithParameters|FromContext)?|Fill|Prefetch)|VirtualMemReserve)"
)

# The arguments of address and size, and the kind of memory.
_ALLOCATES = {
    "zeMemAllocDevice": ("pptr", "size", "device"),
    "zeMemAllocHost": ("pptr", "size", "host"),
    "zeMemAllocShared": ("pptr", "size", "managed"),
    "zePhysicalMemCreate": ("phPhysicalMemory", "asked", "device"),
}
_FREES = {"zeMemFree": "ptr", "zeMemFreeExt": "ptr", "zePhysicalMemDestroy": "hPhysicalMemory"}
_SCOPE = '- {name: scope, type: uint32_t, value: "c.self->scope_seq", doc: "number of the OCCA call around it, 4294967295: none"}'
# Fields out of the structures that describe what is made.
_DESCRIBED = {
    "zePhysicalMemCreate": ['- {name: asked, type: size_t, value: "size_of(desc)", doc: "bytes that were asked for"}'],
    "zeKernelCreate": ['- {name: kernel, type: "const char *", string: true, value: "name_of(desc)", doc: "its name in the module"}'],
    "zeModuleCreate": [
        '- {name: size, type: size_t, value: "code_of(desc)", unit: bytes, doc: "size of the code that is built"}',
        '- {name: options, type: "const char *", string: true, value: "options_of(desc)", doc: "of the compiler"}',
        '- {name: log, type: "const char *", string: true, value: "nullptr", doc: "of the compiler, when the build failed"}',
    ],
}  # fmt: skip


@dataclass(frozen=True)
class _Said:
    """What a header says of a parameter: whether the call writes it, and the length of an array."""

    out: bool
    length: str | None


def _said(text: str) -> Mapping[tuple[str, str], _Said]:
    """By function and parameter: the marks that the headers have behind each."""
    found = {}
    for name, body in re.findall(r"\n(ze\w+)\(\n(.*?)\n    \);", text, re.DOTALL):
        for parameter, marks in re.findall(r"\b(\w+),?\s*///< ((?:\[[^\]]*\])+)", body):
            length = re.search(r"\[range\(0, *([^)]*)\)\]", marks)
            found[name, parameter] = _Said("out" in marks.split("]")[0], length[1] if length else None)
    return found


def _read_said(includes: Sequence[Path]) -> Mapping[tuple[str, str], _Said]:
    found: dict[tuple[str, str], _Said] = {}
    for include in reversed(includes):
        for file in _FILES:
            path = include / "level_zero" / file
            if path.exists():
                found |= _said(path.read_text(encoding="utf-8"))
    return found


def _plain(headers: Headers) -> Headers:
    """Enumerations by the names that programs use, without the value that only fixes their size."""

    def name_of(text: str) -> str:
        return re.sub(r"^(enum )?_(ze)", r"\1\2", text)

    enumerations = {
        name_of(name): Enumeration(name_of(name), tuple(v for v in e.values if not v[0].endswith("_FORCE_UINT32")))
        for name, e in headers.enumerations.items()
    }
    return Headers(
        headers.functions, enumerations, {k: name_of(v) if "enum" in v else v for k, v in headers.typedefs.items()}
    )


def _flags(headers: Headers) -> Iterator[tuple[str, str, str]]:
    """Function, argument and enumeration of each set of flags."""
    for f in headers.functions:
        for p in f.parameters:
            enum = p.spelled.removesuffix("s_t") + "_t"
            if p.spelled.endswith("_flags_t") and enum in headers.enumerations:
                yield f.name, p.name, enum


_LAUNCHES = {
    "LaunchKernel": "pLaunchFuncArgs",
    "LaunchCooperativeKernel": "pLaunchFuncArgs",
    "LaunchKernelWithParameters": "pGroupCounts",
    "LaunchKernelWithArguments": "groupCounts",
}


def _activity(f: Declaration) -> dict[str, object] | None:
    """The device work: expressions in the terms of native/intercept/ze/ze_device_work.h."""
    base = re.sub("^ze(CommandListAppend|RTASBuilderCommandListAppend(?=Copy))", "", f.name)
    names = {p.name for p in f.parameters}
    if base == "MemoryPrefetch":
        return {"kind": "migrate", "untimed": "the call names no event that it could signal"}
    if base == f.name or "hSignalEvent" not in names:
        return None
    out = {"queue": "hCommandList", "event": "hSignalEvent"}

    def side(address: str, context: str = "hCommandList") -> str:
        return f"place({context}, {address})" if address in names else "true"

    if base in _LAUNCHES:
        block = "extents(groupSizes)" if "groupSizes" in names else "group_of(hKernel)"
        grid = {"blocks": [f"extents({_LAUNCHES[base]})"], "block": [block]}
        return {"kind": "kernel", **out, "kernel": "kernel_name(hKernel)", **grid}
    if base == "LaunchKernelIndirect":
        return {"kind": "kernel", **out, "kernel": "kernel_name(hKernel)"}
    if base == "LaunchMultipleKernelsIndirect":
        return {
            "kind": "kernel",
            "kernel": "0",
            "untimed": "several kernels share one event, and only the device knows how many",
        }
    if base.startswith("MemoryFill"):
        return {"kind": "fill", **out, "bytes": "size"}
    if re.match("(Memory|Image)?Copy", base):
        context = "hContextSrc" if "hContextSrc" in names else "hCommandList"
        sides = {"from": side("srcptr", context), "to": side("dstptr")}
        amount = "size" if "size" in names else "volume(srcRegion)" if "srcRegion" in names else None
        return {"kind": "copy", **out, **sides, **({"bytes": amount} if amount else {})}
    if base == "GraphExt":
        return {"kind": "other", **out, "name": "graph"}
    return None


def _memory(f: Declaration) -> list[str]:
    lines, extra = [], list(_DESCRIBED.get(f.name, ()))
    if f.name in _FREES:
        lines += [f"frees: {{handle: {_FREES[f.name]}}}"]
    if f.name == "zeModuleCreate":
        lines += ["compiles: true"]
    if f.name in _ALLOCATES:
        handle, size, kind = _ALLOCATES[f.name]
        lines += [f"allocates: {{handle: {handle}, bytes: {size}, kind: {kind}, scope: scope, context: hContext}}"]
        extra += [_SCOPE]
    if f.name.startswith("zeCommandListAppendMemoryCopy") and {"dstptr", "srcptr"} <= {p.name for p in f.parameters}:
        lines += ["copies: {from: srcptr, to: dstptr}"]
    return [*lines, "extra:", *extra] if extra else lines


def load(includes: Sequence[Path]) -> tuple[Headers, Rules]:
    """What the headers of all versions declare, the newest first, and what the calls mean."""
    for include in includes:
        if not (include / "level_zero/ze_api.h").exists():
            raise ImportFailed(f"{include} has no level_zero/ze_api.h")
    options = [(f"-I{include}",) for include in includes]
    headers = _plain(reduce(merged, (read(TEXT, each, "ze") for each in options)))
    said = _read_said(includes)
    flags = {(name, argument): enum for name, argument, enum in _flags(headers)}

    def of(name: str, p: Parameter) -> _Said:
        return said.get((name, p.name), _Said(False, None))

    def array(f: Declaration, p: Parameter) -> str | None:
        # Lists of handles that the call is given.
        length = of(f.name, p).length
        given = not of(f.name, p).out and p.spelled.count("*") == 1 and p.spelled.endswith("_handle_t *")
        return length if given and length in {q.name for q in f.parameters} else None

    rules = Rules(
        api="ze",
        title="Level Zero",
        head=HEAD,
        text=TEXT,
        options=options[0],
        prefix="ze",
        error="ze_result_t",
        top={"anchor": "zelLoaderGetVersions", "preload": "{variants: 1, tables: 2}"},
        skip=lambda f: False,
        shown=lambda name: name,
        variants={},
        level=lambda name: ("event" if _EVENTS.match(name) else "tally", "tally"),
        blocking=lambda name: bool(_BLOCKING.match(name)),
        bytes=lambda f: "size" if _MOVES.match(f.name) and "size" in {p.name for p in f.parameters} else None,
        activity=_activity,
        memory=_memory,
        not_failed=lambda name: _NOT_READY if _ASKS.match(name) else None,
        outputs=lambda name, p: p.spelled == "void **" and of(name, p).out and of(name, p).length is None,
        inputs=lambda name, p: not of(name, p).out or of(name, p).length is not None,
        flags=flags,
        bits={enum: dict(headers.enumerations[enum].values) for enum in sorted(set(flags.values()))},
        array=array,
    )
    return headers, rules
