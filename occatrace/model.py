"""The model of what is traced, as the analysis needs it: `_model.json`, which the generator writes."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_LIBRARIES = Path(__file__).with_name("libraries")

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
    ignored: int | None = None  # a value that is an answer and no failure

    def mask(self, column: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Which calls failed."""
        mask: npt.NDArray[np.bool_] = _OPERATORS[self.op](column, self.value)
        return mask if self.ignored is None else mask & (column != self.ignored)


@dataclass(frozen=True)
class Allocates:
    """What a call makes known as memory: names of its event's fields, and how its kind follows from one of them."""

    handle: str
    bytes: str | None
    kind: int  # place in Model.memory_kinds
    kind_field: str | None = None
    kinds: tuple[tuple[int, int], ...] = ()  # value or bits of that field, kind
    bits: bool = False
    parent: str | None = None
    mode: str | None = None
    scope: str | None = None
    context: str | None = None

    def kinds_of(self, columns: Mapping[str, npt.NDArray[Any]], count: int) -> npt.NDArray[np.uint8]:
        """The kind of each of `count` allocations."""
        result = np.full(count, self.kind, np.uint8)
        if self.kind_field is None or self.kind_field not in columns:
            return result
        values = columns[self.kind_field]
        for value, kind in reversed(self.kinds):
            mask = (values & values.dtype.type(value)) != 0 if self.bits else values == value
            result[mask] = kind
        return result


@dataclass(frozen=True)
class Copies:
    """What a call copies from and to: names of fields that hold addresses, or of `Model.copy_sides`."""

    source: str
    target: str


@dataclass(frozen=True)
class Frees:
    """What an event ends: the memory of a handle, or of an array of them."""

    handle: str
    unless: str | None = None
    by: str | None = None


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
    allocates: Allocates | None = None
    frees: Frees | None = None
    compiles: bool = False
    copies: Copies | None = None
    kind: str = ""  # its class, where the model has classes of functions
    shape: str = ""


@dataclass(frozen=True)
class FreeingRecord:
    """An event that is no call and says that memory ended."""

    api: str
    name: str
    frees: Frees
    by: Mapping[int, str]  # names of the functions in the field `frees.by`


@dataclass(frozen=True)
class Enum:
    """Names of the values of an enumeration or a bit field."""

    values: Mapping[str, int]
    bitfield: bool


class LibraryNames(Mapping[str, Enum]):
    """Names of the functions and codes of a library on top (cuBLAS, …): read when a run has calls of it."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @cached_property
    def _enums(self) -> dict[str, Enum]:
        data = json.loads(self._file.read_text(encoding="utf-8"))
        return {name: Enum({text: int(value) for value, text in e.items()}, False) for name, e in data.items()}

    def __getitem__(self, name: str) -> Enum:
        return self._enums[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._enums)

    def __len__(self) -> int:
        return len(self._enums)


@dataclass(frozen=True)
class Model:
    """All APIs."""

    titles: Mapping[str, str]
    functions: tuple[Function, ...]
    enums: Mapping[str, Mapping[str, Enum]]  # by API
    memory_kinds: tuple[str, ...] = ()
    copy_sides: tuple[str, ...] = ()
    freeing: Mapping[str, FreeingRecord] = field(default_factory=dict)  # by event

    @cached_property
    def by_event(self) -> dict[str, Function]:
        """Function of each call event; those of libraries on top join as they are met (`by_function`)."""
        return {f.event: f for f in self.functions}

    @cached_property
    def library_events(self) -> Mapping[str, str]:
        """The one kind of event of each library on top, and its API."""
        return {f"occatrace_{api}:call": api for api, enums in self.enums.items() if isinstance(enums, LibraryNames)}

    def by_function(
        self, event: str, columns: Mapping[str, npt.NDArray[Any]]
    ) -> Iterator[tuple[str, Mapping[str, npt.NDArray[Any]]]]:
        """A batch as it is, or one of a library on top apart by its functions, as if each had an event of its own."""
        api = self.library_events.get(event)
        if api is None:
            yield event, columns
            return
        names = self.texts(api, "function")
        codes = columns["function"]
        for code in np.unique(codes).tolist():
            rows = codes == code
            part = {name: column[rows] for name, column in columns.items() if name != "function"}
            yield self._library_function(api, names.get(code, f"function {code}")).event, part

    def _library_function(self, api: str, name: str) -> Function:
        event = f"occatrace_{api}:{name}"
        known = self.by_event.get(event)
        if known is None:
            status = Arg("ret", "enum", "status")
            known = Function(api, name, name, event, False, (status,), Failure("ret", "!=", 0), None, None)
            self.by_event[event] = known
        return known

    def function(self, api: str, key: str) -> Function | None:
        """A function by the name of its event."""
        if isinstance(self.enums.get(api), LibraryNames):
            return self._library_function(api, key)
        return self._by_key.get((api, key))

    @cached_property
    def begin_events(self) -> Mapping[str, Function]:
        """Function of each `_begin` event."""
        return {f"{f.event}_begin": f for f in self.functions if f.blocking}

    @cached_property
    def memory_functions(self) -> tuple[tuple[str, str], ...]:
        """API and name of each function that allocates or frees, and of each value of `by` of the freeing records."""
        found = [(f.api, f.name) for f in self.functions if f.allocates or f.frees]
        for record in self.freeing.values():
            found += [(record.api, text) for text in record.by.values() or (record.name,)]
        return tuple(dict.fromkeys(found))

    @cached_property
    def memory_code(self) -> Mapping[tuple[str, str], int]:
        """Place in `memory_functions`."""
        return {head: at for at, head in enumerate(self.memory_functions)}

    @cached_property
    def compiling(self) -> tuple[Function, ...]:
        """The functions that build or load code for a device."""
        return tuple(f for f in self.functions if f.compiles)

    def tally_function(self, name: str) -> tuple[str, str]:
        """API and shown name of a tally's "api:function"."""
        api, _, key = name.partition(":")
        function = self._by_key.get((api, key))
        return (api, function.name if function else key)

    def texts(self, api: str, enum: str) -> Mapping[int, str]:
        """Names of an enumeration by value."""
        return {value: text for text, value in self.enums[api][enum].values.items()}

    def lost(self, name: str) -> str | None:
        """What did not come about when a call of "api:function" failed: device work, memory, a build; or none of these."""
        api, _, key = name.partition(":")
        function = self._by_key.get((api, key))
        if function is None:
            return None
        return function.activity or ("memory" if function.allocates else "build" if function.compiles else None)

    def error_name(self, name: str, code: int) -> str:
        """What the model calls the code by which a call of "api:function" failed; the number where it has no name."""
        api, _, key = name.partition(":")
        function = self.function(api, key)
        if function and function.failed:
            arg = next(a for a in function.args if a.name == function.failed.field)
            if arg.enum:
                return self.texts(api, arg.enum).get(code, str(code))
        return str(code)

    @cached_property
    def message_functions(self) -> tuple[str, ...]:
        """Functions that carry messages between ranks; a row of a table names one by its place here."""
        kinds = ("send", "recv", "sendrecv", "onesided", "collective")
        return tuple(f.name for f in self.functions if f.kind in kinds)

    @cached_property
    def _by_key(self) -> Mapping[tuple[str, str], Function]:
        return {(f.api, f.key): f for f in self.functions}


