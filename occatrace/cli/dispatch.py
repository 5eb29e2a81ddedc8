"""Words of the command line → the subcommand. Modules of other subcommands are not imported."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from occatrace.cli import bar, ending
from occatrace.cli.parser import Parser, of_command
from occatrace.core.checked import message
from occatrace.errors import RunError

DEFAULT = "run"
INTERNAL_ERROR = 70  # EX_SOFTWARE of sysexits.h
FORKING = (DEFAULT, "start")  # they watch for signals, if at all, when they have forked
SHOWING = (
    "digest",
    "report",
    "why",
    "compare",
    "ci",
    "timeline",
    "view",
    "flamegraph",
    "annotate",
    "trace",
    "query",
    "export",
    "import",
)  # how far they are
# The list of subcommands, with the line of help each has. Their modules are occatrace/cli/<name>.py.
COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "run": "profile a program; the default if no subcommand is given",
        "top": "show a running program, refreshed: kernels, devices, memory, ranks",
        "start": "record everything that a shell runs, until `stop`",
        "stop": "end the session of `start` and print its summary; or end the recording of a run while its program goes on",
        "pause": "pause the recording of a run, on all its nodes",
        "resume": "resume recording",
        "report": "print reports from a recorded run",
        "why": "show what decided the run time (critical path), and what a change would gain",
        "efficiency": "print the parallel efficiency of a run and its factors; --scale: of several runs",
        "compare": "compare runs: what became slower, faster, new or gone",
        "ci": "write the history of runs of several versions as a page, with a badge",
        "timeline": "write a timeline of a run for ui.perfetto.dev",
        "view": "show the timeline of a run in the browser, without internet",
        "flamegraph": "write a flame graph of host time or memory by nesting of calls",
        "annotate": "print a source file with what its lines caused: device time, calls, bytes",
        "trace": "print the calls of a run as text, in time order",
        "query": "query the tables of a run with SQL",
        "export": "write the tables of a run as Parquet, CSV, JSON or SQLite",
        "import": "make a run of the recording of another tool (nsys, rocprofv3, PyTorch)",
        "digest": "print the facts of a run within a number of tokens, for an assistant",
        "mcp": "serve runs to an assistant by the Model Context Protocol",
        "doctor": "check the installation: print what is missing and which features need it",
        "paths": "print the paths of the installed libraries and plugins",
        "env": "print the environment of a profiled program, for a shell",
        "schema": "print the JSON Schema of a JSON output",
        "completion": "print what bash, zsh or fish needs to complete words of occa_prof",
        "help": "explain a subcommand, a report or a topic of the documentation",
    }
)
# The first of each group of `--help`.
_GROUPS: Mapping[str, str] = MappingProxyType({"run": "record", "report": "analyse", "doctor": "install and learn"})


# What the exit status says; docs/run-folder.md has the same list.
STATUSES: Mapping[str, str] = MappingProxyType(
    {
        "0": "success; for a profiled program: it ended normally, even if tracing failed",
        "the program's": "the program was profiled; 128 + n: it was ended by signal n",
        "1": "`compare --fail-above`: something became slower; `doctor`: something required is missing",
        "2": "invalid options, or a run, report, table or query that cannot be used: one line says what to do;"
        " `report --verify`: a file is damaged, or cannot be checked",
        "70": "an internal error: one line names it, OCCATRACE_DEBUG=1 prints the traceback",
        "126, 127": "the program cannot be executed, was not found",
        "129, 130, 143": "a subcommand was ended by SIGHUP, by Ctrl-C, by SIGTERM",
        "141": "the reader of the output has gone, as in `| head`",
    }
)


class UsageError(Exception):
    """A wrong command line; one line that says what to do."""


class OutputError(OSError):
    """Standard output cannot be written."""


class _Output(io.FileIO):
    """Standard output, with errors of its own type, unlike those of files."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(error.errno, error.strerror) from error


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    if argv is None and "_ARGCOMPLETE" in os.environ and "COMP_LINE" in os.environ:
        from occatrace.cli import completion

        return completion.answer()  # a shell asks what may come next
    prepare_standard_streams()
    try:
        try:
            return _dispatch(words)
        finally:
            sys.stdout.flush()  # what cannot be written is to be known here
    except BrokenPipeError:
        return 141  # the reader of our output has gone (`| head`)
    except Exception as error:
        if os.environ.get("OCCATRACE_DEBUG") and not isinstance(error, (UsageError, RunError)):
            raise
        line, status = words_of(error)
        complain(line)
        return status


