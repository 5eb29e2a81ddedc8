"""The fixtures of this folder: tests/support/suites/security.py."""

from tests.support.suites.security import (
    crash_tool,
    give,
    made_run,
    place,
    run,
    victim,
)

__all__ = [
    "crash_tool",
    "give",
    "made_run",
    "place",
    "run",
    "victim",
]
