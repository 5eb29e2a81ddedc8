"""IPython's magic commands: `%occa_prof ./a.out` profiles a program, `%%occa_prof` the code of a cell, in its own process.

The only module that knows IPython.
"""

from __future__ import annotations

import pickle
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import occatrace
from occatrace.cli.parser import Parser
from occatrace.errors import RunError

USAGE = (
    "usage: %occa_prof [OPTIONS] PROGRAM [ARGS], or %%occa_prof [--in NAME]... [--out NAME]... [OPTIONS] above the cell"
)


class CellError(RunError):
    """A cell or its names cannot be profiled; one line that says why."""


class _Parser(Parser):
    """The options of occa_prof; what is wrong with them is an error of the cell."""

    def error(self, message: str) -> NoReturn:
        """One line, by _shown."""
        raise CellError(message)


# What the cell's process runs: the names of --in come from a file, those of --out go to another one.
_DRIVER = """\
import pickle, sys
_space = {{"__name__": "__main__"}}
with open({given!r}, "rb") as _file:
    _space.update(pickle.load(_file))
with open({cell!r}, encoding="utf-8") as _file:
    _code = compile(_file.read(), {cell!r}, "exec")
exec(_code, _space)
with open({result!r}, "wb") as _file:
    pickle.dump({{_name: _space[_name] for _name in {out!r} if _name in _space}}, _file)
"""


def register(shell: Any) -> None:
    """Add the magic commands to an IPython shell."""
    # Runs without -o live as long as the notebook's kernel.
    kept = tempfile.TemporaryDirectory(prefix="occa_prof-notebook-")
    shell.user_ns_hidden["_occa_prof_runs"] = kept

    def run_line(line: str) -> occatrace.Run | None:
        """Profile a program: %occa_prof [OPTIONS] PROGRAM [ARGS]."""
        return _shown(_profiled, shlex.split(line), Path(kept.name))

    def run_cell(line: str, cell: str) -> occatrace.Run | None:
        """Profile a cell in a process of its own: %%occa_prof [--in NAME]... [--out NAME]... [OPTIONS]."""
        return _shown(_cell, shell, shlex.split(line), cell, Path(kept.name))

    shell.register_magic_function(run_line, "line", "occa_prof")
    shell.register_magic_function(run_cell, "cell", "occa_prof")


def _shown(call: Any, *words: Any) -> occatrace.Run | None:
    """What a call gives, or one line that says why there is nothing."""
    try:
        result: occatrace.Run | None = call(*words)
    except RunError as error:
        print(f"occa_prof: {error}", file=sys.stderr)
        return None
    except SystemExit:
        return None  # --help, which has been printed
    return result


def _profiled(words: Sequence[str], kept: Path) -> occatrace.Run | None:
    """Run occa_prof with these words; the run, or None where it recorded none."""
    if not words:
        raise CellError(USAGE)
    folder = _output(words)
    if folder is None:
        folder = Path(tempfile.mkdtemp(dir=kept)) / "run"
        words = ["-o", str(folder), *words]
    command = [sys.executable, "-m", "occatrace.cli", "-q", *words]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as running:
        assert running.stdout
        try:
            for text in running.stdout:
                print(text, end="")
        except KeyboardInterrupt:
            running.terminate()
            raise
    if running.returncode != 0:
        print(f"exit status {running.returncode}", file=sys.stderr)
    if not (folder / "run.json").exists():
        return None
    return occatrace.open(folder)


def _output(words: Sequence[str]) -> Path | None:
    """The folder that -o names, by the parser of occa_prof: the program has options of its own."""
    from occatrace.cli import dispatch, run

    parser = _Parser(prog="occa_prof")
    run.prepare_parser(parser)
    own, _ = dispatch.split_program(parser, words)
    output: Path | None = run.parse(parser, own).output
    return output


def _cell(shell: Any, words: Sequence[str], cell: str, kept: Path) -> occatrace.Run | None:
    """Profile the code of a cell, as `python cell.py`."""
    given, out, rest = _names(words)
    space: dict[str, Any] = {}
    for name in given:
        if name not in shell.user_ns:
            raise CellError(f"--in {name}: the notebook has no such name")
        space[name] = shell.user_ns[name]
    folder = Path(tempfile.mkdtemp(dir=kept))
    try:
        (folder / "given").write_bytes(pickle.dumps(space))
    except Exception as error:
        raise CellError(f"--in {', '.join(given)}: cannot be pickled ({error})") from None
    source, result = folder / "cell.py", folder / "result"
    source.write_text(cell, encoding="utf-8")
    driver = folder / "driver.py"
    driver.write_text(
        _DRIVER.format(given=str(folder / "given"), cell=str(source), result=str(result), out=list(out)),
        encoding="utf-8",
    )
    run = _profiled([*rest, sys.executable, str(driver)], kept)
    if out and result.exists():
        back = pickle.loads(result.read_bytes())
        shell.push(back)
        absent = [name for name in out if name not in back]
        if absent:
            print(f"--out {', '.join(absent)}: the cell has not set it", file=sys.stderr)
    return run


def _names(words: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """The values of --in and --out, and the other words."""
    found: dict[str, list[str]] = {"--in": [], "--out": []}
    rest: list[str] = []
    waiting = iter(words)
    for word in waiting:
        option, equals, value = word.partition("=")
        if option not in found:
            rest.append(word)
            continue
        if not equals:
            value = next(waiting, "")
        if not value.isidentifier():
            raise CellError(f"{option} needs the name of a variable; {USAGE}")
        found[option].append(value)
    return found["--in"], found["--out"], rest
