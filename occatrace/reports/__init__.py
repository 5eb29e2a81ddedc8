"""Reports: tables of a run → `Report`. One SQL file each, whose head says title, columns and units. Prints nothing."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from occatrace.core import naming, progress, reasons
from occatrace.core.duck import duckdb
from occatrace.core.naming import regex as regex
from occatrace.core.units import SIZES, TIMES, Units
from occatrace.errors import RunError
from occatrace.reports.head import DRAWINGS as DRAWINGS
from occatrace.reports.head import Column as Column
from occatrace.reports.head import Definition as Definition
from occatrace.reports.head import Drawing as Drawing
from occatrace.reports.head import built_in as built_in
from occatrace.reports.head import names, of_file
from occatrace.reports.head import parse as parse
from occatrace.reports.scope import KEYS, Scoped, can_split, tables_of
from occatrace.store import memory

if TYPE_CHECKING:
    from occatrace.store.tables import Store

T = TypeVar("T")
_FETCH = 1024
_WHOLE = ("ns", "bytes", "count")  # units of which whole amounts are int
_FLOATS = ("DOUBLE", "FLOAT")
_ENDLESS = "_trace"  # how the names of those end that have a row per event
_OF_NETWORK = frozenset(("efficiency",))  # modules
_OF_GRAPH = frozenset(("advice", "critical", "idle", "wait_states")) | _OF_NETWORK

OVERVIEW = "overview"  # the first block of a summary of the whole run
# What `occa_prof ./a.out` prints after it, as far as there is something to print. api_sum has OCCA's calls too.
SUMMARY = (
    "occa_kern_sum",
    "openmp_sum",
    "openmp_target_sum",
    "sycl_sum",
    "gpu_mem_time_sum",
    "gpu_mem_size_sum",
    "api_sum",
)
WITHOUT_OCCA = "gpu_kern_sum"  # in place of the first one
# Of a parallel job, the summary ends with its ranks, where they are few, and with what is unbalanced most.
RANKS_SHOWN = 32
BALANCE_ROWS = 5  # of kernels, of memory operations and of calls
ANNOTATED = ("range_sum", "range_gpu_proj_sum")  # where the program has marked something
PYTHON_ROWS = 12  # of what Python did
OF_FREES = ("mem_leaks", "mem_churn", "mem_usage")  # what they say rests on the frees that were recorded
# By the table that has rows where --python was asked for it.
PYTHON_ASKED = {"python_samples": "python_time_sum", "python_lines": "python_line_sum", "messages": "log_sum"}


# What other profilers call the same, without underscores: nsys (also before 2023), nvprof, rocprofv3.
OTHERS = {
    **{f"cuda{name}": report for name, report in (
        ("apisum", "api_sum"), ("apitrace", "api_trace"), ("gpukernsum", "gpu_kern_sum"), ("gpusum", "gpu_kern_sum"),
        ("gpukerngbsum", "gpu_kern_gb_sum"), ("gpumemsizesum", "gpu_mem_size_sum"), ("gpumemtimesum", "gpu_mem_time_sum"),
        ("gputrace", "gpu_trace"), ("kernexecsum", "kern_exec_sum"),
    )},
    **dict.fromkeys(("gpusum", "gpusummary", "printgpusummary", "kernelstats"), "gpu_kern_sum"),
    **dict.fromkeys(("printgputrace", "kerneltrace"), "gpu_trace"),
    **dict.fromkeys(("apisummary", "printapisummary", "hipapistats", "hipapisum", "openclapisum"), "api_sum"),
    **dict.fromkeys(("memorycopystats", "gpumemsum"), "gpu_mem_time_sum"),
    **dict.fromkeys(("nvtxsum", "nvtxpushpopsum", "nvtxstartendsum", "roctxsum", "markerapistats"), "range_sum"),
    "nvtxgpuprojsum": "range_gpu_proj_sum",
    "umtotalsum": "um_sum",
}  # fmt: skip


_NAMED = 8  # reports of which a part of the name was written


class UnknownReport(RunError):
    """There is no report of this name."""


@dataclass(frozen=True)
class Report:
    """A report with its rows."""

    definition: Definition
    rows: Sequence[tuple[Any, ...]]
    notes: Sequence[str] = ()  # notes for the reader
    split: int | None = None  # place of the column by which it is split

    @property
    def name(self) -> str:
        """Its name."""
        return self.definition.name

    @property
    def columns(self) -> tuple[Column, ...]:
        """Its columns."""
        return self.definition.columns


def is_endless(name: str) -> bool:
    """Whether a report has a row per event, and so as many as the run is long."""
    if not name.endswith(_ENDLESS):
        return False
    entry = definitions().get(name)
    return name.endswith(_ENDLESS) and not (entry and entry.made)


def definitions() -> Mapping[str, Definition]:
    """All reports by name: ours, then those of users (recipes.py)."""
    from occatrace.reports import recipes

    return {**built_in(), **recipes.definitions()}


def definition(name: str) -> Definition:
    """One report."""
    if name in names():
        return of_file(name)
    from occatrace.reports import recipes

    try:
        return recipes.definitions()[name]
    except KeyError:
        if name in recipes.problems():
            raise UnknownReport(recipes.problems()[name]) from None
        raise UnknownReport(f"no report {name!r}; {_hint(name)}") from None


def _hint(name: str) -> str:
    """What to write instead of an unknown name."""
    if name == "all":
        return "`--all` prints the whole summary, with all rows; `occa_prof report --list` names each report"
    if meant := alike(name):
        return f"did you mean {meant}? (occa_prof report --list)"
    plain = _letters(name)
    having = [report for report in definitions() if len(plain) > 1 and plain in _letters(report)]
    if having:
        more = ", …" if len(having) > _NAMED else ""
        these = f"{'one of ' if len(having) > 1 else ''}{', '.join(having[:_NAMED])}{more}"
        return f"did you mean {these}? (occa_prof report --list)"
    return f"`occa_prof report --list` lists all {len(definitions())}"


def _letters(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def alike(name: str, spelling: bool = True) -> str | None:
    """The report that a name means: that of another profiler, or the one that is spelled most like it (with `spelling`)."""
    from difflib import get_close_matches

    plain = _letters(name)
    known = {_letters(report): report for report in definitions()} | OTHERS
    if plain in known:
        return known[plain]
    found = get_close_matches(plain, known, 1, 0.75) if spelling else []
    return known[found[0]] if found else None


@dataclass(frozen=True)
class Selection:
    """Which rows of a report are wanted, and in which order."""

    rows: int | None = None  # of a report that is split and not sorted: of each part
    sort: str | None = None  # `column`, `column:asc`, `column:desc`, several with commas
    name: str | None = None
    each: str | None = None  # `rows` of each value of this column

    def apply(self, report: Report) -> Report:
        """The report with these rows. A part stays with the row that it belongs to."""
        if self.rows is None and self.sort is None and self.name is None:
            return report
        places = {column.name: place for place, column in enumerate(report.columns)}
        blocks: list[list[tuple[Any, ...]]] = []
        for row in report.rows:
            if "parent" in places and row[places["parent"]] is not None and blocks:
                blocks[-1].append(row)
            else:
                blocks.append([row])
        if self.name is not None and "name" in places:
            pattern = regex(self.name)
            at = places["name"]
            blocks = [block for block in blocks if any(pattern.search(str(row[at])) for row in block)]
        if self.sort is not None:
            for by, descending in reversed(self.order(report)):
                there = [block for block in blocks if block[0][by] is not None]
                missing = [block for block in blocks if block[0][by] is None]
                blocks = sorted(there, key=lambda block: block[0][by], reverse=descending) + missing
        if self.rows is not None:
            blocks = self._first(report, blocks)
        return replace(report, rows=[row for block in blocks for row in block])

    def order(self, report: Report) -> list[tuple[int, bool]]:
        """Places of the columns to sort by, and whether the largest come first: by default for numbers."""
        places = {column.name: place for place, column in enumerate(report.columns)}
        titles = {column.title.lower(): place for place, column in enumerate(report.columns)}
        out = []
        for word in (self.sort or "").split(","):
            name, _, way = word.strip().partition(":")
            at = places.get(name, titles.get(name.lower()))
            if at is None:
                raise NoColumn(f"{report.name} has no column {name!r}; it has {', '.join(places)}")
            if way not in ("", "asc", "desc"):
                raise RunError(f"--sort {word}: write {name}:asc or {name}:desc")
            text = report.columns[at].unit in ("text", "source", "parent")
            out.append((at, way == "desc" or (way == "" and not text)))
        return out

    def _first(self, report: Report, blocks: list[list[tuple[Any, ...]]]) -> list[list[tuple[Any, ...]]]:
        limit = max(self.rows or 0, 0)
        split = report.split if self.each is None else [c.name for c in report.columns].index(self.each)
        if split is None or self.sort is not None:
            return blocks[:limit]
        counts: dict[Any, int] = {}
        out = []
        for block in blocks:
            key = block[0][split]
            counts[key] = counts.get(key, 0) + 1
            if counts[key] <= limit:
                out.append(block)
        return out


BALANCE = Selection(rows=BALANCE_ROWS, each="what")


class NoColumn(RunError):
    """A report has no column of this name."""


def in_units(report: Report, units: Units) -> Report:
    """Times and sizes in fixed units, which are in the columns' names and headings then."""
    columns = list(report.columns)
    factors: dict[int, int] = {}
    for at, column in enumerate(columns):
        unit = {"ns": units.time, "bytes": units.size}.get(column.unit)
        if unit is None:
            continue
        name, base = column.name, "ns" if column.unit == "ns" else "bytes"
        if (column.unit, unit) not in (("ns", "ns"), ("bytes", "B")):
            factors[at] = TIMES[unit] if column.unit == "ns" else SIZES[unit]
            head = re.sub(rf"_?{base}(?=_\d+$|$)", "", name)
            match = re.fullmatch(r"(.*?)(_\d+)?", head)
            assert match
            name = "_".join(filter(None, (match[1], unit.lower()))) + (match[2] or "")
        title = f"{column.title} ({'µs' if unit == 'us' else unit})"
        columns[at] = replace(column, name=name, unit=unit, title=title, fixed=True)
    rows = [
        tuple(v / factors[at] if at in factors and v is not None else v for at, v in enumerate(row))
        for row in report.rows
    ]
    return replace(report, definition=replace(report.definition, columns=tuple(columns)), rows=rows)


