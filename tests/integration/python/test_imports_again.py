"""Modules that are imported more than once: pyopencl's classes are followed once, however they are come by.

pytools asks importlib for pyopencl twice for each kernel that it generates an invoker for."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.support import runs
from tests.support.suites.python import PROGRAMS, Profile

# What stands for pyopencl where only imports matter: two modules with a pool and a program.
LIBRARY = {
    "_cl.py": """
        class PooledBuffer:
            int_ptr = 4096
            def release(self):
                pass

        class MemoryPool:
            managed_bytes = 0
            def __init__(self, allocator):
                pass
            def allocate(self, size):
                self.managed_bytes += size
                return PooledBuffer()
            def bin_number(self, size):
                return size
            def alloc_size(self, number):
                return number
        """,
    "asks.py": """
        # While pyopencl is being executed: it has no Program yet.
        import importlib
        importlib.import_module("pyopencl")
        """,
    "__init__.py": """
        import threading
        from pyopencl._cl import MemoryPool
        import pyopencl.asks

        # Other threads come while this is being executed, and wait for it.
        barrier = getattr(threading, "others_come", None)
        if barrier is not None:
            barrier.wait(60)

        class Program:
            def __init__(self, source):
                self._source = source
                self._context = None
            def build(self):
                return self
        """,
}


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A folder with a package of pyopencl's name."""
    folder = tmp_path / "library"
    (folder / "pyopencl").mkdir(parents=True)
    for name, text in LIBRARY.items():
        (folder / "pyopencl" / name).write_text("\n".join(line[8:] for line in text.splitlines()))
    return folder


@pytest.mark.parametrize("option", ["lines", "pools"])
def test_each_module_is_followed_once(option: str, library: Path, profile: Profile) -> None:
    command = [sys.executable, PROGRAMS / "imports_again.py"]
    alone = runs.execute(command, PYTHONPATH=str(library), OCCA_DIR=None)
    run = profile(*command, python=(option,), PYTHONPATH=str(library))
    assert run.stdout == alone.stdout
    said = "memory pools and builds of pyopencl are not followed: 'str' object has no attribute 'Program'"
    assert run.stderr == f"occatrace: {said}\n"
    truth = json.loads(run.stdout)
    built = {row["name"]: row["calls"] for row in run.report("python_build_sum")}
    assert built == truth["builds"]
    (pool,) = run.report("python_pool_sum")
    assert (pool["allocations"], pool["frees"], pool["asked_bytes"]) == (truth["blocks"], truth["blocks"], 4000)
    # What is there already is not imported; what was taken out of sys.modules is.
    names = [row["name"] for row in run.calls("import")]
    assert (names.count("pyopencl"), names.count("pyopencl._cl"), names.count("pyopencl.asks")) == (2, 1, 1)
    assert names.count("not_there") == 1 and run.rows("SELECT * FROM losses") == []


def test_invokers_of_a_thousand_kernels(profile: Profile) -> None:
    pytest.importorskip("pyopencl")
    run = profile(sys.executable, PROGRAMS.parent / "pyopencl" / "invokers.py", 1000, python=("lines",))
    assert run.stdout == "ok\n", run.stderr
    assert [(row["name"], row["calls"]) for row in run.report("python_build_sum")] == [("one", 1)]
    assert [(row["allocations"], row["frees"]) for row in run.report("python_pool_sum")] == [(1, 1)]
    names = [row["name"] for row in run.calls("import")]
    assert (names.count("pyopencl"), names.count("pyopencl._cl")) == (1, 1)
