"""What the calls of the CUDA runtime API mean, and how the headers of several versions are made one list."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from .clang import Declaration, Headers, Parameter, read
from .cuda import TOTAL, is_batch
from .writer import Rules

# The last lines declare what compiled programs call and no header does: the launch that
# nvcc 13 and later write for `<<<>>>`.
TEXT = """\
#include <cuda_runtime_api.h>
#if __has_include(<cuda_profiler_api.h>)
#include <cuda_profiler_api.h>
#endif
extern "C" {
#define OCCATRACE_LAUNCH(name) cudaError_t name(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args, \\
                                                size_t sharedMem, cudaStream_t stream)
OCCATRACE_LAUNCH(__cudaLaunchKernel);
OCCATRACE_LAUNCH(__cudaLaunchKernel_ptsz);
cudaError_t __cudaGetKernel(cudaKernel_t *kernelPtr, const void *entryFuncAddr);
}
"""
PREFIX = ("cuda", "__cuda")

HEAD = """\
# The CUDA runtime API: what the calls of cuda_runtime_api.h mean, in all versions from 12 to 13 together. Written by
# tools/import_headers.py cudart, which holds the rules; this file is what the generator reads. The names are facts of the
# headers; structures are declared by their size only. A parameter that versions of the function disagree on is passed on
# and not recorded (VersionDependent). The device work, the bytes of memory and what frees it are told by the driver's calls below.
#
# exports    the names that a program calls: the function, and where there is one, the same for the per-thread default stream
# event      the versioned name, where it is not the shown one
# anchor     the symbol by which a CUDA runtime is known; where there is none, lookups do not find ours either
"""

# Recorded as events by default; everything else is counted.
_EVENTS = re.compile(
    r"(__)?cuda(SetDevice$|InitDevice|DeviceReset|DeviceSynchronize|Thread(Exit|Synchronize)|Device(Enable|Disable)PeerAccess"
    r"|Malloc|Free|Host(Alloc|Register|Unregister)|Memcpy|Memset|MemPrefetch|MemAdvise|MemDiscard|MemPool(Create|Destroy|TrimTo)"
    r"|Stream(Create|Destroy|Synchronize|WaitEvent|BeginCapture|EndCapture|AddCallback|AttachMemAsync)"
    r"|Event(Create|Destroy|Synchronize|Record)|Launch|Graph(Instantiate|Launch|Exec(Destroy|Update)|Create|Destroy|Upload)"
    r"|Library(Load|Unload)|Ipc(Open|Close)|Profiler|SignalExternal|WaitExternal|ImportExternal|DestroyExternal)"
)
_BLOCKING = re.compile(
    r"cuda(DeviceSynchronize|ThreadSynchronize|StreamSynchronize|EventSynchronize|DeviceReset|InitDevice|LibraryLoad"
    r"|Memcpy(2D|3D|ToSymbol|FromSymbol|ToArray|FromArray|2DToArray|2DFromArray|3DPeer)?$)"
)
# Answers, or the error of an earlier call.
_NEVER_FAILS = re.compile(r"cuda(GetLastError|PeekAtLastError)$")
_QUERIES = ("cudaStreamQuery", "cudaEventQuery")
_LAUNCHES = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cudaLaunchCooperativeKernel")
_OUT_ADDRESSES = re.compile(
    r"cuda(Malloc|HostAlloc|HostGetDevicePointer|MallocHost|GetSymbolAddress|GetDriverEntryPoint)"
)
_INPUTS = re.compile(r"(s|List|_out|Array|Dependencies|from|to|edgeData|paramsArray)$")


def _shown(name: str) -> str:
    return re.sub(r"_v\d+$", "", name.removeprefix("__") if name.startswith("__cudaLaunch") else name)


def _bytes(f: Declaration) -> str | None:
    if not re.match(r"cuda(Memcpy|Memset|Malloc|HostAlloc|HostRegister|MemPrefetchAsync)", f.name):
        return None
    names = {p.name for p in f.parameters if "*" not in p.spelled and p.canonical != "VersionDependent"}
    if is_batch(f):
        return "total"
    if {"width", "height"} <= names and "depth" not in names and re.match("cuda(Memcpy|Memset)2D", f.name):
        return "area"
    return next((name for name in ("count", "size") if name in names), None)


def _extra(f: Declaration) -> list[str]:
    lines = []
    if _bytes(f) == "area":
        lines += ['- {name: area, type: size_t, value: "width * height", doc: "bytes of all rows"}']
    if _bytes(f) == "total":
        lines += [TOTAL]
    if _shown(f.name) in _LAUNCHES:
        lines += ['- {name: name, type: KernelName, value: "0", doc: "of the kernel"}']
    return ["extra:", *lines] if lines else []


def _merged(newer: Sequence[Declaration], older: Sequence[Declaration]) -> list[Declaration]:
    """Each function once; parameters that are not the same in both are marked, and the longer list is taken."""
    others = {f.name: f for f in older}
    out = []
    for f in newer:
        g = others.pop(f.name, f)
        longer = g if len(g.parameters) > len(f.parameters) else f
        same = 0
        for a, b in zip(f.parameters, g.parameters, strict=False):
            if a.canonical.replace("const ", "").replace("*const", "*") != b.canonical.replace("const ", ""):
                break
            same += 1
        known = longer.parameters[:same]
        rest = [replace(p, spelled="VersionDependent", canonical="VersionDependent") for p in longer.parameters[same:]]
        out.append(replace(longer, parameters=(*known, *rest)))
    return [*out, *others.values()]


def load(includes: Sequence[Path]) -> tuple[Headers, Rules]:
    """What the headers of all versions declare, the newest first, and what the calls mean."""
    functions: list[Declaration] = []
    first: Headers | None = None
    twins: dict[str, str] = {}
    for include in includes:
        options = (f"-I{include}",)
        headers = read(TEXT, options, PREFIX, "c++")
        functions = _merged(functions, headers.functions) if functions else list(headers.functions)
        first = first or headers
        per_thread = read(TEXT, (*options, "-DCUDA_API_PER_THREAD_DEFAULT_STREAM"), PREFIX, "c++")
        names = [f.name for f in (*headers.functions, *per_thread.functions)]
        twins |= {re.sub(r"_pt(sz|ds)$", "", name): name for name in names if re.search(r"_pt(sz|ds)$", name)}
    assert first is not None
    own = [f for f in functions if not re.search(r"_pt(sz|ds)$", f.name)]
    rules = Rules(
        api="cudart",
        title="CUDA runtime",
        head=HEAD,
        text=TEXT,
        options=(f"-I{includes[0]}",),
        prefix=PREFIX,
        error="cudaError",
        top={"anchor": "cudaRuntimeGetVersion", "preload": "{variants: 2}"},
        # One function gives back a structure.
        # The driver's calls below tell of ranges to capture.
        skip=lambda f: f.name in ("cudaCreateChannelDesc", "cudaProfilerStart", "cudaProfilerStop"),
        shown=_shown,
        variants={f.name: twins[f.name] for f in own if f.name in twins},
        level=lambda name: ("event" if _EVENTS.match(name) else "tally", "tally"),
        blocking=lambda name: bool(_BLOCKING.match(name)),
        bytes=_bytes,
        activity=lambda name: None,
        memory=_extra,
        not_failed=lambda name: 600 if name in _QUERIES else None,
        never_fails=lambda name: bool(_NEVER_FAILS.match(name)),
        outputs=lambda name, p: p.spelled == "void **" and bool(_OUT_ADDRESSES.match(name)),
        inputs=lambda name, p: _inputs(name, p),
        types={
            "KernelName": '{kind: name, bits: 32, declare: "uint32_t KernelName"}',
            "VersionDependent": '{kind: opaque, declare: "void *VersionDependent"}',
        },
        language="c++",
        addresses=("cudaTextureObject_t", "cudaSurfaceObject_t"),
    )
    return Headers(tuple(own), first.enumerations, first.typedefs), rules


def _inputs(name: str, p: Parameter) -> bool:
    return bool(_INPUTS.search(p.name)) and p.name not in ("flags", "props", "status")