def make(store: Store, name: str, scoped: Scoped | None = None, rows: int | None = None) -> Report:
    """Run a report on the tables of a run, or on a part of them. `rows`: in the report's own order no more are wanted, so
    that a list of all calls need not be made to see its beginning (more may come)."""
    entry = definition(name)
    with progress.phase(f"computing {name}"):
        made = _within(store, entry, lambda: _make(store, entry, scoped, rows))
        return made if scoped is None else _of_authors(made, scoped)


def _of_authors(report: Report, scoped: Scoped) -> Report:
    """With the names of OCCA's kernels as in the source. A report that has both names keeps them."""
    if scoped.scope.names not in ("demangled", "short"):
        return report
    if any(column.unit == "parent" or column.name == "okl" for column in report.columns):
        return report
    texts = [place for place, column in enumerate(report.columns) if column.unit == "text"]
    if not any(naming.is_of_occa(row[place]) for row in report.rows for place in texts):
        return report
    shown = scoped.authors
    return replace(
        report,
        rows=[
            tuple(shown.get(value, value) if isinstance(value, str) else value for value in row) for row in report.rows
        ],
    )


def of_graph(store: Store, names: Sequence[str]) -> list[str]:
    """Those of the given reports that are made of the graph of the run, each once."""
    # What an ideal network would gain is all that some need of it.
    modules = _OF_GRAPH if "mpi_messages" in store.filled else _OF_GRAPH - _OF_NETWORK
    return [name for name in dict.fromkeys(names) if definition(name).made in modules]


