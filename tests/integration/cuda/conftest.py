"""The fixtures of this folder: tests/support/suites/cuda.py."""

from tests.support.suites.cuda import (
    by_name,
    cupti,
    driver,
    linked,
    nvcc,
    runtime,
    traced,
)

__all__ = [
    "by_name",
    "cupti",
    "driver",
    "linked",
    "nvcc",
    "runtime",
    "traced",
]
