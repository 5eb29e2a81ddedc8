"""Which LTTng events a recording mode enables, from the model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MODES = ("default", "minimal", "full", "tally")
MODEL = Path(__file__).parent / "_model.json"


def patterns(mode: str, model: Mapping[str, Any] | None = None) -> list[str]:
    """Names and wildcards for LTTng. Only what the mode writes as events: a process pays for each enabled event as it
    starts. Records (processes, threads, names, tallies, device activity) are always enabled."""
    if model is None:
        model = json.loads(MODEL.read_text(encoding="utf-8"))
    out: list[str] = []
    for api in model["apis"].values():
        provider = api["provider"]
        functions = api.get("functions", {})
        enabled = [name for name, function in functions.items() if function["level"][mode] == "event"]
        if len(enabled) == len(functions):
            out.append(f"{provider}:*")
            continue
        out += [f"{provider}:{name}" for name in api.get("records", {})]
        for name in enabled:
            out.append(f"{provider}:{name}")
            if functions[name].get("blocking"):
                out.append(f"{provider}:{name}_begin")
    return out
