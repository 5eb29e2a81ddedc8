"""Model → files in memory. The logic is here; the templates only lay out text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from occatrace.core import bounds

from .commands import constant, describe, over_arguments
from .model import (
    BLOB_MAX,
    COPY_SIDES,
    LEVELS,
    LOGLEVELS,
    MEMORY_KINDS,
    MODES,
    Allocates,
    Api,
    Enum,
    Field,
    Frees,
    Function,
    Model,
    Record,
    Type,
)

# With what the event of a call begins.
HEAD = (
    Field("tid", Type("int", 32)),
    Field("seq", Type("int", 32)),
    Field("start", Type("int")),
    Field("caller", Type("pointer", hex=True)),
)
_TEMPLATES = Path(__file__).resolve().parent / "templates"


def _environment() -> jinja2.Environment:
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    env.filters["lttng_field"] = lttng_field
    env.filters["named_by_trace"] = named_by_trace
    env.filters["other_numbers"] = other_numbers
    env.filters["member"] = member
    env.filters["carrier"] = carrier
    env.filters["level_number"] = LEVELS.index
    env.filters["live"] = live
    env.filters["succeeded"] = succeeded
    env.filters["memory_kind"] = memory_kind
    env.filters["calls_kernel"] = calls_kernel
    env.filters["describe"] = describe
    env.filters["over_arguments"] = over_arguments
    env.filters["kind_constant"] = constant
    return env


def carrier(f: Function, api: Api) -> str:
    """The struct that carries an event of this function: functions of one class share it."""
    return f"occatrace_{api.name}_call_{f.kind}" if f.kind else f"occatrace_{api.name}_{f.event}"


def member(field: Field) -> str:
    """Declaration of the field in the struct that carries an event."""
    if field.array:
        return f"const {field.type.c} *{field.name}; uint32_t {field.name}_length"
    sep = "" if field.type.c.endswith("*") else " "
    return f"{field.type.c}{sep}{field.name}"


def _written(field: Field, api: Api) -> str:
    """What LTTng calls a field of this kind."""
    if field.array:
        return "sequence"
    if field.type.kind in ("string", "float"):
        return field.type.kind
    return "enum" if field.type.kind == "enum" and not is_number(field, api) else "integer"


def lttng_field(field: Field, api: Api) -> str:
    """The LTTng-UST macro that writes the field from `a->name`."""
    t, value, kind = field.type, f"a->{field.name}", _written(field, api)
    if kind == "string":
        return f'lttng_ust_field_string({field.name}, {value} ? {value} : "")'
    if kind == "enum":
        return f"lttng_ust_field_enum({api.provider}, {t.enum}, {t.c}, {field.name}, {value})"
    length = ""
    if kind == "sequence":
        # Two bytes of length: four short lists are in every launch. What is longer is cut.
        length = f", uint16_t, ({value}_length < UINT16_MAX ? {value}_length : UINT16_MAX)"
    return f"lttng_ust_field_{kind}{'_hex' if t.hex else ''}({t.c}, {field.name}, {value}{length})"


def is_number(field: Field, api: Api) -> bool:
    """Whether a field with an enumeration is written as a plain number."""
    named = api.numbers.get(field.name)
    return named is not None and named.name == field.type.enum


@dataclass(frozen=True)
class Alike:
    """Functions without a class, by whose probe writes their event: one that lies in the trace as that of an earlier function does
    has the probe of that one.

    `own`: those with a probe. `events`: the others, each with the one whose probe it has, and the numbers of its fields. `fields`:
    the initializer in C of each field, with its number; fields of the same name and type are one.
    """

    own: tuple[Function, ...]
    events: tuple[tuple[Function, Function, tuple[int, ...]], ...]
    fields: dict[str, int]


def _form(field: Field) -> tuple[bool, str, str]:
    """What of a field decides how it is laid out and written; not its name, its base or the names of its values."""
    kind = field.type.kind if field.type.kind in ("string", "float") else "integer"
    return bool(field.array), kind, field.type.c


def _initializers(field: Field, api: Api) -> tuple[str, ...]:
    """The same as `lttng_field`, as data (native/emit/alike.h)."""
    c, name, base, kind = field.type.c, f'"{field.name}"', 16 if field.type.hex else 10, _written(field, api)
    if kind == "sequence":
        return f"OCCATRACE_LENGTH({name})", f"OCCATRACE_SEQUENCE({c}, {name}, {base})"
    if kind == "string":
        return (f"OCCATRACE_STRING({name})",)
    if kind == "float":
        return (f"OCCATRACE_FLOAT({c}, {name})",)
    if kind == "enum":
        return (f"OCCATRACE_ENUM({api.provider}_{field.type.enum}, {c}, {name})",)
    return (f"OCCATRACE_INTEGER({c}, {name}, {base})",)


def alike(api: Api) -> Alike:
    """Which of its events share a probe."""
    firsts: dict[tuple[tuple[bool, str, str], ...], Function] = {}
    fields: dict[str, int] = {}
    events = []
    for f in api.plain:
        first = firsts.setdefault(tuple(_form(field) for field in f.fields), f)
        if first is not f:
            texts = [text for field in (*HEAD, *f.fields) for text in _initializers(field, api)]
            events.append((f, first, tuple(fields.setdefault(text, len(fields)) for text in texts)))
    return Alike(tuple(firsts.values()), tuple(events), fields)


def other_numbers(name: str, api: Api) -> list[str]:
    """Events in which a field of this name is a 32-bit integer without the enumeration."""
    return [
        f.event
        for f in api.functions
        for field in f.fields
        if field.name == name and not is_number(field, api) and field.type.bits == 32 and not field.type.hex
    ]


def named_by_trace(api: Api) -> list[Enum]:
    """Enumerations whose names are in the trace."""
    events: list[Function | Record] = [*api.functions, *api.records]
    fields = [field for e in events for field in e.fields if field.type.kind == "enum" and not field.array]
    used = {field.type.enum for field in fields if not is_number(field, api)}
    return [e for e in api.enums if not e.bitfield and e.name in used]


def calls_kernel(f: Function | Record) -> bool:
    """Whether the event is a call of an OCCA kernel, which has device work of its own or none."""
    return {"kernel", "launches"} <= {field.name for field in f.fields}


def live(apis: list[Api]) -> bool:
    """Whether there is anything in their events that a process counts while it runs."""
    events: list[Function | Record] = [r for api in apis for r in api.records]
    events += [f for api in apis for f in api.functions]
    return any(getattr(e, "allocates", None) or e.frees or calls_kernel(e) for e in events)


def succeeded(f: Function | Record) -> str:
    """C for "and the call did what it is for", from the event `a`."""
    failure = getattr(f, "failure", None)
    if failure is None:
        return ""
    value = f"(int64_t)a->{failure.field}"
    ignored = "" if failure.ignored is None else f" && {value} != {failure.ignored}"
    return f" && !({value} {failure.op} {failure.value}{ignored})"


def memory_kind(a: Allocates) -> str:
    """C for the kind of memory, from the event `a`."""
    op = "&" if a.bits else "=="
    return "".join(f'a->{a.kind_field} {op} {value} ? "{kind}" : ' for value, kind in a.kinds) + f'"{a.kind}"'


def _libraries(model: Model) -> dict[str, list[Api]]:
    result: dict[str, list[Api]] = {}
    for api in model.apis:
        result.setdefault(api.library, []).append(api)
    return result


def _python_field(field: Field) -> dict[str, Any]:
    kind = "array" if field.array else field.type.kind
    if kind == "int":
        kind = "int" if field.type.signed else "uint"
    out: dict[str, Any] = {"name": field.name, "kind": kind, "column": field.column}
    if field.array:
        out["element"] = field.type.kind
    for key, value in (("enum", field.type.enum), ("unit", field.unit), ("doc", field.doc)):
        if value:
            out[key] = value
    if field.type.hex:
        out["hex"] = True
    return out


def _python_function(f: Function) -> dict[str, Any]:
    args = []
    for field in f.fields:
        entry = _python_field(field)
        arg = next((a for a in (*f.args, *f.extra, *((f.returns,) if f.returns else ())) if a.name == field.name), None)
        if arg is not None:
            entry["ctype"] = arg.ctype
            if arg.out:
                entry["out"] = True
            if arg.role:
                entry["role"] = arg.role
        args.append(entry)
    memory: dict[str, Any] = {}
    if f.allocates:
        memory["allocates"] = _allocates(f.allocates)
    if f.frees:
        memory["frees"] = _frees(f.frees)
    if f.compiles:
        memory["compiles"] = True
    if f.copies:
        memory["copies"] = dict(zip(("from", "to"), f.copies, strict=True))
    if f.maps:
        memory["maps"] = dict(zip(("memory", "address", "bytes"), f.maps, strict=True))
    return memory | {
        "name": f.name,
        "event": f.event,
        "level": dict(zip(MODES, f.levels, strict=True)),
        "blocking": bool(f.blocking),
        "args": args,
        "failed": None
        if f.failure is None
        else {
            "field": f.failure.field,
            "op": f.failure.op,
            "value": f.failure.value,
            **({} if f.failure.ignored is None else {"except": f.failure.ignored}),
        },
        "bytes": f.bytes,
        "activity": None if f.activity is None else f.activity.kind,
        "class": f.kind,
        "shape": f.shape,
        "queue": None if f.activity is None else f.activity.queue,
    }


def _allocates(a: Allocates) -> dict[str, Any]:
    out: dict[str, Any] = {"handle": a.handle, "bytes": a.bytes, "kind": a.kind}
    if a.kind_field:
        out |= {"kind_field": a.kind_field, "kinds": [list(entry) for entry in a.kinds], "bits": a.bits}
    return out | {key: getattr(a, key) for key in ("parent", "mode", "scope", "context", "flags") if getattr(a, key)}


def _frees(f: Frees) -> dict[str, Any]:
    return {key: str(getattr(f, key)) for key in ("handle", "also", "unless", "by") if getattr(f, key)}


def _python_record(r: Record) -> dict[str, Any]:
    out: dict[str, Any] = {"doc": r.doc, "fields": [_python_field(x) for x in r.fields]}
    if r.frees:
        out["frees"] = _frees(r.frees)
    return out


def python_model(model: Model) -> str:
    """occatrace/_model.json: what Python knows of the events."""
    apis: dict[str, dict[str, Any]] = {}
    for api in model.apis:
        apis[api.name] = {
            "title": api.title,
            "provider": api.provider,
            "library": api.library,
            "functions": {f.event: _python_function(f) for f in api.functions},
            "records": {r.name: _python_record(r) for r in api.records},
            "enums": {e.name: {"bitfield": e.bitfield, "values": dict(e.values)} for e in api.enums},
        }
        if api.on_top:
            # The names are in a file of their own, which is read when a run has calls of the library.
            apis[api.name] |= {"on_request": True, "records": {}, "enums": {}}
    kept = ("title", "provider", "on_request")
    index = {name: {key: api[key] for key in kept if key in api} for name, api in apis.items()}
    for api in model.apis:
        # Asked in every run with copies: without reading the functions.
        if any(f.maps for f in api.functions):
            index[api.name]["maps"] = True
    kinds = {"memory_kinds": list(MEMORY_KINDS), "copy_sides": list(COPY_SIDES)}
    head = {"schema": 1, "modes": list(MODES), **kinds, "index": index}
    # A line for each API, so that a run reads those that it has.
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(api)}" for name, api in apis.items())
    return f'{json.dumps(head)[:-1]}, "apis": {{\n{lines}\n}}}}\n'


def _library_names(api: Api) -> str:
    """occatrace/libraries/NAME.json: what the numbers in calls of a library mean."""
    return json.dumps({e.name: {value: text for text, value in reversed(e.values)} for e in api.enums}) + "\n"


def files_of(model: Model) -> dict[str, str]:
    """All generated files, by path below the output folder."""
    env = _environment()

    def render(template: str, **names: Any) -> str:
        return env.get_template(template).render(**names)

    files: dict[str, str] = {"occatrace/_model.json": python_model(model)}
    shared = {api.name: alike(api) for api in model.apis}
    for library, apis in _libraries(model).items():
        for api in apis:
            files[f"native/{api.name}_events.h"] = render("events.h.j2", api=api, modes=MODES)
            files[f"native/{api.name}_tp.h"] = render(
                "tp.h.j2", api=api, head=HEAD, alike=shared[api.name], loglevels=LOGLEVELS
            )
            if shared[api.name].events:
                files[f"native/{api.name}_alike.h"] = render("alike.h.j2", api=api, alike=shared[api.name])
        files[f"native/provider_{library}.c"] = render("provider.c.j2", library=library, apis=apis, alike=shared)
    files["native/numbers.h"] = render("numbers.h.j2", apis=[api for api in model.apis if api.numbers])
    files["native/enums.h"] = render("enums.h.j2", enums=[e for api in model.apis for e in api.enums if e.constants])
    files["native/bounds.h"] = bounds.header()
    preloaded = [api for api in model.apis if api.symbols]
    files["native/trampolines.c"] = render("trampolines.c.j2", apis=preloaded)
    for api in model.apis:
        if api.functions and (api.dispatch or api.shim or api.preload):
            files[f"native/{api.name}_wrappers.h"] = render("wrappers.h.j2", api=api, blob_max=BLOB_MAX, modes=MODES)
            files[f"native/{api.name}_places.h"] = render("places.h.j2", api=api)
        if api.commands and (api.dispatch or api.shim or api.preload):
            files[f"native/{api.name}_commands.h"] = render("commands.h.j2", api=api)
        if api.functions and api.dispatch:
            files[f"native/{api.name}_functions.h"] = render("functions.h.j2", api=api)
        if api.kinds:
            files[f"native/{api.name}_calls.h"] = render("calls.h.j2", api=api)
        if api.shim or api.preload:
            files[f"native/{api.name}_dispatch.h"] = render("dispatch.h.j2", api=api)
        if api.preload:
            files[f"native/{api.name}_slots.h"] = render("slots.h.j2", api=api)
        if api.shim:
            files[f"native/{api.name}_exports.h"] = render("exports.h.j2", api=api)
            files[f"native/{api.name}_callbacks.h"] = render("callbacks.h.j2", api=api)
        if api.on_top:
            files[f"native/library_{api.name}.h"] = render("library.h.j2", api=api)
            files[f"occatrace/libraries/{api.name}.json"] = _library_names(api)
            continue
        files[f"docs/events/{api.name}.md"] = render("events.md.j2", api=api, modes=MODES)
    return files
