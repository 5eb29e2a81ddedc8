"""`occa_prof annotate RUN FILE`: a source file with what its lines caused in the margin."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from occatrace.cli.report import add_output, output
from occatrace.errors import RunError
from occatrace.run.folder import run_facts
from occatrace.run.opening import open_run
from occatrace.run.sources import read_source


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.description = (
        "Print a source file with device time, host time in calls, calls and moved bytes of each line in the margin.\n"
        "Lines come from debug information (compile with -g); OCCA kernels are at the line where they begin."
    )
    parser.add_argument("run", metavar="RUN", type=Path, help="read this run folder")
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help="print this source file, named by its path or the end of it (default: list the files)",
    )
    parser.add_argument("--all", action="store_true", help="print all lines, not only those around recorded calls")
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Print the file, or the list of files."""
    from occatrace.store.tables import open_store
    from occatrace.views import annotate

    folder = open_run(args.run).path
    with open_store(folder) as store:
        known = annotate.files(store)
        lacking = annotate.without(store)
    if args.file is None:
        if not known:
            raise RunError(f"no source file of the run is known{lacking}")
        lines = list(annotate.listing(known))
    else:
        path = annotate.find(known, args.file, lacking)
        source, why = read_source([Path(args.file), Path(path)], run_facts(folder))
        if why:
            print(f"occa_prof: {why}", file=sys.stderr)
        lines = list(annotate.annotated(known[path], source, None if args.all else annotate.CONTEXT))
    with output(args.output, args.force) as out:
        out.writelines(f"{line}\n" for line in lines)
    return 0
