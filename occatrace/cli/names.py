"""Names of outputs with keys in them: %h host, %p process id, %r rank, %q{VAR} a variable, %% a percent sign."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import overload

from occatrace.cli.messages import UsageError
from occatrace.run.nodes import host_name
from occatrace.run.ranks import Place

_KEY = re.compile(r"%(q\{([^}]*)\}|.|$)")


def of_each_rank(path: Path | None) -> bool:
    """Whether each rank gets a name of its own."""
    return path is not None and any(m[1] in ("r", "p") for m in _KEY.finditer(str(path)))


@overload
def expand(path: Path, place: Place) -> Path: ...
@overload
def expand(path: None, place: Place) -> None: ...
def expand(path: Path | None, place: Place) -> Path | None:
    """The name with its keys filled in."""
    if path is None:
        return None

    def value(match: re.Match[str]) -> str:
        key = match[1]
        if key == "h":
            return host_name()
        if key == "p":
            return str(os.getpid())
        if key == "r":
            return str(place.rank if place.rank is not None else 0)
        if key == "%":
            return "%"
        if match[2]:
            return os.environ.get(match[2], "")
        raise UsageError(f"{path}: %{key} is not a key; there are %h host, %p process id, %r rank, %q{{VAR}}, %%")

    return Path(_KEY.sub(value, str(path)))
