"""`occa_prof pause RUN`: pauses recording until `occa_prof resume RUN`; the program goes on."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from occatrace.cli.messages import UsageError, complain
from occatrace.errors import SwitchError
from occatrace.run import control
from occatrace.run.nodes import host_name

_DONE = {
    "pause": "paused",
    "resume": "recording",
    "stop": "recording has ended; the report comes when the program ends",
}


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.description = (
        "Pause the recording of a running program, on all nodes, until `occa_prof resume RUN`. Open calls are recorded to\n"
        "their end, and so is the device work of recorded launches."
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="pause this run folder (of `occa_prof -o RUN PROGRAM`)")


def run(args: argparse.Namespace) -> int:
    """Pause."""
    return turn(args.run, "pause")


def turn(run: Path, what: str) -> int:
    """Turn the switch of a run."""
    try:
        others = control.command(run, what, host_name())
    except SwitchError as error:
        raise UsageError(str(error)) from None
    later = f" (within a second or two on {', '.join(others)})" if others else ""
    complain(f"{os.path.relpath(run)}: {_DONE[what]}{later}")
    return 0
