"""Where the installed pieces lie: the libraries for the traced program, the keeper, LTTng's daemon."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
LIB = PACKAGE / "lib"
PLUGINS = PACKAGE / "plugins"
INCLUDE = PACKAGE / "include"

PRELOAD = LIB / "liboccatrace.so"
OPENCL_LAYER = LIB / "liboccatrace_opencl.so"
OPENCL_PRELOAD = LIB / "liboccatrace_opencl_preload.so"
ANNOTATION = LIB / "liboccatrace_annotation.so"
CUDA_INJECTION = LIB / "liboccatrace_cuda_injection.so"
ROCTX_PRELOAD = LIB / "liboccatrace_roctx.so"
BY_HANDLE = LIB / "liboccatrace_by_handle.so"
DAEMON_LIBRARY = LIB / "liboccatrace_daemon.so"
KEEPER = LIB / "occatrace-keeper"


def sessiond() -> Path | None:
    """LTTng's session daemon: of OCCATRACE_SESSIOND, of PATH, or where systems put it outside a user's PATH."""
    named = os.environ.get("OCCATRACE_SESSIOND")
    if named:
        return Path(named) if os.access(named, os.X_OK) else None
    found = shutil.which("lttng-sessiond")
    if found:
        return Path(found)
    for folder in ("/usr/local/bin", "/usr/bin"):
        path = Path(folder) / "lttng-sessiond"
        if os.access(path, os.X_OK):
            return path
    return None


def opencl_loader() -> Path | None:
    """The OpenCL loader that a program linked with libOpenCL.so.1 gets, as far as one can tell without running it."""
    folders = [f for f in os.environ.get("LD_LIBRARY_PATH", "").split(":") if f]
    machine = os.uname().machine
    folders += [
        f"/usr/local/lib/{machine}-linux-gnu",
        "/usr/local/lib",
        f"/usr/lib/{machine}-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
    ]
    for folder in folders:
        path = Path(folder) / "libOpenCL.so.1"
        if os.path.exists(path):  # of Path it would raise where a folder may not be entered
            return path.resolve()
    return None


def roctx_library() -> Path | None:
    """A library of ROCTX on this system (a program gets our functions in front of it, and none where there is no such)."""
    return _of_rocm("libroctx64.so", "librocprofiler-sdk-roctx.so")


def hip_library() -> Path | None:
    """A library of HIP on this system."""
    return _of_rocm("libamdhip64.so")


def _of_rocm(*names: str) -> Path | None:
    """One of ROCm's libraries, whatever its version."""
    rocm = [Path(root) for root in (os.environ.get("ROCM_PATH"), os.environ.get("ROCM_HOME")) if root]
    folders = [Path(f) for f in os.environ.get("LD_LIBRARY_PATH", "").split(":") if f]
    folders += [root / "lib" for root in (*rocm, *sorted(Path("/opt").glob("rocm*")))]
    folders += [
        Path(f"/usr/lib/{os.uname().machine}-linux-gnu"),
        Path("/usr/lib64"),
        Path("/usr/lib"),
        Path("/usr/local/lib"),
    ]
    for folder in folders:
        for name in names:
            try:
                found = sorted(folder.glob(f"{name}*"))
            except OSError:
                continue
            if found:
                return found[0]
    return None


def loader_has_layers(loader: Path) -> bool:
    """Whether an OpenCL loader knows the layers of the ICD specification."""
    try:
        return b"OPENCL_LAYERS" in loader.read_bytes()
    except OSError:
        return True
