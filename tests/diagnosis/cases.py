"""The one table of the diagnosis benchmark: each program, what is wrong with it, and what advice has to say of it first."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True)
class Case:
    """A problem of a program. `signs`: any of these names it, none: there is nothing to find. `place`: texts that the evidence
    contains; "line" stands for file and line of the problem's comment in the source."""

    program: str
    problem: str
    signs: tuple[str, ...] = ()
    place: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """As the command line chooses it."""
        return "-".join((Path(self.program).stem, *self.arguments, self.problem))

    def texts(self) -> list[str]:
        """What the evidence of the right advice contains."""
        return [self._line() if word == "line" else word for word in self.place]

    def _line(self) -> str:
        """The first line with a comment of a marked kind in the function of the problem, or the line of its region."""
        lines = (PROGRAMS / self.program).read_text(encoding="utf-8").splitlines()
        begin = next(n for n, text in enumerate(lines) if re.search(rf"\b{self.problem}\(", text))
        marked = re.compile(r"(//|#) (wait|launch|copy|allocation|build)\b|#pragma omp parallel")
        return f"{self.program}:{next(n for n in range(begin, len(lines)) if marked.search(lines[n])) + 1}"


WAIT, SHORT, BUILD, SAME = "waiting", "short kernels", "kernel builds", "copies of unchanged data"
FIRST = "late first launches"
ALLOCATION, SMALL, PAGEABLE, QUEUE = (
    "allocation in a loop",
    "small copies",
    "pageable copies",
    "work that waits for another queue",
)
LATE, TURNS, MESSAGES, SUMS = "late rank", "ranks take turns", "small messages", "small collectives"
UNEVEN, LOCK, REGIONS, MANY = "uneven team", "threads wait for a lock", "short regions", "more threads than processors"
PYTHON, IDLE, LOST = "Python while the device is idle", "idle device", "lost to a failed call"
LINES = ("--python", "lines")

CASES = [
    Case("device.c", "sync_each", (WAIT,), ("clFinish", "line")),
    Case("device.c", "event_wait_each", (WAIT,), ("clWaitForEvents", "line")),
    Case("device.c", "short_kernels", (SHORT,), ("tiny", "line")),
    Case("device.c", "builds", (BUILD,), ("device.c:",)),
    Case("device.c", "late_launches", (FIRST,), ("12 kernels", "line")),
    Case("device.c", "unchanged", (SAME,), ("HtoD", "line")),
    Case("device.c", "round_trip", (SAME,), ("HtoD", "line")),
    Case("device.c", "allocation", (ALLOCATION,), ("line",)),
    Case("device.c", "small_copies", (SMALL,), ("HtoD", "line")),
    Case("device.c", "pageable", (PAGEABLE,), ("HtoD", "line")),
    Case("device.c", "false_dependency", (QUEUE,), ("other", "work")),
    Case("device.c", "slow_host", (IDLE,), ("line",)),
    Case("device.c", "failing", (LOST,), ("clEnqueueNDRangeKernel", "device.c:")),
    Case("arrays.py", "python_loop", (PYTHON,), ("arrays.py",)),
    Case("arrays.py", "sync_each", (WAIT,), ("clFinish", "arrays.py:"), LINES),
    Case("arrays.py", "builds", (BUILD,), ("line",), LINES),
    Case("arrays.py", "unchanged", (SAME,), ("line",), LINES),
    Case("arrays.py", "single_values", (SMALL,), ("DtoH", "line"), LINES),
    Case("arrays.py", "temporaries", (ALLOCATION,), ("line",), LINES),
    Case("ranks.c", "late_at_barrier", (LATE,), ("rank 2",)),
    Case("ranks.c", "imbalance", (LATE,), ("rank 3",)),
    Case("ranks.c", "late_sender", (LATE,), ("rank 1", "MPI_Send")),
    Case("ranks.c", "late_root", (LATE,), ("rank 3", "MPI_Bcast")),
    Case("ranks.c", "taking_turns", (TURNS,), ("MPI_Recv",)),
    Case("ranks.c", "master_and_workers", (LATE,), ("rank 0", "MPI_Send")),
    Case("ranks.c", "root_computes", (LATE,), ("rank 0", "MPI_Bcast")),
    Case("ranks.c", "pipeline", (TURNS,), ("a rank that waited itself",)),
    Case("ranks.c", "late_for_posted", (LATE,), ("rank 3", "MPI_Wait")),
    Case("ranks.c", "late_for_probe", (LATE,), ("rank 2", "MPI_Mprobe")),
    Case("ranks.c", "late_for_tests", (LATE,), ("rank 2", "tested")),
    Case("ranks.c", "polling", ("polling",), ("MPI_Testall",)),
    Case("ranks.c", "small_messages", (MESSAGES,), ("rank 0",)),
    Case("ranks.c", "small_sums", (SUMS,), ("MPI_Allreduce",)),
    Case("team.c", "imbalance", (UNEVEN,), ("line",)),
    Case("team.c", "triangle", (UNEVEN,), ("line",)),
    Case("team.c", "lock", (LOCK,), ("line",)),
    Case("team.c", "inner_barrier", (UNEVEN,), ("line",)),
    Case("team.c", "big_task", (UNEVEN,), ("line",)),
    Case("team.c", "master_inside", (UNEVEN,), ("line",)),
    Case("team.c", "short_regions", (REGIONS,), ("line",)),
    Case("team.c", "too_many", (MANY,), ("line",)),
    Case("driver.cpp", "sync_each", (WAIT,), ("cuStreamSynchronize", "line")),
    Case("driver.cpp", "pageable_copies", (PAGEABLE,), ("HtoD", "line")),
    Case("driver.cpp", "unchanged", (SAME,), ("HtoD", "line")),
    Case("driver.cpp", "false_dependency", (QUEUE,), ("work", "lengthy")),
    Case("driver.cpp", "allocation", (ALLOCATION,), ("line",)),
    Case("driver.cpp", "short_kernels", (SHORT,), ("brief", "line")),
    Case("occa.cpp", "finish_each", (WAIT,), ("line",), arguments=("OpenCL",)),
    Case("occa.cpp", "allocation", (ALLOCATION,), ("line",), arguments=("OpenCL",)),
    Case("occa.cpp", "unchanged", (SAME,), ("line",), arguments=("OpenCL",)),
    Case("occa.cpp", "builds", (BUILD,), ("occa.cpp:",), arguments=("Serial",)),
    Case("occa.cpp", "small_copies", (SMALL,), ("line",), arguments=("OpenCL",)),
    *(Case("device.c", f"clean_{name}") for name in ("queue", "pinned", "blocks", "two_kernels", "memory")),
    *(Case("arrays.py", f"clean_{name}") for name in ("queue", "rarely", "blocks", "prepared")),
    *(Case("ranks.c", f"clean_{name}") for name in ("even", "sum", "halo", "turns", "overlap", "tests")),
    *(Case("team.c", f"clean_{name}") for name in ("even", "dynamic", "lock", "tasks", "alone")),
    *(Case("driver.cpp", f"clean_{name}") for name in ("stream", "two_streams", "pinned")),
    *(Case("occa.cpp", "clean", arguments=(mode,)) for mode in ("OpenCL", "Serial")),
]
