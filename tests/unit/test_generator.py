"""The generator: what it accepts, what it refuses and where it says the mistake is, and what comes out."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from occatrace.core import events
from occatrace.core.model import from_json

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from generator.emit import alike, files_of, is_number, member  # noqa: E402
from generator.model import MODES, Api, Function, Model  # noqa: E402
from generator.parse import ModelError, parse_folder, parse_text  # noqa: E402

SMALL = """
api: small
title: Small
provider: occatrace_small
enums:
  small_error: {values: {SMALL_OK: 0, SMALL_BAD: -1}}
  small_kind: {constants: SMALL_KIND_, values: {one-way: 1, none: 4}}
types:
  small_handle: {kind: handle}
functions:
- name: smallWrite
  returns: {type: int, enum: small_error}
  failed: {field: ret, op: "!=", value: 0}
  level: {default: event, minimal: event}
  blocking: wait
  bytes: size
  symbols: [smallWrite, smallWrite_v2]
  args:
  - {name: queue, type: small_handle}
  - {name: size, type: size_t, role: bytes}
  - {name: wait, type: int}
  - {name: count, type: unsigned int}
  - {name: list, type: "const small_handle *", array: count}
  - {name: event, type: "small_handle *", out: true}
- name: smallGet
  args:
  - {name: text, type: "const char *"}
"""


def small(**changes: str) -> str:
    text = SMALL
    for old, new in changes.items():
        text = text.replace(old, new)
    return text


def test_functions_carry_their_meaning() -> None:
    api = parse_text(SMALL)
    write, get = api.functions
    assert [f.column for f in write.fields] == ["u64", "u64", "i32", "u32", "seq<u64>", "u64", "i32"]
    assert write.levels == ("event", "event", "event", "tally")
    assert get.levels == ("tally", "off", "event", "tally")
    assert write.blocking == "wait"
    assert write.returns is not None and write.returns.field.type.enum == "small_error"
    assert api.symbols == ("smallWrite", "smallWrite_v2")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "name: count, type: unsigned int",
            "name: count, type: mystery_t",
            "function smallWrite: argument count: C type 'mystery_t'",
        ),
        ("array: count", "array: cuont", "function smallWrite: argument list: its length cuont is no argument"),
        ("field: ret, op", "field: rte, op", "function smallWrite: failed: no field rte"),
        ('op: "!="', 'op: "~"', "function smallWrite: failed: unknown operator ~"),
        ("bytes: size\n", "bytes: sise\n", "function smallWrite: bytes: no field sise"),
        ("enum: small_error}", "enum: other}", "function smallWrite: returns: unknown enum other"),
        ("name: wait,", "name: seq,", "function smallWrite: argument seq: the name seq belongs to every event"),
        ("default: event", "defualt: event", "function smallWrite: level: defualt"),
        ("default: event", "default: tally", "function smallWrite: level: an event of one mode"),
        ("[smallWrite, smallWrite_v2]", "[smallWrite, smallWrite]", "symbols stand twice: smallWrite"),
        ("- name: smallGet", "- name: smallWrite", "event smallWrite stands twice"),
        ("blocking: wait", "blokcing: wait", "function smallWrite: unknown key blokcing"),
        ("SMALL_BAD: -1", "SMALL_BAD: x", "enum small_error: ValueError"),
    ],
)
def test_a_mistake_is_named_with_its_place(old: str, new: str, message: str) -> None:
    assert old in SMALL
    with pytest.raises(ModelError) as error:
        parse_text(small(**{old: new}))
    assert message in str(error.value)


MEMORY = """
api: small
title: Small
provider: occatrace_small
enums:
  small_flags: {bitfield: true, values: {SMALL_HOST: 1, SMALL_USED: 8}}
  small_kind: {values: {device: 0, managed: 2}}
types:
  small_flags: {kind: bitfield, enum: small_flags}
  small_handle: {kind: handle}
functions:
- name: smallAlloc
  returns: {type: small_handle}
  failed: {field: ret, op: "==", value: 0}
  allocates: {handle: ret, bytes: size, parent: whole, kind: {field: flags, bits: {SMALL_USED: wrapped, SMALL_HOST: host}}}
  args:
  - {name: flags, type: small_flags}
  - {name: size, type: size_t}
  - {name: whole, type: small_handle}
- name: smallManaged
  event: managed
  allocates: {handle: handle, bytes: bytes, kind: {field: kind}}
  fields:
  - {name: handle, type: handle}
  - {name: bytes, type: u64}
  - {name: kind, type: u8, enum: small_kind}
- name: smallFree
  frees: {handle: list, unless: later}
  args:
  - {name: count, type: unsigned int}
  - {name: list, type: "small_handle *", array: count}
  - {name: later, type: int}
records:
- name: ended
  frees: {handle: handle}
  fields:
  - {name: handle, type: handle}
