"""A dpnp program that knows how long its kernels took: prints the times of their own profiling events as JSON."""

import json

import dpctl
import dpnp
from dpnp.tensor import _tensor_impl as implementation

ROUNDS = 20
queue = dpctl.SyclQueue(property="enable_profiling")
array = dpnp.empty(1 << 20, dtype="f4", sycl_queue=queue)
raw = array.get_array()
times: dict[str, list[int]] = {"full": [], "linspace": []}
calls = {
    "full": lambda at: implementation._full_usm_ndarray(float(at), raw, queue),
    "linspace": lambda at: implementation._linspace_step(0.0, float(at + 1), raw, queue),
}
for at in range(ROUNDS):
    for name, call in calls.items():
        host, event = call(at)
        event.wait()
        host.wait()
        times[name].append(event.profiling_info_end - event.profiling_info_start)
print(json.dumps({name: [len(each), sum(each)] for name, each in times.items()} | {"last": float(array[1])}))
