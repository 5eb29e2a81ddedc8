"""Where the installed pieces lie: the libraries for the traced program, the keeper, LTTng's daemon."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from occatrace.run import linker, native

PACKAGE = Path(native.PACKAGE)
LIB = Path(native.LIB)
PLUGINS = PACKAGE / "plugins"
INCLUDE = PACKAGE / "include"
MAN = PACKAGE / "man"
DOCS = PACKAGE / "docs"
BUNDLE = Path(native.BUNDLE)
NEEDS = BUNDLE / "needs.json"  # the machine that they need
BUNDLED_UST = "liboctng-ust.so.1"  # a name of its own: the program may have another LTTng
SYSTEM_LTTNG = native.SYSTEM_LTTNG

PRELOAD = LIB / "liboccatrace.so"
SIGNALS = LIB / "liboccatrace_signals.so"
OPENCL_LAYER = LIB / "liboccatrace_opencl.so"
OPENCL_PRELOAD = LIB / "liboccatrace_opencl_preload.so"
ANNOTATION = LIB / "liboccatrace_annotation.so"
SYCL = LIB / "liboccatrace_sycl.so"
CUDA_INJECTION = LIB / "liboccatrace_cuda_injection.so"
ROCTX_PRELOAD = LIB / "liboccatrace_roctx.so"
BY_HANDLE = LIB / "liboccatrace_by_handle.so"
DAEMON_LIBRARY = Path(native.DAEMON_LIBRARY)
KEEPER = Path(native.KEEPER)


def docs() -> Path:
    """The folder of the documentation: a clone's own, otherwise what is installed."""
    clone = PACKAGE.parent / "docs"
    return clone if (clone / "index.md").is_file() and (PACKAGE.parent / "tracepoints").is_dir() else DOCS


def bundled() -> bool:
    """Whether LTTng's programs are those of the wheel: where it brings them, unless the system's are asked for."""
    return native.bundled()


def sessiond() -> Path | None:
    """LTTng's session daemon: of OCCATRACE_SESSIOND, of the wheel, of PATH, or where systems put it outside a user's
    PATH."""
    found = native.sessiond()
    return Path(found) if found else None


def lttng_tool(name: str) -> Path | None:
    """A program of LTTng: of the wheel, of PATH, or where systems put it outside a user's PATH."""
    found = native.lttng_tool(name)
    return Path(found) if found else None


def c_library() -> str:
    """Name and version of the C library, as "glibc 2.36"; empty where it does not say so, as musl."""
    with contextlib.suppress(ValueError, OSError):
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    return ""


def unsuitable() -> str | None:
    """Why the native parts of a wheel cannot run on this machine, in one line; None where they can, or where this is no
    such wheel. A virtual environment may be shared with machines on which it was not installed."""
    if not BUNDLE.is_dir():
        return None
    import json

    try:
        needs = json.loads(NEEDS.read_bytes())
    except OSError:
        return None
    machine, wanted = os.uname().machine, tuple(int(part) for part in needs["glibc"].split("."))
    advice = "install occatrace from its sources here (occa_prof help install)"
    if machine != needs["machine"]:
        return f"this occatrace was built for {needs['machine']}, and this machine is {machine}: {advice}"
    library = c_library()
    if not library.startswith("glibc "):
        return (
            f"this occatrace needs the C library glibc {needs['glibc']} or later, and this system has another: {advice}"
        )
    if tuple(int(part) for part in library.removeprefix("glibc ").split(".")[:2]) < wanted:
        return f"this occatrace needs glibc {needs['glibc']} or later, and this system has {library}: {advice}"
    return None


def opencl_loader() -> Path | None:
    """The OpenCL loader that a program linked with libOpenCL.so.1 gets, as far as one can tell without running it."""
    return linker.find("libOpenCL.so.1", os.environ)


def roctx_library() -> Path | None:
    """A library of ROCTX on this system (a program gets our functions in front of it, and none where there is no such)."""
    return _of_rocm("libroctx64.so", "librocprofiler-sdk-roctx.so")


def hip_library() -> Path | None:
    """A library of HIP on this system."""
    return _of_rocm("libamdhip64.so")


def ze_library() -> Path | None:
    """A loader of Level Zero on this system."""
    return _library([], "libze_loader.so")


def _of_rocm(*names: str) -> Path | None:
    """One of ROCm's libraries, whatever its version."""
    rocm = [Path(root) for root in (os.environ.get("ROCM_PATH"), os.environ.get("ROCM_HOME")) if root]
    return _library([root / "lib" for root in (*rocm, *sorted(Path("/opt").glob("rocm*")))], *names)


def _library(more: Iterable[Path], *names: str) -> Path | None:
    """One of these libraries, whatever its version, of LD_LIBRARY_PATH, these folders, and those of the system."""
    folders = [Path(f) for f in os.environ.get("LD_LIBRARY_PATH", "").split(":") if f]
    folders += [
        *more,
        Path(f"/usr/lib/{os.uname().machine}-linux-gnu"),
        Path("/usr/lib64"),
        Path("/usr/lib"),
        Path("/usr/local/lib"),
    ]
    for folder in folders:
        try:
            there = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            if found := [file for file in there if file.startswith(name)]:
                return folder / min(found)
    return None


def loader_has_layers(loader: Path) -> bool:
    """Whether an OpenCL loader knows the layers of the ICD specification."""
    try:
        return b"OPENCL_LAYERS" in loader.read_bytes()
    except OSError:
        return True
