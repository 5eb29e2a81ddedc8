"""Reports of the summary say of merged parts what they say of the whole: cut by rank and by thread. Contents are random, with
every kind of row that the reports count; tests/golden/test_parts.py cuts recorded runs, also by time."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from occatrace import reports
from occatrace.core.histogram import bucket
from occatrace.core.schema import MEMORY_KINDS
from occatrace.reports import distributed, efficiency, partial
from tests.support import parts

RANKS, THREADS = 7, 2
APIS = ("opencl", "cuda", "hip")
END = 10**7


class Content:
    """Rows of tables, at random."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.seq = 0

    def add(self, table: str, **values: Any) -> None:
        self.rows[table].append(
            {name: value.item() if hasattr(value, "item") else value for name, value in values.items()}
        )

    def span(self, longest: int = 50_000) -> dict[str, int]:
        start = int(self.random.integers(1, END))
        return {"start_ns": start, "end_ns": start + int(self.random.integers(0, longest))}

    def one_of(self, *values: Any) -> Any:
        return values[int(self.random.integers(len(values)))]

    def next(self) -> int:
        self.seq += 10
        return self.seq

    def process(self, process: int, rank: int | None) -> None:
        self.add(
            "processes", process=process, host="h", pid=process, rank=rank, size=RANKS, start_ns=0, end_ns=END + process
        )
        for number, api in enumerate(APIS):
            # Cards of one name in all processes, two of them in each.
            for more in (0, 1):
                self.add(
                    "devices",
                    device=100 * process + 2 * number + more,
                    process=process,
                    id=more,
                    api=api,
                    name=f"{api} card",
                )
        for number, (name, mode) in enumerate(
            (("add", "OpenCL"), ("add", "Serial"), ("scale", "CUDA"), ("sum", "OpenMP"))
        ):
            self.add(
                "kernels",
                kernel=10 * process + number,
                process=process,
                id=number,
                name=name,
                mode=mode,
                source="k.okl",
                line=number,
            )
        self.add("call_sites", process=process, site=1, file="a.cpp", line=3, function="f")
        self.add("call_sites", process=process, site=2, file="b.cpp", line=process % 3, function="g")
        for thread in range(10 * process, 10 * process + THREADS):
            self.add("threads", thread=thread, process=process, tid=thread, start_ns=0, end_ns=END)
            own = {"process": process, "thread": thread}
            for _ in range(int(self.random.integers(8, 20))):
                self.occa(own)
                self.copies(own)
                self.ranges(own)
                self.openmp(own)
                self.sycl(own)
            self.calls(own)

    def work(self, own: dict[str, Any], kind: str, seq: int, **more: Any) -> None:
        device = 100 * own["process"] + int(self.random.integers(0, 2 * len(APIS)))
        name = None if kind != "kernel" or self.random.random() < 0.1 else self.one_of("_occa_add_0", "native")
        self.add(
            "activities", **own, kind=kind, seq=seq, device=device, **self.span(),
            bytes=0 if kind == "kernel" else int(self.random.integers(0, 9000)), status=self.one_of(0, 0, 0, -5),
            **{"name": name, "source": self.one_of(None, "pageable", "pinned"), "target": self.one_of(None, "device")} | more,
        )  # fmt: skip

    def occa(self, own: dict[str, Any]) -> None:
        seq = self.next()
        kernel = 10 * own["process"] + int(self.random.integers(0, 5))  # the last one is not known
        error = self.one_of(None, None, None, "no memory")
        self.add("kernel_runs", **own, seq=seq, kernel=kernel, **self.span(), launches=1, error=error)
        if kernel % 10 in (0, 2) and self.random.random() < 0.7:
            for _ in range(self.one_of(1, 2)):
                self.work(own, "kernel", self.next(), run_seq=seq, kernel=kernel)
        self.work(own, "kernel", self.next())
        self.add("papi_counts", **own, seq=seq, counter="PAPI_TOT_INS", value=self.random.integers(0, 10**6))

    def copies(self, own: dict[str, Any]) -> None:
        seq = self.next()
        self.work(own, self.one_of(*MEMORY_KINDS, "marker"), seq)
        self.add(
            "occa_copies", **own, seq=self.next(), kind=self.one_of("HtoD", "DtoH"), mode=self.one_of("Serial", "CUDA"),
            bytes=self.random.integers(0, 5000), **self.span(), error=self.one_of(None, None, "failed"),
        )  # fmt: skip
        self.add("call_places", **own, seq=seq, site=self.one_of(1, 2))

    def ranges(self, own: dict[str, Any]) -> None:
        kind = self.one_of("push", "start", "mark")
        seq, span = self.next(), self.span(2_000_000)
        ends = {"end_thread": own["thread"], "end_seq": seq + 40} if self.random.random() < 0.7 else {"end_ns": None}
        self.add(
            "ranges", **own, seq=seq, api=self.one_of("occatrace", "nvtx"), domain=self.one_of("", "solver"),
            name=self.one_of("step", "solve"), kind=kind, depth=int(self.random.integers(0, 2)), **span | ends,
        )  # fmt: skip

    def openmp(self, own: dict[str, Any]) -> None:
        seq, span = self.next(), self.span()
        self.add(
            "omp_regions", **own, seq=seq, function=self.one_of("f", None), source=self.one_of("a.c:3", ""), kind="parallel",
            threads=self.one_of(2, 4), **span, depth=self.one_of(0, 0, 1), target_seq=self.one_of(None, None, 4),
            kernel=self.one_of(None, 10 * own["process"] + 3),
        )  # fmt: skip
        for number in range(2):
            waits = {
                f"{name}_ns": self.random.integers(0, 500)
                for name in ("barrier", "wait", "mutex", "task", "late", "join")
            }
            self.add(
                "omp_threads", process=own["process"], region_thread=own["thread"], region_seq=seq, seq=self.next(),
                thread=10 * own["process"] + number, thread_num=number, **span, tasks=self.random.integers(0, 3), **waits,
            )  # fmt: skip
        target = self.next()
        place = {"function": self.one_of("f", None), "source": "a.c:9"}
        self.add("omp_targets", **own, seq=target, operation="target", device_num=0, **place, **self.span(), bytes=0)
        self.add(
            "omp_targets", **own, seq=self.next(), operation=self.one_of("HtoD", "alloc"), device_num=self.one_of(0, 1), **self.span(),
            bytes=self.random.integers(0, 900), mapped_to=self.random.integers(0, 900), target_seq=self.one_of(None, target), **place,
        )  # fmt: skip

    def sycl(self, own: dict[str, Any]) -> None:
        seq, span = self.next(), self.span()
        command, operation = (
            1000 * own["thread"] + len(self.rows["sycl_calls"]),
            self.one_of("submit", "submit", "wait"),
        )
        self.add(
            "sycl_calls", **own, seq=seq, operation=operation, command=command, name=self.one_of("fill", "k"),
            source="s.cpp:1", created_ns=max(span["start_ns"] - 500, 0), **span, last_seq=seq + 10,
        )  # fmt: skip
        if self.random.random() < 0.5:
            self.work(own, "kernel", self.next())
        self.add("sycl_dependencies", process=own["process"], command=command, after=1)

    def calls(self, own: dict[str, Any]) -> None:
        for api, function in (
            ("occa", "occa::kernel::run"),
            ("cuda", "cuLaunchKernel"),
            ("mpi", "MPI_Send"),
            ("mpi", "MPI_Init"),
        ):
            if self.random.random() < 0.3:
                continue
            v = self.random.integers(1, 10**6, int(self.random.integers(1, 40)))
            own_stats = own | {"api": api, "function": function}
            self.add(
                "call_stats", **own_stats, source="tally", calls=len(v), failed=self.one_of(0, 2), total_ns=v.sum(), mean_ns=v.mean(),
                m2=v.var() * len(v), min_ns=v.min(), max_ns=v.max(), bytes=self.one_of(None, 64),
            )  # fmt: skip
            found, counts = np.unique(bucket(v.astype(np.uint64)), return_counts=True)
            for at, count in zip(found.tolist(), counts.tolist(), strict=True):
                middle = at if at < 128 else (64 + at % 64) * 2.0 ** (at // 64 - 1) + (2.0 ** (at // 64 - 1) - 1) / 2
                self.add("call_hist", **own_stats, value_ns=float(middle), calls=count)
            self.add("failures", **own_stats, seq=1, code=-5, error=self.one_of("no memory", "bad value"))


def content(seed: int) -> parts.Connection:
    """Ranks with one process or two, and processes without a rank."""
    made = Content(seed)
    for process in range(1, RANKS + 4):
        made.process(process, None if process > RANKS + 2 else (process - 1) % RANKS)
    return parts.tables(made.rows)


@pytest.mark.parametrize("seed", range(2))
def test_parts_of_ranks(seed: int) -> None:
    con = content(seed)
    names = (*partial.NAMES, efficiency.NAME)
    assert parts.check(con, names, "rank", 3 + seed, seed) == set(names)


@pytest.mark.parametrize("seed", range(2))
def test_parts_of_threads(seed: int) -> None:
    """What compares ranks, and what threads of a process do to each other, is not in parts of single threads."""
    con = content(10 + seed)
    names = [name for name in partial.NAMES if name not in (*partial.BY_RANK, *parts.OF_PROCESSES)]
    assert parts.check(con, names, "thread", 3 + seed, seed) == set(names)


def test_every_report_of_a_summary_adds_up_or_says_why_not() -> None:
    of_summary = {
        *reports.SUMMARY, reports.WITHOUT_OCCA, "rank_sum", "rank_balance", *reports.ANNOTATED, "python_sum",
        *reports.PYTHON_ASKED.values(), "papi_sum", "counters",
    }  # fmt: skip
    assert of_summary <= set(partial.NAMES) | set(partial.LEFT_OUT)
    assert not set(partial.NAMES) & set(partial.LEFT_OUT) and set(partial.LEFT_OUT) < of_summary


def test_what_is_missing_is_said() -> None:
    """Merged parts of a run with samples and messages: the summary names the reports that it cannot make."""
    con = content(1)
    con.execute("INSERT INTO memory.main.counters BY NAME SELECT 1 AS process, 'x' AS name, 1 AS time_ns, 2.0 AS value")
    con.execute(
        "INSERT INTO memory.main.messages BY NAME SELECT 1 AS process, 10 AS thread, 5 AS time_ns, 'hello' AS text"
    )
    made = partial.summary(parts.merged(parts.by(con, "rank", 2, 0), 0), RANKS)
    assert [r.name for r in made][:2] == [reports.OVERVIEW, "occa_kern_sum"]
    assert list(made[0].notes) == [
        "not in a summary of merged parts: log_sum, counters (--report makes them of the tables)"
    ]


def test_processes_of_a_rank_are_in_one_part_of_dask() -> None:
    """Ranks 0 and 1 have two processes each; the last two processes have no rank."""
    con = parts.tables(
        {"processes": [{"process": n, "rank": None if n > RANKS + 2 else (n - 1) % RANKS} for n in range(1, RANKS + 5)]}
    )
    groups = distributed.groups_of(con)
    assert sorted(groups) == [[1, 8], [2, 9], [3], [4], [5], [6], [7], [10], [11]]
