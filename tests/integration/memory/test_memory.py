"""Memory of real programs: the curve, the high water and the leaks against the ledger that the program itself keeps."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from importlib.util import find_spec

import numpy as np
import pytest

import occatrace
from occatrace.api import Run
from occatrace.cli.dispatch import main
from tests.support.suites.occa import ProfileOcca, occa_build
from tests.support.suites.opencl import POCL, PROGRAMS, Profile

CURVE = """
    SELECT sum(change) OVER (ORDER BY moment, change DESC ROWS UNBOUNDED PRECEDING)::BIGINT AS in_use FROM (
        SELECT start_ns AS moment, bytes::BIGINT AS change FROM allocations WHERE {where}
        UNION ALL SELECT end_ns, -bytes::BIGINT FROM allocations WHERE end_ns IS NOT NULL AND {where})
    ORDER BY moment, change DESC"""


def curve(run: Run, where: str) -> list[int]:
    return [row[0] for row in run.sql(CURVE.format(where=where)).fetchall()]


def test_opencl_memory(platforms: Mapping[str, str], profile: Profile) -> None:
    pytest.importorskip("pyopencl")
    del platforms
    traced = profile(sys.executable, PROGRAMS / "memory_work.py", CASES_PLATFORM=POCL)
    truth = traced.truth
    with occatrace.open(traced.folder) as run:
        usage = {row["kind"]: row for row in run.report("mem_usage")}
        for kind in ("device", "host", "svm", "image", "wrapped"):
            sums = np.cumsum([change for of, change in truth["changes"] if of == kind])
            assert curve(run, f"kind = '{kind}'") == sums.tolist(), kind
            assert usage[kind]["high_water_bytes"] == sums.max() and usage[kind]["in_use_bytes"] == sums[-1], kind
            changes = np.array([change for of, change in truth["changes"] if of == kind])
            assert (usage[kind]["allocations"], usage[kind]["frees"]) == ((changes > 0).sum(), (changes < 0).sum())
        whole = np.cumsum([change for of, change in truth["changes"] if of != "wrapped"])
        assert usage["all"]["high_water_bytes"] == whole.max() and usage["all"]["in_use_bytes"] == whole[-1]
        # A sub-buffer has a handle of its own and no bytes; it ends before the parent that it holds.
        ((part, parent),) = run.sql(
            "SELECT s.end_ns, p.end_ns FROM allocations s JOIN allocations p ON p.handle = s.parent AND p.bytes = 1 << 20"
            " WHERE s.kind = 'slice'"
        ).fetchall()
        assert part <= parent and usage["slice"]["bytes"] is None
        ((ended, kernel),) = run.sql(
            "SELECT a.end_ns, k.end_ns FROM allocations a, activities k WHERE a.bytes = 1 << 14 AND k.kind = 'kernel'"
        ).fetchall()
        assert ended >= kernel
        (leak,) = run.report("mem_leaks")
        assert [int(leak["handle"], 16), leak["bytes"]] == truth["leak"] and leak["name"] == "clCreateBuffer"
        (churn,) = run.report("mem_churn")
        assert (churn["bytes"], churn["allocations"], churn["frees"], churn["at_once"]) == (5000, 30, 30, 1)


@pytest.mark.parametrize(("build", "mode"), [("gcc", "Serial"), ("clang", "Serial"), ("gcc", "OpenCL")])
def test_occa_memory(profile_occa: ProfileOcca, build: str, mode: str) -> None:
    traced = profile_occa(occa_build(build), "memory", mode)
    assert traced.status == 0, traced.stderr
    truth = json.loads(traced.stdout.splitlines()[0])
    with occatrace.open(traced.folder) as run:
        sums = np.cumsum(truth["changes"])
        assert curve(run, "api = 'occa' AND kind = 'device'") == sums.tolist()
        usage = {(row["api"], row["kind"]): row for row in run.report("mem_usage")}
        occa = usage["occa", "device"]
        assert (occa["high_water_bytes"], occa["in_use_bytes"]) == (truth["most"], truth["left"])
        assert occa["name"] == mode and usage["occa", "slice"]["frees"] == 1
        # Listed once, although in a device mode there is a buffer under it.
        (leak,) = run.report("mem_leaks")
        assert (leak["bytes"], leak["device"], leak["name"]) == (truth["leak"], mode, "occa::device::malloc")
        (churn,) = run.report("mem_churn")
        assert (churn["bytes"], churn["allocations"], churn["frees"]) == (1000, 20, 20)
        if mode == "OpenCL":
            below = usage["opencl", "device"]
            assert below["occa_bytes"] == below["bytes"] == occa["bytes"]
            assert (below["high_water_bytes"], below["in_use_bytes"]) == (truth["most"], truth["left"])
        # Distinct memory arguments: parts of 1, 2 and 4; 1 and 2 (one of them twice); a slice of 1.
        part = truth["part"]
        calls = run.sql(
            "SELECT name, memory_args, memory_bytes FROM kernel_runs JOIN kernels USING (kernel) ORDER BY kernel_runs.start_ns"
        ).fetchall()
        assert calls == [
            *[("addVectors", 3, 7 * part)] * 5,
            *[("addVectors", 2, 3 * part)] * 3,
            ("scaleTwice", 1, part),
        ]
        # The bandwidth is bytes over time of exactly these calls.
        query = (
            "SELECT k.name, sum(r.end_ns - r.start_ns) FROM kernel_runs r JOIN kernels k USING (kernel) GROUP BY k.name"
        )
        if mode == "OpenCL":
            query = (
                "SELECT k.name, sum(a.end_ns - a.start_ns) FROM activities a JOIN kernels k USING (kernel)"
                " WHERE a.kind = 'kernel' GROUP BY k.name"
            )
        durations = {name: int(ns) for name, ns in run.sql(query).fetchall()}
        for row, total, count in zip(run.report("occa_kern_bw"), (5 * 7 + 3 * 3, 1), (8, 1), strict=True):
            assert (row["bytes"], row["calls"], row["mode"]) == (total * part, count, mode)
            assert row["gb_per_s"] == pytest.approx(total * part / durations[row["name"]])


def test_builds_and_the_cache(profile_occa: ProfileOcca, tmp_path_factory: pytest.TempPathFactory) -> None:
    """An empty cache: the first kernel of the file is compiled, the second finds it; then both do."""
    cache = str(tmp_path_factory.mktemp("cache"))
    seen = []
    for _ in range(2):
        traced = profile_occa(occa_build("gcc"), "memory", "Serial", OCCA_CACHE_DIR=cache)
        with occatrace.open(traced.folder) as run:
            rows = {row["name"]: row for row in run.report("occa_kern_build_sum")}
        seen.append({name: (row["builds"], row["hits"], row["host_compiler_ns"] > 0) for name, row in rows.items()})
    assert seen[0] == {"addVectors": (1, 0, True), "scaleTwice": (1, 1, False)}
    assert seen[1] == {"addVectors": (1, 1, False), "scaleTwice": (1, 1, False)}


@pytest.mark.parametrize(
    ("program", "build", "mode"), [("capi", "gcc", "Serial"), ("capi", "clang", "OpenCL"), ("pyapi", "gcc", "Serial")]
)
def test_memory_arguments_of_c_and_python(profile_occa: ProfileOcca, program: str, build: str, mode: str) -> None:
    """Ten calls with three arrays of 1000 floats."""
    if program == "pyapi" and find_spec("occa") is None:  # importing it fails where OCCA_DIR is set
        pytest.skip("OCCA's Python package is not installed")
    traced = profile_occa(occa_build(build), program, mode, 10)
    assert traced.status == 0, traced.stderr
    with occatrace.open(traced.folder) as run:
        (row,) = run.report("occa_kern_bw")
    assert (row["name"], row["calls"], row["args"], row["bytes"]) == ("addVectors", 10, 3, 10 * 3 * 4000)


def test_nothing_is_said_of_what_was_not_recorded(
    profile_occa: ProfileOcca, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the level tally there are no allocations, no kernel calls, no builds: the reports say so."""
    traced = profile_occa(occa_build("gcc"), "memory", "Serial", recording="tally")
    for name in ("mem_usage", "mem_leaks", "mem_churn", "occa_kern_bw", "occa_kern_build_sum"):
        assert main(["report", str(traced.folder), "--report", name]) == 0
        out = capsys.readouterr().out
        assert "at the level tally" in out, out
