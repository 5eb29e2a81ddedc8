"""Facts of headers and rules of meaning → the YAML of a model."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from .clang import Declaration, Headers, Parameter, sizes

# Names that every event has, and those of the generated code around an argument.
_RESERVED = {"ret", "start", "call_seq", "ts", "tid", "seq", "level", "a", "c", "e", "F", "H", "I"}
_INTEGERS = {
    "int": ("int", 32, True),
    "unsigned int": ("int", 32, False),
    "long": ("int", 64, True),
    "unsigned long": ("int", 64, False),
    "long long": ("int", 64, True),
    "unsigned long long": ("int", 64, False),
    "short": ("int", 16, True),
    "unsigned short": ("int", 16, False),
    "char": ("int", 8, True),
    "unsigned char": ("int", 8, False),
}
_BUILTIN = set(_INTEGERS) | {"size_t", "void", "float", "double", "char"}


@dataclass(frozen=True)
class Rules:
    """What a call means, as far as the headers do not say it."""

    api: str
    title: str
    head: str  # comment at the top of the file
    text: str  # source text that includes the headers
    options: tuple[str, ...]
    prefix: str | tuple[str, ...]
    error: str  # enumeration that calls return
    top: Mapping[str, str]  # further keys of the file, as YAML
    skip: Callable[[Declaration], bool]
    shown: Callable[[str], str]  # name of a function without its version
    variants: Mapping[str, str]  # function: the same for another default stream
    level: Callable[[str], tuple[str, str]]  # default, minimal
    blocking: Callable[[str], bool]
    bytes: Callable[[Declaration], str | None]
    activity: Callable[[Declaration], Mapping[str, object] | None]  # the device work that it makes
    memory: Callable[[Declaration], Sequence[str]] = lambda f: ()  # what the call makes known or ends, as YAML
    not_failed: Callable[[str], int | None] = lambda name: None  # a code other than 0 that is no failure
    exported: Callable[[str], str] = lambda name: name  # the symbol, where it is not the function's name
    never_fails: Callable[[str], bool] = lambda name: False  # what it returns tells of another call
    outputs: Callable[[str, Parameter], bool] = lambda name, p: False  # also an output, where the type does not tell
    inputs: Callable[[str, Parameter], bool] = lambda name, p: False  # no output, though the type looks like one
    array: Callable[[Declaration, Parameter], str | None] = lambda f, p: None  # the argument with the length of a list
    flags: Mapping[tuple[str, str], str] = field(
        default_factory=dict
    )  # shown function, argument: enumeration of its bits
    bits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # such an enumeration
    addresses: Collection[str] = ()  # integer types that hold addresses
    types: Mapping[str, str] = field(default_factory=dict)  # types of ours, as YAML
    language: str = "c"


def quoted(text: str) -> str:
    """A text in double quotes."""
    return json.dumps(text)


def flow(value: object) -> str:
    """A value in YAML's flow style."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {flow(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    plain = re.fullmatch(r"\w+", str(value)) and value not in ("true", "false", "null")
    return str(value) if plain else json.dumps(value)


def allocation(handle: str, size: str, kind: str, flags: tuple[str, str] | None, mapped: Mapping[str, str]) -> str:
    """What a call allocates, as YAML. `flags`: the argument that says more, and the enumeration of its bits; `mapped`: the bit of
    such an enumeration that makes memory mapped."""
    more = ""
    if flags is not None:
        argument, enum = flags
        more = f", flags: {argument}"
        if enum in mapped:
            kind = f"{{field: {argument}, bits: {{{mapped[enum]}: mapped}}, otherwise: {kind}}}"
    return f"allocates: {{handle: {handle}, bytes: {size}, kind: {kind}, scope: scope, context: context{more}}}"


