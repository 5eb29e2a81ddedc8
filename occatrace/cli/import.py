"""`occa_prof import FILE`: the recording of another tool as a run."""

from __future__ import annotations

import argparse
from pathlib import Path

from occatrace.core.checked import printable
from occatrace.run.folder import again, near


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """The options."""
    from occatrace.foreign import FORMATS

    parser.description = (
        "Make a run of the recording of another tool, for reports, comparisons, timelines and queries. Formats:\n"
        + "\n".join(f"  {name:8}{about}" for name, about in FORMATS.items())
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="read this recording; it is not changed")
    parser.add_argument(
        "-o", "--output", metavar="RUN", type=Path, help="name the run folder (default: occatrace-FILE-DATE-ID)"
    )
    parser.add_argument("--force", action="store_true", help="replace the run RUN")


def run(args: argparse.Namespace) -> int:
    """Import the file."""
    from occatrace.foreign.importing import import_file

    made = import_file(args.file, args.output, force=args.force)
    place = near(made.path)
    for note in made.info.notes:
        print(f"! {printable(note)}")
    print(f"{place}: {again(place)}")
    return 0