def together(store: Store, names: Sequence[str]) -> Iterator[str]:
    """Names of reports in the order in which they are best made: first those of the graph of the run, which have it in common
    until the next name is asked for."""
    first = of_graph(store, names)
    with ExitStack() as stack:
        if len(first) > 1:
            from occatrace.reports import critical  # takes time to load

            stack.enter_context(critical.shared(store))
        yield from first
    yield from (name for name in names if name not in first)


def _within(store: Store, entry: Definition, work: Callable[[], T]) -> T:
    try:
        return memory.within(store.con, work)
    except duckdb.OutOfMemoryException as error:
        raise RunError(f"{entry.name}: {reasons.of_duckdb(error, store.path)}") from error


def _make(store: Store, entry: Definition, scoped: Scoped | None, rows: int | None) -> Report:
    if entry.needs_calls:
        store.functions()
    store.sum_lines(entry.sql)
    try:
        part = scoped is not None and (scoped.scope.window or scoped.scope.by)
        # A module may add to a query; of a part of the run there is the query alone.
        if entry.made and not (part and entry.sql.strip()):
            notes = [*(["of the whole run"] if part else ()), *_made_notes(store, entry)]
            return Report(entry, _made(store, entry), notes)
        if scoped is None or scoped.plain:
            if entry.of and not entry.of & store.filled:
                return Report(entry, [])
            if "memory_operations" in entry.sql and not store.memory_groups:
                return Report(entry, [])
            parts = any(column.unit == "parent" for column in entry.columns)
            # Under a LIMIT DuckDB computes what a query uses twice twice: that of a sum took four times the memory.
            sums = entry.name in names() and not is_endless(entry.name)
            found = _rows(store.con, entry, None if parts or sums else rows)
            return Report(entry if found else _freed(store, entry), found, _frees_left_out(store, entry))
        report = _scoped(entry, scoped)
        return replace(report, notes=[*report.notes, *_frees_left_out(store, entry)])
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error as error:
        raise RunError(f"{entry.name}: {reasons.of_duckdb(error, store.path)}") from error


