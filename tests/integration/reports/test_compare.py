"""occa_prof compare on real runs, on a machine that has other things to do as well: what is the same is not blamed, what
is twice as slow is found."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from occatrace.cli.dispatch import main
from tests.support.suites.reports import Built, occa_prof

pytestmark = pytest.mark.measures
IDENTICAL, CHANGED, CALLS = 10, 5, 200


@pytest.fixture(scope="module")
def load() -> Iterator[None]:
    """Another process that calculates, on and off."""
    script = "import time\nwhile True:\n e = time.time() + 0.7\n while time.time() < e: pass\n time.sleep(0.5)"
    process = subprocess.Popen([sys.executable, "-c", script])
    yield
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.fixture(scope="module")
def runs(occa_dir: Path, built: Built, tmp_path_factory: pytest.TempPathFactory, load: None) -> dict[str, list[Path]]:
    """Ten runs of one program, and between them five of which work3 calculates twice as long."""
    folder = tmp_path_factory.mktemp("variants")
    env = {"OCCA_DIR": str(occa_dir), "OCCA_CACHE_DIR": str(folder / "cache")}
    program = built("variants")
    subprocess.run([program, "Serial", "1"], env={**os.environ, **env}, check=True)  # builds the kernels
    out: dict[str, list[Path]] = {"same": [], "slower": []}
    for number in range(IDENTICAL + CHANGED):
        kind = "slower" if number % 3 == 1 else "same"
        run = folder / f"{kind}{number}"
        more = [3, 2.0] if kind == "slower" else []
        ran = occa_prof("-q", "-o", run, program, "Serial", CALLS, *more, env=env)
        assert ran.returncode == 0, ran.stderr
        out[kind].append(run)
    assert (len(out["same"]), len(out["slower"])) == (IDENTICAL, CHANGED)
    return out


def compared(*words: object, status: int = 0) -> list[dict[str, Any]]:
    """The rows of a comparison; in this process, which starts faster."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["compare", *map(str, words), "--format", "json"]) == status
    (report,) = json.loads(out.getvalue())["reports"]
    rows: list[dict[str, Any]] = report["rows"]
    return rows


def told(rows: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The names that are called slower or faster, with every such verdict."""
    out: dict[str, list[str]] = {}
    for row in rows:
        found = [v for c, v in row.items() if c.startswith("verdict") and v.endswith(("slower", "faster"))]
        if found and row["kind"] != "total":
            out[row["name"]] = found
    return out


def test_a_run_with_itself_says_no_difference(runs: dict[str, list[Path]]) -> None:
    run = runs["same"][0]
    found = compared(run, run, "--fail-above", "0%")
    assert {r["verdict_2"] for r in found} == {"no difference", "too few calls to tell", ""}
    assert {r["ratio_2"] for r in found} == {1.0}
    assert compared(run, run, "--changed") == []


def test_ten_identical_programs(runs: dict[str, list[Path]]) -> None:
    """Every run against the first, and halves of them against each other."""
    same = runs["same"]
    assert told(compared(*same, "--fail-above", "5%")) == {}
    for halves in ((same[::2], same[1::2]), (same[:5], same[5:])):
        assert told(compared(*(",".join(map(str, half)) for half in halves), "--fail-above", "5%")) == {}


def test_the_kernel_that_is_twice_as_slow(runs: dict[str, list[Path]]) -> None:
    # Each with the one that ran just before it: a machine that becomes faster does so for both.
    same, slower = (",".join(map(str, some)) for some in (runs["same"][::2], runs["slower"]))
    found = compared(same, slower, "--fail-above", "20%", status=1)
    assert set(told(found)) == {"work3"} and told(found)["work3"][0].endswith("slower"), told(found)
    (row,) = [r for r in found if r["name"] == "work3"]
    assert row["ratio_2"] == pytest.approx(2, rel=0.35) and row["calls_1"] == row["calls_2"] == CALLS
    assert {r["name"] for r in compared(same, slower, "--changed", "--only", "kernels") if r["kind"] != "total"} == {
        "work3"
    }
    # Of single runs on a busy machine nobody can say as much, but nobody else is blamed.
    for a, b in zip(runs["same"][:3], runs["slower"], strict=False):
        assert set(told(compared(a, b))) <= {"work3"}
