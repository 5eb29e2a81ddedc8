"""`occa_prof trace RUN`: the calls of a run as text, with every argument, in time order."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from occatrace.cli.report import add_output, output
from occatrace.run.folder import run_facts
from occatrace.run.opening import open_run

_PLACE_WIDTH = 28


def _placed(place: str) -> str:
    """The file's name without its folder, cut on the left, in a column of one width."""
    from occatrace.core.checked import printable

    name = printable(place.rpartition("/")[2])
    return f"{name if len(name) <= _PLACE_WIDTH else '…' + name[1 - _PLACE_WIDTH :]:>{_PLACE_WIDTH}}"


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.description = (
        "Print the recorded calls and ranges of a run, one per line: time, duration, process:thread, the call."
    )
    parser.add_argument("run", metavar="RUN", type=Path, help="read this run folder")
    parser.add_argument(
        "--absolute", action="store_true", help="print times of CLOCK_MONOTONIC, not since the first call"
    )
    parser.add_argument(
        "--lines",
        action="store_true",
        help="print before each call the line of the program that made it, or the call around it",
    )
    parser.add_argument("--no-nesting", action="store_true", help="do not indent calls that were made within others")
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Print the calls."""
    from occatrace.core.checked import printable
    from occatrace.store.tables import open_store
    from occatrace.views.listing import text

    folder = open_run(args.run).path
    with open_store(folder) as store, output(args.output, args.force) as out:
        store.functions()
        for line in store.losses(run_facts(folder)).lines():
            print(f"! {line}", file=sys.stderr)
        zero = 0 if args.absolute else None
        nothing = True
        for some in text(store, zero, not args.no_nesting, _placed if args.lines else None, printable):
            nothing = False
            out.write(some)
        if nothing:
            why = "recording level tally, or no traced API was used"
            print(f"! no single calls were recorded ({why})", file=sys.stderr)
    return 0
