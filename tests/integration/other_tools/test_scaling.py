"""Extra-P and Thicket read what we write: sums are those of our reports. They need other versions of numpy and pandas than we do,
so they are in an environment of their own, made at the first use; only `tools/test --all` runs this."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from occatrace import reports
from occatrace.store.tables import Store, open_store
from occatrace.views.export import export, export_scaling
from tests.support.fake import MODEL, demo_trace, recorded

# Extra-P without its window, which brings Qt.
PACKAGES = (
    "llnl-thicket==2026.1.1",
    "matplotlib~=3.6",
    "pycubexr>=1.2.3,<3",
    "marshmallow~=3.7",
    "scikit-learn>=1.2",
    "numpy<2",
)
READ = """
import json, sys
from extrap.fileio.file_reader.jsonlines_file_reader import read_jsonlines_file
from extrap.modelers.model_generator import ModelGenerator
experiment = read_jsonlines_file(sys.argv[1])
generator = ModelGenerator(experiment)
generator.model_all()
values = [[path.name, metric.name, [(list(m.coordinate), m.mean) for m in each]]
          for (path, metric), each in experiment.measurements.items()]
models = {f"{path.name} {metric.name}": str(model.hypothesis.function) for (path, metric), model in generator.models.items()}
import thicket
frame = thicket.Thicket.from_literal(json.load(open(sys.argv[2]))).dataframe
launches = frame[frame["name"] == "clEnqueueNDRangeKernel"]
totals = {"time": int(launches["time (inc)"].sum()), "calls": int(launches["calls"].sum())}
print("\\n" + json.dumps({"values": values, "models": models} | totals))
"""


@pytest.fixture(scope="session")
def python() -> Path:
    """The interpreter of an environment with both."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "occatrace" / "other-tools"
    there = base / "bin" / "python"
    if not (base / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", base], check=True)
        for words in (PACKAGES, ("--no-deps", "extrap==4.2.5")):
            command = [there, "-m", "pip", "install", "-q", *words]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                pytest.skip(f"pip cannot install {' '.join(words)}: {done.stderr.strip().splitlines()[-1]}")
        (base / "complete").touch()
    return there


def rows_of(store: Store, name: str) -> dict[str, dict[str, Any]]:
    """The rows of a report by name."""
    report = reports.make(store, name)
    columns = [column.name for column in report.columns]
    rows = (dict(zip(columns, row, strict=True)) for row in report.rows)
    return {row["name"]: row for row in rows}


def test_extrap_and_thicket(python: Path, tmp_path: Path) -> None:
    run = recorded(tmp_path, demo_trace())
    with open_store(run, model=MODEL) as store:
        kernels, calls = (rows_of(store, name) for name in ("gpu_kern_sum", "api_sum"))
    sizes = (1, 2, 4, 8, 16)
    export_scaling([(run, {"n": n}) for n in sizes], tmp_path / "x.jsonl", str)
    export(run, tmp_path / "h.json", "hatchet")
    done = subprocess.run(
        [python, "-c", READ, tmp_path / "x.jsonl", tmp_path / "h.json"], capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    launch = "clEnqueueNDRangeKernel"
    assert (found["time"], found["calls"]) == (calls[launch]["total_ns"], calls[launch]["calls"])
    device = 0
    for path, metric, values in found["values"]:
        assert [at for (at,), _ in values] == list(sizes)
        assert len({mean for _, mean in values}) == 1
        device += values[0][1] if metric == "device time" and path.endswith(tuple(kernels)) else 0
    assert device == sum(row["total_ns"] for row in kernels.values())
    assert found["models"][f"app->addVectors->{launch} visits"] == "20.0"
