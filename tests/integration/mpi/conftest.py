"""The fixtures of this folder: tests/support/suites/mpi.py."""

from tests.support.suites.mpi import (
    build,
    debian_mpi,
    mpi,
    trace,
)

__all__ = [
    "build",
    "debian_mpi",
    "mpi",
    "trace",
]
