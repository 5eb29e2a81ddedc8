"""What `start` gives a shell, and `stop` takes back: lines for `eval`."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping

# What a shell had before `start`, by variable; null: nothing.
BEFORE = "OCCATRACE_BEFORE"
# Lists in which others may have put something since: of these only what is ours goes.
_LISTS = {"LD_PRELOAD": "liboccatrace", "OPENCL_LAYERS": "liboccatrace"}


def print_environment(environment: Mapping[str, str]) -> None:
    """What differs from the environment that is there, and what was there before."""
    changed = {name: value for name, value in sorted(environment.items()) if value != os.environ.get(name)}
    gone = sorted(name for name in os.environ if name not in environment)
    before = {name: os.environ.get(name) for name in (*changed, *gone, BEFORE)}  # sessions may be nested
    for name, value in changed.items():
        print(f"export {name}={shlex.quote(value)};")
    for name in gone:
        print(f"unset {name};")
    print(f"export {BEFORE}={shlex.quote(json.dumps(before))};")


def print_back() -> None:
    """Give back what was there; nothing in a shell that `start` did not fill."""
    before: dict[str, str | None] = json.loads(os.environ.get(BEFORE, "{}"))
    for name, value in before.items():
        if name in _LISTS and name in os.environ:
            rest = [w for w in os.environ[name].split(":") if w and _LISTS[name] not in os.path.basename(w)]
            value = ":".join(rest) if rest or value == "" else None
        print(f"unset {name};" if value is None else f"export {name}={shlex.quote(value)};")