@contextmanager
def opened(
    store: Store, name: str, scoped: Scoped, order: Sequence[tuple[str, bool]] = (), limit: int | None = None
) -> Iterator[tuple[Report, Iterator[list[tuple[Any, ...]]]]]:
    """A report of single events, and its rows as they come. `order`: columns to sort by, and whether the largest come first.
    `limit`: no more rows are wanted."""
    entry = definition(name)
    if entry.needs_calls:
        store.functions()
    tables = tables_of(entry.sql)
    counted = entry.counts or tables
    sql = entry.sql
    if order:
        columns = ", ".join(f"{column} {'DESC' if down else 'ASC'} NULLS LAST" for column, down in order)
        sql = f"SELECT * FROM (\n{sql}\n) ORDER BY {columns}, start_ns"
    if limit is not None:
        sql = f"{sql}\nLIMIT {limit}"
    with nullcontext(store.con.cursor()) if scoped.plain else scoped.connection(tables, counted, sql) as con:
        try:
            result = memory.within(con, lambda: con.execute(sql))
        except duckdb.Error as error:
            raise RunError(f"{name}: {reasons.of_duckdb(error, store.path)}") from error
        yield Report(entry, [], [] if scoped.plain else scoped.notes(counted)), _chunks(result, entry, store.path)


