"""The stock babeltrace2 command with our plug-in: the table of a trace's calls, against numpy over the columns."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import occatrace
from occatrace import _native
from occatrace.core import model
from occatrace.run import install
from tests.support import traces

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests" / "golden"
EXAMPLES = ROOT / "examples" / "babeltrace2"

pytestmark = pytest.mark.skipif(bool(traces.why_no_recording()), reason=traces.why_no_recording())


def _summary(trace: Path) -> dict[str, list[str]]:
    command = ["babeltrace2", f"--plugin-path={install.PLUGINS}", str(trace), "--component=sink.occatrace.summary"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return {line.split()[-1]: line.split()[:-1] for line in done.stdout.splitlines()[1:]}


def test_summary(tmp_path: Path) -> None:
    trace = traces.record(tmp_path / "calls", "3", "5000", "calls", events="columns_test:call")
    batches = [batch.columns for batch in _native.Reader(trace)]
    times = np.concatenate([each["ts"] - each["start"] for each in batches])
    assert _summary(trace) == {
        "columns_test:call": [
            "100.00",
            str(times.sum()),
            "15000",
            str(times.sum() // 15000),
            str(times.min()),
            str(times.max()),
        ]
    }


def test_events_that_are_no_calls_are_counted(tmp_path: Path) -> None:
    trace = traces.record(tmp_path / "all", "1", "100")
    summary = _summary(trace)
    assert summary["columns_test:text"] == ["100"]
    assert len(summary) == 7


# ---- filter.occatrace.calls ----


def _golden(name: str, folder: Path) -> Path:
    with tarfile.open(GOLDEN / name / "trace.tar.xz") as archive:
        archive.extractall(folder)
    return folder


def _filtered(run: Path, component: str = "filter.occatrace.calls") -> list[str]:
    command = ["babeltrace2", f"--plugin-path={install.PLUGINS}", str(run / "trace"), f"--component={component}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def _truth(run: Path) -> tuple[Counter[tuple[str, ...]], int]:
    """Every call (api, name, thread, seq, start, duration) and the number of pieces of device work, by our own decoder."""
    calls: Counter[tuple[str, ...]] = Counter()
    work = 0
    (host,) = (run / "trace").iterdir()
    functions = model.load().by_event
    for batch in _native.Reader(host):
        if batch.event == "occatrace_device:activity":
            work += len(batch)
        if batch.event not in functions:
            continue
        c = batch.columns
        api, name = batch.event.removeprefix("occatrace_").split(":")
        for tid, seq, start, end in zip(*(c[n].tolist() for n in ("tid", "seq", "start", "ts")), strict=True):
            calls[api, name, str(tid), str(seq), str(start), str(end - start)] += 1
    return calls, work


_CALL = re.compile(
    r' call: \{ api = "(\w+)", name = "(\w+)", process = (\d+), thread = (\d+), seq = (\d+), start = (\d+),'
    r" duration = (\d+), result = \"(.*?)\", arguments = \"(.*)\" \}$"
)


@pytest.mark.parametrize("name", ["demo-opencl", "demo-serial"])
def test_calls_as_plain_messages(name: str, tmp_path: Path) -> None:
    run = _golden(name, tmp_path)
    calls, work = _truth(run)
    lines = _filtered(run)
    found = [match for line in lines if (match := _CALL.search(line))]
    assert Counter((m[1], m[2], m[4], m[5], m[6], m[7]) for m in found) == calls
    assert sum(" work: { kind = " in line for line in lines) == work == len(lines) - len(found)
    times = [line.split("]")[0] for line in lines]
    assert times == sorted(times)
    with occatrace.open(run) as tables:
        pids = {
            str(row[0]): str(row[1])
            for row in tables.sql("SELECT tid, pid FROM threads JOIN processes USING (process)").fetchall()
        }
        assert {m[4]: m[3] for m in found} == {tid: pids[tid] for tid in {m[4] for m in found}}
        if work:
            kernels = tables.sql("SELECT name, count(*) FROM activities GROUP BY name").fetchall()
            named = Counter(m[1] for line in lines if (m := re.search(r'kind = "\w+", name = "(\w+)"', line)))
            assert dict(kernels) == named
            # An enumeration by its name, a list by its elements.
            create = next(m for m in found if m[2] == "clCreateContext")
            assert re.fullmatch(
                r"properties=\[.*\], num_devices=1, devices=\[0x\w+\], .*errcode_ret=CL_SUCCESS", create[9]
            )


FAILING = """
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
int main(void) {
  cl_uint count;
  cl_int status;
  clGetPlatformIDs(0, NULL, NULL);
  clGetPlatformIDs(0, NULL, &count);
  clCreateContext(NULL, 0, NULL, NULL, NULL, &status);
}
"""


def test_numbers_are_named(tmp_path: Path) -> None:
    """Statuses are numbers in the trace, and their names in what the filter says."""
    (tmp_path / "failing.c").write_text(FAILING)
    subprocess.run(["gcc", "-o", "failing", "failing.c", "-lOpenCL"], cwd=tmp_path, check=True)
    command = [sys.executable, "-m", "occatrace.cli", "-q", "-m", "full", "-o", "run", "./failing"]
    subprocess.run(command, cwd=tmp_path, check=True, env=os.environ | {"PYTHONPATH": str(ROOT)})
    found = [match for line in _filtered(tmp_path / "run") if (match := _CALL.search(line))]
    assert [(m[2], m[8]) for m in found][:2] == [
        ("clGetPlatformIDs", "CL_INVALID_VALUE"),
        ("clGetPlatformIDs", "CL_SUCCESS"),
    ]
    assert (found[2][2], found[2][8]) == ("clCreateContext", "0x0")
    assert found[2][9].endswith("errcode_ret=CL_INVALID_VALUE")
    plain = subprocess.run(
        ["babeltrace2", "run/trace"], cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout
    assert re.search(r"clGetPlatformIDs: .* ret = -30 ", plain)


def test_the_filter_of_a_foreign_or_cut_trace(tmp_path: Path) -> None:
    """A trace that is not ours has no calls; one that was cut gives what is there, and babeltrace2's own error."""
    trace = traces.record(tmp_path / "text", "1", "100", events="columns_test:text")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "trace").symlink_to(trace)
    assert _filtered(tmp_path / "run") == []
    run = _golden("demo-opencl", tmp_path / "golden")
    stream = max(
        (p for p in run.rglob("*") if p.is_file() and "metadata" not in p.name), key=lambda p: p.stat().st_size
    )
    with stream.open("r+b") as file:
        file.truncate(stream.stat().st_size - 100)
    command = [
        "babeltrace2",
        f"--plugin-path={install.PLUGINS}",
        str(run / "trace"),
        "--component=filter.occatrace.calls",
    ]
    assert subprocess.run(command, capture_output=True, timeout=300).returncode in (0, 1)


