"""`occa_prof ci RUNS… -o site/`: the history of durations over versions, with change points: a page, a badge, JSON."""

from __future__ import annotations

import argparse
import io
from pathlib import Path

from occatrace.cli import choice
from occatrace.cli.compare import KINDS, collect_runs, variants_of
from occatrace.cli.messages import UsageError
from occatrace.core import files, progress


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.description = (
        "Write the history of runs of several versions as a static site: index.html, badge.svg and history.json.\n"
        "Give the runs in the order of versions, the oldest first. A change of level needs two versions on each side."
    )
    parser.add_argument(
        "runs",
        metavar="RUN",
        nargs="+",
        help="show these runs: A, A1,A2,… (repetitions of one version), COMMIT=A (with a name; default: that of the folder)",
    )
    parser.add_argument("-o", "--output", metavar="FOLDER", type=Path, required=True, help="write into this folder")
    parser.add_argument(
        "--only", choices=KINDS, action="append", default=[], help="show only these names; may be repeated"
    )
    choice.add_names(parser)


def run(args: argparse.Namespace) -> int:
    """Write the site. Its files are replaced; nothing else in the folder is touched."""
    from occatrace.render import history as site
    from occatrace.reports.history import RUN, history

    if len(args.runs) < 2:
        raise UsageError("no history: give two or more runs, the oldest first")
    target: Path = args.output
    if target.exists() and not target.is_dir():
        raise UsageError(f"{target} is no folder: choose another place by -o")
    variants = variants_of(args.runs)
    collected, _ = collect_runs(variants, args.names)
    with progress.phase("looking for changes"):
        entries = history(collected)
    if args.only:
        entries = [entry for entry in entries if entry.key == RUN or entry.key[0] in args.only]
    versions = list(variants)
    slower, faster = site.verdict(entries, len(versions))
    pages = {name: io.StringIO() for name in ("index.html", "badge.svg", "history.json")}
    site.page(entries, versions, pages["index.html"])
    site.badge(slower, faster, pages["badge.svg"])
    site.as_json(entries, versions, pages["history.json"])
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, out in pages.items():
            files.replace(target / name, out.getvalue().encode("utf-8", "replace"))
            (target / name).chmod(0o644)  # to be published
    except OSError as error:
        raise UsageError(f"{target}: cannot be written ({error.strerror or error})") from None
    print(
        f"{target / 'index.html'}: {len(entries):,} names in {len(versions)} versions; recently {slower} slower, {faster} faster"
    )
    return 0
