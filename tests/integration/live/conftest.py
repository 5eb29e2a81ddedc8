"""The fixtures of the API folders whose programs ask for live quantities."""

from ..occa.conftest import profile as profile_occa

__all__ = ["profile_occa"]
