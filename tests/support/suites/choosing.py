"""What the tests of choosing share: a job whose ranks do the same in every way there is, and what each process did."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from occatrace.core.bounds import EVENTS
from tests.support.runs import OCCA_PROF, PATIENCE, ROOT, Run, execute, until
from tests.support.suites.occa import MODES, Occa, occa_build

PROGRAMS = ROOT / "tests" / "programs" / "choosing"
KINDS = ("opencl", *MODES)  # by rank
WORKS = ("opencl", "OpenCL")  # of which there is device work
LAUNCHES = {("OpenCL", "scaleTwice"): 2}  # of one call
KERNELS = ("scaleTwice", "addVectors", "spin")
NODE_NAMES = ("node0", "node1")
NODES = 'export OCCATRACE_HOST=node$((PMI_RANK / 2)); exec "$@"'
QUEUES = {("main", 0): 0, ("main", 1): 1, ("worker-1", 0): 2}


def lost(run: Run) -> int:
    return int(run.sql("SELECT coalesce(sum(lost), 0)::BIGINT FROM losses")[0][0])


@dataclass(frozen=True)
class Thing:
    """One thing that a program did: a kernel by its name, HtoD or DtoH. `nth`: of this name in its process."""

    pid: int
    kind: str
    child: bool
    thread: str
    device: int
    step: int
    name: str
    nth: int

    @property
    def is_kernel(self) -> bool:
        return self.name in KERNELS

    @property
    def queue(self) -> int:
        """By the order in which the process made them."""
        return QUEUES[self.thread, self.device]


Which = Callable[[Thing], bool]


@dataclass(frozen=True)
class Grid(Run):
    """A job of four ranks, each with a child of fork, and what they did."""

    notes: Path

    @cached_property
    def did(self) -> list[Thing]:
        things = []
        parents = dict(self.sql("SELECT pid, ppid FROM processes"))
        for file in self.notes.iterdir():
            if file.suffix:
                continue
            rank, pid = map(int, file.name.split("-"))
            for line in file.read_text().splitlines():
                thread, device, step, name, nth = line.split()
                where = (pid, KINDS[rank], parents[pid] in parents, thread, int(device), int(step))
                things.append(Thing(*where, name, int(nth)))
        assert len({t.pid for t in things}) == 2 * len(KINDS)
        return things

    def calls(self, which: Which) -> Counter[tuple[int, str, str]]:
        """Of the processes with OCCA, which of what they did is wanted as OCCA's calls."""
        return Counter((t.pid, t.thread, t.name) for t in self.did if t.kind != "opencl" and which(t))

    def work(self, which: Which) -> Counter[tuple[int, str, int, str]]:
        """The same of device work."""
        out: Counter[tuple[int, str, int, str]] = Counter()
        for t in self.did:
            if t.kind in WORKS and which(t):
                out[t.pid, t.thread, t.queue, t.name] += LAUNCHES.get((t.kind, t.name), 1)
        return out

    @cached_property
    def recorded_calls(self) -> Counter[tuple[int, str, str]]:
        """What the run has of the first."""
        thread = "CASE t.tid WHEN p.pid THEN 'main' ELSE t.name END"
        rows = self.sql(
            f"SELECT p.pid, {thread}, k.name, count(*) FROM kernel_runs r JOIN kernels k USING (kernel)"
            " JOIN processes p ON p.process = r.process JOIN threads t USING (thread) GROUP BY ALL UNION ALL"
            f" SELECT p.pid, {thread}, c.kind, count(*) FROM occa_copies c"
            " JOIN processes p ON p.process = c.process JOIN threads t USING (thread) GROUP BY ALL"
        )
        return Counter({(pid, thread, name): count for pid, thread, name, count in rows})

    @cached_property
    def recorded_work(self) -> Counter[tuple[int, str, int, str]]:
        """And of the second."""
        name = "CASE a.kind WHEN 'kernel' THEN regexp_replace(a.name, '^_occa_(.*)_[0-9]+$', '\\1') ELSE a.kind END"
        rows = self.sql(
            f"SELECT p.pid, CASE t.tid WHEN p.pid THEN 'main' ELSE t.name END, q.id - 1, {name}, count(*)"
            " FROM activities a JOIN processes p ON p.process = a.process JOIN threads t USING (thread)"
            " JOIN queues q USING (queue) GROUP BY ALL"
        )
        return Counter({tuple(row[:4]): row[4] for row in rows})

    @cached_property
    def who(self) -> Mapping[int, tuple[str, bool]]:
        """Of each process its kind, and whether it is a child of fork."""
        return {t.pid: (t.kind, t.child) for t in self.did}

    @cached_property
    def total(self) -> Counter[tuple[str, bool]]:
        """Calls that were recorded or counted."""
        rows = self.sql(
            "SELECT p.pid, sum(calls)::BIGINT FROM call_stats JOIN processes p USING (process) GROUP BY ALL"
        )
        return Counter({self.who[pid]: calls for pid, calls in rows})

    def left_out(self, reason: str, *, named: bool = False) -> Counter[tuple[str, bool]]:
        """What the run says was left out, by kind of process; `named`: launches of kernels, else calls."""
        rows = self.sql(
            "SELECT p.pid, sum(count)::BIGINT FROM excluded JOIN processes p USING (process)"
            f" WHERE reason = '{reason}' AND (name != '') = {named} GROUP BY ALL"
        )
        return Counter({self.who[pid]: count for pid, count in rows})

    def check(self, calls: Which, work: Which | None = None) -> None:
        """That what was chosen is complete, and nothing else is there."""
        assert self.recorded_calls == self.calls(calls)
        assert self.recorded_work == self.work(work or calls)
        assert lost(self) == 0


