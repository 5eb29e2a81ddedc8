"""Stands in for NVIDIA's pynvml: two devices with values known to the tests, of which the second measures no temperature.
What is closed when it was not opened, or asked after it was closed, fails."""

from __future__ import annotations

from types import SimpleNamespace

NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
_open = False


class NVMLError(Exception):
    pass


def nvmlInit() -> None:
    global _open
    _open = True


def nvmlShutdown() -> None:
    global _open
    _check()
    _open = False


def _check() -> None:
    if not _open:
        raise NVMLError("Uninitialized")


def nvmlDeviceGetCount() -> int:
    _check()
    return 2


def nvmlDeviceGetHandleByIndex(index: int) -> int:
    _check()
    return 100 + index


def nvmlDeviceGetName(handle: int) -> bytes:
    return b"Stand-in"


def nvmlDeviceGetPowerUsage(handle: int) -> int:
    _check()
    return 250_500 if handle == 100 else 99_000  # mW


def nvmlDeviceGetClockInfo(handle: int, kind: int) -> int:
    _check()
    return {NVML_CLOCK_SM: 1980, NVML_CLOCK_MEM: 2619}[kind]


def nvmlDeviceGetTemperature(handle: int, sensor: int) -> int:
    _check()
    if handle != 100 or sensor != NVML_TEMPERATURE_GPU:
        raise NVMLError("Not Supported")
    return 61


def nvmlDeviceGetUtilizationRates(handle: int) -> SimpleNamespace:
    _check()
    return SimpleNamespace(gpu=87, memory=12)


def nvmlDeviceGetMemoryInfo(handle: int) -> SimpleNamespace:
    _check()
    return SimpleNamespace(total=80 << 30, free=79 << 30, used=1 << 30)
