"""Each option on OpenCL, on OCCA in each mode, in four ranks and after fork, all in one job: what was chosen is complete, what
was not is absent, and counted: recorded and excluded calls are together those of a run without a choice."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.runs import OCCA_PROF, execute, until
from tests.support.suites.choosing import KINDS, NODE_NAMES, Grid, Grids, Steps, Thing, Which, lost

REASONS = ("kernel", "function", "thread", "tag", "queue")


@dataclass(frozen=True)
class Case:
    """Options, and what they choose."""

    options: str
    calls: Which  # of OCCA's calls
    work: Which  # of device work
    reasons: tuple[str, ...]  # for which the rest was left out


def both(options: str, which: Which, *reasons: str) -> Case:
    return Case(options, which, which, reasons)


def kernels(which: Which) -> Which:
    """Of kernels only some, of copies all."""
    return lambda t: not t.is_kernel or which(t)


def tagged(t: Thing) -> bool:
    return t.kind != "opencl" and (t.name == "scaleTwice" or not t.is_kernel)


CASES = {
    "names": both("--kernels ^s --exclude-kernels pin", kernels(lambda t: t.name == "scaleTwice"), "kernel"),
    "iterations": both(
        "--kernel-iterations 2-4,9,14-", kernels(lambda t: t.nth in (2, 3, 4, 9) or t.nth >= 14), "kernel"
    ),
    # OCCA's own calls are of no queue.
    "devices by number": Case("--devices 1", lambda t: True, lambda t: t.device == 1, ("queue",)),
    "devices by name": Case("--devices basic-*", lambda t: True, lambda t: t.device == 0, ("queue",)),
    "streams": Case("--streams 0,2", lambda t: True, lambda t: t.queue != 1, ("queue",)),
    "threads": both("--threads work*", lambda t: t.thread == "worker-1", "thread"),
    "main": both("--threads main", lambda t: t.thread == "main", "thread"),
    "functions": Case("--functions clEnqueue*,occa::kernel::run", lambda t: t.is_kernel, lambda t: True, ("function",)),
    "not functions": Case(
        "--exclude-functions clEnqueueNDRange*,occa::memory::copy*",
        lambda t: t.is_kernel,
        lambda t: not t.is_kernel,
        ("function",),
    ),
    "tagged": both("--only-tagged", tagged, "tag"),
    "labels": both("--labels nothing,resid*", tagged, "tag"),
    "no label": both("--labels other", lambda t: False, "tag"),
    "several": Case(
        "--threads main --streams 0 --kernels add",
        lambda t: t.thread == "main" and (not t.is_kernel or t.name == "addVectors"),
        lambda t: t.queue == 0 and (not t.is_kernel or t.name == "addVectors"),
        ("thread", "queue", "kernel"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what(name: str, grids: Grids, everything: Grid, tmp_path: Path) -> None:
    case = CASES[name]
    grid = grids(tmp_path, *case.options.split())
    grid.check(case.calls, case.work)
    # A kernel that OCCA did not launch is one call, counted by its name; what an OCCA kernel called is counted beside it.
    left: Counter[tuple[str, bool]] = Counter()
    for reason in REASONS:
        calls = grid.left_out(reason)
        assert (reason in case.reasons) or not calls
        left += calls
    named = grid.left_out("kernel", named=True)
    left += Counter({who: n for who, n in named.items() if who[0] == "opencl"})
    assert grid.total + left == everything.total
    if "kernel" in case.reasons and len(case.reasons) == 1:
        assert named == Counter((t.kind, t.child) for t in grid.did if not case.calls(t))
    assert "excluded: " in grid.stderr


@pytest.mark.parametrize("options", ["--level opencl=tally", "-m tally --level occa=default"])
def test_levels(options: str, grids: Grids, everything: Grid, tmp_path: Path) -> None:
    """OpenCL is only counted, OCCA's calls are all there: none is missing, and there is no device work."""
    grid = grids(tmp_path, *options.split())
    grid.check(lambda t: True, lambda t: False)
    sources = grid.sql("SELECT DISTINCT api, source FROM call_stats ORDER BY ALL")
    assert sources == [("occa", "event"), ("opencl", "tally")]
    if "-m" not in options:
        assert grid.total == everything.total


