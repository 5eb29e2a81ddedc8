"""What is sampled beside a program (--sample): memory and CPU use of its processes, and devices by their vendors' Python
libraries. Written by a thread of the process that records to RUN/samples/HOST.tsv, a line per value; read into `counters`.

Nothing here is imported by a run without --sample.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from occatrace.core.units import seconds
from occatrace.errors import ChoiceError
from occatrace.run.layout import SAMPLES_FOLDER, SAMPLES_TOTAL

if TYPE_CHECKING:
    pass

INTERVAL_S = 0.1
SHORTEST_S, LONGEST_S = 0.001, 3600.0
IDLE = 20  # times what a round took of a CPU is the least pause after it: at most a twentieth of one core
END_S = 2.0  # what a library that hangs gets at the end

HOST = "host"


class Absent(Exception):
    """A source cannot be had; why."""


@dataclass(frozen=True)
class Meter:
    """One value of one device."""

    number: int
    device: str
    name: str
    unit: str
    read: Callable[[], float]


@dataclass(frozen=True)
class Library:
    """A vendor's library, open: what it measures, and how it is closed."""

    meters: Sequence[Meter]
    close: Callable[[], object]


@dataclass(frozen=True)
class Sampling:
    """The value of --sample. `asked`: the sources were named; those of `all` may be absent."""

    sources: tuple[str, ...]
    interval: float
    asked: bool

    @classmethod
    def of(cls, text: str) -> Sampling:
        """From `all`, `host,nvml` or `host:50ms`."""
        words, colon, interval = text.partition(":")
        names = tuple(dict.fromkeys(word.strip() for word in words.split(",")))
        known = (HOST, *_LIBRARIES)
        if names != ("all",) and not set(names) <= set(known):
            raise ChoiceError(
                f"--sample {text}: there are {', '.join(known)} and all, with an optional interval as in {HOST}:50ms"
            )
        length = seconds("--sample", interval) if colon else INTERVAL_S
        if not SHORTEST_S <= length <= LONGEST_S:
            raise ChoiceError(f"--sample {text}: an interval is between 1ms and 1h")
        return cls(known if names == ("all",) else names, length, names != ("all",))


class Sampler:
    """Samples from `start` to `stop`. `processes`: whose memory and CPU use is wanted, asked at each round."""

    def __init__(self, run: Path, host: str, sampling: Sampling, processes: Callable[[], Iterable[int]]) -> None:
        self._file = run / SAMPLES_FOLDER / f"{host}.tsv"
        self._sampling = sampling
        self._processes = processes
        self._gone: set[int] = set()
        self._stop = threading.Event()
        self._notes: list[str] = []
        self._thread = threading.Thread(target=self._run, name="sampling", daemon=True)

    def start(self) -> None:
        """The program has begun."""
        self._thread.start()

    def stop(self) -> list[str]:
        """The program has ended. Returns what could not be sampled, a line each."""
        self._stop.set()
        self._thread.join(END_S)
        if self._thread.is_alive():
            self._notes.append("sampling did not end: a vendor's library hangs")
        return list(self._notes)

    def _run(self) -> None:
        libraries: list[Library] = []
        try:
            self._file.parent.mkdir(mode=0o700, exist_ok=True)
            file = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                if HOST in self._sampling.sources:
                    self._write(file, self._of_processes())  # before libraries load
                libraries = self._open()
                meters = [meter for library in libraries for meter in library.meters]
                self._rounds(file, meters)
            finally:
                os.close(file)
        except OSError as error:
            self._notes.append(f"sampling ended: {self._file.name} cannot be written ({error.strerror})")
        except Exception as error:  # a library's fault is not the run's
            self._notes.append(f"sampling ended: {type(error).__name__}: {error}")
        finally:
            for library in libraries:
                with contextlib.suppress(Exception):
                    library.close()

    def _rounds(self, file: int, meters: list[Meter]) -> None:
        spent = 0.0
        while not self._stop.wait(max(self._sampling.interval, IDLE * spent)):
            begin = time.thread_time()
            rows = self._of_processes() if HOST in self._sampling.sources else []
            rows += self._of_devices(meters)
            self._write(file, rows)
            spent = time.thread_time() - begin

    @staticmethod
    def _write(file: int, rows: Iterable[str]) -> None:
        """All of a moment at once, so that whoever kills us leaves no half of a line."""
        if text := "".join(rows):
            os.write(file, text.encode("utf-8", "replace"))

    def _of_processes(self) -> list[str]:
        rows = []
        for pid in dict.fromkeys(self._processes()):
            if pid <= 0 or pid in self._gone:
                continue
            try:
                now = time.monotonic_ns()
                used = time.clock_gettime_ns(
                    ~pid << 3 | 2
                )  # the clock of a process's CPU time, as the kernel numbers it
                with open(f"/proc/{pid}/statm", "rb") as file:
                    pages = int(file.read().split()[1])
            except (OSError, IndexError, ValueError):
                self._gone.add(pid)
                continue
            if not pages:  # it has ended, and its parent has not asked how
                continue
            rows.append(f"{now}\t{pid}\t0\t\tRSS\tbytes\t{pages * _PAGE}\n")
            rows.append(f"{now}\t{pid}\t0\t\tCPU\t{SAMPLES_TOTAL}\t{used}\n")
        return rows

    def _of_devices(self, meters: list[Meter]) -> list[str]:
        rows = []
        for meter in meters.copy():
            try:
                value = float(meter.read())
            except Exception as error:
                meters.remove(meter)  # most often: this device does not measure it
                self._notes.append(
                    f"not sampled: {meter.name} of {meter.device} #{meter.number} ({error or type(error).__name__})"
                )
                continue
            now = time.monotonic_ns()
            rows.append(f"{now}\t0\t{meter.number}\t{meter.device}\t{meter.name}\t{meter.unit}\t{value!r}\n")
        return rows

    def _open(self) -> list[Library]:
        out = []
        for name in self._sampling.sources:
            if name == HOST:
                continue
            try:
                out.append(_LIBRARIES[name]())
            except Absent as why:
                if self._sampling.asked:
                    self._notes.append(f"--sample {name}: not sampled: {why}")
        return out


