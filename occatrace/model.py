"""The model of what is traced, as the analysis needs it: `_model.json`, which the generator writes."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Failure:
    """How a failed call is known: a field of its event, an operator, a value."""

    field: str
    op: str
    value: int

    def mask(self, column: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Which calls failed."""
        mask: npt.NDArray[np.bool_] = _OPERATORS[self.op](column, self.value)
        return mask


@dataclass(frozen=True)
class Arg:
    """One field of a call's event."""

    name: str
    kind: str
    enum: str | None = None
    element: str | None = None  # of an array
    hex: bool = False
    out: bool = False


@dataclass(frozen=True)
class Function:
    """One traced function."""

    api: str
    key: str  # the event's own name
    name: str  # as people write it
    event: str  # provider:event
    blocking: bool
    args: tuple[Arg, ...]
    failed: Failure | None
    bytes: str | None
    activity: str | None


@dataclass(frozen=True)
class Enum:
    """Names of the values of an enumeration or a bit field."""

    values: Mapping[str, int]
    bitfield: bool


@dataclass(frozen=True)
class Model:
    """All APIs."""

    titles: Mapping[str, str]
    functions: tuple[Function, ...]
    enums: Mapping[str, Mapping[str, Enum]]  # by API

    @cached_property
    def by_event(self) -> Mapping[str, Function]:
        """Function of each call event."""
        return {f.event: f for f in self.functions}

    @cached_property
    def begin_events(self) -> Mapping[str, Function]:
        """Function of each `_begin` event."""
        return {f"{f.event}_begin": f for f in self.functions if f.blocking}

    def tally_function(self, name: str) -> tuple[str, str]:
        """API and shown name of a tally's "api:function"."""
        api, _, key = name.partition(":")
        function = self._by_key.get((api, key))
        return (api, function.name if function else key)

    def texts(self, api: str, enum: str) -> Mapping[int, str]:
        """Names of an enumeration by value."""
        return {value: text for text, value in self.enums[api][enum].values.items()}

    def error_name(self, name: str, code: int) -> str:
        """What the model calls the code by which a call of "api:function" failed; the number where it has no name."""
        api, _, key = name.partition(":")
        function = self._by_key.get((api, key))
        if function and function.failed:
            field = next(a for a in function.args if a.name == function.failed.field)
            if field.enum:
                return self.texts(api, field.enum).get(code, str(code))
        return str(code)

    @cached_property
    def _by_key(self) -> Mapping[tuple[str, str], Function]:
        return {(f.api, f.key): f for f in self.functions}


def from_json(data: Mapping[str, Any]) -> Model:
    """The model from the content of `_model.json`."""
    functions = []
    for api, entry in data["apis"].items():
        for key, f in entry["functions"].items():
            failed = f.get("failed")
            functions.append(
                Function(
                    api=api,
                    key=key,
                    name=f.get("name", key),
                    event=f"{entry['provider']}:{key}",
                    blocking=bool(f.get("blocking")),
                    args=tuple(
                        Arg(
                            a["name"],
                            a["kind"],
                            a.get("enum"),
                            a.get("element"),
                            bool(a.get("hex")),
                            bool(a.get("out")),
                        )
                        for a in f.get("args", ())
                    ),
                    failed=Failure(failed["field"], failed["op"], int(failed["value"])) if failed else None,
                    bytes=f.get("bytes"),
                    activity=f.get("activity"),
                )
            )
    enums = {
        api: {name: Enum(e["values"], bool(e.get("bitfield"))) for name, e in entry.get("enums", {}).items()}
        for api, entry in data["apis"].items()
    }
    return Model({api: e.get("title", api) for api, e in data["apis"].items()}, tuple(functions), enums)


@cache
def load() -> Model:
    """The model that this installation was built from."""
    path = Path(__file__).with_name("_model.json")
    return from_json(json.loads(path.read_text(encoding="utf-8")))
