"""Two stages of a Halide pipeline, both on the device."""

import halide as hl
import numpy as np

x, y, inner_x, inner_y = hl.Var("x"), hl.Var("y"), hl.Var("inner_x"), hl.Var("inner_y")
height, slope = hl.Func("height"), hl.Func("slope")
height[x, y] = hl.cast(hl.Float(32), x + y) * 0.5
slope[x, y] = height[x, y] + height[x + 1, y]
for stage in (height.compute_root(), slope):
    stage.gpu_tile(x, y, inner_x, inner_y, 16, 16)
target = hl.get_host_target().with_feature(hl.TargetFeature.OpenCL)
for _ in range(5):
    result = slope.realize([256, 256], target)
    result.copy_to_host()
print(np.asarray(result).sum())