# ---- examples/babeltrace2 ----


@pytest.fixture
def example(tmp_path: Path) -> Callable[..., list[str]]:
    pytest.importorskip("bt2", exc_type=ImportError)
    run = _golden("demo-opencl", tmp_path)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    def lines(script: str, *arguments: str) -> list[str]:
        command = [sys.executable, str(EXAMPLES / script), str(run), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PATH": path})
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return lines


def test_example_summary(example: Callable[..., list[str]], tmp_path: Path) -> None:
    totals: dict[str, list[int]] = {}
    for (api, name, *_, duration), n in _truth(tmp_path)[0].items():
        totals.setdefault(f"{api}:{name}", []).extend([int(duration)] * n)
    found = {}
    for line in example("summary.py"):
        total, _, calls, _, _, _, _, name = line.replace(",", "").split()
        found[name] = (int(total), int(calls))
    assert found == {name: (sum(times), len(times)) for name, times in totals.items()}
    assert len((EXAMPLES / "summary.py").read_text().splitlines()) < 35


def test_example_of_a_sink(example: Callable[..., list[str]], tmp_path: Path) -> None:
    durations = sorted((int(key[-1]) for key in _truth(tmp_path)[0].elements()), reverse=True)
    head, *rows = example("slowest.py", "5")
    assert head == f"the slowest of {len(durations)} calls:"
    assert [row.split()[0] for row in rows] == [f"{d / 1e6:.3f}" for d in durations[:5]]
