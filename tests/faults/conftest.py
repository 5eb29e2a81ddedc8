"""The fixtures of this folder: tests/support/suites/faults.py."""

from tests.support.suites.faults import (
    folder,
    in_folder,
    people,
    probe,
    root,
    tools,
    user,
)

__all__ = [
    "folder",
    "in_folder",
    "people",
    "probe",
    "root",
    "tools",
    "user",
]
