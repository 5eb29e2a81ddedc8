"""What `occa_prof doctor` finds around occatrace: the runtimes of traced APIs and what measures and names lines. Nothing of it is
loaded or changed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from occatrace.cli.findings import NONE, NOTE, OK, Finding
from occatrace.run import install, linker

# What, the names of its library, and what does not go without it.
_RUNTIMES: Sequence[tuple[str, Sequence[str], str]] = (
    ("OpenMP of gcc", ("libgomp.so.1",), "OpenMP programs of gcc and OCCA's mode OpenMP do not run here"),
    ("OpenMP with OMPT", ("libomp.so", "libomp.so.5", "libiomp5.so"), "OpenMP programs of LLVM and Intel do not run here"),
    ("CUDA driver", ("libcuda.so.1",), "CUDA programs do not run here"),
    ("CUPTI", ("libcupti.so", "libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8"),
     "device times of CUDA come from events, not from CUPTI"),
    ("HIP", ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"), "HIP programs do not run here"),
    ("rocprofiler", ("librocprofiler-sdk.so", "librocprofiler-sdk.so.1", "libroctracer64.so", "libroctracer64.so.4"),
     "device times of HIP come from events"),
    ("Level Zero", ("libze_loader.so.1",), "Level Zero programs do not run here"),
)  # fmt: skip
_SENSORS: Sequence[tuple[str, Sequence[str], str]] = (
    ("PAPI", ("libpapi.so", "libpapi.so.7", "libpapi.so.6"), "no --papi; Debian: apt install libpapi-dev"),
    ("NVML", ("libnvidia-ml.so.1",), "no power, clocks and temperature of NVIDIA's devices"),
    ("AMD SMI", ("libamd_smi.so", "librocm_smi64.so"), "no power, clocks and temperature of AMD's devices"),
    ("sysman", ("libze_loader.so.1",), "no power, clocks and temperature of Intel's devices"),
)  # fmt: skip


def runtimes() -> Iterator[Finding]:
    """MPI, OpenMP and the runtimes of devices."""
    yield _mpi()
    for what, names, cost in _RUNTIMES:
        yield _found(what, names, cost)


def sensors() -> Iterator[Finding]:
    """What counters and names of lines come from."""
    for what, names, cost in _SENSORS:
        yield _found(what, names, cost)
    yield _perf()
    from occatrace.ingest import call_sites  # takes time to load

    if tool := call_sites.tool():
        yield Finding(OK, "lines of programs", tool)
    else:
        cost = "calls of C, C++ and Fortran programs have no source lines"
        yield Finding(NOTE, "lines of programs", "addr2line not found", cost, "apt install binutils")


def library(names: Sequence[str]) -> Path | None:
    """The first of these libraries that a program gets, as far as can be known without loading it."""
    folders = [f for f in os.environ.get("LD_LIBRARY_PATH", "").split(":") if f]
    for variable in ("CUDA_HOME", "CUDA_PATH", "ROCM_PATH"):
        if root := os.environ.get(variable):
            folders += [f"{root}/lib64", f"{root}/lib", f"{root}/extras/CUPTI/lib64"]
    folders += ["/usr/local/cuda/lib64", "/usr/local/cuda/extras/CUPTI/lib64", "/opt/rocm/lib"]
    known = linker.known()
    for name in names:
        for folder in folders:
            if os.path.exists(os.path.join(folder, name)):
                return Path(folder, name)
        if name in known:
            return Path(known[name][0])
    return None


def _found(what: str, names: Sequence[str], cost: str) -> Finding:
    path = (install.hip_library() if what == "HIP" else None) or library(names)
    return Finding(OK, what, str(path)) if path else Finding(NONE, what, f"no {names[0]}: {cost}")


def _mpi() -> Finding:
    launcher = next(filter(None, map(shutil.which, ("mpirun", "mpiexec", "srun"))), None)
    if launcher is None:
        return Finding(NONE, "MPI", "no mpirun, mpiexec or srun in PATH: jobs of several ranks cannot be started here")
    try:
        said = subprocess.run(
            [launcher, "--version"], capture_output=True, text=True, timeout=10, check=False, stdin=subprocess.DEVNULL
        )
        words = (said.stdout + said.stderr).strip().splitlines()
    except (OSError, subprocess.TimeoutExpired):
        words = []
    version = next((line.split(":")[-1].strip() for line in words if re.search(r"\d+\.\d+", line)), "")
    return Finding(
        OK,
        "MPI",
        f"{launcher} ({words[0].rstrip(':')}{f', {version}' if version not in words[0] else ''})"
        if words
        else launcher,
    )


def _perf() -> Finding:
    """Whether the kernel lets this user count events: PAPI needs it, nothing else does."""
    try:
        level = int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    except (OSError, ValueError):
        return Finding(NONE, "perf events", "this kernel has none: --papi cannot count events of the processor")
    if level <= 2 or os.getuid() == 0:
        return Finding(OK, "perf events", f"allowed (perf_event_paranoid {level})")
    return Finding(
        NOTE,
        "perf events",
        f"perf_event_paranoid is {level}",
        "--papi cannot count events of the processor; stack samples and all other counters need no permission",
        "sysctl kernel.perf_event_paranoid=2, as root",
    )
