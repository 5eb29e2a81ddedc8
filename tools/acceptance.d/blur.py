"""Ten times a blur, a threshold and labels of a volume."""

import numpy as np
import pyclesperanto as cle

volume = cle.push(np.random.RandomState(0).rand(32, 64, 64).astype("float32"))
for _ in range(10):
    smooth = cle.gaussian_blur(volume, sigma_x=1, sigma_y=1, sigma_z=1)
    labels = cle.connected_component_labeling(cle.threshold_otsu(smooth))
print(f"{cle.pull(smooth).mean():.5f}", int(cle.pull(labels).max()))
