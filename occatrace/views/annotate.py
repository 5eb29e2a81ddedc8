"""A source file with what its lines caused: calls, device time, bytes. Of the reports `callsite_sum` and `occa_kern_sum`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from occatrace import reports
from occatrace.core import units
from occatrace.core.checked import printable
from occatrace.errors import RunError
from occatrace.store.tables import Store

CONTEXT = 3  # lines around those that caused something
_HEAD = f"{'Device':>9}  {'Host':>9}  {'Calls':>9}  {'Moved':>9}  {'Line':>5}"


@dataclass
class Line:
    """What a line of the program caused. Times in ns.

    `calls`: recorded calls that it makes, or runs of the kernel that begins there; `host_ns`: in these calls; `device_ns`: of
    the work that they launched; `bytes`: moved by device work, OCCA's copies and MPI.
    """

    calls: int = 0
    host_ns: int = 0
    device_ns: int = 0
    bytes: int = 0

    def add(self, calls: int | None, host_ns: int | None, device_ns: int | None, moved: int | None) -> None:
        """More of it: one line may be in several functions, after inlining."""
        self.calls += calls or 0
        self.host_ns += host_ns or 0
        self.device_ns += device_ns or 0
        self.bytes += moved or 0


File = Mapping[int, Line]


def files(store: Store) -> dict[str, File]:
    """What each line caused, by the path of its file as it was compiled. OCCA kernels are at the line where they begin."""
    found: defaultdict[str, defaultdict[int, Line]] = defaultdict(lambda: defaultdict(Line))
    for row in _rows(store, "callsite_sum"):
        if row["line"] is not None:
            found[row["file"]][row["line"]].add(row["calls"], row["host_ns"], row["device_ns"], row["bytes"])
    for row in _rows(store, "occa_kern_sum"):
        path, _, line = (row["source"] or "").rpartition(":")
        if path and line.isdigit() and row["parent"] is None:
            found[path][int(line)].add(row["calls"], None, row["total_ns"], None)
    return {path: dict(lines) for path, lines in found.items()}


def _rows(store: Store, name: str) -> Iterator[dict[str, Any]]:
    report = reports.make(store, name)
    for row in report.rows:
        yield dict(zip((column.name for column in report.columns), row, strict=True))


def find(known: Iterable[str], wanted: str) -> str:
    """The path that somebody means by a path or by its last parts. Raises a RunError with one line if it is none or several."""
    parts = PurePosixPath(wanted).parts
    same = [path for path in known if PurePosixPath(path).parts[-len(parts) :] == parts]
    if not same:
        # As the program was compiled elsewhere: the name alone.
        same = [path for path in known if PurePosixPath(path).name == PurePosixPath(wanted).name]
    if len(same) == 1:
        return same[0]
    if same:
        raise RunError(f"{wanted} may be {' or '.join(map(printable, sorted(same)))}: write more of its path")
    raise RunError(f"no recorded call was made in {wanted}: `occa_prof annotate RUN` lists the files of the run")


def listing(known: Mapping[str, File]) -> Iterator[str]:
    """The files of a run as lines of text, those with the most device time, then the most time in calls, first."""
    totals = {path: Line() for path in known}
    for path, lines in known.items():
        for line in lines.values():
            totals[path].add(line.calls, line.host_ns, line.device_ns, line.bytes)
    yield _HEAD.removesuffix(f"  {'Line':>5}") + "  File"
    for path, line in sorted(totals.items(), key=lambda item: (-item[1].device_ns, -item[1].host_ns, item[0])):
        yield f"{_margin(line)}  {printable(path)}"


def annotated(lines: File, source: Sequence[str] | None, context: int | None = CONTEXT) -> Iterator[str]:
    """The file as lines of text, with what each line caused in the margin.

    `source`: its text; None: only the lines that caused something. `context`: so many lines around these; None: all lines.
    """
    yield f"{_HEAD}  Source" if source is not None else _HEAD
    if source is None:
        shown: Iterable[int] = sorted(lines)
    elif context is None:
        shown = range(1, max(len(source), *lines, 1) + 1)
    else:
        near = {number + step for number in lines for step in range(-context, context + 1)}
        shown = sorted(number for number in near if 1 <= number <= len(source) or number in lines)
    before = 0
    for number in shown:
        if source is not None and number != before + 1:
            yield f"{'':45}  {'⋮':>5}"
        before = number
        text = "" if source is None or number > len(source) else printable(source[number - 1].rstrip().expandtabs())
        yield f"{_margin(lines.get(number))}  {number:>5}  {text}".rstrip()


def _margin(line: Line | None) -> str:
    if line is None:
        return " " * 45
    times = [units.duration(ns) if ns else "-" for ns in (line.device_ns, line.host_ns)]
    return f"{times[0]:>9}  {times[1]:>9}  {line.calls:>9,}  {units.size(line.bytes) if line.bytes else '-':>9}"
