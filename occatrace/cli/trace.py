"""`occa_prof trace RUN`: the calls of a run as text, with every argument, in time order."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from occatrace.cli.report import add_output, output
from occatrace.run.folder import run_facts
from occatrace.run.opening import open_run

_PLACE_WIDTH = 28


def _short(place: str) -> str:
    """The file's name without its folder, cut on the left."""
    from occatrace.core.checked import printable

    name = printable(place.rpartition("/")[2])
    return name if len(name) <= _PLACE_WIDTH else "…" + name[1 - _PLACE_WIDTH :]


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
    from occatrace.views.listing import lines

    folder = open_run(args.run).path
    with open_store(folder) as store, output(args.output, args.force) as out:
        store.functions()
        for line in store.losses(run_facts(folder)).lines():
            print(f"! {line}", file=sys.stderr)
        zero: int | None = 0 if args.absolute else None
        for call in lines(store):
            if zero is None:
                zero = call.start_ns
            at = call.start_ns - zero
            took = "          …" if call.duration_ns is None else f"{call.duration_ns:11}"
            indent = "" if args.no_nesting else "  " * call.depth
            thread = f"{call.pid}:{call.tid}"
            place = f"{_short(call.place):>{_PLACE_WIDTH}}  " if args.lines else ""
            out.write(
                f"{at // 10**9:6}.{at % 10**9:09} {took} ns {thread:>15}  {place}{indent}{printable(call.text)}\n"
            )
        if zero is None:
            why = "recording level tally, or no traced API was used"
            print(f"! no single calls were recorded ({why})", file=sys.stderr)
    return 0
