"""Some work on arrays by a package with numpy's interface, whose name is given; prints what it computed."""

import importlib
import sys

np = importlib.import_module(sys.argv[1])
a = np.arange(100000, dtype="f4")
b = np.reshape(a[:90000], (300, 300)) / 90000
print("sum", float(np.sum(a * 2)))
print("dot", round(float(np.dot(a[:1000], a[:1000])), -4))
print("matmul", round(float(np.max(b @ b.T)), 2))
print("sort", [float(x) for x in np.sort(a[:9] % 4)])
print("mean", round(float(np.mean(b)), 4), "std", round(float(np.std(b)), 4))
print("where", int(np.sum(np.where(a > 50000, 1, 0))))
print("sqrt", round(float(np.sum(np.sqrt(b))), 0))