@dataclass
class _Types:
    headers: Headers
    rules: Rules
    used: dict[str, str] = field(default_factory=dict)  # name: YAML
    structures: dict[str, tuple[int, int]] = field(default_factory=dict)
    enums: set[str] = field(default_factory=set)

    def plain(self, spelled: str) -> str:
        """The named type under pointers and qualifiers."""
        return " ".join(t for t in spelled.replace("*", " ").split() if t not in ("const", "struct", "enum"))

    def add(self, spelled: str) -> str:
        """Make the type of a parameter known; returns how the model writes it."""
        if "(" in spelled or "[" in spelled:
            return "void *"
        name = self.plain(spelled)
        spelled = spelled.replace("struct ", "").replace("enum ", "")
        if "*" not in spelled:
            spelled = spelled.replace("const ", "")
        if name in _BUILTIN or name in self.used:
            return spelled
        canonical = self.headers.typedefs.get(name, name)
        if "(" in canonical:
            self.used[name] = f'{{kind: pointer, declare: "void *{name}"}}'
        elif canonical.endswith("*"):
            self.used[name] = f'{{kind: handle, declare: "struct {name}_object *{name}"}}'
        elif name in self.rules.addresses:
            self.used[name] = f'{{kind: int, bits: 64, hex: true, declare: "unsigned long long {name}"}}'
        elif canonical in _INTEGERS:
            kind, bits, signed = _INTEGERS[canonical]
            self.used[name] = (
                f'{{kind: {kind}, bits: {bits}, signed: {str(signed).lower()}, declare: "{canonical} {name}"}}'
            )
        elif self.enum_of(name):
            enum = self.enum_of(name)
            assert enum
            self.enums.add(enum)
            self.used[name] = f'{{kind: enum, bits: 32, signed: true, enum: {enum}, declare: "int {name}"}}'
        elif name not in self.structures:
            self.used[name] = f'{{kind: opaque, declare: "struct {name}_object {name}"}}'
        else:
            size, alignment = self.structures[name]
            body = f"unsigned char bytes[{size}];"
            self.used[name] = (
                f'{{kind: opaque, declare: "struct alignas({alignment}) {name}_object {{ {body} }} {name}"}}'
            )
        return spelled

    def enum_of(self, name: str) -> str | None:
        """The enumeration behind a type's name."""
        canonical = re.sub(r"^enum ", "", self.headers.typedefs.get(name, name))
        return canonical if canonical in self.headers.enumerations else None

    def is_structure(self, p: Parameter) -> bool:
        """Whether the parameter is a structure passed by value."""
        name = self.plain(p.spelled)
        canonical = self.headers.typedefs.get(name, name)
        return (
            "*" not in p.spelled and "(" not in p.spelled and name not in _BUILTIN and canonical not in _INTEGERS
            and not canonical.endswith("*") and "(" not in canonical and "[" not in canonical and not self.enum_of(name)
            and name not in self.rules.types
        )  # fmt: skip

    def output(self, name: str, p: Parameter) -> bool:
        """Whether the call writes one value through this pointer."""
        if "const" in p.spelled or "(" in p.spelled or "[" in p.spelled or self.rules.inputs(name, p):
            return False
        if self.rules.outputs(name, p):
            return True
        if not p.spelled.endswith("*") or p.spelled.count("*") != 1:
            return False
        pointee = self.plain(p.spelled)
        canonical = self.headers.typedefs.get(pointee, pointee)
        if pointee in ("char", "unsigned char", "void"):
            return False
        return pointee == "size_t" or canonical in _INTEGERS or canonical.endswith("*") or bool(self.enum_of(pointee))


def write(headers: Headers, rules: Rules) -> str:
    """The YAML file of an API."""
    types = _Types(headers, rules, dict(rules.types))
    wanted = [f for f in headers.functions if f.name not in rules.variants.values() and not rules.skip(f)]
    by_value = sorted({types.plain(p.spelled) for f in wanted for p in f.parameters if types.is_structure(p)})
    types.structures = sizes(rules.text, rules.options, by_value, rules.language)
    types.enums.add(rules.error)
    functions: list[str] = []
    for f in wanted:
        functions += _function(f, types, rules)
    out = [rules.head.rstrip("\n"), f"api: {rules.api}", f"title: {rules.title}", f"provider: occatrace_{rules.api}"]
    out += [f"{key}: {value}" for key, value in rules.top.items()]
    out += ['failed: {field: ret, op: "!=", value: 0}', "enums:"]
    for name in sorted(types.enums):
        values = _distinct(headers.enumerations[name].values)
        out += [f"  {name}:", "    values:", *(f"      {text}: {value}" for text, value in values)]
    for name, bits in rules.bits.items():
        out += [
            f"  {name}:",
            "    bitfield: true",
            "    values:",
            *(f"      {text}: {bit}" for text, bit in bits.items()),
        ]
    out += ["types:", *(f"  {name}: {body}" for name, body in sorted(types.used.items())), "functions:", *functions]
    return "\n".join(out) + "\n"


def _distinct(values: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """One name per value (the first), in the range of a 32-bit int."""
    seen: dict[int, str] = {}
    for text, value in values:
        value = value - (1 << 32) if value >= 1 << 31 else value
        seen.setdefault(value, text)
    return [(text, value) for value, text in seen.items()]


def _function(f: Declaration, types: _Types, rules: Rules) -> list[str]:
    out = [f"- name: {rules.shown(f.name)}"]
    if rules.shown(f.name) != f.name:
        out += [f"  event: {f.name}"]
    exports = [rules.exported(f.name)] + ([rules.variants[f.name]] if f.name in rules.variants else [])
    out += [f"  exports: [{', '.join(exports)}]"]
    returned = types.plain(f.returns)
    if types.enum_of(returned) == rules.error:
        types.add(f.returns)
        out += [f"  returns: {{type: {returned}}}"]
        ignored = rules.not_failed(f.name)
        if rules.never_fails(f.name):
            out += ["  failed: null"]
        elif ignored is not None:
            out += [f'  failed: {{field: ret, op: "!=", value: 0, except: {ignored}}}']
    else:
        out += [f'  returns: {{type: "{types.add(f.returns)}"}}', "  failed: null"]
    default, minimal = rules.level(f.name)
    out += [f"  level: {{default: {default}, minimal: {minimal}}}"]
    if rules.blocking(f.name):
        out += ["  blocking: true"]
    if amount := rules.bytes(f):
        out += [f"  bytes: {amount}"]
    if activity := rules.activity(f):
        out += [f"  activity: {flow(activity)}"]
    out += [f"  {line}" for line in rules.memory(f)]
    if f.parameters:
        out += ["  args:"]
    for p in f.parameters:
        spelled = types.add(p.spelled)
        name = f"{p.name}_" if p.name in _RESERVED else p.name
        quoted = f'"{spelled}"' if "*" in spelled or " " in spelled else spelled
        enum = rules.flags.get((rules.shown(f.name), p.name))
        length = rules.array(f, p)
        more = (", out: true" if types.output(f.name, p) else "") + (f", array: {length}" if length else "")
        more += f", enum: {enum}" if enum else ""
        out += [f"  - {{name: {name}, type: {quoted}{more}}}"]
    return out
