"""pycuda's compiler cache: a source built once and found again, by a compiler that writes modules for the fake driver.

pycuda_builds.py NVCC FOLDER
"""

import os
import sys

import numpy as np
import pycuda.driver as cuda
from pycuda.compiler import SourceModule

nvcc, folder = sys.argv[1:]
SOURCE = "__global__ void tick(int n) { /* __global__ void none() */ }\n"
cuda.init()
context = cuda.Device(0).make_context()


def build(cache_dir):
    return SourceModule(SOURCE, nvcc=nvcc, cache_dir=cache_dir, arch="sm_50")  # line: build


for _ in range(3):
    module = build(folder)
uncached = build(False)
module.get_function("tick")(np.int32(1), block=(1, 1, 1))
context.synchronize()
try:
    SourceModule("wrong", nvcc=nvcc, cache_dir=folder, arch="sm_50")  # line: wrong
except cuda.CompileError:
    print("wrong")
sys.stdout.flush()
context.pop()
os._exit(0)