_PAGE = os.sysconf("SC_PAGE_SIZE")


def _module(name: str, package: str, begin: str) -> Any:
    """A library that is there and works."""
    try:
        module = import_module(name)
    except Exception as error:  # some look for their driver when they are imported
        missing = isinstance(error, ModuleNotFoundError) and error.name == name
        why = f"there is no Python module {name} (pip install {package})" if missing else f"{name}: {error}"
        raise Absent(why) from None
    try:
        getattr(module, begin)()
    except Exception as error:
        raise Absent(f"{name}: {error or type(error).__name__}") from None
    return module


def _named(name: Any) -> str:
    text = name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
    return " ".join(text.split())


def _nvml() -> Library:
    nvml = _module("pynvml", "nvidia-ml-py", "nvmlInit")
    meters: list[Meter] = []

    def add(number: int, h: Any) -> None:
        device = _named(nvml.nvmlDeviceGetName(h))
        for name, unit, read in (
            ("power", "W", lambda: nvml.nvmlDeviceGetPowerUsage(h) / 1000),
            ("clock", "MHz", lambda: nvml.nvmlDeviceGetClockInfo(h, nvml.NVML_CLOCK_SM)),
            ("memory clock", "MHz", lambda: nvml.nvmlDeviceGetClockInfo(h, nvml.NVML_CLOCK_MEM)),
            ("temperature", "°C", lambda: nvml.nvmlDeviceGetTemperature(h, nvml.NVML_TEMPERATURE_GPU)),
            ("utilization", "%", lambda: nvml.nvmlDeviceGetUtilizationRates(h).gpu),
            ("memory used", "bytes", lambda: nvml.nvmlDeviceGetMemoryInfo(h).used),
        ):
            meters.append(Meter(number, device, name, unit, read))

    _each(range(nvml.nvmlDeviceGetCount()), lambda number: add(number, nvml.nvmlDeviceGetHandleByIndex(number)))
    return Library(meters, nvml.nvmlShutdown)


def _amdsmi() -> Library:
    smi = _module("amdsmi", "amdsmi", "amdsmi_init")
    meters: list[Meter] = []

    def number_in(values: Mapping[str, Any], *names: str) -> float:
        """Versions differ in the names; what a device does not measure is "N/A"."""
        for name in names:
            if isinstance(values.get(name), (int, float)):
                return float(values[name])
        raise ValueError("not measured")

    def add(number: int, h: Any) -> None:
        device = _named(smi.amdsmi_get_gpu_asic_info(h)["market_name"])
        powers = ("socket_power", "current_socket_power", "average_socket_power")
        kinds, now = smi.AmdSmiTemperatureType, smi.AmdSmiTemperatureMetric.CURRENT
        for name, unit, read in (
            ("power", "W", lambda: number_in(smi.amdsmi_get_power_info(h), *powers)),
            ("clock", "MHz", lambda: number_in(smi.amdsmi_get_clock_info(h, smi.AmdSmiClkType.GFX), "clk", "cur_clk")),
            (
                "memory clock",
                "MHz",
                lambda: number_in(smi.amdsmi_get_clock_info(h, smi.AmdSmiClkType.MEM), "clk", "cur_clk"),
            ),
            ("temperature", "°C", lambda: smi.amdsmi_get_temp_metric(h, kinds.HOTSPOT, now)),
            ("utilization", "%", lambda: number_in(smi.amdsmi_get_gpu_activity(h), "gfx_activity")),
            ("memory used", "bytes", lambda: smi.amdsmi_get_gpu_memory_usage(h, smi.AmdSmiMemoryType.VRAM)),
        ):
            meters.append(Meter(number, device, name, unit, read))

    _each(enumerate(smi.amdsmi_get_processor_handles()), lambda pair: add(*pair))
    return Library(meters, smi.amdsmi_shut_down)


def _sysman() -> Library:
    from occatrace.record.sysman import Sysman, SysmanError

    try:
        sysman = Sysman()
        meters = [
            Meter(number, _named(device), name, unit, read)
            for number, (handle, device) in enumerate(sysman.devices)
            for name, unit, read in sysman.meters(handle)
        ]
    except SysmanError as error:
        raise Absent(str(error)) from None
    return Library(meters, lambda: None)


def _each(devices: Iterable[Any], add: Callable[[Any], None]) -> None:
    try:
        for device in devices:
            add(device)
    except Exception as error:
        raise Absent(str(error) or type(error).__name__) from None


_LIBRARIES: Mapping[str, Callable[[], Library]] = {"nvml": _nvml, "amdsmi": _amdsmi, "sysman": _sysman}
