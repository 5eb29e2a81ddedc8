"""`occa_prof report RUN`: prints reports of a run, and the summary that ends every run."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from occatrace.run import RunError, open_run

FORMATS = ("table", "csv", "tsv", "json", "markdown", "html")


class BadInput(RunError):
    """What the user gave cannot be used; the message is one line that says what to do."""


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.description = "Print reports of a run. Percentages say of what they are; times and sizes have their units."
    parser.add_argument("run", metavar="RUN", nargs="?", type=Path, help="folder of a run")
    parser.add_argument(
        "--report", metavar="NAME", action="append", default=[], help="a report, again for more (default: the summary)"
    )
    parser.add_argument("--list", action="store_true", help="list the reports")
    parser.add_argument("--format", choices=FORMATS, default="table", help="how to print them (default: table)")
    choose = parser.add_argument_group("which rows")
    choose.add_argument("--rows", metavar="N", type=int, help="only the first N rows of each report")
    choose.add_argument("--sort", metavar="COLUMN", help="sort by this column, the largest first")
    choose.add_argument("--filter-name", metavar="REGEX", help="only rows whose name this is found in")
    add_output(parser)


def add_output(parser: argparse.ArgumentParser) -> None:
    """-o FILE, for all commands that print."""
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="write to FILE, not to the standard output")
    parser.add_argument("--force", action="store_true", help="overwrite FILE")


def run(args: argparse.Namespace) -> int:
    """Print what was asked for."""
    from occatrace import reports

    if args.list:
        width = max(map(len, reports.definitions()))
        for name, entry in reports.definitions().items():
            print(f"{name:{width}}  {entry.title}: {entry.about}")
        return 0
    if args.run is None:
        raise BadInput("which run? occa_prof report RUN (occa_prof report --list tells the reports)")
    for name in args.report:
        reports.definition(name)
    selection = reports.Selection(args.rows, args.sort, args.filter_name)
    folder = open_run(args.run).path
    with output(args.output, args.force) as out:
        print_reports(folder, out, args.report, args.format, selection)
    return 0


def print_reports(run: Path, out: TextIO, names: Sequence[str] = (), fmt: str = "table", selection: Any = None) -> None:
    """Write the given reports of a run, or its summary. Raises a RunError where the run cannot be read."""
    from occatrace import losses, reports
    from occatrace.render import Document, renderer
    from occatrace.tables import open_store

    with open_store(run) as store:
        made = [reports.make(store, name) for name in names] if names else reports.summary(store)
        if selection:
            made = [selection.apply(report) for report in made]
        facts = run_facts(run)
        if fmt == "html" and not names:
            from occatrace import page

            renderer(fmt)(page.collect(store, facts), out)
            return
        document = Document(facts, losses.read(store.con, store.problems, facts), made)
        if fmt in ("csv", "tsv"):
            for line in document.losses.lines():
                print(f"! {line}", file=sys.stderr)
        renderer(fmt)(document, out)
        if fmt == "table" and not made:
            out.write(
                "nothing was recorded: no traced API was used, or the program was not reached (occa_prof doctor)\n"
            )


def run_facts(run: Path) -> Mapping[str, Any]:
    """The content of run.json."""
    try:
        facts: Mapping[str, Any] = json.loads((run / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return facts


@contextmanager
def output(path: Path | None, force: bool) -> Iterator[TextIO]:
    """The standard output, or a file that is not overwritten unasked."""
    if path is None:
        yield sys.stdout
        return
    if path.exists() and not force:
        raise BadInput(f"{path} exists already: choose another file by -o, or add --force to replace it")
    try:
        file = path.open("w", encoding="utf-8", newline="")
    except OSError as error:
        raise BadInput(f"cannot write to {path}: {error.strerror}; choose another file by -o") from error
    with file:
        yield file
