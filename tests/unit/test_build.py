"""What the build of the native layer does twice."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.support.runs import ROOT

BUILD = ROOT / "build" / "dev"
# Of each the reason.
MORE_THAN_ONCE = {
    "native/intercept/libraries/library.c": "for each library another generated header",
    "native/intercept/cuda/cuda.cpp": "the shim, and what the driver loads: other wrappers of the same hooks",
    "native/intercept/cuda/cupti.cpp": "likewise",
    "native/emit/conditional.c": "in the core, which has options of its own",
    "native/intercept/papi/papi_library.c": "in the backend, and in the Python module that asks beforehand",
}


def test_nothing_is_compiled_twice() -> None:
    commands = BUILD / "compile_commands.json"
    if not commands.exists():
        pytest.skip("this clone was not built by tools/setup")
    times = Counter(
        str(Path(entry["file"]).relative_to(ROOT))
        for entry in json.loads(commands.read_text())
        if Path(entry["file"]).is_relative_to(ROOT / "native")
    )
    assert {name for name, count in times.items() if count > 1} == set(MORE_THAN_ONCE)
    assert {times[name] for name in MORE_THAN_ONCE if not name.endswith("/library.c")} == {2}
