"""Host time by nesting: which calls were inside which, over all threads of a process. Calls → stacks with their own time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TextIO

from occatrace.tables import Store
from occatrace.timeline.selection import THREAD, Options, Selection
from occatrace.timeline.writer import plain


@dataclass
class Stacks:
    """The stacks of one process, as a tree in lists: a node's parent comes before it. Times in ns, without the callees'."""

    name: str
    names: list[str] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)  # -1: outermost
    times: list[int] = field(default_factory=list)
    _nodes: dict[tuple[int, str], int] = field(default_factory=dict)

    def node(self, parent: int, name: str) -> int:
        """The number of a stack."""
        number = self._nodes.setdefault((parent, name), len(self.names))
        if number == len(self.names):
            self.names.append(name)
            self.parents.append(parent)
            self.times.append(0)
        return number

    def rows(self) -> Iterator[tuple[list[str], int]]:
        """Every stack that took time itself, outermost call first."""
        for number, time in enumerate(self.times):
            if time > 0:
                stack = []
                while number >= 0:
                    stack.append(self.names[number])
                    number = self.parents[number]
                yield stack[::-1], time


def stacks(store: Store, options: Options) -> list[Stacks]:
    """The stacks of each process of a run."""
    processes = dict(
        store.con.execute("SELECT process, regexp_extract(exe, '[^/]*$') || ' ' || pid FROM processes").fetchall()
    )
    owners = dict(store.con.execute("SELECT thread, process FROM threads").fetchall())
    found: dict[int, Stacks] = {}
    selection = Selection(store, options)
    try:
        current, open_calls = -1, list[tuple[int, int]]()  # end and stack of the calls that are open
        for rows, _ in selection.slices():
            columns = (plain(rows[name]).tolist() for name in ("kind", "track", "start_ns", "end_ns", "name"))
            for kind, thread, start, end, name in zip(*columns, strict=True):
                if kind != THREAD:
                    break  # the threads come first
                if thread != current:
                    current, open_calls = thread, []
                process = owners[thread]
                if process not in found:
                    found[process] = Stacks(processes[process])
                tree = found[process]
                while open_calls and open_calls[-1][0] <= start:
                    open_calls.pop()
                parent = open_calls[-1][1] if open_calls else -1
                node = tree.node(parent, selection.texts[name])
                tree.times[node] += end - start
                if parent >= 0:
                    tree.times[parent] -= min(end, open_calls[-1][0]) - start
                open_calls.append((end, node))
    finally:
        selection.close()
    return [found[process] for process in sorted(found)]


def folded(found: Sequence[Stacks], out: TextIO) -> None:
    """A line per stack, `process;outer;inner ns`, as flamegraph.pl and its kin read it."""
    for tree in found:
        for stack, time in tree.rows():
            out.write(
                ";".join(text.replace(";", ",").replace("\n", " ") for text in (tree.name, *stack)) + f" {time}\n"
            )


def speedscope(found: Sequence[Stacks], out: TextIO) -> None:
    """For https://www.speedscope.app, which reads it without sending it anywhere."""
    frames: dict[str, int] = {}
    profiles = []
    for tree in found:
        rows = list(tree.rows())
        samples = [[frames.setdefault(name, len(frames)) for name in stack] for stack, _ in rows]
        weights = [time for _, time in rows]
        profiles.append(
            {"type": "sampled", "name": tree.name, "unit": "nanoseconds", "startValue": 0, "endValue": sum(weights),
             "samples": samples, "weights": weights}
        )  # fmt: skip
    content = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": "occatrace",
        "shared": {"frames": [{"name": name} for name in frames]},
        "profiles": profiles,
    }
    json.dump(content, out, ensure_ascii=False)
    out.write("\n")
