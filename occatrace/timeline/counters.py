"""The values over time that a timeline has, in SQL: memory, commands in flight, busy time, traffic, and what was sampled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from occatrace.schema import MEMORY_KINDS
from occatrace.sql import text as sql_text
from occatrace.tables import Store
from occatrace.timeline.selection import DEVICE, FILE_FORMAT, WINDOW_ROWS, Columns, Options, Selection

# Kinds of counters, in the order in which they stand below the queues.
ALLOCATED, IN_FLIGHT, BUSY, TRAFFIC, SAMPLED = range(5)

# Shares and rates are means over windows of this many ns at least, and there are at most so many windows.
SHORTEST, MOST = 100_000, 2_000
BYTES_PER_VALUE = 17  # in the file

_KEY = "kind, process, device, label, unit"

_IN_FLIGHT = f"""
SELECT {IN_FLIGHT} AS kind, process, coalesce(device, 0) AS device, 'enqueued, not finished' AS label, 'commands' AS unit, t, d
FROM (SELECT process, device, CASE WHEN queued_ns > 0 THEN least(queued_ns, start_ns) ELSE start_ns END AS t, 1 AS d
      FROM activities
      UNION ALL SELECT process, device, greatest(end_ns, start_ns), -1 FROM activities)
"""
# A part of another allocation takes no memory of its own.
_ALLOCATED = f"""
SELECT {ALLOCATED} AS kind, process, coalesce(device, 0) AS device, 'bytes' AS unit, t, d,
       concat_ws(', ', title(api), CASE WHEN coalesce(device, 0) = 0 THEN mode END, nullif(kind, 'device')) AS label
FROM (SELECT *, start_ns AS t, bytes::BIGINT AS d FROM allocations
      UNION ALL SELECT *, end_ns, -bytes::BIGINT FROM allocations WHERE end_ns IS NOT NULL)
