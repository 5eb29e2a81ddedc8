"""Quoting for SQL."""

from __future__ import annotations


def text(value: str) -> str:
    """A text literal."""
    return "'" + value.replace("'", "''") + "'"


def name(value: str) -> str:
    """A quoted identifier."""
    return '"' + value.replace('"', '""') + '"'
