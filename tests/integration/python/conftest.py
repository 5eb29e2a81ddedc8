"""The fixtures of this folder: tests/support/suites/python.py."""

from tests.support.suites.python import (
    embed,
    example,
    profile,
)

__all__ = [
    "embed",
    "example",
    "profile",
]
