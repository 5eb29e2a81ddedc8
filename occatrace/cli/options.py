"""Options of `occa_prof PROGRAM` from wherever they come: command line, then environment, then a file of --config. The parser
is the one list: every option has a variable (OCCATRACE_ and its name) and stands under its name in a file."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from occatrace.cli.messages import UsageError
from occatrace.core.checked import printable
from occatrace.errors import ChoiceError
from occatrace.record.filters import OPTIONS, PREFIX, Choosing

# Not of a run: what only the command line says.
ONLY_HERE = ("help", "config", "show_config", "force", "program")
_WORDS = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
    "": False,
}
_UNSET = object()


def add_choosing(parser: argparse.ArgumentParser, wanted: Sequence[str] | None = None) -> None:
    """The options that choose what is recorded; `wanted`: of these groups."""
    groups: dict[str, argparse._ArgumentGroup] = {}
    for option in OPTIONS:
        if wanted is not None and option.group not in wanted:
            continue
        if option.group not in groups:
            groups[option.group] = parser.add_argument_group(f"{option.group} to record (occa_prof help choosing)")
        # Percent signs and the like are argparse's.
        text = option.help.replace("%", "%%")
        if option.metavar is None:
            groups[option.group].add_argument(f"--{option.name}", action="store_true", help=text)
        elif option.alone is not None:
            groups[option.group].add_argument(
                f"--{option.name}", metavar=option.metavar, nargs="?", const=option.alone, help=text
            )
        else:
            groups[option.group].add_argument(f"--{option.name}", metavar=option.metavar, help=text)


def add_files(parser: argparse.ArgumentParser) -> None:
    """Where options may stand."""
    where = parser.add_argument_group("options in files")
    where.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help='take options from a TOML file: mode = "tally", kernels = "dot|apply"; the command line and OCCATRACE_…'
        " variables take precedence",
    )
    where.add_argument(
        "--show-config", action="store_true", help="print the effective options and their sources, and run nothing"
    )


def choosing_of(args: argparse.Namespace) -> Choosing:
    """What the options choose."""
    try:
        return Choosing.of(vars(args))
    except ChoiceError as error:
        # Where it stands, when not before their eyes.
        option = str(error).partition(" ")[0].removeprefix("--").replace("-", "_")
        source = getattr(args, "sources", {}).get(option, "command line")
        raise UsageError(str(error) if source == "command line" else f"{source}: {error}") from None


def parse(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    """As the parser alone would, with what the environment and a file say beneath."""
    actions = [a for a in parser._actions if a.dest not in ("help", argparse.SUPPRESS)]
    empty = {a.dest: None if isinstance(a, argparse._AppendAction) else _UNSET for a in actions}
    args = parser.parse_args(words, argparse.Namespace(**empty))
    given = {a.dest for a in actions if getattr(args, a.dest) not in (_UNSET, None)}
    file = Path(args.config) if "config" in given else None
    content = _read(file) if file else {}
    known = {name_of(a): a for a in actions if a.dest not in ONLY_HERE}
    unknown = sorted(set(content) - set(known))
    if unknown:
        from difflib import get_close_matches

        alike = get_close_matches(unknown[0].lower().replace("_", "-"), known, 1)
        hint = f"did you mean {alike[0]!r}?" if alike else f"there are: {', '.join(sorted(known))}"
        raise UsageError(f"{file}: no option is called {unknown[0]!r}; {hint}")
    args.sources = {}
    for action in actions:
        if action.dest in given:
            args.sources[action.dest] = "command line"
            continue
        name, value, source = name_of(action), action.default, "default"
        variable = variable_of(action)
        if action.dest not in ONLY_HERE and os.environ.get(variable):
            value, source = _value(parser, action, os.environ[variable], variable), variable
        elif action.dest not in ONLY_HERE and name in content:
            value, source = _value(parser, action, content[name], f"{name} in {file}"), str(file)
        setattr(args, action.dest, value)
        args.sources[action.dest] = source
    return args


def name_of(action: argparse.Action) -> str:
    """Of an option, as it is written without its dashes."""
    return max(action.option_strings, key=len, default=action.dest).lstrip("-")


def variable_of(action: argparse.Action) -> str:
    """The environment variable of an option."""
    return PREFIX + name_of(action).replace("-", "_").upper()


def _read(file: Path) -> Mapping[str, Any]:
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        result: Mapping[str, Any] = toml.loads(file.read_text(encoding="utf-8"))
        return result
    except OSError as error:
        raise UsageError(f"--config {file}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"--config {file}: this is not TOML: {error}") from None
    except RecursionError:
        raise UsageError(f"--config {file}: its values are nested too deeply") from None


def _value(parser: argparse.ArgumentParser, action: argparse.Action, given: Any, where: str) -> Any:
    """What the parser would make of it on the command line."""
    if isinstance(action, (argparse._StoreTrueAction, argparse._StoreFalseAction)):
        word = given if isinstance(given, bool) else _WORDS.get(str(given).lower())
        if word is None:
            raise UsageError(f"{where}: {given!r} is neither true nor false")
        return word
    if isinstance(action, argparse._AppendAction):
        parts: Iterable[Any] = given if isinstance(given, list) else str(given).split(";")
        if isinstance(action, argparse._ExtendAction):  # whose values are lists themselves
            return [one for part in parts for one in _single(parser, action, part, where)]
        return [_single(parser, action, part, where) for part in parts]
    return _single(parser, action, ",".join(map(str, given)) if isinstance(given, list) else given, where)


def _single(parser: argparse.ArgumentParser, action: argparse.Action, given: Any, where: str) -> Any:
    if isinstance(given, (bool, dict)):
        raise UsageError(
            f"{where}: write {action.metavar or 'a value'}, not {'a table' if isinstance(given, dict) else given}"
        )
    try:
        value = parser._get_value(action, str(given))
        parser._check_value(action, value)
    except argparse.ArgumentError as error:
        raise UsageError(f"{where}: {error.message}") from None
    return value


def show(parser_names: Mapping[str, str], args: argparse.Namespace) -> str:
    """The effective options, in the syntax of a --config file, and the source of each."""
    lines = []
    for dest, source in args.sources.items():
        if dest in ONLY_HERE:
            continue
        value = getattr(args, dest)
        if value in (None, False, []) and source == "default":
            continue
        lines.append((f"{parser_names[dest]} = {_toml(value)}", printable(source)))
    width = max((len(text) for text, _ in lines), default=0)
    return "".join(f"{text:{width}}  # {source}\n" for text, source in lines)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, (set, frozenset)):
        value = ",".join(map(str, sorted(value)))
    return '"' + "".join(map(_escaped, str(value))) + '"'


def _escaped(character: str) -> str:
    """Within quotes of TOML: what a terminal obeys, such as an escape in the file of a stranger, stands as a code."""
    if character in '\\"':
        return f"\\{character}"
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
