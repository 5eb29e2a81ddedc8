"""Two OpenCL loaders in one process: the one bundled in the pyopencl wheel, and the system's by ctypes; prints JSON."""

import ctypes
import json

import numpy as np
import pyopencl as cl

platform = next(p for p in cl.get_platforms() if "Portable" in p.name)
context = cl.Context([platform.get_devices()[0]])
queue = cl.CommandQueue(context)
host = np.ones(256, dtype=np.float32)
buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, host.nbytes)
cl.enqueue_copy(queue, buffer, host)

system = ctypes.CDLL("libOpenCL.so.1")
handle = ctypes.c_void_p
found = (handle * 8)()
count = ctypes.c_uint()
assert system.clGetPlatformIDs(8, found, ctypes.byref(count)) == 0
devices = (handle * 1)()
chosen = None
for at in range(count.value):
    name = ctypes.create_string_buffer(256)
    system.clGetPlatformInfo(handle(found[at]), 0x0902, ctypes.c_size_t(256), name, None)
    if b"Portable" in name.value:
        chosen = handle(found[at])
system.clGetDeviceIDs(chosen, ctypes.c_ulong(0xFFFFFFFF), 1, devices, None)
code = ctypes.c_int()
system.clCreateContext.restype = handle
system.clCreateCommandQueue.restype = handle
system.clCreateBuffer.restype = handle
own = handle(system.clCreateContext(None, 1, devices, None, None, ctypes.byref(code)))
own_queue = handle(system.clCreateCommandQueue(own, handle(devices[0]), ctypes.c_ulong(0), ctypes.byref(code)))
own_buffer = handle(system.clCreateBuffer(own, ctypes.c_ulong(1), ctypes.c_size_t(512), None, ctypes.byref(code)))
data = (ctypes.c_char * 512)()
for _ in range(3):
    assert (
        system.clEnqueueWriteBuffer(
            own_queue, own_buffer, 1, ctypes.c_size_t(0), ctypes.c_size_t(512), data, 0, None, None
        )
        == 0
    )
assert system.clFinish(own_queue) == 0
cl.enqueue_copy(queue, buffer, host)
print(json.dumps({"HtoD": 2 * host.nbytes + 3 * 512, "copies": 5}))
