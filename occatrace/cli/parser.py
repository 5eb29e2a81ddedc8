"""The parser of every subcommand: argparse, whose errors are one line with a suggestion."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

# Words of other profilers, and obvious ones, that are no subcommand: what to type instead.
MEANT = {
    "stats": "occa_prof report",
    "analyze": "occa_prof report",
    "summary": "occa_prof report",
    "show": "occa_prof report",
    "profile": "occa_prof PROGRAM",
    "record": "occa_prof PROGRAM",
    "launch": "occa_prof start",
    "shutdown": "occa_prof stop",
    "sessions": "occa_prof top",
    "diff": "occa_prof compare",
    "ui": "occa_prof view",
    "sql": "occa_prof query",
    "status": "occa_prof doctor",
    "version": "occa_prof --version",
}


class _Help(argparse.RawDescriptionHelpFormatter):
    """argparse makes one for each option, and loads shutil for the width of the terminal."""

    def __init__(self, prog: str, **more: Any) -> None:
        super().__init__(prog, **{"width": _columns() - 2, **more})


def _columns() -> int:
    """As shutil.get_terminal_size has it."""
    with contextlib.suppress(KeyError, ValueError):
        if (asked := int(os.environ["COLUMNS"])) > 0:
            return asked
    with contextlib.suppress(AttributeError, ValueError, OSError):
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    return 80


class Parser(argparse.ArgumentParser):
    """Options in full only; a wrong one gives one line, with the option that is spelled most like it."""

    def __init__(self, **more: Any) -> None:
        more.setdefault("formatter_class", _Help)
        super().__init__(allow_abbrev=False, **more)

    def error(self, message: str) -> NoReturn:
        """End with status 2."""
        from occatrace.core import checked

        self.exit(2, f"{self.prog}: {checked.message(message)} ({self.prog} --help)\n")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does; what is left over is named with a suggestion."""
        found, extra = self.parse_known_args(args, namespace)
        if extra:
            self.error(self._unknown(extra))
        return found

    def _unknown(self, extra: Sequence[str]) -> str:
        word = next((word for word in extra if word.startswith("-") and word != "-"), None)
        if word is None:
            if "--report" in self._option_string_actions and (name := _report(extra[0])):
                return f"unexpected argument: {extra[0]}; for a report write --report {name}"
            return f"unexpected argument{'s' * (len(extra) > 1)}: {' '.join(extra)}"
        option = word.partition("=")[0]
        meant = None
        if self.prog == "occa_prof":
            from occatrace.cli import elsewhere

            if here := elsewhere.OPTIONS.get(option):
                return f"unknown option {option}; here: {here}"
        if option.startswith("--"):
            known = [each for each in self._option_string_actions if each.startswith("--")]
            if self.prog == "occa_prof":
                known.append("--version")  # of the whole command, not of this parser
            meant = closest(option, known)
        return f"unknown option {option}" + (f"; did you mean {meant}?" if meant else "")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        text = f"invalid choice: {value!r} (choose from {', '.join(choices)})"
        if action.dest == "format":
            from occatrace.cli import elsewhere

            if here := elsewhere.FORMATS.get(str(value).lower()):
                text += f"; {here}"
                raise argparse.ArgumentError(action, text)
        if meant := closest(str(value), choices):
            text += f"; did you mean {meant}?"
        raise argparse.ArgumentError(action, text)


def _report(word: str) -> str | None:
    """The report that a word names, or nearly."""
    from occatrace import reports

    return word if word in reports.definitions() else reports.alike(word)


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is spelled most like this one, if any is."""
    from difflib import get_close_matches

    words = list(dict.fromkeys(known))
    begun = [each for each in words if len(word) > 3 and each.startswith(word)]
    found = begun[:1] if len(begun) == 1 else get_close_matches(word, words, 1, 0.7)
    return found[0] if found else None


def of_command(name: str) -> tuple[Parser, Any]:
    """The parser of a subcommand, and its module."""
    import importlib

    from occatrace.cli import examples
    from occatrace.cli.commands import DEFAULT

    module = importlib.import_module(f"occatrace.cli.{name}")
    parser = Parser(prog="occa_prof" if name == DEFAULT else f"occa_prof {name}")
    module.prepare_parser(parser)
    parser.epilog = "\n\n".join(filter(None, ((parser.epilog or "").strip(), examples.text(name))))
    for action in parser._actions:
        if action.default not in (None, False, argparse.SUPPRESS, []) and "default" not in (action.help or ""):
            action.help = f"{action.help} (default: %(default)s)"
    return parser, module
