"""`occa_prof report RUN`: prints reports of a run, and the summary that ends every run."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from occatrace.cli.dispatch import UsageError

HELP = "print reports of a run"


class BadInput(UsageError):
    """What the user gave cannot be used; the message is one line that says what to do."""


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument("run", metavar="RUN", nargs="?", type=Path, help="folder of a run")
    parser.add_argument(
        "--report",
        metavar="NAME",
        action="append",
        default=[],
        help="report to print (again for more; default: the summary)",
    )
    parser.add_argument("--list", action="store_true", help="list the reports")
    parser.add_argument(
        "--format", choices=("table", "csv", "json"), default="table", help="how to print them (default: %(default)s)"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="write to FILE instead of the standard output"
    )
    parser.add_argument("--force", action="store_true", help="overwrite FILE")


def run(args: argparse.Namespace) -> int:
    """Print what was asked for."""
    from occatrace import reports

    if args.list:
        width = max(map(len, reports.definitions()))
        for name, entry in reports.definitions().items():
            print(f"{name:{width}}  {entry.title}: {entry.about}")
        return 0
    try:
        if args.run is None:
            raise BadInput("which run? occa_prof report RUN (occa_prof report --list tells the reports)")
        for name in args.report:
            reports.definition(name)
        folder = check_run(args.run)
        with output(args.output, args.force) as out:
            print_reports(folder, out, args.report, args.format)
    except BadInput as error:
        return fail(str(error))
    except reports.UnknownReport as error:
        return fail(str(error))
    return 0


def print_reports(run: Path, out: TextIO, names: Sequence[str] = (), fmt: str = "table") -> None:
    """Write the given reports of a run, or its summary. Raises BadInput where the run cannot be read."""
    from occatrace import losses, reports
    from occatrace.render import Document, renderer
    from occatrace.tables import StoreError, open_store

    try:
        with open_store(run) as store:
            made = [reports.make(store.con, name) for name in names] if names else reports.summary(store.con)
            facts = run_facts(run)
            document = Document(facts, losses.read(store.con, store.problems, facts), made)
            if fmt == "csv":
                for line in document.losses.lines():
                    print(f"! {line}", file=sys.stderr)
            renderer(fmt)(document, out)
            if fmt == "table" and not made:
                out.write(
                    "nothing was recorded: no traced API was used, or the program was not reached (occa_prof doctor)\n"
                )
    except StoreError as error:
        raise BadInput(str(error)) from error


def run_facts(run: Path) -> Mapping[str, Any]:
    """The content of run.json."""
    try:
        facts: Mapping[str, Any] = json.loads((run / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return facts


def check_run(run: Path) -> Path:
    """The folder, if it is one of a run."""
    if not run.exists():
        raise BadInput(f"{run}: no such folder")
    if not run.is_dir() or not ((run / "run.json").is_file() or (run / "tables").is_dir()):
        raise BadInput(f"{run}: not the folder of a run (it has no run.json)")
    return run


@contextmanager
def output(path: Path | None, force: bool) -> Iterator[TextIO]:
    """The standard output, or a file that is not overwritten unasked."""
    if path is None:
        yield sys.stdout
        return
    if path.exists() and not force:
        raise BadInput(f"{path}: exists already (--force overwrites it)")
    try:
        file = path.open("w", encoding="utf-8", newline="")
    except OSError as error:
        raise BadInput(f"{path}: cannot be written ({error.strerror})") from error
    with file:
        yield file


def fail(message: str) -> int:
    """Say what is wrong; the exit status of bad input."""
    print(f"occa_prof: {message}", file=sys.stderr)
    return 2
