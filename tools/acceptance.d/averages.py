"""A picture's convolution and statistics."""

import numpy as np
from silx.opencl.convolution import Convolution
from silx.opencl.statistics import Statistics

picture = np.random.RandomState(0).rand(256, 256).astype("float32")
convolve = Convolution(picture.shape, np.full(9, 1 / 9, "float32"))
for _ in range(5):
    smooth = convolve(picture)
found = Statistics(picture.size)(picture)
print(f"{smooth.mean():.4f} {found.min:.6f} {found.max:.6f}")
