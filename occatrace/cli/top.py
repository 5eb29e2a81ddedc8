"""`occa_prof top [RUN]`: what a running program does, refreshed in the terminal. What is shown comes from
occatrace/views/monitor.py; here are the screen, the keys and the terminal."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import select
import shutil
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from occatrace.cli.messages import UsageError, complain
from occatrace.core import halfway
from occatrace.errors import RunError, SwitchError
from occatrace.run.folder import again, near
from occatrace.run.opening import open_run

if TYPE_CHECKING:
    from rich.text import Text

    from occatrace.views.monitor import Monitor, View, Work

SHORTEST_S, LONGEST_S = 0.1, 3600.0
NICE = 10
PIPE_WIDTH = 120
_POLL_S = 0.25  # of the terminal's size
_SEQUENCE = r"\x1b(\[[0-9;]*[@-~]|O.|)"  # what arrows and the like send
_LEAVE = b"\x1b[?1049l\x1b[H\x1b[?25h"  # the main screen, with a cursor
_LEAST_KERNELS, _MOST_DEVICES, _MOST_RANKS = 2, 4, 8
_SORTS = {"t": "time", "n": "calls", "a": "avg", "i": "now", "k": "name"}


@dataclass(frozen=True)
class Shown:
    """What the keys have chosen."""

    sort: str = "now"
    functions: bool = False


@dataclass(frozen=True)
class Column:
    """A column: its title, and how soon it is left out where there is no room (0: never)."""

    title: str
    dispensable: int = 0
    right: bool = True


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.description = (
        "Show a running program, refreshed: kernels, devices, memory, rates, ranks, losses. An activity counts when it has\n"
        "finished. `top` only reads the recorded events; it does not touch the program."
    )
    parser.add_argument(
        "run",
        metavar="RUN",
        nargs="?",
        type=Path,
        help="read this run in progress (default: the newest one in this folder)",
    )
    parser.add_argument(
        "--interval", metavar="SECONDS", type=interval, default=1.0, help="refresh after this time (default: 1)"
    )
    parser.add_argument("--once", action="store_true", help="print one screen, for one interval, and exit; for scripts")


def interval(text: str) -> float:
    """The value of --interval."""
    with contextlib.suppress(ValueError):
        if SHORTEST_S <= float(text) <= LONGEST_S:
            return float(text)
    raise argparse.ArgumentTypeError(f"{text!r}: seconds, from {SHORTEST_S:g} to {LONGEST_S:g}")


def run(args: argparse.Namespace) -> int:
    """Show it."""
    if not args.once and not sys.stdout.isatty():
        raise UsageError("top needs a terminal: `occa_prof top --once RUN` prints one screen anywhere")
    from occatrace.views import monitor

    folder = open_run(args.run).path if args.run else monitor.newest(Path())
    if open_run(folder).info.ended is not None:
        raise RunError(f"{near(folder)} has ended: {again(near(folder))}")
    with contextlib.suppress(OSError):
        os.nice(NICE)
    watched = monitor.Monitor(folder)
    try:
        return _once(watched, args.interval) if args.once else _follow(watched, args.interval)
    finally:
        watched.close()


def _once(watched: Monitor, pause: float) -> int:
    from occatrace.cli.report import output
    from occatrace.views.monitor import LOOKS

    watched.refresh()
    time.sleep(pause)
    view = watched.refresh()
    for _ in range(LOOKS):
        if watched.behind:
            time.sleep(pause)
            view = watched.refresh()
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPE_WIDTH
    with output(None, force=False) as out:
        for line in screen(view, Shown(), width, None):
            print(line.plain.rstrip(), file=out)
    return 0


def _follow(watched: Monitor, pause: float) -> int:
    """Refresh until the run has ended, or somebody has seen enough."""
    shown = Shown()
    view: View | None = None
    with _Terminal() as terminal, halfway.undoing(terminal.leave):
        terminal.draw(lambda width, height: [_text(f"reading {near(watched.run)} …")])
        due = time.monotonic()
        while True:
            if time.monotonic() >= due:
                begin = time.process_time()
                try:
                    view = watched.refresh()
                except RunError as error:
                    return _end(terminal, view, shown, str(error))
                if view.state in ("ended", "cut off"):
                    return _end(terminal, view, shown, None)
                # A refresh that takes long has a longer pause after it: never more than half a core.
                due = time.monotonic() + max(pause, time.process_time() - begin)
            if view:
                terminal.draw(partial(screen, view, shown))
            key = terminal.key(min(_POLL_S, max(0.0, due - time.monotonic())))
            if key in ("q", "Q", "\x03"):
                return 0
            if key in _SORTS:
                shown = Shown(_SORTS[key], shown.functions)
            elif key == "f":
                shown = Shown(shown.sort, not shown.functions)
            elif key == "p" and view:
                _turn(watched.run, view)
                due = time.monotonic()


def _turn(run: Path, view: View) -> None:
    """Pause or resume, on all nodes."""
    from occatrace.run import control
    from occatrace.run.nodes import host_name

    with contextlib.suppress(SwitchError):  # it ends just now, or was stopped for good
        control.command(run, "resume" if view.state == "paused" else "pause", host_name())


def _end(terminal: _Terminal, view: View | None, shown: Shown, problem: str | None) -> int:
    """The run is over: its last screen stays, and how it ended is told."""
    terminal.leave()
    if view:
        for line in screen(view, shown, terminal.size[0], None, keys=False):
            terminal.console.print(line)
    if problem:
        complain(f"the run has gone: {problem}")
    return 0


# ---- the screen ----


def screen(view: View, shown: Shown, width: int, height: int | None, keys: bool = True) -> list[Text]:
    """The lines of a screen, as many as there is room for."""
    from occatrace.core.units import size

    head = _head(view, width)
    rates = [f"{_count(view.rates['calls'])} calls/s", f"{_count(view.rates['launches'])} launches/s"]
    rates += [f"{size(view.rates['bytes'])}/s copied", f"{_count(view.rates['events'])} events/s"]
    top = [head, _text(_fitting([*rates, f"trace {size(view.trace)}"], width))]
    if view.lost:
        threads = f"{view.threads_lost} thread{'s' if view.threads_lost > 1 else ''}"
        top.append(_text(f"LOST: {view.lost:,} events of {threads}: counts and times are too low", "bold red"))
    top += [_text(f"! {note}", "red") for note in view.notes[: 3 if height is None else 1]]
    bottom = [_text(_keys(shown, view.state == "paused", width), "dim")] if keys and height is not None else []
    room = None if height is None else max(0, height - len(top) - len(bottom))
    lines = [*top, *_tables(view, shown, width, room)]
    if height is not None:
        lines = lines[: height - len(bottom)]
        lines += [_text("")] * (height - len(bottom) - len(lines)) + bottom
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return lines


def _head(view: View, width: int) -> Text:
    left = f"{near(view.folder)}  {' '.join(view.program)}"
    ended = {"ended": f"ended, exit status {view.status}", "cut off": "CUT OFF (occa_prof was killed)"}
    state = ended.get(view.state, "PAUSED" if view.state == "paused" else view.state)
    ranks = ""
    if view.ranks:
        lost = sum(rank.state == "lost" for rank in view.ranks)
        alive = sum(rank.state == "running" for rank in view.ranks)
        ranks = f"{view.size or len(view.ranks)} ranks, {alive} running{f', {lost} LOST' if lost else ''}  "
    right = f"  {ranks}{_clock(view.elapsed)}  {state}"
    room = max(0, width - len(right))
    text = _text(left[: room - 1] + "…" if len(left) > room else left.ljust(room), "bold")
    alarming = "LOST" in right or view.state in ("paused", "cut off", "stopped", "full")
    return text.append(right, "bold red" if alarming else "bold green")


def _tables(view: View, shown: Shown, width: int, room: int | None) -> list[Text]:
    """Devices, ranks, then kernels or functions, in the lines there are."""
    devices, ranks = _devices(view), _ranks(view)
    works = view.functions if shown.functions or not view.kernels else view.kernels
    if not works and not devices[1]:
        return [_text("nothing yet: no call of a traced API, no device work", "dim")]
    kernels = _works(works, "Function" if works is view.functions else "Kernel", shown, view.stretch)
    if room is None:
        return [line for table in (devices, ranks, kernels) if table[1] for line in [_text(""), *_table(*table, width)]]
    gaps = 1 if room >= 14 else 0
    least = min(len(kernels[1]), _LEAST_KERNELS) + 1
    # What there is beyond the least of kernels goes to devices, then to ranks.
    lines: list[Text] = []
    for table, most in ((devices, _MOST_DEVICES), (ranks, _MOST_RANKS if room < 40 else room // 3)):
        spare = room - len(lines) - least - gaps
        if table[1] and spare >= 2 + gaps:
            lines += [_text("")] * gaps + _table(*table, width, min(most, spare - 1 - gaps) + 1)
    if room - len(lines) >= 2 and kernels[1]:
        gap = gaps if room - len(lines) > 3 else 0
        lines += [_text("")] * gap + _table(*kernels, width, room - len(lines) - gap)
    return lines


Rows = tuple[Sequence[Column], Sequence[Sequence[str]]]


def _devices(view: View) -> Rows:
    from occatrace.core.units import size

    columns = (
        Column("Device", right=False), Column("Rank", 2), Column("Busy now"), Column("Since start", 3),
        Column("Memory"), Column("Highest", 1), Column("Objects", 4),
    )  # fmt: skip
    several = len({device.pid for device in view.devices}) > 1
    rows = [
        (
            d.name,
            "" if not several else str(d.pid) if d.rank is None else str(d.rank),
            _share(d.busy_now),
            _share(d.busy),
            size(d.memory.in_use),
            size(d.memory.high),
            f"{d.memory.objects:,}",
        )
        for d in sorted(view.devices, key=lambda d: (d.rank is None, d.rank or 0, d.pid))
    ]
    if not several:
        return [c for c in columns if c.title != "Rank"], [(*row[:1], *row[2:]) for row in rows]
    return columns, rows


def _ranks(view: View) -> Rows:
    columns = (
        Column("Rank"), Column("State", right=False), Column("Calls/s"), Column("Launches/s"), Column("Busy now", 1),
        Column("Process", 2), Column("Host", 3, right=False),
    )  # fmt: skip
    if len(view.ranks) < 2:
        return columns, ()
    rows = [
        (
            str(r.rank),
            "LOST" if r.state == "lost" else r.state,
            _count(r.calls),
            _count(r.launches),
            _share(r.busy_now),
            str(r.pid),
            r.host,
        )
        for r in view.ranks
    ]
    return columns, rows


def _works(works: Mapping[str, Work], title: str, shown: Shown, stretch: float) -> Rows:
    from occatrace.core.units import duration

    columns = (
        Column(title, right=False), Column("Time"), Column("%", 4), Column("Calls"), Column("Avg", 2),
        Column("Calls/s now"), Column("Busy now", 3), Column("Avg now", 5),
    )  # fmt: skip
    whole = sum(work.ns for work in works.values())
    orders = {
        "time": lambda item: -item[1].ns,
        "calls": lambda item: -item[1].count,
        "avg": lambda item: -(item[1].ns / item[1].count if item[1].count else 0),
        "now": lambda item: (-item[1].now_ns, -item[1].ns),
        "name": lambda item: item[0],
    }
    rows = []
    for name, work in sorted(works.items(), key=orders[shown.sort]):
        if work.count:
            average = duration(work.ns / work.count)
            now = duration(work.now_ns / work.now_count) if work.now_count else "-"
            share = f"{100 * work.ns / whole:.1f}" if whole else "-"
            # Work of several devices or ranks may add up to more than one of them can do.
            row = (name, duration(work.ns), share, f"{work.count:,}", average)
            rows.append((*row, _count(work.now_count / stretch), _share(work.now_ns / stretch / 1e9), now))
    return columns, rows


def _table(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int, lines: int | None = None
) -> list[Text]:
    """A table that fits: without the columns that are least missed, and without the last rows."""
    titles = [column.title for column in columns]
    if lines is not None and len(rows) > lines - 1:
        titles[0] += f" ({lines - 1} of {len(rows)})"
        rows = rows[: lines - 1]
    shown = list(range(len(columns)))
    name = next((i for i in shown if not columns[i].right), 0)

    def width_of(at: int) -> int:
        return max(len(titles[at]), *(len(row[at]) for row in rows)) if rows else len(titles[at])

    least = min(width_of(name), 16)
    while sum(width_of(i) + 2 for i in shown if i != name) + least > width:
        most = max(shown, key=lambda i: columns[i].dispensable)
        if not columns[most].dispensable:
            break
        shown.remove(most)
    rest = max(8, width - sum(width_of(i) + 2 for i in shown if i != name))

    def line(cells: Sequence[str]) -> str:
        parts = []
        for i in shown:
            room = min(width_of(i), rest) if i == name else width_of(i)
            cell = cells[i] if len(cells[i]) <= room else cells[i][: room - 1] + "…"
            parts.append(cell.rjust(room) if columns[i].right else cell.ljust(room))
        return "  ".join(parts)

    out = [_text(line(titles).rstrip(), "bold cyan")]
    return out + [_text(line(row), "red" if "LOST" in row else "") for row in rows]


def _keys(shown: Shown, paused: bool, width: int) -> str:
    sorts = " ".join(f"{key} {name}" for key, name in _SORTS.items())
    what = "kernels" if shown.functions else "functions"
    return _fitting([f"q quit  p {'resume' if paused else 'pause'}  f {what}", f"by {shown.sort}: {sorts}"], width)


def _fitting(words: Sequence[str], width: int) -> str:
    """As many of the words as there is room for, from the first on."""
    line = ""
    for word in words:
        longer = f"{line}  {word}" if line else word
        if len(longer) > width and line:
            break
        line = longer
    return line


def _text(text: str, style: str = "") -> Text:
    from rich.text import Text

    from occatrace.core.checked import printable

    return Text(printable(text), style, no_wrap=True)


def _count(value: float) -> str:
    return f"{value:,.1f}" if 0 < value < 10 else f"{value:,.0f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %" if value >= 0.1 or value == 0 else f"{100 * value:.1f} %"


def _clock(seconds: float) -> str:
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


# ---- the terminal ----


class _Terminal:
    """The other screen of the terminal, and keys one by one; as it was before, however we end."""

    def __init__(self) -> None:
        from rich.console import Console

        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # whatever characters the terminal knows
        self.console = Console(highlight=False, emoji=False, markup=False)
        self._keys = sys.stdin.fileno() if sys.stdin.isatty() else None
        self._saved: list[Any] | None = None
        self._stopped = False
        self._typed = ""  # keys that nobody has asked for yet

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines now."""
        found = os.get_terminal_size(sys.stdout.fileno())
        return found.columns or 80, found.lines or 24

    def __enter__(self) -> _Terminal:
        signal.signal(signal.SIGTSTP, self._stop)
        self._take()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def _stop(self, *_: object) -> None:
        self._stopped = True

    def _take(self) -> None:
        if self._keys is not None:
            self._saved = termios.tcgetattr(self._keys)
            tty.setcbreak(self._keys)
        self.console.set_alt_screen(True)
        self.console.show_cursor(False)

    def leave(self) -> None:
        """Give the terminal back. A signal may come in the middle of a write, which cannot be entered again: the settings,
        which need none, come first."""
        if self._saved is not None and self._keys is not None:
            termios.tcsetattr(self._keys, termios.TCSADRAIN, self._saved)
            self._saved = None
        if self.console.is_alt_screen:
            try:
                self.console.set_alt_screen(False)
                self.console.show_cursor(True)
            except RuntimeError:
                os.write(sys.stdout.fileno(), _LEAVE)

    def draw(self, lines_of: Callable[[int, int], Sequence[Text]]) -> None:
        """Show lines, made for the size that the terminal has now."""
        from rich.control import Control

        width, height = self.size
        self.console.size = (width, height)
        lines = lines_of(width, height)
        with self.console:  # in one write
            self.console.control(Control.home())
            for number, line in enumerate(lines[:height]):
                line.pad_right(max(0, width - line.cell_len))
                self.console.print(line, end="" if number == height - 1 else "\n", overflow="crop", no_wrap=True)
            for number in range(len(lines), height):
                self.console.print(" " * width, end="" if number == height - 1 else "\n", overflow="crop", no_wrap=True)

    def key(self, seconds: float) -> str | None:
        """A key, if one is pressed within a time."""
        if self._stopped:
            self._stopped = False
            self.leave()
            os.kill(os.getpid(), signal.SIGSTOP)
            self._take()
        if self._keys is None:
            time.sleep(seconds)
            return None
        if not self._typed and select.select([self._keys], [], [], seconds)[0]:
            pressed = os.read(self._keys, 64).decode("utf-8", "replace")
            self._typed = re.sub(_SEQUENCE, "", pressed) if pressed else "q"  # nothing: the terminal has gone
        key, self._typed = self._typed[:1], self._typed[1:]
        return key or None
