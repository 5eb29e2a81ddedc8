"""`python -m occatrace.cli.manual FOLDER`: the manual pages, from the parsers. The build puts them into the package.

Needs the standard library only, because it runs while the package is built.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from occatrace import __version__
from occatrace.cli.commands import COMMANDS, STATUSES
from occatrace.cli.parser import of_command


def pages() -> dict[str, str]:
    """The pages by file name: occa_prof.1, and one per subcommand."""
    return {
        "occa_prof.1": "\n".join(_overview()) + "\n",
        **{f"occa_prof-{name}.1": "\n".join(_of_command(name)) + "\n" for name in COMMANDS},
    }


def _overview() -> Iterator[str]:
    yield from _head("occa_prof", "tracing profiler for OCCA, OpenCL, CUDA, HIP, OpenMP and MPI programs")
    yield from (".SH SYNOPSIS", ".nf", r"\fBocca_prof\fR [\fIOPTIONS\fR] \fIPROGRAM\fR [\fIARGUMENTS\fR...]")
    yield from (r"\fBocca_prof\fR \fISUBCOMMAND\fR ...", ".fi", ".SH DESCRIPTION")
    yield "Run a program and report where its time went."
    yield r"The options of a recording are in \fBocca_prof\-run\fR(1)."
    yield ".SH SUBCOMMANDS"
    for name, about in COMMANDS.items():
        yield from (".TP", rf"\fBocca_prof\-{name}\fR(1)", escaped(about))
    yield ".SH EXIT STATUS"
    for status, about in STATUSES.items():
        yield from (".TP", rf"\fB{escaped(status)}\fR", escaped(about))


def _of_command(name: str) -> Iterator[str]:
    parser, _ = of_command(name)
    yield from _head(f"occa_prof-{name}", COMMANDS[name])
    usage = re.sub(r"\s+", " ", parser.format_usage().removeprefix("usage:")).strip()
    yield from (".SH SYNOPSIS", escaped(usage))
    if parser.description:
        yield ".SH DESCRIPTION"
        yield from _text(parser.description)
    for group in parser._action_groups:
        actions = [action for action in group._group_actions if action.help != argparse.SUPPRESS]
        if not actions:
            continue
        yield f".SH {escaped((group.title or '').upper())}"
        for action in actions:
            yield from _action(parser, action)
    if parser.epilog:
        before, found, examples = parser.epilog.partition("examples:\n")
        if before.strip():
            yield ".SH NOTES"
            yield from _text(before)
        if found:
            yield ".SH EXAMPLES"
            yield from (".nf", *map(escaped, examples.rstrip().splitlines()), ".fi")
    yield from (".SH SEE ALSO", r"\fBocca_prof\fR(1)")


def _action(parser: argparse.ArgumentParser, action: argparse.Action) -> Iterator[str]:
    formatter = parser._get_formatter()
    if action.option_strings:
        head = ", ".join(rf"\fB{escaped(option)}\fR" for option in action.option_strings)
        if action.nargs != 0:
            head += rf" \fI{escaped(formatter._format_args(action, formatter._get_default_metavar_for_optional(action)))}\fR"
    else:
        head = rf"\fI{escaped(str(action.metavar or action.dest))}\fR"
    yield from (".TP", head, escaped(formatter._expand_help(action)))


def _head(name: str, about: str) -> Iterator[str]:
    yield '.\\" made by python -m occatrace.cli.manual'
    yield f'.TH {name.upper()} 1 "" "occatrace {__version__}" "occatrace"'
    yield from (".SH NAME", rf"{escaped(name)} \- {escaped(about)}")


def _text(text: str) -> Iterator[str]:
    """Paragraphs; lines that are indented stay lines."""
    for paragraph in text.strip().split("\n\n"):
        lines = paragraph.splitlines()
        yield ".PP"
        indented = False
        for line in lines:
            if line.startswith(" ") != indented:
                indented = not indented
                yield ".nf" if indented else ".fi"
            yield escaped(line)
        if indented:
            yield ".fi"


def escaped(text: str) -> str:
    """Text as roff takes it literally."""
    out = text.replace("\\", r"\e").replace("-", r"\-").replace("…", r"\[u2026]").replace("µ", r"\[mc]")
    return rf"\&{out}" if out.startswith((".", "'")) else out


def main() -> int:
    """Write them."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
