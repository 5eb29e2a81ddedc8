"""The device work of calls: C++ for what the model says of it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .model import Activity, Function


def over_arguments(expression: str, f: Function) -> str:
    """The expression with the arguments of the call taken out of `a`."""
    names = "|".join(sorted((a.name for a in (*f.args, *f.extra)), key=len, reverse=True))
    if f.returns:
        names += "|ret" if names else "ret"
    return re.sub(rf"(?<![\w.:>])({names})(?!\w|::)", r"a.\1", expression) if names else expression


def constant(kind: str) -> str:
    """The constant of a kind of device work."""
    return f"OCCATRACE_{kind.upper()}"


def _size(expressions: Sequence[str]) -> str:
    return expressions[0] if len(expressions) == 1 else f"device::size({', '.join(expressions)})"


def _side(expression: str | None) -> str:
    return "true" if expression == "true" else f"on_device({expression})"


def _kind(activity: Activity) -> str:
    """The kind of the work, as an expression."""
    if activity.kind != "copy":
        return constant(activity.kind)
    sides = f"device::copy_kind({_side(activity.source)}, {_side(activity.target)})"
    given = activity.direction
    return f"is_directed({given}) ? directed({given}) : {sides}" if given else sides


def describe(f: Function) -> list[str]:
    """Statements that fill in the `work` of a call."""
    activity = f.activity
    assert activity is not None
    lines = []
    if activity.count:
        part = f"device::Part{{static_cast<uint8_t>({_kind(activity)}), {activity.bytes or 0}}}"
        lines.append(f"work.consists_of(device::parts({activity.count}, [&a](size_t at) {{ return {part}; }}))")
    else:
        lines.append(f"work.kind = {_kind(activity)}")
        if activity.bytes:
            lines.append(f"work.bytes = {activity.bytes}")
    if activity.mapping:
        known = f"mapped_bytes.set({activity.mapping}, work.bytes)"
        lines.append(known if activity.kind == "map" else f"work.bytes = mapped_bytes.get({activity.mapping})")
    if activity.name:
        lines.append(f'work.name = occatrace_intern("{activity.name}")')
    if activity.kernel:
        lines.append(f"work.name = {activity.kernel}")
    if activity.blocks or activity.items:
        unit = "blocks" if activity.blocks else "items"
        lines.append(f"work.in_{unit}({_size(activity.blocks or activity.items)}, {_size(activity.block)})")
    return [f"{over_arguments(line, f)};" for line in lines]
