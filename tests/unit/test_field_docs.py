"""Each field of an event that the model declares by hand says what it is; those of arguments have the API's own names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.generated import model

MODEL = Path(__file__).resolve().parents[2] / "tracepoints"


def declared(api: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for function in api.get("functions") or ():
        for field in [*(function.get("fields") or ()), *(function.get("extra") or ())]:
            yield function["name"], field
    for record in api.get("records") or ():
        for field in record["fields"]:
            yield record["name"], field
    for name, body in (api.get("classes") or {}).items():
        for field in body["fields"]:
            yield name, field


@pytest.mark.parametrize("api", sorted(path.stem for path in MODEL.glob("*.yaml")))
def test_each_declared_field_has_a_doc(api: str) -> None:
    assert [f"{owner}.{field['name']}" for owner, field in declared(model(api)) if not field.get("doc")] == []
