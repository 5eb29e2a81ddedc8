"""Nodes of a job, as they stand in the run folder: RUN/nodes/<host>.json and their tables. Nothing here starts or waits."""

from __future__ import annotations

import contextlib
import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from occatrace.core import checked, files
from occatrace.run import folder as runs


def host_name() -> str:
    """The name of this node: that of OCCATRACE_HOST, where nodes have one host name (containers), else the machine's."""
    return os.environ.get("OCCATRACE_HOST") or os.uname().nodename


@dataclass
class RankState:
    """What became of a rank."""

    rank: int
    host: str
    pid: int = 0
    state: str = "running"  # ended; lost: its occa_prof was killed
    status: int | None = None  # as a shell gives it
    signal: int | None = None


@dataclass
class NodeState:
    """What a node tells the others, in RUN/nodes/<host>.json; told again now and then as a sign of life."""

    host: str
    ranks: list[RankState] = field(default_factory=list)
    done: bool = False
    notes: list[str] = field(default_factory=list)
    session: runs.SessionFacts = field(default_factory=runs.SessionFacts)
    processes: list[int] = field(default_factory=list)
    captures: list[tuple[int, int]] | None = None  # when it recorded; None: always

    def write(self, run: Path) -> None:
        """Never half a file."""
        folder = run / "nodes"
        folder.mkdir(mode=0o700, exist_ok=True)
        data = vars(self) | {"ranks": [vars(r) for r in self.ranks]}
        files.replace(folder / f"{_file_name(self.host)}.json", json.dumps(data).encode())


def _file_name(host: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", host) or "node"


def node_tables(run: Path, host: str) -> Path:
    """Where a node puts the tables of its own ranks."""
    return run / "nodes" / _file_name(host)


def read_nodes(run: Path) -> list[NodeState]:
    """What the nodes have told so far."""
    out = []
    for file in sorted((run / "nodes").glob("*.json")):
        with contextlib.suppress(OSError, checked.Damaged):  # one that says nothing is treated as silent
            out.append(checked.load(NodeState, file))
    return out


def claim_merge(run: Path) -> bool:
    """Whether it falls to us to merge; one node gets a yes."""
    try:
        os.close(os.open(run / "nodes" / ".merging", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError:
        return False
    return True


def remarks(states: list[RankState], expected: frozenset[int] | None) -> list[str]:
    """What is to be said of ranks that did not end well, a line for each matter."""
    out = []
    missing = sorted((expected or frozenset()) - {s.rank for s in states})
    if missing:
        out.append(f"incomplete: {some(missing)} did not come")
    groups: dict[str, list[int]] = {}
    for s in sorted(states, key=lambda s: s.rank):
        if s.state == "lost":
            groups.setdefault("cut off: occa_prof was killed there, with what the launcher ended", []).append(s.rank)
        elif s.state == "running":
            groups.setdefault("incomplete: still running when the report was made", []).append(s.rank)
        elif s.signal:
            groups.setdefault(f"ended by signal {s.signal}", []).append(s.rank)
        elif s.status:
            groups.setdefault(f"exited with status {s.status}", []).append(s.rank)
    for what, numbers in groups.items():
        out.append(f"{some(numbers)} {what}" if "incomplete" not in what else f"{what}: {some(numbers)}")
    return out


def some(numbers: list[int]) -> str:
    """`rank 3`, `ranks 0-3, 8`."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][-1] + 1:
            runs[-1][1:] = [n]
        else:
            runs.append([n])
    shown = [f"{r[0]}-{r[-1]}" if len(r) > 1 else str(r[0]) for r in runs]
    text = ", ".join(shown[:8]) + (" …" if len(shown) > 8 else "")
    return f"rank{'s' if len(numbers) > 1 else ''} {text}"
