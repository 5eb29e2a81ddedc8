"""Stacks by processor time in Perfetto's timeline: its interface shows the samples of each thread, and flame graphs of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import numpy as np

from occatrace.store.tables import Store
from occatrace.views.timeline.selection import Selection, plain
from occatrace.views.timeline.sources import Options
from occatrace.views.timeline.tracks import Tracks

_BYTES = 24  # of a sample in the file, about

_FRAMES = """
CREATE OR REPLACE TEMP TABLE sample_frames AS
SELECT f.process, f.path, f.frame, f.depth, CASE WHEN f.function != '' THEN f.function ELSE f.name END AS function,
       CASE WHEN f.python THEN 'Python' ELSE f.module END AS module, f.file, f.line
FROM joined_frames f SEMI JOIN stack_samples USING (process, path, frame)"""


class Stacks:
    """The samples of a timeline. Perfetto counts them; the sum of their processor time is a counter."""

    def __init__(self, store: Store, selection: Selection, options: Options) -> None:
        self._con = store.con
        self._part = selection.part.format(process="s.process", t="s.time_ns")
        self._where = self._conditions(selection, options)
        self.begin: int | None = None
        self._found: dict[int, list[int]] = {}  # processes of each file
        self.rows = 0
        if options.apis or options.filter_name:
            return
        found = self._con.execute(f"""
            SELECT ({self._part})::BIGINT AS part, process, count(*), min(time_ns) FROM stack_samples s WHERE {self._where}
            GROUP BY ALL ORDER BY ALL""").fetchall()
        if not found:
            return
        self._con.execute(_FRAMES)
        for part, process, _, _ in found:
            self._found.setdefault(part, []).append(process)
        self.rows = sum(row[2] for row in found)
        self.begin = min(row[3] for row in found)

    @property
    def bytes(self) -> int:
        """Of the file, about."""
        return self.rows * _BYTES

    @property
    def parts(self) -> list[int]:
        """Numbers of the files that have samples."""
        return [*self._found]

    def write(self, part: int, tracks: Tracks) -> Iterator[int]:
        """Write those of a file; yield how many at a time."""
        for process in self._found.get(part, ()):
            rows = self._con.execute(f"""
                SELECT s.time_ns, s.cpu_ns, s.thread, t.tid::UINTEGER AS tid, s.path, s.frame
                FROM stack_samples s JOIN threads t USING (thread)
                WHERE s.process = {process} AND ({self._part}) = {part} AND {self._where} ORDER BY s.time_ns""").fetchnumpy()
            for thread in np.unique(plain(rows["thread"])).tolist():
                tracks.thread(thread)
            samples = tracks.samples(process)
            frames: dict[tuple[str, str, str, int], int] = {}
            stacks = {(0, 0): 0}
            of_process = self._con.execute(
                "SELECT path, frame, function, module, file, line FROM sample_frames WHERE process = ? ORDER BY path, frame, depth",
                [process],
            ).fetchall()
            for key, group in groupby(of_process, lambda row: row[:2]):
                stack = []
                for row in group:
                    if row[2:] not in frames:
                        frames[row[2:]] = samples.frame(*row[2:])
                    stack.append(frames[row[2:]])
                stacks[key] = samples.stack(stack)
            keys = zip(plain(rows["path"]).tolist(), plain(rows["frame"]).tolist(), strict=True)
            numbers = np.array([stacks.get(key, 0) for key in keys], np.uint32)
            times, cpu = (plain(rows[name]).astype(np.uint64) for name in ("time_ns", "cpu_ns"))
            samples.add(times, plain(rows["tid"]).astype(np.uint32), numbers, cpu)
            samples.finish()
            yield len(numbers)

    def close(self) -> None:
        """Remove what was made."""
        self._con.execute("DROP TABLE IF EXISTS sample_frames")

    @staticmethod
    def _conditions(selection: Selection, options: Options) -> str:
        """Which samples `s`: of a time, of ranks and threads, as for slices."""
        out = ["true"]
        if selection.begin is not None:
            out.append(f"s.time_ns >= {selection.begin}")
        if selection.end is not None:
            out.append(f"s.time_ns <= {selection.end}")
        out += selection.of_ranks_and_threads(options)
        return " AND ".join(out)
