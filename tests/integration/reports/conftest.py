"""The fixtures of this folder: tests/support/suites/reports.py."""

from tests.support.suites.reports import (
    built,
    mode,
    occa_dir,
    profile,
)

__all__ = [
    "built",
    "mode",
    "occa_dir",
    "profile",
]
