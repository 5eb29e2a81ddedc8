"""Which part of a run is wanted and how it is shown: options that `report` and `run` share."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from occatrace.cli.messages import UsageError
from occatrace.core import events, naming, units
from occatrace.errors import RunError
from occatrace.run import install

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from occatrace.core.apis import Traced
    from occatrace.reports import Report
    from occatrace.reports.scope import Scoped
    from occatrace.store.tables import Store

DEVICE_TIMES = ("auto", "cupti", "rocprofiler", "roctracer", "events", "off")
DEVICE_TIME_VARIABLE = "OCCATRACE_DEVICE_TIME"
BY = ("rank", "thread", "device", "stream", "line")


def add_options(parser: argparse._ArgumentGroup | argparse.ArgumentParser) -> None:
    """--names, --units, --rows, --sort, --filter-name, --filter-time, --by."""
    add_names(parser)
    parser.add_argument(
        "--units",
        metavar="UNITS",
        help="print times (ns, us, ms, s) and sizes (B, KiB, MiB, GiB, kB, MB, GB) in these units, as in ms,MiB; base: ns and"
        " B; auto: suitable units (default: auto in text tables, base in csv, tsv and json)",
    )
    parser.add_argument(
        "--rows", metavar="N", type=_rows, help="print only the first N rows of each report, or of each part of --by"
    )
    parser.add_argument(
        "--all", action="store_true", help="print all rows of the summary's tables, not only those that matter"
    )
    parser.add_argument(
        "--sort",
        metavar="COLUMN",
        help="sort by COLUMN (numbers descending, text ascending); COLUMN:asc and COLUMN:desc set the order",
    )
    parser.add_argument(
        "--filter-name",
        metavar="REGEX",
        help="print only rows whose name matches REGEX (unanchored); percentages still refer to all rows",
    )
    parser.add_argument(
        "--filter-time",
        metavar="BEGIN:END",
        help="report only what begins within this part of the run, with its whole duration: 1.2s:1.4s from the first call,"
        " :25%%, end-500ms:, or times of day like 2026-11-21T14:03:05",
    )
    parser.add_argument(
        "--by", choices=BY, help="print each report once per rank, thread, device, stream or line of the program"
    )


def add_session(parser: argparse._ArgumentGroup | argparse.ArgumentParser, output: str) -> None:
    """What every session is begun with: --mode, --trace, --device-time, --output, --force, --shm-path. `output`: about the
    folder of the run."""
    parser.add_argument(
        "-m",
        "--mode",
        choices=events.MODES,
        default="default",
        help="select what to record: default: device work, and calls that launch, copy, allocate, build or wait (others are"
        " counted); minimal: OCCA and device work only; full: every call with its arguments; "
        "tally: exact counts and times, no single calls (for long production runs)",
    )
    add_trace(parser)
    add_device_time(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help=f"write the run to DIR ({output}")
    parser.add_argument("--force", action="store_true", help="replace the run in DIR")
    parser.add_argument(
        "--shm-path", type=Path, metavar="DIR", help="put the trace buffers into DIR (default: /dev/shm)"
    )
    parser.add_argument(
        "--system-lttng",
        action="store_true",
        help="use the system's LTTng daemon, where occatrace was installed from a wheel that brings its own"
        " (occa_prof help install)",
    )


def choose_lttng(args: argparse.Namespace) -> None:
    """--system-lttng, for this process and those that it starts."""
    if args.system_lttng:
        os.environ[install.SYSTEM_LTTNG] = "1"


def names_of_reports(text: str) -> list[str]:
    """The value of --report: names with commas between them, as in nsys stats."""
    return [name.strip() for name in text.split(",") if name.strip()] or [text]


def add_summary(parser: argparse._ArgumentGroup | argparse.ArgumentParser) -> None:
    """What is printed when a session has ended: --report, --quiet."""
    parser.add_argument(
        "--report",
        action="extend",
        type=names_of_reports,
        metavar="NAME,…",
        default=[],
        help="print these reports instead of the summary; may be repeated",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="record only: print no summary and no notes")


def add_trace(parser: argparse._ArgumentGroup | argparse.ArgumentParser) -> None:
    """--trace."""
    parser.add_argument(
        "--trace",
        metavar="LIST",
        help="trace only these APIs, as in cuda,opencl,mpi,nvtx; default: all that the program can use; default,cublas: these"
        " and cuBLAS; none: nothing; a wrong name lists all names",
    )


def add_device_time(parser: argparse._ArgumentGroup | argparse.ArgumentParser) -> None:
    """--device-time."""
    parser.add_argument(
        "--device-time",
        choices=DEVICE_TIMES,
        default=DEVICE_TIMES[0],
        help="select the source of device times: auto: CUPTI, rocprofiler-sdk or roctracer if found and not in use, otherwise"
        " events; off: no device times, queues and streams are not touched",
    )


def with_device_time(inherited: Mapping[str, str], how: str) -> dict[str, str]:
    """The environment with what --device-time chose."""
    return {**inherited} if how == DEVICE_TIMES[0] else {**inherited, DEVICE_TIME_VARIABLE: how}


def traced_of(value: str | None) -> Traced | None:
    """The APIs that --trace chose; None: no choice."""
    if value is None:
        return None
    from occatrace.core import apis

    try:
        return apis.parse(value, apis.read_model())
    except apis.UnknownName as error:
        raise UsageError(f"--trace: {error}") from None


def names_of(traced: Traced | None) -> tuple[str, ...]:
    """For run.json."""
    return () if traced is None else tuple(traced.variable.split(","))


def _rows(text: str) -> int:
    """A number of rows. Raises a RunError, whose line argparse does not wrap."""
    if not text.isascii() or not text.isdigit():
        raise RunError(f"--rows {text}: write a number of rows, as in --rows 10")
    return int(text)


def add_names(parser: argparse._ArgumentGroup | argparse.ArgumentParser) -> None:
    """--names."""
    parser.add_argument(
        "--names",
        choices=naming.NAMES,
        default=naming.DEFAULT,
        help="select the names of kernels; those of OCCA are as in the source with all but raw: okl: with file and line; short: C++"
        " names only"
        " (of OpenMP regions, too); demangled: with parameters and template arguments; raw: as recorded (default: %(default)s)",
    )


@dataclass(frozen=True)
class Choice:
    """What the options say, checked as far as it can be without the run."""

    names: str = naming.DEFAULT
    fixed: units.Units | None = None
    by: str | None = None
    window: units.Range | None = None
    rows: int | None = None
    sort: str | None = None
    name: str | None = None
    every: bool = False

    @property
    def brief(self) -> bool:
        """Whether only the rows that matter are shown of a summary."""
        return not self.every and self.rows is None and self.sort is None and self.name is None

    @classmethod
    def of(cls, args: argparse.Namespace) -> Choice:
        """From parsed options. Raises a RunError for what cannot be understood."""
        if args.filter_name is not None:
            naming.regex(args.filter_name)
        fixed = units.parse_units(args.units) if args.units else None
        window = units.parse_range(args.filter_time) if args.filter_time is not None else None
        return cls(args.names, fixed, args.by, window, args.rows, args.sort, args.filter_name, args.all)

    def scoped(self, store: Store) -> Scoped:
        """The part of the run that is wanted."""
        from occatrace.reports.scope import Scope, Scoped

        return Scoped(store, Scope(self.window, self.by, self.names))

    def reports(self, store: Store, names: Sequence[str]) -> list[Report]:
        """The reports of these names, or the summary, as they were asked for."""
        from occatrace import reports

        scoped = self.scoped(store)
        first = self.rows if self.sort is None and self.name is None else None
        if not names:
            return self.rows_of(reports.summary(store, scoped))
        made = {name: reports.make(store, name, scoped, first) for name in reports.together(store, names)}
        return self.rows_of([made[name] for name in names])

    @contextmanager
    def opened(self, store: Store, name: str) -> Iterator[tuple[Report, Iterator[tuple[Any, ...]]]]:
        """A report of single events as it was asked for, and its rows as they come."""
        from occatrace import reports

        empty = reports.Report(reports.definition(name), [])
        order = reports.Selection(sort=self.sort).order(empty) if self.sort else []
        sorts = [(empty.columns[at].name, down) for at, down in order]
        named = reports.Selection(name=self.name)

        def shown(part: Report) -> Report:
            part = named.apply(part)
            return reports.in_units(part, self.fixed) if self.fixed else part

        limit = self.rows if self.name is None else None
        with reports.opened(store, name, self.scoped(store), sorts, limit) as (report, chunks):
            rows = (row for chunk in chunks for row in shown(replace(report, rows=chunk)).rows)
            yield shown(report), rows if self.rows is None else islice(rows, self.rows)

    def rows_of(self, made: Sequence[Report]) -> list[Report]:
        """Of each report the rows that are wanted, in their units. One that lacks the column to sort by stays as it is."""
        from occatrace import reports

        selection = reports.Selection(self.rows, self.sort, self.name)
        unsorted = reports.Selection(self.rows, None, self.name)
        out, failed = [], []
        whole = [report for report in made if report.name == reports.OVERVIEW and len(made) > 1]
        for report in made:
            if report in whole:
                out.append(report)  # the first block of a summary has all of its rows
                continue
            try:
                out.append(selection.apply(report))
            except reports.NoColumn as error:
                failed.append(error)
                out.append(unsorted.apply(report))
        if failed and len(failed) == len(made) - len(whole):
            raise failed[0]
        for unknown in failed:
            print(f"! not sorted: {unknown}", file=sys.stderr)
        return [reports.in_units(report, self.fixed) for report in out] if self.fixed else out
