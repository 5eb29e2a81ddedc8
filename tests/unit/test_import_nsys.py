"""Exports of nsys as runs: every count, duration and byte is what was put in, and what is wrong is one line."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import occatrace
from occatrace.cli.dispatch import main
from occatrace.foreign import assembly
from tests.support.foreign import NSYS, PID, TID, UTC, WORKER, database, nsys, nsys_rows, run_of, tid


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was made of the usual file."""
    return run_of(nsys(tmp_path_factory.mktemp("nsys") / "app.sqlite"))


@pytest.mark.parametrize("rows", [1, 2])
def test_device_work_in_parts(imported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Large files: device work meets its calls part by part, and nothing is left out or there twice."""
    monkeypatch.setattr(assembly, "WORK_ROWS", rows)
    parts = run_of(nsys(tmp_path / "app.sqlite"))
    query = "SELECT * FROM activities ORDER BY start_ns, end_ns, name"
    with occatrace.open(imported) as whole, occatrace.open(parts) as run:
        rows_of = [opened.sql(query).fetchall() for opened in (whole, run)]
    assert rows_of[0] == rows_of[1] and len(rows_of[0]) > 2 * rows


def test_facts(imported: Path) -> None:
    facts = json.loads((imported / "run.json").read_text())
    file = imported.parent / "app.sqlite"
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert facts["imported"] == {
        **{"format": "nsys", "file": "app.sqlite", "bytes": file.stat().st_size, "sha256": digest},
        "product": "nsys 2024.6.2.225",
    }
    assert (
        facts["program"] == ["/bin/app"]
        and facts["host"] == "node7"
        and facts["notes"] == ["not imported: COMPOSITE_EVENTS"]
    )
    assert [p.name for p in imported.parent.iterdir() if p.name.startswith(".")] == []
    assert not (imported / "trace").exists() and all(p.stat().st_mode & 0o077 == 0 for p in imported.rglob("*"))


def test_reports(imported: Path) -> None:
    with occatrace.open(imported) as run:
        kernels = {row["name"]: row for row in run.report("gpu_kern_sum")}
        add, scale = kernels["add(float*)"], kernels["_Z5scalePfi"]  # raw names as the linker knows them
        assert (add["calls"], add["total_ns"], add["device"]) == (2, 520_000, "NVIDIA A100")
        assert (scale["calls"], scale["total_ns"], scale["min_ns"]) == (2, 200_000, 100_000)
        sizes = {row["name"]: (row["calls"], row["bytes"]) for row in run.report("gpu_mem_size_sum")}
        assert sizes == {"HtoD (pageable)": (2, 8192), "fill": (1, 512)}
        calls = {
            row["name"]: (row["api"], row["calls"], row["total_ns"], row["failed"], row["errors"])
            for row in run.report("api_sum")
        }
        assert calls == {
            "cudaStreamSynchronize": ("cudart", 2, 740_000, 0, ""),
            "cudaMalloc": ("cudart", 2, 30_000, 1, "cudaErrorMemoryAllocation"),
            "cudaMemcpyAsync": ("cudart", 2, 10_000, 0, ""),
            "cudaLaunchKernel": ("cudart", 2, 8_000, 0, ""),
            "cudaFree": ("cudart", 1, 5_000, 0, ""),
            "cuLaunchKernel": ("cuda", 2, 6_000, 0, ""),
            "poll": ("osrt", 1, 700_000, 0, ""),
            "MPI_Isend": ("mpi", 1, 1_000, 0, ""),
            "MPI_Wait": ("mpi", 1, 10_000, 0, ""),
            "MPI_Recv": ("mpi", 1, 10_000, 0, ""),
            "MPI_Allreduce": ("mpi", 1, 10_000, 0, ""),
        }
        launched = {row["name"]: row for row in run.report("kern_exec_sum")}
        assert (
            launched["add(float*)"]["function"] == "cuLaunchKernel"
            and launched["add(float*)"]["queue_ns"] == 2 * 107_000
        )
        assert launched["_Z5scalePfi"]["function"] == "cudaLaunchKernel" and launched["_Z5scalePfi"]["api_ns"] == 8_000
        (wait,) = run.report("sync_sum")
        assert (wait["name"], wait["waiting"], wait["queue"], wait["total_ns"]) == (
            "stream",
            "main",
            "queue 7",
            736_000,
        )
        (moved,) = run.report("um_sum")
        assert (moved["name"], moved["bytes"], moved["total_ns"]) == ("HtoD", 65536, 5_000)
        memory = {(row["api"], row["kind"]): row for row in run.report("mem_usage")}
        assert (
            memory["cudart", "device"]["high_water_bytes"] == 1 << 20
            and memory["cudart", "device"]["in_use_bytes"] == 0
        )
        assert memory["cuda", "host"]["in_use_bytes"] == 1 << 10
        ranges = {
            (row["domain"], row["name"]): (row["calls"], row["kind"], row["total_ns"], row["open"])
            for row in run.report("range_sum")
        }
        assert ranges["NVTX solver", "step"] == (2, "push", 1_000_000, 0)
        assert ranges["NVTX", "a registered name"][:2] == (1, "start") and ranges["NVTX", "a registered name"][3] == 1
        assert ranges["NVTX", "here"][1] == "mark"
        (work,) = (row for row in run.report("range_gpu_proj_sum") if row["name"] == "step")
        assert (work["kernels"], work["copies"], work["bytes"], work["work_ns"]) == (4, 2, 8192, 740_000)
        sent = {row["name"]: (row["count"], row["total"], row["time_ns"]) for row in run.report("mpi_msg_size_sum")}
        # What was posted is complete when the wait for its request is over.
        assert sent == {"send": (1, 800, 20_000), "receive": (1, 400, 10_000), "collective": (1, 16, 10_000)}


def test_tables(imported: Path) -> None:
    with occatrace.open(imported) as run:
        (process,) = run.sql("SELECT host, pid, exe, rank, realtime_ns - mono_ns FROM processes").fetchall()
        assert process == ("node7", PID, "/bin/app", 3, UTC)
        threads = run.sql("SELECT tid, name FROM threads ORDER BY tid").fetchall()
        assert threads == [(TID, "main"), (WORKER, "worker")]
        kernel = run.sql(
            "SELECT gx, gy, gz, lx, ly, lz, q.id FROM activities JOIN queues q USING (queue) WHERE name LIKE '%scale%' LIMIT 1"
        )
        assert kernel.fetchall() == [(640, 2, 1, 64, 1, 1, 7)]
        assert run.sql('SELECT args.ret FROM "cudart.cudaMalloc" ORDER BY start_ns').fetchall() == [(0,), (2,)]
        assert run.sql('SELECT args.partner, args.tag, args.bytes FROM "mpi.MPI_Recv"').fetchall() == [(2, 6, 400)]
        step = run.sql(
            "SELECT domain, category, payload, color, depth FROM ranges WHERE name = 'step' ORDER BY start_ns LIMIT 1"
        )
        assert step.fetchall() == [("solver", "outer", "0", 0xFF00FF00, 0)]
        lost = run.losses
        assert not lost.killed and not lost.events and not lost.problems


def test_other_commands(imported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def say(*words: object, status: int = 0) -> str:
        assert main([str(w) for w in words]) == status
        out, err = capsys.readouterr()
        assert err.count("\n") <= 2
        return out + err

    assert "poll() = 1\n" in say("trace", imported) and "MPI_Isend(bytes=800, partner=2, tag=5" in say(
        "trace", imported
    )
    assert "add(float*)" in say("why", imported)
    assert "all kernels" in say("compare", imported, imported)
    # 31 of the file, and three ranges as they show on the device.
    assert " 34 slices" in say("timeline", imported, "-o", tmp_path / "t.pftrace")
    assert "stacks" in say("flamegraph", imported, "-o", tmp_path / "f.html")
    say("export", imported, "-o", tmp_path / "e", "--calls")
    say("export", imported, "-o", tmp_path / "o", "--format", "otf2")
    assert "has no trace" in say("report", imported, "--verify", status=2)
    say("report", imported, "--filter-time", "1ms:2ms", "--by", "thread")


def test_removed_tables_are_not_an_empty_run(
    imported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    run.mkdir(mode=0o700)
    (run / "run.json").write_bytes((imported / "run.json").read_bytes())
    assert main(["report", str(run)]) == 2
    assert "import app.sqlite again" in capsys.readouterr().err


def _broken(change: Callable[[bytes], bytes]) -> Callable[[Path], Path]:
    def make(path: Path) -> Path:
        nsys(path).write_bytes(change(path.read_bytes()))
        return path

    return make


def _with(table: str, place: int, value: Any) -> Callable[[Path], Path]:
    def make(path: Path) -> Path:
        rows = [list(row) for row in nsys_rows()[table]]
        rows[0][place] = value
        # NOT NULL is the file's own word.
        tables = {**NSYS, table: NSYS[table].replace(" NOT NULL", "").replace("INTEGER", "")}
        return database(path, tables, {**nsys_rows(), table: rows})

    return make


def _schema(version: str) -> Callable[[Path], Path]:
    return lambda path: nsys(path, META_DATA_EXPORT=[("EXPORT_SCHEMA_VERSION", version)])


def _named_kind(path: Path) -> Path:
    usage = [(*row[:7], 9, *row[8:]) for row in nsys_rows()["CUDA_GPU_MEMORY_USAGE_EVENTS"]]
    kinds = [(2, "CUDA_MEMOPR_MEMORY_KIND_DEVICE", "Device"), (9, "CUDA_MEMOPR_MEMORY_KIND_FAR", "Far")]
    tables = {**NSYS, "ENUM_CUDA_MEM_KIND": "id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT"}
    return database(path, tables, {**nsys_rows(), "CUDA_GPU_MEMORY_USAGE_EVENTS": usage, "ENUM_CUDA_MEM_KIND": kinds})


def _no_column(path: Path) -> Path:
    tables = {**NSYS, "OSRT_API": "start INTEGER, end INTEGER, globalTid INTEGER"}
    return database(path, tables, {**nsys_rows(), "OSRT_API": []})


def _view(path: Path) -> Path:
    db = sqlite3.connect(database(path, {"StringIds": NSYS["StringIds"]}, {}))
    db.execute(
        "CREATE VIEW NVTX_EVENTS AS WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start + 1 FROM n) SELECT start FROM n"
    )
    db.close()
    return path


def _plain(content: bytes) -> Callable[[Path], Path]:
    def write(path: Path) -> Path:
        path.write_bytes(content)
        return path

    return write


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def _fifo(path: Path) -> Path:
    os.mkfifo(path)
    return path


def _ctf(path: Path) -> Path:
    (path / "ust/uid").mkdir(parents=True)
    (path / "ust/uid/metadata").touch()
    return path


def _link(target: str) -> Callable[[Path], Path]:
    def link(path: Path) -> Path:
        path.symlink_to(target)
        return path

    return link


def _wal(path: Path) -> Path:
    nsys(path)
    path.with_name(f"{path.name}-wal").write_bytes(b"x")
    return path


BAD: dict[str, tuple[Callable[[Path], Path], str]] = {
    "no file": (lambda path: path, "No such file"),
    "empty": (_plain(b""), "is empty"),
    "text": (_plain(b"hello"), "no format that can be imported"),
    "a magic alone": (_plain(b"SQLite format 3\0"), "damaged"),
    "noise": (_plain(b"SQLite format 3\0" + bytes(range(256)) * 64), "damaged"),
    "truncated": (_broken(lambda b: b[: len(b) // 2]), "damaged"),
    "a damaged page": (_broken(lambda b: b[:12288] + b"\xff" * 12288 + b[24576:]), "damaged"),
    "other SQLite": (
        lambda path: database(path, {"cats": "name"}, {}),
        "it lacks StringIds (nsys) and rocpd_string (rocpd); it has the tables cats",
    ),
    "no events": (
        lambda path: database(path, {k: NSYS[k] for k in ("StringIds", "META_DATA_EXPORT")}, {}),
        "without any table of events",
    ),
    "no rows": (lambda path: database(path, NSYS, {}), "no calls, no device work and no ranges"),
    "a column is missing": (_no_column, "table OSRT_API has no column nameId"),
    "a view that never ends": (
        _view,
        "it lacks any table of events (nsys) and rocpd_string (rocpd); it has the tables StringIds",
    ),
    "text as time": (_with("CUPTI_ACTIVITY_KIND_RUNTIME", 0, "soon"), "RUNTIME: start is 'soon', not a whole number"),
    "real as time": (_with("CUPTI_ACTIVITY_KIND_KERNEL", 1, 1.5), "KERNEL: end is 1.5, not a whole number"),
    "blob as text": (_with("NVTX_EVENTS", 6, b"\0\xff"), "NVTX_EVENTS: text is b'\\x00\\xff', not text"),
    "NULL as time": (_with("CUPTI_ACTIVITY_KIND_MEMSET", 0, None), "MEMSET: start is NULL"),
    "a huge time": (
        _with("CUPTI_ACTIVITY_KIND_RUNTIME", 1, (1 << 63) - 1),
        "end is 9223372036854775807, which cannot be",
    ),
    "a negative size": (_with("CUPTI_ACTIVITY_KIND_MEMCPY", 7, -1), "bytes is -1, which cannot be"),
    "an unknown direction": (_with("CUPTI_ACTIVITY_KIND_MEMCPY", 8, 99), "copyKind 99 is not known"),
    "an unknown kind of memory": (
        _with("CUPTI_ACTIVITY_KIND_MEMCPY", 9, 8),
        "srcKind 8 is not known (ENUM_CUDA_MEM_KIND)",
    ),
    "another one": (_with("CUPTI_ACTIVITY_KIND_MEMCPY", 10, -3), "dstKind -3 is not known"),
    "memory of an unknown kind": (
        _with("CUDA_GPU_MEMORY_USAGE_EVENTS", 7, 99),
        "USAGE_EVENTS: memKind 99 is not known (ENUM_CUDA_MEM_KIND)",
    ),
    "neither given out nor back": (
        _with("CUDA_GPU_MEMORY_USAGE_EVENTS", 8, 2),
        "USAGE_EVENTS: memoryOperationType 2 is not known (ENUM_CUDA_DEV_MEM_EVENT_OPER)",
    ),
    "a kind that the file names": (_named_kind, "memKind 9 CUDA_MEMOPR_MEMORY_KIND_FAR is not known"),
    "the next schema": (
        _schema("4.0.1"),
        "its schema is 4.0.1 (EXPORT_SCHEMA_VERSION in META_DATA_EXPORT), and 3 is the newest",
    ),
    "no version": (_schema("new"), "META_DATA_EXPORT: EXPORT_SCHEMA_VERSION is 'new', not a version like 3.17"),
    "a pipe": (_fifo, "is no file"),
    "a folder": (_folder, "is no file"),
    "a trace of THAPI": (_ctf, "metadata"),
    "a link to a device": (_link("/dev/zero"), "is no file"),
    "a link to nothing": (_link("nowhere"), "No such file"),
    "changes beside it": (_wal, "holds changes"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_files_are_one_line(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make, said = BAD[what]
    file = make(tmp_path / "x.sqlite")
    assert main(["import", str(file), "-o", str(tmp_path / "run")]) == 2
    out, err = capsys.readouterr()
    assert not out and err.count("\n") == 1 and said in err
    assert sorted(p.name for p in tmp_path.iterdir() if not p.name.startswith("x.sqlite")) == []


def test_strange_but_readable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names that are no names of files, times before the zero, ids beyond 32 bits, a link: all is read."""
    texts = [(1, "../../../evil'); --"), (2, "k\x1b[31m\0"), (-5, "kernel"), (1 << 62, "")]
    whole = tid(0) - (1 << 63)  # a global id is unsigned
    rows: dict[str, Sequence[Sequence[Any]]] = {
        "StringIds": texts,
        "CUPTI_ACTIVITY_KIND_RUNTIME": [(-500, -400, 0, whole + 9, 1 << 60, 1, -1, None)],
        "CUPTI_ACTIVITY_KIND_KERNEL": [(10, 5, 1 << 40, -1, None, -1, 1 << 60, whole, 2, 2, None, *[1 << 40] * 6)],
        "NVTX_EVENTS": [(7, 3, 59, None, None, -1, "r", whole + 9, None, None, None, None, *[None] * 6)],
    }
    link = tmp_path / "link"
    link.symlink_to(database(tmp_path / "x y?%#.sqlite", NSYS, rows))
    run = tmp_path / "deep/run"
    assert main(["import", str(link), "-o", str(run)]) == 0
    capsys.readouterr()
    with occatrace.open(run) as opened:
        (kernel,) = opened.sql("SELECT name, gx, end_ns - start_ns, thread, seq FROM activities").fetchall()
        assert kernel == ("k\x1b[31m", 0xFFFF_FFFF, 0, 1, 1)
        assert "2 records end before they begin and have no length" in opened.losses.notes
        assert [row["calls"] for row in opened.report("api_sum")] == [1]
        assert opened.sql("SELECT min(start_ns) FROM calls").fetchall() == [(1,)]
    for command in ("report", "trace", "why"):
        assert main([command, str(run)]) == 0
    assert "\x1b" not in capsys.readouterr().out
    assert sorted(p.name for p in tmp_path.iterdir()) == ["deep", "link", "x y?%#.sqlite"]


@pytest.mark.parametrize(
    ("version", "told"), [("3.16.1", False), ("3.17.2", False), ("2.4", False), ("3.18.0", True), ("3.99", True)]
)
def test_a_newer_schema_is_told(tmp_path: Path, version: str, told: bool) -> None:
    """What may have changed under the same names stays at the top of the reports."""
    run = run_of(_schema(version)(tmp_path / "app.sqlite"))
    said = f"its schema, {version}, is newer than 3.17: what its known tables mean may have changed"
    with occatrace.open(run) as opened:
        assert (said in opened.losses.notes) == told
        assert sum(row["total_ns"] for row in opened.report("gpu_kern_sum")) == 720_000


def test_kinds_that_nsys_does_not_know_itself(tmp_path: Path) -> None:
    copies = [(*row[:8], 0, 7, 7, *row[11:]) for row in nsys_rows()["CUPTI_ACTIVITY_KIND_MEMCPY"]]
    run = run_of(nsys(tmp_path / "app.sqlite", CUPTI_ACTIVITY_KIND_MEMCPY=copies))
    with occatrace.open(run) as opened:
        query = "SELECT count(*), sum(bytes), sum(end_ns - start_ns), any_value(source) FROM activities WHERE kind = 'other'"
        assert opened.sql(query).fetchall() == [(3, 2 * 4096 + 65536, 25_000, None)]


def test_names_that_the_file_lacks(tmp_path: Path) -> None:
    """Kernels, calls and ranges whose text is not in StringIds have its number, in one line; an empty text is told apart."""
    rows = nsys_rows()
    lost = {
        text: number
        for number, text in rows["StringIds"]
        if text in ("add(float*)", "cudaFree_v3020", "a registered name")
    }
    kept = [
        (number, "" if text == "_Z5scalePfi" else text)
        for number, text in rows["StringIds"]
        if number not in lost.values()
    ]
    run = run_of(nsys(tmp_path / "app.sqlite", StringIds=kept))
    kernel, free, named = (lost[text] for text in ("add(float*)", "cudaFree_v3020", "a registered name"))
    with occatrace.open(run) as opened:
        kernels = {row["name"]: row["calls"] for row in opened.report("gpu_kern_sum")}
        assert kernels == {f"kernel {kernel}": 2, "(no name)": 2}
        assert f"function_{free}" in {row["name"] for row in opened.report("api_sum")}
        assert f"range {named}" in {row["name"] for row in opened.report("range_sum")}
        (line,) = [note for note in opened.losses.notes if "names" in note]
    assert line == (
        "the file lacks the names of 2 kernels and 1 call and 1 range: named by number"
        f" (kernel {kernel}, function_{free}, range {named})"
    )


def test_place(imported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = imported.parent / "app.sqlite"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/file").touch()
    for force in ((), ("--force",)):
        assert main(["import", str(file), "-o", str(tmp_path / "mine"), *force]) == 2
    assert "does not touch it" in capsys.readouterr().err and (tmp_path / "mine/file").exists()
    (tmp_path / "run").mkdir()
    assert main(["import", str(file), "-o", str(tmp_path / "run")]) == 0
    assert main(["import", str(file), "-o", str(tmp_path / "run")]) == 2
    # A file that fails leaves the run that was there.
    bad = tmp_path / "bad"
    bad.write_bytes(b"no")
    assert main(["import", str(bad), "-o", str(tmp_path / "run"), "--force"]) == 2
    assert (tmp_path / "run/tables").is_dir()
    assert main(["import", str(file), "-o", str(tmp_path / "run"), "--force"]) == 0


def test_without_the_systems_sqlite(imported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader of Python alone gives the same run."""
    from occatrace import _native

    assert _native.has_sqlite()
    monkeypatch.setattr(_native, "has_sqlite", lambda: False)
    file = nsys(tmp_path / "app.sqlite")
    assert main(["import", str(file), "-o", str(tmp_path / "run")]) == 0
    with occatrace.open(imported) as one, occatrace.open(tmp_path / "run") as other:
        for table in ("activities", "calls", "waits", "allocations", "managed_memory"):
            query = f"SELECT * FROM {table} ORDER BY ALL"
            rows = one.sql(query).fetchall()
            assert rows and rows == other.sql(query).fetchall()