"""


def test_memory_is_a_meaning() -> None:
    """What the YAML says arrives in the analysis: kinds by the first bit that is set or by value, handles, arrays."""
    api = parse_text(MEMORY)
    whole = json.loads(files_of(Model((api,)))["occatrace/_model.json"])
    model = from_json(whole)
    kinds = {name: at for at, name in enumerate(model.memory_kinds)}
    alloc, managed, free = (model.by_event[f"occatrace_small:{e}"] for e in ("smallAlloc", "managed", "smallFree"))
    assert alloc.allocates and managed.allocates
    assert (alloc.allocates.handle, alloc.allocates.bytes, alloc.allocates.parent) == ("ret", "size", "whole")
    flags = {"flags": np.array([0, 1, 8, 9], np.uint64)}
    assert alloc.allocates.kinds_of(flags, 4).tolist() == [kinds[k] for k in ("device", "host", "wrapped", "wrapped")]
    values = {"kind": np.array([2, 0, 77], np.uint8)}
    assert managed.allocates.kinds_of(values, 3).tolist() == [kinds[k] for k in ("managed", "device", "device")]
    assert free.frees and (free.frees.handle, free.frees.unless) == ("list", "later")
    assert model.freeing["occatrace_small:ended"].frees.handle == "handle"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("handle: ret, bytes: size", "bytes: size", "function smallAlloc: allocates: no handle: it says which field names"),
        ("handle: ret", "handle: rat", "function smallAlloc: allocates: handle: no field rat"),
        ("handle: ret, bytes", "handle: flags, bytes", "handle: the field flags is u64, not a handle"),
        ("bytes: size,", "", "allocates: no bytes: only a slice has none of its own"),
        ("parent: whole", "parent: none_such", "allocates: parent: no field none_such"),
        ("parent: whole", "home: whole", "allocates: unknown key home"),
        ("SMALL_HOST: host}", "SMALL_HOST: hosts}", "allocates: kind: hosts is unknown (known: device, host,"),
        ("SMALL_USED: wrapped", "SMALL_USE: wrapped", "allocates: kind: small_flags has no SMALL_USE"),
        ("kind: {field: kind}", "kind: {field: bytes}", "function smallManaged: allocates: kind: the field bytes has no enum"),
        ("kind: {field: kind}", "kind: {field: kind, bits: {device: device}}", "small_kind is no bit field: write values"),
        ("unless: later", "unless: never", "function smallFree: frees: unless: no field never"),
        ("frees: {handle: handle}", "frees: {handle: handel}", "record ended: frees: handle: no field handel"),
    ],
)  # fmt: skip
def test_a_mistake_about_memory_is_named_with_its_place(old: str, new: str, message: str) -> None:
    assert MEMORY.count(old) == 1
    with pytest.raises(ModelError) as error:
        parse_text(MEMORY.replace(old, new))
    assert message in str(error.value)


def test_a_series_of_symbols() -> None:
    api = parse_text(small(**{"[smallWrite, smallWrite_v2]": "[smallWrite, {series: _Zw, repeat: S_, count: 3}]"}))
    assert api.symbols == ("smallWrite", "_Zw", "_ZwS_", "_ZwS_S_")


def test_files_of_a_model() -> None:
    files = files_of(Model((parse_text(SMALL),)))
    assert set(files) == {
        "occatrace/_model.json",
        "native/small_events.h",
        "native/small_tp.h",
        "native/bounds.h",
        "native/enums.h",
        "native/numbers.h",
        "native/provider_small.c",
        "native/trampolines.c",
        "docs/events/small.md",
    }
    assert (
        "enum occatrace_small_kind {\n  SMALL_KIND_ONE_WAY = 1,\n  SMALL_KIND_NONE = 4,\n};" in files["native/enums.h"]
    )
    assert "OCCATRACE_SMALL_KIND_COUNT = 5" in files["native/enums.h"] and "SMALL_OK" not in files["native/enums.h"]
    model = json.loads(files["occatrace/_model.json"])["apis"]["small"]
    write = model["functions"]["smallWrite"]
    assert write["level"] == dict(zip(MODES, ("event", "event", "event", "tally"), strict=True))
    assert write["failed"] == {"field": "ret", "op": "!=", "value": 0}
    assert write["bytes"] == "size" and write["blocking"] is True
    assert [a["kind"] for a in write["args"]] == ["handle", "uint", "int", "uint", "array", "handle", "enum"]


def written(api: Api, mode: str) -> set[str]:
    """Events that a mode writes, by the levels of the functions; records always."""
    out = {record.name for record in api.records}
    for function in api.functions:
        if function.levels[MODES.index(mode)] == "event":
            out |= {function.event, f"{function.event}_begin"} if function.blocking else {function.event}
    return out


def test_log_levels_choose_what_a_mode_writes() -> None:
    """A session enables all events up to its mode's log level: these, and no others."""
    numbers = dict(re.findall(r"LTTNG_LOGLEVEL_(\w+) += (\d+)", Path("/usr/include/lttng/event.h").read_text()))
    model = parse_folder(ROOT / "tracepoints")
    files = files_of(model)
    for api in (*model.apis, parse_text(SMALL)):
        header = files.get(f"native/{api.name}_tp.h") or files_of(Model((api,)))[f"native/{api.name}_tp.h"]
        levels = dict(
            re.findall(rf"TRACEPOINT_LOGLEVEL\({api.provider}, (\w+), LTTNG_UST_TRACEPOINT_LOGLEVEL_(\w+)\)", header)
        )
        assert set(levels) == written(api, "full")
        assert api.provider.startswith(events.PATTERN.removesuffix("*"))
        for mode in MODES:
            enabled = {event for event, level in levels.items() if int(numbers[level]) <= events.LOGLEVELS[mode]}
            assert enabled == written(api, mode), (api.name, mode)


