"""`occa_prof start NAME`: a session around several commands, until `occa_prof stop NAME`. A process of its own holds the
session; the shell gets the environment in which commands are recorded."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import sys
from pathlib import Path

from occatrace.cli import choice, options
from occatrace.cli.messages import UsageError, complain
from occatrace.cli.shell import print_environment
from occatrace.core import files, halfway
from occatrace.run import folder as runs
from occatrace.run import layout
from occatrace.run.control import VARIABLE as SWITCH_VARIABLE
from occatrace.run.control import Switch, is_running
from occatrace.run.nodes import host_name

ANSWER_S = 60.0
_PREFIX = "occatrace_session"


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.usage = 'eval "$(occa_prof start [OPTIONS] NAME)"'
    parser.description = (
        "Record everything that this shell runs, until `occa_prof stop NAME`. Prints lines for the shell:\n"
        'eval "$(occa_prof start NAME)"; ./first; ./second; eval "$(occa_prof stop NAME)"'
    )
    parser.add_argument(
        "name",
        metavar="NAME",
        help="name the session; for the folder of a paused run: same as `occa_prof resume`",
    )
    choice.add_session(parser, "default: occatrace-NAME-DATE-ID)")
    options.add_choosing(parser, ("when", "what", "how much"))


def control_path(name: str) -> Path:
    """Where `stop` finds the process that holds the session."""
    if not name or "/" in name or len(name) > 40:
        raise UsageError(f"{name!r} is no name for a session: a word without /, of at most 40 characters")
    places = (base for base in files.shared_places() if len(str(base)) <= 40 and os.access(base, os.W_OK))
    return next(places, Path("/tmp")) / f"{_PREFIX}-{os.getuid()}-{name}"


def sessions() -> list[str]:
    """Names of the caller's sessions."""
    place = control_path("x").parent
    begin = f"{_PREFIX}-{os.getuid()}-"
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        return sorted(
            entry.name.removeprefix(begin)
            for entry in entries
            if entry.name.startswith(begin) and entry.stat(follow_symlinks=False).st_uid == os.geteuid()
        )
    return []


def run(args: argparse.Namespace) -> int:
    """Start the session and print the environment."""
    if is_running(Path(args.name)):
        from occatrace.cli import resume

        return resume.run(argparse.Namespace(run=Path(args.name)))
    from occatrace.cli.run import new_info
    from occatrace.record import session

    choice.choose_lttng(args)
    args.traced = choice.traced_of(args.trace)
    args.choosing = options.choosing_of(args)
    control = control_path(args.name)
    listener = _listen(control, args.name)
    halfway.add_path(control)
    run_id = layout.new_id()
    info = new_info(args, run_id, program=(args.name,), host=host_name(), choice=args.choosing.values)
    try:
        made = runs.create(args.output or runs.default_folder(args.name, run_id), info, force=args.force, hold=True)
    except BaseException:
        listener.close()
        halfway.remove_path(control)
        raise
    if args.output is None:
        halfway.add_path(made.path)
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        status = 1
        try:
            ours.close()
            os.setsid()
            halfway.forget()
            if os.fork() == 0:
                _hold(args, made, control, listener, theirs)
            status = 0
        finally:
            os._exit(status)
    os.wait()
    theirs.close()
    listener.close()
    ours.settimeout(ANSWER_S)
    try:
        answer = json.loads(ours.recv(1 << 16) or b"{}")
    except (OSError, ValueError):
        answer = {}
    if "home" not in answer:
        halfway.remove_path(made.path)
        raise UsageError(f"no session: {answer.get('error', 'its process does not answer')}. Try `occa_prof doctor`")
    halfway.forget()
    inherited = choice.with_device_time(os.environ, args.device_time)
    environment = args.choosing.environment(
        session.program_environment(
            inherited, args.mode, Path(answer["home"]), args.traced, args.choosing.samples_stacks
        )
    )
    environment["OCCATRACE_SOCKET"] = answer["socket"]
    environment["OCCATRACE_RUN"] = run_id
    if answer.get("switch"):
        environment[SWITCH_VARIABLE] = answer["switch"]
    if answer.get("lttng_home"):
        environment["LTTNG_HOME"] = answer["lttng_home"]
    print_environment(environment)
    if sys.stdout.isatty():
        complain(f'these lines are for the shell: eval "$(occa_prof start {args.name})"')
    complain(f"recording into {runs.near(made.path)} until: occa_prof stop {args.name}")
    return 0


def _listen(control: Path, name: str) -> socket.socket:
    for attempt in range(2):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            listener.bind(str(control))
            control.chmod(0o600)
            listener.listen(4)
            return listener
        except OSError as error:
            listener.close()
            if attempt or not os.path.lexists(control):
                raise UsageError(f"cannot make {control}: {error.strerror}") from None
        _remove_dead(control, name)
    raise AssertionError("not reached")


def _remove_dead(control: Path, name: str) -> None:
    """Make room where a session was killed. Raises a UsageError for one that goes on, and for what is not ours."""
    try:
        files.connect(control).close()
    except files.ForeignError as error:
        raise UsageError(f"{control} {error.strerror}: take another name than {name}") from None
    except OSError:
        control.unlink(missing_ok=True)
        return
    raise UsageError(f"session {name} is there already: occa_prof stop {name}, or take another name")


def _hold(
    args: argparse.Namespace, made: runs.Run, control: Path, listener: socket.socket, teller: socket.socket
) -> None:
    """The process that holds the session until somebody says stop, or asks it to end."""
    from occatrace.cli.recording import describe, note_in
    from occatrace.errors import DaemonError
    from occatrace.record import session

    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    held = session.Session(
        run_id=made.info.id,
        output=made.trace / made.info.host,
        mode=args.mode,
        shm_path=args.shm_path,
        traced=args.traced,
        choosing=args.choosing,
        switch=Switch(made.path, made.info.host, args.choosing.plan),
    )
    client: socket.socket | None = None
    try:
        try:
            held.start()
            if held.switch:
                held.switch.start()
        except (DaemonError, OSError) as error:
            teller.send(json.dumps({"error": str(error)}).encode())
            return
        teller.send(json.dumps(held.for_ranks()).encode())
        teller.close()
        with contextlib.suppress(SystemExit):  # SIGTERM
            while client is None:
                client = files.accept(listener)
        outcome = held.stop()
        problems: list[str] = []
        note_in(
            made,
            problems.append,
            ended=runs.now(),
            session=describe(outcome),
            captures={} if outcome.captures is None else {made.info.host: outcome.captures},
            processes=tuple(dict.fromkeys(p.pid for p in outcome.processes)),
            notes=(*outcome.notes, *([f"not traced: {outcome.problem}"] if outcome.problem else [])),
        )
        if client:
            answer = {"run": str(made.path), "state": outcome.state, "problems": problems}
            client.send(json.dumps(answer).encode())
    finally:
        control.unlink(missing_ok=True)
        held.close()
        if client:
            client.close()
