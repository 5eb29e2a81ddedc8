"""JSON of a run's folder against the types of what it becomes. Such a folder may come from anybody, so nothing is used
before it was checked here."""

from __future__ import annotations

import dataclasses
import json
import re
import types
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

from occatrace.core.files import read_file

LARGEST = 256 << 20
LONGEST_MESSAGE = 900  # characters
_INT64 = 1 << 63

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Text:
    """With `Annotated[str, Text(...)]`: a regular expression for the whole of a text."""

    pattern: str
    what: str


class Damaged(ValueError):
    """JSON that is not what it should be; the message begins with the key."""


def read(path: Path) -> dict[str, Any]:
    """An object from a file. Raises an OSError, or a Damaged."""
    try:
        data = json.loads(read_file(path, LARGEST))
    except (ValueError, RecursionError):
        raise Damaged("it is not JSON") from None
    if not isinstance(data, dict):
        raise Damaged("it is not an object")
    return data


def load(kind: type[T], path: Path) -> T:
    """A dataclass from a file."""
    return made(kind, read(path))


def made(kind: type[T], data: Any, key: str = "") -> T:
    """A dataclass from an object: known keys are checked, others left out. Raises a Damaged."""
    result: T = _dataclass(kind, data, key)
    return result


def items(kind: Any, data: Any, key: str) -> list[Any]:
    """A list of values of one type."""
    found: list[Any] = _value(list[kind], data, key)
    return found


def _value(kind: Any, data: Any, key: str) -> Any:
    origin, args = get_origin(kind), get_args(kind)
    if kind is Any:
        return data
    if origin is Annotated:
        text = _value(args[0], data, key)
        if not re.fullmatch(args[1].pattern, text, re.ASCII):
            raise Damaged(f"{key} is {_shown(data)}, not {args[1].what}")
        return text
    if origin in (Union, types.UnionType):
        return _any_of(args, data, key)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, data, key)
    if is_typeddict(kind):
        hints = _hints(kind)
        entries = _checked(dict, data, key, "an object").items()
        return {name: _value(hints.get(name, Any), value, f"{key}.{name}") for name, value in entries}
    if origin is not None:
        return _many(origin, args, data, key)
    return _plain(kind, data, key)


def _any_of(kinds: Sequence[Any], data: Any, key: str) -> Any:
    if data is None and type(None) in kinds:
        return None
    failure = None
    for kind in kinds:
        if kind is not type(None):
            try:
                return _value(kind, data, key)
            except Damaged as error:
                failure = error
    assert failure
    raise failure


def _many(origin: Any, args: Sequence[Any], data: Any, key: str) -> Any:
    if issubclass(origin, Mapping):
        entries = _checked(dict, data, key, "an object").items()
        return {name: _value(args[1], value, f"{key}.{_short(name)}") for name, value in entries}
    items = _checked(list, data, key, "a list")
    if origin is tuple and args[-1] is not Ellipsis:
        if len(items) != len(args):
            raise Damaged(f"{key} has {len(items)} values, not {len(args)}")
        return tuple(_value(kind, item, f"{key}[{i}]") for i, (kind, item) in enumerate(zip(args, items, strict=True)))
    return origin(_value(args[0], item, f"{key}[{i}]") for i, item in enumerate(items))


def _plain(kind: Any, data: Any, key: str) -> Any:
    names = {str: "a text", int: "a number", float: "a number", bool: "true or false"}
    allowed = (int, float) if kind is float else kind
    if not isinstance(data, allowed) or (isinstance(data, bool) and kind is not bool):
        raise Damaged(f"{key} is {_shown(data)}, not {names[kind]}")
    if isinstance(data, int) and not -_INT64 <= data < _INT64:
        raise Damaged(f"{key} is {_shown(data)}, too large a number")
    return data


def _dataclass(kind: Any, data: Any, key: str) -> Any:
    entries = _checked(dict, data, key or "it", "an object")
    hints = _hints(kind)
    values = {}
    for field in dataclasses.fields(kind):
        name = f"{key}.{field.name}" if key else field.name
        if field.name in entries:
            values[field.name] = _value(hints[field.name], entries[field.name], name)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise Damaged(f"{name} is missing")
    return kind(**values)


def _checked(kind: type, data: Any, key: str, what: str) -> Any:
    if not isinstance(data, kind):
        raise Damaged(f"{key} is {_shown(data)}, not {what}")
    return data


@lru_cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _shown(data: Any) -> str:
    return _short(json.dumps(data) if not isinstance(data, (dict, list)) else type(data).__name__)


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."


def printable(text: str) -> str:
    """Text that cannot move the cursor or break a line."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def message(text: str) -> str:
    """A line of a message: printable, and without the middle of a value of the user's that is very long."""
    if len(text) > LONGEST_MESSAGE:
        text = f"{text[: LONGEST_MESSAGE // 2]} … {text[-LONGEST_MESSAGE // 2 :]}"
    return printable(text)
