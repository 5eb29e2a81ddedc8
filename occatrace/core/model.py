"""The model of what is traced, as the analysis needs it: `_model.json`, which the generator writes."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from occatrace.core.apis import MODEL, read_head

if TYPE_CHECKING:  # NumPy takes 40 ms to load, and a report of tables that are there needs none
    import numpy as np
    import numpy.typing as npt

_LIBRARIES = Path(__file__).parents[1] / "libraries"

V = TypeVar("V")

# Classes of functions that carry messages between ranks.
_MESSAGES = ("send", "recv", "sendrecv", "onesided", "collective")
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
    flags: str | None = None

    def kinds_of(self, columns: Mapping[str, npt.NDArray[Any]], count: int) -> npt.NDArray[np.uint8]:
        """The kind of each of `count` allocations."""
        import numpy as np

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
class Maps:
    """How the host comes to see memory: names of fields."""

    memory: str
    address: str
    bytes: str


@dataclass(frozen=True)
class Frees:
    """What an event ends: the memory of a handle, or of an array of them."""

    handle: str
    unless: str | None = None
    by: str | None = None
    also: str | None = None  # another handle that ends with it, or 0


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
    maps: Maps | None = None
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


@dataclass
class _Api:
    """What is known of one API."""

    functions: dict[str, Function]  # by key
    enums: Mapping[str, Enum]
    events: dict[str, Function]
    begins: dict[str, Function]
    freeing: dict[str, FreeingRecord]


class _Lazy(Mapping[str, V]):
    """A mapping whose entries are found when they are asked for."""

    def __init__(self, find: Callable[[str], V | None], names: Callable[[], Iterable[str]]) -> None:
        self._find = find
        self._names = names

    def __getitem__(self, name: str) -> V:
        found = self._find(name)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Model:
    """All APIs, each read when something of it is asked for: most runs have calls of a few.

    What a row of a table names by a number is numbered as APIs are read, and keeps its number."""

    def __init__(
        self,
        index: Mapping[str, Mapping[str, Any]],
        memory_kinds: Sequence[str],
        read: Callable[[str], Mapping[str, Any]],
        copy_sides: Sequence[str] = (),
    ) -> None:
        """`index`: title and provider of each API, and whether its names are read on request; `read` gives the rest."""
        self._index = index
        self._read = read
        self._apis: dict[str, _Api] = {}
        self._api_of = {entry["provider"]: api for api, entry in index.items()}
        self.titles: Mapping[str, str] = {api: entry.get("title", api) for api, entry in index.items()}
        self.memory_kinds = tuple(memory_kinds)
        self.copy_sides = tuple(copy_sides)
        # APIs whose memory has handles that are no addresses, as it is mapped to be seen.
        self.mapping = tuple(sorted(api for api, entry in index.items() if entry.get("maps")))
        # API and name of each function that allocates or frees, and of each value of `by` of the freeing records.
        self.memory_code: dict[tuple[str, str], int] = {}
        # The functions that build or load code for a device, and those that carry messages between ranks.
        self.compiling: list[Function] = []
        self.message_functions: list[str] = []

        def of_all(part: str) -> Callable[[], Iterable[str]]:
            return lambda: [name for api in index for name in getattr(self._api(api), part)]

        # Function of each call event, and of each `_begin` event; records that end memory; enumerations by API.
        self.by_event: Mapping[str, Function] = _Lazy(lambda e: self._of(e, "events"), of_all("events"))
        self.begin_events: Mapping[str, Function] = _Lazy(lambda e: self._of(e, "begins"), of_all("begins"))
        self.freeing: Mapping[str, FreeingRecord] = _Lazy(lambda e: self._of(e, "freeing"), of_all("freeing"))
        self.enums: Mapping[str, Mapping[str, Enum]] = _Lazy(
            lambda api: self._api(api).enums if api in index else None, lambda: index
        )

    def _of(self, event: str, part: str) -> Any:
        api = self._api_of.get(event.partition(":")[0])
        return None if api is None else getattr(self._api(api), part).get(event)

    def _api(self, name: str) -> _Api:
        known = self._apis.get(name)
        if known is None:
            known = self._apis[name] = _api(name, self._index[name], self._read(name), self.memory_kinds)
            functions = known.functions.values()
            found = [(name, f.name) for f in functions if f.allocates or f.frees]
            for record in known.freeing.values():
                found += [(name, text) for text in record.by.values() or (record.name,)]
            for head in found:
                self.memory_code.setdefault(head, len(self.memory_code))
            self.compiling += [f for f in functions if f.compiles]
            self.message_functions += [f.name for f in functions if f.kind in _MESSAGES]
        return known

    @property
    def functions(self) -> tuple[Function, ...]:
        """Those of all APIs."""
        return tuple(f for api in self._index for f in self._api(api).functions.values())

    def call_events(self, apis: Iterable[str]) -> list[str]:
        """Names of the events of calls of these APIs."""
        libraries = {api: event for event, api in self.library_events.items()}
        out: list[str] = []
        for api in apis:
            if api in self._index:
                out += [libraries[api]] if api in libraries else self._api(api).events
        return out

    @cached_property
    def library_events(self) -> Mapping[str, str]:
        """The one kind of event of each library on top, and its API."""
        return {f"{entry['provider']}:call": api for api, entry in self._index.items() if entry.get("on_request")}

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
        import numpy as np

        for code in np.unique(codes).tolist():
            rows = codes == code
            part = {name: column[rows] for name, column in columns.items() if name != "function"}
            yield self._library_function(api, names.get(code, f"function {code}")).event, part

    def _library_function(self, api: str, name: str) -> Function:
        event = f"{self._index[api]['provider']}:{name}"
        events = self._api(api).events
        known = events.get(event)
        if known is None:
            status = Arg("ret", "enum", "status")
            known = Function(api, name, name, event, False, (status,), Failure("ret", "!=", 0), None, None)
            events[event] = known
        return known

    def function(self, api: str, key: str) -> Function | None:
        """A function by the name of its event."""
        entry = self._index.get(api)
        if entry is None:
            return None
        if entry.get("on_request"):
            return self._library_function(api, key)
        return self._api(api).functions.get(key)

    def _recorded(self, name: str) -> tuple[str, str, Function | None]:
        """API, key and function of "api:function"; a library on top has the names alone."""
        api, _, key = name.partition(":")
        entry = self._index.get(api)
        return api, key, None if entry is None or entry.get("on_request") else self.function(api, key)

    def tally_function(self, name: str) -> tuple[str, str]:
        """API and shown name of a tally's "api:function"."""
        api, key, function = self._recorded(name)
        return (api, function.name if function else key)

    def texts(self, api: str, enum: str) -> Mapping[int, str]:
        """Names of an enumeration by value."""
        return {value: text for text, value in self.enums[api][enum].values.items()}

    def lost(self, name: str) -> str | None:
        """What did not come about when a call of "api:function" failed: device work, memory, a build; or none of these."""
        function = self._recorded(name)[2]
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
        *(entry.get(key) for key in ("parent", "mode", "scope", "context", "flags")),
    )


