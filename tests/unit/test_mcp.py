"""`occa_prof mcp`, asked by the official client over standard input and output."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from occatrace.cli.mcp import TOOLS
from tests.support.fake import demo_trace, recorded

LONG = "SELECT sum(a.range * b.range) FROM range(9999999) a, range(9999999) b"
Ask = Callable[..., Awaitable[tuple[bool, str]]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run below it."""
    return recorded(tmp_path_factory.mktemp("mcp"), demo_trace()).parent


def session(folder: Path, options: Sequence[str], use: Callable[[Any, Ask], Awaitable[None]]) -> None:
    """Use a server until done."""
    client = pytest.importorskip("mcp.client.session")
    stdio = pytest.importorskip("mcp.client.stdio")

    async def main() -> None:
        words = ["-m", "occatrace.cli", "mcp", *options, str(folder)]
        start = stdio.StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))
        async with stdio.stdio_client(start) as (read, write), client.ClientSession(read, write) as server:
            await server.initialize()

            async def ask(tool: str, **arguments: Any) -> tuple[bool, str]:
                result = await server.call_tool(tool, arguments)
                return bool(result.is_error), "".join(part.text for part in result.content)

            await use(server, ask)

    asyncio.run(asyncio.wait_for(main(), 300))


def test_answers(runs: Path) -> None:
    async def use(server: Any, ask: Ask) -> None:
        tools = {tool.name: tool.output_schema for tool in (await server.list_tools()).tools}
        assert tools.keys() == {"list_runs", "digest", "list_reports", "report", "query", "why", "compare"}
        # All but the text for reading have the schema that `occa_prof schema` prints.
        assert {name: (schema or {}).get("$id", "").split(":")[3:4] for name, schema in tools.items()} == {
            name: [schema] if schema else [] for name, schema in TOOLS.items()
        }
        failed, text = await ask("list_runs")
        (found,) = json.loads(text)["runs"]
        run = found["run"]
        assert not failed and Path(run).is_relative_to(runs)
        failed, text = await ask("list_reports")
        assert not failed and "gpu_kern_sum" in {report["name"] for report in json.loads(text)["reports"]}
        failed, text = await ask("report", run=run, name="gpu_kern_sum", rows=1)
        (report,) = json.loads(text)["reports"]
        assert not failed and len(report["rows"]) == 1
        failed, text = await ask(
            "query", run=run, sql="SELECT count(*) AS n FROM activities WHERE kind = 'kernel' -- all;"
        )
        assert not failed and json.loads(text)["reports"][0]["rows"][0]["n"] == 20
        failed, text = await ask("query", run=run, sql="SELECT * FROM range(5000)", rows=5000)
        assert not failed and len(json.loads(text)["reports"][0]["rows"]) == 10  # the server's limit
        failed, text = await ask("why", run=run, what_if="kernel:addVectors*0.5")
        assert not failed and "predicted_ns" in text
        failed, text = await ask("compare", before=run, after=run)
        assert not failed and "slower" not in text
        failed, text = await ask("digest", run=run)
        assert not failed and "addVectors" in text

    session(runs, ["--rows", "10"], use)


def test_what_is_refused(runs: Path) -> None:
    """Other folders, statements that write, files, options in names, answers that are too long or take too long."""
    run = next(path.parent for path in runs.rglob("run.json"))
    before = sorted(path.name for path in run.rglob("*"))

    async def use(server: Any, ask: Ask) -> None:
        for tool, arguments, reason in (
            ("report", {"run": "/", "name": "api_sum"}, "no run"),
            ("report", {"run": f"{run.name}/../..", "name": "api_sum"}, "no run"),
            ("report", {"run": run.name, "name": "--output=x"}, "--output=x"),
            ("query", {"run": run.name, "sql": "SELECT 1) TO 'x'; DROP TABLE threads; SELECT (1"}, ""),
            ("query", {"run": run.name, "sql": "SELECT * FROM read_text('/etc/hostname')"}, "/etc/hostname"),
            ("query", {"run": run.name, "sql": "SELECT repeat('x', 1000000)"}, "more than 262,144"),
            ("query", {"run": run.name, "sql": LONG}, "no answer within"),
        ):  # fmt: skip
            failed, text = await ask(tool, **arguments)
            assert failed and reason in text and "Traceback" not in text, (tool, arguments, text)

    session(runs, ["--seconds", "4"], use)
    assert sorted(path.name for path in run.rglob("*") if path.name != ".tables.lock") == [
        name for name in before if name != ".tables.lock"
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [(("nowhere",), "no such folder"), (("--rows", "0"), "at least 1"), ((), "pip install 'occatrace[mcp]'")],
)
def test_one_line(words: Sequence[str], message: str, tmp_path: Path) -> None:
    """Without the package, too: a module of its name that has nothing stands in its place."""
    (tmp_path / "mcp").mkdir()
    (tmp_path / "mcp" / "__init__.py").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "occatrace.cli", "mcp", *words],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.getcwd()}"},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1
