"""`occa_prof compare A B [C …]`: runs against each other, name by name."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path

from occatrace.cli.report import FORMATS, add_output, output, run_facts
from occatrace.reports import Report
from occatrace.run import open_run

KINDS = ("kernels", "memory", "functions")


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.description = (
        "Compare runs by the names of kernels, memory operations and functions. The first run is what the others are\n"
        "compared with. Differences within the noise, judged from the spread inside each run, are called no difference."
    )
    parser.add_argument("runs", metavar="RUN", nargs="+", type=Path, help="folders of runs, two or more")
    parser.add_argument("--only", choices=KINDS, action="append", default=[], help="only these names, again for more")
    parser.add_argument(
        "--fail-above",
        metavar="PERCENT",
        type=_percent,
        help="exit with 1 when anything became slower by more than this",
    )
    parser.add_argument("--changed", action="store_true", help="leave out what shows no difference")
    parser.add_argument("--all-columns", action="store_true", help="in a table too: min, avg, max and first call")
    parser.add_argument("--format", choices=FORMATS, default="table", help="of the comparison (default: table)")
    add_output(parser)


def _percent(text: str) -> float:
    return float(text.removesuffix("%").strip()) / 100


def run(args: argparse.Namespace) -> int:
    """Compare."""
    from occatrace import losses
    from occatrace.cli.dispatch import UsageError
    from occatrace.compare import collect, compare
    from occatrace.render import Document, renderer
    from occatrace.tables import open_store

    if len(args.runs) < 2:
        raise UsageError("compare which runs? give two or more folders")
    folders = [open_run(path).path for path in args.runs]
    kinds = args.only or KINDS
    found = {}
    for number, folder in enumerate(folders):
        label = folder.name if [f.name for f in folders].count(folder.name) == 1 else chr(ord("A") + number % 26)
        with open_store(folder) as store:
            found[label if label not in found else f"{label} {number + 1}"] = collect(store, kinds)
            for line in losses.read(store.con, store.problems, run_facts(folder)).lines():
                print(f"! {label}: {line}", file=sys.stderr)
    report, worst = compare(found)
    places = [place for place, column in enumerate(report.columns) if column.name.startswith("verdict")]
    if args.changed:
        rows = [row for row in report.rows if any(row[place] != "no difference" for place in places)]
        report = dataclasses.replace(report, rows=rows)
    if args.format in ("table", "markdown") and not args.all_columns:
        report = _brief(report)
    with output(args.output, args.force) as out:
        document = Document({"program": ["comparison", *map(str, folders)]}, losses.Losses.none(), [report])
        renderer(args.format)(document, out)
    if args.fail_above is not None and worst > args.fail_above:
        print(f"occa_prof: slower by {100 * worst:.1f} %, more than {100 * args.fail_above:.3g} %", file=sys.stderr)
        return 1
    return 0


def _brief(report: Report) -> Report:
    """Only the columns that a verdict needs."""
    kept = [p for p, c in enumerate(report.columns) if not c.name.startswith(("min_", "avg_", "max_", "first_"))]
    definition = dataclasses.replace(report.definition, columns=tuple(report.columns[p] for p in kept))
    return dataclasses.replace(report, definition=definition, rows=[tuple(row[p] for p in kept) for row in report.rows])