SOLVED = {"stop": (2, 3), "repeat": (2, 3, 5), "repeat:1": (2, 3), "repeat:2": (2, 3, 5)}


@pytest.mark.parametrize("what", ["api", "range:solve"])
@pytest.mark.parametrize("end", ["stop", "repeat", "repeat:1"])
def test_ranges(what: str, end: str, grids: Grids, tmp_path: Path) -> None:
    """From the program's calls, or in a range of its own; each process has its own."""
    more = ("api",) if what == "api" else ()
    grid = grids(tmp_path, "--capture-range", what, "--capture-range-end", end, more=more)
    steps = SOLVED[end]
    grid.check(lambda t: t.thread == "main" and t.step in steps)
    seen = grid.sql("SELECT value, count(*) FROM counters WHERE name = 'step' GROUP BY value ORDER BY value")
    # The range begins with the step.
    assert seen == [(s, 2 * len(KINDS)) for s in steps]
    spans = grid.sql("SELECT process, count(*) FROM captures GROUP BY process ORDER BY process")
    assert spans == [(p + 1, 2 if 5 in steps else 1) for p in range(2 * len(KINDS))]
    assert "captured " in grid.stderr


# ---- by the clock, and from another shell: on two nodes ----

STEP = 8  # kernels that a step launches


def recorded_steps(grid: Grid) -> Mapping[int, Mapping[int, int]]:
    """Of each process the steps of which the run has the begin, and how many kernels from there to the next one."""
    launches = (
        "SELECT process, start_ns FROM kernel_runs UNION ALL"
        " SELECT process, queued_ns FROM activities WHERE kind = 'kernel' AND run_seq IS NULL"
    )
    rows = grid.sql(
        "SELECT p.pid, c.value::INTEGER, count(l.start_ns) FROM"
        " (SELECT *, lead(time_ns, 1, 9e18) OVER (PARTITION BY process ORDER BY time_ns) AS next FROM counters WHERE name = 'step') c"
        f" JOIN processes p USING (process) LEFT JOIN ({launches}) l"
        " ON l.process = c.process AND l.start_ns >= c.time_ns AND l.start_ns < c.next GROUP BY ALL"
    )
    out: dict[int, dict[int, int]] = {}
    for pid, step, kernels in rows:
        out.setdefault(pid, {})[step] = kernels
    return out


def command(steps: Steps, what: str, turns: int) -> tuple[Mapping[int, int], Mapping[int, int]]:
    """Turn the switch from a shell on the first node; the steps that were done before, and after all have heard of it."""
    before = steps.now
    done = execute([*OCCA_PROF, what, steps.folder / "run"], OCCATRACE_HOST=NODE_NAMES[0])
    assert done.returncode == 0 and "on node1" in done.stderr, done.stderr
    steps.turns(turns)
    after = steps.now
    steps.further(5)
    return before, after


def test_commands_reach_all_ranks_on_all_nodes(grids: Grids, tmp_path: Path) -> None:
    with grids.going_on(tmp_path, "--start-paused") as steps:
        turned = [command(steps, what, i + 1) for i, what in enumerate(("resume", "pause", "start", "stop"))]
        refused = execute([*OCCA_PROF, "resume", steps.folder / "run"], OCCATRACE_HOST=NODE_NAMES[0])
        assert refused.returncode == 2 and "was ended" in refused.stderr
    grid = grids.ended(tmp_path)
    found = recorded_steps(grid)
    assert found.keys() == turned[0][0].keys() and lost(grid) == 0
    for pid, steps_of in found.items():
        (_, on), (off, paused), (resumed, again), (end, ended) = ((before[pid], after[pid]) for before, after in turned)
        # What was begun after all had heard of it, and done before the next turn, is whole; and what was not is not there.
        for first, last in ((on + 2, off), (again + 2, end)):
            assert {s: steps_of.get(s) for s in range(first, last)} == dict.fromkeys(range(first, last), STEP)
        absent = {*range(1, turned[0][0][pid] + 1), *range(paused + 2, resumed + 1)}
        assert not absent & steps_of.keys() and max(steps_of) <= ended + 1
        assert sum(steps_of.values()) <= STEP * (len(steps_of) + 2)
    captures = json.loads((grid.folder / "run.json").read_text())["captures"]
    assert {host: len(spans) for host, spans in captures.items()} == dict.fromkeys(NODE_NAMES, 2)
    assert "captured " in grid.stderr