@dataclass(frozen=True)
class Steps:
    """How far the processes of a job are."""

    folder: Path

    @property
    def now(self) -> Mapping[int, int]:
        """The last step that each has done."""
        out = {}
        for file in (self.folder / "notes").glob("*.step"):
            out[int(file.stem.split("-")[1])] = int(file.read_text())
        return out

    def further(self, steps: int) -> None:
        """Wait until each has done more steps."""
        before = self.now
        until(lambda: all(self.now[pid] >= before[pid] + steps for pid in before), "the programs go on")

    def turns(self, count: int) -> None:
        """Wait until the switch was turned so often on each node."""
        logs = [self.folder / "run" / "control" / f"{node}.log" for node in NODE_NAMES]
        # The first line is how it was at the begin.
        until(lambda: all(f.exists() and len(f.read_text().splitlines()) == count + 1 for f in logs), f"turn {count}")

    def events_off(self) -> None:
        """Wait until no node records events any more."""
        places = [json.loads((self.folder / "run" / "control" / f"{node}.json").read_text()) for node in NODE_NAMES]
        until(lambda: all(Path(place["file"]).read_bytes()[EVENTS] == 0 for place in places), "events end")


@dataclass(frozen=True)
class Grids:
    """How such jobs are started."""

    occa: Occa
    program: Path
    launcher: str

    def command(self, folder: Path, *options: object, more: tuple[object, ...] = ()) -> list[str]:
        notes = folder / "notes"
        notes.mkdir(parents=True)
        words = [self.launcher, "-n", len(KINDS), *OCCA_PROF, "-o", folder / "run", *options]
        return [str(w) for w in (*words, self.program, notes, ",".join(KINDS), "fork", *more)]

    @property
    def environment(self) -> dict[str, str]:
        # Two devices, one after the other in one process.
        return {**self.occa.environment("Serial"), "POCL_DEVICES": "basic pthread"}

    def __call__(self, folder: Path, *options: object, more: tuple[object, ...] = ()) -> Grid:
        done = execute(self.command(folder, *options, more=more), **self.environment)
        assert done.returncode == 0, done.stderr
        return Grid(folder / "run", 0, done.stdout, done.stderr, folder / "notes")

    @contextmanager
    def going_on(self, folder: Path, *options: object, fast: bool = False) -> Iterator[Steps]:
        """The same with steps that go on until the block ends; the ranks are on two nodes."""
        stop = folder / "stop"
        more = ("until", stop, "fast") if fast else ("until", stop)
        words = self.command(folder, *options, more=more)
        words[3:3] = ["sh", "-c", NODES, "sh"]
        with (folder / "said").open("w") as said:
            job = subprocess.Popen(
                words, stdout=subprocess.DEVNULL, stderr=said, env={**os.environ, **self.environment}
            )
            try:
                steps = Steps(folder)
                until(lambda: len(steps.now) == 2 * len(KINDS), "all processes begin")
                yield steps
            finally:
                stop.touch()
                job.wait(timeout=PATIENCE)

    def ended(self, folder: Path) -> Grid:
        """What became of it."""
        return Grid(folder / "run", 0, "", (folder / "said").read_text(), folder / "notes")


@pytest.fixture(scope="session")
def grids(tmp_path_factory: pytest.TempPathFactory) -> Grids:
    launcher = shutil.which("mpirun.mpich")
    if not launcher:
        pytest.skip("needs MPICH's mpirun")
    occa = occa_build("gcc")
    program = tmp_path_factory.mktemp("grid") / "grid"
    words = ["g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", PROGRAMS / "grid.cpp", "-o", program]
    words += [f"-I{ROOT / 'include'}", "-isystem", occa.folder / "include"]
    words += [f'-DKERNEL_FOLDER="{ROOT / "tests/programs/occa"}"', f"-L{occa.library.parent}", "-locca"]
    words += [f"-Wl,-rpath,{occa.library.parent}", "-lOpenCL", "-pthread"]
    subprocess.run([str(w) for w in words], check=True)
    made = Grids(occa, program, launcher)
    notes = program.parent / "built"
    notes.mkdir()
    for kind in MODES:  # one after another: their kernels are found built from then on
        done = execute([program, notes, kind], **made.environment)
        assert done.returncode == 0, done.stderr
    return made


@pytest.fixture(scope="session")
def everything(grids: Grids, tmp_path_factory: pytest.TempPathFactory) -> Grid:
    """The job with nothing chosen: all that there is to choose among."""
    return grids(tmp_path_factory.mktemp("everything"))
