"""pyopencl on PoCL: its pools, arrays, builds and copies against what it says itself; programs of its kind, unharmed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.support import runs
from tests.support.suites.python import Profile, Run

pytest.importorskip("pyopencl")
PROGRAMS = runs.ROOT / "tests" / "programs" / "pyopencl"


def tagged(program: str) -> dict[str, int]:
    """The lines of a program that a comment names."""
    rows = enumerate((PROGRAMS / program).read_text().splitlines(), 1)
    return {text.rpartition("# line: ")[2]: n for n, text in rows if "# line: " in text}


def by_line(run: Run, report: str) -> dict[int, list[runs.Row]]:
    found: dict[int, list[runs.Row]] = {}
    for row in run.report(report):
        found.setdefault(int(row["source"].rpartition(":")[2]), []).append(row)
    return found


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, str]]:
    """What the demonstrations print untraced, and an environment in which their kernels are built by now."""
    environment = {"POCL_CACHE_DIR": str(tmp_path_factory.mktemp("pocl"))}
    done = runs.execute([sys.executable, PROGRAMS / "demonstrations.py"], **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout, environment


@pytest.mark.parametrize("options", [(), ("lines",)])
def test_demonstrations(profile: Profile, alone: tuple[str, dict[str, str]], options: tuple[str, ...]) -> None:
    stdout, environment = alone
    run = profile(sys.executable, PROGRAMS / "demonstrations.py", python=options, **environment)
    assert run.stdout == stdout
    said = [json.loads(line) for line in stdout.splitlines()]
    assert len(said) == 9
    launched: dict[str, int] = {}
    for one in said:
        for name, count in one["kernels"].items():
            launched[name] = launched.get(name, 0) + count
    recorded = run.sql("SELECT name, count(*) FROM activities WHERE kind = 'kernel' GROUP BY name")
    assert dict(recorded) == launched
    assert run.rows("SELECT * FROM losses") == []


def test_pools(profile: Profile) -> None:
    alone = runs.execute([sys.executable, PROGRAMS / "pools.py"])
    run = profile(sys.executable, PROGRAMS / "pools.py", python=("pools",))
    assert run.stdout == alone.stdout and run.status == 0, run.stderr
    truth = json.loads(run.stdout)
    assert truth["same class"] is True
    line = tagged("pools.py")
    pool, shared = run.report("python_pool_sum")
    assert (pool["name"], shared["name"]) == (
        "1 pyopencl.MemoryPool (ImmediateAllocator)",
        "2 pyopencl.SVMPool (SVMAllocator)",
    )
    assert pool["source"] == f"{PROGRAMS / 'pools.py'}:{line['pool']}"
    # What it says of itself: bytes that it has, bytes of what was asked for.
    of_pool, of_shared = truth["said"][:-1], truth["said"][-1]
    assert pool["held_high_bytes"] == max(said[0] for said in of_pool)
    assert pool["held_bytes"] == 0 and shared["held_high_bytes"] == of_shared[0]
    sizes = [size for (size,) in run.sql("SELECT bytes FROM pool_sizes WHERE pool = 1 ORDER BY time_ns")]
    wanted = iter(sizes)
    assert all(said[0] in wanted for said in of_pool[:1] + of_pool[3:4] + of_pool[5:6]), (sizes, of_pool)
    # 4 of 5000, 2 for 4500 and 5100, an array and its ten sums.
    assert (pool["allocations"], pool["frees"]) == (17, 17)
    assert pool["asked_bytes"] == 4 * 5000 + 4500 + 5100 + 11 * 10000
    assert pool["used_high_bytes"] == 2 * 5000 + 4500 + 5100 + 2 * 10000
    # The driver was asked for what the pool did not have, and for nothing else.
    buffers = run.sql("SELECT count(*), sum(bytes) FROM allocations WHERE api = 'opencl' AND kind = 'device'")
    (fresh,) = run.sql("SELECT count(*), sum(bytes) FROM pool_blocks WHERE pool = 1 AND NOT reused")
    assert buffers == [fresh] and fresh[0] == 17 - round(17 * pool["reused_percent"] / 100)
    within = run.sql(
        "SELECT count(*) FROM pool_blocks b JOIN allocations a ON a.thread = b.thread AND a.handle = b.memory"
        " AND a.start_ns BETWEEN b.start_ns - b.call_ns AND b.start_ns WHERE NOT b.reused AND b.pool = 1"
    )
    assert within == [(fresh[0],)]
    # Two of 5000 and 4500 were served again where the bins are the same; rounding is what the bins say.
    at_once = run.sql("SELECT bytes - asked FROM pool_blocks WHERE pool = 1 ORDER BY id LIMIT 6")
    two = run.sql("SELECT bytes - asked FROM pool_blocks WHERE pool = 1 AND asked = 10000 LIMIT 1")[0][0]
    rounding = sum(waste for (waste,) in at_once[2:]) + 2 * two
    assert pool["rounding_high_bytes"] == max(rounding, sum(waste for (waste,) in at_once[:4]))
    assert (shared["allocations"], shared["frees"], shared["asked_bytes"]) == (3, 3, 9000)
    assert round(shared["reused_percent"], 3) == round(200 / 3, 3)


def test_counters_of_pools(profile: Profile, tmp_path: Path) -> None:
    run = profile(sys.executable, PROGRAMS / "pools.py", python=("pools",))
    timeline = tmp_path / "run.pftrace"
    done = runs.execute([*runs.OCCA_PROF, "timeline", run.folder, "-o", timeline])
    assert done.returncode == 0, done.stderr
    content = timeline.read_bytes()
    for name in (b"pool 1 MemoryPool, held", b"pool 1 MemoryPool, in use", b"pool 2 SVMPool, held"):
        assert name in content, name


def test_memory_by_lines(profile: Profile) -> None:
    run = profile(sys.executable, PROGRAMS / "lives.py", python=("lines",))
    assert run.status == 0, run.stderr
    said = json.loads(run.stdout)
    line, found = tagged("lives.py"), by_line(run, "python_mem_sum")
    never, late, soon, unused = (found[line[name]][0] for name in ("never", "late", "soon", "unused"))
    assert (never["bytes"], never["in_use_bytes"], never["left_over"]) == (8001, 8001, 1)
    for row, name, size in ((late, "late", 8002), (soon, "soon", 8003)):
        (begin, finished), released, gone = said[name]
        assert (row["bytes"], row["in_use_bytes"], row["allocations"], row["unused"]) == (size, 0, 1, 0)
        assert released - finished <= row["idle_ns"] <= gone - begin
    assert (late["late"], late["late_bytes"]) == (1, 8002) and late["idle_ns"] >= 0.3e9
    (begin, _), _, gone = said["soon"]
    assert soon["late"] == 0 or gone - begin > 0.3e9
    assert (unused["unused"], unused["late"], unused["in_use_bytes"]) == (1, 0, 0)
    # Blocks of a pool by their own lines, beside the memory that the pool took for the first of them.
    blocks = {row["kind"]: row for row in found[line["block"]]}
    assert set(blocks) == {"pool block", "device"}
    assert (blocks["pool block"]["late"], blocks["pool block"]["late_bytes"]) == (1, 10000)
    (begin, finished), released, gone = said["block"]
    assert released - finished <= blocks["pool block"]["idle_ns"] <= gone - begin
    assert blocks["device"]["late"] == 0 and blocks["device"]["left_over"] == 1
    (again,) = found[line["again"]]
    assert (again["kind"], again["left_over"], again["in_use_bytes"]) == ("pool block", 1, 10000)
    # How often it was used: three times as an argument of a kernel, and by all others.
    uses = dict(run.sql("SELECT bytes, uses FROM allocations WHERE bytes BETWEEN 8000 AND 8004"))
    assert uses == {8000: 0, 8001: 6, 8002: 3, 8003: 1, 8004: 0}


def test_builds(profile: Profile, tmp_path: Path) -> None:
    environment = {
        "POCL_CACHE_DIR": str(tmp_path / "pocl"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PYOPENCL_NO_CACHE": "no",
    }
    line = tagged("builds.py")

    def built() -> dict[tuple[int, str], runs.Row]:
        run = profile(sys.executable, PROGRAMS / "builds.py", python=("lines",), **environment)
        assert run.stdout == "3.0\n", run.stderr
        rows = run.report("python_build_sum")
        # The same time as that of the API's calls within, and a little more.
        within = run.sql(
            "SELECT b.end_ns - b.start_ns >= sum(c.end_ns - c.start_ns), count(*) FROM python_builds b JOIN builds c"
            " ON c.thread = b.thread AND c.start_ns >= b.start_ns AND c.end_ns <= b.end_ns"
            " WHERE b.result <> 'failed' GROUP BY b.thread, b.start_ns, b.end_ns"
        )
        assert within and all(fits for fits, _ in within)
        return {(int(row["source"].rpartition(":")[2]), row["name"]): row for row in rows}

    first, second = built(), built()
    keys = {(line["left to the driver"], "twice"), (line["cached"], "one, two"), (line["wrong"], "wrong")}
    assert set(first) == set(second) == keys
    for row in (first[line["left to the driver"], "twice"], second[line["left to the driver"], "twice"]):
        assert (row["calls"], row["uncached"], row["built"], row["cached"]) == (2, 2, 0, 0)
    # Twice the same source: the second time, and in the second run, PoCL has it.
    assert first[line["left to the driver"], "twice"]["driver_hits"] == 1
    assert second[line["left to the driver"], "twice"]["driver_hits"] == 2
    one, two = first[line["cached"], "one, two"], second[line["cached"], "one, two"]
    assert (one["built"], one["cached"], two["built"], two["cached"]) == (1, 2, 0, 3)
    assert one["hash"] == two["hash"] and one["library"] == "pyopencl"
    assert first[line["wrong"], "wrong"]["failed"] == 1


def test_memory_of_copies(profile: Profile) -> None:
    run = profile(sys.executable, PROGRAMS / "copies.py", python=("off",))
    assert run.stdout == "done\n", run.stderr
    copies = run.sql(
        "SELECT bytes, kind, source, target FROM activities WHERE kind IN ('HtoD', 'DtoH', 'DtoD', 'HtoH') ORDER BY bytes"
    )
    ours = [row for row in copies if row[0] not in (1009, 1010)]
    assert ours == [
        (1001, "HtoD", "pageable", "device"),
        (1002, "DtoH", "device", "pageable"),
        (1003, "HtoD", "pinned", "device"),
        (1004, "DtoH", "device", "pinned"),
        (1005, "HtoD", "registered", "device"),
        (1006, "HtoD", "mapped", "device"),
        (1007, "DtoH", "device", "pageable"),
        (1011, "HtoD", "pageable", "device"),
        (1024, "HtoD", "pageable", "array"),
    ]
    assert {row[0]: row[2:] for row in copies if row[0] in (1009, 1010)} == {
        1009: ("pageable", "svm"),
        1010: ("svm", "pageable"),
    }
    names = {row["name"] for row in run.report("gpu_mem_size_sum")}
    assert names >= {"HtoD", "DtoH", "HtoD (pinned)", "DtoH (pinned)", "HtoD (registered)", "HtoD (mapped)"}
