"""OpenMP programs of which everything is known: counts are exact, times are what the program set."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import occatrace
from tests.support.suites.openmp import OCCA_PROF, RUNTIMES, Profile, Run, build, llvm_folder

MS = 1_000_000
PARTS = [
    "imbalance",
    "barriers",
    "many",
    "loops",
    "sections",
    "single",
    "tasks",
    "taskwait",
    "critical",
    "nested",
    "alone",
]
# Regions by the name of their line in truth.c, and threads of each.
REGIONS = {
    **{name: 1 for name in PARTS if name not in ("many", "loops", "nested")},
    **dict.fromkeys(("dynamic", "guided", "runtime", "static", "inner", "outer"), 1),
    "many": 50,
}


@pytest.fixture(scope="module", params=RUNTIMES)
def truth(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    program = build(request.param, "truth")
    folder = tmp_path_factory.mktemp("openmp") / "run"
    done = subprocess.run(
        [*OCCA_PROF, "-o", str(folder), str(program), *PARTS], text=True, capture_output=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return Run(folder, done.returncode, done.stdout, done.stderr)


def test_every_region_is_there_once_with_its_line(truth: Run) -> None:
    found = Counter(
        int(row["source"].rpartition(":")[2]) for row in truth.rows("SELECT source FROM omp_regions WHERE depth = 0")
    )
    assert found == {truth.lines[name]: count for name, count in REGIONS.items()}
    assert truth.calls["parallel"] == sum(REGIONS.values()) + 2  # two inside another
    assert truth.calls["implicit_task"] == 2 * truth.calls["parallel"] - 1  # one has one thread
    assert truth.lost == 0
    # LLVM's runtime also tells ITT of its regions: those are no marks of the program.
    assert not truth.rows("SELECT * FROM ranges")
    functions = {row["function"] for row in truth.regions("imbalance")}
    assert functions == {"imbalance"}
    assert all(Path(row["source"].rpartition(":")[0]).name == "truth.c" for row in truth.regions("many"))


def test_threads_of_every_region(truth: Run) -> None:
    for name in REGIONS:
        teams = [row["threads"] for row in truth.regions(name)]
        threads = 1 if name == "alone" else 2
        assert teams == [threads] * REGIONS[name], name
        assert [p["thread_num"] for p in truth.parts(name)] == list(range(threads)) * REGIONS[name], name


def test_imbalance(truth: Run) -> None:
    fast, slow = truth.parts("imbalance")
    assert fast["end_ns"] - fast["start_ns"] >= 20 * MS
    assert slow["end_ns"] - slow["start_ns"] >= 240 * MS
    # The fast one waits until the slow one has come.
    assert fast["join_ns"] - slow["join_ns"] == slow["end_ns"] - fast["end_ns"] > 5 * MS
    for part in (fast, slow):
        assert part["join_ns"] == part["region_end"] - part["end_ns"]
        assert part["region_start"] <= part["start_ns"] < part["end_ns"] <= part["region_end"]
    row = next(r for r in report(truth, "openmp_sum") if r["source"].endswith(f":{truth.lines['imbalance']}"))
    work = [part["end_ns"] - part["start_ns"] for part in (fast, slow)]
    assert row["imbalance"] == pytest.approx(100 * (max(work) - sum(work) / 2) / max(work))
    assert row["barrier_ns"] == fast["join_ns"] + slow["join_ns"]
    assert row["threads"] == "2"


def test_barriers_inside(truth: Run) -> None:
    slow, fast = truth.parts("barriers")
    assert (slow["barriers"], fast["barriers"]) == (2, 2)
    # 210 and 10 ms before the first barrier: the second thread waits the difference.
    assert fast["barrier_ns"] - slow["barrier_ns"] > 10 * MS
    for part in (slow, fast):
        worked = part["end_ns"] - part["start_ns"] - part["barrier_ns"]
        assert worked >= (215 if part is slow else 15) * MS


def test_tasks_are_counted_wherever_they_run(truth: Run) -> None:
    assert truth.calls["task"] == truth.calls["task_create"] == 10 + 3 + 1
    for name, count, least in (("tasks", 10, 40), ("taskwait", 4, 7)):
        parts = truth.parts(name)
        assert sum(part["tasks"] for part in parts) == count
        assert sum(part["task_ns"] for part in parts) >= least * MS
        for part in parts:
            # Waits are without the tasks: together they fit into the region.
            inside = part["task_ns"] - part["late_ns"]
            assert inside + part["barrier_ns"] + part["wait_ns"] <= part["end_ns"] - part["start_ns"]
            assert part["late_ns"] + part["join_ns"] <= part["region_end"] - part["end_ns"] + 1000
    assert sum(part["waits"] for part in truth.parts("taskwait")) == 2


def test_critical_sections(truth: Run) -> None:
    assert truth.calls["critical"] == truth.calls["critical_wait"] == 6
    parts = truth.parts("critical")
    assert [part["mutexes"] for part in parts] == [3, 3]
    # One at a time: while one thread is in it, for 5 ms, the other cannot be.
    assert parts[0]["region_end"] - parts[0]["region_start"] >= 30 * MS
    assert sum(part["mutex_ns"] + part["join_ns"] for part in parts) >= 14 * MS
    (held,) = truth.rows("SELECT min(min_ns) AS shortest FROM call_stats WHERE function = 'critical'")
    assert held["shortest"] >= 5 * MS * 0.999  # the tick counter's rate is known to a thousandth


def test_nested_regions_know_their_outer_one(truth: Run) -> None:
    (outer,) = truth.regions("outer")
    inner = truth.rows("SELECT * FROM omp_regions WHERE depth = 1")
    assert len(inner) == 2
    assert {(row["parent_thread"], row["parent_seq"]) for row in inner} == {(outer["thread"], outer["seq"])}
    assert len({row["thread"] for row in inner}) == 2
    rows = report(truth, "openmp_sum")
    assert [row["share"] is None for row in rows] == ["nested" in row["kind"] for row in rows]
    assert sum(row["share"] or 0 for row in rows) == pytest.approx(100)


def test_schedules_and_sections(truth: Run) -> None:
    runtime = truth.regions("dynamic")[0]["runtime"]
    # Static loops are the compiler's own affair with libgomp.
    assert truth.calls["loop"] == (10 if runtime == "libgomp" else 12)
    assert truth.calls["sections"] == 2
    if runtime == "libgomp":
        assert truth.regions("sections")[0]["kind"] == "parallel sections"


def test_names_of_instances_of_a_template(profile: Profile) -> None:
    run = profile([build("libgomp", "templates", "-lstdc++", source="templates.cpp")])
    with occatrace.open(run.folder) as opened:
        names = {names: {row["name"] for row in opened.report("openmp_sum", names=names)} for names in ("short", "raw")}
    assert names["short"] == {"parts::Field::move"}
    assert len(names["raw"]) == 2 and all("Field<double>::move<" in name for name in names["raw"])


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_full_has_every_event(profile: Profile, runtime: str) -> None:
    run = profile([build(runtime, "truth"), "loops", "tasks", "critical"], mode="full")
    loops = run.rows(
        """SELECT args.schedule AS schedule, args.iterations AS iterations, count(*) AS n FROM "openmp.loop" GROUP BY ALL"""
    )
    found = {(row["schedule"], row["iterations"]): row["n"] for row in loops}
    dynamic, guided = 2, 3
    assert found[dynamic, 100] >= 2 <= found[guided, 100]
    assert found[dynamic, 10] == found[guided, 10] == 2
    tasks = run.rows('SELECT end_ns - start_ns AS ns FROM "openmp.task"')
    assert len(tasks) == 10 and min(row["ns"] for row in tasks) >= 4 * MS
    held = run.rows('SELECT end_ns - start_ns AS ns FROM "openmp.critical"')
    assert len(held) == 6 and min(row["ns"] for row in held) >= 5 * MS
    assert run.lost == 0


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_tally_counts_the_same(profile: Profile, runtime: str) -> None:
    run = profile([build(runtime, "truth"), "many", "tasks", "critical"], mode="tally")
    assert run.calls["parallel"] == 52
    assert run.calls["implicit_task"] == 104
    assert run.calls["task"] == 10
    assert run.calls["critical"] == 6
    assert not run.rows("SELECT * FROM omp_regions")


def report(run: Run, name: str) -> list[dict[str, Any]]:
    with occatrace.open(run.folder) as opened:
        return [dict(row) for row in opened.report(name)]


# ---- devices ----

SIZE = 8000


@pytest.fixture(scope="module")
def offload(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The device is the processor: LLVM's plugin for x86-64."""
    folder = llvm_folder()
    if folder is None or not (shutil.which("clang-offload-packager", path=f"{folder.parent}/bin")):
        pytest.skip("needs clang that can offload (Debian: clang-19, clang-tools-19, libomp-19-dev)")
    os.environ["PATH"] += f":{folder.parent}/bin"
    program = build("ompt", "offload", "-fopenmp-targets=x86_64-pc-linux-gnu")
    out = tmp_path_factory.mktemp("offload") / "run"
    environment = os.environ | {"LD_LIBRARY_PATH": str(folder)}
    done = subprocess.run(
        [*OCCA_PROF, "-o", str(out), str(program)],
        text=True,
        capture_output=True,
        env=environment,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "devices 0" not in done.stdout, "the plugin of LLVM's offloading does not work here"
    return Run(out, done.returncode, done.stdout, done.stderr)


def test_offload_counts_and_bytes(offload: Run) -> None:
    assert offload.stdout.endswith("sum 1000 999\n")
    rows = offload.rows("SELECT operation, count(*) AS n, sum(bytes) AS bytes FROM omp_targets GROUP BY ALL")
    found = {row["operation"]: (row["n"], row["bytes"]) for row in rows}
    assert found == {
        "target": (4, 0),
        "submit": (4, 0),
        # a and b of the data region, a of enter data, the sum, and omp_target_alloc
        "alloc": (5, 4 * SIZE + 8),
        "free": (5, 0),
        "HtoD": (4, 3 * SIZE + 8),
        "DtoH": (4, 3 * SIZE + 8),
        "target enter data": (2, 0),
        "target exit data": (2, 0),
        "target update": (1, 0),
    }
    assert offload.lost == 0
    places = {
        row["source"].rpartition(":")[2]
        for row in offload.rows("SELECT source FROM omp_targets WHERE operation = 'target'")
    }
    # To the call of a target region clang gives no line: the nearest one stands for it.
    assert len(places) == 2 and any(abs(int(place) - offload.lines["target"]) <= 2 for place in places), places


def test_offload_work_and_memory(offload: Run) -> None:
    work = offload.rows("SELECT kind, count(*) AS n, sum(bytes) AS bytes FROM activities GROUP BY ALL")
    assert {row["kind"]: (row["n"], row["bytes"]) for row in work} == {
        "kernel": (4, 0),
        "HtoD": (4, 3 * SIZE + 8),
        "DtoH": (4, 3 * SIZE + 8),
    }
    memory = offload.rows("SELECT bytes, kind, device, end_ns FROM allocations WHERE api = 'openmp' ORDER BY start_ns")
    assert [row["bytes"] for row in memory] == [SIZE, SIZE, SIZE, 8, SIZE]
    assert all(row["kind"] == "device" and row["device"] == 1 and row["end_ns"] for row in memory)


def test_host_regions_of_a_target_are_inside_it(offload: Run) -> None:
    inside = offload.rows(
        "SELECT r.*, t.operation FROM omp_regions r JOIN omp_targets t ON t.thread = r.thread AND t.seq = r.target_seq"
    )
    everything = offload.rows("SELECT * FROM omp_regions")
    assert inside and len(inside) == len(everything)
    assert {row["operation"] for row in inside} == {"target"}
    assert all(row["share"] is None for row in report(offload, "openmp_sum"))
    top = [row for row in report(offload, "openmp_target_sum") if row["parent"] is None]
    assert sum(row["share"] for row in top) == pytest.approx(100)


def test_libgomp_target_constructs(profile: Profile) -> None:
    """Without a device: the regions run on the host, and nothing moves. What is mapped is known."""
    run = profile([build("libgomp", "offload")])
    assert run.stdout.endswith("sum 1000 999\n")
    rows = run.rows(
        """SELECT operation, count(*) AS n, sum(bytes) AS bytes, sum(mapped_to) AS mapped_to,
        sum(mapped_from) AS mapped_from FROM omp_targets GROUP BY ALL"""
    )
    found = {row["operation"]: (row["n"], row["bytes"], row["mapped_to"], row["mapped_from"]) for row in rows}
    assert found["target data"] == (1, 0, SIZE, SIZE)
    assert found["target update"] == (1, 0, 0, SIZE)
    assert found["target enter data"] == (1, 0, SIZE, 0)
    assert found["target exit data"] == (2, 0, 0, 0)  # the end of the data region, and delete
    assert found["target"][0] == 4
    assert found["alloc"] == (1, SIZE, 0, 0)
    assert found["free"][0] == 1
    (memory,) = run.rows("SELECT bytes, end_ns FROM allocations WHERE api = 'openmp'")
    assert memory["bytes"] == SIZE and memory["end_ns"]
