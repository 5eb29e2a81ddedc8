"""A program that does as many steps as it is told, under occa_prof, and what is seen of it meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import runs
from tests.support.runs import until

STEPS = runs.ROOT / "tests" / "programs" / "ongoing" / "steps.py"


@dataclass
class Stepper:
    """The program under occa_prof, alone or as ranks of a job."""

    folder: Path
    process: subprocess.Popen[str]
    ranks: int = 1

    @property
    def run(self) -> Path:
        """The folder of its run."""
        return self.folder / "run"

    def steps(self, count: int) -> None:
        """Have it do steps until there are so many; returns when all have done them."""
        self._write(str(count))
        until(lambda: all(done == count for done, _ in self.told().values()), f"{count} steps")

    def told(self) -> dict[int, tuple[int, int]]:
        """By rank: steps done, and the process id."""
        out = {}
        for rank in range(self.ranks):
            file = self.folder / f"done.{rank}"
            assert self.process.poll() is None, self.process.communicate()
            done, pid = map(int, file.read_text().split()) if file.exists() else (-1, 0)
            out[rank] = done, pid
        return out

    def end(self) -> str:
        """Let it end; what was printed on standard error."""
        self._write("end")
        output, errors = self.process.communicate(timeout=runs.PATIENCE)
        assert self.process.returncode == 0, errors
        assert output.count("steps") == self.ranks
        return errors

    def _write(self, text: str) -> None:
        (self.folder / "new").write_text(text)
        (self.folder / "new").replace(self.folder / "steps")

    def occa_prof(self, *words: object) -> subprocess.CompletedProcess[str]:
        """A command beside it, that succeeds."""
        done = runs.execute([*runs.OCCA_PROF, *words])
        assert done.returncode == 0, done.stderr
        return done

    def report(self, name: str) -> dict[str, Any]:
        """A report of this moment, as JSON gives it."""
        document: dict[str, Any] = json.loads(
            self.occa_prof("report", self.run, "--report", name, "--format", "json").stdout
        )
        return document


Start = Callable[..., Stepper]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the program under occa_prof with options; behind `launcher`, as that many ranks."""
    pytest.importorskip("pyopencl")
    started: list[Stepper] = []

    def begin(*options: str, launcher: tuple[str, ...] = (), ranks: int = 1, **variables: str) -> Stepper:
        (tmp_path / "steps").write_text("0")
        words = [*launcher, *runs.OCCA_PROF, "-o", tmp_path / "run", *options, sys.executable, STEPS, tmp_path]
        process = subprocess.Popen(
            [str(word) for word in words],
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYOPENCL_NO_CACHE": "1", "OCCATRACE_PATIENCE": "600", **variables},
        )
        started.append(Stepper(tmp_path, process, ranks))
        return started[-1]

    yield begin
    for stepper in started:
        if stepper.process.poll() is None:
            stepper._write("end")
            try:
                stepper.process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                stepper.process.kill()
                stepper.process.communicate()