def _chunks(result: duckdb.DuckDBPyConnection, entry: Definition, path: Path) -> Iterator[list[tuple[Any, ...]]]:
    try:
        picked = _picked(result, entry)
        kinds = [str(column[1]) for column in result.description or ()]
        # Of millions of rows those with nothing to change are handed on as they are.
        ready = picked == [*range(len(kinds))] and not any(
            column.unit in _WHOLE and kind in _FLOATS for column, kind in zip(entry.columns, kinds, strict=True)
        )
        while rows := result.fetchmany(_FETCH):
            yield rows if ready else [plain(tuple(row[i] for i in picked), entry) for row in rows]
    except duckdb.Error as error:
        raise RunError(f"{entry.name}: {reasons.of_duckdb(error, path)}") from error


def _made(store: Store, entry: Definition, reports: Sequence[Report] = ()) -> list[tuple[Any, ...]]:
    """Rows that a module makes; `reports`: some that there are already."""
    try:
        if entry.made.endswith(".py"):
            from occatrace.reports import recipes

            rows = recipes.rows(entry, store.con)
        else:
            rows = importlib.import_module(f"{__name__}.{entry.made}").rows(store, entry.name, reports)
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error as error:
        raise RunError(f"{entry.name}: {reasons.of_duckdb(error, store.path)}") from error
    return [plain(row, entry) for row in rows]


def _made_notes(store: Store, entry: Definition) -> list[str]:
    """What a module says beside its rows."""
    if entry.made.endswith(".py"):
        return []
    said = getattr(importlib.import_module(f"{__name__}.{entry.made}"), "notes", None)
    return list(said(store, entry.name)) if said else []


def _freed(store: Store, entry: Definition) -> Definition:
    """A report without rows says that all of the recorded memory was freed, if any was."""
    if entry.name != "mem_leaks":
        return entry
    ((count,),) = store.con.execute("SELECT count(*) FROM allocations").fetchall()
    text = f"everything was freed ({count:,} allocation{'s' if count != 1 else ''})"
    return replace(entry, empty=text) if count else entry


def _frees_left_out(store: Store, entry: Definition) -> Sequence[str]:
    """What is to be said of memory where calls were left out: a free may have been one of them."""
    if entry.name not in OF_FREES:
        return ()
    rows = store.con.execute(
        "SELECT coalesce(sum(count), 0)::BIGINT FROM excluded WHERE reason = 'function'"
    ).fetchall()
    count = rows[0][0]
    said = "calls left out by --functions or --exclude-functions: memory that these freed seems never to be freed"
    return (f"{count:,} {said}",) if count else ()


def _rows(con: duckdb.DuckDBPyConnection, entry: Definition, rows: int | None = None) -> list[tuple[Any, ...]]:
    return rows_of(con.execute(entry.sql if rows is None else f"{entry.sql}\nLIMIT {rows}"), entry)


def rows_of(result: duckdb.DuckDBPyConnection, entry: Definition) -> list[tuple[Any, ...]]:
    """Rows of a query with a report's columns, in any order, as rows of the report."""
    picked = _picked(result, entry)
    return [plain(tuple(row[i] for i in picked), entry) for row in result.fetchall()]


def _picked(result: duckdb.DuckDBPyConnection, entry: Definition) -> list[int]:
    """Where a query has the columns of a report."""
    order = {column[0]: i for i, column in enumerate(result.description or ())}
    lacking = [column.name for column in entry.columns if column.name not in order]
    if lacking:
        raise RunError(f"{entry.name}: its query has no column {lacking[0]!r}, which its head names")
    return [order[column.name] for column in entry.columns]


def plain(row: tuple[Any, ...], entry: Definition) -> tuple[Any, ...]:
    """A row in the types that a report promises."""
    return tuple(_plain(value, column) for value, column in zip(row, entry.columns, strict=True))


