"""`occa_prof compare A B [C …]`: runs against each other, name by name."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from occatrace.cli import choice
from occatrace.cli.messages import UsageError
from occatrace.cli.report import FORMATS, add_output, output
from occatrace.core import progress
from occatrace.core.checked import printable
from occatrace.errors import RunError
from occatrace.run.folder import run_facts
from occatrace.run.opening import open_run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from occatrace.reports import Report
    from occatrace.reports.compare import Run

NAMED = 20  # of what became slower
FOR_CI = ("junit", "github")
KINDS = ("kernels", "memory", "ranges", "python", "functions")


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.description = (
        "Compare runs by the names of kernels, memory operations, ranges and functions. The first run is the baseline.\n"
        "Differences within the noise are no differences. Single runs only allow an estimate of the noise, from the\n"
        "differences of the other names; several runs of each, separated by commas, measure it."
    )
    parser.epilog = (
        "examples:\n"
        "  occa_prof compare before after --changed\n"
        "  occa_prof compare before1,before2,before3 after1,after2,after3 --fail-above 5%\n"
        "  occa_prof compare before after --fail-above 5% --format junit -o occa_prof.xml\n"
        "  occa_prof compare Serial=run-1 OpenMP=run-2 OpenCL=run-3 --only kernels --format markdown"
    )
    parser.add_argument(
        "runs",
        metavar="RUN",
        nargs="+",
        help="compare these runs, two or more folders: A, A1,A2,… (repetitions), NAME=A (with a name)",
    )
    parser.add_argument(
        "--only", choices=KINDS, action="append", default=[], help="compare only these names; may be repeated"
    )
    parser.add_argument(
        "--fail-above",
        metavar="PERCENT",
        type=_percent,
        help="exit with 1 if anything became slower by more than this, beyond the noise",
    )
    parser.add_argument("--changed", action="store_true", help="print only what became slower, faster, new or gone")
    parser.add_argument("--all-columns", action="store_true", help="print min, avg, max and first call in tables, too")
    parser.add_argument("--filter-name", metavar="REGEX", help="print only rows whose name matches REGEX (unanchored)")
    choice.add_names(parser)
    parser.add_argument(
        "--format",
        choices=(*FORMATS, *FOR_CI),
        default="table",
        help="print in this format (default: table); junit: XML for CI, with failures; github: annotations of GitHub Actions",
    )
    add_output(parser)


def _percent(text: str) -> float:
    try:
        value = float(text.removesuffix("%").strip()) / 100
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage: write 5% or 5")
    return value


def run(args: argparse.Namespace) -> int:
    """Compare."""
    from occatrace.core.naming import regex
    from occatrace.render import Document, ci, renderer
    from occatrace.reports import Selection
    from occatrace.reports.compare import CHANGES, compare
    from occatrace.store import losses

    if len(args.runs) < 2:
        raise UsageError("no runs to compare: give two or more folders")
    if args.filter_name is not None:
        regex(args.filter_name)
    variants = variants_of(args.runs)
    collected, remarks = collect_runs(variants, args.names)
    with progress.phase("comparing"):
        report, worst = compare(collected, args.only or KINDS)
    for remark in remarks:
        print(f"! {remark}", file=sys.stderr)
    everything = ci.verdicts(report, list(variants))
    report = Selection(name=args.filter_name).apply(report)
    found = ci.verdicts(report, list(variants))
    places = [place for place, column in enumerate(report.columns) if column.name.startswith("verdict")]
    if args.changed:
        rows = [row for row in report.rows if any(row[place].endswith(CHANGES) for place in places)]
        nothing = replace(report.definition, empty="nothing became slower, faster, new or gone beyond the noise")
        report = replace(report, rows=rows, definition=nothing)
    if args.format in ("table", "markdown") and not args.all_columns:
        report = _brief(report, list(variants))
    elif args.format == "html":
        report = _foremost(report)
    if args.format in ("csv", "tsv", *FOR_CI):
        for note in report.notes:
            print(f"! {note}", file=sys.stderr)
    with output(args.output, args.force) as out:
        if args.format in FOR_CI:
            write = ci.junit if args.format == "junit" else ci.github
            write(found, args.fail_above or 0.0, out)
        else:
            document = Document({"program": ["comparison", *args.runs]}, losses.Losses.none(), [report])
            renderer(args.format)(document, out)
    if args.fail_above is not None and worst > args.fail_above:
        slow = ci.slowest(everything, args.fail_above)
        limit = f"{100 * args.fail_above:.3g} %"
        print(f"occa_prof: slower by {100 * worst:.1f} %, more than {limit}", file=sys.stderr)
        for each in slow[:NAMED]:
            print(f"  {printable(each.text)}", file=sys.stderr)
        if len(slow) > NAMED:
            print(f"  {len(slow) - NAMED} more are slower by more than {limit}", file=sys.stderr)
        return 1
    return 0


def variants_of(words: Sequence[str]) -> dict[str, list[Path]]:
    """The folders of each variant, by the name it is called."""
    named: list[tuple[str, list[Path]]] = []
    for word in words:
        label, folders = "", word
        if not Path(word).exists():
            label, _, folders = word.partition("=") if "=" in word else ("", "", word)
        paths = [Path(folders)] if Path(folders).exists() else [Path(p) for p in folders.split(",")]
        opened = [open_run(path).path for path in paths]
        named.append((label or opened[0].name, opened))
    out: dict[str, list[Path]] = {}
    labels = [label for label, _ in named]
    for number, (label, folders_of) in enumerate(named):
        # Folders of one name: letters tell them apart.
        if labels.count(label) > 1:
            label = chr(ord("A") + number) if number < 26 else f"run {number + 1}"
        out[label] = folders_of
    return out


def collect_runs(variants: Mapping[str, Sequence[Path]], names: str) -> tuple[dict[str, list[Run]], list[str]]:
    """What is compared of each run, and what must be said of them."""
    from occatrace.reports.compare import collect, has_occa_kernels
    from occatrace.store.tables import open_store

    facts: dict[Path, Mapping[str, Any]] = {f: run_facts(f) for folders in variants.values() for f in folders}
    occa = True
    for folder in facts:
        with open_store(folder) as store:
            occa = occa and has_occa_kernels(store)
    out: dict[str, list[Run]] = {}
    remarks: list[str] = []
    for label, folders in variants.items():
        for folder in folders:
            with open_store(folder) as store:
                with progress.phase(f"reading {label}"):
                    found = collect(store, KINDS, occa=occa, names=names)
                lost = store.losses(facts[folder])
                remarks += [f"{label}: {line}" for line in lost.lines()]
            if not found.series:
                level = facts[folder].get("mode")
                why = " (recorded with -m tally: counts, no single calls)" if level == "tally" else ""
                raise RunError(f"{folder} has nothing to compare: none of {', '.join(KINDS)} was recorded{why}")
            out.setdefault(label, []).append(found)
    if any(found.captured for runs in out.values() for found in runs):
        remarks.append(
            "not all of each run was recorded: medians per call are compared; counts and sums are of the recorded time, and are"
            " not compared"
        )
    levels = {str(f.get("mode")) for f in facts.values() if f.get("mode")}
    if len(levels) > 1:
        remarks.append(f"recorded at different levels ({', '.join(sorted(levels))}): calls of functions differ")
    return out, remarks


def _foremost(report: Report) -> Report:
    """All columns, first those that tell what became of each name: the others may be beyond the edge of the screen."""
    wanted = ("kind", "name", "med_ns", "verdict", "ratio", "difference_ns", "noise", "total_ns", "calls")

    def order(place: int) -> int:
        name = report.columns[place].name.rstrip("0123456789").removesuffix("_")
        return wanted.index(name) if name in wanted else len(wanted)

    places = sorted(range(len(report.columns)), key=order)
    columns = tuple(report.columns[place] for place in places)
    rows = [tuple(row[place] for place in places) for row in report.rows]
    return replace(report, definition=replace(report.definition, columns=columns), rows=rows)


def _brief(report: Report, labels: Sequence[str]) -> Report:
    """As people write it: a column per variant (medians, and the sums of totals), and a word. Of two runs more than that."""
    places = {column.name: place for place, column in enumerate(report.columns)}
    wanted = [("kind", ""), ("name", "")]
    for number, label in enumerate(labels, 1):
        wanted.append((f"med_ns_{number}", label))
        if number > 1 and len(labels) > 2:
            wanted.append((f"verdict_{number}", f"to {labels[0]}"))
    if len(labels) == 2:
        wanted += [(f"{name}_2", "") for name in ("ratio", "verdict", "noise", "difference_ns")]
        wanted += [(f"{name}_{number}", "") for name in ("calls", "total_ns") for number in (1, 2)]
    else:
        wanted += [(f"total_ns_{number}", "") for number in range(1, len(labels) + 1)]
    columns, picked = [], []
    for name, title in wanted:
        column = report.columns[places[name]]
        # Under names of their own: none of these is left out because other reports can do without it.
        columns.append(replace(column, name=f"of_{name}", title=title) if title else column)
        total = places[name.replace("med", "total")] if name.startswith("med") else places[name]
        picked.append((places[name], total))
    rows = [tuple(row[b] if row[0] == "total" else row[a] for a, b in picked) for row in report.rows]
    return replace(
        report,
        definition=replace(
            report.definition,
            title=f"{report.definition.title} (median per call; of totals: sums)",
            columns=tuple(columns),
        ),
        rows=rows,
    )
