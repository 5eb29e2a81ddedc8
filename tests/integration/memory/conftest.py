"""The programs with a memory ledger, and the fixtures of the API folders that run them."""

from tests.support.suites.occa import profile as profile_occa
from tests.support.suites.opencl import platforms, profile

__all__ = ["platforms", "profile", "profile_occa"]
