"""The process that records the ranks of one node: it holds their session, sees each of them end, makes the tables of
the node, and, on the node that is the last, the report of all. It is nobody's child and ends by itself."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import selectors
import signal
import socket
import stat
import sys
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from occatrace import __version__
from occatrace.cli import choice, program
from occatrace.cli.grace import FOR_NODES, Grace
from occatrace.cli.messages import UsageError, words_of
from occatrace.cli.recording import note_in
from occatrace.core import files
from occatrace.errors import RunError
from occatrace.record import job
from occatrace.run import folder as runs
from occatrace.run import layout
from occatrace.run.nodes import NodeState, RankState, claim_merge, host_name, node_tables, read_nodes, remarks, some
from occatrace.run.opening import open_run
from occatrace.run.ranks import COMMANDS, Place

if TYPE_CHECKING:
    from occatrace.record.sampling import Sampler
    from occatrace.record.session import Outcome, Session

SIGN_OF_LIFE_S = 5.0
KILL_AFTER_S = 2.0  # what a rank's program gets to end when its occa_prof was killed
QUIET_S = 1.0  # without a rank, where nobody says how many there are


@dataclass
class Member:
    """A rank that has come."""

    connection: socket.socket
    state: RankState
    program: int = 0
    born: str = ""


def main(args: argparse.Namespace, desk: job.Desk, key: str, place: Place, launcher: int) -> None:
    """Serve the node until its job is over. Called in a process of its own, which ends with it."""
    assert desk.listener
    fallback = _launchers_stderr(launcher)
    _let_go({desk.listener.fileno(), fallback} - {None})
    if fallback is not None:
        os.dup2(fallback, 2)
        os.close(fallback)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    node = Node(args, desk, key, place, launcher)
    node.heard = fallback is not None
    signal.signal(signal.SIGTERM, node.hurry)
    try:
        node.serve()
    except Exception as error:
        if os.environ.get("OCCATRACE_DEBUG"):
            raise
        node.say(f"no report: {words_of(error)[0]}")
    finally:
        node.close()


def _let_go(keep: set[int | None]) -> None:
    """Close what the rank had: pipes of the launcher, on whose closing it waits."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in keep:
            with contextlib.suppress(OSError):
                os.close(int(name))


def _launchers_stderr(pid: int) -> int | None:
    """The launcher's standard error, where a person reads: what a rank prints is lost once the launcher takes a job
    down. On nodes where there is no such launcher, none."""
    # Hydra has a process of its own between the ranks and mpiexec.
    while (parent := _parent(pid)) and parent[1] in {name[:15] for name in COMMANDS}:
        pid = parent[0]
    path = f"/proc/{pid}/fd/2"
    try:
        kind = os.stat(path)
        if stat.S_ISCHR(kind.st_mode) and os.path.realpath(path) == os.devnull:
            return None
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None


