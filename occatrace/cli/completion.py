"""`occa_prof completion SHELL`: what a shell needs to complete words of occa_prof, and the answers to it.

argcomplete asks the parsers themselves. Added here is what they do not know: run folders, reports, plots, kernels of a run.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from occatrace.cli.commands import COMMANDS, DEFAULT
from occatrace.cli.messages import UsageError
from occatrace.cli.parser import Parser, of_command

SHELLS = ("bash", "zsh", "fish")
ASKED = "_ARGCOMPLETE"  # argcomplete's variable: a shell asks
Completer = Callable[..., Iterable[str]]


class MissingPackage(UsageError):
    """argcomplete is not installed."""


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.description = (
        "Print lines for a shell, which then completes subcommands, options, run folders, reports and names of kernels."
    )
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help="print the lines for bash, zsh or fish")


def run(args: argparse.Namespace) -> int:
    """Print the lines."""
    try:
        from argcomplete.shell_integration import shellcode
    except ImportError:
        raise MissingPackage("completion needs the package argcomplete: pip install argcomplete") from None
    if args.shell == "zsh":
        # compdef is there only after compinit.
        print("(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }")
    print(shellcode(["occa_prof"], shell=args.shell))
    return 0


def answer() -> int:
    """Answer a shell that asks what may come next (COMP_LINE, COMP_POINT), through argcomplete; an error answers nothing."""
    try:
        import argcomplete
        from argcomplete.completers import SuppressCompleter
    except ImportError:
        return 1
    line, point = os.environ.get("COMP_LINE", ""), os.environ.get("COMP_POINT", "")
    if not point.isdigit():
        return 1
    # The point counts bytes.
    before = line.encode(errors="surrogateescape")[: int(point)].decode(errors="ignore")
    parser = parser_of(_words(before)[1:])
    argcomplete.autocomplete(parser, always_complete_options=False, default_completer=SuppressCompleter())
    return 1


def _words(text: str) -> list[str]:
    """The words of an unfinished line; the last one is being typed."""
    for closing in ("", "'", '"'):
        with contextlib.suppress(ValueError):
            found = shlex.split(text + closing)
            return [*found, ""] if not closing and (text[-1:].isspace() or not found) else found
    return text.split(" ")


def parser_of(words: Sequence[str]) -> argparse.ArgumentParser:
    """A parser whose completions are those of these words, of which the last is being typed."""
    if words and words[0] in COMMANDS and len(words) > 1:
        parser, _ = of_command(words[0])
        _add_completers(parser)
        top = Parser(prog="occa_prof")
        chosen = top.add_subparsers()
        chosen._name_parser_map[words[0]] = parser
        if words[0] == DEFAULT:
            _add_program(parser, ())
        return top
    parser, _ = of_command(DEFAULT)
    _add_completers(parser)
    _add_program(parser, COMMANDS if len(words) <= 1 else ())
    return parser


def _add_program(parser: argparse.ArgumentParser, first: Iterable[str]) -> None:
    """The program and its arguments, after our options; `first`: words that may stand in its place."""
    from argcomplete.completers import FilesCompleter

    files = FilesCompleter()

    def programs(prefix: str, **_: Any) -> list[str]:
        out = [word for word in first if word.startswith(prefix)]
        if "/" in prefix or not prefix:
            return [*out, *files(prefix)]
        return [*out, *_commands(prefix), *files(prefix)]

    parser.add_argument("program", metavar="PROGRAM").completer = programs  # type: ignore[attr-defined]
    rest = parser.add_argument("arguments", nargs=argparse.REMAINDER)
    rest.completer = files  # type: ignore[attr-defined]


def _commands(prefix: str) -> list[str]:
    """Programs in PATH."""
    found = set()
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        with contextlib.suppress(OSError):
            found |= {name for name in os.listdir(folder or ".") if name.startswith(prefix)}
    return sorted(found)


def _add_completers(parser: argparse.ArgumentParser) -> None:
    """By what an argument is called in the help."""
    from argcomplete.completers import DirectoriesCompleter, FilesCompleter

    by_metavar: dict[str, Completer] = {
        "FILE": FilesCompleter(),
        "PATH": FilesCompleter(),
        "DIR": DirectoriesCompleter(),
    }
    by_dest: dict[str, Completer] = {
        "run": _runs,
        "runs": _runs,
        "report": _reports,
        "plot": _plots,
        "filter_name": _kernels,
        "kernels": _kernels,
        "not_kernels": _kernels,
        "topic": _topics,
        "name": _schemas,
        "sort": _columns,
        "table": _tables,
        "trace": _apis,
        "at": _places,
        "what_if": _changes,
    }
    for action in parser._actions:
        completer = by_dest.get(action.dest) or by_metavar.get(str(action.metavar))
        if completer:
            action.completer = completer  # type: ignore[attr-defined]


def _runs(prefix: str, **_: Any) -> list[str]:
    """Run folders, and folders in which there may be some. `compare` takes NAME=RUN and RUN,RUN, too."""
    start = max(prefix.rfind("="), prefix.rfind(",")) + 1
    head, typed = prefix[:start], prefix[start:]
    parent, _slash, begin = typed.rpartition("/")
    folder = f"{parent}/" if parent or typed.startswith("/") else ""
    out = []
    with contextlib.suppress(OSError):
        for entry in sorted(os.scandir(os.path.expanduser(folder) or "."), key=lambda entry: entry.name):
            if entry.name.startswith(begin) and (begin or not entry.name.startswith(".")) and entry.is_dir():
                is_run = os.path.exists(os.path.join(entry.path, "run.json"))
                out.append(f"{head}{folder}{entry.name}{'' if is_run else '/'}")
    runs = [name for name in out if not name.endswith("/")]
    return runs or out


def _reports(prefix: str, **_: Any) -> dict[str, str]:
    from occatrace import reports

    head = _before(prefix)
    return {f"{head}{name}": entry.title for name, entry in reports.definitions().items()}


def _before(prefix: str) -> str:
    """Of a list with commas, what is in front of the word that is being typed."""
    return prefix[: prefix.rfind(",") + 1]


def _places(prefix: str, **more: Any) -> list[str]:
    """Of `view --at`."""
    names = _kernels(prefix=prefix, **more) if prefix.startswith("kernel:") else [""]
    return ["gap:1", *(f"kernel:{name}" for name in names)]


def _changes(prefix: str, **more: Any) -> list[str]:
    """Of `why --what-if`: kernels and their launches take half as long, other things no time."""
    head = _before(prefix)
    kind, colon, _ = prefix[len(head) :].partition(":")
    names = _kernels(prefix=prefix, **more) if colon and kind in ("kernel", "launch") else []
    found = [f"{kind}:{name}*0.5" for name in names] or ["kernel:", "launch:", "call:", "function:", "import:", "rank:"]
    return [
        f"{head}{change}" for change in (*found, "copy:HtoD*0", "copy:DtoH*0", "copy:DtoD*0", "build*0", "network*0")
    ]


def _columns(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    from occatrace import reports

    known = reports.definitions()
    names = [name for name in getattr(parsed_args, "report", None) or reports.SUMMARY if name in known]
    return sorted({column.name for name in names for column in known[name].columns})


def _plots(**_: Any) -> list[str]:
    from occatrace.views import plots

    return list(plots.PLOTS)


def _topics(**_: Any) -> list[str]:
    from occatrace.cli import help as topics

    return [*COMMANDS, *topics.topics()]


def _schemas(**_: Any) -> list[str]:
    from occatrace import reports
    from occatrace.render import schemas

    return [*schemas.NAMES, *reports.definitions()]


def _tables(**_: Any) -> list[str]:
    from occatrace.core.schema import TABLES

    return [table.name for table in TABLES]


def _apis(prefix: str, **_: Any) -> list[str]:
    from occatrace.core import apis

    return [f"{_before(prefix)}{name}" for name in apis.all_of(apis.read_model())]


def _kernels(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Of the run on the line, or of the newest one here. Nothing is analysed for it: only tables that are there are read."""
    named = getattr(parsed_args, "run", None)
    found = [Path(named)] if named else [path.parent for path in Path().glob("*/run.json")]
    made = [run / "tables" for run in found if (run / "tables" / "kernels.parquet").is_file()]
    if not made:
        return []
    newest = max(made, key=lambda tables: tables.stat().st_mtime)
    from occatrace.core.duck import duckdb

    query = (
        "SELECT name FROM read_parquet(?) UNION SELECT name FROM read_parquet(?) WHERE kind = 'kernel' ORDER BY name"
    )
    with contextlib.suppress(duckdb.Error), duckdb.connect() as con:
        rows = con.execute(query, [str(newest / "kernels.parquet"), str(newest / "activities.parquet")]).fetchall()
        return [name for (name,) in rows if name]
    return []


def asked() -> bool:
    """Whether a shell asks, and this is no command of a user."""
    return ASKED in os.environ and "COMP_LINE" in os.environ
