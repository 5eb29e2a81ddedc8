"""The OpenCL model covers the system's dispatch table, slot by slot."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.generated import model

HEADER = Path("/usr/include/CL/cl_icd.h")


@pytest.mark.skipif(not HEADER.exists(), reason="needs the OpenCL headers")
def test_every_slot_of_the_dispatch_table_is_in_the_model() -> None:
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", HEADER.read_text(), flags=re.S)
    body = text[text.index("struct _cl_icd_dispatch") : text.index("} cl_icd_dispatch;")]
    table = re.findall(r"cl_api_\w+\s+(\w+)\s*;", body)
    functions = model("opencl")["functions"]
    slots = [function for function in functions if not function.get("extension")]
    assert [function["name"] for function in slots] == table[: len(slots)]
    assert [function["slot"] for function in slots] == list(range(len(slots)))
    assert len(slots) >= 149


def test_every_enqueue_has_its_kind_of_work_and_every_call_a_way_to_fail() -> None:
    functions = model("opencl")["functions"]
    traced = [function for function in functions if not function.get("passthrough")]
    for function in traced:
        name = function["name"]
        assert ("activity" in function) == name.startswith("clEnqueue"), name
        silent = function["returns"]["type"] in ("void", "void *") and name != "clSVMAlloc" and "Enqueue" not in name
        assert silent or "failed" in function, name
