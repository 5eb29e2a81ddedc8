"""Samples as they stand in a file → the table `counters` and its report; by hand, number for number."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import duckdb
import pytest

from occatrace import reports
from occatrace.core.schema import BY_NAME
from occatrace.ingest import samples
from occatrace.record import sysman
from occatrace.record.sampling import Sampler, Sampling
from tests.support.runs import PATIENCE, ROOT

MIB = 1 << 20


def read(folder: Path, lines: Sequence[str], devices: Sequence[str] = ()) -> duckdb.DuckDBPyConnection:
    """The samples of host `n0`: process 1 (pid 7) becomes process 2 at 1000 by an exec; process 3 (pid 8) has the devices.
    Of another host is process 4, with pid 7."""
    (folder / "samples").mkdir()
    (folder / "samples/n0.tsv").write_text("".join(f"{line}\n" for line in lines[:-1]) + lines[-1])
    con = duckdb.connect()
    for table in BY_NAME.values():
        con.execute(f"CREATE TABLE {table.name} ({table.ddl()})")
    for row in ((1, 7, 100, "n0", None), (2, 7, 1000, "n0", None), (3, 8, 100, "n0", 5), (4, 7, 900, "n1", None)):
        con.execute(
            "INSERT INTO processes (process, pid, start_ns, trace, rank, exe) VALUES (?, ?, ?, ?, ?, '/b/x')", row
        )
    for number, name in enumerate(devices, 1):
        con.execute("INSERT INTO devices (device, process, name) VALUES (?, 3, ?)", [number, name])
    samples.read(con, folder, "n0")
    return con


def line(time_ns: int, name: str, unit: str, value: float, pid: int = 0, number: int = 0, device: str = "") -> str:
    return f"{time_ns}\t{pid}\t{number}\t{device}\t{name}\t{unit}\t{value}"


def test_processes(tmp_path: Path) -> None:
    lines = [
        line(t, "RSS", "bytes", v, 7) for t, v in ((50, 10 * MIB), (900, 30 * MIB), (1000, 20 * MIB), (1100, 60 * MIB))
    ]
    # Of 100 ns 50, of 100 ns 150 (two threads), and the last once more; of a single sample nothing is known.
    lines += [line(t, "CPU", "ns", v, 8) for t, v in ((200, 1000), (300, 1050), (400, 1200))]
    lines += [line(500, "CPU", "ns", 3, 7), line(500, "RSS", "bytes", 77, 999), "600\t7\t0\t\tRSS"]
    con = read(tmp_path, lines)
    rows = con.execute(
        "SELECT process, device, name, unit, time_ns, value FROM counters ORDER BY name, time_ns"
    ).fetchall()
    assert rows == [
        (3, None, "CPU", "%", 200, 50), (3, None, "CPU", "%", 300, 150), (3, None, "CPU", "%", 400, 150),
        (1, None, "RSS", "bytes", 50, 10 * MIB), (1, None, "RSS", "bytes", 900, 30 * MIB),
        (2, None, "RSS", "bytes", 1000, 20 * MIB), (2, None, "RSS", "bytes", 1100, 60 * MIB),
    ]  # fmt: skip
    definition = reports.definition("counters")
    found = reports.rows_of(con.execute(definition.sql), definition)
    names = [column.name for column in definition.columns]
    assert [dict(zip(names, row, strict=True)) for row in found] == [
        {"samples": 2, "avg": 10, "min": 10, "max": 30, "last": 30, "span_ns": 850, "unit": "MiB", "process": "x 7",
         "device": "", "name": "RSS"},
        {"samples": 2, "avg": 20, "min": 20, "max": 60, "last": 60, "span_ns": 100, "unit": "MiB", "process": "x 7",
         "device": "", "name": "RSS"},
        {"samples": 3, "avg": 100, "min": 50, "max": 150, "last": 150, "span_ns": 200, "unit": "%",
         "process": "rank 5 x 8", "device": "", "name": "CPU"},
    ]  # fmt: skip


def test_devices_are_those_of_the_program_where_their_names_tell(tmp_path: Path) -> None:
    lines = [line(10, "power", "W", 1.5, device="one"), line(20, "power", "W", 2.5, device="one")]
    lines += [line(10, "power", "W", n, number=n, device="twin") for n in (1, 2)]
    lines += [line(10, "power", "W", 9, number=4, device="unseen")]
    con = read(tmp_path, lines, devices=("twin", "one", "one"))
    rows = con.execute("SELECT process, device, name, time_ns, value FROM counters ORDER BY name, time_ns").fetchall()
    assert rows == [
        (3, 2, "power", 10, 1.5), (3, 2, "power", 20, 2.5), (1, None, "power of twin #1", 10, 1),
        (1, None, "power of twin #2", 10, 2), (1, None, "power of unseen #4", 10, 9),
    ]  # fmt: skip


def test_a_file_without_a_line(tmp_path: Path) -> None:
    assert read(tmp_path, [""]).execute("SELECT count(*) FROM counters").fetchall() == [(0,)]


def amdsmi(**changes: Any) -> ModuleType:
    """Stands in for AMD's library: one device, as some version of it answers."""
    answers: dict[str, Any] = {
        "amdsmi_init": None, "amdsmi_shut_down": None, "amdsmi_get_processor_handles": ["h"],
        "amdsmi_get_gpu_asic_info": {"market_name": "Stand-in  A"}, "amdsmi_get_temp_metric": 55,
        "amdsmi_get_power_info": {"current_socket_power": "N/A", "average_socket_power": 310},
        "amdsmi_get_clock_info": {"clk": 2100}, "amdsmi_get_gpu_activity": {"gfx_activity": "N/A"},
        "amdsmi_get_gpu_memory_usage": 4096, **changes,
    }  # fmt: skip
    module = ModuleType("amdsmi")
    for name, answer in answers.items():
        setattr(module, name, lambda *_, answer=answer: answer)
    for kind in ("AmdSmiClkType", "AmdSmiTemperatureType", "AmdSmiTemperatureMetric", "AmdSmiMemoryType"):
        setattr(module, kind, SimpleNamespace(GFX=1, MEM=2, HOTSPOT=3, CURRENT=4, VRAM=5))
    return module


