"""What the models call work of a device, the backends record as such; and bytes are bytes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
# Calls of OpenCL 1.0 that cannot be given an event (docs/architecture.md).
WITHOUT_EVENT = {"clEnqueueWaitForEvents", "clEnqueueBarrier"}
# Who records a command: macros with the function's name first, or hooks that are derived from one.
COMMAND = r"^\s*OCCATRACE_[A-Z0-9_]+\((\w+)[,)]"
HOOK = r"struct Hook<OCCATRACE_[A-Z]+_(\w+)> : (?:Enqueue|Command|Launch|Copy|Fill)"


def functions(api: str) -> list[dict[str, object]]:
    model: dict[str, list[dict[str, object]]] = yaml.safe_load((ROOT / f"tracepoints/{api}.yaml").read_text())
    return model["functions"]


@pytest.mark.parametrize("api", ["cuda", "hip", "opencl"])
def test_each_command_has_a_hook(api: str) -> None:
    source = (ROOT / f"native/intercept/{api}/{api}.cpp").read_text()
    hooked = set(re.findall(COMMAND, source, re.M)) | set(re.findall(HOOK, source))
    commands = {str(f.get("event", f["name"])) for f in functions(api) if "activity" in f} - WITHOUT_EVENT
    assert len(commands) > 20
    assert commands - hooked == set()


def test_each_command_of_cuda_is_one_in_the_model() -> None:
    source = (ROOT / "native/intercept/cuda/cuda.cpp").read_text()
    hooked = set(re.findall(r"^OCCATRACE_(?:COMMAND|COPY|BATCH|FILL_1D|FILL_2D)\((cu\w+),", source, re.M))
    commands = {str(f.get("event", f["name"])) for f in functions("cuda") if "activity" in f}
    assert len(hooked) > 50 and hooked - commands == set()


@pytest.mark.parametrize("api", ["cuda", "cudart", "hip", "opencl"])
def test_a_number_of_items_is_no_number_of_bytes(api: str) -> None:
    for function in functions(api):
        arguments = {a["name"]: str(a["type"]) for a in function.get("args") or ()}  # type: ignore[attr-defined]
        if {"sizes", "count"} <= arguments.keys() and "*" in arguments["sizes"]:
            assert function.get("bytes") in (None, "total"), function["name"]
