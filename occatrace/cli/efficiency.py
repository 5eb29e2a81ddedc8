"""`occa_prof efficiency RUN`: the factors of parallel efficiency; `--scale`: of several runs side by side."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from occatrace.cli.report import BadInput, add_output, output, print_reports, render
from occatrace.run.folder import run_facts
from occatrace.run.opening import open_run

if TYPE_CHECKING:
    from occatrace.reports import Report
    from occatrace.reports.efficiency import Sums

FORMATS = ("table", "csv", "tsv", "json", "markdown")
EPILOG = """\
The parallel efficiency is the product of its factors; the lowest one is where to look.
--scale compares runs of the same program with different numbers of ranks; the first one is the reference:
  occa_prof efficiency --scale RUN2 RUN4 RUN8
Definitions: occa_prof help waits.
"""


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.description = "Print the parallel efficiency of a run and its factors (POP, TALP), or those of several runs."
    parser.epilog = EPILOG
    parser.add_argument("run", metavar="RUN", type=Path, nargs="?", help="read this run folder")
    parser.add_argument(
        "--scale",
        metavar="RUN",
        type=Path,
        nargs="+",
        default=[],
        help="print a column per run; the first one is the reference",
    )
    parser.add_argument("--format", choices=FORMATS, default="table", help="print in this format (default: table)")
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Print the factors."""
    folders = [open_run(path).path for path in ([args.run] if args.run else []) + args.scale]
    if not folders:
        raise BadInput("no run given: occa_prof efficiency RUN, or --scale RUN2 RUN4 RUN8")
    if not args.scale:
        with output(args.output, args.force) as out:
            print_reports(folders[0], out, ["efficiency"], args.format)
        return 0
    from occatrace.render import Document
    from occatrace.reports import efficiency
    from occatrace.store.losses import Losses
    from occatrace.store.tables import open_store

    found: list[tuple[str, Sums]] = []
    notes = []
    for folder in folders:
        with open_store(folder) as store:
            sums = efficiency.of_run(store)
            if not sums.time:
                raise BadInput(f"{folder}: nothing was recorded, so there is no efficiency")
            found.append((f"{folder.name}, {sums.count['time']} rank{'s' * (sums.count['time'] != 1)}", sums))
            notes += [f"{folder.name}: {line}" for line in efficiency.notes(store, efficiency.NAME)]
    with output(args.output, args.force) as out:
        render(Document(run_facts(folders[0]), Losses.none(), [_report(found, notes)]), out, args.format)
    return 0


def _report(found: list[tuple[str, Sums]], notes: list[str]) -> Report:
    from occatrace import reports
    from occatrace.reports import efficiency

    columns = [
        *(reports.Column(f"run_{number}", "percent", title, "") for number, (title, _) in enumerate(found, 1)),
        reports.Column("name", "text", "Factor", ""),
    ]
    rows = [(*values, name) for name, values in efficiency.scaling(found)]
    title, about = "Efficiency by scale", "the factors of several runs; the first one is the reference"
    entry = reports.Definition("efficiency_scale", title, about, "", None, False, tuple(columns), "")
    return reports.Report(entry, rows, notes)
