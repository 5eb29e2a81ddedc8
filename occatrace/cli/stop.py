"""`occa_prof stop NAME`: ends the session that `occa_prof start NAME` began, and prints its report."""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
from pathlib import Path

from occatrace.cli.dispatch import UsageError, complain
from occatrace.cli.start import control_path
from occatrace.run import again, near, open_run

STOP_TIMEOUT_S = 120.0
# What `start` adds to lists that the user may have had before.
LISTS = {"LD_PRELOAD": "liboccatrace", "OPENCL_LAYERS": "liboccatrace"}
OURS = (
    "OCCATRACE_SOCKET",
    "OCCATRACE_RUN",
    "OCCATRACE_MODE",
    "OCCATRACE_TRACE",
    "OCCATRACE_DEVICE_TIME",
    "LTTNG_HOME",
    "LTTNG_UST_REGISTER_TIMEOUT",
)


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.usage = 'eval "$(occa_prof stop [OPTIONS] NAME)"'
    parser.description = (
        "End a session of `occa_prof start NAME` and print its summary to standard error. What it prints to\n"
        "standard output gives the shell its environment back."
    )
    parser.add_argument(
        "name",
        metavar="NAME",
        help="name of the session; or the folder of a run: its program goes on, nothing more of it is recorded",
    )
    parser.add_argument("--report", action="append", metavar="NAME", default=[], help="this report, not the summary")
    parser.add_argument("-q", "--quiet", action="store_true", help="no summary")


def run(args: argparse.Namespace) -> int:
    """Stop, analyse, print."""
    from occatrace.switch import is_running

    if is_running(Path(args.name)) and not control_path(Path(args.name).name).exists():
        from occatrace.cli import pause

        return pause.turn(Path(args.name), "stop")
    from occatrace.cli.run import check_reports

    check_reports(args.report)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.settimeout(STOP_TIMEOUT_S)
        try:
            client.connect(str(control_path(args.name)))
            answer = json.loads(client.recv(1 << 16) or b"{}")
        except OSError:
            there = sorted(p.name.split("-", 2)[2] for p in control_path("x").parent.glob(control_path("*").name))
            hint = f"; there are: {', '.join(there)}" if there else ""
            raise UsageError(f"there is no session {args.name}{hint}") from None
    if not sys.stdout.isatty():
        print_back()
    folder = Path(answer["run"])
    where = near(folder)
    info = open_run(folder).info
    if answer.get("state") != "recorded":
        complain(f"nothing was recorded{': ' + '; '.join(info.notes) if info.notes else ''} ({where})")
        return 0
    if not args.quiet:
        from occatrace.cli.report import print_reports

        print_reports(folder, sys.stderr, args.report)
        complain(f"the run is in {where}; again: {again(where)}")
    return 0


def print_back() -> None:
    """Lines for the shell that take back what `start` gave it."""
    import shlex

    for name in OURS:
        if name in os.environ:
            print(f"unset {name};")
    for name, mark in LISTS.items():
        before = [word for word in os.environ.get(name, "").split(":") if word and mark not in os.path.basename(word)]
        if name in os.environ:
            print(f"export {name}={shlex.quote(':'.join(before))};" if before else f"unset {name};")