@pytest.mark.parametrize(
    ("options", "turns", "spans"),
    [
        ("--delay 300ms --duration 400ms", 2, 1),
        ("--collect 300ms:200ms:2", 4, 2),
        ("--delay 100ms --collect 100ms:300ms:0 --duration 700ms", 4, 2),
    ],
)
def test_by_the_clock(options: str, turns: int, spans: int, grids: Grids, tmp_path: Path) -> None:
    with grids.going_on(tmp_path, *options.split()) as steps:
        steps.turns(turns)
        steps.further(3)
    grid = grids.ended(tmp_path)
    captures = json.loads((grid.folder / "run.json").read_text())["captures"]
    assert {host: len(of) for host, of in captures.items()} == dict.fromkeys(NODE_NAMES, spans)
    assert lost(grid) == 0
    last = {t.pid: t.step for t in grid.did if t.thread == "main"}
    rows = grid.sql(
        "SELECT p.pid, p.host, c.value::INTEGER, c.time_ns FROM counters c JOIN processes p USING (process) WHERE c.name = 'step'"
    )
    period = {(pid, step): sum(begin <= at for begin, _ in captures[host]) for pid, host, step, at in rows}
    for pid, steps_of in recorded_steps(grid).items():
        assert len(steps_of) < last[pid] and last[pid] not in steps_of
        # Whole from each to the next of the same period: on a busy machine a step may begin in one and end in another.
        whole = [s for s in steps_of if period[pid, s] == period.get((pid, s + 1))]
        assert {s: steps_of[s] for s in whole} == dict.fromkeys(whole, STEP)
        assert len(steps_of) - len(whole) <= spans
    inside = " OR ".join(
        f"(p.host = '{host}' AND c.time_ns BETWEEN {begin} AND {end})"
        for host, of in captures.items()
        for begin, end in of
    )
    ((outside,),) = grid.sql(f"SELECT count(*) FROM counters c JOIN processes p USING (process) WHERE NOT ({inside})")
    assert outside <= spans * 2 * len(KINDS)  # asked before the turn, written after it


def test_events_end_at_a_size_and_counts_go_on(grids: Grids, tmp_path: Path) -> None:
    """Each call is there, as an event or in a count, on OpenCL and OCCA, in ranks and children."""
    limit = 100 << 10
    with grids.going_on(tmp_path, "--max-size", "100K", fast=True) as steps:
        traces = [tmp_path / "run" / "trace" / node for node in NODE_NAMES]
        until(lambda: all(size_of(trace) > limit for trace in traces), "the traces grow")
        steps.events_off()
        steps.further(5)
    grid = grids.ended(tmp_path)
    assert "--max-size" in grid.stderr and lost(grid) == 0
    rows = grid.sql(
        "SELECT p.pid, source, sum(calls)::BIGINT FROM call_stats JOIN processes p USING (process)"
        " WHERE function = CASE p.rank WHEN 0 THEN 'clEnqueueNDRangeKernel' ELSE 'occa::kernel::run' END GROUP BY ALL"
    )
    by_source = Counter({(pid, source): calls for pid, source, calls in rows})
    done = Counter(t.pid for t in grid.did if t.is_kernel)
    for pid, kernels in done.items():
        assert by_source[pid, "event"] + by_source[pid, "tally"] == kernels
        assert by_source[pid, "event"] > STEP and by_source[pid, "tally"] > 5 * STEP


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
