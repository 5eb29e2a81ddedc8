"""examples/embedding: what the report says of it, and how its variants compare."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import runs
from tests.support.suites.python import EXAMPLE, Profile, Run

STEPS = str(EXAMPLE / "steps.py")


@pytest.fixture
def variants(example: Path, profile: Profile) -> tuple[Run, Run]:
    both = [profile(example / "main_f", way, 60, 3000, python=("functions:steps.*",)) for way in ("view", "copy")]
    assert {run.stdout for run in both} == {"2.000000\n"}
    return both[0], both[1]


def test_cost_of_each_part(variants: tuple[Run, Run]) -> None:
    for run, copies in zip(variants, (False, True), strict=True):
        rows = {row["name"]: row for row in run.report("python_sum") if row["part"] != "interpreter"}
        step, inside = rows["steps.step"], rows["step"]
        parts = [rows["as_array"], rows["work"]] + ([rows["give_back"]] if copies else [])
        assert ("give_back" in rows) == copies
        assert all(row["calls"] == 60 for row in (step, inside, *parts))
        assert step["self_ns"] == step["total_ns"] - inside["total_ns"] >= 0
        assert inside["self_ns"] == inside["total_ns"] - sum(row["total_ns"] for row in parts) >= 0
        assert step["first_ns"] > inside["first_ns"] > 0 and step["source"].startswith(STEPS)
        starts = [row["name"] for row in run.report("python_sum") if row["part"] == "interpreter"]
        assert starts[0].startswith("start of CPython 3.") and "imports by the program" in starts
        assert {"numpy", "steps"} <= {row["name"] for row in run.report("python_import_sum")}


def test_comparison_of_the_variants(variants: tuple[Run, Run]) -> None:
    names = [f"{name}={run.folder}" for name, run in zip(("view", "copy"), variants, strict=True)]
    done = runs.execute([*runs.OCCA_PROF, "compare", *names, "--only", "python", "--format", "markdown"])
    assert done.returncode == 0, done.stderr
    lines = [line.replace("\\", "") for line in done.stdout.splitlines() if line.startswith("|")]
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert {"Name", "view", "copy"} <= set(table[0])
    name, view, copy = (table[0].index(title) for title in ("Name", "view", "copy"))
    rows = {row[name]: row for row in table}
    assert {"start of Python", "imports, all", "steps.step", "as_array", "work", "steps.step (first call)"} <= set(rows)
    assert all(rows[name][place] not in ("", "-") for name in ("as_array", "work") for place in (view, copy))
    assert float(rows["as_array"][table[0].index("Ratio")].replace(",", "")) > 10
    assert rows["give_back"][view] in ("", "-") and "new" in rows["give_back"]


def test_in_c(example: Path, profile: Profile) -> None:
    run = profile(example / "main_c", "view", 5, 100)
    assert run.stdout == "1.937500\n"
    steps = [row for row in run.calls("border") if row["name"] == "steps.step"]
    assert len(steps) == 5 and all(row["source"] == STEPS for row in steps)
