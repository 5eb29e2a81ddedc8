"""The emit core by itself: what a program hands to it is in the run, whatever way the program ends or multiplies."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

import occatrace
from occatrace._native import Reader
from occatrace.core import events
from occatrace.store.tables import open_store
from tests.support.generated import headers

ROOT = Path(__file__).resolve().parents[3]
LIB = Path(occatrace.__file__).parent / "lib"


def compiled(name: str, folder: Path) -> Path:
    program = folder / name
    command: list[str | Path] = [
        "gcc",
        "-O1",
        "-Wall",
        "-Werror",
        "-o",
        program,
        ROOT / f"tests/programs/core/{name}.c",
    ]
    command += [
        f"-I{ROOT / 'native/emit'}",
        f"-I{headers()}",
        f"-L{LIB}",
        "-loccatrace",
        "-lpthread",
        f"-Wl,-rpath,{LIB}",
    ]
    subprocess.run(command, check=True)
    return program


@pytest.fixture(scope="session")
def emit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled("emit", tmp_path_factory.mktemp("core"))


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled("forks", tmp_path_factory.mktemp("core"))


def record(emit: Path, run: Path, way: str) -> int:
    command = [sys.executable, "-m", "occatrace.cli", "-o", str(run), str(emit), way]
    return subprocess.run(command, capture_output=True, timeout=300).returncode


def query(run: Path, sql: str) -> list[tuple[Any, ...]]:
    with open_store(run) as store:
        con: duckdb.DuckDBPyConnection = store.con
        return con.execute(sql).fetchall()


@pytest.mark.parametrize(
    ("way", "status", "ends", "tallied"),
    [
        ("exit", 0, ["exit"], 100),
        ("_exit", 3, ["_exit"], 100),
        ("abort", 134, ["abort"], 100),
        ("exec", 0, ["exec"], 100),
        ("kill", 137, [None], 0),  # nobody can write then; what had been written is there
        ("fork", 0, ["exit", "exit"], 120),
        ("threads", 0, ["exit"], 100 + 64 * 50),
        ("close-all", 0, ["exit"], 200),
    ],
)
def test_all_that_was_emitted_is_there(
    emit: Path, tmp_path: Path, way: str, status: int, ends: list[str | None], tallied: int
) -> None:
    run = tmp_path / "run"
    assert record(emit, run, way) == status
    assert query(run, "SELECT count(*) FROM activities WHERE name = 'work'") == [(max(tallied, 100),)]
    assert query(run, "SELECT coalesce(sum(calls), 0) FROM call_stats WHERE api = 'test' AND function = 'work'") == [
        (tallied,)
    ]
    # Every tenth call of each round failed.
    assert query(run, "SELECT coalesce(sum(failed), 0) FROM call_stats WHERE api = 'test'") == [(tallied // 10,)]
    assert [row[0] for row in query(run, "SELECT exit FROM processes ORDER BY process")] == ends
    assert len(json.loads((run / "run.json").read_text())["processes"]) == len(ends)


@pytest.mark.parametrize(
    "way", ["idle", "tracing", "nested", "threads", "closed", "late-threads", "beside", "starting", "handler"]
)
def test_a_child_of_fork_becomes_a_process_of_the_run_with_its_first_record(
    forks: Path, tmp_path: Path, way: str
) -> None:
    """Whoever records nothing is none; whoever does has all of it, whatever other threads and signals do meanwhile. What a
    child inherits and must not have (connections, blocked signals, LTTng's threads) the program checks itself."""
    run = tmp_path / "run"
    command = [sys.executable, "-m", "occatrace.cli", "-q", "-o", str(run), str(forks), way]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    pieces, processes = map(int, done.stdout.split())
    assert query(run, "SELECT count(*) FROM activities WHERE name = 'work'") == [(pieces,)]
    assert query(run, "SELECT sum(calls) FROM call_stats WHERE api = 'test' AND function = 'work'") == [(pieces,)]
    assert query(run, "SELECT count(*), count(DISTINCT pid), count(exit) FROM processes") == [(processes,) * 3]
    facts = json.loads((run / "run.json").read_text())
    assert len(facts["processes"]) == processes
    assert facts["notes"] == []


def test_long_and_odd_texts_come_through(emit: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert record(emit, run, "long-name") == 0
    texts = [row[0] for row in query(run, "SELECT text FROM names ORDER BY length(text)")]
    assert texts[-1] == "x" * 512 * 1024
    assert "quotes \" ' , ; \n \t \x01 é" in texts


def test_tallied_times_are_exact(emit: Path, tmp_path: Path) -> None:
    """The program tallies 100, 101 … 199 ticks: sum, bounds and median are known."""
    run = tmp_path / "run"
    assert record(emit, run, "exit") == 0
    calls, total, least, most = query(run, "SELECT calls, total_ns, min_ns, max_ns FROM call_stats WHERE api = 'test'")[
        0
    ]
    ns_per_tick = total / sum(range(100, 200))
    assert calls == 100
    assert 0.2 < ns_per_tick < 50  # 5 GHz … 20 MHz
    assert least == pytest.approx(100 * ns_per_tick, abs=1)
    assert most == pytest.approx(199 * ns_per_tick, abs=1)
    [(median,)] = query(
        run,
        "SELECT quantile_disc(value_ns, 0.5) FROM (SELECT unnest([value_ns]) AS value_ns, calls FROM call_hist "
        "WHERE api = 'test'), range(calls::BIGINT)",
    )
    assert median == pytest.approx(150 * ns_per_tick, rel=0.02)


@pytest.mark.parametrize("mode", events.MODES)
def test_a_mode_declares_the_events_that_it_writes(tmp_path: Path, mode: str) -> None:
    """A process that loads every provider: the trace knows the events that the mode writes, and no others."""
    model = json.loads((LIB.parent / "_model.json").read_text(encoding="utf-8"))["apis"]
    load = "import ctypes; load = ctypes.CDLL(None).occatrace_load_provider; load.restype = ctypes.c_void_p"
    libraries = [name.encode() for name, api in model.items() if name == api["library"]]
    program = [sys.executable, "-c", f"{load}; assert all(map(load, {libraries}))"]
    command = [sys.executable, "-m", "occatrace.cli", "-q", "-m", mode, "-o", str(tmp_path / "run"), *program]
    subprocess.run(command, check=True, timeout=300)
    expected = set()
    for api in model.values():
        written = set(api["records"]) | ({"call"} if api.get("on_request") else set())
        for name, function in api["functions"].items():
            if function["level"][mode] == "event":
                written |= {name, f"{name}_begin"} if function["blocking"] else {name}
        expected |= {f"{api['provider']}:{name}" for name in written}
    with Reader(tmp_path / "run" / "trace") as reader:
        assert sum(map(len, reader)) > 0
        assert set(reader.schema) == expected
