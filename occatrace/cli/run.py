"""`occa_prof PROGRAM`: run it, record it, analyse it, print the summary. The program has priority: it
starts at once, it runs even if tracing fails, and occa_prof exits with its status."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import pwd
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from occatrace import __version__
from occatrace.cli import bar, choice, ending, grace, options, program
from occatrace.cli.messages import UsageError, complain, words_of
from occatrace.cli.recording import describe, not_measured, note_in, start_loading, start_sampling
from occatrace.core import disk, files, halfway
from occatrace.core.checked import message
from occatrace.errors import RunError
from occatrace.record import keeper
from occatrace.record.other_load import OtherLoad
from occatrace.run import folder as runs
from occatrace.run import install, layout, ranks

if TYPE_CHECKING:
    from occatrace.record.sampling import Sampler
    from occatrace.record.session import Session

TAKES_PROGRAM = True
FORMATS = ("table", "csv", "tsv", "json", "markdown")
KEEP = ("all", "tables", "none")
# LTTng's daemon that was one too many needs time to end. As long as its keeper is there, it may need the longer time: the
# keeper sends SIGKILL to one that hangs.
_ENDED_S, _KEPT_S, _AGAIN_S = 3.0, 20.0, 0.02
_NO_MORE = "no more processes or threads are allowed (ulimit -u, or the limit of a control group)"


def spawn_alone(path: Path, words: Sequence[str], guard: program.SignalGuard) -> int:
    """Start the program without a session; returns its process id."""
    begin = time.monotonic()
    while True:
        try:
            return program.spawn(path, words, os.environ, guard)
        except program.NoProcess:
            if time.monotonic() - begin >= (_KEPT_S if _children_left() else _ENDED_S):
                raise
            time.sleep(_AGAIN_S)


def _children_left() -> bool:
    """Whether a child of ours has not ended, as the keeper of a daemon. Those that have are waited for: they count as processes
    until then."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Options of `occa_prof [run]`."""
    parser.usage = "occa_prof [OPTIONS] PROGRAM [ARGUMENTS...]"
    parser.description = "Run a program and report where its time went."
    parser.epilog = (
        "Everything after PROGRAM belongs to the program: in `occa_prof ./a.out -m HIP`, -m HIP is an option of a.out.\n"
        "The exit status is the program's. The summary goes to standard error.\n\n"
        "examples:\n"
        "  occa_prof -o RUN -l ./a.out             name the run folder, write a timeline\n"
        "  occa_prof -m tally ./a.out              count calls exactly, record none\n"
        "  occa_prof --trace occa,mpi ./a.out      trace only these APIs\n"
        "  occa_prof --python lines python app.py  show the Python lines that launched, copied, allocated"
    )
    record = parser.add_argument_group("recording")
    choice.add_session(
        record,
        "default: occatrace-PROGRAM-DATE-ID); %%h host, %%p process id, %%r rank, %%q{VAR} a variable; with %%r or %%p each rank is"
        " a separate run",
    )
    record.add_argument(
        "--keep",
        choices=KEEP,
        default="all",
        help="keep all of the run after the report, only its tables, or none (default: all)",
    )
    record.add_argument(
        "--ranks",
        type=rank_list,
        metavar="LIST",
        help="record only these ranks of an MPI job (mpirun occa_prof PROGRAM): 0-3,8",
    )
    record.add_argument(
        "--python",
        action="append",
        default=[],
        type=python_word,
        metavar="WHAT",
        help="record more of Python programs: functions[:PATTERN,...]: time of their functions; lines: the line of each launch, "
        "copy, allocation and build; pools: memory pools and builds of pyopencl and pycuda (included in lines); "
        "logging: log messages; time: time in the interpreter and in each extension module; "
        "off: no imports and calls from C either (occa_prof help python-programs)",
    )
    options.add_choosing(parser)
    options.add_files(parser)
    show = parser.add_argument_group("output")
    choice.add_summary(show)
    show.add_argument(
        "--format", choices=FORMATS, default="table", help="print reports in this format (default: table)"
    )
    show.add_argument("--log-file", type=Path, metavar="FILE", help="print to FILE, not to standard error")
    show.add_argument(
        "-l", "--timeline", action="store_true", help="write DIR/timeline.pftrace too, for ui.perfetto.dev"
    )
    choice.add_options(show)


