"""What `occa_prof doctor --report` prints: facts that a bug report needs, in Markdown, without private data.

Names of users, hosts and home folders are replaced, and so are folders in values and messages; programs and their arguments,
values of variables that are not ours, and names in the run (kernels, ranges, files) are not collected.
"""

from __future__ import annotations

import contextlib
import os
import platform
import pwd
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from occatrace import __version__

PACKAGES = ("numpy", "duckdb", "rich", "argcomplete", "viztracer", "vl-convert-python", "pyopencl", "mpi4py", "dask")
COMMANDS = (("lttng", "--version"), ("babeltrace2", "--version"), ("g++", "--version"), ("mpirun", "--version"))
# Variables whose values say nothing private once names are replaced; of others only that they are set.
SHOWN = re.compile(
    r"OCCATRACE_|OCCA_(VERBOSE|CXXFLAGS|OPENCL)|OMP_|OCL_|OPENCL_|LD_PRELOAD$|LC_ALL$|LANG$|TERM$|NO_COLOR$"
)
SET = (
    "LD_LIBRARY_PATH",
    "OCCA_DIR",
    "CUDA_HOME",
    "ROCM_PATH",
    "PYTHONPATH",
    "TMPDIR",
    "SLURM_JOB_ID",
    "OMPI_COMM_WORLD_SIZE",
)
FACTS = ("started", "ended", "exit_status", "mode", "traced", "version", "session")


def text(findings: Iterable[tuple[str, Iterable[str]]], run: Path | None = None) -> str:
    """The report; `findings`: titles and lines of the doctor."""
    parts = ["<!-- Add: the command, what you expected, what happened. -->", "", "## System", ""]
    parts += [f"- {name}: {value}" for name, value in system()]
    parts += ["", "## Variables", ""]
    parts += [f"- {line}" for line in variables(os.environ)] or ["none"]
    parts += ["", "## occa_prof doctor", "", "```"]
    for title, lines in findings:
        parts += [title, *lines]
    parts += ["```"]
    if run is not None:
        parts += ["", "## Run", "", *(f"- {name}: {value}" for name, value in facts(run))]
    return clean("\n".join(parts)) + "\n"


def system() -> Iterator[tuple[str, str]]:
    """Versions and limits."""
    yield "occatrace", __version__
    yield "Python", f"{platform.python_implementation()} {sys.version.split()[0]}"
    uname = os.uname()
    yield (
        "system",
        f"{_distribution()}, {uname.sysname} {uname.release} {uname.machine}, {' '.join(platform.libc_ver())}",
    )
    yield "CPUs", f"{os.cpu_count()} in the machine, {len(os.sched_getaffinity(0))} usable"
    for name, number in (("ulimit -n", resource.RLIMIT_NOFILE), ("ulimit -v", resource.RLIMIT_AS)):
        soft, hard = resource.getrlimit(number)
        shown = ["unlimited" if value == resource.RLIM_INFINITY else str(value) for value in (soft, hard)]
        yield name, f"{shown[0]} (hard {shown[1]})"
    with contextlib.suppress(OSError):
        space = shutil.disk_usage("/dev/shm")
        yield "/dev/shm", f"{space.free >> 20} MiB free of {space.total >> 20} MiB"
    with contextlib.suppress(OSError):
        yield "perf_event_paranoid", Path("/proc/sys/kernel/perf_event_paranoid").read_text().strip()
    yield "root", "yes" if os.getuid() == 0 else "no"
    container = any(os.path.exists(path) for path in ("/.dockerenv", "/run/.containerenv"))
    yield "container", "yes" if container else "not seen"
    for name in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            yield name, metadata.version(name)
    for command in COMMANDS:
        if shutil.which(command[0]):
            yield command[0], _first_line(command)


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return "Linux"


def _first_line(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=10, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"cannot be run ({type(error).__name__})"
    return next(iter((done.stdout or done.stderr).strip().splitlines()), "")


def variables(environment: Mapping[str, str]) -> list[str]:
    """Variables that matter: of ours the values, of others that they are set."""
    out = [f"{name}={_without_folders(value)}" for name, value in sorted(environment.items()) if SHOWN.match(name)]
    return out + [f"{name} is set" for name in SET if environment.get(name)]


def facts(path: Path) -> Iterator[tuple[str, Any]]:
    """Of a run: how it was recorded and ended, what is missing. Not its program, folder, user, nor names in it."""
    from occatrace.run.folder import run_facts
    from occatrace.run.opening import open_run
    from occatrace.store.tables import open_store

    folder = open_run(path).path
    known = run_facts(folder)
    for name in FACTS:
        if known.get(name) not in (None, "", (), [], {}):
            yield name, known[name]
    if known.get("choice"):
        yield "filters", ", ".join(sorted(known["choice"]))
    for note in known.get("notes") or ():
        yield "note", _without_folders(str(note))
    job = known.get("job") or {}
    if job:
        yield "job", f"{job.get('launcher')}, {job.get('size')} ranks on {len(job.get('nodes') or ())} nodes"
    for kind, files in (("trace", folder / "trace"), ("tables", folder / "tables")):
        sizes = [file.stat().st_size for file in files.rglob("*") if file.is_file()]
        yield kind, f"{len(sizes)} files, {sum(sizes):,} bytes"
    with open_store(folder) as store:
        for line in store.losses(known).lines():
            yield "loss", _without_folders(line)
        rows = store.con.execute(
            "SELECT api, count(DISTINCT function), sum(calls) FROM call_stats GROUP BY api ORDER BY api"
        ).fetchall()
        for api, functions, calls in rows:
            yield f"calls of {api}", f"{calls} calls of {functions} functions"


def _without_folders(value: str) -> str:
    return re.sub(r"(?<![\w.])/(?:[^\s:/,'\"]+/)+", "…/", value)


def clean(content: str, private_names: Iterable[tuple[str, str]] | None = None) -> str:
    """Without the names of the user, the home folder and the host."""
    for private, shown in _private() if private_names is None else private_names:
        if len(private) > 2:
            content = re.sub(rf"(?<![A-Za-z0-9]){re.escape(private)}(?![A-Za-z0-9])", shown, content)
    return content


def _private() -> list[tuple[str, str]]:
    out = [(os.path.expanduser("~").rstrip("/"), "~"), (os.uname().nodename, "HOST")]
    out.append((os.uname().nodename.partition(".")[0], "HOST"))
    with contextlib.suppress(KeyError):
        out.append((pwd.getpwuid(os.getuid()).pw_name, "USER"))
    # "root" is no name of a person, and a common word.
    return [(private, shown) for private, shown in out if private not in ("", "root", "localhost", "/")]