def _frees(entry: Mapping[str, Any] | None) -> Frees | None:
    return Frees(entry["handle"], entry.get("unless"), entry.get("by"), entry.get("also")) if entry else None


def _api(api: str, head: Mapping[str, Any], entry: Mapping[str, Any], memory_kinds: Sequence[str]) -> _Api:
    provider = head["provider"]
    functions = {}
    for key, f in entry["functions"].items():
        failed = f.get("failed")
        functions[key] = Function(
            api=api,
            key=key,
            name=f.get("name", key),
            event=f"{provider}:{key}",
            blocking=bool(f.get("blocking")),
            args=tuple(
                Arg(a["name"], a["kind"], a.get("enum"), a.get("element"), bool(a.get("hex")), bool(a.get("out")))
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
            maps=Maps(**f["maps"]) if f.get("maps") else None,
            kind=f.get("class", ""),
            shape=f.get("shape", ""),
        )
    enums: Mapping[str, Enum]
    if head.get("on_request"):
        enums = LibraryNames(_LIBRARIES / f"{api}.json")
    else:
        enums = {name: Enum(e["values"], bool(e.get("bitfield"))) for name, e in entry.get("enums", {}).items()}
    freeing = {}
    for name, record in entry.get("records", {}).items():
        frees = _frees(record.get("frees"))
        if frees:
            enum = next((f.get("enum") for f in record["fields"] if f["name"] == frees.by), None)
            by = {value: text for text, value in enums[enum].values.items()} if enum else {}
            freeing[f"{provider}:{name}"] = FreeingRecord(api, name, frees, by)
    return _Api(
        functions,
        enums,
        {f.event: f for f in functions.values()},
        {f"{f.event}_begin": f for f in functions.values() if f.blocking},
        freeing,
    )


def from_json(data: Mapping[str, Any]) -> Model:
    """The model from the content of `_model.json`."""
    apis = data["apis"]
    index = data.get("index") or {
        name: {**api, "maps": any(f.get("maps") for f in api["functions"].values())} for name, api in apis.items()
    }
    return Model(index, data.get("memory_kinds", ()), lambda api: apis[api], data.get("copy_sides", ()))


@cache
def load() -> Model:
    """The model that this installation was built from. Its file has a line for what is of all APIs and one for each."""

    def read(api: str) -> Mapping[str, Any]:
        content = MODEL.read_bytes()
        begin = content.index(b"\n" + json.dumps(api).encode() + b":") + 1
        line: dict[str, Any] = json.loads(b"{" + content[begin : content.index(b"\n", begin)].rstrip(b",") + b"}")
        entry: Mapping[str, Any] = line[api]
        return entry

    head = read_head()
    return Model(head["index"], head["memory_kinds"], read, head["copy_sides"])
