"""`python -m tests.diagnosis [NAME ...]` (or `tools/bench diagnosis`): how many planted problems advice names first, and how many
of the programs without one get advice. NAME chooses cases that contain it; -v shows what was said of each."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.diagnosis.cases import CASES
from tests.diagnosis.runner import Absent, Bench


def main() -> int:
    """The status is 1 if fewer than nine of ten are named first, or more than one in twenty gets advice without a problem."""
    parser = argparse.ArgumentParser(prog="diagnosis", description=__doc__)
    parser.add_argument("names", nargs="*", help="cases whose name contains one of these")
    parser.add_argument("-v", action="store_true", help="all that was said")
    parser.add_argument("--keep", type=Path, help="a folder for programs and runs")
    options = parser.parse_args()
    chosen = [case for case in CASES if not options.names or any(name in case.name for name in options.names)]
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options.keep or Path(folder))
        right, count = (dict.fromkeys((True, False), 0) for _ in range(2))
        for case in chosen:
            try:
                outcome = bench.run(case)
            except Absent as error:
                print(f"{'absent':7s} {case.name:26s} {error}", flush=True)
                continue
            planted = bool(case.signs)
            count[planted] += 1
            right[planted] += outcome.right
            said = outcome.said() or ["nothing"]
            print(f"{'right' if outcome.right else 'WRONG':7s} {case.name:26s} {said[0]}", flush=True)
            for line in said[1:] if options.v else ():
                print(f"{'':34s} {line}", flush=True)
    false = count[False] - right[False]
    print(f"named first: {right[True]} of {count[True]}; false advice: {false} of {count[False]}")
    return int(right[True] < 0.9 * count[True] or false > count[False] / 20)


sys.exit(main())
