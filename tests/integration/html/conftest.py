"""The fixtures of this folder: tests/support/suites/html.py."""

from tests.support.suites.html import (
    browser,
    keep,
    mode,
    nested,
    occa_dir,
    run,
)

__all__ = [
    "browser",
    "keep",
    "mode",
    "nested",
    "occa_dir",
    "run",
]
