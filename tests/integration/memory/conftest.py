"""The programs with a memory ledger, and the fixtures of the API folders that run them."""

from ..occa.conftest import profile as profile_occa
from ..opencl.conftest import platforms, profile

__all__ = ["platforms", "profile", "profile_occa"]
