"""Reports of users: SQL and Python files in folders of theirs, and packages with the entry point `occatrace.reports`.

They have the head of a built-in report. A SQL file is one; the docstring of a Python file is the head, and its function
`rows(con)` returns the rows, given a DuckDB connection with the tables of the run. A run folder never adds reports.
"""

from __future__ import annotations

import ast
import os
import stat
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from occatrace.errors import RunError
from occatrace.reports.head import Definition, names, parse

VARIABLE = "OCCATRACE_REPORTS"
GROUP = "occatrace.reports"
SIGN = frozenset(("share", "name", "evidence", "advice"))  # columns of a report whose rows are signs of `advice`, too


class BadRecipe(RunError):
    """A user's report cannot be used; one line that says why."""


def folders() -> list[Path]:
    """Where users' reports are: folders of OCCATRACE_REPORTS, that of the user's configuration, those of installed packages."""
    out = [Path(part) for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part]
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return [*out, Path(config, "occatrace", "reports"), *_of_packages()]


def _of_packages() -> Iterator[Path]:
    from importlib import metadata, util

    for entry in metadata.entry_points(group=GROUP):
        try:
            found = util.find_spec(entry.value.partition(":")[0])
        except (ImportError, ValueError):
            found = None
        for place in (found.submodule_search_locations or ()) if found else ():
            yield Path(place)


@cache
def _read(setting: str, home: str) -> tuple[dict[str, Definition], dict[str, str]]:
    """The reports, and why other files are none; the arguments decide when it is read again."""
    there: dict[str, Definition] = {}
    wrong: dict[str, str] = {}
    for folder in folders():
        files = sorted(folder.glob("*.sql")) + sorted(folder.glob("*.py")) if folder.is_dir() else []
        for file in files:
            name = file.stem
            if name.startswith("_"):
                continue
            try:
                if name in names() or name in there:
                    raise ValueError("there is a report of this name already: rename the file")
                there[name] = _definition(file)
            except (ValueError, KeyError, SyntaxError, OSError) as error:
                text = f"its head has no `{error.args[0]}:` line" if isinstance(error, KeyError) else str(error)
                wrong.setdefault(name, f"{file}: {text}")
    return there, wrong


def definitions() -> dict[str, Definition]:
    """Users' reports by name."""
    return _read(os.environ.get(VARIABLE, ""), os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~"))[0]


def problems() -> dict[str, str]:
    """Files that are no reports, by name: a line that says why."""
    return _read(os.environ.get(VARIABLE, ""), os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~"))[1]


def _definition(file: Path) -> Definition:
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".sql":
        return parse(file.stem, text)
    head = ast.get_docstring(ast.parse(text, str(file))) or ""
    lines = "\n".join(f"-- {line}" for line in head.splitlines() if line.strip())
    entry = parse(file.stem, lines)
    return Definition(**{**vars(entry), "sql": "", "made": str(file)})


def rows(entry: Definition, con: Any) -> list[tuple[Any, ...]]:
    """The rows of a report that is a Python file. Raises BadRecipe for whatever goes wrong in it."""
    file = Path(entry.made)
    space: dict[str, Any] = {}
    try:
        space = _executed(entry)
        found = [tuple(row) for row in space["rows"](con)]
    except KeyError as error:
        why = (
            "it has no function rows(con)" if error.args == ("rows",) and "rows" not in space else f"KeyError: {error}"
        )
        raise BadRecipe(f"{file}: {why}") from error
    except BadRecipe:
        raise
    except Exception as error:
        raise _failed(file, error) from error
    for row in found:
        if len(row) != len(entry.columns):
            raise BadRecipe(f"{file}: a row has {len(row)} values, the head has {len(entry.columns)} columns")
    return found


def plot(entry: Definition, rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """What the function `plot(rows)` of a Python report draws of its rows (dicts by field), as Vega-Lite; None where there is no such
    function. Raises BadRecipe for whatever goes wrong in it."""
    if not entry.made.endswith(".py"):
        return None
    file = Path(entry.made)
    try:
        draw = _executed(entry).get("plot")
        if draw is None:
            return None
        made = draw(rows)
    except BadRecipe:
        raise
    except Exception as error:
        raise _failed(file, error) from error
    if not isinstance(made, dict):
        raise BadRecipe(f"{file}: plot(rows) returned {type(made).__name__}, not a Vega-Lite specification (dict)")
    return made


def _executed(entry: Definition) -> dict[str, Any]:
    """The names that a Python report defines."""
    file = Path(entry.made)
    _check_owner(file)
    space: dict[str, Any] = {"__name__": f"occatrace_recipe_{entry.name}", "__file__": str(file)}
    exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), space)
    return space


def _failed(file: Path, error: Exception) -> BadRecipe:
    return BadRecipe(f"{file}: {type(error).__name__}: {str(error).partition(chr(10))[0]}")


def _check_owner(file: Path) -> None:
    """Code is run only if nobody else can have written it."""
    status = file.stat()
    if status.st_uid not in (0, os.getuid()) or status.st_mode & stat.S_IWOTH:
        raise BadRecipe(f"{file}: not run, because other users can change it: chmod o-w, or copy it")
