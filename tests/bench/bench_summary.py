"""The summary of a trace of many calls: calls per second with each decoder, 2 and 128 threads, and peak memory. Budget: 15
million calls/s with the fast decoder and 6 through babeltrace2 on 2 cores, whatever the threads; nothing may be lost in the
recording. The start of the analysis (0.3 s) is in the figures."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.recording import record

CALLS = 16_000_000
ROUNDS = 3

# Times of the first analysis with its reports, and of the same from the tables; in a process of its own.
MEASURE = """
import json, resource, shutil, sys, time
from pathlib import Path
from occatrace import reports
from occatrace.store import tables
from occatrace.render import text
run = Path(sys.argv[1])
def once():
    cpu, begin = time.process_time(), time.perf_counter()
    with tables.open_store(run) as store:
        made = reports.summary(store)
        calls = store.con.execute("SELECT sum(calls) FROM call_stats").fetchone()[0]
    return time.perf_counter() - begin, time.process_time() - cpu, calls
tables.connect().close()
shutil.rmtree(run / "tables", ignore_errors=True)
first = once()
again = once()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"wall": first[0], "cpu": first[1], "calls": int(first[2]), "again": again[0], "peak": peak}))
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'trace':<24}{'decoder':<14}{'calls':>12}{'wall s':>9}{'cpu s':>9}{'M calls/s':>11}", end="")
        print(f"{'again s':>9}{'peak MB':>9}")
        for threads in (2, 128):
            run = Path(folder) / f"run{threads}"
            record(run, threads=threads, calls=CALLS)
            for decoder in ("fast", "babeltrace2"):
                measured = [measure(run, decoder) for _ in range(ROUNDS)]
                best = min(measured, key=lambda m: m["wall"])
                speed = best["calls"] / best["wall"] / 1e6
                head = f"{f'{threads} threads':<24}{decoder:<14}{best['calls']:>12,}{best['wall']:>9.2f}"
                peak = max(m["peak"] for m in measured)
                print(f"{head}{best['cpu']:>9.2f}{speed:>11.2f}{best['again']:>9.3f}{peak:>9.0f}")
            shutil.rmtree(run)


def measure(run: Path, decoder: str) -> dict[str, float]:
    command = ["env", f"OCCATRACE_DECODER={decoder}", sys.executable, "-c", MEASURE, str(run)]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    result: dict[str, float] = json.loads(out)
    return result


if __name__ == "__main__":
    main()
