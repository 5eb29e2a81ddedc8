"""The fixtures of this folder: tests/support/suites/session.py."""

from tests.support.suites.session import (
    drive,
    folder,
    people,
    person,
    probe,
    root,
    user,
)

__all__ = [
    "drive",
    "folder",
    "people",
    "person",
    "probe",
    "root",
    "user",
]
