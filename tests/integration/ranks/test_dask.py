"""`report --engine dask` on a real cluster of two workers: the numbers of DuckDB."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from occatrace import reports
from occatrace.reports import partial
from occatrace.store.tables import open_store
from tests.support.fake import MODEL, FakeTrace, run_folder
from tests.support.suites.session import OCCA_PROF, environment

from ...unit.test_partial import job as fake_job
from ...unit.test_partial import same

distributed = pytest.importorskip("distributed", reason="Dask is not installed")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve ranks with kernels and calls, and run.json."""
    folder = tmp_path_factory.mktemp("dask")
    fake_job(folder / "job", list(range(12)), 12).close()
    path = folder / "job" / "run"
    (path / "run.json").write_text(json.dumps({"schema": 1, "program": ["a.out"], "ended": "now"}))
    return path


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    ) as made:
        _workers(made)  # from the first question on, the scheduler remembers
        yield made


def made_by(run: Path, *options: str) -> dict[str, Any]:
    command = [*OCCA_PROF, "report", str(run), "--format", "json", *options]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True, timeout=300)
    return {report["name"]: report for report in json.loads(done.stdout)["reports"]}


def test_the_numbers_of_duckdb(run: Path, cluster: Any) -> None:
    names = [word for name in partial.NAMES for word in ("--report", name)]
    by_dask = made_by(run, "--engine", "dask", "--scheduler", cluster.scheduler_address, *names)
    assert len(_workers(cluster)) == 2, "both workers worked"
    with open_store(run, model=MODEL) as store:
        for name in partial.NAMES:
            expected = reports.make(store, name)
            found = by_dask[name]["rows"]
            columns = [c.name for c in expected.columns]
            assert len(found) == len(expected.rows)
            same([tuple(row[name] for name in columns) for row in found], list(expected.rows))
        assert len(reports.make(store, "occa_kern_sum").rows) == 2


def test_a_run_without_ranks(tmp_path: Path) -> None:
    """What a rank would have, the least and the most of all, is nothing there."""
    trace = FakeTrace()
    trace.process(7).call("opencl:clFinish", 100, 350)
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=trace.open) as store:
        run = store.run
    (run / "run.json").write_text(json.dumps({"schema": 1, "program": ["a.out"], "ended": "now"}))
    rows = made_by(run, "--engine", "dask")["api_sum"]["rows"]
    assert [(row["name"], row["calls"], row["total_ns"]) for row in rows] == [("clFinish", 1, 250)]


def _workers(cluster: Any) -> set[str]:
    """Workers that have run tasks, as the scheduler says."""
    with distributed.Client(cluster, set_as_default=False) as client:
        return {entry["worker"] for entry in client.get_task_stream()}


def test_workers_of_its_own(run: Path) -> None:
    mine = made_by(run, "--engine", "dask")
    duckdb = made_by(run)
    assert {"occa_kern_sum", "api_sum", "rank_balance"} <= mine.keys() <= duckdb.keys()
    assert mine["occa_kern_sum"]["rows"][0]["calls"] == duckdb["occa_kern_sum"]["rows"][0]["calls"]
    assert sorted(p.name for p in run.iterdir() if "scratch" in p.name) == []


@pytest.mark.parametrize(
    "options, said",
    [
        (["--engine", "dask", "--report", "hist"], "hist is not made by Dask; it makes"),
        (["--engine", "dask", "--by", "rank"], "leave out"),
        (["--scheduler", "127.0.0.1:1"], "no Dask scheduler answers at"),
    ],
)
def test_bad_input(run: Path, options: list[str], said: str) -> None:
    done = subprocess.run(
        [*OCCA_PROF, "report", str(run), *options], capture_output=True, text=True, env=environment(), timeout=300
    )
    assert done.returncode == 2
    assert said in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
