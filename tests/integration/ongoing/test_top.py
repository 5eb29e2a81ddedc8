"""`occa_prof top`: its numbers against the tables of the same run, and its screen in a real terminal (tmux)."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import occatrace
from occatrace.views.monitor import Monitor, View
from tests.support import runs
from tests.support.runs import until
from tests.support.suites.occa import ProfileOcca, gcc_occa, occa_build, profile
from tests.support.suites.ongoing import Start

__all__ = ["gcc_occa", "occa_build", "profile"]

SIZE = 65536
Terminal = Callable[..., "Tmux"]


def check(view: View, run: Path) -> None:
    """What a monitor has added up is what the tables say."""
    with occatrace.open(run) as opened:
        calls = dict(opened.sql("SELECT function, sum(calls) FROM call_stats GROUP BY 1").fetchall())
        total = dict(opened.sql("SELECT function, sum(total_ns) FROM call_stats GROUP BY 1").fetchall())
        lost = opened.sql("SELECT count(*) FROM losses").fetchone()
    assert {name: work.count for name, work in view.functions.items()} == calls
    assert all(abs(view.functions[name].ns - ns) <= 1e-6 * ns + 2000 for name, ns in total.items())
    assert (view.lost, lost) == (0, (0,))


def union(intervals: list[tuple[int, int]]) -> int:
    """The time in which at least one runs."""
    busy = until_now = 0
    for start, end in sorted(intervals):
        busy += max(0, end - max(start, until_now))
        until_now = max(until_now, end)
    return busy


def test_numbers_are_those_of_the_tables(start: Start) -> None:
    stepper = start("-q")
    stepper.steps(1)
    monitor = Monitor(stepper.run)
    try:
        seen = {"once": 0, "twice": 0}
        for steps in (1, 4, 11, 30):
            stepper.steps(steps)

            def reached(wanted: int = steps) -> bool:
                view = monitor.refresh()
                assert view.state == "recording" and view.lost == 0
                for name in seen:
                    seen[name] += view.kernels[name].now_count if name in view.kernels else 0
                return seen == {"once": wanted, "twice": 2 * wanted}

            until(reached, f"{steps} steps")
        stepper.end()
        view = monitor.refresh()
        assert (view.state, view.status) == ("ended", 0)
        check(view, stepper.run)
        with occatrace.open(stepper.run) as run:
            work = run.sql(
                "SELECT name, count(*), sum(end_ns - start_ns) FROM activities WHERE kind = 'kernel' GROUP BY 1"
            )
            assert {(name, w.count, w.ns) for name, w in view.kernels.items()} == set(work.fetchall())
            rows = run.sql("SELECT start_ns, end_ns FROM activities WHERE device IS NOT NULL").fetchall()
        # Each piece of work counted in one stretch and no other.
        assert {name: w.count for name, w in view.kernels.items()} == {"once": 30, "twice": 60}
        (device,) = view.devices
        assert (device.memory.in_use, device.memory.high, device.memory.objects) == (0, SIZE, 0)
        (busy,) = (busy for host in monitor._hosts.values() for busy in host.busy.values())
        assert busy.total == union(rows) > 0
    finally:
        monitor.close()


def test_buffers_out_of_reach(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on another node: what LTTng writes later is not taken for seen."""
    monkeypatch.setattr("occatrace.ingest.live_buffers.buffers_of", lambda *_: None)
    stepper = start("-q")
    stepper.steps(1)
    with contextlib.closing(Monitor(stepper.run)) as monitor:
        view = monitor.refresh()
        assert view.lost == 0 and "buffers are out of reach" in view.notes[0]
        stepper.steps(5)
        stepper.end()
        view = monitor.refresh()
        assert view.state == "ended" and view.functions
        check(view, stepper.run)


@pytest.mark.parametrize("mode", ["Serial", "OpenMP", "OpenCL"])
def test_occa(gcc_occa: object, profile: ProfileOcca, mode: str) -> None:
    run = profile(gcc_occa, "demo", mode, "-n", 64, "-s", 3)
    monitor = Monitor(run.folder)
    try:
        view = monitor.refresh()
    finally:
        monitor.close()
    check(view, run.folder)
    with occatrace.open(run.folder) as opened:
        kernels = opened.sql(
            "SELECT k.name, count(*) FROM kernel_runs r JOIN kernels k USING (kernel) GROUP BY 1"
        ).fetchall()
        parts = opened.sql("SELECT count(*) FROM activities WHERE kind = 'kernel'").fetchall()[0][0]
        memory = opened.sql(
            "SELECT coalesce(sum(bytes) FILTER (end_ns IS NULL), 0) FROM allocations"
            f" WHERE api {'=' if mode != 'OpenCL' else '!='} 'occa' AND kind NOT IN ('host', 'slice', 'wrapped')"
        ).fetchall()[0][0]
    assert set(view.kernels) == {name for name, _ in kernels}
    assert sum(w.count for w in view.kernels.values()) == (parts if mode == "OpenCL" else sum(n for _, n in kernels))
    assert sum(device.memory.in_use for device in view.devices) == memory
    assert all(device.memory.high >= 64 * 64 * 8 for device in view.devices)
    if mode != "OpenCL":
        assert {device.name for device in view.devices} == {f"host ({mode})"}