def _scoped(entry: Definition, scoped: Scoped) -> Report:
    tables = tables_of(entry.sql)
    counted = entry.counts or tables
    notes = scoped.notes(counted)
    by = scoped.scope.by
    if by is not None and not can_split(counted, by):
        ways = " or ".join(key for key in KEYS if can_split(counted, key))
        notes.append(f"not by {by}: some of what it counts has none" + (f"; it can be by {ways}" if ways else ""))
        by = None
    elif by == "rank" and any({"rank", "ranks"} & set(column.name.split("_")) for column in entry.columns):
        by = None  # it compares the ranks itself
    if by is None:
        with scoped.connection(tables, counted, entry.sql) as con:
            report = Report(entry, _rows(con, entry), notes)
    else:
        report = _split(entry, scoped, by, notes)
    at = next((place for place, column in enumerate(report.columns) if column.unit == "parent"), None)
    if scoped.scope.names == "okl" and at is not None:
        report = replace(report, rows=[row for row in report.rows if row[at] is None])
    return report


def _split(entry: Definition, scoped: Scoped, by: str, notes: Sequence[str]) -> Report:
    """The report of each rank, thread, device, stream or line, with its key in the first column."""
    tables = tables_of(entry.sql)
    kept = [
        i for i, column in enumerate(entry.columns) if column.name != by and not (by == "line" == column.title.lower())
    ]
    rows = []
    counted = entry.counts or tables
    for part, con in scoped.connections(tables, counted, scoped.parts(counted), entry.sql):
        rows += [(part.title, *(row[place] for place in kept)) for row in _rows(con, entry)]
    columns = (Column(by, "text", KEYS[by][1], ""), *(entry.columns[place] for place in kept))
    if entry.group:
        at = [column.name for column in columns].index(entry.group)
        first = {row[at]: number for number, row in reversed(list(enumerate(rows)))}
        rows.sort(key=lambda row: first[row[at]])
    share = f"{entry.share}, of this {by}" if entry.share else ""
    title = f"{entry.title} by {by}"
    return Report(replace(entry, title=title, share=share, columns=columns), rows, notes, 0)


def summary(store: Store, scoped: Scoped | None = None) -> list[Report]:
    """The reports of the end of a run: the overview, OCCA's kernels (or the device's, where there is no OCCA), memory, calls."""
    with progress.phase("computing the summary"):
        return _summary(store, scoped)


def _summary(store: Store, scoped: Scoped | None) -> list[Report]:
    made = [make(store, name, scoped) for name in SUMMARY]
    if not made[0].rows:
        made[0] = make(store, WITHOUT_OCCA, scoped)
    ranks = store.ranks
    if ranks > 1:
        if ranks <= RANKS_SHOWN:
            made.append(make(store, "rank_sum", scoped))
        made.append(BALANCE.apply(make(store, "rank_balance", scoped)))
    if "ranges" in store.filled:
        made += [make(store, name, scoped) for name in ANNOTATED]
    if "python_calls" in store.filled:
        made.append(Selection(rows=PYTHON_ROWS).apply(make(store, "python_sum", scoped)))
    for table, name in PYTHON_ASKED.items():
        if table in store.filled:
            made.append(Selection(rows=PYTHON_ROWS).apply(make(store, name, scoped)))
    if "papi_counts" in store.filled:
        made.append(make(store, "papi_sum", scoped))
    if (store.run / "samples").is_dir():
        made.append(make(store, "counters", scoped))
    made = [report for report in made if report.rows]
    if made and (scoped is None or not (scoped.scope.window or scoped.scope.by)):
        entry = definition(OVERVIEW)
        rows = _within(store, entry, lambda: _made(store, entry, made))
        made.insert(0, Report(entry, rows, _made_notes(store, entry)))
    return made


def of_query(result: duckdb.DuckDBPyConnection) -> Report:
    """The columns of a user's query in the form of a report, without the rows."""
    columns = tuple(
        Column(name, "text" if "VARCHAR" in str(kind) else "number", name, "")
        for name, kind, *_ in result.description or ()
    )
    return Report(Definition("query", "Query", "the result of a query", "", None, True, columns, ""), ())


