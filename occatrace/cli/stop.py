"""`occa_prof stop NAME`: ends the session that `occa_prof start NAME` began, and prints its report."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from occatrace.cli import choice
from occatrace.cli.messages import UsageError, complain
from occatrace.cli.shell import print_back
from occatrace.cli.start import control_path, sessions
from occatrace.core import checked, files
from occatrace.run.folder import again, near
from occatrace.run.opening import open_run

STOP_TIMEOUT_S = 120.0


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.usage = 'eval "$(occa_prof stop [OPTIONS] NAME)"'
    parser.description = (
        "End a session of `occa_prof start NAME` and print its summary to standard error. Standard output has lines\n"
        "that restore the environment of the shell."
    )
    parser.add_argument(
        "name",
        metavar="NAME",
        help="end the session of this name; for the folder of a run: end its recording, the program goes on",
    )
    choice.add_summary(parser)


@dataclass(frozen=True)
class Answer:
    """What the process that held the session says at its end."""

    run: str
    state: str
    problems: tuple[str, ...] = ()


def _stopped(name: str) -> Answer:
    control = control_path(name)
    try:
        with files.connect(control) as client:
            client.settimeout(STOP_TIMEOUT_S)
            said = client.recv(1 << 16)
        return checked.made(Answer, json.loads(said or b"{}"))
    except files.ForeignError as error:
        raise UsageError(f"{control} {error.strerror}: there is no session {name} of yours") from None
    except ValueError:
        raise UsageError(f"the process of session {name} ended without an answer: look for its run's folder") from None
    except OSError:
        there = sessions()
        hint = f"; there are: {', '.join(there)}" if there else ""
        raise UsageError(f"there is no session {name}{hint}") from None


def run(args: argparse.Namespace) -> int:
    """Stop, analyse, print."""
    from occatrace.run.control import is_running

    if is_running(Path(args.name)) and not control_path(Path(args.name).name).exists():
        from occatrace.cli import pause

        return pause.turn(Path(args.name), "stop")
    from occatrace.cli.run import check_reports

    check_reports(args.report)
    answer = _stopped(args.name)
    if not sys.stdout.isatty():
        print_back()
    for problem in answer.problems:
        complain(problem)
    folder = Path(answer.run)
    where = near(folder)
    info = open_run(folder).info
    if answer.state != "recorded":
        complain(f"nothing was recorded{': ' + '; '.join(info.notes) if info.notes else ''} ({where})")
        return 0
    if not args.quiet:
        from occatrace.cli.report import print_reports

        print_reports(folder, sys.stderr, args.report)
        complain(f"the run is in {where}; again: {again(where)}")
    return 0
