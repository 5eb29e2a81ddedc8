"""`occa_prof resume RUN`: recording goes on, after `occa_prof pause RUN` or --start-paused."""

from __future__ import annotations

import argparse
from pathlib import Path

from occatrace.cli.pause import turn


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.description = "Resume the recording of a run that was paused, or started with --start-paused."
    parser.add_argument("run", type=Path, metavar="RUN", help="resume this run folder (of `occa_prof -o RUN PROGRAM`)")


def run(args: argparse.Namespace) -> int:
    """Resume."""
    return turn(args.run, "resume")
