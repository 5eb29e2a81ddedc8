"""`occa_prof export RUN`: the tables of a run for other programs, as Parquet, CSV, JSON or one SQLite file."""

from __future__ import annotations

import argparse
from pathlib import Path

from occatrace.cli.dispatch import complain
from occatrace.cli.report import BadInput
from occatrace.core import progress
from occatrace.run.opening import open_run

FORMATS = ("parquet", "csv", "json", "sqlite")


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.description = "Write the tables of a run for other programs: a folder of files, or one SQLite file."
    parser.add_argument("run", metavar="RUN", type=Path, help="read this run folder")
    parser.add_argument("--format", choices=FORMATS, default="parquet", help="write this format (default: parquet)")
    parser.add_argument(
        "-o", "--output", metavar="PATH", type=Path, required=True, help="write to this folder, or file for sqlite"
    )
    parser.add_argument(
        "--table", metavar="NAME", action="append", default=[], help="write only this table; may be repeated"
    )
    parser.add_argument("--calls", action="store_true", help="include the single calls with their arguments")
    parser.add_argument("--force", action="store_true", help="replace PATH")


def run(args: argparse.Namespace) -> int:
    """Write the tables."""
    from occatrace.views.export import export

    folder = open_run(args.run).path
    target: Path = args.output
    if target.exists():
        if not args.force:
            raise BadInput(f"{target} exists already: choose another place by -o, or add --force to replace it")
        if target.is_dir() and not (target / "tables.json").is_file():
            raise BadInput(f"{target} is a folder that no export made, so --force does not touch it")
    try:
        with progress.phase("writing the tables"):
            names = export(folder, target, args.format, args.table, calls=args.calls, tell=complain)
    except OSError as error:
        raise BadInput(f"cannot write to {target}: {error.strerror or error}; choose another place by -o") from error
    print(f"{len(names)} tables in {target}")
    return 0
