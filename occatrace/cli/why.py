"""`occa_prof why RUN`: the critical path of a run, and what a change would gain."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from occatrace.cli.report import BadInput, add_output, output, render
from occatrace.core import progress
from occatrace.core.units import duration
from occatrace.run.folder import run_facts
from occatrace.run.opening import open_run

if TYPE_CHECKING:
    from occatrace.reports import Report
    from occatrace.reports.critical import Answer

ROWS = 25  # of the table for people, unless --all

EPILOG = """\
The critical path is the longest chain of work without waits from the start of the run to its end: over host threads, launches,
queues and streams, OpenMP teams, MPI messages and collectives. Only what is on it can make the run shorter.

--what-if computes the run time with changed durations, and the critical path of that run:
  kernel:dotProduct*0.5    this kernel takes half as long (names may have * and ?)
  copy:HtoD*0              copies to the device take no time
  launch:axpy*0.5          half of the launch latency of this kernel, and of the gaps before it in its queue
  build*0                  kernel builds take no time
  call:clCreateContext*0   this traced call takes no time (function:NAME*F: an OpenMP region)
  import:torch*0           this import of Python takes no time of its own; traced calls in it stay
  wait:clFinish*0          calls of this name do not wait for devices, except the last one of each thread
  network*0                messages and collectives of MPI take no time; waits for other ranks stay
  rank:3=mean              rank 3 computes as long as the mean of all ranks (rank:3*0.5: half as long)
Separate several changes by commas, or repeat --what-if. Limits of the prediction: occa_prof help critical-path.
"""


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.description = "Show what decided the run time, and predict what a change would gain."
    parser.epilog = EPILOG
    parser.add_argument("run", metavar="RUN", type=Path, help="read this run folder")
    parser.add_argument(
        "--what-if", metavar="CHANGE", action="append", default=[],
        help="predict the run time with this change, as in 'kernel:NAME*0.5'; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--format", choices=("table", "json"), default="table", help="print in this format (default: table)"
    )
    parser.add_argument("--all", action="store_true", help=f"print all rows, not only the first {ROWS}")
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Print the path."""
    from occatrace.reports.critical import Run, whatif
    from occatrace.store.tables import open_store

    changes = whatif.parse(args.what_if)
    folder = open_run(args.run).path
    with open_store(folder) as store:
        with progress.phase("computing the critical path"):
            found = Run(store)
            if found.graph is None:
                raise BadInput(f"{folder}: nothing was recorded, so there is no critical path")
            answer = found.answer(changes)
        facts = run_facts(folder)
        losses = store.losses(facts)
    with output(args.output, args.force) as out:
        if args.format == "json":
            json.dump(_content(answer), out, indent=1, ensure_ascii=False)
            out.write("\n")
        else:
            _print(answer, facts, losses, out, args)
    return 0


def _content(answer: Answer) -> dict[str, Any]:
    """What --format json writes."""
    from occatrace.render.schemas import WHY

    out: dict[str, Any] = {"schema": WHY, "wall_ns": answer.wall_ns, "path_ns": answer.path_ns}
    if answer.predicted_ns is not None:
        out["predicted_ns"] = answer.predicted_ns
    if answer.notes:
        out["notes"] = list(answer.notes)
    return {**out, "rows": [asdict(row) for row in answer.rows]}


def _print(answer: Answer, facts: Any, losses: Any, out: TextIO, args: argparse.Namespace) -> None:
    from occatrace.render import Document

    render(Document(facts, losses, [_report(answer, args)]), out, "table")
    hidden = 0 if args.all else len(answer.rows) - ROWS
    if hidden > 0:
        out.write(f"{hidden} more: --all\n")


def _report(answer: Answer, args: argparse.Namespace) -> Report:
    from dataclasses import replace

    from occatrace import reports

    entry = reports.definition("critical_path_sum")
    head = f"the run took {duration(answer.wall_ns)}; the path has {duration(answer.path_ns)} without waits"
    if answer.predicted_ns is not None:
        gain = 100.0 * (1 - answer.predicted_ns / answer.wall_ns) if answer.wall_ns else 0.0
        change = f"{gain:.1f} % less" if gain >= 0 else f"{-gain:.1f} % more"
        words = ", ".join(args.what_if)
        head = f"the run took {duration(answer.wall_ns)}; predicted with {words}: {duration(answer.predicted_ns)} ({change})"
        entry = replace(entry, title="Critical path of the changed run", share="of the predicted run time")
    rows: list[tuple[Any, ...]] = [
        (row.share, row.time_ns, row.kind, row.name, row.source, row.rank)
        for row in (answer.rows if args.all else answer.rows[:ROWS])
    ]
    columns = entry.columns
    if all(row[-1] is None for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    return reports.Report(replace(entry, columns=columns), rows, [head, *answer.notes])
