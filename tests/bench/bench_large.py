"""50 million calls: the first summary, the second one, and all reports, each in a process of its own: time, CPU time, peak
memory. Budget: 60 s and 1 GB for all reports, 1 s for the second summary.

A run of 5 million calls in 2 threads, 20,000 launches among them, is recorded and made ten times as large: ten processes at the
same time; 2 GB on disk. usage: bench_large.py [--calls N] [--run FOLDER]  (FOLDER is kept and used again)
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.recording import multiply, record

COPIES = 10
ROWS = 1000  # of the reports that list single calls: of these nobody prints 50 million

# STEP: "summary" or a list of reports.
MEASURE = f"""
import json, resource, sys, time
from pathlib import Path
cpu, begin = time.process_time(), time.perf_counter()
from occatrace import reports
from occatrace.store import tables
with tables.open_store(Path(sys.argv[1])) as store:
    if sys.argv[2] == "summary":
        made = len(reports.summary(store))
    else:
        made = sum(reports.make(store, name, rows={ROWS} if name == "api_trace" else None) is not None
                   for name in sys.argv[2].split(","))
    calls = store.con.execute("SELECT sum(calls) FROM call_stats").fetchone()[0]
print(json.dumps({{"wall": time.perf_counter() - begin, "cpu": time.process_time() - cpu, "reports": made,
                  "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "calls": int(calls)}}))
"""


def measure(run: Path, step: str) -> dict[str, float]:
    done = subprocess.run([sys.executable, "-c", MEASURE, str(run), step], check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=50_000_000)
    parser.add_argument("--run", type=Path, help="folder of the run; recorded where it is not there")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run: Path = args.run or Path(folder) / "run"
        if not run.exists():
            one = Path(folder) / "one"
            record(one, threads=2, calls=args.calls // COPIES, launches=20_000)
            multiply(one, run, COPIES)
        shutil.rmtree(run / "tables", ignore_errors=True)
        from occatrace import reports

        names = ",".join(reports.definitions())
        print(f"{'':<24}{'reports':>9}{'calls':>13}{'wall s':>9}{'cpu s':>9}{'M calls/s':>11}{'peak MB':>9}")
        for title, step in (("first summary", "summary"), ("second summary", "summary"), ("all reports", names)):
            m = measure(run, step)
            rate = m["calls"] / m["wall"] / 1e6
            print(
                f"{title:<24}{m['reports']:>9}{m['calls']:>13,}{m['wall']:>9.2f}{m['cpu']:>9.2f}{rate:>11.1f}{m['peak']:>9.0f}"
            )


if __name__ == "__main__":
    main()
