"""The fixtures of this folder: tests/support/suites/ze.py."""

from tests.support.suites.ze import (
    cases,
    driver,
    traced,
)

__all__ = [
    "cases",
    "driver",
    "traced",
]
