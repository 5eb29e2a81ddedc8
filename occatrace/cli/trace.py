"""`occa_prof trace RUN`: the calls of a run as text, with every argument, in time order."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from occatrace.cli.report import BadInput, check_run, fail, output, run_facts


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.description = "Print the recorded calls of a run, one per line: time, duration, process:thread, the call."
    parser.add_argument("run", metavar="RUN", type=Path, help="folder of a run")
    parser.add_argument("--absolute", action="store_true", help="times of CLOCK_MONOTONIC, not since the first call")
    parser.add_argument("--no-nesting", action="store_true", help="do not indent calls that were made within others")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="write to FILE, not to the standard output")
    parser.add_argument("--force", action="store_true", help="overwrite FILE")


def run(args: argparse.Namespace) -> int:
    """Print the calls."""
    from occatrace import losses
    from occatrace.listing import lines
    from occatrace.render.text import printable
    from occatrace.tables import StoreError, open_store

    try:
        folder = check_run(args.run)
        with open_store(folder) as store, output(args.output, args.force) as out:
            for line in losses.read(store.con, store.problems, run_facts(folder)).lines():
                print(f"! {line}", file=sys.stderr)
            zero: int | None = 0 if args.absolute else None
            for call in lines(store):
                if zero is None:
                    zero = call.start_ns
                at = call.start_ns - zero
                took = "          …" if call.duration_ns is None else f"{call.duration_ns:11}"
                indent = "" if args.no_nesting else "  " * call.depth
                thread = f"{call.pid}:{call.tid}"
                out.write(f"{at // 10**9:6}.{at % 10**9:09} {took} ns {thread:>15}  {indent}{printable(call.text)}\n")
            if zero is None:
                print(
                    "! no single calls were recorded (recording level tally, or no traced API was used)",
                    file=sys.stderr,
                )
    except (BadInput, StoreError) as error:
        return fail(str(error))
    return 0
