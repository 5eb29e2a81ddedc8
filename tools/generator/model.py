"""The model: what is traced and what it means. Immutable; knows nothing of YAML or of any output."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Literal

Level = Literal["off", "tally", "event"]
MODES = ("default", "minimal", "full", "tally")
LEVELS: tuple[Level, ...] = ("off", "tally", "event")
# LTTng's log level of an event, by the first of the modes, from the one that writes the fewest, in which it is written; of
# records, which are always written, the first. A session enables by it what its mode writes, in one command: a process
# pays for every event that is enabled, and the session for every command.
LOGLEVELS = {"tally": "NOTICE", "minimal": "INFO", "default": "DEBUG_SYSTEM", "full": "DEBUG"}
# Bytes of a blob that are recorded.
BLOB_MAX = 64
# What allocated memory can be. A slice is a part of another allocation and counts no bytes of its own; what is wrapped
# is the program's own memory, made known to the API.
MEMORY_KINDS = ("device", "host", "managed", "svm", "image", "pipe", "pool", "slice", "wrapped", "array", "mapped")
# What a copy reads or writes where no address tells it.
COPY_SIDES = ("array", "peer", "device")
# How many fields of calls may have an enumeration that the trace itself names.
REPEATED = 40
# Fields that every event carries before its own.
COMMON = ("tid", "seq")


@dataclass(frozen=True)
class Enum:
    name: str
    values: tuple[tuple[str, int], ...]
    bitfield: bool
    constants: str = ""  # C needs the values, as constants that begin with this

    def constant(self, text: str) -> str:
        """The name of a value in C."""
        return self.constants + re.sub(r"\W+", "_", text).upper()


@dataclass(frozen=True)
class Type:
    """What a C type is to the trace: kind int, handle, pointer, string, float, opaque (not recorded); bits and sign of integers."""

    kind: str
    bits: int = 64
    signed: bool = False
    enum: str | None = None
    hex: bool = False

    @property
    def c(self) -> str:
        if self.kind == "string":
            return "const char *"
        if self.kind == "float":
            return "double" if self.bits == 64 else "float"
        return f"{'' if self.signed else 'u'}int{self.bits}_t"

    @property
    def column(self) -> str:
        if self.kind == "string":
            return "str"
        return ("f" if self.kind == "float" else "i" if self.signed else "u") + str(self.bits)


@dataclass(frozen=True)
class Field:
    """A field of an event. `array`: a sequence; `length` is the name of the argument that holds its length."""

    name: str
    type: Type
    array: bool = False
    length: str | None = None
    doc: str = ""
    unit: str = ""

    @property
    def column(self) -> str:
        return f"seq<{self.type.column}>" if self.array else self.type.column


@dataclass(frozen=True)
class Arg:
    name: str
    ctype: str
    field: Field
    out: bool = False
    role: str = ""
    ensure: bool = False  # a location of ours stands in where the caller gives none
    blob: bool = False  # raw bytes, as many as `field.length` says, cut at BLOB_MAX
    value: str = ""  # C expression over the other arguments, for a field that is no argument

    @property
    def declaration(self) -> str:
        return f"{self.ctype}{'' if self.ctype.endswith('*') else ' '}{self.name}"


@dataclass(frozen=True)
class Failure:
    field: str
    op: str
    value: int
    ignored: int | None = None  # a value that is an answer and no failure


@dataclass(frozen=True)
class Activity:
    """The device work that a call makes. All but the kind and the reasons are C++ expressions over the call's arguments, evaluated
    after it; the backend has the functions that they name."""

    kind: str  # of the enumeration activity_kind, or "copy": its two sides decide
    queue: str | None = None  # absent: the default queue
    event: str | None = None  # the argument that gets the command's event
    event_required: bool = False  # without it the call fails
    bytes: str | None = None
    source: str | None = None  # of a copy: what the backend's on_device() is asked for; "true": always on the device
    target: str | None = None
    direction: str | None = None  # argument that says the direction of a copy
    count: str | None = None  # so many copies by one call: the other expressions are of the one at `at`
    kernel: str | None = None  # interned name of the kernel
    name: str | None = None  # a constant name
    blocks: tuple[str, ...] = ()  # grid in blocks, or
    items: tuple[str, ...] = ()  # in work-items: three numbers, or one expression
    block: tuple[str, ...] = ()
    mapping: str | None = None  # address of a mapping: what is unmapped there has its bytes
    memory: tuple[str, ...] = ()  # arguments that name the memory it uses
    by_hand: str = ""  # the hook is written by hand, for this reason
    untimed: str = ""  # no device work is recorded, for this reason


@dataclass(frozen=True)
class Allocates:
    """The call makes memory known by a handle. All but `kind` and `kinds` are names of fields."""

    handle: str
    bytes: str | None
    kind: str  # where no field tells
    kind_field: str | None = None
    # Values (or, of a bit field, bits: the first that is set counts) of that field and the kinds they mean.
    kinds: tuple[tuple[int, str], ...] = ()
    bits: bool = False
    parent: str | None = None
    mode: str | None = None
    scope: str | None = None
    context: str | None = None
    flags: str | None = None


@dataclass(frozen=True)
class Frees:
    """The event ends the memory of a handle (or of an array of them)."""

    handle: str
    unless: str | None = None  # a field: where it is not zero, nothing was freed by this call
    by: str | None = None  # a field that names the function in which it happened
    also: str | None = None  # a field: another handle that ends with it, or 0


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function whose wrapper passes all on as they are. `wide`: its integers have 64 bits."""

    name: str
    ctype: str

    @property
    def wide(self) -> bool:
        return bool({"MPI_Count", "MPI_Aint", "MPI_Offset", "size_t", "int64_t"} & set(self.ctype.split()))