def _parent(pid: int) -> tuple[int, str] | None:
    """Number and name (of at most 15 characters) of a process's parent."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        parent = int(stat.rpartition(")")[2].split()[1])
        return parent, Path(f"/proc/{parent}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except (OSError, ValueError, IndexError):
        return None


class Node:
    """One node of a job."""

    def __init__(self, args: argparse.Namespace, desk: job.Desk, key: str, place: Place, launcher: int) -> None:
        assert desk.listener
        self.args = args
        self.key = key
        self.launcher = launcher
        self.host = host_name()
        if os.environ.get("OCCATRACE_HOST"):  # the launcher counts the ranks of machines, not of these nodes
            place = replace(place, local_size=None)
        self.place = place
        self.patience = job.patience()
        self.desk_folder = desk.folder
        self.listener = desk.listener
        self.listener.setblocking(False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.members: dict[int, Member] = {}  # by rank
        self.open: dict[int, Member] = {}  # by descriptor
        self.last: Member | None = None
        self.ending: list[threading.Thread] = []
        self.session: Session | None = None
        self.sampler: Sampler | None = None
        self.run: runs.Run | None = None
        self.meeting: job.Meeting | None = None
        self.answer: dict[str, Any] = {}
        self.hurried = False
        self.grace = Grace(args.grace)
        self.early = False  # the recording ended before the programs
        self.changed = False  # a rank has come since the others were told
        self.told_first = False
        self.heard = False  # standard error is the launcher's own
        self.state = NodeState(self.host)
        self.text = io.StringIO()
        size = place.size
        self.expected = None if size is None else frozenset(range(size))
        if self.expected is not None and args.ranks is not None:
            self.expected &= args.ranks
        # A size of the node counts where all its ranks are traced.
        self.local = place.local_size if args.ranks is None else None
        if self.expected is not None and place.local_size == place.size:
            self.local = len(self.expected)

    def hurry(self, *_: object) -> None:
        """Asked to end: wait for nobody any more, or no longer than a batch system does."""
        self.grace.begin()
        self.hurried = self.grace.seconds is None

    def say(self, text: str) -> None:
        """A line of the report's end."""
        if not self.args.quiet:
            self.text.write(f"occa_prof: {text}\n")

    def _say_now(self, text: str) -> None:
        """A line that may be all that there will be."""
        if not self.args.quiet:
            with contextlib.suppress(OSError, ValueError):
                print(f"occa_prof: {text}", file=sys.stderr, flush=True)

    # ---- life ----

    def serve(self) -> None:
        """From the first rank to the report."""
        job.sweep()
        try:
            self._find_run()
        except (RunError, job.JobError) as error:
            # A rank that comes after the report runs all the same.
            late = self._is_ours(self.args.output)
            self.answer = {"untraced": "the report of this job has been made"} if late else {"error": str(error)}
        else:
            self._start_session()
        self._answer_ranks()
        if self.run is None:
            self._drain()
            return
        if self.session and not self.args.quiet:
            from occatrace.cli.recording import start_loading

            start_loading(self.args.choosing.plan, self.session.wait_started)
        if self.session and self.args.choosing.sampling:
            from occatrace.cli.recording import start_sampling

            members = self.members
            self.sampler = start_sampling(
                self.run, self.host, self.args, self.session, lambda: [m.program for m in list(members.values())]
            )
        self._wait_for_ranks()
        for thread in self.ending:
            thread.join(2 * KILL_AFTER_S)
        job.clear_desk(self.desk_folder)
        self._finish()

    def close(self) -> None:
        """Say what there is to say, and leave nothing behind."""
        self._print()
        for member in self.open.values():
            member.connection.close()
        self.listener.close()
        if self.session:
            self.session.close()
        job.clear_desk(self.desk_folder)

    def _find_run(self) -> None:
        """The folder of the run: ours alone where the whole job is on this node, else agreed upon with the others."""
        run_id = layout.new_id()
        folder: Path = self.args.output or runs.default_folder(self.args.program[0], run_id)
        if self.place.local_size is None or self.place.local_size != self.place.size:
            self.meeting = job.Meeting.of(self.key, folder.parent)
            if not self.meeting.call():
                told = self.meeting.wait(self.patience)
                self.run = open_run(Path(told.folder))
                return
        info = runs.RunInfo(
            program=tuple(self.args.program),
            cwd=self.args.cwd,
            host=self.host,
            user=self.args.user,
            started=runs.now(),
            mode=self.args.mode,
            traced=choice.names_of(self.args.traced),
            choice=self.args.choosing.values,
            id=run_id,
            version=__version__,
            session=runs.buffers_in(self.args.shm_path),
            job={"id": self.place.job or self.key, "launcher": self.place.launcher, "size": self.place.size},
        )
        try:
            self.run = runs.create(folder, info, force=self.args.force, hold=self.meeting is None)
        except RunError as error:
            if self.meeting:
                self.meeting.tell(error=str(error))
            raise
        if self.meeting:
            self.meeting.tell(folder=str(self.run.path), id=run_id)

    def _is_ours(self, folder: Path | None) -> bool:
        """Whether a folder that stands in the way is the run of this very job."""
        try:
            return folder is not None and open_run(folder).info.job.get("id") == (self.place.job or self.key)
        except RunError:
            return False

    def _start_session(self) -> None:
        assert self.run
        started: Session | None = None
        try:
            from occatrace.errors import DaemonError
            from occatrace.record import session
            from occatrace.run.control import Switch

            started = session.Session(
                run_id=f"{self.run.info.id}{os.urandom(2).hex()}",
                output=self.run.trace / self.host,
                mode=self.args.mode,
                shm_path=self.args.shm_path,
                traced=self.args.traced,
                choosing=self.args.choosing,
                switch=Switch(self.run.path, self.host, self.args.choosing.plan),
            )
            started.start()
            if started.switch:
                started.switch.start()
        except (ImportError, OSError, DaemonError) as error:
            if started:
                started.close()
            self.answer = {"untraced": str(error)}
            self.state.notes.append(f"{self.host} was not traced: {error}")
            return
        self.session = started
        self.answer = started.for_ranks() | {
            "run": self.run.info.id,
            "folder": str(self.run.path),
            "job": self.place.job or self.key,
        }

    # ---- ranks ----

    def _answer_ranks(self) -> None:
        """Who came while we started, and from now on everybody at once."""
        self._serve(0)

    def _serve(self, timeout: float) -> None:
        for key, _ in self.selector.select(timeout):
            if key.data is None:
                with contextlib.suppress(OSError):
                    connection = files.accept(self.listener)
                    if connection:
                        connection.setblocking(False)
                        self.selector.register(connection, selectors.EVENT_READ, connection)
                continue
            self._hear(key.data)

    def _hear(self, connection: socket.socket) -> None:
        try:
            packet = connection.recv(job.MAX_PACKET)
            message = json.loads(packet) if packet else None
        except BlockingIOError:
            return
        except (OSError, ValueError):
            message = None
        member = self.open.get(connection.fileno())
        if message is None:
            self._gone(connection, member)
        elif "rank" in message:
            self._come(connection, message)
        elif member and "program" in message:
            member.program = int(message["program"])
            member.born = _born(member.program)
        elif message.get("heard") == signal.SIGTERM:  # this process is no child of the rank: it may have got none
            self.grace.begin()
        elif member and "ended" in message:
            self._ended(member, int(message["ended"]))

    def _come(self, connection: socket.socket, message: dict[str, Any]) -> None:
        rank = int(message["rank"])
        member = Member(connection, RankState(rank, self.host, int(message["pid"])))
        self.members[rank] = self.open[connection.fileno()] = member
        self.changed = True
        _send(connection, self.answer | {"first": not self.told_first})
        self.told_first = True

    def _ended(self, member: Member, status: int) -> None:
        member.state.state = "ended"
        member.state.status = status
        if 128 < status < 128 + signal.NSIG:
            member.state.signal = status - 128
        self.open.pop(member.connection.fileno(), None)
        if not self.open and self._all_came():
            self.last = member
            _send(member.connection, {"last": True})
            return
        _send(member.connection, {"last": False})
        self._forget(member.connection)

    def _gone(self, connection: socket.socket, member: Member | None) -> None:
        self.open.pop(connection.fileno(), None)
        self._forget(connection)
        if member and member.state.state == "running":
            member.state.state = "lost"
            if member.program and _born(member.program) == member.born:
                # Its occa_prof was killed; the launcher means the program.
                ending = threading.Thread(target=_end_program, args=(member.program, member.born), daemon=True)
                ending.start()
                self.ending.append(ending)

    def _forget(self, connection: socket.socket) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self.selector.unregister(connection)
        connection.close()

    def _all_came(self) -> bool:
        if self.local is not None and len(self.members) >= self.local:
            return True
        if self.expected is None:
            return False
        came = set(self.members)
        if self.meeting and self.run and not came >= self.expected:
            # Where the launcher does not say how many belong to this node, the nodes do so together.
            came |= {r.rank for node in read_nodes(self.run.path) for r in node.ranks}
        return came >= self.expected

    def _wait_for_ranks(self) -> None:
        """Until every rank of this node has ended. Ranks that do not come are waited for a while, and no longer than
        their launcher lives."""
        assert self.run
        idle_since: float | None = None
        told = 0.0
        while True:
            now = time.monotonic()
            if self.meeting and (now - told > SIGN_OF_LIFE_S or self.changed):
                told = now
                self._tell()
            if self.meeting and self.session and self.session.switch:
                self.session.switch.obey()
            idle_since = None if self.open else idle_since or now
            if idle_since is not None:
                limit = self.patience if self.local is not None or self.expected is not None else QUIET_S
                if self._all_came() or not _alive(self.launcher) or now - idle_since > limit:
                    return
            if self.hurried:
                return
            if self.grace.over():
                self.early = bool(self.open)
                return
            left = self.grace.left()
            self._serve(min(0.05 if idle_since is not None else 1.0, 1.0 if left is None else left))

    def _drain(self) -> None:
        """Everybody gets the same answer; then we are done."""
        end = time.monotonic() + min(self.patience, 5.0)
        while time.monotonic() < end and not (self.members and not self.open and self._all_came()):
            self._serve(0.1)
        if self.meeting and "error" in self.answer:
            self.meeting.end()

    def _tell(self) -> None:
        assert self.run
        self.changed = False
        self.state.ranks = [m.state for m in self.members.values()]
        with contextlib.suppress(OSError):
            self.state.write(self.run.path)

    # ---- the end ----

    def _finish(self) -> None:
        assert self.run
        from occatrace.cli.recording import describe, not_measured

        lacking = not_measured(self.args, self.sampler)
        if self.early:
            line = self.grace.line(some(sorted(m.state.rank for m in self.open.values())))
            self.state.notes.append(line)
            self._say_now(line)
        outcome = self.session.stop(early=self.early) if self.session else None
        if outcome:
            self.state.notes += [*outcome.notes, *(f"{self.host}: {line}" for line in lacking)]
            if outcome.problem:
                self.state.notes.append(f"{self.host} was not traced: {outcome.problem}")
            self.state.session = describe(outcome)
            self.state.captures = outcome.captures
            self.state.processes = list(dict.fromkeys(p.pid for p in outcome.processes))
        if self.meeting is None:
            self.state.ranks = [m.state for m in self.members.values()]
            self._complete([self.state], outcome)
            return
        if outcome and outcome.state == "recorded":
            self._node_tables()
        self.state.done = True
        self._tell()
        nodes = self._wait_for_nodes()
        if nodes is not None:
            self.meeting.end()
            self._complete(nodes, outcome)

    def _node_tables(self) -> None:
        from occatrace.reports import partial
        from occatrace.store.tables import build_node

        assert self.run
        try:
            for line in build_node(self.run.path, self.host, node_tables(self.run.path, self.host), partial.summarize):
                if self.place.size is not None and self.place.size >= job.MANY_RANKS:
                    self.state.notes.append(f"{self.host}: {line}")
        except RunError as error:
            self.state.notes.append(f"{self.host}: no tables: {error}")

    def _wait_for_nodes(self) -> list[NodeState] | None:
        """All nodes, for the one that merges; None for the others. The node of rank 0 waits for those that are still
        alive; whoever completes the job does not wait at all."""
        assert self.run
        lowest = 0 if self.expected is None else min(self.expected, default=0)
        waits = lowest in self.members
        last_sign = time.monotonic()
        signs: dict[str, int] = {}
        while True:
            nodes = read_nodes(self.run.path)
            seen = {r.rank for n in nodes for r in n.ranks}
            complete = all(n.done for n in nodes) and self.expected is not None and seen >= self.expected
            if complete:
                return nodes if claim_merge(self.run.path) else None
            if not waits:
                return None
            for file in (self.run.path / "nodes").glob("*.json"):
                changed = file.stat().st_mtime_ns if file.exists() else 0
                if signs.get(file.name) != changed:
                    signs[file.name] = changed
                    last_sign = time.monotonic()
            limit = self.patience if self.expected is not None else QUIET_S
            if self.hurried or self.grace.over(FOR_NODES) or time.monotonic() - last_sign > limit:
                return nodes if claim_merge(self.run.path) else None
            time.sleep(0.05)

    def _complete(self, nodes: list[NodeState], outcome: Outcome | None) -> None:
        """run.json, tables, and the report of the whole job."""
        assert self.run
        states = sorted((r for n in nodes for r in n.ranks), key=lambda r: r.rank)
        notes = remarks(states, self.expected)
        notes += [f"incomplete: {n.host} did not finish" for n in nodes if not n.done and len(nodes) > 1]
        notes += dict.fromkeys(note for n in nodes for note in n.notes)
        processes = list(dict.fromkeys(pid for n in nodes for pid in n.processes))
        if not processes and (outcome is None or not outcome.problem):
            why = program.cannot_be_traced(program.find(self.args.program[0]))
            notes.append(f"nothing was recorded: {why or 'the ranks made no call of an API that is traced'}")
        statuses = [r.status or 0 for r in states if r.status is not None]
        self.run = note_in(
            self.run,
            self.say,
            ended=runs.now(),
            exit_status=max(statuses, default=None),
            session=next((n.session for n in nodes if n.session), {}),
            captures={n.host: n.captures for n in nodes if n.captures is not None},
            processes=tuple(processes),
            notes=tuple(notes),
            job=dict(self.run.info.job) | {"nodes": [n.host for n in nodes], "ranks": [dict(vars(r)) for r in states]},
        )
        if processes:
            if not self.args.quiet:
                self._report()
        else:
            for note in notes:
                self.say(note)
            if self.args.output is None:
                files.remove_tree(self.run.path)
        if self.args.keep == "none":
            files.remove_tree(self.run.path)
        elif self.args.keep == "tables" and self.run.tables.exists():
            files.remove_tree(self.run.trace)
            files.remove_tree(self.run.path / "samples")

    def _report(self) -> None:
        assert self.run
        where = runs.near(self.run.path, self.args.cwd or None)
        try:
            from occatrace.cli import report

            ranks = self.run.info.job.get("ranks", ())
            if self.meeting and len(ranks) >= job.MANY_RANKS and not self.args.report:
                report.print_partial(self.run.path, self.text, self.args.format, len(ranks))
                self.say(f"the run is in {where}; again, and more: {runs.again(where)}")
                return
            report.print_reports(self.run.path, self.text, self.args.report, self.args.format, self.args.chosen)
            if self.meeting:
                from occatrace.store.tables import read_clocks

                self.run = note_in(self.run, self.say, clocks=read_clocks(self.run.path))
                for part in (self.run.path / "nodes").glob("*/tables.json"):
                    files.remove_tree(part.parent)  # they are in the tables of the run
            if self.args.timeline:
                from occatrace.cli import timeline

                timeline.write_timeline(self.run.path, self.run.path / "timeline.pftrace")
                self.say(f"timeline: {where}/timeline.pftrace (open it at https://ui.perfetto.dev)")
        except (UsageError, RunError, OSError) as error:
            self.say(f"no report: {error}. The run is kept: {runs.again(where)}")
            return
        except Exception as error:
            self.say(f"no report: {words_of(error)[0]}. The run is kept: {where}")
            return
        if self.args.keep != "none":
            self.say(f"the run is in {where}; again: {runs.again(where)}")

    def _print(self) -> None:
        """By the last rank, which waits for it; where that was killed, the launcher takes the job down, or the ranks go on,
        ourselves."""
        text = self.text.getvalue()
        if self.args.log_file and text:
            with contextlib.suppress(OSError):
                self.args.log_file.write_text(text, encoding="utf-8")
            return
        if not text:
            return
        bad = self.early or any(
            m.state.state == "lost" or m.state.signal or m.state.status for m in self.members.values()
        )
        if self.last and not bad:
            with contextlib.suppress(OSError):
                self.last.connection.setblocking(True)
                for at in range(0, len(text), 8192):
                    self.last.connection.send(json.dumps({"text": text[at : at + 8192]}).encode())
                return
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(text)
            sys.stderr.flush()
        if bad and not self.heard and self.run and self.run.path.is_dir():
            # The launcher may have taken down what we write to.
            with contextlib.suppress(OSError):
                (self.run.path / "report.txt").write_text(text, encoding="utf-8")


def _send(connection: socket.socket, message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        connection.send(json.dumps(message).encode())


def _born(pid: int) -> str:
    """When a process began, to tell it from a later one of the same number; empty where it has gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _alive(pid: int) -> bool:
    from occatrace.run.liveness import is_running

    return pid > 1 and is_running(pid)


def _end_program(pid: int, born: str) -> None:
    for number, wait in ((signal.SIGTERM, KILL_AFTER_S), (signal.SIGKILL, 0.0)):
        if _born(pid) != born:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        end = time.monotonic() + wait
        while _born(pid) == born and time.monotonic() < end:
            time.sleep(0.02)
