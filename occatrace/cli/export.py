"""`occa_prof export RUN`: the tables of a run for other programs, as Parquet, CSV, JSON or one SQLite file; and the run in the
formats of other tools: OTF2, Hatchet, nsys stats."""

from __future__ import annotations

import argparse
from pathlib import Path

from occatrace.cli.dispatch import complain
from occatrace.cli.report import BadInput
from occatrace.core import progress
from occatrace.run.opening import open_run

FORMATS = ("parquet", "csv", "json", "sqlite", "otf2", "hatchet", "nsys")
OF_TOOLS = FORMATS[4:]  # they have contents of their own


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.description = "Write the tables of a run for other programs: a folder of files, or one SQLite file."
    parser.add_argument("run", metavar="RUN", type=Path, help="read this run folder")
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="parquet",
        help="write this format (default: parquet); otf2: an archive for otf2-print, Vampir and Pipit (pip install"
        " 'occatrace[otf2]'); hatchet: a tree for hatchet.GraphFrame.from_literal; nsys: the CSV files of nsys stats",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        type=Path,
        required=True,
        help="write to this folder, or file for sqlite and hatchet",
    )
    parser.add_argument(
        "--table", metavar="NAME", action="append", default=[], help="write only this table; may be repeated"
    )
    parser.add_argument("--calls", action="store_true", help="include the single calls with their arguments")
    parser.add_argument("--force", action="store_true", help="replace PATH")


def run(args: argparse.Namespace) -> int:
    """Write the tables."""
    from occatrace.views.export import export

    if args.format in OF_TOOLS and (args.table or args.calls):
        raise BadInput(f"--table and --calls are not for {args.format}, which has contents of its own")
    folder = open_run(args.run).path
    target: Path = args.output
    if target.exists():
        if not args.force:
            raise BadInput(f"{target} exists already: choose another place by -o, or add --force to replace it")
        if target.is_dir() and not any((target / known).is_file() for known in ("tables.json", "traces.otf2")):
            raise BadInput(f"{target} is a folder that no export made, so --force does not touch it")
    try:
        with progress.phase("writing the tables"):
            names = export(folder, target, args.format, args.table, calls=args.calls, tell=complain)
    except OSError as error:
        raise BadInput(f"cannot write to {target}: {error.strerror or error}; choose another place by -o") from error
    print(f"{target}" if args.format in OF_TOOLS else f"{len(names)} tables in {target}")
    return 0
