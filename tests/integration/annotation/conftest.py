"""The fixtures of this folder: tests/support/suites/annotation.py."""

from tests.support.suites.annotation import (
    build,
    profile,
)

__all__ = [
    "build",
    "profile",
]
