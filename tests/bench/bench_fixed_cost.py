"""What a whole run costs beside the program: start, first call, stop, tables, summary. Real programs, native and profiled
in turn, as the user that runs this. CPU time counts the daemon too, and is what to look at on a busy machine."""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "programs"
ROUNDS = int(os.environ.get("ROUNDS", "7"))
OCCA_PROF = (sys.executable, "-m", "occatrace.cli")
# Open MPI's launcher refuses root, and more ranks than cores, unless told.
MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


@dataclass(frozen=True)
class Timed:
    """One run, in milliseconds; `first` is what the program itself says about its first call."""

    wall: float
    cpu: float
    first: float


def timed(command: Sequence[object], made: Path | None = None) -> Timed:
    """`made`: the run that the command makes; the one of before goes first, which may take long on a disk that is told of
    freed blocks."""
    if made:
        shutil.rmtree(made, ignore_errors=True)
    before, begin = os.times(), time.perf_counter()
    done = subprocess.run(
        [str(word) for word in command], check=True, capture_output=True, text=True, env=environment()
    )
    wall, after = time.perf_counter() - begin, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    said = re.search(r"^first ([0-9.]+) ms$", done.stdout, re.MULTILINE)
    return Timed(wall * 1e3, cpu * 1e3, float(said[1]) if said else float("nan"))


def environment() -> Mapping[str, str]:
    return os.environ | MPI


def occa_programs(folder: Path) -> dict[str, Sequence[object]]:
    """OCCA's kernels in three modes."""
    there = subprocess.run([ROOT / "tools" / "get_occa", "--print"], capture_output=True, text=True, check=False)
    occa = Path(os.environ.get("OCCA_DIR") or there.stdout.strip())
    if not (occa / "lib" / "libocca.so").exists():
        return {}
    program = folder / "kernels"
    flags = ["-O1", f"-I{occa}/include", f"-L{occa}/lib", f"-Wl,-rpath,{occa}/lib", "-locca"]
    subprocess.run(["g++", "-o", program, PROGRAMS / "fixed_cost" / "kernels.cpp", *flags], check=True)
    modes = {"Serial": "mode: 'Serial'", "OpenMP": "mode: 'OpenMP'"}
    modes["OpenCL"] = "mode: 'OpenCL', platform_id: 0, device_id: 0"
    return {f"OCCA, {mode}": (program, "{" + facts + "}") for mode, facts in modes.items()}


def programs(folder: Path) -> dict[str, tuple[Sequence[object], Sequence[object]]]:
    """Name: the program, and its launcher."""
    found: dict[str, tuple[Sequence[object], Sequence[object]]] = {"no traced API": (["true"], ())}
    probe = folder / "probe"
    subprocess.run(["gcc", "-O1", "-o", probe, PROGRAMS / "session" / "probe.c", "-ldl"], check=True)
    found["one process, no calls"] = ([probe, "1"], ())
    launches = folder / "launches"
    subprocess.run(["gcc", "-O1", "-o", launches, PROGRAMS / "fixed_cost" / "launches.c", "-lOpenCL"], check=True)
    found["OpenCL, 58 launches"] = ([launches], ())
    found |= {name: (command, ()) for name, command in occa_programs(folder).items()}
    compiler, launcher = (shutil.which(name) for name in ("mpicc.openmpi", "mpirun.openmpi"))
    if compiler and launcher:
        four_calls = folder / "four_calls"
        subprocess.run([compiler, "-O1", "-o", four_calls, PROGRAMS / "fixed_cost" / "four_calls.c"], check=True)
        found |= {f"MPI, {n} ranks": ([four_calls], (launcher, "-n", n)) for n in (1, 4, 8)}
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["OCCA_CACHE_DIR"] = str(folder / "cache")
        ours = (*OCCA_PROF, "-o", folder / "run")
        again = (*OCCA_PROF, "report", folder / "run")
        print("ms, medians: wall and CPU time more than natively, and how much later the first call returns\n")
        print(
            f"{'':24}{'native':>8} |{'-q wall':>8}{'CPU':>7}{'first':>7} |{'whole':>7}{'CPU':>7}{'first':>7} |{'again':>7}"
        )
        for title, (program, launcher) in programs(folder).items():
            cases = ([*launcher, *program], [*launcher, *ours, "-q", *program], [*launcher, *ours, *program])
            for command in cases:
                timed(command, folder / "run")  # caches of OCCA and PoCL
            rounds = [[timed(command, folder / "run") for command in cases] for _ in range(ROUNDS)]
            reports = [timed(again) for _ in range(ROUNDS)] if (folder / "run" / "tables").exists() else []
            line = f"{title:24}{statistics.median(r[0].wall for r in rounds):8.0f} |"
            for case in (1, 2):
                for what, width in (("wall", 8 if case == 1 else 7), ("cpu", 7), ("first", 7)):
                    more = statistics.median(getattr(r[case], what) - getattr(r[0], what) for r in rounds)
                    line += f"{more:{width}.0f}" if more == more else f"{'':{width}}"
                line += " |"
            print(line + (f"{statistics.median(r.wall for r in reports):7.0f}" if reports else ""), flush=True)


if __name__ == "__main__":
    main()
