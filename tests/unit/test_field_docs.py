"""Each field of an event that the model declares by hand says what it is; those of arguments have the API's own names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

MODEL = Path(__file__).resolve().parents[2] / "tracepoints"


def declared(model: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for function in model.get("functions") or ():
        for field in [*(function.get("fields") or ()), *(function.get("extra") or ())]:
            yield function["name"], field
    for record in model.get("records") or ():
        for field in record["fields"]:
            yield record["name"], field
    for name, body in (model.get("classes") or {}).items():
        for field in body["fields"]:
            yield name, field


@pytest.mark.parametrize("path", sorted(MODEL.glob("*.yaml")), ids=lambda path: path.stem)
def test_each_declared_field_has_a_doc(path: Path) -> None:
    assert [
        f"{owner}.{field['name']}"
        for owner, field in declared(yaml.safe_load(path.read_text()))
        if not field.get("doc")
    ] == []