@dataclass(frozen=True)
class Function:
    """A traced call. `event` is its tracepoint, `name` what people read."""

    name: str
    event: str
    fields: tuple[Field, ...]
    levels: tuple[Level, ...]
    blocking: str  # "", "always" or the C expression that decides
    failure: Failure | None
    args: tuple[Arg, ...] = ()
    extra: tuple[Arg, ...] = ()  # fields read out of structures that arguments point to
    returns: Arg | None = None
    bytes: str | None = None
    activity: Activity | None = None
    allocates: Allocates | None = None
    frees: Frees | None = None
    compiles: bool = False  # builds or loads code for a device
    copies: tuple[str, str] | None = None  # from, to: fields that hold addresses, or COPY_SIDES
    maps: tuple[str, str, str] | None = None  # fields: handle of memory, the address at which the host sees it, bytes
    symbols: tuple[str, ...] = ()
    exports: tuple[str, ...] = ()  # of a shim: the name for each default stream that there is
    condition: str = ""  # preprocessor condition under which the header has it
    doc: str = ""
    kind: str = ""  # its class: functions of one class have the same fields
    shape: str = ""
    parameters: tuple[Parameter, ...] = ()
    extension: bool = False  # not in the dispatch table: programs ask a platform for its address by name

    @property
    def call_kinds(self) -> tuple[str, ...]:
        """What it does, as bits of occatrace_call_kind."""
        made = self.activity.kind if self.activity else ""
        launches = made in ("kernel", "native")
        is_one = {
            "OCCATRACE_LAUNCHES": launches,
            "OCCATRACE_COPIES": made not in ("", "marker") and not launches,
            "OCCATRACE_ALLOCATES": self.allocates is not None,
            "OCCATRACE_BUILDS": self.compiles,
            "OCCATRACE_WAITS": made == "marker" or (self.blocking != "" and not self.compiles),
        }
        found = tuple(kind for kind, does in is_one.items() if does)
        written = dict(zip(MODES, self.levels, strict=True))
        return found or (("OCCATRACE_SETS_UP",) if written["default"] == "event" else ())

    @property
    def loglevel(self) -> str:
        """LTTng's log level of its events."""
        written = dict(zip(MODES, self.levels, strict=True))
        return LOGLEVELS[next((mode for mode in LOGLEVELS if written[mode] == "event"), "full")]

    def place(self, names: tuple[str, ...]) -> int:
        """Position of the parameter that has one of these names, the first that fits; -1: none."""
        places = {p.name: i for i, p in enumerate(self.parameters)}
        return next((places[name] for name in names if name in places), -1)


