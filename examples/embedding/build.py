"""Makes libsteps.so: what C and Fortran call, and behind it an interpreter that starts at the first call (CFFI's embedding)."""

import sys
from pathlib import Path

import cffi

HERE = Path(__file__).resolve().parent

builder = cffi.FFI()
builder.embedding_api((HERE / "steps.h").read_text())
builder.set_source("embedded_steps", '#include "steps.h"', include_dirs=[str(HERE)])
builder.embedding_init_code(f"""
import sys
sys.path[:0] = [{str(HERE)!r}]
import steps
""")
builder.compile(tmpdir=sys.argv[1], target="libsteps.so")
