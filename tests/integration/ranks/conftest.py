"""The fixtures of this folder: tests/support/suites/ranks.py."""

from tests.support.suites.ranks import (
    job,
    job_folder,
    mpi_programs,
    one_job,
    people,
    person,
    root,
    user,
)

__all__ = [
    "job",
    "job_folder",
    "mpi_programs",
    "one_job",
    "people",
    "person",
    "root",
    "user",
]