@dataclass(frozen=True)
class Shim:
    """A library that stands before the vendor's: its soname, the name of ours for the real one, variants of the calls."""

    soname: str
    real: str
    variants: int
    missing: int  # what a call returns that the installed library does not have


@dataclass(frozen=True)
class Record:
    name: str
    fields: tuple[Field, ...]
    doc: str = ""
    frees: Frees | None = None


@dataclass(frozen=True)
class LibraryFunction:
    """A function of a library on top: its name, its number in the trace, its levels."""

    name: str
    code: int
    levels: tuple[Level, ...]
    returns_status: bool


@dataclass(frozen=True)
class Library:
    """A library on top of an API, traced only when it is asked for; all its calls are one kind of event."""

    functions: tuple[LibraryFunction, ...]
    anchor: str  # a function by which it is known


@dataclass(frozen=True)
class Api:
    name: str
    title: str
    provider: str
    library: str  # provider library: liboccatrace_tp_<library>.so
    enums: tuple[Enum, ...]
    functions: tuple[Function, ...]
    records: tuple[Record, ...]
    headers: tuple[str, ...] = ()
    declarations: tuple[str, ...] = ()  # typedefs for types that the headers leave without a name
    dispatch: bool = False  # wrappers of a dispatch table are wanted
    symbols: tuple[str, ...] = ()  # preloaded symbols, in slot order
    doc: str = ""
    per_caller: bool = False  # callers may have libraries of their own: the backend finds the right one
    anchor: str = ""  # symbol by which the API's library is known; without it ours are not found by later lookups
    roles: tuple[tuple[str, tuple[str, ...]], ...] = ()  # role: names of the parameters that have it
    kinds: tuple[str, ...] = ()  # classes of functions
    shapes: tuple[str, ...] = ()
    convention: str = ""  # how the headers spell the calling convention
    shim: Shim | None = None
    preload: int = 0  # typed functions behind preloaded symbols: how many names (`exports`) each may have
    tables: int = 1  # of preloaded functions: sets of real ones, of which the backend's real(unsigned) gives one
    on_top: Library | None = None

    @property
    def models(self) -> tuple[Function, ...]:
        """A function of each class."""
        return tuple(next(f for f in self.functions if f.kind == kind) for kind in self.kinds)

    @property
    def table(self) -> tuple[Function, ...]:
        """Functions of the dispatch table."""
        return tuple(f for f in self.functions if not f.extension)

    @property
    def extensions(self) -> tuple[Function, ...]:
        """Functions that are asked for by name."""
        return tuple(f for f in self.functions if f.extension)

    @property
    def commands(self) -> tuple[Function, ...]:
        """Functions that make device work."""
        return tuple(f for f in self.functions if f.activity)

    @property
    def plain(self) -> tuple[Function, ...]:
        """Functions without a class."""
        return tuple(f for f in self.functions if not f.kind)

    def enum(self, name: str) -> Enum:
        return next(e for e in self.enums if e.name == name)

    @property
    def numbers(self) -> dict[str, Enum]:
        """Fields of calls that are written as plain numbers, with their enumeration. LTTng describes an enumeration in full for
        each field that has it, when a process registers: of OpenCL's error codes that was three quarters of all."""
        fields = [x for f in self.functions for x in f.fields if x.type.kind == "enum" and not x.array]
        used = Counter(x.type.enum for x in fields)
        found = {x.name: x.type.enum for x in fields if used[x.type.enum] > REPEATED}
        return {name: self.enum(enum) for name, enum in sorted(found.items()) if enum}


@dataclass(frozen=True)
class Model:
    apis: tuple[Api, ...]
