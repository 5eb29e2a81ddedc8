"""--papi against programs that know how many pages they touch for the first time: page faults need no PMU."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import occatrace
from occatrace._native import papi_refused
from tests.support.runs import OCCA_PROF, ROOT, Run, execute, profiled
from tests.support.suites.occa import Occa, ProfileOcca
from tests.support.timelines import perfetto

FAULTS = "perf::PAGE-FAULTS"
EVENTS = f"{FAULTS},perf::TASK-CLOCK"
REFUSED = papi_refused(EVENTS)
pytestmark = pytest.mark.skipif(bool(REFUSED), reason=f"PAPI cannot count here: {REFUSED}")

COUNTS = """
    SELECT c.value FROM papi_counts c JOIN kernel_runs r USING (thread, seq)
    JOIN processes p ON p.process = r.process
    WHERE counter = 'perf::PAGE-FAULTS' AND (p.ppid IN (SELECT pid FROM processes)) = {} ORDER BY r.start_ns"""


@pytest.mark.parametrize("recording", ["default", "minimal"])
@pytest.mark.parametrize("mode", ["Serial", "OpenMP"])
def test_kernels_and_their_teams(profile: ProfileOcca, gcc_occa: Occa, mode: str, recording: str) -> None:
    """The program counts the faults of the whole process around each call: none may be missing, none be added."""
    run = profile(gcc_occa, "counted", mode, 3, 500, recording=recording, OCCATRACE_PAPI=EVENTS, OMP_NUM_THREADS="3")
    assert run.status == 0, run.stderr
    around = [int(line) for line in run.stdout.split()]
    own, forked = around[:3], around[3:]
    assert len(forked) == (1 if mode == "Serial" else 0)
    with occatrace.open(run.folder) as opened:
        counts = [row[0] for row in opened.sql(COUNTS.format(False)).fetchall()][1:]
        assert all(500 * (i + 1) <= counts[i] <= own[i] for i in range(3)), (counts, own)
        if forked:
            (child,) = [row[0] for row in opened.sql(COUNTS.format(True)).fetchall()][1:]
            assert 7 * 500 <= child <= forked[0]
        rows = {(r["kind"], r["name"], r["counter"]): r for r in opened.report("papi_sum")}
        kernel = rows["kernel", "touchPages", FAULTS]
        assert kernel["calls"] == (6 if forked else 4)
        assert rows["kernel", "touchPages", "perf::TASK-CLOCK"]["total"] > 0
        if recording == "default":
            whole = rows["range", "all calls", FAULTS]
            assert whole["calls"] == 1 and whole["total"] >= sum(counts)
        rates = [r for r in opened.report("counters") if r["name"] == f"{FAULTS} in kernels"]
        assert sorted(r["samples"] for r in rates) == ([2, 4] if forked else [4])


def test_timeline_shows_rates(profile: ProfileOcca, gcc_occa: Occa, tmp_path: Path) -> None:
    run = profile(gcc_occa, "counted", "OpenMP", 2, 500, OCCATRACE_PAPI=FAULTS)
    path = tmp_path / "x.pftrace"
    assert execute([*OCCA_PROF, "timeline", run.folder, "-o", path]).returncode == 0
    values = perfetto(
        path,
        f"SELECT c.ts, c.value FROM counter c JOIN counter_track t ON t.id = c.track_id WHERE t.name = '{FAULTS}' ORDER BY ts",
    )
    counts = run.sql(
        "SELECT value * 1e9 / (end_ns - start_ns) FROM papi_counts JOIN kernel_runs USING (thread, seq) ORDER BY start_ns"
    )
    shown = [row.value for row in values]
    assert shown[0::2] == pytest.approx([rate for (rate,) in counts])  # in each call, and none between
    assert shown[1::2] == pytest.approx([0] * len(counts), abs=1e-3)


def built(out: Path, *options: str, compiler: str = "gcc") -> Path:
    source = ROOT / "tests/programs/counters/touch.c"
    subprocess.run(
        [compiler, "-Wall", "-Werror", f"-I{ROOT / 'include'}", source, "-o", out, *options, "-ldl"], check=True
    )
    return out


def test_threads_and_nested_ranges(tmp_path: Path) -> None:
    """Each thread closes what it opened; a range that ends in another thread than it began in has no counts."""
    program = built(tmp_path / "touch", "-pthread")
    run = profiled(Run, tmp_path / "run", [program, 20, 300], "--papi", EVENTS)
    assert run.status == 0, run.stderr
    first, last = map(int, run.stdout.split()[1:])
    assert last <= first + 2, "descriptors of threads that have ended"
    counts = run.sql(
        "SELECT r.name, value FROM papi_counts c JOIN ranges r USING (thread, seq) WHERE counter = 'perf::PAGE-FAULTS'"
    )
    inner, outer = (sorted(v for name, v in counts if name == wanted) for wanted in ("inner", "outer"))
    assert len(inner) == len(outer) == 20 and len(counts) == 40
    # What tracing itself touches for the first time is in the first few; in most there is nothing of it.
    assert inner[0] >= 300 and outer[0] >= 301 and inner[10] < 310


@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
def test_teams_of_both_runtimes_in_a_range(compiler: str, tmp_path: Path) -> None:
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}: tools/setup --test installs one")
    program = built(tmp_path / "touch", "-pthread", "-fopenmp", compiler=compiler)
    run = profiled(Run, tmp_path / "run", [program, 1, 900], "--papi", FAULTS)
    assert run.status == 0, run.stderr
    ((team,),) = run.sql("SELECT value FROM papi_counts c JOIN ranges r USING (thread, seq) WHERE r.name = 'team'")
    assert 900 <= team < 930  # of which the thread with the range touches a third


def test_a_program_with_papi_of_its_own(tmp_path: Path) -> None:
    program = built(tmp_path / "touch", "-pthread", "-DWITH_PAPI", "-lpapi")
    run = profiled(Run, tmp_path / "run", [program, 2, 300], "--papi", FAULTS)
    assert run.status == 0, run.stderr
    assert int(run.stdout.split()[1]) >= 300
    assert "uses PAPI itself and keeps it" in run.stderr
    assert run.sql("SELECT count(*) FROM papi_counts") == [(0,)]


def test_what_cannot_be_counted_is_said(tmp_path: Path) -> None:
    program = built(tmp_path / "touch", "-pthread")
    run = profiled(Run, tmp_path / "run", [program, 1, 300], "--papi", f"NO_SUCH_EVENT,{FAULTS}")
    assert run.status == 0 and "--papi NO_SUCH_EVENT: not counted: " in run.stderr
    assert run.sql("SELECT DISTINCT counter FROM papi_counts") == [(FAULTS,)]
    for wrong in ("a,,b", "", " ", ",".join("abcdefghijklmnopq"), "x" * 128):
        done = execute([*OCCA_PROF, "-o", tmp_path / "none", f"--papi={wrong}", program, 1, 1])
        assert (done.returncode, done.stdout) == (2, ""), wrong
        assert done.stderr.count("\n") <= 2 and "--papi" in done.stderr
        assert "papi_avail" in done.stderr or not wrong.strip()
