"""Which files of single calls have calls of a window of time. A view opens all of its files for each query, so without this the
time for all windows of a run grows with the square of its length. No output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from occatrace.core.duck import duckdb
from occatrace.core.sql import name as sql_name
from occatrace.core.sql import text as sql_text


@dataclass(frozen=True)
class CallFiles:
    """The files of views of single calls, and when the first and the last call of each begins; none of views of one file."""

    files: Mapping[str, Sequence[tuple[str, int, int]]] = field(default_factory=dict)

    def rows(self, view: str, begin: int | None, end: int | None) -> str:
        """SQL of what to read instead of a view for the calls that begin at `begin` or later and before `end`."""
        if view not in self.files or (begin is None and end is None):
            return sql_name(view)
        there = [
            file
            for file, first, last in self.files[view]
            if (begin is None or last >= begin) and (end is None or first < end)
        ]
        # Where there is none, one that has no such calls.
        names = there or [self.files[view][0][0]]
        return f"read_parquet([{', '.join(map(sql_text, names))}])"


def find(con: duckdb.DuckDBPyConnection, folder: Path) -> CallFiles:
    """Of a folder `<view>/<part>.parquet`. Files say themselves when their calls begin; a view with one that does not is left out."""
    views: dict[str, list[tuple[str, int, int]]] = {}
    for path in sorted(folder.iterdir()):
        if len([*islice(path.glob("*.parquet"), 2)]) < 2:
            continue
        rows = con.execute(
            "SELECT file_name, min(stats_min_value::UBIGINT), max(stats_max_value::UBIGINT),"
            " bool_and(stats_min_value IS NOT NULL AND stats_max_value IS NOT NULL)"
            f" FROM parquet_metadata({sql_text(str(path / '*.parquet'))}) WHERE path_in_schema = 'start_ns'"
            " GROUP BY file_name ORDER BY file_name"
        ).fetchall()
        if all(known for *_, known in rows):
            views[path.name] = [(file, first, last) for file, first, last, _ in rows]
    return CallFiles(views)
