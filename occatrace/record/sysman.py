"""Intel's devices, measured by Level Zero's Sysman: the loader libze_loader.so.1 through ctypes, as there is no Python module
of the vendor's for it. Layouts and numbers are those of zes_api.h 1.x; energy and activity are counters, of which the
difference between two readings is a power or a share."""

from __future__ import annotations

import ctypes as c
import os
from collections.abc import Callable, Sequence
from typing import Any

_LOADER = "libze_loader.so.1"

Fields = Sequence[tuple[str, Any]]
_BASE: Fields = (("stype", c.c_uint32), ("pNext", c.c_void_p))
_PLACE: Fields = (("onSubdevice", c.c_uint8), ("subdeviceId", c.c_uint32))


def _structure(name: str, fields: Fields, stype: int | None = None) -> type[c.Structure]:
    head = () if stype is None else _BASE
    return type(name, (c.Structure,), {"_fields_": [*head, *fields], "number": stype})


_Core = _structure(
    "ze_device_properties_t",
    (
        *((name, c.c_uint32) for name in ("type", "vendorId", "deviceId", "flags", "subdeviceId", "coreClockRate")),
        ("maxMemAllocSize", c.c_uint64),
        ("counts", c.c_uint32 * 7),
        ("timerResolution", c.c_uint64),
        ("validBits", c.c_uint32 * 2),
        ("uuid", c.c_uint8 * 16),
        ("name", c.c_char * 256),
    ),
    0x3,
)
_Device = _structure(
    "zes_device_properties_t", (("core", _Core), ("numSubdevices", c.c_uint32), ("texts", c.c_char * (6 * 64))), 0x1
)
_Engine = _structure("zes_engine_properties_t", (("type", c.c_uint32), *_PLACE), 0x5)
_Clock = _structure(
    "zes_freq_properties_t",
    (("type", c.c_uint32), *_PLACE, ("flags", c.c_uint8 * 2), ("min", c.c_double), ("max", c.c_double)),
    0x9,
)
_Memory = _structure(
    "zes_mem_properties_t",
    (
        ("type", c.c_uint32),
        *_PLACE,
        ("location", c.c_uint32),
        ("physicalSize", c.c_uint64),
        ("busWidth", c.c_int32),
        ("numChannels", c.c_int32),
    ),
    0xB,
)
_Power = _structure("zes_power_properties_t", (*_PLACE, ("flags", c.c_uint8 * 2), ("limits", c.c_int32 * 3)), 0xD)
_Sensor = _structure(
    "zes_temp_properties_t",
    (("type", c.c_uint32), *_PLACE, ("maxTemperature", c.c_double), ("flags", c.c_uint8 * 3)),
    0x14,
)
_ClockState = _structure(
    "zes_freq_state_t",
    (*((name, c.c_double) for name in ("voltage", "request", "tdp", "efficient", "actual")), ("reasons", c.c_uint32)),
    0x1B,
)
_MemoryState = _structure("zes_mem_state_t", (("health", c.c_uint32), ("free", c.c_uint64), ("size", c.c_uint64)), 0x1E)
_Counter = _structure(
    "zes_power_energy_counter_t", (("value", c.c_uint64), ("timestamp", c.c_uint64))
)  # and zes_engine_stats_t

_ALL_ENGINES, _GPU_CLOCK, _MEMORY_CLOCK, _HOTTEST, _HOTTEST_OF_GPU = 0, 0, 1, 0, 1


class SysmanError(Exception):
    """The library or the driver refuses; why."""


