"""Live quantities of any program at its end, beside the tables of its run: they count the same."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.support.runs import ROOT, Run


def counting(folder: Path) -> Mapping[str, str]:
    """The environment in which a program leaves its live quantities in the folder."""
    library = folder / "at_end.so"
    source = ROOT / "tests" / "programs" / "live" / "at_end.c"
    subprocess.run(["gcc", "-shared", "-fPIC", f"-I{ROOT / 'include'}", source, "-o", library], check=True)
    return {"LD_PRELOAD": str(library), "LIVE_FILE": str(folder / "live.jsonl"), "OCCATRACE_LIVE": "1"}


def check(run: Run, folder: Path) -> None:
    """What was counted is what the run's tables say: work by kind, kernels by name, memory that is left."""
    assert run.status == 0, run.stderr
    found: dict[str, set[tuple[object, ...]]] = {"work": set(), "kernel": set(), "memory": set()}
    for line in (folder / "live.jsonl").read_text().splitlines():
        what, *values = json.loads(line)
        found[what].add(tuple(values))
    work = run.sql("SELECT kind, count(*), sum(end_ns - start_ns), sum(coalesce(bytes, 0)) FROM activities GROUP BY 1")
    assert work and found["work"] == set(work)
    kernels = run.sql("SELECT name, count(*), sum(end_ns - start_ns) FROM activities WHERE kind = 'kernel' GROUP BY 1")
    assert found["kernel"] == set(kernels)
    memory = run.sql(
        "SELECT api, kind, coalesce(sum(bytes) FILTER (WHERE end_ns IS NULL), 0), count(*) FILTER (WHERE end_ns IS NULL)"
        " FROM allocations WHERE kind NOT IN ('slice', 'wrapped') GROUP BY 1, 2"
    )
    assert found["memory"] == set(memory)
