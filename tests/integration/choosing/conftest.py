"""The fixtures of this folder: tests/support/suites/choosing.py."""

from tests.support.suites.choosing import (
    everything,
    grids,
)

__all__ = [
    "everything",
    "grids",
]
