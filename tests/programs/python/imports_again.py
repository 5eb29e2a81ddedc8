"""Imports modules of the name pyopencl in every way in which they come again, and says what it built and allocated."""

import contextlib
import importlib
import json
import sys
import threading

builds = {}
blocks = 0


def build(module, name):
    builds[name] = builds.get(name, 0) + 1
    module.Program(f"kernel void {name}(global int *x) {{ }}").build()


# Four threads at once: one executes the module, the others wait for it.
threading.others_come = threading.Barrier(4)
failed = []


def come():
    try:
        if "pyopencl" in sys.modules:
            raise RuntimeError("too late")
        importlib.import_module("pyopencl")
    except BaseException as error:
        failed.append(repr(error))


class Waits(threading.Thread):
    def run(self):
        # The barrier stands in the module: whoever executes it is the fourth.
        threading.others_come.wait(60)
        module = importlib.import_module("pyopencl")
        build(module, "by_thread")


threads = [Waits() for _ in range(3)]
for thread in threads:
    thread.start()
come()
for thread in threads:
    thread.join()
threading.others_come = None
assert failed == [], failed

import pyopencl  # noqa: E402

pool = pyopencl.MemoryPool(None)


def allocate():
    global blocks
    blocks += 1
    pool.allocate(1000).release()


build(pyopencl, "first")
allocate()
for _ in range(1000):
    importlib.import_module("pyopencl._cl")
    importlib.import_module("pyopencl")
build(pyopencl, "again")
allocate()

assert importlib.reload(pyopencl) is pyopencl
importlib.reload(sys.modules["pyopencl._cl"])
build(pyopencl, "reloaded")
allocate()

# A new module object beside the old one.
old = sys.modules.pop("pyopencl")
new = importlib.import_module("pyopencl")
assert new is not old and new.Program is not old.Program
build(new, "new")
build(old, "old")
sys.modules["pyopencl"] = old
importlib.import_module("pyopencl")
build(old, "old")
allocate()

# Something that is no module.
sys.modules["pyopencl"] = "a text"
for _ in range(3):
    assert importlib.import_module("pyopencl") == "a text"

sys.modules["not_there"] = None
with contextlib.suppress(ImportError):
    importlib.import_module("not_there")

print(json.dumps({"builds": builds, "blocks": blocks}))
