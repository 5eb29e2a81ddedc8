"""Libraries on top (cuBLAS, …): tracepoints/libraries/*.yaml → their APIs. Thin: names, codes and levels of functions, one
kind of event for all calls of a library, so that thousands of functions cost neither a wrapper nor a tracepoint each."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import yaml

from .model import Api, Enum, Field, Level, Library, LibraryFunction, Record, Type
from .parse import ModelError

_KEYS = {"title", "anchor", "status", "events", "tallies", "plain"}
# default, minimal, full, tally
_EVENT: tuple[Level, ...] = ("event", "tally", "event", "tally")
_TALLY: tuple[Level, ...] = ("tally", "tally", "event", "tally")


def code_of(name: str) -> int:
    """The number that stands for a function in a trace: the same in every version of the model."""
    return zlib.crc32(name.encode()) & 0x7FFFFFFF


def parse_libraries(folder: Path) -> tuple[Api, ...]:
    """All of them, by name."""
    return tuple(_parse(path) for path in sorted(folder.glob("*.yaml")))


def _parse(path: Path) -> Api:
    data: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    if data.keys() != _KEYS:
        raise ModelError(f"{path.name}: needs just these keys: {', '.join(sorted(_KEYS))}")
    name = path.stem
    functions = [
        LibraryFunction(function, code_of(function), levels, function not in data["plain"])
        for key, levels in (("events", _EVENT), ("tallies", _TALLY))
        for function in data[key]
    ]
    functions.sort(key=lambda f: f.name)
    names = {f.name for f in functions}
    if len({f.code for f in functions}) != len(functions):
        raise ModelError(f"{path.name}: two functions have one number, or one stands twice")
    if unknown := [f for f in (data["anchor"], *data["plain"]) if f not in names]:
        raise ModelError(f"{path.name}: {unknown[0]} is no function of it")
    called = Record(
        "call",
        (
            Field("start", Type("int", 64), unit="ns"),
            Field("function", Type("enum", 32, enum="function"), doc="its name"),
            Field("ret", Type("enum", 32, signed=True, enum="status"), doc="what the call returned"),
        ),
        doc="a call of one of its functions",
    )
    return Api(
        name=name,
        title=str(data["title"]),
        provider=f"occatrace_{name}",
        library=name,
        enums=(
            Enum("function", tuple((f.name, f.code) for f in functions), False),
            Enum("status", tuple((str(key), int(value)) for key, value in data["status"].items()), False),
        ),
        functions=(),
        records=(called,),
        on_top=Library(tuple(functions), str(data["anchor"])),
    )
