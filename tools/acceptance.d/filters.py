"""20 pictures through a chain of filters, all of them on the device."""

import cv2
import numpy as np

cv2.ocl.setUseOpenCL(True)
print(cv2.ocl.useOpenCL())
picture = cv2.UMat(np.random.RandomState(0).randint(0, 255, (720, 1280, 3), np.uint8))
for _ in range(20):
    grey = cv2.GaussianBlur(cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY), (7, 7), 1.5)
    edges = cv2.Canny(grey, 20, 50)
    small = cv2.resize(grey, (640, 360))
print(int(small.get().sum()), int(edges.get().sum()))
