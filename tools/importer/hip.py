"""What the calls of the HIP runtime API mean."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from pathlib import Path

from .clang import Declaration, Headers, Parameter, merged, read
from .writer import Rules, allocation

# What hip_ext.h declares for C++ only; until HIP 6 under the names that C++ gives them.
_LAUNCH = """(hipFunction_t f, uint32_t globalWorkSizeX, uint32_t globalWorkSizeY, uint32_t globalWorkSizeZ,
    uint32_t localWorkSizeX, uint32_t localWorkSizeY, uint32_t localWorkSizeZ, size_t sharedMemBytes, hipStream_t stream,
    void **kernelParams, void **extra, hipEvent_t startEvent, hipEvent_t stopEvent"""
TEXT = f"""#include <hip/hip_runtime_api.h>
hipError_t hipExtModuleLaunchKernel{_LAUNCH}, uint32_t flags);
hipError_t hipExtModuleLaunchKernel_cxx{_LAUNCH}, uint32_t flags);
hipError_t hipHccModuleLaunchKernel{_LAUNCH});
"""
_EXPORTED = {
    "hipExtModuleLaunchKernel_cxx": "_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j",
    "hipHccModuleLaunchKernel": "_Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_",
}

HEAD = """\
# The HIP runtime API: what the calls of hip_runtime_api.h mean, of HIP 5.2 to 6.3 together. Written by
# tools/import_headers.py hip, which holds the rules; this file is what the generator reads. The names are facts of the
# headers; structures are declared by their size only.
#
# anchor     a symbol that only HIP's library has: our functions are found where it is loaded
# exports    the names that a program calls: the function, and where there is one, the same for the per-thread default stream
# activity   the device work; its expressions are C++ over the arguments (tools/generator/model.py: Activity)
# event      the versioned name, where it is not the shown one
# failed     `except`: a code other than 0 that is an answer and no failure (hipErrorNotReady)
"""

# Recorded as events by default; everything else is counted.
_EVENTS = re.compile(
    r"hip(Init$|DeviceSynchronize|DeviceReset|DevicePrimaryCtx(Retain|Release|Reset|SetFlags)|SetDeviceFlags|Ctx(Create|Destroy|Synchronize)"
    r"|(Ctx|Device)(Enable|Disable)Peer|Module(Load|Unload|Launch)|(Ext|Hcc|ExtModule|HccModule)?Launch|(Ext)?Malloc"
    r"|Host(Malloc|Alloc|Free|Register|Unregister)|ExtHostAlloc|Free|(Drv)?Memcpy|Memset"
    r"|Mem(Alloc|Create|Release|Map|Unmap|AddressReserve|AddressFree|Prefetch|Advise|Pool(Create|Destroy|TrimTo|SetAccess))"
    r"|(Array|Array3D|MipmappedArray)(Create|Destroy)|(Ext)?StreamCreate"
    r"|Stream(Destroy|Synchronize|WaitEvent|BeginCapture|EndCapture|AddCallback|WriteValue|WaitValue|BatchMemOp|AttachMemAsync)"
    r"|Event(Create|Destroy|Synchronize|Record)|Graph(Instantiate|Launch|Exec(Destroy|Update)|Create|Destroy$|Upload)"
    r"|Ipc(Open|Close)|Profiler|SignalExternal|WaitExternal|ImportExternal|DestroyExternal)"
)
_BLOCKING = re.compile(
    r"hip(DeviceSynchronize|CtxSynchronize|StreamSynchronize|EventSynchronize|DeviceReset|ModuleLoad|Memcpy|DrvMemcpy|Free$"
    r"|DevicePrimaryCtxRetain|CtxDestroy)"
)
_ACTIVITY = (
    (
        r"hip(Launch(CooperativeKernel|Kernel|ByPtr)|ExtLaunch(Multi)?Kernel|(Ext|Hcc)?ModuleLaunch(Cooperative)?Kernel)"
        r"(MultiDevice)?(_cxx)?$",
        "kernel",
    ),
    (r"hipMemcpyHto[DA]", "HtoD"),
    (r"hipMemcpy[DA]toH", "DtoH"),
    (r"hipMemcpy[DA]to[DA]|hipMemcpyPeer|hipMemcpy2DArrayToArray", "DtoD"),
    (r"hip(Drv)?Memcpy", "copy"),
    (r"hipMemset", "fill"),
    (r"hipMemPrefetchAsync", "migrate"),
    (r"hipGraphLaunch", "other"),
)
_BYTES = ("sizeBytes", "ByteCount", "count", "size")
_MOVES = re.compile(
    r"hip((Drv)?Memcpy(?!2D|3D|Param)|(Ext)?Malloc(?!3DArray|Array|Mipmapped)|Host(Malloc|Alloc|Register)|ExtHostAlloc"
    r"|Mem(AllocHost|Create|Prefetch|Advise|Map$|AddressReserve))"
)
_ARRAYS = re.compile(r"(s|List|Array|[dD]ependencies|options|optionValues|nodes|from|to|edges|cuMask)$")
_SINGLE = re.compile(r"(count|bytes|flags|num\w+|pCaptureStatus|captureStatus_out|value\w*|\w*[aA]ttributes)$")
_ADDRESS_OUTPUTS = re.compile(
    r"hip((Ext)?Malloc|Host(Malloc|Alloc|GetDevicePointer)|ExtHostAlloc|MemAllocHost|MemAddressReserve)"
)

# The arguments of address and size, and the kind of memory.
_ALLOCATES = {
    "hipMalloc": ("ptr", "size", "device"),
    "hipExtMallocWithFlags": ("ptr", "sizeBytes", "device"),
    "hipMallocPitch": ("ptr", "asked", "device"),
    "hipMemAllocPitch": ("dptr", "asked", "device"),
    "hipMalloc3D": ("address", "asked", "device"),
    "hipMallocManaged": ("dev_ptr", "size", "managed"),
    "hipMallocAsync": ("dev_ptr", "size", "device"),
    "hipMallocFromPoolAsync": ("dev_ptr", "size", "device"),
    "hipMemCreate": ("handle", "size", "device"),
    "hipHostMalloc": ("ptr", "size", "host"),
    "hipHostAlloc": ("ptr", "size", "host"),
    "hipExtHostAlloc": ("ptr", "size", "host"),
    "hipMallocHost": ("ptr", "size", "host"),
    "hipMemAllocHost": ("ptr", "size", "host"),
    "hipHostRegister": ("hostPtr", "sizeBytes", "wrapped"),
    "hipMallocArray": ("array", "of_array", "array"),
    "hipMalloc3DArray": ("array", "of_array", "array"),
    "hipArrayCreate": ("pHandle", "of_array", "array"),
    "hipArray3DCreate": ("array", "of_array", "array"),
}
# Bits of flags, which the headers have as macros.
_BITS = {
    "hipHostMalloc_flags": {
        "hipHostMallocPortable": 0x1,
        "hipHostMallocMapped": 0x2,
        "hipHostMallocWriteCombined": 0x4,
        "hipHostMallocNumaUser": 0x20000000,
        "hipHostMallocCoherent": 0x40000000,
        "hipHostMallocNonCoherent": 0x80000000,
    },
    "hipHostRegister_flags": {
        "hipHostRegisterPortable": 0x1,
        "hipHostRegisterMapped": 0x2,
        "hipHostRegisterIoMemory": 0x4,
        "hipExtHostRegisterCoarseGrained": 0x8,
    },
    "hipMemAttach_flags": {"hipMemAttachGlobal": 0x1, "hipMemAttachHost": 0x2, "hipMemAttachSingle": 0x4},
    "hipDevice_flags": {
        "hipDeviceScheduleSpin": 0x1,
        "hipDeviceScheduleYield": 0x2,
        "hipDeviceScheduleBlockingSync": 0x4,
        "hipDeviceMapHost": 0x8,
        "hipDeviceLmemResizeToMax": 0x10,
    },
    "hipStream_flags": {"hipStreamNonBlocking": 0x1},
    "hipEvent_flags": {
        "hipEventBlockingSync": 0x1,
        "hipEventDisableTiming": 0x2,
        "hipEventInterprocess": 0x4,
        "hipEventReleaseToDevice": 0x40000000,
        "hipEventReleaseToSystem": 0x80000000,
    },
    "hipExtMalloc_flags": {
        "hipDeviceMallocFinegrained": 0x1,
        "hipMallocSignalMemory": 0x2,
        "hipDeviceMallocUncached": 0x3,
        "hipDeviceMallocContiguous": 0x4,
    },
}
# Functions, their argument of flags and its bits; and the bit that makes pinned memory mapped.
_FLAGS = {
    "hipHostMalloc": ("flags", "hipHostMalloc_flags"),
    "hipHostAlloc": ("flags", "hipHostMalloc_flags"),
    "hipExtHostAlloc": ("flags", "hipHostMalloc_flags"),
    "hipHostRegister": ("flags", "hipHostRegister_flags"),
    "hipMallocManaged": ("flags", "hipMemAttach_flags"),
    "hipExtMallocWithFlags": ("flags", "hipExtMalloc_flags"),
    "hipCtxCreate": ("flags", "hipDevice_flags"),
    "hipDevicePrimaryCtxSetFlags": ("flags", "hipDevice_flags"),
    "hipSetDeviceFlags": ("flags", "hipDevice_flags"),
    "hipStreamCreateWithFlags": ("flags", "hipStream_flags"),
    "hipStreamCreateWithPriority": ("flags", "hipStream_flags"),
    "hipEventCreateWithFlags": ("flags", "hipEvent_flags"),
}
_MAPPED = {"hipHostMalloc_flags": "hipHostMallocMapped"}
_EXTENT = "extent_of(extent)"
# Sizes that the call is not given as one number.
_SIZES = {
    "hipMallocPitch": "width * height",
    "hipMemAllocPitch": "widthInBytes * height",
    "hipMalloc3D": f"{_EXTENT}.volume()",
    "hipMallocArray": "array_bytes(desc, width, height, 1)",
    "hipMalloc3DArray": f"array_bytes(desc, {_EXTENT}.width, {_EXTENT}.height, {_EXTENT}.depth)",
    "hipArrayCreate": "array_bytes(pAllocateArray)",
    "hipArray3DCreate": "array_bytes(pAllocateArray)",
}
_SIZE_DOCS = {
    "asked": "as asked for, without the padding of rows",
    "of_array": "of the elements, without padding",
}
_FREES = {
    "hipFree": "ptr",
    "hipFreeAsync": "dev_ptr",
    "hipHostFree": "ptr",
    "hipFreeHost": "ptr",
    "hipHostUnregister": "hostPtr",
    "hipMemRelease": "handle",
    "hipFreeArray": "array",
    "hipArrayDestroy": "array",
}


def _whose(f: Declaration) -> tuple[str, str]:
    """Whose device the memory is on, as C++ and in words."""
    if any(p.name == "stream" for p in f.parameters):
        return "device_of(stream)", "the stream's"
    return "current_device()", "the calling thread's"


def _memory(f: Declaration) -> list[str]:
    base = _shown(f.name)
    lines, extra = [], []
    if base in _FREES:
        lines += [f"frees: {{handle: {_FREES[base]}}}"]
    if base.startswith("hipModuleLoad"):
        lines += ["compiles: true"]
    if base in _ALLOCATES:
        handle, size, kind = _ALLOCATES[base]
        device, whose = _whose(f)
        lines += [allocation(handle, size, kind, _FLAGS.get(base), _MAPPED)]
        if handle == "address":
            extra += ['- {name: address, type: "void *", value: "nullptr", doc: "of the memory, out of pitchedDevPtr"}']
        if size in _SIZE_DOCS:
            extra += [f'- {{name: {size}, type: size_t, value: "{_SIZES[base]}", doc: "{_SIZE_DOCS[size]}"}}']
        extra += [
            '- {name: scope, type: uint32_t, value: "c.self->scope_seq", doc: "number of the OCCA call around it, 4294967295: none"}',
            f'- {{name: context, type: "const void *", value: "{device}", doc: "a number for {whose} device"}}',
        ]
    if re.match("hip(Drv)?Memcpy", base):
        copies, more = _copies(f)
        lines += copies
        extra += more
    return [*lines, "extra:", *extra] if extra else lines


def _copies(f: Declaration) -> tuple[list[str], list[str]]:
    """What a copy reads and writes: arguments, places in the structure that describes it, or what its name says."""
    if "Peer" in f.name:
        return ["copies: {from: peer, to: peer}"], []
    names = [p.name for p in f.parameters]
    if names[0] in ("p", "pCopy"):
        doc = "address; 0: an array"
        lines = [
            f'- {{name: {side}, type: "const void *", value: "{side}_of({names[0]})", doc: "{doc}"}}'
            for side in ("from", "to")
        ]
        return ["copies: {from: from, to: to}"], lines

    def side(symbol: str, *arguments: str) -> str:
        if re.search(symbol, f.name):
            return "device"
        plain = {p.name for p in f.parameters if "Array" not in p.spelled and "array" not in p.spelled}
        return next((name for name in arguments if name in plain), "array")

    source = side("FromSymbol", "src", "srcHost", "srcDevice")
    target = side("ToSymbol", "dst", "dstHost", "dstDevice")
    return [f"copies: {{from: {source}, to: {target}}}"], []


def _skip(f: Declaration) -> bool:
    # What belongs to graphics; the interface of profilers; the anchor; and a structure as the result.
    return bool(
        re.match(
            r"hip(GL|Graphics|(Register|Remove)(Api|Activity)Callback|ApiName$|CreateChannelDesc$|(Create|Destroy)SurfaceObject)",
            f.name,
        )
    )


def _shown(name: str) -> str:
    return re.sub(r"(_v\d+|_cxx|R0\d+)$", "", name)


def _level(name: str) -> tuple[str, str]:
    return ("event" if _EVENTS.match(name) else "tally"), "tally"


def _bytes(f: Declaration) -> str | None:
    if not _MOVES.match(f.name):
        return None
    names = {p.name for p in f.parameters if "*" not in p.spelled}
    known = next((name for name in _BYTES if name in names), None)
    return known or (_ALLOCATES[_shown(f.name)][1] if _shown(f.name) in _SIZES else None)


def _activity(f: Declaration) -> dict[str, object] | None:
    """The device work: expressions in the terms of native/intercept/hip/hip.cpp."""
    base = _shown(f.name)
    kind = next((kind for pattern, kind in _ACTIVITY if re.match(pattern, base)), None)
    if kind is None:
        return None
    names = {p.name for p in f.parameters}
    out: dict[str, object] = {"kind": kind}
    if base.endswith("MultiDevice"):
        return {**out, "by_hand": "it launches on several devices, each launch in a stream of its own"}
    if "stream" in names:
        out["queue"] = "stream"
    if kind == "kernel":
        return out | _launch(base, names)
    if kind == "other":
        return {**out, "name": "graph"}
    if {"p", "pCopy"} & names:
        return out | _described(f)
    if kind == "copy" and "kind" in names:
        out["direction"] = "kind"
    if {"width", "height"} <= names:
        out["bytes"] = "width * height"
    elif "extent" in names:
        out["bytes"] = f"{_EXTENT}.volume()"
    elif fill := re.match(r"hipMemset(?:D(8|16|32))?", base):
        size = int(fill[1] or 8) // 8
        amount = "sizeBytes" if fill[1] is None else "count"
        out["bytes"] = amount if size == 1 else f"{amount} * {size}"
    return out


def _launch(base: str, names: set[str]) -> dict[str, object]:
    """Of a kernel: its name, its grid in blocks or in work-items, and the threads of a block."""
    if base == "hipLaunchByPtr":
        of = {key: f"configured.{key}" for key in ("blocks", "block")}
        name = {"kernel": "name_by(func, configured.stream)"}
        return {"queue": "configured.stream", **name, **{key: [value] for key, value in of.items()}}
    function = "f" if "f" in names else "function_address"
    out: dict[str, object] = {"kernel": f"name_by({function}, stream)"}
    if "globalWorkSizeX" in names:
        return {**out, "items": [f"globalWorkSize{a}" for a in "XYZ"], "block": [f"localWorkSize{a}" for a in "XYZ"]}
    if "gridDimX" in names:
        return {**out, "blocks": [f"gridDim{a}" for a in "XYZ"], "block": [f"blockDim{a}" for a in "XYZ"]}
    grid, block = ("gridDim", "blockDimX") if "gridDim" in names else ("numBlocks", "dimBlocks")
    return {**out, "blocks": [f"dim({grid})"], "block": [f"dim({block})"]}


def _described(f: Declaration) -> dict[str, object]:
    """Of a copy that a structure describes."""
    name = f.parameters[0].name
    if name == "p":
        given = "parameters_of(p)"
        sides = {"from": f"{given}.source()", "to": f"{given}.target()"}
        return {"direction": f"{given}.kind", **sides, "bytes": f"bytes_of({given})"}
    return {"from": f"source_of({name})", "to": f"target_of({name})", "bytes": f"bytes_of({name})"}


def _inputs(name: str, p: Parameter) -> bool:
    return bool(_ARRAYS.search(p.name)) and not _SINGLE.match(p.name)


def _outputs(name: str, p: Parameter) -> bool:
    return p.spelled == "void **" and bool(_ADDRESS_OUTPUTS.match(name))


def load(includes: Sequence[Path]) -> tuple[Headers, Rules]:
    """What the headers of all versions declare, the newest first, and what the calls mean."""
    options = [(f"-I{include}", "-D__HIP_PLATFORM_AMD__") for include in includes]
    headers = reduce(merged, (read(TEXT, each, "hip") for each in options))
    names = {f.name for f in headers.functions}
    rules = Rules(
        api="hip",
        title="HIP",
        head=HEAD,
        text=TEXT,
        options=options[0],
        prefix="hip",
        error="hipError_t",
        top={"anchor": "hipApiName", "preload": "{variants: 2}"},
        skip=_skip,
        shown=_shown,
        exported=lambda name: _EXPORTED.get(name, name),
        variants={name: f"{name}_spt" for name in names if f"{name}_spt" in names},
        level=_level,
        blocking=lambda name: bool(_BLOCKING.match(name)) and "Async" not in name and "MultiDevice" not in name,
        bytes=_bytes,
        activity=_activity,
        memory=_memory,
        not_failed=lambda name: 600 if _shown(name) in ("hipStreamQuery", "hipEventQuery") else None,
        never_fails=lambda name: bool(re.match(r"hip(Ext)?(Get|PeekAt)LastError$", name)),
        outputs=_outputs,
        inputs=_inputs,
        flags={(name, argument): enum for name, (argument, enum) in _FLAGS.items()},
        bits=_BITS,
    )
    return headers, rules
