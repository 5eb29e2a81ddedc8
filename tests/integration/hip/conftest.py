"""The fixtures of this folder: tests/support/suites/hip.py."""

from tests.support.suites.hip import (
    cases,
    clang,
    runtime,
    traced,
)

__all__ = [
    "cases",
    "clang",
    "runtime",
    "traced",
]
