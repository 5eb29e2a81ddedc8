"""The slices and arrows of a timeline: cut into windows of time, each read, sorted and handed on, so that memory is bounded and
nothing is sorted as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from occatrace import _native
from occatrace.core.duck import duckdb
from occatrace.core.sql import text as sql_text
from occatrace.core.units import Range, UnitError
from occatrace.store.tables import Store
from occatrace.store.windows import BUCKETS, between, cut
from occatrace.views.timeline.messages import Messages
from occatrace.views.timeline.path import Path, tie
from occatrace.views.timeline.sources import (
    CALLER,
    CRITICAL,
    DEVICE,
    FAILED,
    LAUNCHED,
    NONE,
    PROBLEMS,
    QUEUE,
    RANGES,
    SITES,
    TEXTS,
    THREAD,
    Options,
    Source,
    Sources,
    coded,
    launched,
)

WINDOW_ROWS = 1 << 20  # slices that are in memory at a time, about
FILE_FORMAT = f"(FORMAT parquet, COMPRESSION lz4, ROW_GROUP_SIZE {1 << 17})"
Columns = dict[str, npt.NDArray[Any]]

# Bytes in the file, for the estimate before it is written: of a slice, what one has more that tells much, an end of an arrow.
_SLICE, _MORE, _END = 30, 32, 10


@dataclass(frozen=True)
class Part:
    """The slices of one file: all of them, or those of a rank or a piece of time."""

    number: int
    rows: int


class Selection:
    """The slices of one timeline, by file, kind of track and time, with their flows."""

    def __init__(self, store: Store, options: Options) -> None:
        self._con = store.con
        self.realtime = self._wall_clock()
        self.origin, self.begin, self.end = self._resolve(options.window)
        self._split = options.split
        self._zero = self.origin
        self.part = self._parts(options.split)
        self._where = self._conditions(options)
        self._ranks = self._conditions(Options(ranks=options.ranks))
        self._named = bool(options.filter_name)
        sources = Sources(store, options.names, self.origin, options.tracks)
        self._sources = sources.all
        self._messages = Messages(store)
        self.note = self._messages.note
        if self._messages.found:
            self._sources.append(self._messages.source)
        if options.critical_path:
            path = Path(store, self.origin)
            if path.found:
                self._sources.append(path.source)
            else:
                self.note = self.note or "there is no critical path: nothing was recorded one by one"
        self.texts = self._number_texts()
        sources.number_sizes()
        self._sites = Sites(self._con) if any(CALLER in source.columns for source in self._sources) else None
        if self._messages.found:
            self._messages.place(*self._chosen_calls(), self._part_at)
        self.processes: dict[int, list[int]] = {}  # of each part, in the order of their ranks
        # Of each kind: rows by part and by piece of the run's time, of so many ns: a power of two.
        self.width = 1 << max((self._end_of_run() - self.origin) // BUCKETS, 1).bit_length()
        self._counts: dict[int, list[tuple[int, int, int]]] = {}
        self._failed = False
        self._survey()
        rows: dict[int, int] = {}
        for counts in self._counts.values():
            for part, _, count in counts:
                rows[part] = rows.get(part, 0) + count
        self.parts = [Part(*each) for each in sorted(rows.items())]
        self.rows = sum(rows.values())
        self._launched = (
            _native.Launched()
            if any(source.launches and source.kind in self._counts for source in self._sources)
            else None
        )
        self.flows = self._launches(bool(self._where))
        work = sum(count for _, _, count in self._counts.get(QUEUE, ()))
        self.bytes = self.rows * _SLICE + work * (_MORE + 4 * _END)

    def windows(self, parts: Sequence[int], by_track: bool = False) -> Iterator[Columns]:
        """Slices of some files in order, some at a time: kind by kind, in each window by file, track and time.

        `by_track`: one track after the other. Beside the columns there are `offsets` and `arrows` (ids) where there are flows.
        """
        wanted = {*parts}
        for kind in sorted(self._counts):
            counts = [(at, count) for part, at, count in self._counts[kind] if part in wanted]
            total = sum(count for _, count in counts)
            if not total:
                continue
            only = [self._of_parts(parts)]
            if by_track and total > WINDOW_ROWS:
                only = [f"{only[0]} AND s.kind = {k} AND s.track = {track}" for k, track in self._tracks(kind, only[0])]
            for condition in only:
                for begin, end in self._cut(kind, condition, counts):
                    rows = self._read(kind, condition, begin, end)
                    if rows:
                        yield rows

    def close(self) -> None:
        """Remove what was made."""
        for table in (
            *("damages", "codes", "renamed", "titles", "places", "sizes", "projections", "arrivals", "asked"),
            "path_pieces",
        ):
            self._con.execute(f"DROP TABLE IF EXISTS {table}")
        self._con.execute("DROP TYPE IF EXISTS timeline_text")

    def _wall_clock(self) -> int:
        """CLOCK_REALTIME at the zero of the tables' clock, which is that of the first host."""
        return self._one(
            "SELECT coalesce((SELECT realtime_ns::BIGINT - mono_ns::BIGINT FROM processes WHERE realtime_ns > 0"
            " ORDER BY process LIMIT 1), 0)"
        )

    def _resolve(self, window: Range) -> tuple[int, int | None, int | None]:
        """Zero, which is the run's first call, and begin and end of the part of the run that is wanted."""
        rows = self._con.execute(
            "SELECT coalesce(min(first_ns), min(start_ns), 0), coalesce(max(end_ns), 0) FROM processes"
        ).fetchall()
        zero, end = map(int, rows[0])
        begin, last = (
            max(moment.at(zero, end, self.realtime), 0) if moment else None for moment in (window.begin, window.end)
        )
        if begin is not None and last is not None and last < begin:
            raise UnitError(f"--filter-time {window.text}: ends before it begins")
        return zero, begin, last

    def _parts(self, split: int | str | None) -> str:
        """SQL: the number of the file for a process and a time `t`."""
        if split is None:
            return "0"
        if split == "rank":
            return "(SELECT coalesce(p.rank + 1, 0) FROM processes p WHERE p.process = {process})"
        return f"greatest((({{t}})::BIGINT - {self.origin}) // {split}, 0)"

    def part_of_time(self, time: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint32] | None:
        """The numbers of the files of moments; None where time does not matter."""
        if not isinstance(self._split, int):
            return None
        return (np.maximum(time.astype(np.int64) - self._zero, 0) // self._split).astype(np.uint32)

    def parts_of_processes(self) -> dict[int, int]:
        """The numbers of the files of processes where each rank has its own."""
        return dict(self._con.execute("SELECT process, coalesce(rank + 1, 0) FROM processes").fetchall())

    def _one(self, sql: str) -> int:
        return int(self._con.execute(sql).fetchall()[0][0])

    def _conditions(self, options: Options) -> str:
        """The WHERE clause over slices `s`."""
        out = []
        if self.begin is not None:
            out.append(f"s.end_ns >= {self.begin}")
        if self.end is not None:
            out.append(f"s.start_ns <= {self.end}")
        if options.min_duration:
            out.append(f"s.end_ns - s.start_ns >= {options.min_duration}")
        if options.filter_name:
            out.append(f"regexp_matches(ltrim(s.name, '{FAILED}'), {sql_text(options.filter_name)})")
        if options.apis:
            apis = ", ".join(sql_text(api) for api in options.apis)
            calls = f"(s.kind IN ({THREAD}, {RANGES}) AND s.category IN ({apis}))"
            out.append(f"({calls} OR s.kind NOT IN ({THREAD}, {RANGES}))" if DEVICE in options.apis else calls)
        out += self.of_ranks_and_threads(options)
        return " WHERE " + " AND ".join(out) if out else ""

    @staticmethod
    def of_ranks_and_threads(options: Options) -> list[str]:
        """Conditions on rows `s` with process and thread."""
        out = []
        if options.ranks:
            ranks = ", ".join(map(str, options.ranks))
            out.append(f"s.process IN (SELECT p.process FROM processes p WHERE p.rank IN ({ranks}))")
        if options.threads:
            either = [f"t.name GLOB {sql_text(thread)}" for thread in options.threads]
            either += [f"t.tid = {int(thread)}" for thread in options.threads if thread.isdecimal()]
            out.append(f"s.thread IN (SELECT t.thread FROM threads t WHERE {' OR '.join(either)})")
        return out

    def _end_of_run(self) -> int:
        return self._one("SELECT coalesce(max(end_ns), 0) FROM processes")

    def _number_texts(self) -> list[str]:
        """All texts of the slices, and the type `timeline_text` that numbers them."""
        queries: list[str] = []
        for source in self._sources:
            if source.texts:
                queries += source.texts
            else:
                columns = ", ".join(f"s.{column}" for column in source.columns if column in TEXTS)
                queries.append(f"SELECT unnest([{columns}]) FROM ({source.rows(True)}) s")
        union = " UNION ".join(f"SELECT text::VARCHAR AS text FROM ({query}) AS s(text)" for query in queries)
        self._con.execute(
            f"CREATE OR REPLACE TEMP TABLE texts AS SELECT DISTINCT text FROM ({union}) WHERE text IS NOT NULL"
        )
        self._con.execute("CREATE OR REPLACE TYPE timeline_text AS ENUM (SELECT text FROM texts ORDER BY text)")
        texts = [row[0] for row in self._con.execute("SELECT text FROM texts ORDER BY text").fetchall()]
        self._con.execute("DROP TABLE texts")
        return texts

    def _filter(self, source: Source) -> str:
        """WHERE of a source's rows `s`, to which more can be added."""
        if source.chosen:
            return " WHERE true"
        return (self._ranks if source.kind == PROBLEMS else self._where) or " WHERE true"

    def _survey(self) -> None:
        """How many slices begin when, and of which processes."""
        part = self.part.format(process="s.process", t="s.start_ns")
        bucket = f"(s.start_ns // {self.width})::BIGINT"
        found: set[tuple[int, int]] = set()
        first = [self.origin]
        queries = [
            f"SELECT {source.kind} AS k, ({part})::BIGINT AS part, s.process, {bucket} AS bucket, count(*) AS n,"
            f" count(*) FILTER (s.failed) AS failed, min(s.start_ns) AS first FROM ({source.rows(self._named)}) s"
            f"{self._filter(source)} GROUP BY ALL"
            for source in self._sources
        ]
        for query in queries:
            for kind, number, process, at, count, failed, begin in self._con.execute(query).fetchall():
                found.add((number, process))
                first.append(begin)
                self._counts.setdefault(kind, []).append((number, at, count))
                if failed:
                    self._failed = True
                    self._counts.setdefault(PROBLEMS, []).append((number, at, failed))
        self.origin = min(first)
        ranks = dict(self._con.execute("SELECT process, rank FROM processes").fetchall())
        for number, process in sorted(found, key=lambda each: (each[0], _last(ranks.get(each[1])), each[1])):
            if process in ranks:
                self.processes.setdefault(number, []).append(process)

    def _of_parts(self, parts: Sequence[int]) -> str:
        """Condition on rows `s`: they belong to some parts, which follow each other."""
        low, high = min(parts), max(parts)
        if self._split is None:
            return "true"
        if self._split == "rank":
            return (
                "s.process IN (SELECT p.process FROM processes p"
                f" WHERE coalesce(p.rank + 1, 0) IN ({', '.join(map(str, parts))}))"
            )
        begin = f"s.start_ns >= {self._zero + low * self._split}" if low else "true"
        return f"{begin} AND s.start_ns < {self._zero + (high + 1) * self._split}"

    def _tracks(self, kind: int, condition: str) -> list[tuple[int, int]]:
        """Kinds and numbers of the tracks of some rows."""
        found: set[tuple[int, int]] = set()
        for source, sql in self._queries(kind, self._named, None, None):
            found |= {
                (int(k), int(track))
                for k, track in self._con.execute(
                    f"SELECT DISTINCT s.kind, s.track FROM ({sql}) s{self._filter(source)} AND {condition}"
                ).fetchall()
            }
        return sorted(found)

    def _queries(self, kind: int, named: bool, begin: int | None, end: int | None) -> Iterator[tuple[Source, str]]:
        """The sources of a kind of tracks, with SQL of their rows."""
        for source in self._sources:
            sql = source.rows(named, begin, end)
            if source.kind == kind:
                yield source, sql
            elif kind == PROBLEMS and self._failed:
                # What failed stands there a second time.
                failed = f"SELECT * REPLACE ({PROBLEMS} AS kind, process AS track) FROM ({sql}) WHERE failed"
                yield source, failed

    def _cut(
        self, kind: int, condition: str, counts: Sequence[tuple[int, int]], filtered: bool = True
    ) -> Iterator[tuple[int | None, int | None]]:
        """Windows of time for the slices of a kind. Those of calls have fewer columns than the others."""

        def count(width: int, begin: int | None, end: int | None) -> list[tuple[int, int]]:
            return self._count(kind, condition, width, begin, end, filtered)

        return cut(counts, self.width, WINDOW_ROWS if kind == THREAD else WINDOW_ROWS // 2, count)

    def _count(
        self, kind: int, condition: str, width: int, begin: int | None, end: int | None, filtered: bool = True
    ) -> list[tuple[int, int]]:
        """How many slices begin in which piece of a time."""
        found = []
        for source, sql in self._queries(kind, filtered and self._named, None, None):
            where = self._filter(source) if filtered else " WHERE true"
            found += self._con.execute(
                f"SELECT (s.start_ns // {width})::BIGINT AS at, count(*) FROM ({sql}) s{where} AND {condition}"
                f" AND {between('s.start_ns', begin, end)} GROUP BY ALL"
            ).fetchall()
        return found

    def _read(self, kind: int, condition: str, begin: int | None, end: int | None) -> Columns:
        """The slices of a window, sorted."""
        part = self.part.format(process="s.process", t="s.start_ns")
        pieces: list[Columns] = []
        for source, sql in self._queries(kind, True, begin, end):
            more = {"start_ns": "s.start_ns::UBIGINT", "end_ns": "s.end_ns::UBIGINT", **source.columns}
            if self._split is not None:
                more["part"] = f"({part})::UINTEGER"
            alike = source.calls and kind == THREAD  # fewer columns take less time
            if not alike:
                more |= {"kind": "s.kind::UTINYINT", "track": "s.track::UBIGINT"}
            if not source.tied:
                more["number"] = "coalesce(s.number, 0)::UBIGINT"
            if alike:
                more |= {c: f"s.{c}::UINTEGER" for c in ("thread", "seq")}
            elif source.tied:
                more |= {c: f"coalesce(s.{c}, {NONE})::UINTEGER" for c in ("thread", "seq")}
            columns = ", ".join(f"{value} AS {name}" for name, value in more.items())
            where = f"{self._filter(source)} AND {condition} AND {between('s.start_ns', begin, end)}"
            rows = self._con.execute(f"SELECT {columns} FROM ({sql}) s{where}").fetchnumpy()
            count = len(rows["start_ns"])
            if not count:
                continue
            if alike:
                rows |= {"kind": np.broadcast_to(np.uint8(kind), count), "track": rows["thread"]}
            if source.tied:
                seq = plain(rows["seq"])
                rows["number"] = rows["seq"] if alike else np.where(seq == NONE, 0, seq)
            if self._launched and source.launches:
                found = self._launched.of(_numbers_of(rows, "thread"), _numbers_of(rows, "seq"))
                for name, (texts, all_known) in zip(LAUNCHED, found, strict=True):
                    rows[name] = texts if all_known else np.ma.masked_equal(texts, NONE)
            if self._sites and CALLER in rows:
                rows["called_from"] = self._sites.of(rows["thread"], rows.pop(CALLER))
            rows.setdefault("part", np.broadcast_to(np.uint32(0), count))
            pieces.append({name: values for name, values in rows.items() if not np.ma.getmaskarray(values).all()})
        if not pieces:
            return {}
        rows = _joined(pieces)
        pieces.clear()
        _sort(rows)
        if kind == CRITICAL:
            tie(rows)
        if not self.flows.empty and "seq" in rows:
            self._tie(kind, rows)
        if kind == THREAD and self._messages.found and "seq" in rows:
            self._messages.tie(rows, _numbers_of(rows, "thread"), _numbers_of(rows, "seq"))
        return rows

    def _part_at(self, part: npt.NDArray[Any], time: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The file of what happens within calls of some files, or -1 where it is in none."""
        if isinstance(self._split, int):
            part = np.where(part >= 0, np.maximum((time - self._zero) // self._split, 0), -1)
        first, last = self.begin or 0, np.iinfo(np.int64).max if self.end is None else self.end
        return np.where((time >= first) & (time <= last), part, -1)

    def _chosen_calls(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
        """File, thread and number of the calls of MPI that are in the timeline."""
        part = self.part.format(process="s.process", t="s.start_ns")
        chosen = [
            self._con.execute(
                f"SELECT ({part})::BIGINT AS part, s.thread::BIGINT AS thread, s.seq::BIGINT AS seq"
                f" FROM ({source.rows(self._named)}) s{self._filter(source)} AND s.category = 'mpi'"
            ).fetchnumpy()
            for source in self._sources
            if source.calls
        ]
        of_part, thread, seq = (np.concatenate([plain(r[n]) for r in chosen]) for n in ("part", "thread", "seq"))
        return of_part, thread, seq

    def _tie(self, kind: int, rows: Columns) -> None:
        """Adds arrows and correlations."""
        part, thread, seq = plain(rows["part"]), _numbers_of(rows, "thread"), _numbers_of(rows, "seq")
        arrows: npt.NDArray[np.uint64] | None
        if kind == QUEUE:
            offsets, arrows, common = self.flows.work(part, thread, seq, _numbers_of(rows, "run_seq"))
        elif kind == THREAD:
            offsets, arrows, common = self.flows.calls(part, thread, seq)
        else:  # what failed is there a second time, and no arrow leads to it
            arrows, common = None, self.flows.correlations(thread, seq)
        if arrows is not None and len(arrows):
            rows["offsets"], rows["arrows"] = offsets, arrows
        if common.any():
            rows["correlation"] = np.ma.masked_equal(common, 0)

    def _launches(self, filtered: bool) -> _native.Flows:
        """Which calls launched work."""
        flows = _native.Flows()
        part = self.part.format(process="s.process", t="s.start_ns")
        for source in self._sources:
            if source.kind != QUEUE:
                continue
            wanted = f"({self._where.removeprefix(' WHERE ')})" if filtered else "true"
            counts = self._count(QUEUE, "true", self.width, None, None, filtered=False)
            for begin, end in self._cut(QUEUE, "true", counts, filtered=False):
                rows = self._con.execute(
                    f"SELECT ({part})::UINTEGER AS part, s.thread, coalesce(s.seq, {NONE})::UINTEGER AS seq,"
                    f" coalesce(s.run_seq, {NONE})::UINTEGER AS run_seq, {wanted} AS wanted"
                    f" FROM ({source.rows(self._named)}) s WHERE s.thread IS NOT NULL AND {between('s.start_ns', begin, end)}"
                ).fetchnumpy()
                of_part, thread, seq, run = (plain(rows[name]) for name in ("part", "thread", "seq", "run_seq"))
                flows.add(of_part, thread, seq, run, plain(rows["wanted"]).astype(bool) if filtered else None)
                if self._launched:
                    rows = self._con.execute(
                        f"SELECT * FROM ({launched()}) s WHERE {between('s.start_ns', begin, end)}"
                    ).fetchnumpy()
                    self._launched.add(*(plain(rows[name]) for name in ("thread", "seq", *LAUNCHED)))
        return flows


class Sites:
    """Where calls were made, as numbers of texts."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        threads = con.execute("SELECT thread, process FROM threads").fetchnumpy()
        numbers = plain(threads["thread"])
        self._process_of = np.full(int(numbers.max(initial=0)) + 1, NONE, np.uint32)
        self._process_of[numbers] = plain(threads["process"])
        sites = con.execute(
            f"SELECT process::UINTEGER AS process, address::UBIGINT AS address, {coded('called_from')} AS text"
            f" FROM ({SITES}) WHERE called_from IS NOT NULL"
        ).fetchnumpy()
        self._native = _native.Sites(*(plain(sites[name]) for name in ("process", "address", "text")))

    def of(self, thread: npt.NDArray[Any], caller: npt.NDArray[Any]) -> npt.NDArray[np.uint32]:
        """The number of a text for each call, masked where none is known."""
        texts, all_known = self._native.of(self._process_of, plain(thread), plain(caller))
        out: npt.NDArray[np.uint32] = texts if all_known else np.ma.masked_equal(texts, NONE)
        return out


def _last(rank: int | None) -> float:
    """Where nulls are last."""
    return float("inf") if rank is None else rank


def _joined(pieces: Sequence[Columns]) -> Columns:
    """One after the other; what a piece lacks is null. Takes the columns out of the pieces."""
    if len(pieces) == 1:
        return pieces[0]
    counts = [len(rows["start_ns"]) for rows in pieces]
    out: Columns = {}
    known: dict[tuple[int, ...], npt.NDArray[Any]] = {}  # a column under two names stays one
    same = [
        (name, tuple(id(rows.get(name)) for rows in pieces)) for name in dict.fromkeys(n for r in pieces for n in r)
    ]
    for name, columns in same:
        if columns not in known:
            known[columns] = _concatenated([rows.get(name) for rows in pieces], counts)
        out[name] = known[columns]
    return out


def _concatenated(columns: Sequence[npt.NDArray[Any] | None], counts: Sequence[int]) -> npt.NDArray[Any]:
    """A column of all pieces."""
    there = [column for column in columns if column is not None]
    first = there[0]
    if len(there) == len(columns) and all(_constant(column) and column[0] == first[0] for column in there):
        return np.broadcast_to(first[0], sum(counts))
    pairs = list(zip(columns, counts, strict=True))
    values = np.concatenate([np.zeros(n, first.dtype) if c is None else plain(c) for c, n in pairs])
    if len(there) == len(columns) and not any(np.ma.is_masked(column) for column in there):
        return values
    absent = [np.ones(n, bool) if c is None else np.ma.getmaskarray(c) for c, n in pairs]
    return np.ma.array(values, mask=np.concatenate(absent))


def _constant(column: npt.NDArray[Any]) -> bool:
    """Whether it is one value for all rows, which takes no room."""
    return column.strides == (0,)


def _sort(rows: Columns) -> None:
    """By file, kind and track; in time, an outer slice before the inner ones."""
    part, kind, track = (plain(rows[name]) for name in ("part", "kind", "track"))
    if _constant(part) and _constant(kind):
        key = track
    else:
        low = part.min()
        key = (part - low).astype(np.uint64) << np.uint64(40) | kind.astype(np.uint64) << np.uint64(36) | track
    order = _native.order(key, plain(rows["start_ns"]), plain(rows["end_ns"]), plain(rows["number"]))
    if order is None:
        return
    names: dict[int, list[str]] = {}
    for name, values in rows.items():
        names.setdefault(id(values), []).append(name)
    for alike in names.values():
        values = rows[alike[0]]
        if _constant(values):
            continue
        # The unsorted column is given up before the next one is sorted.
        rows |= dict.fromkeys(alike, _taken(values, order))


def _taken(values: npt.NDArray[Any], rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Some rows of a column; faster than values[rows]."""
    if not isinstance(values, np.ma.MaskedArray):
        return values.take(rows)
    if values.mask is np.ma.nomask:
        return np.ma.getdata(values).take(rows)
    return np.ma.array(np.ma.getdata(values).take(rows), mask=np.ma.getmaskarray(values).take(rows))


def _numbers_of(rows: Columns, name: str) -> npt.NDArray[np.uint32]:
    values = rows[name]
    out: npt.NDArray[np.uint32] = values.filled(NONE) if isinstance(values, np.ma.MaskedArray) else values
    return out


def plain(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """DuckDB hands out masked arrays where a column may be null."""
    result: npt.NDArray[Any] = values.filled(0) if isinstance(values, np.ma.MaskedArray) else values
    return result