def _allocates(entry: Mapping[str, Any] | None, kinds: Sequence[str]) -> Allocates | None:
    if not entry:
        return None
    place = {kind: at for at, kind in enumerate(kinds)}
    return Allocates(
        entry["handle"],
        entry.get("bytes"),
        place[entry["kind"]],
        entry.get("kind_field"),
        tuple((int(value), place[kind]) for value, kind in entry.get("kinds", ())),
        bool(entry.get("bits")),
        *(entry.get(key) for key in ("parent", "mode", "scope", "context")),
    )


def _frees(entry: Mapping[str, Any] | None) -> Frees | None:
    return Frees(entry["handle"], entry.get("unless"), entry.get("by")) if entry else None


def from_json(data: Mapping[str, Any]) -> Model:
    """The model from the content of `_model.json`."""
    functions = []
    memory_kinds = tuple(data.get("memory_kinds", ()))
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
                    failed=Failure(failed["field"], failed["op"], int(failed["value"]), failed.get("except"))
                    if failed
                    else None,
                    bytes=f.get("bytes"),
                    activity=f.get("activity"),
                    allocates=_allocates(f.get("allocates"), memory_kinds),
                    frees=_frees(f.get("frees")),
                    compiles=bool(f.get("compiles")),
                    copies=Copies(f["copies"]["from"], f["copies"]["to"]) if f.get("copies") else None,
                    kind=f.get("class", ""),
                    shape=f.get("shape", ""),
                )
            )
    enums: dict[str, Mapping[str, Enum]] = {
        api: LibraryNames(_LIBRARIES / f"{api}.json")
        if entry.get("on_request")
        else {name: Enum(e["values"], bool(e.get("bitfield"))) for name, e in entry.get("enums", {}).items()}
        for api, entry in data["apis"].items()
    }
    freeing = {}
    for api, entry in data["apis"].items():
        for name, record in entry.get("records", {}).items():
            frees = _frees(record.get("frees"))
            if frees:
                enum = next((f.get("enum") for f in record["fields"] if f["name"] == frees.by), None)
                by = {value: text for text, value in enums[api][enum].values.items()} if enum else {}
                freeing[f"{entry['provider']}:{name}"] = FreeingRecord(api, name, frees, by)
    titles = {api: e.get("title", api) for api, e in data["apis"].items()}
    return Model(titles, tuple(functions), enums, memory_kinds, tuple(data.get("copy_sides", ())), freeing)


@cache
def load() -> Model:
    """The model that this installation was built from."""
    path = Path(__file__).with_name("_model.json")
    return from_json(json.loads(path.read_text(encoding="utf-8")))
