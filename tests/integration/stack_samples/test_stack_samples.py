"""Stacks by processor time (--sample-stacks): programs whose processor time is known, and one that does everything at once that a
signal may come in the middle of."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import occatrace
from tests.support.runs import OCCA_PROF, ROOT, Run, execute, profiled
from tests.support.timelines import perfetto

PROGRAMS = ROOT / "tests" / "programs" / "stack_samples"
# Processor time by function, with what it called: that of its own code in the program.
TOTALS = """
    SELECT p.function, sum(s.cpu_ns) / 1e9 FROM stack_samples s
    JOIN (SELECT DISTINCT process, path, function FROM call_paths) p USING (process, path) GROUP BY ALL"""


def _shown(run: Run) -> dict[str, Mapping[str, Any]]:
    with occatrace.open(run.folder) as opened:
        return {row["name"]: row for row in opened.report("sample_sum")}


def _longest(run: Run) -> int:
    """Nanoseconds of the longest sample. A sample stands for all the time since the one before, which on a busy machine is a turn of
    the scheduler: where one function follows another, so much may count for the wrong one."""
    ((longest,),) = run.sql("SELECT max(cpu_ns) FROM stack_samples")
    return int(longest)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    for name in ("cpu", "handlers", "stress"):
        command = ["gcc", "-O2", "-g", PROGRAMS / f"{name}.c", "-o", folder / name, "-lOpenCL", "-pthread"]
        subprocess.run([str(word) for word in command], check=True, timeout=120)
    return folder


def test_time_of_functions_threads_and_children(programs: Path, tmp_path: Path) -> None:
    run = profiled(Run, tmp_path / "run", [programs / "cpu", "functions"], "--sample-stacks=250")
    assert run.status == 0, run.stderr
    totals = dict(run.sql(TOTALS))
    # 0.3 and 0.1 s before the first traced call; in two threads, which block all signals, 0.2 and 0.6 s; in a child 0.5 s.
    expected = {"light": 0.7, "heavy": 1.3, "phase": 2.0, "worker": 1.6, "in_child": 0.5}
    longest = _longest(run)  # at most one for the wrong function in each of three threads
    for name, seconds in expected.items():
        assert abs(totals[name] - seconds) <= 0.05 * seconds + 3 * longest / 1e9, (name, totals[name], longest)
    threads = run.sql("""
        SELECT name, cpu_ns, sampled_ns, lost_ns FROM sampled_threads JOIN threads USING (process, thread)
        WHERE cpu_ns > 1e8""")  # the others are those of the OpenCL implementation
    assert sorted(name for name, *_ in threads) == ["cpu", "cpu", "worker", "worker"]
    for _, cpu, sampled, lost in threads:
        assert lost == 0 and sampled == pytest.approx(cpu, rel=0.05, abs=2 * longest)
    shown = _shown(run)
    assert (
        0.9 * totals["heavy"] < shown["heavy"]["self_ns"] / 1e9 <= shown["heavy"]["total_ns"] / 1e9 == totals["heavy"]
    )
    source = (PROGRAMS / "cpu.c").read_text(encoding="utf-8").splitlines()
    assert shown["heavy"]["line"] in [at for at, line in enumerate(source, 1) if line.startswith("COMPUTES(heavy")]
    assert shown["phase"]["self_ns"] < 0.1e9 and shown["phase"]["total_ns"] / 1e9 == totals["phase"]

    folded = tmp_path / "cpu.folded"
    made = execute([*OCCA_PROF, "flamegraph", run.folder, "-o", folded, "--weight", "cpu"])
    assert made.returncode == 0, made.stderr
    without = execute([*OCCA_PROF, "flamegraph", run.folder, "-o", tmp_path / "none.folded", "--weight", "device-time"])
    assert (
        without.returncode == 0
        and ": 0 stacks" in without.stdout
        and "--weight device-time: the file is empty" in without.stderr
    )
    weights: dict[str, int] = {}
    for line in folded.read_text(encoding="utf-8").splitlines():
        stack, _, weight = line.rpartition(" ")
        names = ";".join(frame.partition(" (")[0] for frame in stack.split(";")[1:])
        weights[names] = weights.get(names, 0) + int(weight)
    assert weights["worker;phase;heavy"] == pytest.approx(1.2e9, rel=0.05, abs=2 * longest)
    assert sum(weights.values()) == run.sql("SELECT sum(cpu_ns)::BIGINT FROM stack_samples")[0][0]


def test_devices_at_each_moment_and_the_track_of_the_manual(programs: Path, tmp_path: Path) -> None:
    run = profiled(Run, tmp_path / "run", [programs / "cpu", "devices"], "--sample-stacks=250")
    assert run.status == 0, run.stderr
    shown = _shown(run)
    manual = (ROOT / "docs" / "lines.md").read_text(encoding="utf-8")
    [track] = re.findall(r'--track "(.*)"', manual)
    path = tmp_path / "run.pftrace"
    made = execute([*OCCA_PROF, "timeline", run.folder, "-o", path, "--track", track])
    assert made.returncode == 0, made.stderr
    of_samples = "SELECT name, count(*) AS n, sum(dur) AS ns FROM slice WHERE category = 'asked' GROUP BY 1"
    slices = {row.name: (row.n, row.ns) for row in perfetto(path, of_samples)}
    [(count, cpu)] = run.sql("""
        SELECT count(*), sum(cpu_ns)::BIGINT FROM stack_samples JOIN threads USING (process, thread)
        JOIN processes USING (process) WHERE tid = pid""")
    assert count > 0
    assert sum(n for n, _ in slices.values()) == count and sum(ns for _, ns in slices.values()) == cpu
    busy_ns = sum(ns for name, (_, ns) in slices.items() if name.startswith("while_busy (cpu.c:"))
    assert busy_ns == shown["while_busy"]["self_ns"] > 0
    busy, idle = shown["while_busy"], shown["while_idle"]
    assert (busy["idle"], busy["idle_queues"]) == (0, "") and busy["in_call"] == ""
    assert (idle["idle"], idle["idle_queues"]) == (100, "1") and idle["in_call"] == ""


def test_a_process_without_traced_calls(programs: Path, tmp_path: Path) -> None:
    run = profiled(Run, tmp_path / "run", [programs / "cpu", "silent"], "--sample-stacks=250")
    assert run.status == 0 and run.sql("SELECT count(*), count(DISTINCT pid) FROM processes") == [(2, 2)], run.stderr
    longest = _longest(run)
    totals = dict(run.sql(TOTALS))
    assert {name: totals[name] for name in ("light", "in_child")} == pytest.approx(
        {"light": 0.4, "in_child": 0.4}, abs=0.02 + longest / 1e9
    )
    for cpu, sampled, lost in run.sql("SELECT cpu_ns, sampled_ns, lost_ns FROM sampled_threads WHERE cpu_ns > 1e8"):
        # Not sampled: the time before the timer is set, and that since the last sample.
        assert lost == 0 and sampled == pytest.approx(cpu, abs=0.05 * cpu + longest)


def test_samples_that_do_not_fit_are_counted_and_said(programs: Path, tmp_path: Path) -> None:
    run = profiled(Run, tmp_path / "run", [programs / "cpu", "deep"], "--sample-stacks=250")
    # 500 samples of 128 frames, each for 4 ms; there is room for 126 of them.
    [(thread, sampled, lost)] = run.sql("SELECT thread, sampled_ns, lost_ns FROM sampled_threads WHERE lost_ns > 0")
    assert run.sql(f"SELECT count(*) BETWEEN 120 AND 127 FROM stack_samples WHERE thread = {thread}") == [(True,)]
    assert sampled >= 120 * 4_000_000 and lost >= 373 * 4_000_000 and sampled + lost <= 520 * 4_000_000
    assert f"! {lost / 1e9:.3g} s of" in run.stderr and "CPU time have no stacks" in run.stderr
    assert ("deep", "more frames than recorded") in run.sql("SELECT function, cut FROM call_paths WHERE depth = 0")


@pytest.mark.parametrize("options", [["--sample-stacks=1000"], ["--sample-stacks=1000", "--call-paths"]], ids=len)
def test_nothing_breaks_whatever_a_signal_interrupts(options: list[str], programs: Path, tmp_path: Path) -> None:
    native = execute([programs / "stress", "0.3"]).stdout
    run = profiled(Run, tmp_path / "run", [programs / "stress", "0.3"], *options)
    assert run.status == 0 and run.stdout == native, run.stderr
    assert native.endswith("raised 31, before 0, alarms yes, forks yes, interrupted 0, strange 0\n")
    assert run.sql("SELECT count(*) > 100, sum(path = 0) FROM stack_samples") == [(True, 0)]


@pytest.mark.parametrize("options", [["--call-paths"], ["--call-paths", "--sample-stacks=1000"]], ids=len)
def test_calls_of_a_handler_have_stacks(options: list[str], programs: Path, tmp_path: Path) -> None:
    run = profiled(Run, tmp_path / "run", [programs / "handlers"], "-m", "full", *options)
    assert run.status == 0, run.stderr
    rounds, made, failed = map(int, run.stdout.split())
    assert rounds > 100 and failed == made > 100
    assert run.sql("SELECT count(*) FROM calls WHERE function = 'clWaitForEvents'") == [(rounds + made + 1,)]
    assert run.sql("SELECT count(*) - count(DISTINCT (thread, seq)) FROM path_calls") == [(0,)]
    calls = "SELECT count(*) FROM calls c JOIN path_calls USING (thread, seq) WHERE function = 'clWaitForEvents'"
    assert run.sql(calls) == [(rounds + made + 1,)]
    [(of_handler,)] = run.sql(
        f"{calls} AND (c.process, path) IN (SELECT process, path FROM call_paths WHERE function = 'on_alarm')"
    )
    assert of_handler > made / 2  # what interrupts a traced call has the place of that one


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="it has generated code of x86-64")
def test_stacks_that_are_hard_to_read(tmp_path: Path) -> None:
    for command in (
        ["g++", "-O2", "-g", PROGRAMS / "walks.cpp", "-o", tmp_path / "walks", "-lOpenCL", "-pthread"],
        ["gcc", "-O2", "-g", "-shared", "-fPIC", PROGRAMS / "through.c", "-o", tmp_path / "through.so"],
    ):
        subprocess.run([str(word) for word in command], check=True, timeout=120)
    program = [tmp_path / "walks", tmp_path / "through.so", "10000", "3", "hammer"]
    run = profiled(Run, tmp_path / "run", program, "-m", "full", "--call-paths", "--sample-stacks=1")
    assert run.status == 0, run.stderr
    made = int(run.stdout)
    [(calls, stacks)] = run.sql("""
        SELECT count(*), count(path) FROM calls LEFT JOIN path_calls USING (thread, seq) WHERE function = 'clWaitForEvents'""")
    assert calls == stacks == made >= 10000
    assert run.sql("SELECT count(*) > 100, sum(path = 0) FROM stack_samples") == [(True, 0)]
    assert run.sql(
        "SELECT DISTINCT cut FROM call_paths WHERE depth = 0 AND cut = 'no unwind table'"
    )  # that of generated code


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="elsewhere what the call was given is not known any more")
def test_calls_of_the_system_go_on(programs: Path, tmp_path: Path) -> None:
    assert profiled(Run, tmp_path / "run", [programs / "cpu", "repeated"], "--sample-stacks").stdout == "went on: 3\n"


def test_another_program_in_its_place_and_without_the_option(programs: Path, tmp_path: Path) -> None:
    assert profiled(Run, tmp_path / "run", [programs / "cpu", "exec"], "--sample-stacks=1000").stdout == "replaced\n"
    run = profiled(Run, tmp_path / "none", [programs / "cpu", "devices"])
    assert run.sql("SELECT (SELECT count(*) FROM stack_samples), (SELECT count(*) FROM sampled_threads)") == [(0, 0)]
    refused = execute([*OCCA_PROF, "--sample-stacks=often", programs / "cpu"])
    assert refused.returncode != 0 and "--sample-stacks=often" in refused.stderr and "Traceback" not in refused.stderr
