"""A source file with what its lines caused: calls, device time, bytes. Of the reports `callsite_sum` and `occa_kern_sum`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from occatrace import reports
from occatrace.core import units
from occatrace.core.checked import printable
from occatrace.errors import RunError
from occatrace.render import SourceFile, SourceLine
from occatrace.store.macros import places_in_files
from occatrace.store.tables import Store

CONTEXT = 3  # lines around those that caused something
PAGE_FILES, PAGE_LINES = 8, 60  # of a page: files, and lines of each that caused something
# What a page shows the text of: a run's paths may be a stranger's, and no secret is kept in such a file.
SOURCES = frozenset(
    (
        ".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx", ".inl", ".ipp", ".tpp", ".cu", ".cuh", ".cl", ".okl", ".hip",
        ".f", ".for", ".f90", ".f95", ".f03", ".f08", ".py", ".pyx", ".jl", ".rs",
    )
)  # fmt: skip
Read = Callable[[str], tuple[Sequence[str] | None, str]]
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


def files(store: Store, made: Mapping[str, reports.Report] | None = None) -> dict[str, File]:
    """What each line caused, by the path of its file as it was compiled. OCCA kernels are at the line where they begin. What a
    line of Python caused through a library whose lines are known is at both. `made`: reports of the whole run that there are
    already."""
    found = _by_line(_rows(store, "callsite_sum", made or {}))
    if "python_lines" in store.filled:
        with places_in_files(store.con):
            found |= _by_line(_rows(store, "callsite_sum", {}))
    for row in _rows(store, "occa_kern_sum", made or {}):
        path, _, line = (row["source"] or "").rpartition(":")
        if path and line.isdigit() and row["parent"] is None:
            found[path][int(line)].add(row["calls"], None, row["total_ns"], None)
    return {path: dict(lines) for path, lines in found.items()}


def _by_line(rows: Iterable[dict[str, Any]]) -> defaultdict[str, defaultdict[int, Line]]:
    found: defaultdict[str, defaultdict[int, Line]] = defaultdict(lambda: defaultdict(Line))
    for row in rows:
        if row["line"] is not None:
            found[row["file"]][row["line"]].add(row["calls"], row["host_ns"], row["device_ns"], row["bytes"])
    return found


def _rows(store: Store, name: str, made: Mapping[str, reports.Report]) -> Iterator[dict[str, Any]]:
    report = made.get(name) or reports.make(store, name)
    for row in report.rows:
        yield dict(zip((column.name for column in report.columns), row, strict=True))


def without(store: Store) -> str:
    """How many call sites have no line, and why most of them; empty: all have one."""
    rows = store.con.execute(
        "SELECT why, count(*) FROM call_sites WHERE line = 0 AND why != '' GROUP BY why ORDER BY 2 DESC, 1"
    ).fetchall()
    return f"; {sum(n for _, n in rows):,} call sites have no line: {printable(rows[0][0])}" if rows else ""


def find(known: Collection[str], wanted: str, lacking: str = "") -> str:
    """The path that somebody means by a path or by its last parts. Raises a RunError with one line if it is none or several;
    `lacking`: what it says of call sites without a line."""
    parts = PurePosixPath(wanted).parts
    same = [path for path in known if PurePosixPath(path).parts[-len(parts) :] == parts]
    if not same:
        # As the program was compiled elsewhere: the name alone.
        same = [path for path in known if PurePosixPath(path).name == PurePosixPath(wanted).name]
    if len(same) == 1:
        return same[0]
    if same:
        raise RunError(f"{wanted} may be {' or '.join(map(printable, sorted(same)))}: write more of its path")
    other = "`occa_prof annotate RUN` lists the files of the run" if known else "no source file of the run is known"
    raise RunError(f"no recorded call was made in {wanted}: {other}{lacking}")


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


def page(known: Mapping[str, File], read: Read | None) -> list[SourceFile]:
    """The files with most device time, then most time in calls, as a page has them: bounded. `read`: the text of a file, by its
    path, and what a reader should know of it; None: pages have the numbers only."""
    out = []
    for path in _largest(known)[:PAGE_FILES]:
        lines = known[path]
        chosen = sorted(lines, key=lambda number: (-lines[number].device_ns, -lines[number].host_ns, number))[
            :PAGE_LINES
        ]
        source, note = read(path) if read is not None and PurePosixPath(path).suffix.lower() in SOURCES else (None, "")
        shown = set(chosen)
        if source is not None:
            near = {number + step for number in chosen for step in range(-CONTEXT, CONTEXT + 1)}
            shown |= {number for number in near if 1 <= number <= len(source)}
        found = []
        for number in sorted(shown):
            line = lines.get(number, Line()) if number in chosen else Line()
            text = None if source is None else source[number - 1].rstrip() if 1 <= number <= len(source) else ""
            found.append(SourceLine(number, text, line.device_ns, line.host_ns, line.calls, line.bytes))
        out.append(SourceFile(path, found, len(lines) - len(chosen), note))
    return out


def _largest(known: Mapping[str, File]) -> list[str]:
    """Files by the time of their lines."""

    def time(path: str) -> tuple[int, int, str]:
        lines = known[path].values()
        return -sum(line.device_ns for line in lines), -sum(line.host_ns for line in lines), path

    return sorted(known, key=time)


def _margin(line: Line | None) -> str:
    if line is None:
        return " " * 45
    times = [units.duration(ns) if ns else "-" for ns in (line.device_ns, line.host_ns)]
    return f"{times[0]:>9}  {times[1]:>9}  {line.calls:>9,}  {units.size(line.bytes) if line.bytes else '-':>9}"
