"""`occa_prof mcp`: a server of the Model Context Protocol over standard input and output. It reads runs and changes nothing.

Each answer is made by a process of its own (`occa_prof report … --format json`), so that a limit of time and memory ends an
answer and not the server.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from occatrace.cli import ending
from occatrace.cli.messages import UsageError
from occatrace.cli.report import BadInput

ROWS = 100  # of an answer, where nothing else is asked for
MOST_ROWS = 1000
SECONDS = 60
MEGABYTES = 4096  # of address space
MOST_BYTES = 1 << 18  # of an answer
_MOST_RUNS = 1000
_PATIENCE_S = 5
_DEPTH = 4  # of folders in which runs are looked for
# Each tool, and the schema of its answer (occa_prof schema NAME); the digest is text.
TOOLS: Mapping[str, str] = {
    "list_runs": "runs",
    "digest": "",
    "list_reports": "reports",
    "report": "report",
    "query": "report",
    "why": "why",
    "compare": "report",
}

EPILOG = """\
tools: list_runs, digest, list_reports, report, query, why (with what_if), compare. They read the runs below the FOLDERs and change
nothing; nothing leaves this machine by them. Put the command into the list of servers of your assistant:
  {"mcpServers": {"occatrace": {"command": "occa_prof", "args": ["mcp", "/path/to/runs"]}}}
"""
_INSTRUCTIONS = (
    "Recorded runs of programs that use OCCA, OpenCL, CUDA, HIP, OpenMP or MPI. Begin with list_runs and digest; durations are ns,"
    " sizes bytes. report gives one report (list_reports), query runs a SELECT of DuckDB, why the critical path."
)


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.description = "Serve runs to an assistant by the Model Context Protocol, over standard input and output."
    parser.epilog = EPILOG
    parser.add_argument(
        "folders",
        metavar="FOLDER",
        nargs="*",
        type=Path,
        help="serve the runs below this folder (default: the current one)",
    )
    parser.add_argument(
        "--seconds", metavar="N", type=int, default=SECONDS, help=f"end an answer after N seconds (default: {SECONDS})"
    )
    parser.add_argument(
        "--rows",
        metavar="N",
        type=int,
        default=MOST_ROWS,
        help=f"limit an answer to N rows (default: {MOST_ROWS})",
    )
    parser.add_argument(
        "--memory",
        metavar="MB",
        type=int,
        default=MEGABYTES,
        help=f"limit the address space of an answer to MB megabytes (default: {MEGABYTES}, at least 1024)",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until standard input ends."""
    folders = [folder.resolve() for folder in args.folders or [Path()]]
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{folder}: no such folder")
    if args.seconds < 1 or args.rows < 1 or args.memory < 1024:
        raise BadInput("--seconds and --rows are at least 1, --memory at least 1024")
    if sys.stdin is None or sys.__stdout__ is None:
        raise UsageError("standard input and output are closed: an assistant starts this command, with pipes")
    try:
        server: Any = importlib.import_module("mcp.server").MCPServer
        refused: Any = importlib.import_module("mcp.server.mcpserver.exceptions").ToolError
        tool: Any = importlib.import_module("mcp.server.mcpserver.tools").Tool
        types: Any = importlib.import_module("mcp.types")
    except (ImportError, AttributeError):
        raise UsageError("the package mcp (version 2) is not installed: pip install 'occatrace[mcp]'") from None
    from occatrace import __version__
    from occatrace.render import schemas

    answers = Answers(folders, args.rows, args.seconds, args.memory, refused)
    tools = []
    for name, schema in TOOLS.items():
        function = getattr(answers, name)
        made = tool.from_function(_structured(function, types) if schema else function, structured_output=False)
        made.fn_metadata.output_schema = schemas.schema(schema) if schema else None
        tools.append(made)
    serving = server("occatrace", instructions=_INSTRUCTIONS, version=__version__, log_level="ERROR", tools=tools)
    with ending.handlers_of_others():
        serving.run("stdio")
    return 0


def _structured(answer: Callable[..., str], types: Any) -> Callable[..., Any]:
    """The same tool, whose JSON is structured content, too."""

    @functools.wraps(answer)
    def structured(*args: Any, **named: Any) -> Any:
        text = answer(*args, **named)
        content = [types.TextContent(type="text", text=text)]
        return types.CallToolResult(content=content, structured_content=json.loads(text))

    return structured