def _plain(value: Any, column: Column) -> Any:
    """Whole amounts as int: DuckDB's divisions come as float."""
    if column.unit in _WHOLE and isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def markdown() -> str:
    """The page docs/reports.md."""
    out = [
        "# Reports",
        "",
        "Generated by `python -m occatrace.reports` from the SQL files in `occatrace/reports/`; do not edit.",
        "",
        "`occa_prof report RUN --report NAME`, `occatrace.open(RUN).report(NAME)`. Units are those of csv, tsv, json and",
        "Python; text tables have suitable units. Medians come from histograms of 64 buckets per octave (within 1 %),",
        "everything else is exact. A report with single calls reads the whole trace at its first use.",
        "",
        "## Selection and format",
        "",
        "Options of `occa_prof report`, of `occa_prof PROGRAM` for its summary, and of `run.report(…)` in Python.",
        "",
        "| option | |",
        "|---|---|",
        "| `--filter-time BEGIN:END` | Report only what begins within this part of the run, with its whole duration, so that windows"
        " add up to the whole; the work of an OCCA kernel call counts where its first activity begins. A note counts"
        " the calls and activities that cross the borders. Times count from the first call of the run, as in the timeline"
        " and in the columns Start: `1.5s`, `200ms`, `30us`, `8ns`; `end-1s` is 1 s before its end, `25%` a fraction of it, and"
        " `2026-11-21T14:03:05` a time of day (local, or with a zone). Tallied functions have"
        " no times: they are omitted, with a note. |",
        "| `--filter-name REGEX` | Print only rows whose name matches REGEX (unanchored); a kernel includes its parts. Percentages"
        " still refer to all rows. |",
        "| `--by rank\\|thread\\|device\\|stream\\|line` | Print the report of each, with its name in the first column; percentages"
        " refer to that part. Threads are `process:thread`, after the rank if there are several; work and kernels without"
        " device belong to `host`. Reports without that key are printed unsplit, with a note. |",
        "| `--names okl\\|short\\|demangled\\|raw` | Select the names of kernels: okl: as in the source, with file and line, with all"
        " backend kernels combined; short: C++ names without return type, parameters and template arguments, also of"
        " OpenMP regions;"
        " demangled (default; in Python raw): as C++ writes them; raw: as recorded (`_occa_add_0`), and as stored in the tables."
        " Kernels of OCCA have the name in the source with all but raw, of several outer loops with the number of the loop; parts of"
        " a kernel (`occa_kern_sum`) and lists with both names keep those of the device. Rows with the same"
        " shown name are combined. C++ names of over 1 KiB need c++filt (binutils); without it only short shortens them. |",
        "| `--units UNITS` | Print in fixed units of times (ns, us, ms, s) and sizes (B, KiB, MiB, GiB, TiB, kB, MB, GB, TB), as in"
        " `ms,MiB`; `base` is ns and B. The unit is in the heading and in the name of the field: `total_ms`. |",
        "| `--sort COLUMN` | Sort by a field or its heading: numbers descending, text ascending; `COLUMN:asc`, `COLUMN:desc`;"
        " separate several with commas. |",
        "| `--rows N` | Print the first N rows; if a report is split and not sorted, the first N of each part. |",
        "| `--all` | Print all rows of the summary's text tables. Without it each has its first ten rows, further rows that take 1 %"
        " or more, and rows with failures; its last line has the number of other rows. |",
        "",
    ]
    for name in built_in():
        out += [f"#{explained(name)}"]
    return "\n".join(out)


def explained(name: str) -> str:
    """One report in Markdown: what it shows, and its columns."""
    entry = definition(name)
    out = [f"# {entry.name}", "", f"{entry.title}: {entry.about.rstrip('.')}."]
    if entry.share:
        out += [f"The percentage is {entry.share}."]
    if entry.needs_calls:
        out += ["Needs single calls."]
    if entry.sums:
        out += ["Adds up: the same of merged parts (`--engine dask`, jobs of 256 ranks and more)."]
    out += ["", "| field | unit | shown as | |", "|---|---|---|---|"]
    out += [f"| `{c.name}` | {c.unit} | {c.title} | {c.help} |" for c in entry.columns]
    return "\n".join([*out, ""])
