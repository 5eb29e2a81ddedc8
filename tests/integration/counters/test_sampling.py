"""--sample against programs that know what memory they held and how much CPU time they used."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import occatrace
from tests.support.runs import OCCA_PROF, PATIENCE, ROOT, Row, Run, execute, profiled, until

MIB = 1 << 20
BYTES, BUSY = 200 * MIB, 0.5
MARK = "import occatrace; occatrace.mark('x')"


def report(run: Path) -> list[Row]:
    with occatrace.open(run) as opened:
        return [dict(row) for row in opened.report("counters")]


def test_memory_and_cpu_of_a_program_that_forks(tmp_path: Path) -> None:
    """Bounds that hold however slowly the machine runs: each step begins when the one before has been sampled."""
    program, run, gate = tmp_path / "load", tmp_path / "run", tmp_path / "gate"
    source = ROOT / "tests/programs/counters/load.c"
    subprocess.run(
        ["gcc", "-O1", "-Wall", "-Werror", f"-I{ROOT / 'include'}", source, "-o", program, "-ldl"], check=True
    )
    words = [*OCCA_PROF, "--sample", "host:20ms", "-o", run, program, gate, BYTES, BUSY]
    process = subprocess.Popen([str(w) for w in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout
    file = run / "samples" / f"{os.uname().nodename}.tsv"

    def said() -> dict[str, float]:
        assert process.stdout
        lines = [process.stdout.readline().split() for _ in range(2)]
        return {who: float(value) for who, value in lines}

    def sampled(name: str, pid: float) -> list[int]:
        whole = (
            file.read_text().rpartition("\n")[0] if file.exists() else ""
        )  # a reader may see a part of what is written
        rows = [line.split("\t") for line in whole.splitlines()]
        return [int(row[6]) for row in rows if int(row[1]) == pid and row[4] == name]

    def both(name: str, holds: Callable[[str, int], bool]) -> Callable[[], bool]:
        def last() -> bool:
            values = {who: sampled(name, pid) for who, pid in pids.items()}
            return all(v and holds(who, v[-1]) for who, v in values.items())

        return last

    def two_more() -> Callable[[], bool]:
        """The first may have been read before now."""
        before = {pid: len(sampled("CPU", pid)) for pid in pids.values()}
        return lambda: all(len(sampled("CPU", pid)) > n + 1 for pid, n in before.items())

    def cpu_of(pid: float) -> int:
        """Nanoseconds from the first to the last sample."""
        values = sampled("CPU", pid)
        return values[-1] - values[0]

    size = {"parent": BYTES, "child": BYTES // 4}
    try:
        pids = said()
        until(two_more(), "both are sampled")
        base = {who: sampled("RSS", pid)[-1] for who, pid in pids.items()}  # with what tracing itself maps
        Path(f"{gate}.1").touch()
        until(both("RSS", lambda who, v: v >= base[who] + size[who]), "both hold their memory")
        held = {who: sampled("RSS", pid)[-1] for who, pid in pids.items()}
        Path(f"{gate}.2").touch()
        until(both("RSS", lambda who, v: v < held[who] - size[who] / 2), "both gave it back")
        Path(f"{gate}.3").touch()
        burnt = said()
        # The kernel adds what a process used when the process is next interrupted or sleeps, not when it is asked.
        until(
            lambda: all(cpu_of(pid) >= burnt[who] * 1e9 for who, pid in pids.items()), "what they computed is sampled"
        )
        counted = {who: cpu_of(pid) for who, pid in pids.items()}
        Path(f"{gate}.4").touch()
        used = said()
        stderr = process.communicate(timeout=PATIENCE)[1]
    finally:
        for step in range(1, 5):
            Path(f"{gate}.{step}").touch()
        process.wait(timeout=PATIENCE)
    assert process.returncode == 0, stderr
    found = {(row["process"], row["name"]): row for row in report(run)}
    assert set(found) == {(f"load {pid:.0f}", name) for pid in pids.values() for name in ("CPU", "RSS")}
    for who, pid in pids.items():
        memory, cpu = (found[f"load {pid:.0f}", name] for name in ("RSS", "CPU"))
        assert (memory["unit"], cpu["unit"]) == ("MiB", "%")
        assert base[who] + size[who] <= memory["max"] * MIB <= base[who] + size[who] + 64 * MIB
        assert 0 < memory["min"] < memory["avg"] < memory["max"] and memory["last"] * MIB < held[who] - size[who] / 2
        assert memory["samples"] == len(sampled("RSS", pid)) >= 4 and cpu["samples"] == memory["samples"]
        # The mean over the time between the first and the last sample is what was used in it. Until the last step that is the
        # whole computation, and not more than the process had used when it was told so; its end comes after that.
        total = cpu["avg"] / 100 * cpu["span_ns"]
        assert burnt[who] >= (BUSY if who == "parent" else BUSY / 2)
        assert burnt[who] * 1e9 <= counted[who] <= used[who] * 1e9
        assert total == pytest.approx(cpu_of(pid), rel=1e-6)
    assert "Counters by process and device (counters)" in stderr and re.search(r"MiB +load \d+ +RSS", stderr)
    # Times are those of the calls: the mark of each process lies between its samples.
    rows = Run(run, 0, "", "").sql(
        "SELECT min(c.time_ns) < any_value(r.start_ns), any_value(r.start_ns) < max(c.time_ns) FROM counters c"
        " JOIN ranges r USING (process) GROUP BY process"
    )
    assert rows[0][1] and rows[1][1] and len(rows) == 2
    # What was sampled before the first call is in the timeline, which has the zero of the reports.
    ((earliest,),) = Run(run, 0, "", "").sql("SELECT min(time_ns)::BIGINT - run_zero()::BIGINT FROM counters")
    shown = tmp_path / "timeline.json"
    done = execute([*OCCA_PROF, "timeline", run, "--format", "json", "-o", shown])
    assert done.returncode == 0, done.stderr
    events = [e for e in json.loads(shown.read_text())["traceEvents"] if e["ph"] == "C"]
    assert earliest >= 0 and min(e["ts"] for e in events) == pytest.approx(earliest / 1000)
    assert {e["name"].partition(" ")[0] for e in events} == {"CPU", "RSS"}
    assert len(events) == sum(row["samples"] for row in found.values())


def test_devices_by_a_library(tmp_path: Path) -> None:
    path = f"{ROOT / 'tests/fakes/nvml'}:{ROOT}"
    run = profiled(Run, tmp_path / "run", [sys.executable, "-c", f"{MARK}; import time; time.sleep(0.3)"],
                   "--sample", "nvml:5ms", PYTHONPATH=path)  # fmt: skip
    assert run.status == 0, run.stderr
    found = {row["name"]: (row["unit"], row["min"], row["avg"], row["max"]) for row in report(run.folder)}
    one = {
        "power": ("W", 250.5), "clock": ("MHz", 1980), "memory clock": ("MHz", 2619), "temperature": ("°C", 61),
        "utilization": ("%", 87), "memory used": ("MiB", 1024),
    }  # fmt: skip
    wanted = {f"{name} of Stand-in #0": value for name, value in one.items()}
    wanted |= {f"{name} of Stand-in #1": value for name, value in one.items() if name != "temperature"}
    wanted["power of Stand-in #1"] = ("W", 99.0)
    assert found.keys() == wanted.keys()
    for name, (unit, value) in wanted.items():
        assert found[name][0] == unit and found[name][1:] == pytest.approx((value,) * 3), name
    note = "not sampled: temperature of Stand-in #1 (Not Supported)"
    assert f"! {note}\n" in run.stderr
    assert note in json.loads((run.folder / "run.json").read_text())["notes"]


def test_a_library_that_is_not_there(tmp_path: Path) -> None:
    """Told where it was named, not where all there is was asked for; the program runs and is sampled anyway."""
    for name in ("pynvml", "amdsmi"):
        (tmp_path / f"{name}.py").write_text(f"raise ModuleNotFoundError('no {name}', name={name!r})\n")
    command, path = [sys.executable, "-c", f"{MARK}; print('ran')"], f"{tmp_path}:{ROOT}"
    asked = profiled(Run, tmp_path / "asked", command, "--sample", "host,nvml", PYTHONPATH=path)
    assert (asked.status, asked.stdout) == (0, "ran\n")
    said = "--sample nvml: not sampled: there is no Python module pynvml (pip install nvidia-ml-py)"
    assert asked.stderr.count("pynvml") == 1 and f"! {said}\n" in asked.stderr
    assert {row["name"] for row in report(asked.folder)} <= {"CPU", "RSS"}
    everything = profiled(Run, tmp_path / "everything", command, "--sample", "all", PYTHONPATH=path)
    assert everything.status == 0 and "not sampled" not in everything.stderr
    assert (everything.folder / "samples").is_dir()


def test_without_it_nothing_is_there(tmp_path: Path) -> None:
    """Neither a file nor an import: a module of this name would say so."""
    (tmp_path / "pynvml.py").write_text("raise SystemExit('imported')\n")
    run = profiled(Run, tmp_path / "run", [sys.executable, "-c", MARK], PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert run.status == 0 and not (run.folder / "samples").exists() and "(counters)" not in run.stderr
    code = (
        "import sys; from occatrace.cli.dispatch import main; main(['-q', '-o', sys.argv[1], '/bin/true']);"
        "sys.exit('occatrace.record.sampling' in sys.modules)"
    )
    done = execute([sys.executable, "-c", code, tmp_path / "other"])
    assert done.returncode == 0, done.stderr
