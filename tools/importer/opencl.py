"""What the calls of OpenCL mean.

The headers say what exists (dispatch table, signatures, constants); what a call means (when it failed, whether it blocks, what it
moves, how it is recorded) stands here. The headers are read as text, because their order and their comments count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .clang import ImportFailed
from .writer import flow

HEADERS = ("cl.h", "cl_gl.h", "cl_egl.h", "cl_ext.h", "cl_icd.h")
ERROR_HEADERS = ("cl_ext.h", "cl_gl.h", "cl_egl.h", "cl_d3d10.h", "cl_d3d11.h", "cl_dx9_media_sharing.h")

HEAD = """\
# The OpenCL model: every function of the ICD dispatch table (cl_icd_dispatch) in its order, and what each call means.
# Written by tools/import_headers.py opencl, which holds the rules; this file is what the generator reads.
#
# types      kind int | enum | bitfield | handle | pointer | float, width in bits; `declare` is the C declaration of a
#            type that the headers leave without a name (callbacks).
# functions  slot        place in the dispatch table; `passthrough` slots exist on Windows only (void * here)
#            extension   not in the table: programs ask a platform for its address by name
#            failed      how a failure shows: a field of the event, an operator and a value (absent: cannot be known)
#            level       what a recording level writes: event, tally or off ("full" is always event, "tally" tally)
#            blocking    true, or the argument that decides; such calls also write a <function>_begin event
#            bytes       the argument that says how much is moved or allocated
#            allocates   the call makes memory known: fields of its handle, bytes, parent (a part counts no bytes), context,
#                        scope (the OCCA call around); kind is one of the generator's MEMORY_KINDS, or follows from flags
#            frees       the call (or record) ends the memory of a handle or of an array of them; `unless`: a field that
#                        says that it does not
#            compiles    the call builds code for a device
#            activity    the device work that the call enqueues; kind `copy` is settled by the addresses (SVM). Its expressions
#                        are C++ over the arguments (tools/generator/model.py: Activity)
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
# PoCL compiles in clGetProgramInfo, for seconds.
TALLIED = re.compile(
    r"cl(Get(?!ProgramInfo$)|Retain|Release|SetKernelArg|SetKernelExecInfo|UnloadCompiler|UnloadPlatformCompiler"
    r"|CreateSampler|SetProgramSpecializationConstant)"
)
BLOCKING = {
    **dict.fromkeys(("clFinish", "clWaitForEvents", "clBuildProgram", "clCompileProgram", "clLinkProgram"), "true"),
    **dict.fromkeys(("clEnqueueReadBuffer", "clEnqueueReadBufferRect", "clEnqueueReadImage"), "blocking_read"),
    **dict.fromkeys(("clEnqueueWriteBuffer", "clEnqueueWriteBufferRect", "clEnqueueWriteImage"), "blocking_write"),
    **dict.fromkeys(("clEnqueueMapBuffer", "clEnqueueMapImage", "clEnqueueSVMMap"), "blocking_map"),
    "clEnqueueSVMMemcpy": "blocking_copy",
    "clEnqueueMemcpyINTEL": "blocking",
    "clMemBlockingFreeINTEL": "true",
    **dict.fromkeys(("clEnqueueReadGlobalVariableINTEL", "clEnqueueReadHostPipeINTEL"), "blocking_read"),
    **dict.fromkeys(("clEnqueueWriteGlobalVariableINTEL", "clEnqueueWriteHostPipeINTEL"), "blocking_write"),
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
            "clHostMemAllocINTEL",
            "clDeviceMemAllocINTEL",
            "clSharedMemAllocINTEL",
            "clEnqueueMemsetINTEL",
            "clEnqueueMemFillINTEL",
            "clEnqueueMemcpyINTEL",
            "clEnqueueMigrateMemINTEL",
            "clEnqueueReadGlobalVariableINTEL",
            "clEnqueueWriteGlobalVariableINTEL",
            "clEnqueueReadHostPipeINTEL",
            "clEnqueueWriteHostPipeINTEL",
            "clCreateBufferWithPropertiesINTEL",
            "clImportMemoryARM",
            "clSVMAllocWithPropertiesKHR",
        ),
        "size",
    ),
}
# Functions of extensions, which programs ask a platform for by name.
EXTENSIONS = (
    "clHostMemAllocINTEL",
    "clDeviceMemAllocINTEL",
    "clSharedMemAllocINTEL",
    "clMemFreeINTEL",
    "clMemBlockingFreeINTEL",
    "clGetMemAllocInfoINTEL",
    "clSetKernelArgMemPointerINTEL",
    "clEnqueueMemsetINTEL",
    "clEnqueueMemFillINTEL",
    "clEnqueueMemcpyINTEL",
    "clEnqueueMigrateMemINTEL",
    "clEnqueueMemAdviseINTEL",
    "clCreateCommandBufferKHR",
    "clRetainCommandBufferKHR",
    "clReleaseCommandBufferKHR",
    "clFinalizeCommandBufferKHR",
    "clEnqueueCommandBufferKHR",
    "clCommandNDRangeKernelKHR",
    "clCommandCopyBufferKHR",
    "clCommandCopyBufferRectKHR",
    "clCommandCopyBufferToImageKHR",
    "clCommandCopyImageKHR",
    "clCommandCopyImageToBufferKHR",
    "clCommandFillBufferKHR",
    "clCommandFillImageKHR",
    "clCommandSVMMemcpyKHR",
    "clCommandSVMMemFillKHR",
    "clCommandBarrierWithWaitListKHR",
    "clGetCommandBufferInfoKHR",
    "clUpdateMutableCommandsKHR",
    "clGetMutableCommandInfoKHR",
    "clCreateSemaphoreWithPropertiesKHR",
    "clRetainSemaphoreKHR",
    "clReleaseSemaphoreKHR",
    "clEnqueueWaitSemaphoresKHR",
    "clEnqueueSignalSemaphoresKHR",
    "clGetSemaphoreInfoKHR",
    "clGetSemaphoreHandleForTypeKHR",
    "clEnqueueAcquireExternalMemObjectsKHR",
    "clEnqueueReleaseExternalMemObjectsKHR",
    "clCreateProgramWithILKHR",
    "clGetKernelSuggestedLocalWorkSizeKHR",
    "clSVMAllocWithPropertiesKHR",
    "clSVMFreeWithPropertiesKHR",
    "clGetSVMPointerInfoKHR",
    "clSetKernelArgDevicePointerEXT",
    "clImportMemoryARM",
    "clCreateBufferWithPropertiesINTEL",
    "clEnqueueReadGlobalVariableINTEL",
    "clEnqueueWriteGlobalVariableINTEL",
    "clEnqueueReadHostPipeINTEL",
    "clEnqueueWriteHostPipeINTEL",
)
# Of these the headers of Debian 12 have none, or an older signature. Types that they lack stand as what they are made of.
_RECORDED = """const cl_sync_point_khr *sync_point_wait_list, cl_sync_point_khr *sync_point, cl_mutable_command_khr *mutable_handle"""
_INTO = "cl_command_buffer_khr command_buffer, cl_command_queue command_queue, const cl_properties *properties"
_QUEUED = "cl_uint num_events_in_wait_list, const cl_event *event_wait_list, cl_event *event"
_RECT = (
    "const size_t *src_origin, const size_t *dst_origin, const size_t *region, size_t src_row_pitch, size_t src_slice_pitch,"
    " size_t dst_row_pitch, size_t dst_slice_pitch"
)
_PATTERN = "const void *pattern, size_t pattern_size"
_INFO = "size_t param_value_size, void *param_value, size_t *param_value_size_ret"
_PIPE_OF = "cl_command_queue command_queue, cl_program program, const char *pipe_symbol"
_VARIABLE_OF = "cl_command_queue command_queue, cl_program program, const char *variable_name"
LATER: Mapping[str, tuple[str, str]] = {
    **{
        f"clCommand{what}KHR": ("cl_int", f"{_INTO}{arguments}, cl_uint num_sync_points_in_wait_list, {_RECORDED}")
        for what, arguments in (
            (
                "NDRangeKernel",
                ", cl_kernel kernel, cl_uint work_dim, const size_t *global_work_offset, const size_t *global_work_size,"
                " const size_t *local_work_size",
            ),
            ("CopyBuffer", ", cl_mem src_buffer, cl_mem dst_buffer, size_t src_offset, size_t dst_offset, size_t size"),
            ("CopyBufferRect", f", cl_mem src_buffer, cl_mem dst_buffer, {_RECT}"),
            (
                "CopyBufferToImage",
                ", cl_mem src_buffer, cl_mem dst_image, size_t src_offset, const size_t *dst_origin, const size_t *region",
            ),
            (
                "CopyImage",
                ", cl_mem src_image, cl_mem dst_image, const size_t *src_origin, const size_t *dst_origin,"
                " const size_t *region",
            ),
            (
                "CopyImageToBuffer",
                ", cl_mem src_image, cl_mem dst_buffer, const size_t *src_origin, const size_t *region, size_t dst_offset",
            ),
            ("FillBuffer", f", cl_mem buffer, {_PATTERN}, size_t offset, size_t size"),
            ("FillImage", ", cl_mem image, const void *fill_color, const size_t *origin, const size_t *region"),
            ("SVMMemcpy", ", void *dst_ptr, const void *src_ptr, size_t size"),
            ("SVMMemFill", f", void *svm_ptr, {_PATTERN}, size_t size"),
            ("BarrierWithWaitList", ""),
        )
    },
    "clUpdateMutableCommandsKHR": (
        "cl_int",
        "cl_command_buffer_khr command_buffer, cl_uint num_configs, const cl_uint *config_types, const void **configs",
    ),
    "clCreateSemaphoreWithPropertiesKHR": (
        "cl_semaphore_khr",
        "cl_context context, const cl_properties *sema_props, cl_int *errcode_ret",
    ),
    "clSVMAllocWithPropertiesKHR": (
        "void *",
        "cl_context context, const cl_properties *properties, cl_uint svm_type_index, size_t size, cl_int *errcode_ret",
    ),
    "clSVMFreeWithPropertiesKHR": (
        "cl_int",
        "cl_context context, const cl_properties *properties, cl_bitfield flags, void *ptr",
    ),
    "clGetSVMPointerInfoKHR": (
        "cl_int",
        f"cl_context context, cl_device_id device, const void *ptr, cl_uint param_name, {_INFO}",
    ),
    "clSetKernelArgDevicePointerEXT": ("cl_int", "cl_kernel kernel, cl_uint arg_index, cl_ulong arg_value"),
    **{
        f"clEnqueue{verb}GlobalVariableINTEL": (
            "cl_int",
            f"{_VARIABLE_OF}, cl_bool blocking_{verb.lower()}, size_t size, size_t offset, {memory} *ptr, {_QUEUED}",
        )
        for verb, memory in (("Read", "void"), ("Write", "const void"))
    },
    **{
        f"clEnqueue{verb}HostPipeINTEL": (
            "cl_int",
            f"{_PIPE_OF}, cl_bool blocking_{verb.lower()}, {memory} *ptr, size_t size, {_QUEUED}",
        )
        for verb, memory in (("Read", "void"), ("Write", "const void"))
    },
}
_SCOPE = ("scope", "uint32_t", "c.self->scope_seq", {"doc": "number of the OCCA call around it, 4294967295: none"})
_IMAGE = ("bytes", "size_t", "0", {"doc": "what the image takes, as the driver says", "unit": "bytes"})
_PIPE = (
    "bytes",
    "size_t",
    "static_cast<size_t>(pipe_packet_size) * pipe_max_packets",
    {"doc": "room for packets", "unit": "bytes"},
)
_WRAPPED = {"CL_MEM_USE_HOST_PTR": "wrapped"}
_IN_FLAGS = {"field": "flags", "bits": {**_WRAPPED, "CL_MEM_ALLOC_HOST_PTR": "host"}}
_OF_IMAGE = {"field": "flags", "bits": _WRAPPED, "otherwise": "image"}
# What a call allocates: the field of its bytes and the kind of memory.
ALLOCATES: Mapping[str, tuple[str, object]] = {
    **dict.fromkeys(
        ("clCreateBuffer", "clCreateBufferWithProperties", "clCreateBufferWithPropertiesINTEL"), ("size", _IN_FLAGS)
    ),
    **dict.fromkeys(
        ("clCreateImage", "clCreateImageWithProperties", "clCreateImage2D", "clCreateImage3D"), ("bytes", _OF_IMAGE)
    ),
    "clCreateSubBuffer": ("size", "slice"),
    "clCreatePipe": ("bytes", "pipe"),
    "clSVMAlloc": ("size", "svm"),
    "clImportMemoryARM": ("size", "wrapped"),
    "clSVMAllocWithPropertiesKHR": ("size", "svm"),
    "clHostMemAllocINTEL": ("size", "host"),
    "clDeviceMemAllocINTEL": ("size", "device"),
    "clSharedMemAllocINTEL": ("size", "managed"),
}
FREES = {
    "clSVMFree": {"handle": "svm_pointer"},
    "clEnqueueSVMFree": {"handle": "svm_pointers", "unless": "pfn_free_func"},
    "clSVMFreeWithPropertiesKHR": {"handle": "ptr"},
    "clMemFreeINTEL": {"handle": "ptr"},
    "clMemBlockingFreeINTEL": {"handle": "ptr"},
}
COMPILES = ("clBuildProgram", "clCompileProgram", "clLinkProgram")
# What a copy reads and writes: an argument that holds an address, or a place on the device.
COPIES = {
    **dict.fromkeys(("clEnqueueReadBuffer", "clEnqueueReadBufferRect"), ("device", "ptr")),
    **dict.fromkeys(("clEnqueueWriteBuffer", "clEnqueueWriteBufferRect"), ("ptr", "device")),
    "clEnqueueReadImage": ("array", "ptr"),
    "clEnqueueWriteImage": ("ptr", "array"),
    **dict.fromkeys(("clEnqueueReadGlobalVariableINTEL", "clEnqueueReadHostPipeINTEL"), ("device", "ptr")),
    **dict.fromkeys(("clEnqueueWriteGlobalVariableINTEL", "clEnqueueWriteHostPipeINTEL"), ("ptr", "device")),
    **dict.fromkeys(("clEnqueueSVMMemcpy", "clEnqueueMemcpyINTEL"), ("src_ptr", "dst_ptr")),
}
MAPS = {"clEnqueueMapBuffer": {"memory": "buffer", "address": "ret", "bytes": "size"}}
# Written above a line of the file.
COMMENTS = {
    "clHostMemAllocINTEL": "# Intel's unified memory (cl_intel_unified_shared_memory), as far as it is in wide use: what SYCL on"
    " OpenCL works with.",
    "clCreateCommandBufferKHR": "# Command buffers (cl_khr_command_buffer 0.9.5 and later; before it most clCommand… had no"
    " properties).",
    "frees: clEnqueueSVMFree": "  # With a function of its own the program frees in it, by whatever it calls there.",
}
RELEASING = """\
  releasing:
    constants: OCCATRACE_RELEASED_BY_
    values:
      later: 0  # the driver, when the last command or object that used it ended
      clReleaseMemObject: 1
      clReleaseKernel: 2
"""
RECORDS = """\
records:
- name: memory_released
  doc: >-
    The end of a memory object: its last reference is gone and nothing uses it any more. The driver says so, whatever
    released it; the calls of clReleaseMemObject are only counted.
  frees: {handle: memobj, by: by}
  fields:
  - {name: memobj, type: handle, doc: "the memory object"}
  - {name: by, type: u8, enum: releasing, doc: "the call that released it"}
"""
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
    "clEnqueueMemsetINTEL": "fill",
    "clEnqueueMemFillINTEL": "fill",
    "clEnqueueMemcpyINTEL": "copy",
    "clEnqueueMigrateMemINTEL": "migrate",
    "clEnqueueMemAdviseINTEL": "other",
    "clEnqueueCommandBufferKHR": "other",
    "clEnqueueWaitSemaphoresKHR": "marker",
    "clEnqueueSignalSemaphoresKHR": "marker",
    "clEnqueueAcquireExternalMemObjectsKHR": "other",
    "clEnqueueReleaseExternalMemObjectsKHR": "other",
    "clEnqueueReadGlobalVariableINTEL": "DtoH",
    "clEnqueueWriteGlobalVariableINTEL": "HtoD",
    "clEnqueueReadHostPipeINTEL": "DtoH",
    "clEnqueueWriteHostPipeINTEL": "HtoD",
}
# Arguments that name the memory a command uses.
MEMORY = (
    "buffer",
    "image",
    "memobj",
    "src_buffer",
    "dst_buffer",
    "src_image",
    "dst_image",
    "svm_ptr",
    "src_ptr",
    "dst_ptr",
)
# What is special about the device work of a function.
ACTIVITY_OF: Mapping[str, Mapping[str, object]] = {
    "clEnqueueNDRangeKernel": {
        "kernel": "kernel_name<I>(kernel)",
        "items": ["extent(global_work_size, work_dim)"],
        "block": ["extent(local_work_size, work_dim)"],
    },
    "clEnqueueTask": {"kernel": "kernel_name<I>(kernel)", "items": ["1", "0", "0"], "block": ["1", "0", "0"]},
    "clEnqueueMarker": {"event_required": True},
    "clEnqueueMigrateMemObjects": {"bytes": "bytes_of_objects<I>(mem_objects, num_mem_objects)"},
    "clEnqueueSVMMigrateMem": {"bytes": "sum_of(sizes, num_svm_pointers)"},
    "clEnqueueMapBuffer": {"mapping": "ret"},
    "clEnqueueMapImage": {"mapping": "ret"},
    "clEnqueueUnmapMemObject": {"mapping": "mapped_ptr"},
    "clEnqueueSVMMap": {"mapping": "svm_ptr"},
    "clEnqueueSVMUnmap": {"mapping": "svm_ptr"},
    "clEnqueueCommandBufferKHR": {
        "queue": "queue_of_buffer(command_buffer, queues, num_queues)",
        "name": "command buffer",
    },
    "clEnqueueSVMFree": {"by_hand": "what it frees is shared memory no longer"},
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
    "suggested_local_work_size": "work_dim",
    "properties": "zero_terminated_pairs",
    "partition_properties": "zero_terminated",
    "sampler_properties": "zero_terminated_pairs",
    "sema_props": "zero_terminated_pairs",
    "queues": "num_queues",
    "sync_point_wait_list": "num_sync_points_in_wait_list",
    "sema_objects": "num_sema_objects",
    "sema_payload_list": "num_sema_objects",
    "config_types": "num_configs",
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
    **{(f"clEnqueue{verb}ExternalMemObjectsKHR", "mem_objects"): "num_mem_objects" for verb in ("Acquire", "Release")},
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
    ("clEnqueueMemFillINTEL", "pattern"): "pattern_size",
    ("clCommandFillBufferKHR", "pattern"): "pattern_size",
    ("clCommandSVMMemFillKHR", "pattern"): "pattern_size",
    ("clSetProgramSpecializationConstant", "spec_value"): "spec_size",
}
STRINGS = {"kernel_name", "kernel_names", "options", "function_name", "func_name", "pipe_symbol", "variable_name"}
# Memory that the program gets back or hands over: an address, never read through.
OPAQUE = {
    "host_ptr",
    "ptr",
    "param_value",
    "param_value_size_ret",
    "mapped_ptr",
    "svm_pointer",
    "svm_ptr",
    "user_data",
    "memory",
    "handle_ptr",
}
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
EXTRA_DOCS = {
    "origin": "first byte in the parent",
    "size": "bytes",
    "channel_order": "channels of an element",
    "channel_type": "type of a channel",
    "image_type": "dimensions and kind of the image",
    "width": "in elements",
    "height": "in elements; 0: the image has none",
    "depth": "in elements; 0: the image has none",
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
        raise ImportFailed(f"{function}: cannot read the argument {text!r}")
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
        raise ImportFailed("cl_icd.h holds no dispatch table")
    return re.findall(r"cl_api_\w+\s+(\w+)\s*;", body[1])


def constant(text: str) -> int | None:
    shift = re.fullmatch(r"\(1 << (\d+)\)", text)
    if shift:
        return 1 << int(shift[1])
    return int(text, 0) if re.fullmatch(r"-?(0x[0-9A-Fa-f]+|\d+)", text) else None


def enums(texts: Mapping[str, str]) -> dict[str, Enum]:
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
    asked = re.findall(r"#define\s+(CL_MEM_ALLOC_(?:TYPE|BASE_PTR|SIZE|DEVICE)_INTEL)\s+(0x\w+)", texts["cl_ext.h"])
    found["cl_mem_info_intel"] = Enum(False, {name: int(number, 16) for name, number in asked})
    # "any device" is a mask of its own; as a bit it would hide the others.
    found["cl_device_type"].values.pop("CL_DEVICE_TYPE_ALL", None)
    return {name: enum for name, enum in found.items() if enum.values}


def typedefs(texts: Mapping[str, str]) -> dict[str, str]:
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
        written = not arg.type.startswith("const") and not opaque and arg.name not in ("svm_pointers", "args", "queues")
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
    elif (function, arg.name) == ("clEnqueueMemAdviseINTEL", "size"):
        parts.append("unit: bytes")
    return "{" + ", ".join(parts) + "}"


def activity(function: Function) -> dict[str, object]:
    """The device work: expressions in the terms of native/intercept/opencl/opencl_work.h."""
    name, names = function.name, [arg.name for arg in function.args]
    out: dict[str, object] = {"kind": ACTIVITY[name], "queue": "command_queue"}
    if "event" in names:
        out["event"] = "event"
    else:
        out["untimed"] = "OpenCL 1.0 gives this call no event"
    special = dict(ACTIVITY_OF.get(name, {}))
    if "region" in names:
        image = next((image for image in ("image", "src_image", "dst_image") if image in names), None)
        out["bytes"] = f"image_bytes<I>({image}, region)" if image else "volume(region)"
    out |= special
    used = [arg for arg in names if arg in MEMORY]
    return {**out, "memory": used} if used else out


def memory(function: Function) -> Iterator[str]:
    """What the call makes known or ends."""
    name, names = function.name, {arg.name for arg in function.args}
    if name in COMPILES:
        yield "  compiles: true"
    if name in ALLOCATES:
        size, kind = ALLOCATES[name]
        of = {"parent": "buffer"} if kind == "slice" else {}
        context = {"context": "context"} if "context" in names else {}
        yield f"  allocates: {flow({'handle': 'ret', 'bytes': size, 'kind': kind, **of, 'scope': 'scope', **context})}"
    if name in FREES:
        if comment := COMMENTS.get(f"frees: {name}"):
            yield comment
        yield f"  frees: {flow(FREES[name])}"
    if name in COPIES:
        yield f"  copies: {flow(dict(zip(('from', 'to'), COPIES[name], strict=True)))}"
    if name in MAPS:
        yield f"  maps: {flow(MAPS[name])}"


def extra_fields(name: str) -> Iterator[str]:
    """Fields that no argument is."""
    for field, type_name, value, guard in EXTRA.get(name, ()):
        yield f'  - {{name: {field}, type: {type_name}, value: "{guard} ? {value} : 0", doc: "{EXTRA_DOCS[field]}"}}'
    if name not in ALLOCATES:
        return
    size = ALLOCATES[name][0]
    for field, type_name, value, more in (
        *((_PIPE if name == "clCreatePipe" else _IMAGE,) if size == "bytes" else ()),
        _SCOPE,
    ):
        unit = f", unit: {more['unit']}" if "unit" in more else ""
        doc = f', doc: "{more["doc"]}"' if "doc" in more else ""
        yield f'  - {{name: {field}, type: {type_name}{unit}, value: "{value}"{doc}}}'


def function_entry(place: str, function: Function) -> Iterator[str]:
    name, names = function.name, {arg.name for arg in function.args}
    if name in COMMENTS:
        yield COMMENTS[name]
    yield f"- name: {name}"
    yield f"  {place}"
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
    for key, table in (("blocking", BLOCKING), ("bytes", BYTES)):
        if name in table:
            if table[name] != "true" and table[name] not in names:
                raise ImportFailed(f"{name} has no argument {table[name]}")
            yield f"  {key}: {table[name]}"
    if name in ACTIVITY:
        yield f"  activity: {flow(activity(function))}"
    elif name.startswith("clEnqueue"):
        raise ImportFailed(f"{name}: no activity kind is given")
    yield from memory(function)
    if function.args:
        yield "  args:"
        for arg in function.args:
            yield f"  - {arg_entry(name, arg)}"
    else:
        yield "  args: []"
    if extra := list(extra_fields(name)):
        yield "  extra:"
        yield from extra


def enum_entry(name: str, enum: Enum) -> Iterator[str]:
    yield f"  {name}:"
    if enum.bitfield:
        yield "    bitfield: true"
    yield "    values:"
    for text, value in enum.values.items():
        yield f"      {text}: {value if value < 10 else hex(value) if not enum.bitfield else value}"


def model(texts: Mapping[str, str]) -> Iterable[str]:
    table = dispatch_table(texts["cl_icd.h"])
    known = {
        name: Function(name, returns, tuple(parse_arg(name, arg) for arg in split_args(args)))
        for name, (returns, args) in LATER.items()
    }
    for header in HEADERS[:-1]:
        for prototype in prototypes(texts[header], {*table, *EXTENSIONS}):
            known.setdefault(prototype.name, prototype)
    all_enums, defs = enums(texts), typedefs(texts)

    places = [(f"slot: {slot}", name) for slot, name in enumerate(table)]
    places += [("extension: true", name) for name in EXTENSIONS]
    used_types: dict[str, None] = {}

    def use(names: Iterable[str]) -> None:
        for function in filter(None, map(known.get, names)):
            for type_name in (function.returns, *(arg.type for arg in function.args)):
                used_types.setdefault(base_of(type_name))

    use(table)
    for fields in EXTRA.values():
        for _, type_name, _, _ in fields:
            used_types.setdefault(type_name)
    use(EXTENSIONS)
    used_enums = {name for name in all_enums if name in used_types} | {"cl_error", "cl_execution_status"}

    yield HEAD.rstrip("\n")
    yield "api: opencl"
    yield "title: OpenCL"
    yield "provider: occatrace_opencl"
    yield "headers: [CL/cl_layer.h]"
    yield "convention: CL_API_CALL"
    yield "enums:"
    yield RELEASING.rstrip("\n")
    for name, enum in all_enums.items():
        if name in used_enums:
            yield from enum_entry(name, enum)
    yield "types:"
    for name in used_types:
        entry = type_entry(name, defs, all_enums)
        if entry:
            yield f"  {name}: {entry}" if " " not in name else f'  "{name}": {entry}'
    yield "functions:"
    for place, name in places:
        if name in known:
            yield from function_entry(place, known[name])
        elif "D3D" in name or "DX9" in name:
            yield f"- {{name: {name}, {place}, passthrough: true}}"
        else:
            raise ImportFailed(f"no prototype of {name}")
    yield RECORDS.rstrip("\n")


def import_opencl(includes: Sequence[Path]) -> str:
    """The YAML of OpenCL from the headers in `CL/` of the first folder. Raises ImportFailed."""
    names = dict.fromkeys((*HEADERS, *ERROR_HEADERS))
    try:
        texts = {name: (includes[0] / "CL" / name).read_text(encoding="utf-8") for name in names}
    except OSError as error:
        raise ImportFailed(f"{error.filename}: {error.strerror}") from None
    return "\n".join(model(texts)) + "\n"
