"""What the calls of the CUDA driver API mean."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from .clang import Declaration, Headers, Parameter, read
from .writer import Rules, allocation

TEXT = "#include <cuda.h>\n#include <cudaProfiler.h>\n"

HEAD = """\
# The CUDA driver API: what the calls of cuda.h mean. Written by tools/import_headers.py cuda, which holds the rules;
# this file is what the generator reads. The names are facts of the header; structures are declared by their size only.
#
# exports    the names that a program calls: the function, and where there is one, the same for the per-thread default stream
# activity   the device work; its expressions are C++ over the arguments (tools/generator/model.py: Activity)
# event      the versioned name, where it is not the shown one
# failed     `except`: a code other than 0 that is an answer and no failure (CUDA_ERROR_NOT_READY)
"""

# Recorded as events by default; everything else is counted.
_EVENTS = re.compile(
    r"cu(Init$|DevicePrimaryCtx(Retain|Release|Reset)|Ctx(Create|Destroy|Synchronize|EnablePeer|DisablePeer)|GreenCtx(Create|Destroy)"
    r"|Module(Load|Unload)|Library(Load|Unload)|Link(Create|Add|Complete|Destroy)"
    r"|Mem(Alloc|Free|Host(Alloc|Register|Unregister)|cpy|set|Create|Release|Map|Unmap|AddressReserve|AddressFree|Prefetch"
    r"|Advise|Discard|Pool(Create|Destroy|TrimTo|SetAccess)|BatchDecompress)"
    r"|(Array|Array3D|MipmappedArray)(Create|Destroy)"
    r"|Stream(Create|Destroy|Synchronize|WaitEvent|BeginCapture|EndCapture|AddCallback|WriteValue|WaitValue|BatchMemOp|AttachMemAsync)"
    r"|Event(Create|Destroy|Synchronize|Record)|Launch|Graph(Instantiate|Launch|Exec(Destroy|Update)|Create|Destroy|Upload)"
    r"|Ipc(Open|Close)|Profiler|SignalExternal|WaitExternal|ImportExternal|DestroyExternal)"
)
_COUNTED = re.compile(r"cu(MemPool(Get|Set)|MemGet|MemRangeGet|MemAdvise$|.*GetAttribute|.*SetAttribute|.*GetName)")
_BLOCKING = re.compile(
    r"cu(CtxSynchronize|StreamSynchronize|EventSynchronize|ModuleLoad|LibraryLoad|LinkComplete|DevicePrimaryCtxRetain"
    r"|CtxCreate|CtxDestroy|Memcpy([DA]toH|Hto[DA])|Memcpy$|Memcpy2D_|Memcpy3D(_|Peer$)|Memcpy2DUnaligned)"
)
_ACTIVITY = (
    (r"cuLaunch(Kernel|KernelEx|CooperativeKernel|Grid|GridAsync)?$", "kernel"),
    (r"cuMemcpyHto[DA]", "HtoD"),
    (r"cuMemcpy[DA]toH", "DtoH"),
    (r"cuMemcpy[DA]to[DA]|cuMemcpyPeer", "DtoD"),
    (r"cuMemcpy(Async|BatchAsync|2D|3D|$)", "copy"),
    (r"cuMemset", "fill"),
    (r"cuMem(DiscardAnd)?Prefetch(Batch)?Async", "migrate"),
    (r"cuGraphLaunch", "other"),
)
_BYTES = ("ByteCount", "bytesize", "count", "size")
_MOVES = re.compile(
    r"cu(Memcpy(?!2D|3D)|MemAlloc|MemHostAlloc|MemHostRegister|MemCreate|Mem(DiscardAnd)?Prefetch|MemAdvise|MemMap$"
    r"|MemAddressReserve)"
)
_ARRAYS = re.compile(r"(s|List|_out|Array|dependencies|options|values|nodes|from|to|edgeData|paramsArray)$")
_COUNTS = (
    "count",
    "numOptions",
    "numDependencies",
    "numBlocks",
    "bytes",
    "numPaths",
    "numSegments",
    "flags",
    "Flags",
    "props",
)
_ADDRESS_OUTPUTS = re.compile(r"cu(MemAllocHost|MemHostAlloc|GetProcAddress|MemHostGet|ModuleGetFunction)")


# The arguments of address and size, and the kind of memory.
_ALLOCATES = {
    "cuMemAlloc": ("dptr", "bytesize", "device"),
    "cuMemAllocPitch": ("dptr", "asked", "device"),
    "cuMemAllocManaged": ("dptr", "bytesize", "managed"),
    "cuMemAllocAsync": ("dptr", "bytesize", "device"),
    "cuMemAllocFromPoolAsync": ("dptr", "bytesize", "device"),
    "cuMemAllocHost": ("pp", "bytesize", "host"),
    "cuMemHostAlloc": ("pp", "bytesize", "host"),
    "cuMemHostRegister": ("p", "bytesize", "wrapped"),
    "cuArrayCreate": ("pHandle", "of_array", "array"),
    "cuArray3DCreate": ("pHandle", "of_array", "array"),
    "cuMipmappedArrayCreate": ("pHandle", "of_array", "array"),
    "cuMemCreate": ("handle", "size", "device"),
}
_FREES = {
    "cuMemFree": "dptr",
    "cuMemFreeAsync": "dptr",
    "cuMemFreeHost": "p",
    "cuMemHostUnregister": "p",
    "cuArrayDestroy": "hArray",
    "cuMipmappedArrayDestroy": "hMipmappedArray",
    "cuMemRelease": "handle",
}
# Codes that are answers: not yet (CUDA_ERROR_NOT_READY), no such function (CUDA_ERROR_NOT_FOUND), no context is current
# (CUDA_ERROR_INVALID_CONTEXT: the runtime asks in each new thread), and of functions that release something that the driver has
# released already (CUDA_ERROR_DEINITIALIZED): the runtime calls them at the end of each program.
_ANSWERS = {"cuStreamQuery": 600, "cuEventQuery": 600, "cuGetProcAddress": 500, "cuCtxGetDevice": 201}
_LETS_GO = re.compile(r"Release|Unload|Destroy|Free|Unregister|Detach")
_DEINITIALIZED = 4
# Fields of a number that the call is not given: a C++ expression over its arguments.
_SIZES = {
    "asked": ("WidthInBytes * Height", "as asked for, without the padding of rows"),
    "of_array": ("array_bytes({0})", "of the elements, without padding and smaller levels"),
}
# Bits of flags, which the headers have as macros.
_BITS = {
    "CUmemhostalloc_flags": {
        "CU_MEMHOSTALLOC_PORTABLE": 0x1,
        "CU_MEMHOSTALLOC_DEVICEMAP": 0x2,
        "CU_MEMHOSTALLOC_WRITECOMBINED": 0x4,
    },
    "CUmemhostregister_flags": {
        "CU_MEMHOSTREGISTER_PORTABLE": 0x1,
        "CU_MEMHOSTREGISTER_DEVICEMAP": 0x2,
        "CU_MEMHOSTREGISTER_IOMEMORY": 0x4,
        "CU_MEMHOSTREGISTER_READ_ONLY": 0x8,
    },
    "CUctx_flags": {
        "CU_CTX_SCHED_SPIN": 0x1,
        "CU_CTX_SCHED_YIELD": 0x2,
        "CU_CTX_SCHED_BLOCKING_SYNC": 0x4,
        "CU_CTX_MAP_HOST": 0x8,
        "CU_CTX_LMEM_RESIZE_TO_MAX": 0x10,
        "CU_CTX_COREDUMP_ENABLE": 0x20,
        "CU_CTX_USER_COREDUMP_ENABLE": 0x40,
        "CU_CTX_SYNC_MEMOPS": 0x80,
    },
    "CUstream_flags": {"CU_STREAM_NON_BLOCKING": 0x1},
    "CUevent_flags": {"CU_EVENT_BLOCKING_SYNC": 0x1, "CU_EVENT_DISABLE_TIMING": 0x2, "CU_EVENT_INTERPROCESS": 0x4},
    "CUmemAttach_flags": {"CU_MEM_ATTACH_GLOBAL": 0x1, "CU_MEM_ATTACH_HOST": 0x2, "CU_MEM_ATTACH_SINGLE": 0x4},
}
# Functions, their argument of flags and its bits; and the bit that makes pinned memory mapped.
_FLAGS = {
    "cuMemHostAlloc": ("Flags", "CUmemhostalloc_flags"),
    "cuMemHostRegister": ("Flags", "CUmemhostregister_flags"),
    "cuMemAllocManaged": ("flags", "CUmemAttach_flags"),
    "cuCtxCreate": ("flags", "CUctx_flags"),
    "cuDevicePrimaryCtxSetFlags": ("flags", "CUctx_flags"),
    "cuStreamCreate": ("Flags", "CUstream_flags"),
    "cuStreamCreateWithPriority": ("flags", "CUstream_flags"),
    "cuEventCreate": ("Flags", "CUevent_flags"),
}
_MAPPED = {"CUmemhostalloc_flags": "CU_MEMHOSTALLOC_DEVICEMAP"}


def is_batch(f: Declaration) -> bool:
    """Whether a call is given many sizes, whose number is no number of bytes."""
    return {"sizes", "count"} <= {p.name for p in f.parameters}


TOTAL = '- {name: total, type: size_t, value: "sum_of(sizes, count)", doc: "bytes of all"}'


def _memory(f: Declaration) -> list[str]:
    base = _shown(f.name)
    lines, extra = [], []
    if _bytes(f) == "total":
        extra += [TOTAL]
    if base in _FREES:
        lines += [f"frees: {{handle: {_FREES[base]}}}"]
    if base in _ALLOCATES:
        handle, size, kind = _ALLOCATES[base]
        lines += [allocation(handle, size, kind, _FLAGS.get(base), _MAPPED)]
        if size in _SIZES:
            value, doc = _SIZES[size]
            value = value.format(f.parameters[1].name)
            extra += [f'- {{name: {size}, type: size_t, value: "{value}", doc: "{doc}"}}']
        extra += [
            '- {name: scope, type: uint32_t, value: "c.self->scope_seq", doc: "number of the OCCA call around it, 4294967295: none"}',
            '- {name: context, type: CUcontext, value: "current_context()", doc: "of the calling thread"}',
        ]
    if re.match("cuMemcpy", base):
        copies, more = _copies(f)
        lines += copies
        extra += more
    return [*lines, "extra:", *extra] if extra else lines


def _copies(f: Declaration) -> tuple[list[str], list[str]]:
    """What a copy reads and writes: arguments, places in the structure that describes it, or what its name says."""
    names = {p.name for p in f.parameters}
    if "Peer" in f.name:
        return ["copies: {from: peer, to: peer}"], []
    if "pCopy" in names:
        of = "Copy3D" if "3D" in f.name else "Copy2D"
        doc = "address; 0: an array"
        lines = [
            f'- {{name: {side}, type: CUdeviceptr, value: "{side}_of<{of}>(pCopy)", doc: "{doc}"}}'
            for side in ("from", "to")
        ]
        return ["copies: {from: from, to: to}"], lines

    def side(*arguments: str) -> str:
        return next((name for name in arguments if name in names), "array")

    if not {"ByteCount"} & names:
        return [], []
    return [f"copies: {{from: {side('srcHost', 'srcDevice', 'src')}, to: {side('dstHost', 'dstDevice', 'dst')}}}"], []


def _skip(f: Declaration) -> bool:
    # The calls of CUDA 3.1 and before, with 32-bit addresses; and what belongs to graphics.
    text = " ".join(p.spelled for p in f.parameters)
    return "CUdeviceptr_v1" in text or "_v1 *" in text or bool(re.match(r"cu(GL|EGL|VDPAU|D3D|WGL|Graphics)", f.name))


def _shown(name: str) -> str:
    return re.sub(r"_v\d+$", "", name)


def _level(name: str) -> tuple[str, str]:
    default = "event" if _EVENTS.match(name) and not _COUNTED.match(name) else "tally"
    return default, "tally"


def _bytes(f: Declaration) -> str | None:
    if not _MOVES.match(f.name):
        return None
    names = {p.name for p in f.parameters if "*" not in p.spelled}
    if is_batch(f):
        return "total"
    return next((name for name in _BYTES if name in names), None)


def _activity(f: Declaration) -> dict[str, object] | None:
    """The device work: expressions in the terms of native/intercept/cuda/cuda.cpp."""
    base = _shown(f.name)
    kind = next((kind for pattern, kind in _ACTIVITY if re.match(pattern, base)), None)
    if kind is None:
        return None
    names = {p.name for p in f.parameters}
    out: dict[str, object] = {"kind": kind}
    if "hStream" in names:
        out["queue"] = "hStream"
    if kind == "kernel":
        out |= _launch(base)
    elif "Batch" in base:
        out |= _batch(base)
    elif "pCopy" in names:
        structure = "Copy3DPeer" if "Peer" in base else "Copy3D" if "3D" in base else "Copy2D"
        given = f"as<{structure}>(pCopy)"
        out |= {"from": f"{given}.from", "to": f"{given}.to", "bytes": f"{given}.bytes()"}
    elif fill := re.match(r"cuMemset(D2)?D(8|16|32)", base):
        elements, size = "Width * Height" if fill[1] else "N", int(fill[2]) // 8
        out["bytes"] = elements if size == 1 else f"{elements} * {size}"
    elif kind == "other":
        out["name"] = "graph"
    return out


def _launch(base: str) -> dict[str, object]:
    """Of a kernel: its name, its grid in blocks and the threads of a block."""
    out: dict[str, object] = {"kernel": "kernel_name(f)"}
    if base == "cuLaunchKernelEx":
        given = "as<LaunchConfig>(config)"
        return {"queue": f"{given}.stream", **out, "blocks": [f"{given}.blocks"], "block": [f"{given}.block"]}
    if base in ("cuLaunch", "cuLaunchGrid", "cuLaunchGridAsync"):
        grid = ["1", "1", "1"] if base == "cuLaunch" else ["grid_width", "grid_height", "1"]
        return {**out, "blocks": grid, "block": ["block_shape(f)"]}
    return {**out, "blocks": [f"gridDim{axis}" for axis in "XYZ"], "block": [f"blockDim{axis}" for axis in "XYZ"]}


def _batch(base: str) -> dict[str, object]:
    """Of several copies by one call: how many there are, and the one at `at`."""
    if "3D" in base:
        given = "(&as<CopyOfBatch>(opList))[at]"
        sides = {"from": f"{given}.from", "to": f"{given}.to", "bytes": f"bytes_of({given})"}
        return {"count": "numOps", **sides}
    out: dict[str, object] = {"count": "count"}
    if "Memcpy" in base:
        out |= {"from": "srcs[at]", "to": "dsts[at]"}
    return {**out, "bytes": "sizes[at]"}


def _inputs(name: str, p: Parameter) -> bool:
    return bool(_ARRAYS.search(p.name)) and p.name not in _COUNTS


def _outputs(name: str, p: Parameter) -> bool:
    return p.spelled == "void **" and bool(_ADDRESS_OUTPUTS.match(name))


def load(includes: Sequence[Path]) -> tuple[Headers, Rules]:
    """What the headers declare, and what the calls mean."""
    options = (f"-I{includes[0]}", "-D__CUDA_API_VERSION_INTERNAL")
    headers = read(TEXT, options, "cu")
    return headers, _rules(headers, options)


def _rules(headers: Headers, options: tuple[str, ...]) -> Rules:
    # The headers tell which functions have a twin for the per-thread default stream.
    names = {f.name for f in headers.functions}
    twins = {re.sub(r"_pt(sz|ds)$", "", name): name for name in names if re.search(r"_pt(sz|ds)$", name)}
    return Rules(
        api="cuda",
        title="CUDA",
        head=HEAD,
        text=TEXT,
        options=options,
        prefix="cu",
        error="cudaError_enum",
        top={"library": "cuda", "shim": "{soname: libcuda.so.1, real: libcuda_real.so.1, variants: 2, missing: 801}"},
        skip=_skip,
        shown=_shown,
        variants={base: twin for base, twin in twins.items() if base in names},
        level=_level,
        blocking=lambda name: bool(_BLOCKING.match(name)) and "Async" not in name,
        bytes=_bytes,
        activity=_activity,
        memory=_memory,
        not_failed=lambda name: _ANSWERS.get(_shown(name), _DEINITIALIZED if _LETS_GO.search(name) else None),
        outputs=_outputs,
        inputs=_inputs,
        flags={(name, argument): enum for name, (argument, enum) in _FLAGS.items()},
        bits=_BITS,
        addresses=("CUdeviceptr", "CUdeviceptr_v2", "CUmemGenericAllocationHandle", "CUtexObject", "CUsurfObject"),
    )
