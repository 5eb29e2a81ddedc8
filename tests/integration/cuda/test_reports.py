"""Reports of device work on the fake driver, against a computation of their own from the single pieces of work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import occatrace
from tests.support.suites.cuda import Traced

MS = 1_000_000


def busy(spans: list[tuple[int, int]]) -> int:
    """Time in which at least one of them ran: of all moments between two ends, those that any span covers."""
    edges = np.unique(np.array(spans))
    covered = [
        any(start <= at and end >= until for start, end in spans) for at, until in zip(edges, edges[1:], strict=False)
    ]
    return int(np.diff(edges)[covered].sum())


def test_use_of_the_device(traced: Callable[..., Traced], linked: Path) -> None:
    """60 ms on one stream; 30 ms within them on another, and there 20 ms after both."""
    run = traced(linked, "overlap")
    assert run.status == 0, run.stderr
    work = run.sql("SELECT queue, start_ns, end_ns FROM activities WHERE kind = 'kernel' ORDER BY start_ns")
    with occatrace.open(run.folder) as opened:
        rows = opened.report("gpu_util")
    device, *queues = rows
    spans = [(start, end) for _, start, end in work]
    assert (device["calls"], device["busy_ns"], device["total_ns"]) == (3, busy(spans), sum(e - s for s, e in spans))
    assert device["overlap"] == pytest.approx(device["total_ns"] / device["busy_ns"], rel=1e-3)
    assert device["busy_ns"] >= 80 * MS and device["total_ns"] >= 110 * MS
    assert device["span_ns"] == max(e for _, e in spans) - min(s for s, _ in spans)
    assert device["idle_ns"] == device["span_ns"] - device["busy_ns"]
    mine = {queue: [(s, e) for q, s, e in work if q == queue] for queue, _, _ in work}
    assert sorted((row["calls"], row["busy_ns"]) for row in queues) == sorted((len(s), busy(s)) for s in mine.values())
