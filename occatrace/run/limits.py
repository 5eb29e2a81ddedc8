"""What `ulimit` allows, against what tracing takes: where it is not enough, LTTng fails in silence, or the program does."""

from __future__ import annotations

import os
import resource

from occatrace.core.bounds import DESCRIPTORS_PER_CPU, LEAST_SPACE, LEFT_DESCRIPTORS, OTHER_DESCRIPTORS
from occatrace.errors import DaemonError

# Of a traced process: stacks and heaps of LTTng's threads and ours, libraries, buffers.
TAKEN_SPACE = LEAST_SPACE // 3

LACKING = ("space", "files")  # in a process of the program


def lacking(what: str, has: int, need: int) -> str:
    """What a process may not have as much of as tracing takes."""
    if what == "space":
        return f"it may map only {has >> 20} MiB (ulimit -v): allow {need >> 20} MiB or more"
    return f"it may open only {has} files (ulimit -n): allow {need} or more"


def address_space() -> int | None:
    """Bytes that a process may map (ulimit -v); None: without limit."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def of_process(cpus: int) -> int:
    """Descriptors that LTTng takes in a traced process."""
    return DESCRIPTORS_PER_CPU * cpus + OTHER_DESCRIPTORS


def of_daemon(cpus: int) -> int:
    """Descriptors that LTTng's daemon and its consumer need for a few processes."""
    return 4 * cpus + 96


def check_files(buffers: int) -> None:
    """Raises DaemonError where a file may not be as large as the buffers of a processor, `buffers` bytes, which are a file."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if limit != resource.RLIM_INFINITY and limit < 2 * buffers:
        raise DaemonError(
            f"a process may write only files of {limit >> 20} MiB (ulimit -f), LTTng's buffers need {2 * buffers >> 20} MiB"
        )


def check(cpus: int) -> None:
    """Raises DaemonError where the program would fail for lack of what tracing takes, or would not be recorded."""
    space = address_space()
    if space is not None and space < LEAST_SPACE:
        raise DaemonError(
            f"a process may map only {space >> 20} MiB (ulimit -v), of which tracing takes up to {TAKEN_SPACE >> 20} MiB:"
            f" allow {LEAST_SPACE >> 20} MiB or more"
        )
    soft, hard = (
        limit if limit != resource.RLIM_INFINITY else 1 << 30 for limit in resource.getrlimit(resource.RLIMIT_NOFILE)
    )
    need = of_process(cpus) + LEFT_DESCRIPTORS
    if soft < need:
        raise DaemonError(
            f"a process may open only {soft} files (ulimit -n), of which LTTng takes {of_process(cpus)}: allow {need} or more"
        )
    if hard < of_daemon(cpus) and os.getuid() != 0:
        raise DaemonError(
            f"a process may open only {hard} files (ulimit -Hn), LTTng's daemon needs {of_daemon(cpus)} for {cpus} CPUs"
        )
