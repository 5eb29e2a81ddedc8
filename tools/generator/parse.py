"""YAML → model. Every error says where: "opencl.yaml: function clFlush: argument queue: …"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from .model import (
    COMMON,
    COPY_SIDES,
    LEVELS,
    LOGLEVELS,
    MEMORY_KINDS,
    MODES,
    Activity,
    Allocates,
    Api,
    Arg,
    Enum,
    Failure,
    Field,
    Frees,
    Function,
    Level,
    Model,
    Parameter,
    Record,
    Shim,
    Type,
)

_BASE = re.compile(r"^(?P<kind>[iu])(?P<bits>8|16|32|64)$")
# C types that need no entry in an API's `types`.
_C_TYPES: Mapping[str, Type] = {
    "int": Type("int", 32, True),
    "unsigned int": Type("int", 32),
    "unsigned": Type("int", 32),
    "long": Type("int", 64, True),
    "unsigned long": Type("int", 64),
    "long long": Type("int", 64, True),
    "unsigned long long": Type("int", 64),
    "char": Type("int", 8, True),
    "unsigned char": Type("int", 8),
    "short": Type("int", 16, True),
    "unsigned short": Type("int", 16),
    "size_t": Type("int", 64),
    "intptr_t": Type("int", 64, True),
    "uintptr_t": Type("int", 64),
    "int8_t": Type("int", 8, True),
    "int16_t": Type("int", 16, True),
    "int32_t": Type("int", 32, True),
    "int64_t": Type("int", 64, True),
    "uint8_t": Type("int", 8),
    "uint16_t": Type("int", 16),
    "uint32_t": Type("int", 32),
    "uint64_t": Type("int", 64),
    "bool": Type("int", 8),
    "float": Type("float", 32),
    "double": Type("float", 64),
}
_POINTER = Type("pointer", 64, hex=True)
_ACTIVITY = {"from", "to"} | {field.name for field in fields(Activity)} - {"source", "target"}


class ModelError(Exception):
    """A mistake in the model, with the place of it."""


@contextmanager
def _at(place: str) -> Iterator[None]:
    try:
        yield
    except ModelError as error:
        raise ModelError(f"{place}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"{place}: {type(error).__name__}: {error}") from None


def _known(data: Mapping[str, Any], allowed: set[str]) -> None:
    unknown = sorted(set(data) - allowed)
    if unknown:
        raise ModelError(f"unknown key {', '.join(unknown)} (known: {', '.join(sorted(allowed))})")


def _expressions(spec: Any) -> tuple[str, ...]:
    """One expression, or several."""
    return () if spec is None else tuple(map(str, spec)) if isinstance(spec, list) else (str(spec),)


def _plain(ctype: str) -> str:
    return " ".join(
        t for t in ctype.replace("*", " * ").split() if t not in ("const", "struct", "volatile", "restrict")
    )


class _ApiParser:
    def __init__(self, data: Mapping[str, Any]):
        self.data = data
        self.types: dict[str, Type] = dict(_C_TYPES)
        self.enums: dict[str, Enum] = {}

    def type_of(self, spec: Any) -> Type:
        """A type by short name (u32, string) or by C type."""
        if isinstance(spec, str):
            if spec == "string":
                return Type("string")
            if spec in ("f32", "f64"):
                return Type("float", int(spec[1:]))
            if spec == "handle":
                return Type("handle", 64, hex=True)
            if spec == "name":
                return Type("name", 32)
            match = _BASE.match(spec)
            if match:
                return Type("int", int(match["bits"]), match["kind"] == "i")
            if spec in self.types:
                return self.types[spec]
        raise ModelError(f"unknown type {spec!r}")

    def c_type(self, ctype: str) -> Type:
        plain = _plain(ctype)
        if plain in self.types:
            return self.types[plain]
        if plain == "char *" and "const" in ctype:
            return Type("string")
        if "*" in plain or "(" in plain or "[" in plain:
            return _POINTER
        raise ModelError(f"C type {ctype!r} is not in 'types'")

    def api(self) -> Api:
        data = self.data
        _known(
            data,
            {
                "api",
                "title",
                "provider",
                "library",
                "headers",
                "enums",
                "types",
                "functions",
                "records",
                "dispatch",
                "symbols",
                "doc",
                "failed",
                "per_caller",
                "anchor",
                "roles",
                "classes",
                "convention",
                "shim",
                "preload",
            },
        )
        enums = []
        for name, body in (data.get("enums") or {}).items():
            with _at(f"enum {name}"):
                _known(body, {"values", "bitfield", "doc", "constants"})
                values = tuple((str(k), int(v)) for k, v in body["values"].items())
                enums.append(Enum(name, values, bool(body.get("bitfield")), body.get("constants", "")))
        self.enums = {e.name: e for e in enums}
        names = set(self.enums)
        declarations: list[str] = []
        for name, body in (data.get("types") or {}).items():
            with _at(f"type {name}"):
                _known(body, {"kind", "bits", "signed", "enum", "hex", "doc", "declare"})
                if body.get("declare"):
                    declarations.append(body["declare"])
                kind = body["kind"]
                if body.get("enum") is not None and body["enum"] not in names:
                    raise ModelError(f"unknown enum {body['enum']}")
                self.types[name] = Type(
                    kind,
                    int(body.get("bits", 64)),
                    bool(body.get("signed", False)),
                    body.get("enum"),
                    bool(body.get("hex", kind in ("handle", "pointer", "bitfield"))),
                )
        functions = []
        for body in data.get("functions") or ():
            if body.get("passthrough"):
                continue
            with _at(f"function {body.get('name', '?')}"):
                functions.append(self.function(body, names))
        seen: set[str] = set()
        for f in functions:
            if f.event in seen:
                raise ModelError(f"function {f.name}: event {f.event} stands twice")
            seen.add(f.event)
        records = []
        for body in data.get("records") or ():
            with _at(f"record {body.get('name', '?')}"):
                _known(body, {"name", "doc", "fields", "frees"})
                fields = tuple(self.field(f, names, call=False) for f in body["fields"])
                frees = self.frees(body.get("frees"), {f.name: f for f in fields})
                records.append(Record(body["name"], fields, body.get("doc", ""), frees))
        preload, tables = self.preload(data.get("preload"))
        symbols: list[str] = [s for f in functions for s in f.symbols] + list(self.symbols(data.get("symbols")))
        if preload:
            symbols += [s for f in functions for s in f.exports]
        if len(set(symbols)) != len(symbols):
            twice = sorted({s for s in symbols if symbols.count(s) > 1})
            raise ModelError(f"symbols stand twice: {', '.join(twice)}")
        return Api(
            data["api"],
            data["title"],
            data["provider"],
            data.get("library", data["api"]),
            tuple(enums),
            tuple(functions),
            tuple(records),
            tuple(data.get("headers") or ()),
            tuple(declarations),
            any("slot" in f for f in data.get("functions") or ()),
            tuple(symbols),
            data.get("doc", ""),
            bool(data.get("per_caller", False)),
            data.get("anchor", ""),
            tuple((role, tuple(names)) for role, names in (data.get("roles") or {}).items()),
            tuple(data.get("classes") or ()),
            tuple(sorted({f.shape for f in functions if f.shape})),
            data.get("convention", ""),
            self.shim(data.get("shim")),
            preload,
            tables,
        )

    def field(self, body: Mapping[str, Any], enums: set[str], call: bool = True) -> Field:
        with _at(f"field {body.get('name', '?')}"):
            _known(body, {"name", "type", "enum", "hex", "doc", "unit"})
            self.check_name(body["name"], call)
            text = body["type"]
            array = text.endswith("[]")
            base = self.type_of(text[:-2] if array else text)
            enum = body.get("enum", base.enum)
            if enum is not None and enum not in enums:
                raise ModelError(f"unknown enum {enum}")
            kind = base.kind
            if enum is not None and kind == "int":
                kind = "enum"
            return Field(
                body["name"],
                Type(kind, base.bits, base.signed, enum, bool(body.get("hex", base.hex))),
                array,
                None,
                body.get("doc", ""),
                body.get("unit", ""),
            )

    @staticmethod
    def preload(body: Mapping[str, Any] | None) -> tuple[int, int]:
        if body is None:
            return 0, 1
        with _at("preload"):
            _known(body, {"variants", "tables"})
            return int(body["variants"]), int(body.get("tables", 1))

    @staticmethod
    def shim(body: Mapping[str, Any] | None) -> Shim | None:
        if body is None:
            return None
        with _at("shim"):
            _known(body, {"soname", "real", "variants", "missing"})
            return Shim(body["soname"], body["real"], int(body["variants"]), int(body["missing"]))

    @staticmethod
    def check_name(name: str, call: bool = True) -> None:
        if name in COMMON or name == "ts" or (call and name in ("start", "caller", "call_seq")):
            raise ModelError(f"the name {name} belongs to every event")

    def arg(self, body: Mapping[str, Any], enums: set[str]) -> Arg:
        with _at(f"argument {body.get('name', '?')}"):
            _known(
                body,
                {
                    "name",
                    "type",
                    "role",
                    "array",
                    "out",
                    "enum",
                    "doc",
                    "unit",
                    "string",
                    "hex",
                    "ensure",
                    "blob",
                    "value",
                },
            )
            self.check_name(body["name"])
            ctype = body["type"]
            out, length = bool(body.get("out", False)), body.get("array", body.get("blob"))
            if out or length is not None:
                if not _plain(ctype).endswith("*"):
                    raise ModelError(f"{ctype} is no pointer, but the argument is marked out or array")
                pointee = ctype.rstrip()[:-1].rstrip()
                # `const cl_event *` is an array of cl_event; `const char **` one of char pointers.
                plain = _plain(pointee)
                type_ = self.types.get(plain, _POINTER)
                if plain in ("void", "char") and length is None:
                    type_, out = _POINTER, False
                elif plain == "char" or plain == "void":
                    type_ = Type("int", 8)
            else:
                type_ = Type("string") if body.get("string") else self.c_type(ctype)
            if body.get("enum"):
                if body["enum"] not in enums:
                    raise ModelError(f"unknown enum {body['enum']}")
                bits = self.enums[body["enum"]].bitfield
                kind = ("bitfield" if bits else "enum") if type_.kind == "int" else type_.kind
                type_ = Type(kind, type_.bits, type_.signed, body["enum"], type_.hex or bits)
            field = Field(
                body["name"],
                type_,
                length is not None,
                None if length is None else str(length),
                body.get("doc", ""),
                body.get("unit", ""),
            )
            return Arg(
                body["name"],
                ctype,
                field,
                out,
                body.get("role", ""),
                bool(body.get("ensure", False)),
                "blob" in body,
                body.get("value", ""),
            )

    def function(self, body: Mapping[str, Any], enums: set[str]) -> Function:
        _known(
            body,
            {
                "name",
                "event",
                "returns",
                "failed",
                "level",
                "blocking",
                "bytes",
                "activity",
                "allocates",
                "copies",
                "maps",
                "frees",
                "compiles",
                "args",
                "fields",
                "symbols",
                "condition",
                "doc",
                "slot",
                "extension",
                "extra",
                "class",
                "shape",
                "parameters",
                "exports",
            },
        )
        name = body["name"]
        if "class" in body:
            body = self.of_class(body)
        args = tuple(self.arg(a, enums) for a in body.get("args") or ())
        returns: Arg | None = None
        given = {a.name for a in args}
        for a in args:
            length = a.field.length
            if length and length not in given and not length.isdigit() and not length.startswith("zero_terminated"):
                raise ModelError(f"argument {a.name}: its length {length} is no argument")
        extra = tuple(self.arg(a, enums) for a in body.get("extra") or ())
        fields = [a.field for a in (*args, *extra) if a.field.type.kind != "opaque"] + [
            self.field(f, enums) for f in body.get("fields") or ()
        ]
        spec = body.get("returns")
        if isinstance(spec, str):
            spec = {"type": spec}
        if spec and spec["type"] != "void":
            _known(spec, {"type", "enum", "doc"})
            type_ = self.c_type(spec["type"])
            if spec.get("enum"):
                if spec["enum"] not in enums:
                    raise ModelError(f"returns: unknown enum {spec['enum']}")
                type_ = Type("enum", type_.bits, type_.signed, spec["enum"])
            returns = Arg("ret", spec["type"], Field("ret", type_, doc=spec.get("doc", "")))
            fields.append(returns.field)
        by_name = {f.name: f for f in fields}
        if len(by_name) != len(fields):
            raise ModelError("two fields have the same name")
        failure = None
        if body.get("failed", self.data.get("failed")):
            f = body.get("failed", self.data.get("failed"))
            failure = Failure(f["field"], f["op"], int(f["value"]), f.get("except"))
            if failure.field not in by_name:
                raise ModelError(f"failed: no field {failure.field}")
            if failure.op not in ("==", "!=", "<", ">"):
                raise ModelError(f"failed: unknown operator {failure.op}")
        if body.get("bytes") and str(body["bytes"]) not in by_name:
            raise ModelError(f"bytes: no field {body['bytes']}")
        allocates = self.allocates(body.get("allocates"), by_name)
        frees = self.frees(body.get("frees"), by_name)
        copies = self.copies(body.get("copies"), by_name)
        maps = self.maps(body.get("maps"), by_name)
        activity = self.activity(body.get("activity"), {a.name for a in (*args, *extra)}, body.get("bytes"), copies)
        blocking = body.get("blocking", False)
        return Function(
            name,
            body.get("event", name),
            tuple(fields),
            self.levels(body.get("level")),
            "always" if blocking is True else "" if not blocking else str(blocking),
            failure,
            args,
            extra,
            returns,
            body.get("bytes"),
            activity,
            allocates,
            frees,
            bool(body.get("compiles", False)),
            copies,
            maps,
            self.symbols(body.get("symbols")),
            tuple(body.get("exports") or ()),
            body.get("condition", ""),
            body.get("doc", ""),
            body.get("class", ""),
            body.get("shape", ""),
            self.parameters(body.get("parameters", "")),
            bool(body.get("extension", False)),
        )

    def of_class(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """The function with what its class says: fields, failure, bytes; and the two names under which it is called."""
        classes = self.data.get("classes") or {}
        if body["class"] not in classes:
            raise ModelError(f"unknown class {body['class']}")
        spec = classes[body["class"]]
        _known(spec, {"doc", "fields"})
        result = {**body, "fields": spec["fields"], "symbols": [body["name"], f"P{body['name']}"]}
        names = {field["name"] for field in spec["fields"]}
        if "ret" in names:
            result["failed"] = {"field": "ret", "op": "!=", "value": 0}
        if "bytes" in names:
            result["bytes"] = "bytes"
        return result

    @staticmethod
    def parameters(text: str) -> tuple[Parameter, ...]:
        """A C parameter list. Commas within parentheses belong to pointers to functions."""
        result = []
        depth, parts = 0, [""]
        for char in text:
            depth += (char == "(") - (char == ")")
            if char == "," and depth == 0:
                parts.append("")
            else:
                parts[-1] += char
        for part in filter(str.strip, parts):
            words = re.findall(r"\w+", re.sub(r"\[[^]]*\]", "", part.split("(")[0] if "(*" not in part else part))
            if not words:
                raise ModelError(f"parameter {part!r} has no name")
            result.append(Parameter(words[-1], part.strip().removesuffix(words[-1]).strip()))
        return tuple(result)

    @staticmethod
    def handle(spec: Mapping[str, Any], fields: Mapping[str, Field], array: bool = False) -> str:
        if "handle" not in spec:
            raise ModelError("no handle: it says which field names the memory")
        name = str(spec["handle"])
        field = fields.get(name)
        if field is None:
            raise ModelError(f"handle: no field {name}")
        if field.type.kind not in ("handle", "pointer", "int") or field.type.bits != 64 or (field.array and not array):
            raise ModelError(f"handle: the field {name} is {field.column}, not a handle or an address (u64)")
        return name

    @staticmethod
    def other_fields(spec: Mapping[str, Any], fields: Mapping[str, Field], names: tuple[str, ...]) -> None:
        for key in names:
            if spec.get(key) is None:
                continue
            field = fields.get(str(spec[key]))
            if field is None:
                raise ModelError(f"{key}: no field {spec[key]}")
            if field.array or field.type.kind in ("string", "float"):
                raise ModelError(f"{key}: the field {spec[key]} is {field.column}, not a number")

    def allocates(self, spec: Mapping[str, Any] | None, fields: Mapping[str, Field]) -> Allocates | None:
        """`{handle, bytes, kind, parent, mode, scope, context, flags}`: names of fields; `kind` also a constant, or
        `{field, bits or values: {name in its enum: kind}, otherwise}`."""
        if spec is None:
            return None
        with _at("allocates"):
            others = ("bytes", "parent", "mode", "scope", "context", "flags")
            _known(spec, {"handle", "kind", *others})
            handle = self.handle(spec, fields)
            self.other_fields(spec, fields, others)
            if spec.get("mode") and fields[spec["mode"]].type.kind != "name":
                raise ModelError(f"mode: the field {spec['mode']} is no name")
            kind, kind_field, kinds, bits = self.memory_kind(spec.get("kind", "device"), fields)
            bytes_, parent, mode, scope, context, flags = (spec.get(key) for key in others)
            enum = self.enums.get(fields[flags].type.enum or "") if flags else None
            if flags and (enum is None or not enum.bitfield):
                raise ModelError(f"flags: the field {flags} has no enum of bits")
            if bytes_ is None and kind != "slice":
                raise ModelError("no bytes: only a slice has none of its own")
            return Allocates(handle, bytes_, kind, kind_field, kinds, bits, parent, mode, scope, context, flags)

    @staticmethod
    def activity(
        spec: Mapping[str, Any] | None, arguments: set[str], bytes_: str | None, copies: tuple[str, str] | None
    ) -> Activity | None:
        """The device work; its bytes and the sides of a copy are those of the call, unless it says otherwise."""
        if spec is None:
            return None
        with _at("activity"):
            _known(spec, _ACTIVITY)
            given = {key: str(value) for key, value in spec.items()}
            shapes = {key: _expressions(spec.get(key)) for key in ("blocks", "items", "block", "memory")}
            for key, names in (("event", [spec.get("event")]), ("memory", shapes["memory"])):
                if missing := [name for name in names if name is not None and name not in arguments]:
                    raise ModelError(f"{key}: no argument {', '.join(map(str, missing))}")
            if any(len(shapes[key]) not in (0, 1, 3) for key in ("blocks", "items", "block")):
                raise ModelError("blocks, items and block are three numbers or one expression")
            if spec["kind"] == "kernel" and not {"kernel", "by_hand"} & spec.keys():
                raise ModelError("kernel: which argument names it is not said")
            sides = (given.get("from"), given.get("to"))
            if spec["kind"] == "copy" and "by_hand" not in spec and None in sides:
                if copies is None:
                    raise ModelError("a copy without from and to")
                sides = tuple("true" if side in COPY_SIDES else side for side in copies)  # type: ignore[assignment]
            return Activity(
                kind=given["kind"],
                queue=given.get("queue"),
                event=given.get("event"),
                event_required=bool(spec.get("event_required", False)),
                bytes=given.get("bytes", bytes_),
                source=sides[0],
                target=sides[1],
                direction=given.get("direction"),
                count=given.get("count"),
                kernel=given.get("kernel"),
                name=given.get("name"),
                blocks=shapes["blocks"],
                items=shapes["items"],
                block=shapes["block"],
                mapping=given.get("mapping"),
                memory=shapes["memory"],
                by_hand=given.get("by_hand", ""),
                untimed=given.get("untimed", ""),
            )

    def memory_kind(
        self, spec: Any, fields: Mapping[str, Field]
    ) -> tuple[str, str | None, tuple[tuple[int, str], ...], bool]:
        with _at("kind"):

            def kind_of(text: object) -> str:
                if text not in MEMORY_KINDS:
                    raise ModelError(f"{text} is unknown (known: {', '.join(MEMORY_KINDS)})")
                return str(text)

            if isinstance(spec, str):
                return kind_of(spec), None, (), False
            _known(spec, {"field", "bits", "values", "otherwise"})
            field = fields.get(spec.get("field"))
            if field is None:
                raise ModelError(f"no field {spec.get('field')}")
            if field.type.enum is None:
                raise ModelError(f"the field {field.name} has no enum")
            enum = self.enums[field.type.enum]
            known = dict(enum.values)
            if "bits" in spec and not enum.bitfield:
                raise ModelError(f"{enum.name} is no bit field: write values")
            given = spec.get("bits", spec.get("values"))
            if given is None:
                given = {name: name for name in known}
            missing = [name for name in given if name not in known]
            if missing:
                raise ModelError(f"{enum.name} has no {', '.join(missing)}")
            kinds = tuple((known[name], kind_of(kind)) for name, kind in given.items())
            return kind_of(spec.get("otherwise", "device")), field.name, kinds, "bits" in spec

    def frees(self, spec: Mapping[str, Any] | None, fields: Mapping[str, Field]) -> Frees | None:
        """`{handle, also, unless, by}`: names of fields."""
        if spec is None:
            return None
        with _at("frees"):
            _known(spec, {"handle", "also", "unless", "by"})
            handle = self.handle(spec, fields, array=True)
            also = self.handle({"handle": spec["also"]}, fields) if spec.get("also") else None
            if also and fields[handle].array:
                raise ModelError(f"also: {handle} is a list already")
            self.other_fields(spec, fields, ("unless", "by"))
            if spec.get("by") and fields[spec["by"]].type.enum is None:
                raise ModelError(f"by: the field {spec['by']} has no enum")
            return Frees(handle, spec.get("unless"), spec.get("by"), also)

    @staticmethod
    def copies(spec: Mapping[str, Any] | None, fields: Mapping[str, Field]) -> tuple[str, str] | None:
        """`{from, to}`: names of fields that hold addresses, or of COPY_SIDES."""
        if spec is None:
            return None
        with _at("copies"):
            _known(spec, {"from", "to"})
            for key in ("from", "to"):
                name = spec.get(key)
                if name not in COPY_SIDES and (name is None or name not in fields or fields[name].type.bits != 64):
                    raise ModelError(
                        f"{key}: {name} is neither a field that holds an address nor one of {', '.join(COPY_SIDES)}"
                    )
            return spec["from"], spec["to"]

    @staticmethod
    def maps(spec: Mapping[str, Any] | None, fields: Mapping[str, Field]) -> tuple[str, str, str] | None:
        """`{memory, address, bytes}`: names of fields."""
        if spec is None:
            return None
        with _at("maps"):
            _known(spec, {"memory", "address", "bytes"})
            for key in ("memory", "address", "bytes"):
                if spec.get(key) not in fields or fields[spec[key]].type.bits != 64:
                    raise ModelError(f"{key}: {spec.get(key)} is no field of 64 bits")
            return spec["memory"], spec["address"], spec["bytes"]

    @staticmethod
    def symbols(spec: Any) -> tuple[str, ...]:
        """Mangled names; `{series: A, repeat: B, count: n}` stands for A, AB, ABB, … (overloads by number of arguments)."""
        result: list[str] = []
        for entry in spec or ():
            if isinstance(entry, str):
                result.append(entry)
            else:
                _known(entry, {"series", "repeat", "count"})
                result += [entry["series"] + entry["repeat"] * i for i in range(int(entry["count"]))]
        return tuple(result)

    @staticmethod
    def levels(spec: Any) -> tuple[Level, ...]:
        """One level per mode. Unless said otherwise: full = event, tally = tally, minimal = off."""
        given = {"default": spec} if isinstance(spec, str) else dict(spec or {})
        result: dict[str, str] = {"default": "tally", "minimal": "off", "full": "event", "tally": "tally"}
        result.update(given)
        for mode, level in result.items():
            if mode not in MODES or level not in LEVELS:
                raise ModelError(
                    f"level: {mode}: {level} is unknown (modes {', '.join(MODES)}; levels {', '.join(LEVELS)})"
                )
        written = [result[mode] == "event" for mode in LOGLEVELS]
        if written != sorted(written):
            raise ModelError(f"level: an event of one mode is one of the next as well ({', '.join(LOGLEVELS)})")
        return tuple(LEVELS[LEVELS.index(result[m])] for m in MODES)


def parse_text(text: str) -> Api:
    """One API from its YAML text. Raises ModelError."""
    return _ApiParser(yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))).api()


def parse_folder(folder: Path) -> Model:
    """All APIs of a folder, in the order of their file names. Raises ModelError."""
    apis = []
    for path in sorted(folder.glob("*.yaml")):
        with _at(path.name):
            apis.append(parse_text(path.read_text()))
    if not apis:
        raise ModelError(f"no *.yaml in {folder}")
    kinds = {"copy"} | {text for api in apis for e in api.enums if e.name == "activity_kind" for text, _ in e.values}
    for api in apis:
        for f in api.commands:
            if f.activity and f.activity.kind not in kinds:
                raise ModelError(f"{api.name}: function {f.name}: activity: unknown kind {f.activity.kind}")
    return Model(tuple(apis))