def words_of(error: Exception) -> tuple[str, int]:
    """The message for an error, and the exit status."""
    if isinstance(error, (UsageError, RunError)):
        return str(error), 2
    if isinstance(error, ImportError):
        from occatrace.run import install

        if unsuitable := install.unsuitable():
            return unsuitable, 2
    if isinstance(error, OutputError):
        return f"cannot write to standard output: {error.strerror}", 2
    from occatrace.core import reasons

    reason = reasons.reason(error)
    if reason is not None:
        return reason, 2
    return f"internal error: {reasons.internal(error)}", INTERNAL_ERROR


def complain(text: str) -> None:
    """One line for the user on standard error."""
    if sys.stderr is None:
        return
    with contextlib.suppress(OSError):  # the terminal may have gone
        print(f"occa_prof: {chr(10).join(map(message, text.split(chr(10))))}", file=sys.stderr, flush=True)


def prepare_standard_streams() -> None:
    """Started with a standard stream closed, a socket of ours would take its number. Closed again for the program. What is
    written to a closed standard output fails: its place is taken by what can only be read."""
    for number, flags in ((0, os.O_RDWR), (1, os.O_RDONLY), (2, os.O_RDWR)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stdout is sys.__stdout__:  # not where a test has taken its place
        terminal, encoding = (sys.stdout.isatty(), sys.stdout.encoding) if sys.stdout else (False, "utf-8")
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(_Output(1, "w", closefd=False)),
            encoding=encoding,
            errors="backslashreplace",  # names of files may be no text
            line_buffering=terminal,
        )


def _dispatch(words: list[str]) -> int:
    if words and words[0] in COMMANDS:
        return _subcommand(words[0], words[1:])
    if not words or words[0] in ("-h", "--help"):
        print(overview())
        return 0 if words else 2
    if words[0] in ("-V", "--version"):
        from occatrace import __version__

        print(f"occa_prof {__version__}")
        return 0
    return _subcommand(DEFAULT, words)


def _subcommand(name: str, words: list[str]) -> int:
    parser, module = of_command(name)
    if getattr(module, "TAKES_PROGRAM", False):
        words, program = split_program(parser, words)
        parse = getattr(module, "parse", None) or Parser.parse_args
        args = parse(parser, words)
        args.program = program
    else:
        args = parser.parse_args(words)
    ending.undo_first()
    if name not in FORKING:
        ending.watch()
    if name in SHOWING:
        bar.use()
    status = module.run(args)
    return int(status or 0)


def split_program(parser: argparse.ArgumentParser, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Our options, and the program with all of its arguments: they begin at the first word that is no option of ours,
    nor the value of one, or after `--`."""
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            return list(words[:at]), list(words[at + 1 :])
        if not word.startswith("-") or word == "-":
            break
        at += 1
        action = parser._option_string_actions.get(word)
        if action is not None and action.nargs is None:
            at += 1
    return list(words[:at]), list(words[at:])


def overview() -> str:
    """The help of the whole command."""
    width = max(map(len, (*COMMANDS, *STATUSES)))
    lines = []
    for name, about in COMMANDS.items():
        lines += [f"\nsubcommands: {_GROUPS[name]}"] if name in _GROUPS else []
        lines += [f"  {name:{width}}  {about}"]
    return (
        "usage: occa_prof [OPTIONS] PROGRAM [ARGUMENTS...]\n"
        "       occa_prof SUBCOMMAND ...\n\n"
        "Run a program and report where its time went: OCCA kernels, device work, API calls.\n\n"
        + "\n".join(lines).lstrip("\n")
        + "\n\n"
        "`occa_prof run --help` lists the options of a recording, `occa_prof SUBCOMMAND --help` those of a subcommand.\n"
        "`occa_prof help` lists the topics that `occa_prof help TOPIC` explains.\n"
        "To profile a program that has the name of a subcommand: occa_prof -- report.\n\n"
        "examples:\n"
        "  occa_prof ./a.out -m OpenCL               profile a program; its own options follow it\n"
        "  occa_prof -o RUN -l ./a.out               name the run, and write a timeline\n"
        "  mpirun -n 8 occa_prof ./a.out             record all ranks as one run\n"
        "  occa_prof report RUN --report api_sum     print one report of a run\n\n"
        "exit status:\n" + "\n".join(f"  {status:{width}}  {about}" for status, about in STATUSES.items())
    )
