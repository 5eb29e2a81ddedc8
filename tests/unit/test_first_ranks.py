"""Ranks of several jobs in one run."""

from __future__ import annotations

from typing import Any

import pytest

from occatrace.ingest.assembly import _first_ranks

Job = tuple[str, int, int, int, tuple[int, ...]]  # name, begin, end, size, ranks


def rows(*jobs: Job) -> list[list[Any]]:
    """Rows of processes, as they are filled, and one without a rank before them."""
    out: list[list[Any]] = [[1, *[""] * 8, 0, 1000, 0, 0, "exit", "node0", None, None, None, "", "", None]]
    for job, begin, end, size, ranks in jobs:
        for rank in ranks:
            out.append(
                [len(out) + 1, *[""] * 8, begin + rank, end, 0, 0, "exit", "node0", rank, size, None, job, "", None]
            )
    return out


@pytest.mark.parametrize(
    ("jobs", "first"),
    [
        ((("a", 0, 900, 2, (0, 1)),), []),
        ((("a", 0, 900, 2, (0, 1)), ("b", 300, 800, 2, (0, 1))), [0, 0, 2, 2]),  # spawned
        ((("b", 300, 800, 2, (0, 1)), ("a", 0, 900, 2, (0, 1))), [2, 2, 0, 0]),  # whatever the order of the rows
        ((("a", 0, 400, 2, (0, 1)), ("b", 500, 800, 2, (0, 1))), []),  # one mpirun after another
        ((("a", 0, 900, 4, (0, 1)), ("b", 100, 900, 4, (2, 3))), []),  # one MPI of two jobs of Slurm
        ((("a", 0, 900, 4, (0, 1)), ("b", 100, 900, 2, (0, 1))), [0, 0, 4, 4]),  # two more ranks of the first elsewhere
        (
            (("a", 0, 900, 2, (0, 1)), ("b", 100, 900, 2, (0, 1)), ("c", 200, 900, 1, (0,))),
            [0, 0, 2, 2, 4],
        ),
        ((("a", 0, 300, 2, (0, 1)), ("b", 100, 900, 2, (0, 1)), ("c", 400, 900, 1, (0,))), [0, 0, 2, 2, 0]),
    ],
)
def test_first_ranks(jobs: tuple[Job, ...], first: list[int]) -> None:
    own = rows(*jobs)
    found = _first_ranks(own)
    assert [found.get(row[0], 0) for row in own[1:]] == (first or [0] * (len(own) - 1))
    assert 1 not in found
