"""Outputs checked with the schemas of `occa_prof schema`."""

from __future__ import annotations

import json

import pytest

from occatrace.render import schemas


def validate(name: str, text: str) -> None:
    """The document is as its schema says, and the schema is one."""
    jsonschema = pytest.importorskip("jsonschema")
    schema = schemas.schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(json.loads(text))
