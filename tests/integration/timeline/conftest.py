"""The fixtures of this folder: tests/support/suites/timeline.py."""

from tests.support.suites.timeline import (
    demo,
    mode,
    occa_dir,
    run,
)

__all__ = [
    "demo",
    "mode",
    "occa_dir",
    "run",
]
