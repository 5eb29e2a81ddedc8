"""A kernel of xobjects' OpenCL context on a thousand numbers, fifty times."""

import numpy as np
import xobjects

SOURCE = """
/*gpukern*/ void twice(const int n, /*gpuglmem*/ const double *x, /*gpuglmem*/ double *y) {
  for (int i = 0; i < n; i++) { //vectorize_over i n
    y[i] = 2 * x[i];
  } //end_vectorize
}
"""

context = xobjects.ContextPyopencl("0.0")
argument = xobjects.Arg
kernel = xobjects.Kernel(
    args=[
        argument(xobjects.Int32, name="n"),
        argument(xobjects.Float64, pointer=True, const=True, name="x"),
        argument(xobjects.Float64, pointer=True, name="y"),
    ],
    n_threads="n",
)
context.add_kernels(sources=[SOURCE], kernels={"twice": kernel})
x, y = context.nparray_to_context_array(np.arange(1000.0)), context.zeros(1000, dtype=float)
for _ in range(50):
    context.kernels.twice(n=1000, x=x, y=y)
print(context.nparray_from_context_array(y).sum())