def sampled(folder: Path, source: str, rows: int) -> tuple[list[str], set[tuple[str, ...]]]:
    """What a source gives until there are so many rows: what it does not measure, and its rows without their time."""
    sampler = Sampler(folder, "n0", Sampling((source,), 0.001, asked=True), lambda: [])
    sampler.start()
    file, end = folder / "samples/n0.tsv", time.monotonic() + PATIENCE
    while not (file.exists() and file.read_text().count("\n") >= rows) and time.monotonic() < end:
        time.sleep(0.01)
    return sampler.stop(), {tuple(row.split("\t")[1:]) for row in file.read_text().splitlines()}


def test_amd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "amdsmi", amdsmi())
    notes, rows = sampled(tmp_path, "amdsmi", 5)
    assert notes == ["not sampled: utilization of Stand-in A #0 (not measured)"]
    assert rows == {
        ("0", "0", "Stand-in A", name, unit, value)
        for name, unit, value in (
            ("power", "W", "310.0"), ("clock", "MHz", "2100.0"), ("memory clock", "MHz", "2100.0"),
            ("temperature", "°C", "55.0"), ("memory used", "bytes", "4096.0"),
        )
    }  # fmt: skip
    assert not any(thread.name == "sampling" for thread in threading.enumerate())


@pytest.mark.compiles
@pytest.mark.parametrize("options", [(), ("-DOLD",)], ids=["zesInit", "zeInit"])
def test_intel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]) -> None:
    """Against a loader built with the vendor's header; devices whose parts only are measured come as sums and means."""
    if not Path("/usr/include/level_zero/zes_api.h").exists():
        pytest.skip("no header of Level Zero: tools/setup --test installs libze-dev")
    library = tmp_path / "libze_loader.so.1"
    source = ROOT / "tests/fakes/sysman/ze_loader.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wall", "-Werror", *options, source, "-o", library], check=True)
    monkeypatch.setattr(sysman, "_LOADER", str(library))
    monkeypatch.setenv("ZES_ENABLE_SYSMAN", "0")
    notes, rows = sampled(tmp_path, "sysman", 20)
    assert sorted(notes) == [
        "not sampled: clock of Stand-in tiles #1 (not measured)", "not sampled: temperature of Stand-in tiles #1 (not measured)"
    ]  # fmt: skip
    rates = [row for row in rows if row[3] in ("power", "utilization")]
    assert rows - set(rates) == {
        ("0", "0", "Stand-in X", "clock", "MHz", "1550.0"), ("0", "0", "Stand-in X", "memory clock", "MHz", "3200.0"),
        ("0", "0", "Stand-in X", "temperature", "°C", "61.0"), ("0", "0", "Stand-in X", "memory used", "bytes", "4096.0"),
        ("0", "1", "Stand-in tiles", "memory clock", "MHz", "3200.0"),
        ("0", "1", "Stand-in tiles", "memory used", "bytes", "12288.0"),
    }  # fmt: skip
    expected = {("0", "power"): 250, ("0", "utilization"): 40, ("1", "power"): 200, ("1", "utilization"): 10}
    assert {(row[1], row[3]) for row in rates} == set(expected)
    for row in rates:
        assert float(row[5]) == pytest.approx(expected[row[1], row[3]], rel=0.2), row


def test_no_level_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysman, "_LOADER", "libze_of_nobody.so.1")
    sampler = Sampler(tmp_path, "n0", Sampling(("sysman",), 0.001, asked=True), lambda: [])
    sampler.start()
    assert sampler.stop() == [
        "--sample sysman: not sampled: there is no libze_of_nobody.so.1 (Level Zero; Debian: libze1)"
    ]
