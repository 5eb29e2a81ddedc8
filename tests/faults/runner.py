"""Runs the tests of the table, each worker in namespaces of its own, and says which faults held."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.faults.table import TABLE, Fault

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "faults.md"
KEPT = ROOT / "build" / "faults" / "results.json"  # the last result of each row
WORKER = "tests/support/worker"


@dataclass
class Result:
    """Checks of a fault by how they ended; `broken`: the names of those that failed."""

    held: int = 0
    impossible: int = 0
    broken: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """One cell of the table."""
        checks = self.held + self.impossible + len(self.broken)
        if self.broken:
            return f"**broken** ({len(self.broken)} of {checks})"
        if not self.held:
            return "not possible here"
        return f"held ({self.held})" + (f", {self.impossible} not possible here" if self.impossible else "")


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--group", action="append", metavar="NAME", help="run groups whose name contains this; may be repeated"
    )
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="run this many tests in parallel (default: 2)")
    parser.add_argument(
        "--docs", action="store_true", help="write docs/faults.md from the last result of each row, and run nothing"
    )
    parser.add_argument("--list", action="store_true", help="print the table and its checks, and run nothing")


def chosen(groups: Sequence[str] | None) -> list[Fault]:
    """The rows of these groups."""
    return [row for row in TABLE if not groups or any(each.lower() in row.group.lower() for each in groups)]


def main(args: argparse.Namespace) -> int:
    """Run the table; returns the exit status."""
    rows = chosen(args.group)
    if not rows:
        print(f"faults: no group has {' or '.join(args.group)} in its name", file=sys.stderr)
        return 2
    if args.docs:
        return write_page()
    if args.list:
        for row in rows:
            print(f"{row.group}: {row.fault}\n    " + "\n    ".join(row.checks))
        return 0
    if subprocess.run([WORKER, "--check"], cwd=ROOT, check=False).returncode != 0:
        print(
            "faults: needs the right to make namespaces (root), and pytest-xdist: tools/setup --test", file=sys.stderr
        )
        return 2
    begun = time.monotonic()
    ended = run(sorted({check for row in rows for check in row.checks}), args.jobs)
    results = [result_of(row, ended) for row in rows]
    group = ""
    for row, result in zip(rows, results, strict=True):
        if row.group != group:
            group = row.group
            print(f"\n{group}")
        print(f"  {result.text.replace('*', ''):28}  {row.fault}: {row.expected}")
        for name in result.broken:
            print(f"{'':30}  {name}")
    broken = sum(bool(result.broken) for result in results)
    impossible = sum(not result.held and not result.broken for result in results)
    checks = sum(result.held for result in results)
    minutes = (time.monotonic() - begun) / 60
    print(
        f"\n{len(rows) - broken - impossible} faults held ({checks} checks), {broken} broken,"
        f" {impossible} not possible here; {minutes:.0f} min"
    )
    keep(rows, results)
    return 1 if broken else 0


def keep(rows: Sequence[Fault], results: Sequence[Result]) -> None:
    """Write the results of these rows, for the page."""
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    kept |= {f"{row.group}: {row.fault}": asdict(result) for row, result in zip(rows, results, strict=True)}
    KEPT.write_text(json.dumps(kept, indent=1), encoding="utf-8")


def write_page() -> int:
    """docs/faults.md; every row must have been run."""
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    lacking = [row for row in TABLE if f"{row.group}: {row.fault}" not in kept]
    if lacking:
        groups = ", ".join(dict.fromkeys(row.group for row in lacking))
        print(f"faults: run these first: {groups}", file=sys.stderr)
        return 2
    PAGE.write_text(page(TABLE, [Result(**kept[f"{row.group}: {row.fault}"]) for row in TABLE]), encoding="utf-8")
    return 0


def run(checks: Sequence[str], jobs: int) -> Mapping[str, Sequence[tuple[str, str]]]:
    """By test: each of its cases with "held", "impossible" or "broken"."""
    nodes = sorted({check.partition("[")[0] for check in checks})
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "results.xml"
        words = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--dist",
            "loadscope",
            "--max-worker-restart",
            "0",
        ]
        words += ["--tx", f"{jobs}*popen//python={WORKER}", f"--junitxml={file}", *nodes]
        subprocess.run(words, cwd=ROOT, check=False)
        return read(file)


def read(file: Path) -> Mapping[str, Sequence[tuple[str, str]]]:
    """The results in a file of pytest in JUnit's format; nothing where it was not written."""
    found: dict[str, list[tuple[str, str]]] = {}
    if not file.exists():
        return found
    for case in ElementTree.parse(file).iter("testcase"):
        kinds = {child.tag for child in case}
        state = "broken" if kinds & {"failure", "error"} else "impossible" if "skipped" in kinds else "held"
        path = case.get("classname", "").replace(".", "/") + ".py"
        name = case.get("name", "")
        found.setdefault(f"{path}::{name.partition('[')[0]}", []).append((f"{path}::{name}", state))
    return found


def result_of(row: Fault, ended: Mapping[str, Sequence[tuple[str, str]]]) -> Result:
    """What its checks say of a fault; a check that did not run is a broken one."""
    result = Result()
    for check in row.checks:
        cases = [case for case in ended.get(check.partition("[")[0], ()) if case[0].startswith(check)]
        result.held += sum(state == "held" for _, state in cases)
        result.impossible += sum(state == "impossible" for _, state in cases)
        result.broken += tuple(name for name, state in cases if state == "broken")
        if not cases:
            result.broken += (f"{check} did not run",)
    return result


def page(rows: Sequence[Fault], results: Sequence[Result]) -> str:
    """docs/faults.md."""
    broken = sum(bool(result.broken) for result in results)
    checks = sum(result.held for result in results)
    lines = [
        "# Faults",
        "",
        "<!-- generated by tools/faults --docs -->",
        "",
        f"`tools/faults` tries {len(rows)} kinds of faults, each by tests in namespaces of its own (as root). The last run of each:"
        f" {len(rows) - broken} held, {broken} broken, {checks} checks. `tools/faults --list` prints the tests of each row.",
        "",
        "`tools/faults fuzz --minutes 60` runs the commands on inputs that are changed at random with knowledge of their"
        " structure: `run.json`, tables, metadata, streams and index files with both decoders, configuration files, command"
        " lines, recordings of other tools. Each input must end with exit status 0 or 2, at most one line of error, no"
        " traceback, no signal, and bounded memory and time. `tools/faults --sanitize fuzz` does the same with a build of the"
        " native module that has AddressSanitizer and UBSan. `tests/fuzz/run` fuzzes the fast decoder by libFuzzer. Inputs"
        " that failed once are in `tests/faults/corpus`.",
    ]
    group = ""
    for row, result in zip(rows, results, strict=True):
        if row.group != group:
            group = row.group
            lines += ["", f"## {group}", "", "| fault | expected | result |", "|---|---|---|"]
        lines.append(f"| {row.fault} | {row.expected} | {result.text} |")
    return "\n".join(lines) + "\n"
