"""Time steps of sequences that are known."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from occatrace import reports
from occatrace.reports import steps
from occatrace.store.tables import open_store
from tests.support.fake import MODEL, FakeTrace, fake_device, fake_rank, launch, run_folder

AT = 1_000_000


def rows_of(tmp_path: Path, trace: FakeTrace) -> list[dict[str, Any]]:
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        report = reports.make(store, "steps")
    return [dict(zip((c.name for c in report.columns), row, strict=True)) for row in report.rows]


def stepping(slow: int = 7) -> FakeTrace:
    """Ten steps of 100: kernels a, b, b of 20 each. In step 7 the first b takes 60 more."""
    trace = FakeTrace()
    t = trace.process(100, start=AT)
    fake_device(t, AT)
    launch(t, AT, 1, 5, 9, "setup", seen=5000)
    now = 100
    for step in range(10):
        for number, name in enumerate("abb"):
            length = 80 if step == slow and number == 1 else 20
            launch(t, AT, now - 5, now, now + length, name, seen=5000)
            now += length + 2
        now += 34
    t.record("exit", AT + 5000, reason=0)
    return trace


def test_steps_of_kernels(tmp_path: Path) -> None:
    whole, slow = rows_of(tmp_path, stepping())
    assert (whole["kind"], whole["steps"], whole["time_ns"], whole["max_ns"], whole["name"]) == (
        "steps",
        10,
        100,
        160,
        "a, b, b",
    )
    assert (slow["kind"], slow["step"], slow["time_ns"], slow["excess_ns"]) == ("slow", 7, 160, 60)
    assert (slow["name"], slow["part_ns"]) == ("kernel b", 60)
    assert slow["start_ns"] - whole["start_ns"] == 700


@pytest.mark.parametrize(
    ("sequence", "expected"),
    [
        ("ab" * 10, ["ab"] * 10),
        ("aab" * 10, ["aab"] * 10),
        ("a" * 20, ["a"] * 20),
        ("x" + "abcd" * 8 + "y", ["abcd"] * 8),
        (("a" * 50 + "b") * 5, ["a" * 50 + "b"] * 5),
        ("abcdefghij", []),
        # Output in every tenth step, the last one included: it makes no step longer than ten others.
        (("xabab" * 9 + "xababo") * 4, (["xabab"] * 9 + ["xababo"]) * 4),
        # The same beginning as a loop inside of a step: more than one kernel is around it, or not after as many turns each time.
        (("p" + "ab" * 10 + "f") * 12, ["p" + "ab" * 10 + "f"] * 12),
        ("".join("p" + "abc" * (9 + n * n % 7) for n in range(12)), ["p" + "abc" * (9 + n * n % 7) for n in range(12)]),
        # A solver whose number of iterations changes, between other kernels, before and after them.
        ("".join("p" + "a" * (5 + n * n % 7) + "f" for n in range(20)), ["p" + "a" * (5 + n * n % 7) + "f" for n in range(20)]),
        ("s" + "".join("a" * (2 + n % 4) + "f" for n in range(20)), ["a" * (2 + n % 4) + "f" for n in range(20)]),
        # A phase before with a kernel of the steps, and one with steps of its own.
        ("a" * 30 + "aab" * 20, ["aab"] * 20),
        ("pq" * 10 + "xyx" * 20, ["xyx"] * 20),
        # A solver that starts with a lower order: kernels are missing in its first steps.
        ("i" + "pqrstuvwxy" * 3 + "pqrstuvwxyz" * 12, ["pqrstuvwxy"] * 3 + ["pqrstuvwxyz"] * 12),
        ("i" + "pqrstuvwx" * 3 + "pqrstuvwxy" * 12, ["pqrstuvwx"] * 3 + ["pqrstuvwxy"] * 12),
        # Now and then a kernel comes, in no order.
        ("".join("ab"[n * n % 11 % 2] + "c" * (n in (7, 40, 51)) for n in range(60)), []),
    ],
)  # fmt: skip
def test_steps_of_a_sequence(sequence: str, expected: list[str]) -> None:
    """Kernels of 8 ns, 1 ns apart; longer where a step begins is no sign, as the host may be ahead."""
    ids = np.unique([ord(letter) for letter in sequence], return_inverse=True)[1].astype(np.int64)
    starts = 9 * np.arange(len(ids), dtype=np.int64)
    found = steps.loop(ids, starts, starts + 8)
    if found is None:
        assert not expected
        return
    edges = [*found[0].tolist(), found[1]]
    assert [sequence[begin:end] for begin, end in itertools.pairwise(edges)] == expected


def test_ranks_have_the_same_steps(tmp_path: Path) -> None:
    """Ten steps of 100 in two ranks. Rank 0 waits before kernel a, rank 1 before b, and rank 0 has no kernels in the first step. In
    step 7 both take 60 longer."""
    trace = FakeTrace()
    for rank in (0, 1):
        t = fake_rank(trace, rank, 2, AT)
        fake_device(t, AT)
        now = 100
        for step in range(10):
            for name in "abc":
                now += 34 * (name == "ab"[rank])
                length = 80 if step == 7 and name == "c" else 20
                if step > 0 or rank == 1:
                    launch(t, AT, now - 5, now, now + length, name, seen=5000)
                now += length + 2
        t.record("exit", AT + 5000, reason=0)
    whole, slow, other_whole, other_slow = rows_of(tmp_path, trace)
    assert [whole["name"], other_whole["name"]] == ["a, b, c", "a, b, c"]
    assert [whole["steps"], other_whole["steps"]] == [9, 10]
    assert [(row["rank"], row["step"], row["excess_ns"]) for row in (slow, other_slow)] == [(0, 7, 60), (1, 7, 60)]


def test_steps_of_a_range(tmp_path: Path) -> None:
    """Ranges count before kernels; what differs is host code."""
    trace = stepping(slow=-1)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        store.con.execute("CREATE OR REPLACE TEMP TABLE ranges AS SELECT * FROM ranges LIMIT 0")
        for number in range(6):
            start = AT + 2000 + 200 * number
            store.con.execute(
                "INSERT INTO ranges BY NAME SELECT 1 AS process, '' AS domain, 'step' AS name, 'push' AS kind, 1 AS thread, 0 AS depth,"
                f" {start} AS start_ns, {start + (190 if number == 4 else 100)} AS end_ns"
            )
        store.filled = store.filled | {"ranges"}
        report = reports.make(store, "steps")
    found = [dict(zip((c.name for c in report.columns), row, strict=True)) for row in report.rows]
    assert [(row["kind"], row["time_ns"], row["name"]) for row in found] == [
        ("steps", 100, "range step"),
        ("slow", 190, steps.REST),
    ]


def test_nothing_repeats(tmp_path: Path) -> None:
    assert not rows_of(tmp_path, FakeTrace())
