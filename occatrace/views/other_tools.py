"""Runs in the formats of other tools: Hatchet's literal trees, and CSV with the names of files and columns of nsys stats."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from occatrace import reports
from occatrace.errors import StoreError
from occatrace.store.tables import Store
from occatrace.views import flamegraph

# Report of nsys stats: ours, and of each of its columns the column of ours.
_TIMES = {
    "Time (%)": "share",
    "Total Time (ns)": "total_ns",
    "{}": "calls",
    "Avg (ns)": "avg_ns",
    "Med (ns)": "med_ns",
    "Min (ns)": "min_ns",
    "Max (ns)": "max_ns",
    "StdDev (ns)": "stddev_ns",
}
NSYS: Mapping[str, tuple[str, str, Mapping[str, str]]] = {
    "cuda_gpu_kern_sum": ("gpu_kern_sum", "Instances", {"Name": "name"}),
    "cuda_gpu_mem_time_sum": ("gpu_mem_time_sum", "Count", {"Operation": "name"}),
    "cuda_api_sum": ("api_sum", "Num Calls", {"Name": "name"}),
}


def nsys(store: Store, folder: Path) -> list[str]:
    """CSV files as `nsys stats --format csv` writes them; those without rows are left out. Their names."""
    made = []
    for file, (name, count, words) in NSYS.items():
        report = reports.make(store, name)
        columns = {title.format(count): column for title, column in {**_TIMES, **words}.items()}
        at = [column.name for column in report.columns]
        rows = [[row[at.index(column)] for column in columns.values()] for row in report.rows]
        if rows:
            with (folder / f"{file}.csv").open("w", encoding="utf-8", newline="") as out:
                csv.writer(out, lineterminator="\n").writerows([list(columns), *rows])
            made.append(file)
    return made


def hatchet(store: Store, file: Path) -> int:
    """The stacks of the run as a literal for `hatchet.GraphFrame.from_literal`; how many there are."""
    found = flamegraph.stacks(store)
    roots = [_tree(stacks) for stacks in found]
    file.write_text(json.dumps(roots, ensure_ascii=False) + "\n", encoding="utf-8")
    return sum(len(stacks.names) for stacks in found)


# Weights of stacks and their names for Extra-P, in ns and bytes.
_METRICS = {"time": "time", "device-time": "device time", "bytes": "bytes moved", "memory": "memory allocated"}


@dataclass(frozen=True)
class Measured:
    """A run for Extra-P: sums over its processes by call path and metric, without callees, and how many ranks, or else processes."""

    processes: int
    values: Mapping[tuple[str, str], int]


def measured(store: Store) -> Measured:
    """What Extra-P gets of a run. Paths have no ids of processes, so that those of several runs are the same."""
    found = flamegraph.stacks(store)
    sums: dict[tuple[str, str], int] = {}
    for stacks in found:
        program = _in_path(stacks.name.rpartition(" ")[0] or stacks.name)
        paths: list[str] = []
        for number, (name, parent) in enumerate(zip(stacks.names, stacks.parents, strict=True)):
            path = f"{paths[parent] if parent >= 0 else program}->{_in_path(name)}"
            paths.append(path)
            for weight, metric in _METRICS.items():
                sums[path, metric] = sums.get((path, metric), 0) + stacks.weights[weight][number]
            sums[path, "visits"] = sums.get((path, "visits"), 0) + stacks.calls[number]
    return Measured(store.ranks or len(found), sums)


def extrap(runs: Sequence[tuple[Mapping[str, float], Measured]], file: Path) -> None:
    """Runs, each with the values of its parameters, as JSON lines for `extrap --json` (Extra-P 4, docs/file-formats.md there).

    Each path and metric has a value in all runs, 0 where a run does not have it: Extra-P refuses a file with gaps. Metrics that are
    0 everywhere are left out. Raises a StoreError where nothing is left.
    """
    keys = dict.fromkeys(key for _, run in runs for key in run.values)
    used = {metric for _, run in runs for (_, metric), value in run.values.items() if value}
    lines = [
        json.dumps({"params": params, "callpath": path, "metric": metric, "value": run.values.get((path, metric), 0)})
        for path, metric in keys
        if metric in used
        for params, run in runs
    ]
    if not lines:
        raise StoreError("nothing to write: no calls or ranges were recorded")
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _in_path(name: str) -> str:
    """A frame within a call path: the arrow separates them."""
    return name.replace("->", "- >").replace("\n", " ")


def _tree(stacks: flamegraph.Stacks) -> dict[str, Any]:
    """The stacks of a process: times in ns, memory in bytes."""
    own = stacks.weights["time"]
    whole = list(own)
    for number in range(len(whole) - 1, -1, -1):  # a parent comes before its children
        if stacks.parents[number] >= 0:
            whole[stacks.parents[number]] += whole[number]
    nodes = [
        _node(name, category, own[at], whole[at], stacks.weights["memory"][at], stacks.calls[at])
        for at, (name, category) in enumerate(zip(stacks.names, stacks.categories, strict=True))
    ]
    outer = [at for at, parent in enumerate(stacks.parents) if parent < 0]
    root = _node(stacks.name, "process", 0, sum(whole[at] for at in outer), 0, 1)
    for at, parent in enumerate(stacks.parents):
        _children(nodes[parent] if parent >= 0 else root).append(nodes[at])
    return root


def _children(node: dict[str, Any]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = node.setdefault("children", [])
    return out


def _node(name: str, category: str, own: int, whole: int, memory: int, calls: int) -> dict[str, Any]:
    metrics: dict[str, int] = {"time": own, "time (inc)": whole, "memory": memory, "calls": calls}
    return {"frame": {"name": name, "type": category or "function"}, "metrics": metrics}
