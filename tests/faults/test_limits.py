"""Limits of shells, control groups and containers: the program is untouched, and one line says what is not recorded."""

from __future__ import annotations

import errno
import os
import secrets
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.session.test_disk import ticks
from tests.support.fake import demo_trace, recorded
from tests.support.runs import until
from tests.support.suites.faults import readable
from tests.support.suites.session import OCCA_PROF, Person, environment

PROFILE = shlex.join(OCCA_PROF)
# Of x86-64 and AArch64.
NUMBERS = {
    "x86_64": {
        "perf_event_open": 298,
        "membarrier": 324,
        "memfd_create": 319,
        "pidfd_open": 434,
        "ptrace": 101,
        "userfaultfd": 323,
        "io_uring_setup": 425,
    },
    "aarch64": {
        "perf_event_open": 241,
        "membarrier": 283,
        "memfd_create": 279,
        "pidfd_open": 434,
        "ptrace": 117,
        "userfaultfd": 282,
        "io_uring_setup": 425,
    },
}


def quiet(done: subprocess.CompletedProcess[str]) -> bool:
    return not any(word in done.stderr for word in ("Traceback", "internal error", "PERROR"))


def test_size_of_files(user: Person, folder: Path, probe: Path) -> None:
    """A file of buffers beyond the limit would end LTTng's processes by SIGXFSZ, or the program."""
    done = user.run(["sh", "-c", f"ulimit -f 4096; exec {PROFILE} -m full -o run {probe} 1000 exit 3"])
    assert done.returncode == 3 and quiet(done), done.stderr
    assert "may write only files of 2 MiB (ulimit -f)" in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_number_of_processes(user: Person, folder: Path, probe: Path) -> None:
    done = user.run(["prlimit", "--nproc=6", *OCCA_PROF, "-o", "run", str(probe), "5", "exit", "3"])
    assert done.returncode == 3 and done.stderr.count("\n") == 1, done.stderr
    assert "internal error" not in done.stderr and "without being traced" in done.stderr, done.stderr


@pytest.mark.parametrize("limit", [150_000, 400_000, 900_000])
def test_memory_of_the_analysis(tmp_path: Path, limit: int) -> None:
    run = recorded(tmp_path, demo_trace())
    words = f"ulimit -v {limit}; exec {PROFILE} report {run} --format json"
    done = subprocess.run(["sh", "-c", words], text=True, capture_output=True, check=False, env=environment())
    assert quiet(done), done.stderr
    assert readable(done) or "ulimit -v" in done.stderr or "memory" in done.stderr, done.stderr


@contextmanager
def control_group(controller: str, name: str, **limits: str) -> Iterator[str]:
    """Words of a shell that put it into a group with limits; `limits`: by the names of version 1, and of 2 after `v2_`."""
    modern = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    parent = Path("/sys/fs/cgroup") if modern else Path("/sys/fs/cgroup") / controller
    # By a random number: process numbers repeat in the namespaces of workers, which share this file system.
    group = parent / f"occatrace-test-{name}-{secrets.token_hex(8)}"
    try:
        group.mkdir()
        for key, value in limits.items():
            if key.startswith("v2_") == modern:
                (group / key.removeprefix("v2_").replace("__", ".")).write_text(value)
    except OSError as error:
        if group.exists():
            group.rmdir()
        pytest.skip(f"no control group can be made here: {error}")
    try:
        yield f"echo $$ > {group}/cgroup.procs"
    finally:
        # LTTng's daemons end after the command that they served.
        until(lambda: not (group / "cgroup.procs").read_text(), "no process is left in the group")
        group.rmdir()


def test_memory_of_a_control_group(root: Person, folder: Path, probe: Path) -> None:
    """The buffers count for the group. 60 MB are enough for the program alone, not for the analysis: that one may be killed."""
    with control_group("memory", "memory", memory__limit_in_bytes="120M", v2_memory__max="120M") as enter:
        done = root.run(["sh", "-c", f"{enter}; exec {PROFILE} -m full -q -o run {probe} 2000 exit 3"])
    assert done.returncode == 3 and quiet(done), done.stderr
    assert ticks(folder / "run/trace") == list(range(2000))


@pytest.mark.parametrize("most", [2, 3, 8, 18, 24])
def test_processes_of_a_control_group(root: Person, folder: Path, probe: Path, most: int) -> None:
    """Too few for LTTng's daemon, for a thread of ours, for the program beside the daemon: the program comes first."""
    with control_group("pids", "pids", pids__max=str(most), v2_pids__max=str(most)) as enter:
        done = root.run(["sh", "-c", f"{enter}; exec {PROFILE} -m full -o run {probe} 10 exit 3"])
    assert done.returncode == 3 and done.stderr.count("\n") == 1, done.stderr
    assert "internal error" not in done.stderr and "without being traced" in done.stderr, done.stderr


@pytest.mark.parametrize("error", ["EPERM", "ENOSYS"])
def test_system_calls_that_are_denied(user: Person, tools: Path, folder: Path, probe: Path, error: str) -> None:
    numbers = NUMBERS.get(os.uname().machine)
    if numbers is None:
        pytest.skip("the numbers of the system calls are not known")
    deny = [str(tools / "deny"), ",".join(map(str, numbers.values())), str(getattr(errno, error))]
    done = user.run([*deny, *OCCA_PROF, "-m", "full", "--sample-stacks", "-o", "run", str(probe), "500", "exit", "3"])
    assert done.returncode == 3 and quiet(done), done.stderr
    assert ticks(folder / "run/trace") == list(range(500))
    assert readable(user.run([*deny, *OCCA_PROF, "report", "run", "--format", "json"]))
