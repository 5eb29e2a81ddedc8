"""Which APIs a run traces: the value of --trace. The names are those of the model; what is not chosen is not touched."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

MODEL = Path(__file__).parents[1] / "_model.json"
VARIABLE = "OCCATRACE_TRACE"
# Of what the model has, no choice: without them nothing can be told.
ALWAYS = ("process", "device", "papi")
# One API to the analysis, several to those who write programs.
PARTS = {"annotation": ("nvtx", "roctx", "itt")}
# Marks of libraries that nobody but their makers wants unasked: the part whose interface they come by.
ON_TOP = {"tbb": "itt"}
# Runtimes above a driver are meant with it.
TOGETHER = {"cuda": ("cudart",), "hip": ("hiprtc",)}
DEFAULT, NONE = "default", "none"


class UnknownName(ValueError):
    """A name that is none of the list."""


@dataclass(frozen=True)
class Traced:
    """The APIs that are traced, and the parts of those that have some."""

    names: frozenset[str]
    libraries: frozenset[str] = frozenset()  # of them: those on top (cuBLAS, …), each preloaded

    def __contains__(self, name: str) -> bool:
        return name in self.names

    @property
    def variable(self) -> str:
        """For the traced program."""
        return ",".join(sorted(self.names)) or NONE


@cache
def read_head() -> dict[str, Any]:
    """The first line of `_model.json`: what is of all APIs."""
    with MODEL.open("rb") as file:
        result: dict[str, Any] = json.loads(file.readline() + b"}}")
    return result


def read_model() -> dict[str, Any]:
    """The APIs of the model, without what they have: only a run with --trace needs them."""
    return {"apis": read_head()["index"]}


@cache
def api_titles() -> Mapping[str, str]:
    """What people call the APIs of the model."""
    return {name: entry["title"] for name, entry in read_head()["index"].items() if name not in ALWAYS}


def all_of(model: Mapping[str, Any]) -> tuple[str, ...]:
    """Every name that --trace takes, but for its two words."""
    apis = [api for api in model["apis"] if api not in ALWAYS]
    parts = {part for api in apis for part in PARTS.get(api, ())}
    return tuple(sorted({*apis, *parts, *(name for name, part in ON_TOP.items() if part in parts)}))


def on_request(model: Mapping[str, Any]) -> frozenset[str]:
    """What is traced only where it is asked for."""
    return frozenset(api for api, entry in model["apis"].items() if entry.get("on_request"))


def parse(text: str, model: Mapping[str, Any]) -> Traced | None:
    """The value of --trace; None: what is traced without it."""
    known = all_of(model)
    words = [word for word in (word.strip().lower() for word in text.split(",")) if word]
    unknown = [word for word in words if word not in (*known, DEFAULT, NONE)]
    if unknown or not words or (NONE in words and len(words) > 1):
        wrong = (
            f"no API {unknown[0]!r} is traced"
            if unknown
            else f"{text!r} is an empty list, or combines none with other APIs"
        )
        raise UnknownName(f"{wrong}; there are: {', '.join(known)}, {DEFAULT}, {NONE}")
    if words == [DEFAULT]:
        return None
    names = frozenset(_expanded(words, model))
    return Traced(names, names & on_request(model))


def _expanded(words: Iterable[str], model: Mapping[str, Any]) -> Iterable[str]:
    apis = [api for api in model["apis"] if api not in ALWAYS]
    usual = [api for api in apis if api not in on_request(model)]
    for word in words:
        for name in usual if word == DEFAULT else () if word == NONE else (word,):
            yield name
            if name in ON_TOP:
                yield from _expanded([ON_TOP[name]], model)
            yield from PARTS.get(name, ())
            yield from (other for other in TOGETHER.get(name, ()) if other in apis)
            yield from (api for api, parts in PARTS.items() if name in parts)
