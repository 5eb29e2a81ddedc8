"""What people do with pyopencl: arithmetic of arrays, reductions, scans, sorting, pools, SVM, images, random numbers.

Prints for each demonstration a checksum of its results and how many kernels it launched, by its own count, as JSON.
"""

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
from pyopencl.algorithm import RadixSort, copy_if
from pyopencl.clmath import sin
from pyopencl.clrandom import PhiloxGenerator
from pyopencl.elementwise import ElementwiseKernel
from pyopencl.reduction import ReductionKernel
from pyopencl.scan import ExclusiveScanKernel, GenericScanKernel, InclusiveScanKernel
from pyopencl.tools import DeferredAllocator, ImmediateAllocator, MemoryPool, SVMAllocator, SVMPool

platform = next(p for p in cl.get_platforms() if "Portable" in p.name)
context = cl.Context([platform.get_devices()[0]])
queue = cl.CommandQueue(context)
numbers = np.random.default_rng(7)
launched: Counter[str] = Counter()


def counting(launch: Callable[..., Any]) -> Callable[..., Any]:
    def counted(queue: cl.CommandQueue, kernel: cl.Kernel, *more: Any, **options: Any) -> Any:
        launched[kernel.function_name] += 1
        return launch(queue, kernel, *more, **options)

    return counted


# What pyopencl launches by, before it makes the functions that call it.
cl._cl.enqueue_nd_range_kernel = counting(cl._cl.enqueue_nd_range_kernel)


def arithmetic() -> list[Any]:
    a = cl_array.to_device(queue, numbers.random(5000, dtype=np.float32))
    b = cl_array.arange(queue, 5000, dtype=np.float32)
    c = 2 * a + b / 3 - a * b
    c[100:200] = 5
    c += sin(a)
    order = cl_array.to_device(queue, numbers.permutation(5000).astype(np.int32))
    return [
        c.get(),
        cl_array.sum(b).get(),
        cl_array.dot(a, b).get(),
        cl_array.max(c).get(),
        cl_array.take(c, order).get(),
    ]


def elementwise() -> list[Any]:
    kernel = ElementwiseKernel(context, "float k, float *x, float *y", "y[i] = k*x[i] + y[i]*y[i]", "lin_square")
    x, y = (cl_array.to_device(queue, numbers.random(3000, dtype=np.float32)) for _ in range(2))
    for k in range(10):
        kernel(np.float32(k), x, y)
        y /= 100
    return [y.get()]


def reductions() -> list[Any]:
    dot = ReductionKernel(
        context, np.float64, neutral="0", reduce_expr="a+b", map_expr="x[i]*y[i]",
        arguments="__global const double *x, __global const double *y",
    )  # fmt: skip
    largest = ReductionKernel(context, np.int32, "-1", "a > b ? a : b", "x[i]", "__global const int *x")
    x = cl_array.arange(queue, 100000, dtype=np.float64)
    whole = cl_array.to_device(queue, numbers.integers(0, 1 << 30, 70000, dtype=np.int32))
    assert np.isclose(dot(x, x).get(), (x.get() * x.get()).sum())
    assert largest(whole).get() == whole.get().max()
    return [dot(x, x).get().round(-9), largest(whole).get()]


def scans() -> list[Any]:
    source = numbers.integers(0, 100, 50000, dtype=np.int64)
    inclusive, exclusive = cl_array.to_device(queue, source), cl_array.to_device(queue, source)
    InclusiveScanKernel(context, np.int64, "a+b", neutral="0")(inclusive)
    ExclusiveScanKernel(context, np.int64, "a+b", neutral="0")(exclusive)
    assert (inclusive.get() == source.cumsum()).all()
    assert (exclusive.get()[1:] == source.cumsum()[:-1]).all()
    ends = GenericScanKernel(
        context,
        np.int32,
        "__global const int *v, __global int *out",
        "v[i]",
        "a+b",
        "0",
        output_statement="out[i] = item",
    )
    v = cl_array.to_device(queue, numbers.integers(0, 7, 20000, dtype=np.int32))
    out = cl_array.empty_like(v)
    ends(v, out)
    chosen, count, _ = copy_if(v, "ary[i] > 3")
    return [inclusive.get(), exclusive.get(), out.get(), chosen.get()[: int(count.get())]]


