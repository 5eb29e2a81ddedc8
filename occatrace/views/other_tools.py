"""Runs in the formats of other tools: Hatchet's literal trees, and CSV with the names of files and columns of nsys stats."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from occatrace import reports
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
