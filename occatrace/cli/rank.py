"""A rank's side of `mpirun -n 8 occa_prof PROGRAM`: find the node's process, run the program, say how it ended. The
last rank of a node waits for the report, all others leave at once, so that a launcher sees them end as ever."""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from occatrace.cli import choice, program
from occatrace.cli.messages import complain
from occatrace.record import job
from occatrace.run.control import VARIABLE as SWITCH_VARIABLE
from occatrace.run.folder import again, near
from occatrace.run.ranks import JOB_VARIABLE, Place

REPORT_TIMEOUT_S = 600.0


def run(args: argparse.Namespace, path: Path, place: Place) -> int:
    """Run this rank; returns its status, or ends by its signal."""
    with program.SignalGuard.block() as guard:
        return _run(args, path, place, guard)


def _run(args: argparse.Namespace, path: Path, place: Place, guard: program.SignalGuard) -> int:
    key = job.key_of(place)
    try:
        desk = job.find_desk(key)
    except job.JobError as error:
        return _untraced(args, path, guard, str(error), place)
    if desk.listener is not None:
        _start_node(args, desk, key, place)
    desk.send(
        rank=place.rank,
        size=place.size,
        local_size=place.local_size,
        pid=os.getpid(),
    )
    answer = desk.hear(job.ANSWER_S)
    if answer is None:
        return _untraced(args, path, guard, "the process that records this node does not answer", place)
    if "error" in answer:
        guard.restore()
        if answer.get("first"):
            complain(answer["error"])
        return 2
    if "untraced" in answer:
        return _untraced(args, path, guard, answer["untraced"] if answer.get("first") else None, place)
    try:
        pid = program.spawn(path, args.program, _environment(args, answer), guard)
    except program.ProgramError as error:
        complain(str(error))
        desk.send(ended=error.status)
        return error.status
    desk.send(program=pid)
    status = program.wait(pid, lambda number: desk.send(heard=int(number)))
    desk.send(ended=status)
    guard.restore()
    farewell = desk.hear(job.ANSWER_S)
    if farewell is None and job.clear_lost_desk(desk.folder):
        complain(
            f"the process that recorded this node was killed: no report. The trace so far: {again(near(Path(answer['folder'])))}"
        )
    if farewell and farewell.get("last"):
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with contextlib.suppress(KeyboardInterrupt):
            _print_report(desk)
    desk.close()
    return end_like(status)


def end_like(status: int) -> int:
    """A launcher is to see a rank end as its program did: by the same signal."""
    if status <= 128 or status - 128 not in {int(s) for s in signal.Signals}:
        return status
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    number = status - 128
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the program's core is the one that matters
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    return status


def leave_untraced(path: Path, words: Sequence[str]) -> int:
    """A rank that is not wanted: it becomes the program."""
    for number in (*program.IGNORED_BY_PYTHON, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execv(path, list(words))
    except OSError as error:
        if program.is_script(path, error):
            os.execv("/bin/sh", ["/bin/sh", os.fspath(path), *words[1:]])
        raise program.ProgramError(f"{path}: {error.strerror}", program.NOT_EXECUTABLE) from None


def _environment(args: argparse.Namespace, answer: dict[str, str]) -> dict[str, str]:
    from occatrace.record.session import program_environment

    inherited = choice.with_device_time(os.environ, args.device_time)
    environment: dict[str, str] = args.choosing.environment(
        program_environment(inherited, args.mode, Path(answer["home"]), args.traced, args.choosing.samples_stacks)
    )
    if answer.get("switch"):
        environment[SWITCH_VARIABLE] = answer["switch"]
    environment["OCCATRACE_SOCKET"] = answer["socket"]
    environment["OCCATRACE_RUN"] = answer["run"]
    environment[JOB_VARIABLE] = answer["job"]
    if answer.get("lttng_home"):
        environment["LTTNG_HOME"] = answer["lttng_home"]
    return environment


def _untraced(args: argparse.Namespace, path: Path, guard: program.SignalGuard, why: str | None, place: Place) -> int:
    if why:
        complain(f"rank {place.rank} runs without being traced: {why}. `occa_prof doctor` says what to do")
    try:
        status = program.wait(program.spawn(path, args.program, dict(os.environ), guard))
    except program.ProgramError as error:
        complain(str(error))
        return error.status
    guard.restore()
    return end_like(status)


def _print_report(desk: job.Desk) -> None:
    """Whatever the node's process has to say, until it closes."""
    while message := desk.hear(REPORT_TIMEOUT_S):
        if "text" in message and sys.stderr is not None:
            with contextlib.suppress(OSError):
                sys.stderr.write(message["text"])
                sys.stderr.flush()


def _start_node(args: argparse.Namespace, desk: job.Desk, key: str, place: Place) -> None:
    """The node's process: neither our child nor of our process group, because it outlives us and what the launcher does
    to us. Nothing of the launcher's may stay open in it."""
    launcher = os.getppid()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        assert desk.listener
        desk.listener.close()
        desk.listener = None
        return
    status = 1
    try:
        os.setsid()
        if os.fork() == 0:
            from occatrace.cli import node

            node.main(args, desk, key, place, launcher)
        status = 0
    finally:
        os._exit(status)
