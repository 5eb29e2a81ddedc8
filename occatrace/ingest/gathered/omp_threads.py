"""What each thread did in each parallel region of OpenMP: its own event, and the tasks that it ran at the last barrier."""

from __future__ import annotations

import numpy as np

from occatrace.core.model import Function, Model
from occatrace.ingest.gathered.gathered import Gathered
from occatrace.ingest.reading import Columns
from occatrace.ingest.threads import ThreadMap

_SUMS = ("barriers", "barrier_ns", "waits", "wait_ns", "mutexes", "mutex_ns", "worksharing", "tasks", "task_ns")


def _takes(event: str, function: Function | None, columns: Columns) -> bool:
    return event in ("occatrace_openmp:implicit_task", "occatrace_openmp:join_tasks")


def _columns(threads: ThreadMap, columns: Columns) -> Columns:
    same = {name: columns[name] for name in ("seq", "region_seq", "thread_num")}
    if "region_tid" not in columns:
        return {**same, "late_tasks": columns["tasks"], "late_ns": columns["task_ns"]}
    return {
        **same,
        "region_slot": threads.of(columns["region_tid"], columns["start"]),
        "start": columns["start"],
        "end": columns["ts"],
        **{name: columns[name].astype(np.uint64, copy=False) for name in _SUMS},
    }


def _insert(model: Model) -> str:
    return """
        INSERT INTO omp_threads BY NAME
        WITH parts AS (SELECT * FROM raw_omp_threads WHERE region_slot IS NOT NULL),
        late AS (SELECT slot, region_seq, thread_num, late_tasks, late_ns FROM raw_omp_threads WHERE region_slot IS NULL)
        SELECT s.process, p.region_slot + 1 AS region_thread, p.region_seq, p.slot + 1 AS thread, p.seq, p.thread_num,
               p.start AS start_ns, p.end AS end_ns, p.barriers, p.barrier_ns, p.waits, p.wait_ns, p.mutexes, p.mutex_ns,
               p.worksharing, p.tasks + coalesce(l.late_tasks, 0) AS tasks, p.task_ns + coalesce(l.late_ns, 0) AS task_ns,
               coalesce(l.late_ns, 0) AS late_ns,
               CASE WHEN r.end_ns > p.end + coalesce(l.late_ns, 0)
                    THEN r.end_ns - p.end - coalesce(l.late_ns, 0) ELSE 0 END AS join_ns
        FROM parts p JOIN slots s USING (slot)
        LEFT JOIN late l ON l.slot = p.region_slot AND l.region_seq = p.region_seq AND l.thread_num = p.thread_num
        LEFT JOIN omp_regions r ON r.thread = p.region_slot + 1 AND r.seq = p.region_seq AND r.threads > 1"""


GATHERED = Gathered(
    "raw_omp_threads",
    'slot INTEGER, seq UINTEGER, region_slot INTEGER, region_seq UINTEGER, thread_num UINTEGER, "start" UBIGINT,'
    ' "end" UBIGINT, barriers UBIGINT, barrier_ns UBIGINT, waits UBIGINT, wait_ns UBIGINT, mutexes UBIGINT,'
    " mutex_ns UBIGINT, worksharing UBIGINT, tasks UBIGINT, task_ns UBIGINT, late_tasks UBIGINT, late_ns UBIGINT",
    _takes,
    _columns,
    _insert,
)
