"""The fixtures of the API folders whose programs ask for live quantities."""

from tests.support.suites.occa import profile as profile_occa

__all__ = ["profile_occa"]
