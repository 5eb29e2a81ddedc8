"""The fixtures of this folder: tests/support/suites/opencl.py."""

from tests.support.suites.opencl import (
    cases,
    platforms,
    profile,
)

__all__ = [
    "cases",
    "platforms",
    "profile",
]
