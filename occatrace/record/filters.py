"""What a run records: when, what, how much. Options as users write them, checked, and as the program receives them.

The options stand once, in `OPTIONS`: the command line, the environment, files of --config and docs/choosing.md have them from
there. What the words mean to a traced process is in native/emit/choice.c.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from occatrace.core.bounds import (
    DEEPEST_PATH,
    FASTEST_SAMPLES,
    LONGEST_PATTERN,
    MOST_RANGES,
    PAPI_LONGEST_NAME,
    PAPI_MOST,
    PATH_DEPTH,
    PATH_KINDS,
    SAMPLE_HZ,
)
from occatrace.core.events import LOGLEVELS, MODES
from occatrace.core.units import seconds
from occatrace.errors import ChoiceError
from occatrace.run.control import Plan

if TYPE_CHECKING:
    from occatrace.record.sampling import Sampling

PREFIX = "OCCATRACE_"
SAMPLE_STACKS = PREFIX + "SAMPLE_STACKS"


@dataclass(frozen=True)
class Option:
    """One option. `native`: the traced process reads it, under the name of its environment variable."""

    name: str
    metavar: str | None  # None: a switch without a value
    help: str
    group: str
    native: bool = True
    alone: str | None = None  # the value of an option that may stand without one; with one it is --NAME=VALUE

    @property
    def key(self) -> str:
        """As an attribute."""
        return self.name.replace("-", "_")

    @property
    def variable(self) -> str:
        """In the environment."""
        return PREFIX + self.key.upper()


WHEN, WHAT, HOW_MUCH, COUNTERS = "when", "what", "how much", "counters"
OPTIONS: tuple[Option, ...] = (
    Option("start-paused", None, "start paused, until `occa_prof resume RUN` from another shell", WHEN, native=False),
    Option("delay", "SECONDS", "start recording after this time (seconds, or 500ms, 2m)", WHEN, native=False),
    Option("duration", "SECONDS", "record for this time, from the start or the end of --delay", WHEN, native=False),
    Option(
        "collect",
        "DELAY:TIME:REPEAT",
        "record in periods: pause for DELAY, record for TIME, REPEAT times (0: to the end)",
        WHEN,
        native=False,
    ),
    Option(
        "capture-range",
        "WHAT",
        "record only in ranges that the program marks: cudaProfilerApi (cuProfilerStart to cuProfilerStop), hipProfilerApi,"
        " api (occatrace_capture_start to _stop, occatrace.start() to stop()), range:NAME (annotations of this name,"
        " whichever library they come from), or none",
        WHEN,
    ),
    Option(
        "capture-range-end",
        "END",
        "record: stop: only the first such range (default); repeat: each; repeat:N: the first N",
        WHEN,
    ),
    Option(
        "kernels",
        "REGEX",
        "record only kernels whose name matches REGEX (extended, as grep -E, unanchored): source names or _occa_… names; what"
        " an OCCA kernel launches belongs to it",
        WHAT,
    ),
    Option("exclude-kernels", "REGEX", "do not record kernels whose name matches REGEX", WHAT),
    Option(
        "kernel-iterations",
        "LIST",
        "record only these launches of each kernel and process, counted from 1 while recording: 10-20,50,100-",
        WHAT,
    ),
    Option(
        "devices",
        "LIST",
        "record only work on these devices: numbers from 0 in the order of first use by the process (0,2-3), or patterns of"
        " names",
        WHAT,
    ),
    Option(
        "streams", "LIST", "record only work in these queues or streams: numbers from 0 in the order of creation", WHAT
    ),
    Option("threads", "PATTERNS", "record only these threads: main, or patterns of names, as in main,worker*", WHAT),
    Option(
        "functions",
        "PATTERNS",
        "record only calls of these functions, as in 'clEnqueue*,MPI_Send,occa::memory::*'",
        WHAT,
    ),
    Option("exclude-functions", "PATTERNS", "do not record calls of these functions", WHAT),
    Option(
        "only-tagged",
        None,
        'record only OCCA kernels, memory and devices with the property {"occatrace": {"trace": true}}, and what they call',
        WHAT,
    ),
    Option("labels", "PATTERNS", 'record only OCCA objects with such a label: {"occatrace": {"label": "…"}}', WHAT),
    Option("level", "LIST", "set another mode for some APIs, as in opencl=full,mpi=tally", HOW_MUCH),
    Option(
        "call-paths",
        "DEPTH",
        "record the stack of the program at calls that launch, copy, allocate, build or wait and at calls of MPI, of at most"
        f" DEPTH frames (default {PATH_DEPTH}); or at some of these: --call-paths=launch,alloc,16 (occa_prof help lines)",
        HOW_MUCH,
        alone=str(PATH_DEPTH),
    ),
    Option(
        "sample-stacks",
        "HZ",
        "record the stack of each thread HZ times (default"
        f" {SAMPLE_HZ}) in each second of its CPU time (occa_prof help lines)",
        HOW_MUCH,
        alone=str(SAMPLE_HZ),
    ),
    Option(
        "max-size",
        "SIZE",
        "stop recording events at this size of the trace (as in 500M, 2G) and only count calls from then on; with --stream:"
        " limit the size of the run",
        HOW_MUCH,
        native=False,
    ),
    Option(
        "stream",
        None,
        "make tables of the trace while the program runs, and delete the trace: for long runs, which stay within --max-size"
        " (default 2G); `occa_prof report RUN` shows the run so far (occa_prof help long-runs)",
        HOW_MUCH,
        native=False,
    ),
    Option(
        "sample",
        "WHAT",
        "sample values over time: host (memory and CPU use of the processes), nvml, amdsmi, sysman (power, clocks, temperature,"
        " utilization, memory of GPUs) or all; every 100 ms, or as in host,nvml:20ms (occa_prof help counters)",
        COUNTERS,
        native=False,
    ),
    Option(
        "papi",
        "EVENTS",
        "count these PAPI events, as in PAPI_TOT_INS,PAPI_L2_TCM or perf::PAGE-FAULTS, in kernels of OCCA's modes Serial"
        " and OpenMP and in ranges (occa_prof help counters)",
        COUNTERS,
    ),
)

_RANGES = ("none", "cudaProfilerApi", "hipProfilerApi", "api")
_LIST = re.compile(r"\d+(-\d*)?(,\d+(-\d*)?)*")
_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True)
class Choosing:
    """The options of a run, checked."""

    plan: Plan = field(default_factory=Plan)
    values: Mapping[str, str] = field(default_factory=dict)  # of those for the process, by variable
    sampling: Sampling | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Choosing:
        """From options by their keys; what is None or False was not given. Raises a ChoiceError."""
        for option in OPTIONS:
            if given.get(option.key) == "":
                raise ChoiceError(f"--{option.name}: write {option.metavar}, or leave the option out")
        values = {o: given[o.key] for o in OPTIONS if given.get(o.key) not in (None, False)}
        texts = {o.key: str(value) for o, value in values.items()}
        for key, check in _CHECKS.items():
            if key in texts:
                check(texts[key])
        if "capture_range_end" in texts and texts.get("capture_range", "none") == "none":
            raise ChoiceError("--capture-range-end needs --capture-range")
        plan = Plan(
            paused="start_paused" in texts,
            delay=seconds("--delay", texts.get("delay", "0")),
            duration=seconds("--duration", texts["duration"]) if "duration" in texts else None,
            collect=_periods(texts["collect"]) if "collect" in texts else None,
            max_size=_size(texts["max_size"]) if "max_size" in texts else None,
            stream="stream" in texts,
        )
        sampling = None
        if "sample" in texts:
            from occatrace.record.sampling import Sampling

            sampling = Sampling.of(texts["sample"])
        native = {o.variable: "1" if v is True else str(v) for o, v in values.items() if o.native}
        if "devices" in texts:
            native[PREFIX + "DEVICES"] = _devices(texts["devices"])
        return cls(plan, native, sampling)

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """The environment with this choice, and with no other."""
        ours = {o.variable for o in OPTIONS}
        return {name: value for name, value in inherited.items() if name not in ours} | dict(self.values)

    @property
    def samples_stacks(self) -> bool:
        """Whether --sample-stacks was given."""
        return SAMPLE_STACKS in self.values

    def loglevel(self, mode: str) -> int:
        """The log level that the session must enable."""
        modes = [mode, *_levels(self.values.get(PREFIX + "LEVEL", "")).values()]
        return max(LOGLEVELS[m] for m in modes)


LEAST_SIZE = 4096  # bytes of --max-size: a page


def _periods(text: str) -> tuple[float, float, int]:
    parts = text.split(":")
    if len(parts) != 3 or not parts[2].isdigit():
        raise ChoiceError(f"--collect {text}: write DELAY:TIME:REPEAT, as in 10:1:3 or 500ms:100ms:0")
    delay, length = (seconds("--collect", part) for part in parts[:2])
    if length <= 0 or (delay <= 0 and int(parts[2]) != 1):
        raise ChoiceError(f"--collect {text}: periods need a length, and time between them")
    return delay, length, int(parts[2])


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if not match or not float(match[1]):
        raise ChoiceError(f"--max-size {text}: write a size, as in 500M or 2G")
    if float(match[1]) * _SIZES[match[2].upper()] < LEAST_SIZE:
        raise ChoiceError(
            f"--max-size {text}: these are bytes, in which nothing can be recorded; write a size as in 500M or 2G"
        )
    return int(float(match[1]) * _SIZES[match[2].upper()])


def _levels(text: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in text.split(",") if "=" in part)


def _check_level(text: str) -> None:
    from occatrace.core.apis import ALWAYS, read_model

    apis = [api for api in read_model()["apis"] if api not in ALWAYS]
    for part in text.split(","):
        api, _, mode = part.partition("=")
        if api not in apis:
            raise ChoiceError(f"--level {text}: no API {api!r} is traced; there are: {', '.join(apis)}")
        if mode not in MODES:
            raise ChoiceError(f"--level {text}: {api} takes one of {', '.join(MODES)}, as in {api}=full")


def _regex(option: str) -> Any:
    def check(text: str) -> None:
        import ctypes

        # Checked by the function that will use it: its syntax differs from Python's.
        libc = ctypes.CDLL(None)
        compiled = ctypes.create_string_buffer(512)
        code = libc.regcomp(compiled, text.encode(), 1)
        if code:
            why = ctypes.create_string_buffer(200)
            libc.regerror(code, compiled, why, len(why))
            raise ChoiceError(f"{option} {text}: invalid regular expression ({why.value.decode(errors='replace')})")
        libc.regfree(compiled)

    return check


def _list(option: str, first: int) -> Any:
    def check(text: str) -> None:
        wrong = not _LIST.fullmatch(text)
        if not wrong and text.count(",") >= MOST_RANGES:
            raise ChoiceError(f"{option} {text[:20]}…: at most {MOST_RANGES} numbers and ranges are allowed")
        for part in () if wrong else text.split(","):
            low, _, high = part.partition("-")
            wrong = wrong or int(low) < first or bool(high and int(high) < int(low))
        if wrong:
            raise ChoiceError(f"{option} {text}: write numbers from {first}, as in {first},10-20 or 100-")

    return check


def _patterns(option: str) -> Any:
    def check(text: str) -> None:
        for pattern in text.split(","):
            if not pattern.strip() or len(pattern.encode()) > LONGEST_PATTERN:
                raise ChoiceError(
                    f"{option} {text[:40]}: write patterns with commas between, as in main,worker*, none of them empty or longer"
                    f" than {LONGEST_PATTERN} bytes"
                )

    return check


def _devices(text: str) -> str:
    """Ranges of numbers as single numbers, because the process knows only patterns."""
    out: list[str] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)-(\d*)", part)
        if not match:
            out.append(part)
            continue
        first, last = int(match[1]), int(match[2] or -1)
        if not first <= last < 1000:
            raise ChoiceError(
                f"--devices {text}: a range of numbers needs an end that is not below its start, as in 0-3"
            )
        out += map(str, range(first, last + 1))
    return ",".join(out)


def _functions(option: str) -> Any:
    checked = _patterns(option)

    def check(text: str) -> None:
        checked(text)
        import fnmatch

        from occatrace.core.model import load

        names = {name for f in load().by_event.values() for name in (f.name, f.event.partition(":")[2])}
        for pattern in text.split(","):
            if not any(fnmatch.fnmatchcase(name.lower(), pattern.lower()) for name in names):
                raise ChoiceError(
                    f"{option} {text}: no traced function is called {pattern!r} (occa_prof help events/opencl lists OpenCL's)"
                )

    return check


def _check_range(text: str) -> None:
    if text not in _RANGES and not (text.startswith("range:") and len(text) > 6):
        raise ChoiceError(f"--capture-range {text}: unknown range; write one of {', '.join(_RANGES)}, or range:NAME")


def _check_papi(text: str) -> None:
    names = text.split(",")
    if len(names) > PAPI_MOST or not all(re.fullmatch(rf"[\w:.=+-]{{1,{PAPI_LONGEST_NAME}}}", name) for name in names):
        raise ChoiceError(
            f"--papi {text}: write at most {PAPI_MOST} names with commas between them, as papi_avail and"
            " papi_native_avail show them"
        )


def _check_paths(text: str) -> None:
    words = text.lower().split(",")
    depths = [word for word in words if word not in PATH_KINDS]
    if len(depths) > 1 or any(not re.fullmatch(r"\d{1,3}", d) or not 1 <= int(d) <= DEEPEST_PATH for d in depths):
        raise ChoiceError(
            f"--call-paths={text}: write a number of frames from 1 to {DEEPEST_PATH}, kinds of calls"
            f" ({', '.join(PATH_KINDS)}), or both, as in --call-paths=launch,alloc,16"
        )


def _check_samples(text: str) -> None:
    if not re.fullmatch(r"\d{1,4}", text) or not 1 <= int(text) <= FASTEST_SAMPLES:
        raise ChoiceError(f"--sample-stacks={text}: write samples per second of CPU time, from 1 to {FASTEST_SAMPLES}")


def _check_end(text: str) -> None:
    if not re.fullmatch(r"stop|repeat(:[1-9]\d*)?", text):
        raise ChoiceError(f"--capture-range-end {text}: write stop, repeat or repeat:N")


_CHECKS = {
    "capture_range": _check_range,
    "capture_range_end": _check_end,
    "kernels": _regex("--kernels"),
    "exclude_kernels": _regex("--exclude-kernels"),
    "kernel_iterations": _list("--kernel-iterations", 1),
    "streams": _list("--streams", 0),
    "devices": _patterns("--devices"),
    "threads": _patterns("--threads"),
    "labels": _patterns("--labels"),
    "functions": _functions("--functions"),
    "exclude_functions": _functions("--exclude-functions"),
    "level": _check_level,
    "papi": _check_papi,
    "call_paths": _check_paths,
    "sample_stacks": _check_samples,
}