class Answers:
    """The tools. Their docstrings and parameters are what an assistant sees."""

    def __init__(self, folders: list[Path], rows: int, seconds: int, megabytes: int, refused: type[Exception]) -> None:
        self._folders, self._rows, self._seconds, self._megabytes = folders, rows, seconds, megabytes
        self._refused = refused  # what the protocol has for an answer that says why there is none

    def list_runs(self) -> str:
        """List the recorded runs: folder, program, start, exit status."""
        from occatrace.render.schemas import LISTS

        found: list[dict[str, Any]] = []
        for top in self._folders:
            for base, folders, files in os.walk(top):
                if len(Path(base).relative_to(top).parts) >= _DEPTH:
                    folders.clear()
                folders.sort()
                if "run.json" in files:
                    folders.clear()
                    found.append(_facts(Path(base)))
        shown = found[: min(_MOST_RUNS, self._rows)]
        return json.dumps({"schema": LISTS, "runs": shown, "more": len(found) - len(shown)})

    def digest(self, run: str, tokens: int = 2000) -> str:
        """The most important facts of a run, each with the row of a report that it comes from. Start here."""
        return self._ask("digest", self._run(run), "--tokens", str(min(tokens, 20_000)))

    def list_reports(self) -> str:
        """The names of all reports and what they are about."""
        return self._ask("report", "--list", "--format", "json")

    def report(self, run: str, name: str, rows: int = ROWS, filter_time: str = "", by: str = "") -> str:
        """One report of a run as JSON. filter_time: a part of the run as in 1.2s:1.4s; by: rank, thread, device, stream or line."""
        more = [*(("--filter-time", filter_time) if filter_time else ()), *(("--by", by) if by else ())]
        return self._ask(
            "report", self._run(run), f"--report={name}", "--rows", self._limit(rows), "--format", "json", *more
        )

    def query(self, run: str, sql: str, rows: int = ROWS) -> str:
        """A SELECT of DuckDB over the tables of a run, as JSON. Tables: query information_schema.tables or read help schema."""
        # A newline: the statement may end in a comment. One statement only: another one is no subquery.
        limited = f"SELECT * FROM ({sql.strip().rstrip(';')}\n) LIMIT {self._limit(rows)}"
        return self._ask("query", self._run(run), limited, "--format", "json")

    def why(self, run: str, what_if: str = "") -> str:
        """What decided the run time (critical path), as JSON; what_if predicts a change, as in kernel:NAME*0.5 or copy:HtoD*0."""
        more = [f"--what-if={what_if}"] if what_if else []
        return self._ask("why", self._run(run), "--format", "json", *more)

    def compare(self, before: str, after: str) -> str:
        """What became slower, faster, new or gone between two runs, beyond the noise, as JSON."""
        return self._ask("compare", self._run(before), self._run(after), "--format", "json")

    def _limit(self, rows: int) -> str:
        return str(max(1, min(rows, self._rows)))

    def _run(self, name: str) -> str:
        """The folder of a run, which must lie below one that is served."""
        for top in self._folders:
            path = (top / name).resolve()
            if path.is_relative_to(top) and (path / "run.json").is_file():
                return str(path)
        raise self._refused(f"no run {name!r} below {', '.join(map(str, self._folders))}; list_runs names them")

    def _ask(self, *words: str) -> str:
        limit = self._megabytes << 20
        with subprocess.Popen(
            [sys.executable, "-m", "occatrace.cli", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        ) as process:
            try:
                out, err = process.communicate(timeout=self._seconds)
            except subprocess.TimeoutExpired:
                process.terminate()  # it removes its temporary files
                try:
                    process.communicate(timeout=_PATIENCE_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                raise self._refused(
                    f"no answer within {self._seconds} s; ask for less, as by filter_time or a smaller query"
                ) from None
        if process.returncode:
            lines = err.decode("utf-8", "replace").strip().splitlines()
            raise self._refused(
                lines[-1] if lines else f"ended with status {process.returncode}; it may need more memory"
            )
        if len(out) > MOST_BYTES:
            raise self._refused(
                f"the answer has {len(out):,} bytes, more than {MOST_BYTES:,}; ask for fewer rows or columns"
            )
        return out.decode("utf-8", "replace")


def _facts(folder: Path) -> dict[str, Any]:
    """What is worth knowing of a run before it is opened."""
    from occatrace.render.schemas import RUN_FACTS

    out: dict[str, Any] = {"run": str(folder)}
    try:
        info = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        out |= {key: info[key] for key in RUN_FACTS if key in info}
    except (OSError, ValueError, TypeError, AttributeError):
        out["problem"] = "run.json cannot be read"
    return out
