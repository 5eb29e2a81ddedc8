"""The fixtures of this folder: tests/support/suites/openmp.py."""

from tests.support.suites.openmp import (
    profile,
)

__all__ = [
    "profile",
]
