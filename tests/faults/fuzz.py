"""Fuzzing of everything that occatrace reads: every input ends with status 0 or 2 and at most one line of error, without a
traceback or a signal, in bounded memory and time."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

from tests.faults import seeds
from tests.faults.cases import Case
from tests.faults.execution import Outcome, execute, judge
from tests.faults.parts import PARTS

# What children would import one by one.
MODULES = (
    "duckdb",
    "numpy",
    "occatrace.cli.dispatch",
    "occatrace.cli.report",
    "occatrace.cli.examples",
    "occatrace.store.tables",
    "occatrace.store.stream",
    "occatrace.ingest.host",
    "occatrace.ingest.calls",
    "occatrace.reports.overview",
    "occatrace.render.text",
    "occatrace.views.timeline",
    "occatrace.foreign.importing",
)


def prepare(native: Path | None = None) -> None:
    """Import what the commands import. `native`: the file of another build of occatrace._native."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # threads of the parent would be lacking in its children
    if native is not None:
        spec = importlib.util.spec_from_file_location("occatrace._native", native)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        import occatrace

        sys.modules["occatrace._native"] = occatrace._native = module
        spec.loader.exec_module(module)
    for name in MODULES:
        if importlib.util.find_spec(name):
            importlib.import_module(name)


def _decode(decoder: str, folder: str) -> int:
    """Read a trace to its end."""
    from occatrace import _native

    try:
        reader = _native.Reader(str(Path(folder) / "trace"), decoder=decoder, threads=2)
        for batch in reader:
            for column in batch.columns.values():
                column.sum()
        for text in reader.strings:
            len(text)
    except _native.TraceError as error:
        print(f"occa_prof: {error}", file=sys.stderr)
        return 2
    return 0


def _command(words: Sequence[str], folder: Path) -> int:
    os.chdir(folder)
    if words[0] == "decode":
        return _decode(words[1], words[2])
    from occatrace.cli.dispatch import main

    return main(words)


class Work:
    """A folder for bases and inputs."""

    def __init__(self, folder: Path, bounded: bool = True) -> None:
        self.folder = folder
        self.bounded = bounded

    def base(self, name: str) -> Path:
        return seeds.make(name, self.folder / "bases")

    def run(self, case: Case) -> tuple[Outcome, str | None]:
        """Execute a case in a fresh folder, and judge it."""
        given, out = self.folder / "in", self.folder / "out"
        for path in (given, out):
            shutil.rmtree(path, ignore_errors=True)
        case.put(self.base(case.base), given)
        out.mkdir()
        words = [word.replace("{in}", str(given)).replace("{out}", str(out)) for word in case.words]
        outcome = execute(partial(_command, words, out), self.bounded)
        wrong = judge(words, outcome)
        if wrong is None and (left := _left(given, out)):
            wrong = f"left behind: {left}"
        return outcome, wrong and wrong.replace(str(self.folder), "")


def _left(*folders: Path) -> list[str]:
    """Files of the moment that a command should have removed."""
    names = [path.name for folder in folders for path in folder.rglob("*")]
    return [name for name in names if "partial" in name or name.startswith((".scratch-", ".export."))]


@contextmanager
def work_folder(bounded: bool = True) -> Iterator[Work]:
    """In memory where that is possible; temporary files of the commands lie there, too."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="occatrace-fuzz-", dir=place) as folder:
        (Path(folder) / "tmp").mkdir()
        os.environ["TMPDIR"] = tempfile.tempdir = f"{folder}/tmp"
        yield Work(Path(folder), bounded)


def same_fault(said: str) -> str:
    """Findings with the same text are one, whatever numbers and names are in it."""
    import re

    return re.sub(r"\d+|'[^']*'|\"[^\"]*\"|/\S+", "#", said)[:160]


def fuzz(
    names: Sequence[str],
    first: int,
    number: int | None,
    seconds: float,
    findings: Path,
    work: Work,
    say: Callable[[str], None],
) -> Counter[str]:
    """Run `number` cases of each part, or as many as there is time for; returns how many there were by how they ended."""
    counts: Counter[str] = Counter()
    seen: set[str] = set()
    end = time.monotonic() + seconds
    at = first
    while (number is None or at < first + number) and time.monotonic() < end:
        for name in names:
            if time.monotonic() > end:
                break
            case = PARTS[name](Random(f"{name} {at}"), work.base, work.folder)
            outcome, wrong = work.run(case)
            counts[f"{name}: status {outcome.status}"] += 1
            if wrong is None:
                continue
            counts["broken"] += 1
            kind = same_fault(wrong)
            if kind not in seen:
                seen.add(kind)
                path = replace(case, said=wrong).save(findings)
                say(f"{name} {at}: occa_prof {' '.join(case.words)}\n    {wrong}\n    {path}")
        at += 1
    return counts