@pytest.mark.compiles
def test_the_real_model_covers_the_dispatch_table() -> None:
    api = next(a for a in parse_folder(ROOT / "tracepoints").apis if a.name == "opencl")
    header = subprocess.run(
        ["gcc", "-E", "-x", "c", "-"], input="#include <CL/cl_icd.h>\n", text=True, capture_output=True, check=True
    ).stdout
    body = header[header.index("struct _cl_icd_dispatch {") :]
    body = body[: body.index("}")]
    typed = [
        line.split()[-1].strip(";").removeprefix("cl_api_").removeprefix("*")
        for line in body.splitlines()
        if "cl_api_cl" in line or "clGetExt" in line
    ]
    names = {f.name for f in api.functions}
    assert len(typed) > 130
    # The Direct3D slots are untyped pointers on Linux.
    missing = [n for n in typed if n not in names and "D3D" not in n and "DX9" not in n]
    assert missing == []


def test_an_enumeration_of_many_calls_is_a_number_in_the_trace() -> None:
    """LTTng describes an enumeration for every field when a process registers: the error codes of OpenCL alone were 13,000
    labels of 88 fields, three quarters of the metadata. The plug-in for babeltrace2 names them."""
    model = parse_folder(ROOT / "tracepoints")
    for api in model.apis:
        fields = [x for f in api.functions for x in f.fields if x.type.kind == "enum" and not is_number(x, api)]
        assert sum(len(api.enum(str(x.type.enum)).values) for x in fields) < 1000, api.name
    opencl = next(a for a in model.apis if a.name == "opencl")
    assert {field: enum.name for field, enum in opencl.numbers.items()} == {
        "errcode_ret": "cl_error",
        "ret": "cl_error",
    }
    files = files_of(model)
    assert "lttng_ust_field_integer(int32_t, errcode_ret, a->errcode_ret)" in files["native/opencl_tp.h"]
    assert "CL_INVALID_VALUE" not in files["native/opencl_tp.h"]
    assert '{-30, "CL_INVALID_VALUE"},' in files["native/numbers.h"]
    # A field of that name which is another number.
    assert '{"hip", "ret", " hipGetStreamDeviceId ", k_hip_hipError_t,' in files["native/numbers.h"]


def test_a_probe_is_shared_by_events_of_the_same_form_only() -> None:
    def form(f: Function) -> list[str]:
        return [re.sub(rf"\b{x.name}(?=_length\b|\b)", "x", member(x)) for x in f.fields]

    model = parse_folder(ROOT / "tracepoints")
    files = files_of(model)
    for api in model.apis:
        shared = alike(api).events
        assert [f.event for f, other, _ in shared if form(f) != form(other)] == []
        # Each has a probe, or that of another one, which has one.
        header = files[f"native/{api.name}_tp.h"]
        own = set(re.findall(rf"TRACEPOINT_EVENT\({api.provider}, (\w+)", header))
        assert {f.event for f in api.plain} - own == {f.event for f, _, _ in shared}
        assert {other.event for _, other, _ in shared} <= own
        # None that could have another one's has its own.
        forms = [form(f) for f in api.plain if f.event in own]
        assert len(forms) == len({*map(tuple, forms)})
    assert sum(len(alike(api).events) for api in model.apis) > 1000


def test_generated_files_are_not_rewritten_when_nothing_changed(tmp_path: Path) -> None:
    command = [
        sys.executable,
        str(ROOT / "tools/generate.py"),
        "--model",
        str(ROOT / "tracepoints"),
        "--output",
        str(tmp_path),
    ]
    subprocess.run(command, check=True)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.is_file()}
    subprocess.run(command, check=True)
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.is_file()} == before


def test_a_broken_model_stops_the_build_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL.replace("bytes: size", "bytes: sise"))
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools/generate.py"), "--model", str(tmp_path), "--output", str(tmp_path / "out")],
        text=True,
        capture_output=True,
    )
    assert done.returncode == 1
    assert done.stderr.strip() == "generate.py: small.yaml: function smallWrite: bytes: no field sise"
    assert not (tmp_path / "out").exists()