WHERE bytes > 0 AND parent IS NULL
"""


@dataclass(frozen=True)
class Series:
    """One counter in one file."""

    part: int
    kind: int
    process: int
    device: int  # 0: not known
    label: str
    unit: str
    first: int  # row
    rows: int
    begin: int


class Counters:
    """The counters of a timeline, sorted on disk. The times are those of the slices."""

    def __init__(self, store: Store, selection: Selection, options: Options) -> None:
        self._con = store.con
        self._selection = selection
        self._path = store.scratch / "timeline-values.parquet"
        self._file = f"read_parquet({sql_text(str(self._path))})"
        self.series: list[Series] = []
        if not options.counters or (options.apis and DEVICE not in options.apis):
            return
        titles = " ".join(f"WHEN {sql_text(api)} THEN {sql_text(title)}" for api, title in store.model.titles.items())
        self._con.execute(
            f"CREATE OR REPLACE MACRO title(api) AS CASE api {titles or 'WHEN NULL THEN NULL'} ELSE api END"
        )
        self._collect(options)
        rows = self._con.execute(
            f"SELECT part, {_KEY}, min(rn), count(*), min(t) FROM {self._file} GROUP BY ALL ORDER BY min(rn)"
        )
        self.series = [Series(*row) for row in rows.fetchall()]

    @property
    def rows(self) -> int:
        """How many values."""
        return sum(series.rows for series in self.series)

    @property
    def bytes(self) -> int:
        """Of the file, about."""
        return self.rows * BYTES_PER_VALUE

    def values(self, series: Series) -> Iterator[Columns]:
        """Windows of the values (`t`, `value`) of a counter."""
        for begin in range(series.first, series.first + series.rows, WINDOW_ROWS):
            bounds = [begin, min(begin + WINDOW_ROWS, series.first + series.rows)]
            yield self._con.execute(
                f"SELECT t, value FROM {self._file} WHERE rn >= ? AND rn < ? ORDER BY rn", bounds
            ).fetchnumpy()

    def close(self) -> None:
        """Remove the file."""
        self._path.unlink(missing_ok=True)

    def _collect(self, options: Options) -> None:
        begin, end = self._selection.begin, self._selection.end
        within = [f"t >= {begin}"] * (begin is not None) + [f"t <= {end}"] * (end is not None)
        if options.ranks:
            ranks = ", ".join(map(str, options.ranks))
            within.append(f"process IN (SELECT process FROM processes WHERE rank IN ({ranks}))")
        part = self._selection.part.format(process="s.process", t="s.t")
        # What holds when the time that was asked for begins has its value there.
        steps = f"""
            SELECT {_KEY}, t, (sum(d) OVER (PARTITION BY {_KEY} ORDER BY t))::DOUBLE AS value
            FROM (SELECT {_KEY}, greatest(t, {begin or 0})::BIGINT AS t, sum(d) AS d
                  FROM ({_IN_FLIGHT} UNION ALL BY NAME {_ALLOCATED}) GROUP BY ALL)"""
        samples = f"""
            SELECT {SAMPLED} AS kind, c.process, coalesce(c.device, 0) AS device, c.name AS label, coalesce(c.unit, '') AS unit,
                   c.time_ns::BIGINT AS t, c.value FROM counters c"""
        self._con.execute(f"""
            COPY (SELECT *, row_number() OVER () - 1 AS rn FROM (
                      SELECT {part} AS part, * FROM ({steps} UNION ALL BY NAME {samples}
                                                     UNION ALL BY NAME {self._rates(begin, end)}) s
                      {"WHERE " + " AND ".join(within) if within else ""}
                      ORDER BY part, {_KEY}, t))
            TO {sql_text(str(self._path))} {FILE_FORMAT}""")
        self._con.execute("DROP TABLE device_work")

    def _rates(self, begin: int | None, end: int | None) -> str:
        """Per device, the share of each window in which something ran, and the bytes per ns (GB/s) of each kind of copy."""
        con = self._con
        # Markers take no time of the device.
        con.execute(f"""
            CREATE OR REPLACE TEMP TABLE device_work AS
            SELECT process, coalesce(device, 0) AS device, kind, bytes, s, e,
                   greatest(s, {begin or 0})::BIGINT AS clipped_s, least(e, {end or "e"})::BIGINT AS clipped_e
            FROM (SELECT process, device, kind, bytes, start_ns::BIGINT AS s, greatest(end_ns, start_ns)::BIGINT AS e
                  FROM activities WHERE kind <> 'marker')
            WHERE e > {begin or 0} AND s < {end or "9223372036854775807"}""")
        ((first, last),) = con.execute("SELECT min(clipped_s), max(clipped_e) FROM device_work").fetchall()
        width = window_width((last or 0) - (first or 0))
        origin = first or 0
        last_window = f"(greatest(clipped_e, clipped_s + 1) - 1 - {origin}) // {width}"
        windows = f"unnest(range((clipped_s - {origin}) // {width}, {last_window} + 1))"
        common = f"least(clipped_e, {origin} + (w + 1) * {width}) - greatest(clipped_s, {origin} + w * {width})"
        return f"""
            SELECT kind, process, device, label, unit, {origin} + w * {width} AS t, value FROM (
                WITH ordered AS (
                    SELECT *, max(clipped_e) OVER (PARTITION BY process, device ORDER BY clipped_s, clipped_e
                                                   ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS until
                    FROM device_work),
                alone AS (
                    SELECT process, device, greatest(clipped_s, coalesce(until, clipped_s)) AS clipped_s, clipped_e
                    FROM ordered WHERE until IS NULL OR clipped_e > until),
                busy AS (
                    SELECT {BUSY} AS kind, process, device, 'busy' AS label, '%' AS unit, w, 100.0 * sum({common}) / {width} AS value
                    FROM (SELECT *, {windows} AS w FROM alone) GROUP BY ALL),
                traffic AS (
                    SELECT {TRAFFIC} AS kind, process, device, 'traffic ' || label AS label, 'GB/s' AS unit, w,
                           sum(CASE WHEN e > s THEN bytes * (({common}) / (e - s)) ELSE bytes END) / {width} AS value
                    FROM (SELECT * RENAME (kind AS label), {windows} AS w FROM device_work
                          WHERE kind IN {MEMORY_KINDS} AND bytes > 0)
                    GROUP BY ALL),
                shares AS (FROM busy UNION ALL FROM traffic),
                -- After the last window of a busy time there is nothing.
                whole AS (
                    FROM shares
                    UNION ALL
                    SELECT kind, process, device, label, unit, w + 1, 0 FROM shares a
                    WHERE NOT EXISTS (FROM shares b WHERE a.kind = b.kind AND a.process = b.process AND a.device = b.device
                                      AND a.label = b.label AND b.w = a.w + 1))
                SELECT * FROM whole
                QUALIFY value IS DISTINCT FROM lag(value) OVER (PARTITION BY kind, process, device, label ORDER BY w))"""


def window_width(span: int) -> int:
    """Length of the windows over which shares and rates are means: 1, 2 or 5 times a power of ten."""
    width, step = SHORTEST, 0
    while width * MOST < span:
        width = SHORTEST * (1, 2, 5)[(step := step + 1) % 3] * 10 ** (step // 3)
    return width