def test_counted_calls(start: Start) -> None:
    stepper = start("-m", "tally", "-q")
    stepper.steps(6)

    def shown() -> bool:
        text = stepper.occa_prof("top", "--once", "--interval", "0.1", stepper.run).stdout
        row = re.search(r"^clEnqueueNDRangeKernel +\S+ \S+ +\S+ +(\d+) ", text, re.M)
        return row is not None and row[1] == "18"

    until(shown, "18 launches that were counted")
    stepper.end()


@pytest.fixture
def openmpi() -> tuple[str, ...]:
    """A launcher that goes on when a rank dies."""
    if not shutil.which("mpirun.openmpi"):
        pytest.skip("needs Open MPI")
    root = ("--allow-run-as-root",) if os.geteuid() == 0 else ()
    return ("mpirun.openmpi", *root, "--oversubscribe", "--enable-recovery", "-n", "4")


def ranks_of(text: str) -> list[tuple[str, str]]:
    """Rank and state, from a screen."""
    return re.findall(r"^ *(\d+)  (running|ended|LOST) ", text, re.M)


def test_ranks_and_one_that_is_killed(
    start: Start, openmpi: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OMPI_MCA_orte_abort_on_non_zero_status", "0")
    stepper = start("-q", launcher=openmpi, ranks=4)
    stepper.steps(5)

    def screen() -> str:
        return stepper.occa_prof("top", "--once", "--interval", "0.1", stepper.run).stdout

    def all_steps() -> str | None:
        text = screen()
        return text if re.search(r"^twice .* 40 ", text, re.M) and re.search(r"^once .* 20 ", text, re.M) else None

    text = until(all_steps, "the kernels of four ranks")
    assert ranks_of(text) == [(str(rank), "running") for rank in range(4)]
    assert "4 ranks, 4 running" in text
    assert text.count("64.00 KiB  64.00 KiB") == 4  # in use and highest, of each rank's device
    os.kill(stepper.told()[2][1], signal.SIGKILL)
    text = until(lambda: "LOST" in (text := screen()) and text, "the rank that was killed")
    assert ranks_of(text) == [("0", "running"), ("1", "running"), ("2", "LOST"), ("3", "running")]
    assert "4 ranks, 3 running, 1 LOST" in text
    stepper._write("end")
    output, _ = stepper.process.communicate(timeout=runs.PATIENCE)
    assert sorted(output.split()) == ["5"] * 3 + ["steps"] * 3


class Tmux:
    """A terminal of a size, in which a command runs."""

    def __init__(self, folder: Path, command: str, columns: int, lines: int) -> None:
        self._words = ["tmux", "-S", str(folder / "tmux"), "-f", "/dev/null"]
        self._status = folder / "status"
        after = f"echo $? > {self._status}.new; stty -a > stty; mv {self._status}.new {self._status}"
        script = f"cd {folder}; ({command}); {after}; sleep 1000"
        self("new-session", "-d", "-x", str(columns), "-y", str(lines), script)

    def __call__(self, *words: str) -> str:
        return subprocess.run([*self._words, *words], check=True, text=True, capture_output=True, timeout=60).stdout

    def shows(self, *patterns: str) -> str:
        """The screen, once all of these are on it."""

        def found() -> str | None:
            text = self("capture-pane", "-p")
            return text if all(re.search(pattern, text, re.M) for pattern in patterns) else None

        try:
            text: str = until(found, f"{patterns}")
        except AssertionError:
            raise AssertionError(f"{patterns} not in\n{self('capture-pane', '-p')}") from None
        return text

    def resize(self, columns: int, lines: int) -> None:
        self("resize-window", "-x", str(columns), "-y", str(lines))

    def keys(self, *keys: str) -> None:
        self("send-keys", *keys)

    def check_settings(self) -> None:
        """The terminal is as it was: keys are echoed, and lines are read as lines."""
        settings = (self._status.parent / "stty").read_text().replace(";", " ").split()
        assert {"icanon", "echo"} <= set(settings)

    def status(self) -> int:
        """With which the command has ended."""
        return int(until(lambda: self._status.exists() and self._status.read_text(), "its end"))


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """Starts commands in terminals."""
    if not shutil.which("tmux"):
        pytest.skip("needs tmux")
    opened: list[Tmux] = []

    def begin(command: str, columns: int = 80, lines: int = 24) -> Tmux:
        folder = tmp_path / f"terminal{len(opened)}"
        folder.mkdir()
        opened.append(Tmux(folder, command, columns, lines))
        return opened[-1]

    yield begin
    for each in opened:
        subprocess.run([*each._words, "kill-server"], check=False, capture_output=True)


def top(*words: object) -> str:
    """The command, for a shell."""
    return " ".join([*runs.OCCA_PROF, "top", *map(str, words)])


def check_size(text: str, columns: int, lines: int) -> None:
    assert len(text.splitlines()) == lines
    assert max(map(len, text.splitlines())) <= columns


def test_screen(start: Start, terminal: Terminal) -> None:
    stepper = start("-q")
    stepper.steps(2)
    tmux = terminal(top("--interval", 0.2, stepper.run))
    screen = tmux.shows(r"^once ", r"^twice .* 4 ", r"recording", r"64.00 KiB", r"\d+ %", r"\d+ calls/s", r"^q quit")
    check_size(screen, 80, 24)
    assert "launches/s" in screen and "copied" in screen and "LOST" not in screen

    # Work between two refreshes shows as a rate.
    def goes_on() -> bool:
        steps = stepper.told()[0][0] + 5
        stepper.steps(steps)
        text = tmux("capture-pane", "-p")
        rates = re.findall(r"([\d,.]+) (calls|launches)/s", text)
        return len(rates) == 2 and all(float(number.replace(",", "")) > 0 for number, _ in rates)

    until(goes_on, "rates")
    for columns, lines in ((40, 10), (200, 50), (80, 24)):
        tmux.resize(columns, lines)
        bottom = r"^q quit"
        text = until(
            lambda n=lines: (t := tmux("capture-pane", "-p").rstrip("\n"))  # type: ignore[misc]
            and len(t.splitlines()) == n and t.splitlines()[-1].startswith("q quit") and "twice" in t and t,
            f"a screen of {columns} by {lines}",
        )  # fmt: skip
        check_size(text, columns, lines)
        assert re.search(r"^twice ", text, re.M) and re.search(bottom, text, re.M)
    tmux.keys("f")
    tmux.shows(r"^Function", r"^clEnqueueNDRangeKernel")
    tmux.keys("f", "n")
    tmux.shows(r"^Kernel", r"^twice", r"^once", r"by calls: ")
    tmux.keys("p")
    tmux.shows("PAUSED")
    tmux.keys("p")
    tmux.shows("recording")
    tmux.keys("q")
    assert tmux.status() == 0
    tmux.check_settings()
    assert "q quit" not in tmux("capture-pane", "-p")
    stepper.end()


def test_end_of_the_run(start: Start, terminal: Terminal) -> None:
    stepper = start("-q")
    stepper.steps(3)
    tmux = terminal(f"cd {stepper.folder}; {top()}", 100, 30)  # the newest run there
    tmux.shows(r"^twice .* 6 ", "recording")
    stepper.end()
    assert tmux.status() == 0
    text = tmux.shows("ended, exit status 0", r"^twice .* 6 ", r"^once .* 3 ")
    assert "q quit" not in text


@pytest.mark.parametrize("end", ["C-c", "kill"])
def test_interrupted(start: Start, terminal: Terminal, end: str) -> None:
    stepper = start("-q")
    stepper.steps(1)
    tmux = terminal(f"sh -c 'echo $$ > pid; exec {top(stepper.run)}'")
    tmux.shows("recording", "^twice")
    if end == "C-c":
        tmux.keys("C-c")
    else:
        os.kill(int((tmux._status.parent / "pid").read_text()), signal.SIGTERM)
    assert tmux.status() == (130 if end == "C-c" else 143)
    tmux.check_settings()
    stepper.steps(2)
    stepper.end()
    with occatrace.open(stepper.run) as run:
        assert run.sql("SELECT count(*) FROM activities WHERE kind = 'kernel'").fetchall() == [(6,)]


def test_one_line_where_there_is_nothing_to_show(start: Start, tmp_path: Path) -> None:
    stepper = start("-q")
    stepper.steps(1)
    (tmp_path / "empty").mkdir()

    def refused(*words: object, cwd: Path = tmp_path) -> str:
        command = [*runs.OCCA_PROF, "top", *map(str, words)]
        done = subprocess.run(command, cwd=cwd, text=True, capture_output=True, check=False)
        assert done.returncode == 2 and done.stdout == ""
        return done.stderr.splitlines()[-1]

    assert "needs a terminal" in refused(stepper.run)
    assert "no run is going on in this folder" in refused("--once", cwd=tmp_path / "empty")
    assert "does not exist" in refused("--once", tmp_path / "nothing")
    assert "seconds, from 0.1 to 3600" in refused("--interval", "0", stepper.run)
    stepper.end()
    assert "has ended: occa_prof report" in refused("--once", stepper.run)


def test_occa_prof_is_killed(start: Start) -> None:
    stepper = start("-q")
    stepper.steps(2)
    monitor = Monitor(stepper.run)
    try:
        until(lambda: monitor.refresh().kernels.get("once"), "work")
        os.kill(stepper.process.pid, signal.SIGKILL)
        stepper.process.wait(runs.PATIENCE)
        view = until(lambda: (v := monitor.refresh()).state == "cut off" and v, "its end")
        assert view.kernels["once"].count == 2 and view.status is None
    finally:
        monitor.close()
        stepper._write("end")
