"""`occa_prof annotate RUN FILE`: a source file with what its lines caused in the margin."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from occatrace.cli.report import add_output, output
from occatrace.core import files
from occatrace.core.checked import printable
from occatrace.run.folder import moment, run_facts
from occatrace.run.opening import open_run

LARGEST = 64 << 20  # bytes of a source file


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.description = (
        "Print a source file with device time, host time in calls, calls and moved bytes of each line in the margin.\n"
        "Lines come from debug information (compile with -g); OCCA kernels are at the line where they begin."
    )
    parser.add_argument("run", metavar="RUN", type=Path, help="read this run folder")
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help="print this source file, named by its path or the end of it (default: list the files)",
    )
    parser.add_argument("--all", action="store_true", help="print all lines, not only those around recorded calls")
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Print the file, or the list of files."""
    from occatrace.store.tables import open_store
    from occatrace.views import annotate

    folder = open_run(args.run).path
    with open_store(folder) as store:
        known = annotate.files(store)
    if args.file is None:
        lines = list(annotate.listing(known))
    else:
        path = annotate.find(known, args.file)
        source, why = read_source([Path(args.file), Path(path)], run_facts(folder))
        if why:
            print(f"occa_prof: {why}", file=sys.stderr)
        lines = list(annotate.annotated(known[path], source, None if args.all else annotate.CONTEXT))
    with output(args.output, args.force) as out:
        out.writelines(f"{line}\n" for line in lines)
    return 0


def read_source(paths: list[Path], facts: Mapping[str, Any]) -> tuple[list[str] | None, str]:
    """The text of the first of the files that can be read, and what a reader should know of it."""
    for path in paths:
        try:
            # The path comes with the run, which may be a stranger's: what is no file is not read.
            text = files.read_file(path, LARGEST).decode("utf-8", "replace")
            changed = path.stat().st_mtime > (moment(str(facts.get("started"))) or math.inf) + 1
        except OSError:
            continue
        return (
            text.splitlines(),
            f"{printable(str(path))} was changed after the run: lines may not fit" if changed else "",
        )
    return None, f"{printable(str(paths[-1]))} cannot be read here: the lines without their text"