class Sysman:
    """The library, open. `devices`: a handle and a name each."""

    def __init__(self) -> None:
        try:
            self._library = c.CDLL(_LOADER)
        except OSError:
            raise SysmanError(f"there is no {_LOADER} (Level Zero; Debian: libze1)") from None
        try:
            drivers = self._start()
            self.devices = [
                (device, self._properties("zesDeviceGetProperties", device, _Device).core.name)
                for driver in drivers
                for device in self._list(self._of, driver)
            ]
        except AttributeError as error:
            raise SysmanError(f"{_LOADER} is too old ({error})") from None
        if not self.devices:
            raise SysmanError("its drivers know no device")

    def _start(self) -> list[c.c_void_p]:
        """zesInit where the loader has it; before version 1.5 a variable made devices of the core API Sysman's as well."""
        if hasattr(self._library, "zesInit"):
            self._of = "zesDeviceGet"
            self._call("zesInit", c.c_uint32(0))
            return self._list("zesDriverGet")
        os.environ["ZES_ENABLE_SYSMAN"] = "1"
        self._of = "zeDeviceGet"
        self._call("zeInit", c.c_uint32(0))
        return self._list("zeDriverGet")

    def _call(self, function: str, *arguments: Any) -> None:
        code = getattr(self._library, function)(*arguments)
        if code:
            raise SysmanError(f"{function}: error 0x{code & 0xFFFFFFFF:x}")

    def _list(self, function: str, *of: Any) -> list[c.c_void_p]:
        count = c.c_uint32(0)
        self._call(function, *of, c.byref(count), None)
        handles = (c.c_void_p * count.value)()
        self._call(function, *of, c.byref(count), handles)
        return [c.c_void_p(handle) for handle in handles[: count.value]]

    def _properties(self, function: str, handle: c.c_void_p, kind: type[c.Structure]) -> Any:
        out: Any = kind()
        number = kind.number
        if number is not None:
            out.stype = number
        if kind is _Device:
            out.core.stype = 0x3
        self._call(function, handle, c.byref(out))
        return out

    def _chosen(
        self, device: c.c_void_p, enum: str, get: str, kind: type[c.Structure], wanted: Callable[[Any], bool]
    ) -> list[c.c_void_p]:
        """Domains of the whole device; where it has none, those of its parts."""
        found = [(h, self._properties(get, h, kind)) for h in self._list(enum, device)]
        found = [(h, p) for h, p in found if wanted(p)]
        whole = [h for h, p in found if not p.onSubdevice]
        return whole or [h for h, _ in found]

    def _rates(self, function: str, handles: list[c.c_void_p]) -> Callable[[], list[float]]:
        """Of counters, their growth per microsecond since the last reading."""
        last = [self._properties(function, h, _Counter) for h in handles]
        rates = [0.0] * len(handles)

        def read() -> list[float]:
            for i, handle in enumerate(handles):
                now = self._properties(function, handle, _Counter)
                if now.timestamp > last[i].timestamp:
                    rates[i] = (now.value - last[i].value) / (now.timestamp - last[i].timestamp)
                    last[i] = now
            return rates

        return read

    def meters(self, device: c.c_void_p) -> list[tuple[str, str, Callable[[], float]]]:
        """Name, unit and reading of what a device measures; a reading raises where it does not."""

        def clock(type_: int) -> Callable[[], float]:
            handles = self._chosen(
                device,
                "zesDeviceEnumFrequencyDomains",
                "zesFrequencyGetProperties",
                _Clock,
                lambda p: bool(p.type == type_),
            )
            return lambda: max(_known(self._properties("zesFrequencyGetState", h, _ClockState).actual) for h in handles)

        def power() -> Callable[[], float]:
            handles = self._chosen(device, "zesDeviceEnumPowerDomains", "zesPowerGetProperties", _Power, lambda p: True)
            watts = self._rates("zesPowerGetEnergyCounter", handles)
            return lambda: sum(_some(watts()))  # microjoules per microsecond

        def temperature() -> Callable[[], float]:
            handles: list[c.c_void_p] = []
            for type_ in (_HOTTEST, _HOTTEST_OF_GPU):
                handles = handles or self._chosen(
                    device,
                    "zesDeviceEnumTemperatureSensors",
                    "zesTemperatureGetProperties",
                    _Sensor,
                    lambda p, type_=type_: bool(p.type == type_),  # type: ignore[misc]
                )

            def one(handle: c.c_void_p) -> float:
                value = c.c_double()
                self._call("zesTemperatureGetState", handle, c.byref(value))
                return value.value

            return lambda: max(one(h) for h in handles)

        def utilization() -> Callable[[], float]:
            handles = self._chosen(
                device,
                "zesDeviceEnumEngineGroups",
                "zesEngineGetProperties",
                _Engine,
                lambda p: bool(p.type == _ALL_ENGINES),
            )
            shares = self._rates("zesEngineGetActivity", handles)
            return lambda: 100 * sum(_some(shares())) / len(handles)

        def used() -> Callable[[], float]:
            handles = self._chosen(
                device, "zesDeviceEnumMemoryModules", "zesMemoryGetProperties", _Memory, lambda p: True
            )

            def one(handle: c.c_void_p) -> float:
                state = self._properties("zesMemoryGetState", handle, _MemoryState)
                return float(state.size - state.free)

            return lambda: sum(_some([one(h) for h in handles]))

        return [
            ("power", "W", _or_not(power)),
            ("clock", "MHz", _or_not(lambda: clock(_GPU_CLOCK))),
            ("memory clock", "MHz", _or_not(lambda: clock(_MEMORY_CLOCK))),
            ("temperature", "°C", _or_not(temperature)),
            ("utilization", "%", _or_not(utilization)),
            ("memory used", "bytes", _or_not(used)),
        ]


def _known(value: float) -> float:
    if value < 0:
        raise SysmanError("not measured")
    return value


def _some(values: list[float]) -> list[float]:
    if not values:
        raise SysmanError("not measured")
    return values


def _or_not(make: Callable[[], Callable[[], float]]) -> Callable[[], float]:
    """A reading; of what cannot even be prepared, one that says so."""
    try:
        read = make()
    except SysmanError as error:
        why = str(error)

        def refused() -> float:
            raise SysmanError(why)

        return refused

    def measured() -> float:
        try:
            return read()
        except ValueError:  # the largest of none
            raise SysmanError("not measured") from None

    return measured
