#!/usr/bin/env python3
"""Writes tracepoints/opencl.yaml: facts from the OpenCL headers, joined with the rules of meaning kept below.

The headers say what exists (dispatch table, signatures, constants); what a call *means* (when it failed, whether it
blocks, what it moves, how it is recorded) stands in this file. Run by hand when the headers
move; the YAML is committed.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

HEADERS = ("cl.h", "cl_gl.h", "cl_egl.h", "cl_ext.h", "cl_icd.h")
ERROR_HEADERS = ("cl_ext.h", "cl_gl.h", "cl_egl.h", "cl_d3d10.h", "cl_d3d11.h", "cl_dx9_media_sharing.h")

HEAD = """\
# The OpenCL model: every function of the ICD dispatch table (cl_icd_dispatch) in its order, and what each call means.
# First written by tools/import_opencl.py from the OpenCL headers; this file is what the generator reads.
#
# types      kind int | enum | bitfield | handle | pointer | float, width in bits; `declare` is the C declaration of a
#            type that the headers leave without a name (callbacks).
# functions  slot        place in the dispatch table; `passthrough` slots exist on Windows only (void * here)
#            failed      how a failure shows: a field of the event, an operator and a value (absent: cannot be known)
#            level       what a recording level writes: event, tally or off ("full" is always event, "tally" tally)
#            blocking    true, or the argument that decides; such calls also write a <function>_begin event
#            bytes       the argument that says how much is moved or allocated
#            activity    the device work that the call enqueues; kind `copy` is settled by the addresses (SVM)
#            extra       fields read out of a structure argument: C expressions, evaluated before the call
# args       out         the value written through the pointer is recorded after the call
#            ensure      a location of ours is passed where the program gives none, so that the value is always known
#            array       number of elements: an argument, a number, `zero_terminated`, or `zero_terminated_pairs` (a
#                        list of keys and values that ends at a key of zero)
#            string      zero-terminated text
#            blob        raw bytes, as many as the argument named here says
"""

# Callback arguments have no type of their own in the headers.
CALLBACKS = {
    "cl_context_notify": "void (CL_CALLBACK *cl_context_notify)(const char *, const void *, size_t, void *)",
    "cl_context_destructor": "void (CL_CALLBACK *cl_context_destructor)(cl_context, void *)",
    "cl_program_notify": "void (CL_CALLBACK *cl_program_notify)(cl_program, void *)",
    "cl_event_notify": "void (CL_CALLBACK *cl_event_notify)(cl_event, cl_int, void *)",
    "cl_mem_destructor": "void (CL_CALLBACK *cl_mem_destructor)(cl_mem, void *)",
    "cl_native_function": "void (CL_CALLBACK *cl_native_function)(void *)",
    "cl_svm_free_function": "void (CL_CALLBACK *cl_svm_free_function)(cl_command_queue, cl_uint, void **, void *)",
}
CALLBACK_OF = {
    ("clCreateContext", "pfn_notify"): "cl_context_notify",
    ("clCreateContextFromType", "pfn_notify"): "cl_context_notify",
    ("clSetContextDestructorCallback", "pfn_notify"): "cl_context_destructor",
    ("clBuildProgram", "pfn_notify"): "cl_program_notify",
    ("clCompileProgram", "pfn_notify"): "cl_program_notify",
    ("clLinkProgram", "pfn_notify"): "cl_program_notify",
    ("clSetProgramReleaseCallback", "pfn_notify"): "cl_program_notify",
    ("clSetEventCallback", "pfn_notify"): "cl_event_notify",
    ("clSetMemObjectDestructorCallback", "pfn_notify"): "cl_mem_destructor",
    ("clEnqueueNativeKernel", "user_func"): "cl_native_function",
    ("clEnqueueSVMFree", "pfn_free_func"): "cl_svm_free_function",
}

# Calls that are only counted and timed by default: queries, reference counts, polls, what is called once per argument.
TALLIED = re.compile(
    r"cl(Get|Retain|Release|SetKernelArg|SetKernelExecInfo|UnloadCompiler|UnloadPlatformCompiler"
    r"|CreateSampler|SetProgramSpecializationConstant)"
)
BLOCKING = {
    **dict.fromkeys(("clFinish", "clWaitForEvents", "clBuildProgram", "clCompileProgram", "clLinkProgram"), "true"),
    **dict.fromkeys(("clEnqueueReadBuffer", "clEnqueueReadBufferRect", "clEnqueueReadImage"), "blocking_read"),
    **dict.fromkeys(("clEnqueueWriteBuffer", "clEnqueueWriteBufferRect", "clEnqueueWriteImage"), "blocking_write"),
    **dict.fromkeys(("clEnqueueMapBuffer", "clEnqueueMapImage", "clEnqueueSVMMap"), "blocking_map"),
    "clEnqueueSVMMemcpy": "blocking_copy",
}
BYTES = {
    **dict.fromkeys(
        (
            "clCreateBuffer",
            "clCreateBufferWithProperties",
            "clSVMAlloc",
            "clEnqueueReadBuffer",
            "clEnqueueWriteBuffer",
            "clEnqueueCopyBuffer",
            "clEnqueueFillBuffer",
            "clEnqueueMapBuffer",
            "clEnqueueSVMMemcpy",
            "clEnqueueSVMMemFill",
            "clEnqueueSVMMap",
        ),
        "size",
    ),
}
# The device work behind each clEnqueue*: the kinds of occatrace_device:activity.
ACTIVITY = {
    "clEnqueueNDRangeKernel": "kernel",
    "clEnqueueTask": "kernel",
    "clEnqueueNativeKernel": "native",
    "clEnqueueReadBuffer": "DtoH",
    "clEnqueueReadBufferRect": "DtoH",
    "clEnqueueReadImage": "DtoH",
    "clEnqueueWriteBuffer": "HtoD",
    "clEnqueueWriteBufferRect": "HtoD",
    "clEnqueueWriteImage": "HtoD",
    "clEnqueueCopyBuffer": "DtoD",
    "clEnqueueCopyBufferRect": "DtoD",
    "clEnqueueCopyImage": "DtoD",
    "clEnqueueCopyImageToBuffer": "DtoD",
    "clEnqueueCopyBufferToImage": "DtoD",
    "clEnqueueFillBuffer": "fill",
    "clEnqueueFillImage": "fill",
    "clEnqueueMapBuffer": "map",
    "clEnqueueMapImage": "map",
    "clEnqueueUnmapMemObject": "unmap",
    "clEnqueueMigrateMemObjects": "migrate",
    "clEnqueueMarker": "marker",
    "clEnqueueMarkerWithWaitList": "marker",
    "clEnqueueBarrier": "marker",
    "clEnqueueBarrierWithWaitList": "marker",
    "clEnqueueWaitForEvents": "marker",
    "clEnqueueSVMFree": "other",
    "clEnqueueSVMMemcpy": "copy",
    "clEnqueueSVMMemFill": "fill",
    "clEnqueueSVMMap": "map",
    "clEnqueueSVMUnmap": "unmap",
    "clEnqueueSVMMigrateMem": "migrate",
    "clEnqueueAcquireGLObjects": "other",
    "clEnqueueReleaseGLObjects": "other",
    "clEnqueueAcquireEGLObjectsKHR": "other",
    "clEnqueueReleaseEGLObjectsKHR": "other",
}
# Arguments whose meaning the signature does not tell: length of an array, enumeration of a plain integer, raw bytes.
ARRAYS = {
    "platforms": "num_entries",
    "event_wait_list": "num_events_in_wait_list",
    "event_list": "num_events",
    "mem_list": "num_mem_objects",
    "image_formats": "num_entries",
    "out_devices": "num_devices",
    "device_list": "num_devices",
    "kernels": "num_kernels",
    "input_headers": "num_input_headers",
    "input_programs": "num_input_programs",
    "svm_pointers": "num_svm_pointers",
    "sizes": "num_svm_pointers",
    "binary_status": "num_devices",
    "global_work_offset": "work_dim",
    "global_work_size": "work_dim",
    "local_work_size": "work_dim",
    "properties": "zero_terminated_pairs",
    "partition_properties": "zero_terminated",
    "sampler_properties": "zero_terminated_pairs",
    **dict.fromkeys(
        ("buffer_origin", "host_origin", "src_origin", "dst_origin", "origin", "region"),
        "3",
    ),
}
ARRAYS_OF = {
    ("clCreateSubDevices", "properties"): "zero_terminated",
    ("clCreateSubDevicesEXT", "properties"): "zero_terminated",
    ("clCreateSubDevicesEXT", "out_devices"): "num_entries",
    ("clGetDeviceIDs", "devices"): "num_entries",
    ("clCreateContext", "devices"): "num_devices",
    ("clCreateProgramWithBinary", "lengths"): "num_devices",
    ("clEnqueueMigrateMemObjects", "mem_objects"): "num_mem_objects",
    **{
        (f"clEnqueue{verb}{api}Objects{suffix}", "mem_objects"): "num_objects"
        for verb in ("Acquire", "Release")
        for api, suffix in (("GL", ""), ("EGL", "KHR"))
    },
}
ENUMS_OF = {
    "errcode_ret": "cl_error",
    "binary_status": "cl_error",
    "command_exec_callback_type": "cl_execution_status",
    "execution_status": "cl_execution_status",
}
BLOBS = {
    ("clSetKernelArg", "arg_value"): "arg_size",
    ("clEnqueueFillBuffer", "pattern"): "pattern_size",
    ("clEnqueueSVMMemFill", "pattern"): "pattern_size",
    ("clSetProgramSpecializationConstant", "spec_value"): "spec_size",
}
STRINGS = {"kernel_name", "kernel_names", "options", "function_name", "func_name"}
# Memory that the program gets back or hands over: an address, never read through.
OPAQUE = {"host_ptr", "ptr", "param_value", "param_value_size_ret", "mapped_ptr", "svm_pointer", "svm_ptr", "user_data"}
EXTRA = {
    "clCreateSubBuffer": [
        ("origin", "size_t", "static_cast<const cl_buffer_region *>(buffer_create_info)->origin", "buffer_create_info"),
        ("size", "size_t", "static_cast<const cl_buffer_region *>(buffer_create_info)->size", "buffer_create_info"),
    ],
    **{
        name: [
            ("channel_order", "cl_channel_order", "image_format->image_channel_order", "image_format"),
            ("channel_type", "cl_channel_type", "image_format->image_channel_data_type", "image_format"),
            ("image_type", "cl_mem_object_type", "image_desc->image_type", "image_desc"),
            ("width", "size_t", "image_desc->image_width", "image_desc"),
            ("height", "size_t", "image_desc->image_height", "image_desc"),
            ("depth", "size_t", "image_desc->image_depth", "image_desc"),
        ]
        for name in ("clCreateImage", "clCreateImageWithProperties")
    },
    **{
        name: [
            ("channel_order", "cl_channel_order", "image_format->image_channel_order", "image_format"),
            ("channel_type", "cl_channel_type", "image_format->image_channel_data_type", "image_format"),
        ]
        for name in ("clCreateImage2D", "clCreateImage3D")
    },
}
# A pointer result that is not a handle: null means failure here.
NULL_IS_FAILURE = {"clSVMAlloc"}

BASE_TYPES = {
    "int": ("int", 32, True),
    "unsigned int": ("int", 32, False),
    "cl_int": ("int", 32, True),
    "cl_uint": ("int", 32, False),
    "cl_ulong": ("int", 64, False),
    "size_t": ("int", 64, False),
    "intptr_t": ("int", 64, True),
    "cl_GLint": ("int", 32, True),
    "cl_GLuint": ("int", 32, False),
    "cl_GLenum": ("int", 32, False),
}


@dataclass(frozen=True)
class Arg:
    name: str
    type: str


@dataclass(frozen=True)
class Function:
    name: str
    returns: str
    args: tuple[Arg, ...]


@dataclass(frozen=True)
class Enum:
    bitfield: bool
    values: dict[str, int]


def squeeze(text: str) -> str:
    """One space between words and before stars, none between or after stars."""
    text = re.sub(r"\s+", " ", text).strip()
    return re.sub(r"\s*((?:\*\s*)+)", lambda stars: " " + stars[1].replace(" ", ""), text).strip()


def split_args(text: str) -> list[str]:
    depth, start, parts = 0, 0, []
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


def parse_arg(function: str, text: str) -> Arg:
    callback = re.search(r"\(\s*CL_CALLBACK\s*\*\s*(\w+)\s*\)", text)
    if callback:
        return Arg(callback[1], CALLBACK_OF[function, callback[1]])
    array = re.fullmatch(r"(.*?)(\w+)\s*\[\d*\]", text.strip(), re.S)
    if array:
        return Arg(array[2], squeeze(array[1] + "*"))
    plain = re.fullmatch(r"(.*?)(\w+)", text.strip(), re.S)
    if not plain:
        raise ValueError(f"{function}: cannot read the argument {text!r}")
    return Arg(plain[2], squeeze(plain[1]))


def without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)


def prototypes(text: str, wanted: set[str]) -> Iterator[Function]:
    text = re.sub(r"^\s*#.*$", "", without_comments(text), flags=re.M)
    text = re.sub(r"CL_API_(SUFFIX|PREFIX)__\w+|CL_EXT_\w+", " ", text)
    for match in re.finditer(r"extern CL_API_ENTRY([^;]*?)CL_API_CALL\s+(\w+)\s*\(([^;]*)\)\s*;", text, re.S):
        returns, name, args = squeeze(match[1]), match[2], match[3].strip()
        if name in wanted:
            parsed = () if args == "void" else tuple(parse_arg(name, arg) for arg in split_args(args))
            yield Function(name, returns, parsed)


def dispatch_table(text: str) -> list[str]:
    body = re.search(r"typedef struct _cl_icd_dispatch \{(.*?)\} cl_icd_dispatch;", without_comments(text), re.S)
    if not body:
        raise ValueError("cl_icd.h holds no dispatch table")
    return re.findall(r"cl_api_\w+\s+(\w+)\s*;", body[1])


def constant(text: str) -> int | None:
    shift = re.fullmatch(r"\(1 << (\d+)\)", text)
    if shift:
        return 1 << int(shift[1])
    return int(text, 0) if re.fullmatch(r"-?(0x[0-9A-Fa-f]+|\d+)", text) else None


def enums(texts: dict[str, str]) -> dict[str, Enum]:
    """The constants of cl.h and cl_gl.h, by the comment that opens each group."""
    found: dict[str, Enum] = {}
    titles = {"Error Codes": "cl_error", "command execution status": "cl_execution_status"}
    for header in ("cl.h", "cl_gl.h"):
        current: Enum | None = None
        for line in texts[header].splitlines():
            title = re.match(r"/\* (?:(Error Codes|command execution status)|(cl_\w+)[^*]*?(- bitfield)?)\s*\*/", line)
            if title:
                name = titles.get(title[1] or "", title[2])
                current = found[name] = Enum(bool(title[3]), {})
            elif re.match(r"/\* [A-Z]\w+ .*\*/|/\*{5}", line):
                current = None
            define = re.match(r"#define\s+(CL_\w+)\s+(\(.*?\)|\S+)", line)
            value = constant(define[2]) if define else None
            if define and current is not None and value is not None:
                # A renamed constant stands after the deprecated one: the later name wins.
                for older in [text for text, number in current.values.items() if number == value]:
                    del current.values[older]
                current.values[define[1]] = value
    for header in ERROR_HEADERS:
        for name, number in re.findall(r"#define\s+(CL_[A-Z0-9_]+)\s+\(?(-1\d{3})\)?", texts[header]):
            if int(number) not in found["cl_error"].values.values():
                found["cl_error"].values[name] = int(number)
    found["cl_svm_mem_flags"] = found["cl_mem_flags"]
    # "any device" is a mask of its own; as a bit it would hide the others.
    found["cl_device_type"].values.pop("CL_DEVICE_TYPE_ALL", None)
    return {name: enum for name, enum in found.items() if enum.values}


def typedefs(texts: dict[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for header in ("cl.h", "cl_gl.h", "cl_egl.h", "cl_ext.h"):
        pattern = r"^typedef\s+([\w ]+?(?:\s*\*)?)\s*\b(\w+);"
        for base, name in re.findall(pattern, without_comments(texts[header]), re.M):
            found.setdefault(name, squeeze(base))
    return found


def type_entry(name: str, defs: dict[str, str], all_enums: dict[str, Enum]) -> str:
    if name in CALLBACKS:
        return f'{{kind: pointer, declare: "{CALLBACKS[name]}"}}'
    if name == "void" or name in ("char", "unsigned char"):
        return ""
    base = name
    while base in defs and base not in BASE_TYPES:
        base = defs[base]
    if base.startswith("struct") and base.endswith("*"):
        return "{kind: handle}"
    if base == "void *":
        return "{kind: pointer}"
    if base not in BASE_TYPES:
        return "{kind: struct}"
    _, bits, signed = BASE_TYPES[base]
    if name in all_enums:
        kind = "bitfield" if all_enums[name].bitfield else "enum"
        sign = ", signed: true" if signed else ""
        return f"{{kind: {kind}, enum: {name}, bits: {bits}{sign}}}"
    return f"{{kind: int, bits: {bits}, signed: {str(signed).lower()}}}"


def base_of(type_name: str) -> str:
    return re.sub(r"\bconst\b|\*", "", type_name).strip()


def arg_entry(function: str, arg: Arg) -> str:
    parts = [f"name: {arg.name}"]
    parts.append(f'type: "{arg.type}"' if re.search(r"[*&\[\]{},]", arg.type) else f"type: {arg.type}")
    pointer = arg.type.endswith("*")
    if arg.name in STRINGS:
        parts.append("string: true")
    elif (function, arg.name) in BLOBS:
        parts.append(f"blob: {BLOBS[function, arg.name]}")
    elif pointer and arg.name not in OPAQUE:
        length = ARRAYS_OF.get((function, arg.name)) or ARRAYS.get(arg.name)
        opaque = base_of(arg.type) in ("void", "cl_image_format", "cl_image_desc") and not length
        if length and base_of(arg.type) != "cl_image_format":
            parts.append(f"array: {length}")
        written = not arg.type.startswith("const") and not opaque and arg.name not in ("svm_pointers", "args")
        if written and base_of(arg.type) not in ("void", "cl_image_format", "char"):
            parts.append("out: true")
    if arg.name == "param_value_size_ret" or (arg.name, arg.type) == ("image_slice_pitch", "size_t *"):
        parts = [part for part in parts if part != "out: true"] + ["out: true"]
    if arg.name == "errcode_ret":
        parts.append("ensure: true")
    if arg.name in ENUMS_OF:
        parts.append(f"enum: {ENUMS_OF[arg.name]}")
    if BYTES.get(function) == arg.name:
        parts.append("role: bytes")
    return "{" + ", ".join(parts) + "}"


def function_entry(slot: int, function: Function) -> Iterator[str]:
    name, names = function.name, {arg.name for arg in function.args}
    yield f"- name: {name}"
    yield f"  slot: {slot}"
    result = f'"{function.returns}"' if "*" in function.returns else function.returns
    if function.returns == "cl_int":
        yield "  returns: {type: cl_int, enum: cl_error}"
        yield '  failed: {field: ret, op: "!=", value: 0}'
    else:
        yield f"  returns: {{type: {result}}}"
        if "errcode_ret" in names:
            yield '  failed: {field: errcode_ret, op: "!=", value: 0}'
        elif name in NULL_IS_FAILURE:
            yield '  failed: {field: ret, op: "==", value: 0}'
    yield f"  level: {{default: {'tally' if TALLIED.match(name) else 'event'}, minimal: tally}}"
    if name in BLOCKING:
        if BLOCKING[name] != "true" and BLOCKING[name] not in names:
            raise ValueError(f"{name} has no argument {BLOCKING[name]}")
        yield f"  blocking: {BLOCKING[name]}"
    if name in BYTES:
        if BYTES[name] not in names:
            raise ValueError(f"{name} has no argument {BYTES[name]}")
        yield f"  bytes: {BYTES[name]}"
    if name in ACTIVITY:
        event = ", event: event" if "event" in names else ""
        yield f"  activity: {{kind: {ACTIVITY[name]}, queue: command_queue{event}}}"
    elif name.startswith("clEnqueue"):
        raise ValueError(f"{name}: no activity kind is given")
    if function.args:
        yield "  args:"
        for arg in function.args:
            yield f"  - {arg_entry(name, arg)}"
    else:
        yield "  args: []"
    if name in EXTRA:
        yield "  extra:"
        for field, type_name, value, guard in EXTRA[name]:
            yield f'  - {{name: {field}, type: {type_name}, value: "{guard} ? {value} : 0"}}'


def enum_entry(name: str, enum: Enum) -> Iterator[str]:
    yield f"  {name}:"
    if enum.bitfield:
        yield "    bitfield: true"
    yield "    values:"
    for text, value in enum.values.items():
        yield f"      {text}: {value if value < 10 else hex(value) if not enum.bitfield else value}"


def model(include: Path) -> Iterable[str]:
    wanted = dict.fromkeys((*HEADERS, *ERROR_HEADERS))
    texts = {name: (include / name).read_text(encoding="utf-8") for name in wanted}
    table = dispatch_table(texts["cl_icd.h"])
    known: dict[str, Function] = {}
    for header in HEADERS[:-1]:
        for prototype in prototypes(texts[header], set(table)):
            known.setdefault(prototype.name, prototype)
    all_enums, defs = enums(texts), typedefs(texts)

    functions = [(slot, known.get(name), name) for slot, name in enumerate(table)]
    used_types: dict[str, None] = {}
    for _, function, _ in functions:
        if function:
            for type_name in (function.returns, *(arg.type for arg in function.args)):
                used_types.setdefault(base_of(type_name))
    for fields in EXTRA.values():
        for _, type_name, _, _ in fields:
            used_types.setdefault(type_name)
    used_enums = {name for name in all_enums if name in used_types} | {"cl_error", "cl_execution_status"}

    yield HEAD.rstrip("\n")
    yield "api: opencl"
    yield "title: OpenCL"
    yield "provider: occatrace_opencl"
    yield "headers: [CL/cl_layer.h]"
    yield "enums:"
    for name, enum in all_enums.items():
        if name in used_enums:
            yield from enum_entry(name, enum)
    yield "types:"
    for name in used_types:
        entry = type_entry(name, defs, all_enums)
        if entry:
            yield f"  {name}: {entry}" if " " not in name else f'  "{name}": {entry}'
    yield "functions:"
    for slot, maybe, name in functions:
        if maybe:
            yield from function_entry(slot, maybe)
        elif "D3D" in name or "DX9" in name:
            yield f"- {{name: {name}, slot: {slot}, passthrough: true}}"
        else:
            raise ValueError(f"no prototype of {name}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--include", type=Path, default=Path("/usr/include/CL"), help="folder of cl.h")
    default = Path(__file__).resolve().parent.parent / "tracepoints" / "opencl.yaml"
    parser.add_argument("-o", "--output", type=Path, default=default)
    options = parser.parse_args()
    try:
        text = "\n".join(model(options.include)) + "\n"
    except (OSError, ValueError) as error:
        print(f"import_opencl: {error}", file=sys.stderr)
        return 1
    options.output.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
