"""Words of the command line → the subcommand. Modules of other subcommands are not imported."""

from __future__ import annotations

import argparse
import gc
import io
import os
import sys
from collections.abc import Sequence
from typing import Any

from occatrace.cli import bar, ending
from occatrace.cli.commands import COMMANDS, DEFAULT, overview
from occatrace.cli.messages import OutputError, UsageError, complain, words_of
from occatrace.cli.parser import Parser, of_command
from occatrace.errors import RunError

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
    gc.enable()  # off since occatrace/entry.py
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
