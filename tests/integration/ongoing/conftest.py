"""The fixtures of this folder: tests/support/suites/ongoing.py."""

from tests.support.suites.ongoing import (
    start,
)

__all__ = [
    "start",
]
