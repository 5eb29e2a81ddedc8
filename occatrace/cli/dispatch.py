"""Words of the command line → the subcommand. Modules of other subcommands are not imported."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType, ModuleType

from occatrace.run import RunError

DEFAULT = "run"
# The list of subcommands, with the line of help each has. Their modules are occatrace/cli/<name>.py.
COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "run": "run a program and profile it; what happens when no subcommand is given",
        "report": "print the tables of a run again, or others",
        "top": "show what a running program does, refreshed: kernels, devices, memory, ranks",
        "trace": "print the calls of a run as text, in time order",
        "query": "ask the tables of a run by SQL",
        "export": "write the tables of a run as Parquet, CSV, JSON or SQLite",
        "compare": "compare runs: what became slower, faster, new or gone",
        "timeline": "write a timeline of a run for ui.perfetto.dev",
        "view": "show the timeline of a run in the browser, without internet",
        "flamegraph": "write host time by nesting of calls, for viewers of flame graphs",
        "doctor": "say what is installed, what is missing, and what each missing thing costs",
        "paths": "say where the installed libraries and plugins are",
        "start": "record whatever a shell runs, until `stop`",
        "stop": "end what `start` began, and print its summary; or end the recording of a run whose program goes on",
        "pause": "pause the recording of a run, on all its nodes",
        "resume": "go on with it",
        "env": "say what a profiled program gets in its environment",
    }
)


# What the exit status says; docs/run-folder.md has the same list.
STATUSES: Mapping[str, str] = MappingProxyType(
    {
        "0": "done; of a profiled program: it ended well, whatever became of the tracing",
        "the program's": "the program was profiled; 128 + n: it died of signal n",
        "1": "`compare --fail-above`: something became slower; `doctor`: something needed is missing",
        "2": "wrong options, or a run, report, table or query that cannot be used: one line says what to do;"
        " `report --verify`: a file is damaged, or cannot be checked",
        "126, 127": "the program cannot be executed, was not found",
        "129, 130, 143": "a subcommand was ended by SIGHUP, by Ctrl-C, by SIGTERM",
        "141": "the reader of the output has gone, as in `| head`",
    }
)


class UsageError(Exception):
    """Something about the command line; one line that says what to do."""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    fill_standard_streams()
    end_in_order()
    try:
        return _dispatch(words)
    except (UsageError, RunError) as error:
        complain(str(error))
        return 2
    except PermissionError as error:
        complain(f"{error.filename or 'a file'}: {error.strerror}")
        return 2
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): no more to say, to anybody.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        from occatrace import disk

        if disk.is_full(error):
            complain(f"{disk.WORDS}: {' '.join(str(error).split())}; free some space there, and try again")
            return 2
        if type(error).__module__ not in ("duckdb", "_duckdb"):
            raise
        text = " ".join(str(error).split())
        complain(f"a table cannot be read ({text}); remove `tables` in the run to make them again from the trace")
        return 2


def complain(text: str) -> None:
    """One line to the person, beside whatever the program prints."""
    if sys.stderr is None:
        return
    with contextlib.suppress(OSError):  # the terminal may have gone
        print(f"occa_prof: {text}", file=sys.stderr, flush=True)


def fill_standard_streams() -> None:
    """Started with a standard stream closed, a socket of ours would take its number. Closed again for the program."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def end_in_order() -> None:
    """Asked to end, an analysis removes its temporary files. (While a program runs, signals are for the program.)"""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda heard, _: sys.exit(128 + heard))


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
    module: ModuleType = importlib.import_module(f"occatrace.cli.{name}")
    parser = argparse.ArgumentParser(
        prog=f"occa_prof {name}" if name != DEFAULT else "occa_prof",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.prepare_parser(parser)
    if getattr(module, "TAKES_PROGRAM", False):
        words, program = split_program(parser, words)
        parse = getattr(module, "parse", None) or argparse.ArgumentParser.parse_args
        args = parse(parser, words)
        args.program = program
    else:
        args = parser.parse_args(words)
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
    lines = [f"  {name:{width}}  {about}" for name, about in COMMANDS.items()]
    return (
        "usage: occa_prof [OPTIONS] PROGRAM [ARGUMENTS...]\n"
        "       occa_prof SUBCOMMAND ...\n\n"
        "Runs a program and says where its time went: OCCA kernels, device work, API calls.\n\n"
        "subcommands:\n" + "\n".join(lines) + "\n\n"
        "`occa_prof run --help` lists the options; `occa_prof SUBCOMMAND --help` those of a subcommand.\n"
        "A program that is called like a subcommand: occa_prof -- report.\n\n"
        "exit status:\n" + "\n".join(f"  {status:{width}}  {about}" for status, about in STATUSES.items())
    )
