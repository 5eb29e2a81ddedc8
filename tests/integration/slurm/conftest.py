"""The fixtures of this folder: tests/support/suites/slurm.py."""

from tests.support.suites.slurm import (
    cluster,
    program,
    slurm,
)

__all__ = [
    "cluster",
    "program",
    "slurm",
]
