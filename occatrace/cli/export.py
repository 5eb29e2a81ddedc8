"""`occa_prof export RUN`: the tables of a run for other programs, as Parquet, CSV, JSON or one SQLite file; and the run in the
formats of other tools."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

from occatrace.cli import standard
from occatrace.cli.messages import complain
from occatrace.cli.report import BadInput
from occatrace.core import progress
from occatrace.run.opening import open_run

FORMATS = ("parquet", "csv", "json", "sqlite", "otf2", "hatchet", "nsys", "rocpd", "extrap")
ON_STANDARD_OUTPUT = ("hatchet", "extrap")  # one file of text
OF_TOOLS = FORMATS[4:]  # they have contents of their own


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.description = "Write the tables of a run for other programs: a folder of files, or one SQLite file."
    parser.add_argument("run", metavar="RUN", type=Path, nargs="+", help="read this run folder; extrap: these folders")
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="parquet",
        help="write this format (default: parquet); otf2: an archive for otf2-print, Vampir and Pipit (pip install"
        " 'occatrace[otf2]'); hatchet: a tree for hatchet.GraphFrame.from_literal; nsys: the CSV files of nsys stats;"
        " rocpd: the SQLite tables of rocprofv3; extrap: JSON lines for Extra-P",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        type=Path,
        required=True,
        help="write to this folder, or file for sqlite, hatchet, rocpd and extrap; -: standard output, for hatchet and extrap",
    )
    parser.add_argument(
        "--table", metavar="NAME", action="append", default=[], help="write only this table; may be repeated"
    )
    parser.add_argument("--calls", action="store_true", help="include the single calls with their arguments")
    parser.add_argument(
        "--parameter",
        metavar="NAME=NUMBER,…",
        action="append",
        default=[],
        type=_parameter,
        help="set what each run was made with, for extrap (default: processes=number of its ranks); may be repeated",
    )
    parser.add_argument("--force", action="store_true", help="replace PATH")


def _parameter(text: str) -> tuple[str, list[float]]:
    name, _, values = text.partition("=")
    try:
        numbers = [float(value) for value in values.split(",")]
    except ValueError:
        numbers = []
    if not name or not numbers or not all(map(math.isfinite, numbers)):
        raise argparse.ArgumentTypeError(f"invalid NAME=NUMBER,…: {text!r}; for instance n=1000,2000 for two runs")
    return name, [int(number) if number == int(number) else number for number in numbers]


def run(args: argparse.Namespace) -> int:
    """Write the tables."""
    if args.format in OF_TOOLS and (args.table or args.calls):
        raise BadInput(f"--table and --calls are not for {args.format}, which has contents of its own")
    if args.parameter and args.format != "extrap":
        raise BadInput("--parameter is for --format extrap")
    folders = [open_run(path).path for path in args.run]
    if len(folders) > 1 and args.format != "extrap":
        raise BadInput(f"{args.format} is made of one run, not of {len(folders)}")
    for name, values in args.parameter:
        if len(values) != len(folders):
            raise BadInput(f"--parameter {name} has {len(values)} values for {len(folders)} runs: give one for each")
    target: Path = args.output
    if standard.is_standard(target):
        if args.format not in ON_STANDARD_OUTPUT:
            raise BadInput(
                f"-o -: {args.format} needs a place on a disk; {' and '.join(ON_STANDARD_OUTPUT)} can be piped"
            )
        with standard.through_file(f"run.{args.format}") as path:
            _write(args, folders, path)
        return 0
    if target.exists():
        if not args.force:
            raise BadInput(f"{target} exists already: choose another place by -o, or add --force to replace it")
        if target.is_dir() and not any((target / known).is_file() for known in ("tables.json", "traces.otf2")):
            raise BadInput(f"{target} is a folder that no export made, so --force does not touch it")
    names = _write(args, folders, target)
    print(f"{target}" if args.format in OF_TOOLS else f"{len(names)} tables in {target}")
    return 0


def _write(args: argparse.Namespace, folders: Sequence[Path], target: Path) -> Sequence[str]:
    """Write to a place; the names of the tables."""
    from occatrace.views.export import export, export_scaling

    try:
        with progress.phase("writing the tables"):
            if args.format == "extrap":
                made = [{name: values[at] for name, values in args.parameter} for at in range(len(folders))]
                export_scaling(list(zip(folders, made, strict=True)), target, complain)
                return ()
            return export(folders[0], target, args.format, args.table, calls=args.calls, tell=complain)
    except OSError as error:
        raise BadInput(f"cannot write to {target}: {error.strerror or error}; choose another place by -o") from error
