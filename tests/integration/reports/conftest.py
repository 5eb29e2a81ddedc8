"""The fixtures of this folder: tests/support/suites/reports.py."""

from tests.support.suites.reports import (
    mode,
    occa_dir,
    profile,
    programs,
)

__all__ = [
    "mode",
    "occa_dir",
    "profile",
    "programs",
]
