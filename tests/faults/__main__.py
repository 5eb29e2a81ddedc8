"""tools/faults: the standing fault suite (default), and `fuzz`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.faults import cases, fuzz, runner
from tests.faults.parts import PARTS

FINDINGS = Path(__file__).resolve().parents[2] / "build" / "faults" / "findings"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="tools/faults", description="Check what occatrace does where something is wrong."
    )
    commands = parser.add_subparsers(dest="command")
    table = commands.add_parser("table", help="run the table of faults (the default)")
    runner.prepare_parser(table)
    fuzzing = commands.add_parser("fuzz", help="run commands on changed inputs")
    fuzzing.add_argument("--minutes", type=float, default=1, help="stop after this time (default: 1)")
    fuzzing.add_argument("--number", type=int, help="run this number of cases of each part instead")
    fuzzing.add_argument("--seed", type=int, default=0, metavar="N", help="begin with case N (default: 0)")
    fuzzing.add_argument("--part", action="append", choices=sorted(PARTS), help="run this part only; may be repeated")
    fuzzing.add_argument("--findings", type=Path, default=FINDINGS, metavar="FOLDER", help="write what failed here")
    fuzzing.add_argument(
        "--native", type=Path, metavar="FILE", help="use this build of occatrace._native (tools/faults --sanitize)"
    )
    corpus = commands.add_parser("corpus", help="run the cases that failed once, or those of FOLDER")
    corpus.add_argument("folder", type=Path, nargs="?", default=cases.CORPUS)
    corpus.add_argument("--native", type=Path, metavar="FILE", help=argparse.SUPPRESS)
    words = sys.argv[1:]
    if not words or (words[0].startswith("-") and words[0] not in ("-h", "--help")):
        words = ["table", *words]
    args = parser.parse_args(words)
    if args.command == "table":
        return runner.main(args)
    fuzz.prepare(args.native)
    with fuzz.work_folder(bounded=args.native is None) as work:
        if args.command == "corpus":
            return _corpus(args.folder, work)
        limit = float("inf") if args.number is not None else args.minutes * 60
        counts = fuzz.fuzz(
            args.part or list(PARTS),
            args.seed,
            args.number,
            limit,
            args.findings,
            work,
            lambda line: print(line, flush=True),
        )
    broken = counts.pop("broken", 0)
    for name, count in sorted(counts.items()):
        print(f"{count:8,}  {name}")
    print(f"{sum(counts.values()):8,}  inputs, {broken} broken")
    return 1 if broken else 0


def _corpus(folder: Path, work: fuzz.Work) -> int:
    found = list(cases.corpus(folder))
    broken = 0
    for case in found:
        _, wrong = work.run(case)
        if wrong is not None:
            broken += 1
            print(f"{case.name}: occa_prof {' '.join(case.words)}\n    {wrong}")
    print(f"{len(found)} cases, {broken} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