def parse(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    """The options, also those of the environment and of files."""
    args = options.parse(parser, words)
    if args.show_config:
        names = {action.dest: options.name_of(action) for action in parser._actions}
        sys.stdout.write(options.show(names, args))
    return args


def run(args: argparse.Namespace) -> int:
    """Run the program; returns its status."""
    if args.show_config:
        options.choosing_of(args)
        return 0
    if not args.program:
        raise UsageError("no program given; usage: occa_prof [OPTIONS] PROGRAM [ARGUMENTS...]")
    try:
        path = program.find(args.program[0])
    except program.ProgramError as error:
        complain(str(error))
        return error.status
    place = ranks.place()
    if args.ranks is not None and place.rank is not None and place.rank not in args.ranks:
        from occatrace.cli import rank

        return rank.leave_untraced(path, args.program)
    check_reports(args.report)
    args.chosen = choice.Choice.of(args)
    args.grace = grace.kill_wait()
    if args.python:
        os.environ["OCCATRACE_PYTHON"] = "off" if "off" in args.python else ";".join(args.python)
    choice.choose_lttng(args)
    args.traced = choice.traced_of(args.trace)
    args.choosing = options.choosing_of(args)
    together = place.joins and place.size != 1
    if "%" in f"{args.output}{args.log_file}":
        from occatrace.cli import names

        together = together and not names.of_each_rank(args.output)
        args.output = names.expand(args.output, place)
        args.log_file = names.expand(args.log_file, place)
    if together:
        from occatrace.cli import rank

        if os.environ.get("OCCATRACE_SOCKET") and os.environ.get(ranks.JOB_VARIABLE):
            return rank.leave_untraced(path, args.program)  # below a recorded rank: it is recorded already
        args.cwd, args.user = working_folder(), user()
        return rank.run(args, path, place)
    log = open_log(args.log_file)
    run_id = keeper.begun_id() or layout.new_id()
    folder: Path = args.output or runs.default_folder(args.program[0], run_id)
    info = new_info(args, run_id, program=tuple(args.program), host=os.uname().nodename, choice=args.choosing.values)
    with program.SignalGuard.block() as guard:  # from now on signals are for the program
        recorded = Recording(args, create(args, folder, info), log)
        try:
            return recorded.go(path, guard)
        finally:
            recorded.close()


def create(args: argparse.Namespace, folder: Path, info: runs.RunInfo) -> runs.Run:
    """The run's folder; where nobody chose it and it cannot be made here, among temporary files."""
    try:
        return runs.create(folder, info, force=args.force, hold=True)
    except RunError:
        if args.output is not None:
            raise
        import tempfile

        made = runs.create(Path(tempfile.gettempdir(), folder.name), info, hold=True)
        complain(f"this folder cannot be written to: the run goes to {made.path} (-o chooses another place)")
        return made


class Recording:
    """One run from its start to its report."""

    def __init__(self, args: argparse.Namespace, run: runs.Run, log: TextIO | None) -> None:
        self.args = args
        self.run = run
        self.log = log
        self.session: Session | None = None
        self.sampler: Sampler | None = None
        self.status = 1
        self.early = ""  # why the recording ended before the program
        self.others: float | None = None  # part of the processors' time that other programs used

    def go(self, path: Path, guard: program.SignalGuard) -> int:
        """Start, wait, analyse, report."""
        self._start_session()
        try:
            pid = self._spawn(path, guard)
        except program.ProgramError as error:
            complain(str(error))
            if self.session:
                self.session.stop()  # or LTTng's daemon may still make the trace's folders
            self._discard()
            return error.status
        if self.session and self.args.choosing.sampling:
            self.sampler = start_sampling(self.run, self.run.info.host, self.args, self.session, lambda: [pid])
        if self.session and not self.args.quiet:
            start_loading(self.args.choosing.plan, self.session.wait_started)
        load = OtherLoad()
        heard: set[signal.Signals] = set()
        patience = grace.Grace(self.args.grace if self.session else None)

        def hear(number: signal.Signals) -> None:
            heard.add(number)
            if number == signal.SIGTERM:
                patience.begin()

        status = program.wait_for(pid, hear, patience.left)
        self.others = load.share()
        if status is None:
            return self._go_on_without(path, pid, patience, guard)
        self.status = status
        if signal.SIGTERM in heard or self.status == 128 + signal.SIGTERM:
            # Schedulers repeat it for the step, for the job and by the launcher, and send SIGKILL where time is really over.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        guard.restore()
        ending.watch()
        with halfway.undoing(lambda: complain(f"interrupted; the run is kept: {runs.again(self.run.path)}")):
            self._finish(path)
        return self.status

    def _go_on_without(self, path: Path, pid: int, patience: grace.Grace, guard: program.SignalGuard) -> int:
        """End the recording before SIGKILL ends us and the program, which goes on; signals stay for the program."""
        waiting = program.Waiting(pid, lambda _: None)
        self.early = patience.line("the program")
        complain(self.early)
        self._finish(path)
        self.status = waiting.end()
        guard.restore()
        if self.run.path.is_dir():  # --keep none
            self._note(exit_status=self.status)
        return self.status

    def _spawn(self, path: Path, guard: program.SignalGuard) -> int:
        """Start the program; returns its process id."""
        if self.session is None:
            return spawn_alone(path, self.args.program, guard)
        environment = self.session.environment(choice.with_device_time(os.environ, self.args.device_time))
        if self.session.switch:
            self.session.switch.start()
        try:
            return program.spawn(path, self.args.program, environment, guard)
        except program.NoProcess:
            # LTTng's daemon may be one too many; the program comes first.
            self.session.close()
            self.session = None
            self._no_session(_NO_MORE)
            return spawn_alone(path, self.args.program, guard)

    def close(self) -> None:
        """Leave nothing behind but the run's folder."""
        if self.session:
            self.session.close()
        if self.log:
            self.log.close()

    def _start_session(self) -> None:
        """A session, or one line why there is none."""
        if unsuitable := install.unsuitable():
            self._no_session(unsuitable)
            return
        try:
            from occatrace.errors import DaemonError
            from occatrace.record import session
            from occatrace.run.control import Switch
        except ImportError as error:
            self._no_session(f"occatrace is not built completely ({error})")
            return
        started: session.Session | None = None
        try:
            import occatrace._session  # noqa: F401  (needs liblttng-ctl)

            started = session.Session(
                run_id=self.run.info.id,
                output=self.run.trace / self.run.info.host,
                mode=self.args.mode,
                shm_path=self.args.shm_path,
                traced=self.args.traced,
                choosing=self.args.choosing,
                switch=Switch(self.run.path, self.run.info.host, self.args.choosing.plan),
            )
            started.start()
        except ImportError as error:
            self._no_session(f"LTTng's control library cannot be loaded ({error})")
        except (DaemonError, OSError, RuntimeError) as error:
            if started:
                started.close()
            self._no_session(_NO_MORE if isinstance(error, RuntimeError) else str(error))
        else:
            self.session = started

    def _no_session(self, why: str) -> None:
        keeper.drop()
        complain(f"the program runs without being traced: {why}. `occa_prof doctor` says what to do")
        self._note(notes=(f"not traced: {why}",))
        self.run.release()

    def _finish(self, path: Path) -> None:
        if self.session is None:
            self._note(ended=runs.now(), exit_status=self.status)
            if self.args.output is None:
                self._discard()
            return
        lacking = not_measured(self.args, self.sampler)
        outcome = self.session.stop(early=bool(self.early))
        notes = [*filter(None, [self.early]), *outcome.notes, *lacking]
        if outcome.problem:
            complain(f"the program ran without being traced: {outcome.problem}. `occa_prof doctor` says what to do")
            notes.append(f"not traced: {outcome.problem}")
        elif outcome.state == "unused":
            used = "no call reached occatrace" if outcome.past_us else "it made no call of an API that is traced"
            why = program.cannot_be_traced(path) or used
            if self.args.trace:
                why += f" (--trace {self.args.trace})"
            notes.append(f"nothing was recorded: {why}")
        self._note(
            ended=runs.now(),
            exit_status=None if self.early else self.status,
            session=describe(outcome, self.others),
            captures={} if outcome.captures is None else {self.run.info.host: outcome.captures},
            processes=tuple(dict.fromkeys(p.pid for p in outcome.processes)),
            notes=tuple(notes),
        )
        if outcome.state == "recorded" and not self.args.quiet:
            self._analyse()
        elif outcome.state == "unused":
            if not self.args.quiet:
                for note in notes:
                    complain(note)
            if self.args.output is None:
                self._discard()
        command = os.path.basename(self.args.program[0])
        if command in ranks.COMMANDS and not self.args.quiet:
            complain(
                f"hint: `{command} … occa_prof PROGRAM` records the ranks of all nodes, and how each of them ended; "
                f"`occa_prof {command} …` those of this machine"
            )
        self._keep()

    def _note(self, **changes: Any) -> None:
        """Write to run.json how the run went. Where that fails, the program's status is still ours."""
        self.run = note_in(self.run, complain, **changes)

    def _analyse(self) -> None:
        where = runs.near(self.run.path)
        try:
            from occatrace.cli import report

            bar.use()
            out = self.log or sys.stderr or io.StringIO()  # standard error may have been closed
            report.print_reports(self.run.path, out, self.args.report, self.args.format, self.args.chosen)
            if self.args.timeline:
                self._timeline()
        except Exception as error:  # whatever it is takes neither the run nor the program's status with it
            if os.environ.get("OCCATRACE_DEBUG") and not isinstance(error, (UsageError, RunError, OSError)):
                raise
            why = words_of(error)[0]
            if disk.is_full(error) and not isinstance(error, RunError):
                why = disk.needs_room(self.run.path)
            complain(f"no report: {why}. The run is kept: {runs.again(where)}")
            return
        if self.args.keep != "none":
            self._say(f"the run is in {where}; again: {runs.again(where)}")

    def _say(self, text: str) -> None:
        """What is no complaint stands with the reports, if they are text: standard error is the program's alone with --log-file."""
        if self.log and self.args.format == "table":
            with contextlib.suppress(OSError):  # a full disk
                print(f"occa_prof: {message(text)}", file=self.log, flush=True)
        else:
            complain(text)

    def _timeline(self) -> None:
        from occatrace.cli import timeline

        timeline.write_timeline(self.run.path, self.run.path / "timeline.pftrace")
        self._say(f"timeline: {runs.near(self.run.path / 'timeline.pftrace')} (open it at https://ui.perfetto.dev)")

    def _keep(self) -> None:
        if self.args.keep == "none":
            self._discard()
        elif self.args.keep == "tables" and self.run.tables.exists():
            files.remove_tree(self.run.trace)
            files.remove_tree(self.run.path / "samples")

    def _discard(self) -> None:
        files.remove_tree(self.run.path)


def new_info(args: argparse.Namespace, run_id: str, **facts: Any) -> runs.RunInfo:
    """run.json of a run that begins here and now."""
    return runs.RunInfo(
        cwd=working_folder(),
        user=user(),
        started=runs.now(),
        mode=args.mode,
        traced=choice.names_of(args.traced),
        id=run_id,
        version=__version__,
        session=runs.buffers_in(args.shm_path),
        **facts,
    )


def working_folder() -> str:
    """Where the program starts; empty where that folder has been removed."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def user() -> str:
    """The person's name, or number where it has none (containers)."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def rank_list(text: str) -> frozenset[int]:
    """The value of --ranks."""
    try:
        return ranks.parse_list(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def python_word(text: str) -> str:
    """The value of --python."""
    word, colon, patterns = text.partition(":")
    words = ("lines", "pools", "logging", "time", "off")
    if word not in ("functions", *words) or (colon and (word != "functions" or not patterns)):
        raise argparse.ArgumentTypeError(f"{text!r} is none of functions[:PATTERN,...], {', '.join(words)}")
    if ";" in patterns:
        raise argparse.ArgumentTypeError(f"{text!r}: patterns are separated by commas, not by semicolons")
    return text


def check_reports(names: list[str]) -> None:
    """Unknown names are told before the program runs, not after."""
    for name in names:
        if name.startswith("_") or "/" in name or not (install.PACKAGE / "reports" / f"{name}.sql").is_file():
            from occatrace import reports

            reports.definition(name)  # raises, with what was meant


def open_log(path: Path | None) -> TextIO | None:
    """The file of --log-file, opened before the program runs."""
    if path is None:
        return None
    try:
        return path.open("w", encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise UsageError(f"cannot write to {path}: {error.strerror}; give another file by --log-file") from None
