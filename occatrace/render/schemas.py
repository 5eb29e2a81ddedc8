"""JSON Schemas (draft 2020-12) of what occa_prof writes as JSON, from the types and reports themselves.

Versions: the number in `$id` is the `schema` of the document; it changes when a field is removed or means something else.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from occatrace import reports
from occatrace.core.schema import SCHEMA_VERSION
from occatrace.render import history
from occatrace.render.json import SCHEMA
from occatrace.reports import critical
from occatrace.run import folder
from occatrace.store import losses

NAMES = ("report", "why", "run", "history", "tables", "reports", "runs")
WHY = 1  # of `why --format json`
LISTS = 1  # of reports and runs
RUN_FACTS = ("program", "started", "exit_status")  # of each run in the list
_SCALARS: Mapping[type, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def schema(name: str) -> dict[str, Any]:
    """The schema of one of NAMES, or of a document whose reports are all of one name, with its fields.

    Raises UnknownReport for another name.
    """
    if name == "why":
        return _head("why", WHY, "occa_prof why RUN --format json") | _why()
    if name == "run":
        return _head("run", folder.SCHEMA, "run.json") | of_type(folder.RunInfo)
    if name == "history":
        return _head("history", history.SCHEMA, "history.json of occa_prof ci") | _history()
    if name == "tables":
        return _head("tables", SCHEMA_VERSION, "tables.json of occa_prof export") | _tables()
    if name == "reports":
        return _head("reports", LISTS, "occa_prof report --list --format json") | _list_of_reports()
    if name == "runs":
        return _head("runs", LISTS, "list_runs of occa_prof mcp") | _list_of_runs()
    try:
        entry = None if name == "report" else reports.definition(name)
    except reports.UnknownReport as error:
        raise reports.UnknownReport(f"no schema {name!r}: write {', '.join(NAMES)} or a report ({error})") from None
    about = "occa_prof report RUN --format json" + (f" --report {name}" if entry else "")
    return _head(name, SCHEMA, about) | _document(entry)


def _head(name: str, version: int, about: str) -> dict[str, Any]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:occatrace:schema:{name}:{version}",
        "title": about,
    }


def _document(entry: reports.Definition | None) -> dict[str, Any]:
    lost = of_type(losses.Losses, leave=("captured", "untraced", "untimed", "excluded", "partial"))
    lost["properties"] |= {
        "partial": {"type": "string"},
        "untimed": {"type": "object"},
        "untraced": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}},
        "captured_ns": {"type": ["integer", "null"]},
        "excluded": {"type": "object", "additionalProperties": {"type": "integer"}},
    }
    cell = {"type": ["string", "number", "boolean", "null", "array", "object"]}
    row: dict[str, Any] = {"type": "object", "additionalProperties": cell}
    if entry:
        row = {
            "type": "object",
            "properties": {column.name: _cell(column) for column in entry.columns},
            "required": [column.name for column in entry.columns],
            "additionalProperties": False,
        }
    column = {"type": "object", "properties": {"name": {"type": "string"}, "unit": {"type": "string"}}}
    report = {
        "type": "object",
        "properties": {
            "name": {"const": entry.name} if entry else {"type": "string"},
            "notes": {"type": "array", "items": {"type": "string"}},
            "columns": {"type": "array", "items": {**column, "required": ["name", "unit"]}},
            "rows": {"type": "array", "items": row},
        },
        "required": ["name", "columns", "rows"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {
            "schema": {"const": SCHEMA},
            "partial": {"const": True, "description": "the run goes on"},
            "run": {"type": "object", "description": "run.json, or what was compared"},
            "losses": lost,
            "reports": {"type": "array", "items": report},
        },
        "required": ["schema", "run", "losses", "reports"],
        "additionalProperties": False,
    }


def _cell(column: reports.Column) -> dict[str, Any]:
    kinds = {"text": ["string", "integer", "boolean"], "source": "string", "parent": ["string", "integer"]}.get(
        column.unit, "number"
    )
    words = f"{column.title}: {column.help}" if column.help else column.title
    return {
        "type": [*([kinds] if isinstance(kinds, str) else kinds), "null"],
        "description": f"{words} [{column.unit}]",
    }


def _object(properties: dict[str, Any], *optional: str) -> dict[str, Any]:
    """An object with these fields and no others."""
    needed = [key for key in properties if key not in optional]
    return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}


def _history() -> dict[str, Any]:
    text, number = {"type": "string"}, {"type": "number"}
    values = {"type": ["number", "null"], "description": "of each version, in ns; null: it does not have the name"}
    name = {
        "kind": text,
        "name": text,
        "mode": {"type": ["string", "null"]},
        "median_ns": {"type": "array", "items": values},
        "changes": {
            "type": "array",
            "items": _object({"version": text, "before_ns": number, "after_ns": number}),
        },
    }
    versions = {"type": "array", "items": text, "description": "oldest first"}
    names = {"type": "array", "items": _object(name)}
    return _object({"schema": {"const": history.SCHEMA}, "versions": versions, "names": names})


def _tables() -> dict[str, Any]:
    formats = {"enum": ["parquet", "csv", "json"]}
    names = {"type": "array", "items": {"type": "string"}, "description": "each is a file, NAME.FORMAT"}
    partial = {"type": "string", "description": "the run goes on"}
    schema = {"const": SCHEMA_VERSION}
    return _object({"schema": schema, "format": formats, "tables": names, "partial": partial}, "partial")


def _list_of_reports() -> dict[str, Any]:
    text = {"type": "string"}
    report = _object({"name": text, "title": text, "about": text})
    return _object({"schema": {"const": LISTS}, "reports": {"type": "array", "items": report}})


def _list_of_runs() -> dict[str, Any]:
    facts = of_type(folder.RunInfo)["properties"]
    run = {
        "run": {"type": "string", "description": "the folder"},
        "problem": {"type": "string", "description": "why nothing else is known"},
        **{key: facts[key] for key in RUN_FACTS},
    }
    more = {"type": "integer", "minimum": 0, "description": "runs that are not listed"}
    runs = {"type": "array", "items": _object(run, "problem", *RUN_FACTS)}
    return _object({"schema": {"const": LISTS}, "runs": runs, "more": more})


def _why() -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "schema": {"const": WHY},
            "wall_ns": {"type": "integer"},
            "path_ns": {"type": "integer"},
            "predicted_ns": {"type": "integer", "description": "only with --what-if"},
            "notes": {"type": "array", "items": {"type": "string"}},
            "rows": {"type": "array", "items": of_type(critical.Row)},
        },
        "required": ["schema", "wall_ns", "path_ns", "rows"],
        "additionalProperties": False,
    }


def of_type(kind: Any, leave: Sequence[str] = ()) -> dict[str, Any]:
    """The schema of a dataclass, a TypedDict or a simple type."""
    if typing.get_origin(kind) is typing.Annotated:
        return of_type(typing.get_args(kind)[0])
    if dataclasses.is_dataclass(kind) or typing.is_typeddict(kind):
        hints = {name: hint for name, hint in typing.get_type_hints(kind).items() if name not in leave}
        needed: list[str] = []
        if dataclasses.is_dataclass(kind):
            needed = [f.name for f in dataclasses.fields(kind) if _needed(f) and f.name in hints]
        return {
            "type": "object",
            "properties": {name: of_type(hint) for name, hint in hints.items()},
            **({"required": needed} if needed else {}),
        }
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [of_type(each) for each in args]}
    if kind is type(None):
        return {"type": "null"}
    if kind in _SCALARS:
        return {"type": _SCALARS[kind]}
    if origin is tuple and args[-1:] != (Ellipsis,):
        return {"type": "array", "prefixItems": [of_type(each) for each in args]}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": of_type(args[1])}
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return {"type": "array", "items": of_type(args[0])}
    return {}


def _needed(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
