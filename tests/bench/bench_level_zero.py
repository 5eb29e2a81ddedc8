"""What Level Zero's calls cost on the driver for tests, behind the loader of the system: native and traced in turn.

usage: bench_level_zero.py [--thapi LIBRARY]   (libze_loader.so.1 of THAPI's backend, to be measured in the same turns)

ns of CPU time of the calling thread. `off` is the call alone, `on` with device time. THAPI's are its events without and with
its profiling, in a session as its tracer_ze.sh makes it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROUNDS = 5
CALLS = ("getter", "append", "immediate")
WAYS = {"off": ("--device-time", "off"), "on": ()}
BUDGETS = {"off": 150, "on": 500}


def numbers(command: list[str], env: dict[str, str]) -> dict[str, float]:
    """ns of each kind of call."""
    out = subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout
    return {line.split()[0]: float(line.split()[1]) for line in out.splitlines() if line.split()[0] in CALLS}


def thapi(program: Path, library: Path, folder: Path, env: dict[str, str], profiling: bool) -> dict[str, float]:
    """The same under THAPI's backend."""
    put = folder / "thapi"
    put.mkdir(exist_ok=True)
    shutil.copy(library, put / "libze_loader.so.1")
    loader = "/usr/lib/x86_64-linux-gnu/libze_loader.so.1"
    env = {**env, "LD_LIBRARY_PATH": str(put), "LTTNG_UST_ZE_LIBZE_LOADER": loader, "LTTNG_HOME": str(folder)}
    env["LD_PRELOAD"] = str(put / "libze_loader.so.1")
    env |= {"LTTNG_UST_ALLOW_BLOCKING": "1", **({"LTTNG_UST_ZE_PROFILE": "1"} if profiling else {})}
    pid = folder / "sessiond.pid"
    own = {name: value for name, value in env.items() if name not in ("LD_PRELOAD", "LD_LIBRARY_PATH")}
    daemon = subprocess.Popen(["lttng-sessiond", "--no-kernel", "--quiet", "--pidfile", pid], env=own)

    def lttng(*words: str) -> None:
        subprocess.run(["lttng", "-q", *words], check=True, env=own)

    try:
        subprocess.run(["sh", "-c", "until lttng -q list > /dev/null 2>&1; do sleep 0.1; done"], check=True, env=own)
        lttng("create", "bench", "-o", str(folder / f"trace{profiling}"))
        lttng("enable-channel", "-u", "--blocking-timeout=inf", "c")
        lttng("add-context", "-u", "-c", "c", "-t", "vpid", "-t", "vtid")
        providers = ["ze", "zet", "zes", "zel", "ze_properties", *(["ze_profiling"] if profiling else [])]
        for provider in providers:
            lttng("enable-event", "-c", "c", "-u", f"lttng_ust_{provider}:*")
        lttng("start")
        found = numbers([str(program)], env)
        lttng("destroy")
        return found
    finally:
        daemon.terminate()
        daemon.wait()
        shutil.rmtree(folder / f"trace{profiling}", ignore_errors=True)


def main() -> None:
    """Build, measure in turns, print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--thapi", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        driver, program = folder / "libze_fake.so", folder / "calls"
        options = ["-std=c++17", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-Bsymbolic", "-lpthread"]
        subprocess.run(["g++", HERE.parent / "fakes/ze/driver.cpp", "-o", driver, *options], check=True)
        source = HERE / "programs/level_zero_calls.cpp"
        subprocess.run(["g++", "-std=c++17", "-O2", source, "-o", program, "-lze_loader"], check=True)
        env = {**os.environ, "ZE_ENABLE_ALT_DRIVERS": str(driver)}
        found: dict[str, list[dict[str, float]]] = {}
        for turn in range(ROUNDS):
            found.setdefault("native", []).append(numbers([str(program)], env))
            for way, words in WAYS.items():
                command = [sys.executable, "-m", "occatrace.cli", "-q", *words, "-o", str(folder / f"{way}{turn}")]
                found.setdefault(way, []).append(numbers([*command, str(program)], env))
            for profiling in (False, True) if args.thapi else ():
                traced = thapi(program, args.thapi, folder, env, profiling)
                found.setdefault(f"THAPI {'on' if profiling else 'off'}", []).append(traced)
        print(f"{'way':<12}{'call':<12}{'native ns':>12}{'traced ns':>12}{'difference':>12}{'least':>10}{'budget':>8}")
        for way in (w for w in found if w != "native"):
            for call in CALLS:
                native = statistics.median(turn[call] for turn in found["native"])
                traced_ns = statistics.median(turn[call] for turn in found[way])
                least = min(t[call] for t in found[way]) - min(t[call] for t in found["native"])
                budget = f"+{BUDGETS[way]}" if way in BUDGETS and call != "getter" else ""
                print(
                    f"{way:<12}{call:<12}{native:>12.1f}{traced_ns:>12.1f}{traced_ns - native:>+12.1f}{least:>+10.1f}{budget:>8}"
                )


if __name__ == "__main__":
    main()