def sorting() -> list[Any]:
    sort = RadixSort(context, "int *keys", key_expr="keys[i]", sort_arg_names=["keys"], key_dtype=np.int32)
    keys = numbers.integers(0, 1 << 12, 20000, dtype=np.int32)
    (ordered,), _ = sort(cl_array.to_device(queue, keys), key_bits=12)
    assert (ordered.get() == np.sort(keys)).all()
    return [ordered.get()]


def pools() -> list[Any]:
    found = []
    for allocator in (ImmediateAllocator(queue), DeferredAllocator(context)):
        pool = MemoryPool(allocator)
        total = cl_array.zeros(queue, 4096, np.float32, allocator=pool)
        for step in range(50):
            a = cl_array.arange(queue, 4096, dtype=np.float32, allocator=pool)
            total += a * step
        found += [total.get(), pool.held_blocks, pool.active_blocks, pool.active_bytes]
        del total, a
        pool.free_held()
        found += [pool.held_blocks, pool.active_blocks]
    return found


def svm() -> list[Any]:
    memory = cl.SVMAllocation(context, 4000, 0, cl.svm_mem_flags.READ_WRITE, queue=queue)
    host = np.arange(1000, dtype=np.float32)
    cl.enqueue_copy(queue, memory, host)
    program = cl.Program(context, "kernel void halve(global float *x) { x[get_global_id(0)] /= 2; }").build()
    program.halve(queue, host.shape, None, memory)
    back = np.empty_like(host)
    cl.enqueue_copy(queue, back, memory)
    memory.release()
    pool = SVMPool(SVMAllocator(context, flags=cl.svm_mem_flags.READ_WRITE, queue=queue))
    a = cl_array.zeros(queue, 3000, np.float32, allocator=pool)
    for step in range(10):
        a = a + step
    return [back, a.get(), pool.active_blocks]


def images() -> list[Any]:
    picture = numbers.integers(0, 255, (32, 64, 4), dtype=np.uint8)
    image = cl.image_from_array(context, picture, 4)
    target = cl.create_image(context, cl.mem_flags.WRITE_ONLY, image.format, shape=(64, 32))
    program = cl.Program(
        context,
        """
        kernel void flip(read_only image2d_t from, write_only image2d_t to) {
          const sampler_t s = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
          int2 at = (int2)(get_global_id(0), get_global_id(1));
          write_imagef(to, (int2)(63 - at.x, at.y), read_imagef(from, s, at));
        }""",
    ).build()
    program.flip(queue, (64, 32), None, image, target)
    back = np.empty_like(picture)
    cl.enqueue_copy(queue, back, target, origin=(0, 0), region=(64, 32))
    assert (back == picture[:, ::-1]).all()
    return [back]


def random() -> list[Any]:
    generator = PhiloxGenerator(context, seed=15)
    return [generator.uniform(queue, 5000, np.float32).get(), generator.normal(queue, 5000, np.float32).get().round(3)]


ALL = (arithmetic, elementwise, reductions, scans, sorting, pools, svm, images, random)
for demonstration in ALL:
    if sys.argv[1:] and demonstration.__name__ not in sys.argv[1:]:
        continue
    launched.clear()
    checksum = hashlib.sha256()
    for result in demonstration():
        checksum.update(np.ascontiguousarray(result).tobytes())
    print(json.dumps({demonstration.__name__: checksum.hexdigest()[:16], "kernels": dict(sorted(launched.items()))}))
queue.finish()
