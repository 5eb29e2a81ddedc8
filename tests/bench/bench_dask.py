"""`report --engine dask` of a job of 10,000 simulated ranks, on a scheduler and workers that are processes of their own, against
the same report by DuckDB in one process: time, memory, and whether the answers are the same. Recorded are four ranks of a program
with OCCA, OpenMP and MPI; tools/simulate_ranks makes the job of them. `bench_dask.py RANKS` takes another number.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from occatrace.reports import partial  # noqa: E402

OURS = [sys.executable, "-m", "occatrace.cli"]
RANKS, WORKERS = 10_000, 2
OF_A_SUMMARY = [word for name in partial.NAMES for word in ("--report", name)]


def recorded(made: Path) -> Path:
    """A run of four ranks."""
    program, occa = made / "hybrid", os.environ["OCCA_DIR"]
    sources = ROOT / "tests" / "programs" / "occa"
    words = ["mpicxx.mpich", "-std=c++11", "-O1", "-g", "-fopenmp", f'-DKERNEL_FOLDER="{sources}"', f"-I{occa}/include"]
    words += [f"-L{occa}/lib", f"-Wl,-rpath,{occa}/lib", str(sources / "hybrid.cpp"), "-o", str(program), "-locca"]
    subprocess.run(words, check=True, capture_output=True)
    environment = os.environ | {"OCCA_CACHE_DIR": str(made / "cache"), "OMP_NUM_THREADS": "2"}
    subprocess.run([program], check=True, capture_output=True, env=environment)
    run = ["mpirun.mpich", "-n", "4", *OURS, "-q", "-o", str(made / "four"), str(program)]
    subprocess.run(run, check=True, capture_output=True, env=environment)
    return made / "four"


def measured(words: Sequence[str]) -> tuple[dict[str, Any], float, float, float]:
    """What a report says, with seconds on the wall and of CPU, and megabytes at the peak of this process."""
    begin = time.perf_counter()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(words, stdout=out)
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"{' '.join(words)}: status {os.waitstatus_to_exitcode(status)}")
        out.seek(0)
        said = json.load(out)
    wall = time.perf_counter() - begin
    return said, wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def of_process(pid: int) -> tuple[float, float]:
    """Seconds of CPU, and megabytes at the peak, of a process and of all that it has started."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    status = Path(f"/proc/{pid}/status").read_text()
    return cpu, int(status.split("VmHWM:")[1].split()[0]) / 1024


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """What two answers say differently; numbers may differ by rounding."""
    by_name = [{report["name"]: report["rows"] for report in said["reports"]} for said in (one, other)]
    found = [f"only in one: {name}" for name in sorted(by_name[0].keys() ^ by_name[1].keys())]
    for name in sorted(by_name[0].keys() & by_name[1].keys()):
        rows = [said[name] for said in by_name]
        if len(rows[0]) != len(rows[1]):
            found.append(f"{name}: {len(rows[0])} and {len(rows[1])} rows")
            continue
        for number, pair in enumerate(zip(*rows, strict=True)):
            for column, value in pair[0].items():
                against = pair[1][column]
                if isinstance(value, float) and isinstance(against, float):
                    equal = math.isclose(value, against, rel_tol=1e-9, abs_tol=1e-9)
                else:
                    equal = value == against
                if not equal:
                    found.append(f"{name}, row {number}, {column}: {value} and {against}")
    return found


def main() -> None:
    ranks = int(sys.argv[1]) if sys.argv[1:] else RANKS
    if not shutil.which("mpirun.mpich") or "OCCA_DIR" not in os.environ:
        print("no MPICH or no OCCA_DIR: not measured")
        return
    started: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory(prefix="dask-") as name:
        made = Path(name)
        try:
            job = made / "job"
            tool = str(ROOT / "tools" / "simulate_ranks")
            simulate = [sys.executable, tool, str(ranks), str(recorded(made)), str(job), "--run"]
            subprocess.run(simulate, check=True)
            file = made / "scheduler.json"
            dask = [sys.executable, "-m", "dask"]
            where = ["--scheduler-file", str(file)]
            commands = [[*dask, "scheduler", "--host", "127.0.0.1", "--no-dashboard", *where]]
            commands += [[*dask, "worker", *where, "--nthreads", "1", "--no-nanny", "--no-dashboard"]] * WORKERS
            none = subprocess.DEVNULL
            started += [subprocess.Popen(words, stdout=none, stderr=none, cwd=made) for words in commands]
            while not file.exists() or not file.read_text().strip():
                time.sleep(0.05)
            address = json.loads(file.read_text())["address"]
            distributed: Any = importlib.import_module("distributed")
            with distributed.Client(address, set_as_default=False) as client:
                client.wait_for_workers(WORKERS)
            report = [*OURS, "report", str(job), "--format", "json", *OF_A_SUMMARY]
            alone, wall, cpu, peak = measured(report)
            print(f"{ranks:,} ranks, {len(alone['reports'])} reports{'':10}{'wall s':>8}{'CPU s':>8}{'MB':>8}")
            print(f"{'DuckDB in one process':35}{wall:8.1f}{cpu:8.1f}{peak:8.0f}")
            idle = [of_process(process.pid) for process in started]
            by_dask, wall, cpu, peak = measured([*report, "--engine", "dask", "--scheduler", address])
            print(f"{f'Dask with {WORKERS} workers: the command':35}{wall:8.1f}{cpu:8.1f}{peak:8.0f}")
            for number, (process, before) in enumerate(zip(started, idle, strict=True)):
                cpu, peak = of_process(process.pid)
                who = f"  worker {number}" if number else "  the scheduler"
                print(f"{who:43}{cpu - before[0]:8.1f}{peak:8.0f}")
            found = differences(alone, by_dask)
            print("the same answers" if not found else f"{len(found)} differences:")
            for line in found[:20]:
                print(f"  {line}")
        finally:
            for process in reversed(started):
                process.terminate()
                process.wait()


if __name__ == "__main__":
    main()
