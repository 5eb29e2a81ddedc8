"""Files of rocprofv3 as runs: two processes in one file, each with its own tables."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import occatrace
from occatrace.cli.dispatch import main
from tests.support.foreign import ROCPD, database, rocpd, run_of


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was made of the usual file."""
    return run_of(rocpd(tmp_path_factory.mktemp("rocpd") / "app.db"))


def test_content(imported: Path) -> None:
    with occatrace.open(imported) as run:
        rows = run.sql("SELECT pid, ppid, exe, cmdline, host, rank, size FROM processes ORDER BY rank").fetchall()
        assert rows == [(500 + rank, 10, "./app", "./app -n 3", "mi300", rank, 2) for rank in (0, 1)]
        (kernel,) = run.report("gpu_kern_sum")
        assert (kernel["calls"], kernel["total_ns"], kernel["device"]) == (2, 40_000, "AMD Instinct MI300X")
        devices = list(run.report("gpu_kern_sum", by="device"))
        assert [(row["calls"], row["total_ns"]) for row in devices] == [(1, 20_000)] * 2
        work = run.sql("SELECT DISTINCT kind, a.name, gx, gy, lx, bytes, q.id, d.name FROM activities a JOIN queues q USING (queue)"
                       " JOIN devices d ON d.device = a.device ORDER BY 1").fetchall()  # fmt: skip
        assert work == [
            ("DtoH", "DtoH", 0, 0, 0, 1024, 3, "AMD Instinct MI300X"),
            ("HtoD", "HtoD", 0, 0, 0, 4096, 3, "AMD Instinct MI300X"),
            ("kernel", "_Z5scalePfi", 640, 2, 64, 0, 3, "AMD Instinct MI300X"),
        ]
        calls = {row["name"]: (row["api"], row["calls"], row["total_ns"]) for row in run.report("api_sum")}
        assert calls == {
            "hipMalloc": ("hip", 2, 4_000),
            "hipMemcpyAsync": ("hip", 4, 8_000),
            "hipLaunchKernel": ("hip", 2, 4_000),
            "hipStreamSynchronize": ("hip", 2, 4_000),
            "hsa_queue_create": ("hsa", 2, 4_000),
        }
        (launch,) = run.report("kern_exec_sum")
        assert (launch["function"], launch["calls"], launch["kernel_ns"]) == ("hipLaunchKernel", 2, 40_000)
        (step,) = run.report("range_gpu_proj_sum")
        assert (step["name"], step["domain"], step["kernels"], step["copies"], step["bytes"]) == (
            "step",
            "ROCTX",
            2,
            4,
            2 * 5120,
        )
        memory = [
            (row["kind"], row["high_water_bytes"], row["in_use_bytes"], row["api"]) for row in run.report("mem_usage")
        ]
        assert memory == [("device", 16384, 0, "hip")]
        assert run.sql("SELECT DISTINCT name, unit, value FROM counters").fetchall() == [("SQ_WAVES", "waves", 128.5)]
        assert run.losses.notes == [
            "not imported: 2 rows of rocpd_memory_allocate (virtual, scratch, reclaimed)",
            "not imported: rocpd_sampling",
        ]


def test_a_kernel_without_its_symbol_has_its_number(tmp_path: Path) -> None:
    file = rocpd(tmp_path / "app.db")
    with sqlite3.connect(file) as db:
        db.execute("DELETE FROM rocpd_info_kernel_symbol_00001a4d_3b2f")
    with occatrace.open(run_of(file)) as run:
        assert {row["name"]: row["calls"] for row in run.report("gpu_kern_sum")} == {"_Z5scalePfi": 1, "kernel 4": 1}
        assert "the file lacks the names of 1 kernel: named by number (kernel 4)" in run.losses.notes


def test_other_commands(imported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("timeline", "-o", tmp_path / "t.pftrace"), ("trace",)):
        assert main([words[0], str(imported), *map(str, words[1:])]) == 0
    assert "hsa_queue_create()" in capsys.readouterr().out


def test_bad_files_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def say(path: Path) -> str:
        assert main(["import", str(path), "-o", str(tmp_path / "run")]) == 2 and not (tmp_path / "run").exists()
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        return err

    assert "one of rocpd_region" in say(database(tmp_path / "a", {"rocpd_string": ROCPD["rocpd_string"]}, {}))
    some = {name: ROCPD[name] for name in ("rocpd_string", "rocpd_region")}
    assert "without the table rocpd_info_process" in say(database(tmp_path / "b", some, {}))
    newer = {**ROCPD, "rocpd_region": "id INTEGER, track_id INTEGER, start_id INTEGER, pid, tid"}
    assert "rocpd_region has no column start" in say(database(tmp_path / "c", newer, {}))
    assert "no calls, no device work" in say(database(tmp_path / "d", ROCPD, {}))
    db = sqlite3.connect(rocpd(tmp_path / "e", 1))
    db.execute("UPDATE rocpd_memory_copy_00000a4d_3b2f SET size = -3")
    db.commit()
    assert "size is -3" in say(tmp_path / "e")
