"""The fixtures of this folder: tests/support/suites/occa.py."""

from tests.support.suites.occa import (
    fake_libraries,
    gcc_occa,
    occa,
    profile,
)

__all__ = [
    "fake_libraries",
    "gcc_occa",
    "occa",
    "profile",
]
