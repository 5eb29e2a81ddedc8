"""Chrome trace events, and those of PyTorch's profiler, as runs."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import occatrace
from occatrace.cli.dispatch import main
from tests.support.foreign import need_native_layer

PID = 4242


@pytest.fixture(autouse=True)
def _model() -> None:
    need_native_layer()


def span(
    cat: str, name: str, ts: float | str, dur: float | str, *, tid: Any = 1, pid: Any = PID, **args: Any
) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def kineto() -> dict[str, Any]:
    """Two steps of an operator with a launch and a copy, by the format as Kineto of PyTorch 2 writes it."""
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": PID, "tid": 0, "ts": 0, "args": {"name": "python"}},
        {"ph": "M", "name": "thread_name", "pid": PID, "tid": 1, "ts": 0, "args": {"name": "thread 1 (python)"}},
        {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "ts": 0, "args": {"name": "python"}},
        span("Trace", "PyTorch Profiler (0)", 1, 3000, pid="Spans", tid="PyTorch Profiler"),
    ]
    for step in range(2):
        at, corr = 1000 * (step + 1), 10 * (step + 1)
        on = {"device": 0, "context": 1, "stream": 7}
        events += [
            span("user_annotation", f"ProfilerStep#{step}", at, 500.125),
            span("cpu_op", "aten::linear", at + 10, 200),
            span("cpu_op", "aten::addmm", at + 20, 150),
            span("cuda_runtime", "cudaLaunchKernel", at + 30, 5.5, correlation=corr + 1, cbid=211),
            span("cuda_runtime", "cudaMemcpyAsync", at + 40, 4, correlation=corr + 2),
            span("cuda_runtime", "cudaDeviceSynchronize", at + 300, 150, correlation=corr + 3),
            span(
                "kernel",
                "sgemm",
                at + 50,
                100.25,
                pid=0,
                tid=7,
                correlation=corr + 1,
                grid=[10, 2, 1],
                block=[64, 1, 1],
                **on,
            ),
            span(
                "gpu_memcpy",
                "Memcpy HtoD (Pageable -> Device)",
                at + 160,
                20,
                pid=0,
                tid=7,
                correlation=corr + 2,
                bytes=4096,
                **on,
            ),
            span(
                "cuda_sync",
                "Context Synchronize",
                at + 301,
                148,
                pid=0,
                tid=-1,
                correlation=corr + 3,
                device=0,
                stream=-1,
            ),
            span("gpu_user_annotation", f"ProfilerStep#{step}", at + 50, 130, pid=0, tid=7),
            {"ph": "s", "id": corr, "cat": "ac2g", "name": "ac2g", "pid": PID, "tid": 1, "ts": at + 30},
            span("python_function", "train.py(12): step", at + 5, 400, **{"Python id": step}),
            span("python_function", "nn.py(7): forward", at + 8, 300, **{"Python id": step}),
        ]
    memory = {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": PID, "tid": 1}
    events += [
        {**memory, "ts": 1001, "args": {"Bytes": 1024, "Addr": 77, "Device Type": 1, "Device Id": 0}},
        {**memory, "ts": 1900, "args": {"Bytes": -1024, "Addr": 77, "Device Type": 1, "Device Id": 0}},
    ]
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}],
        "distributedInfo": {"backend": "nccl", "rank": 1, "world_size": 4},
        "baseTimeNanoseconds": 1_700_000_000_000_000_000,
        "traceEvents": events,
        "traceName": "a.json",
    }


def imported(tmp_path: Path, content: Any, name: str = "trace.json") -> Path:
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    assert main(["import", str(tmp_path / name), "-o", str(tmp_path / "run"), "--force"]) == 0
    return tmp_path / "run"


def test_kineto(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = imported(tmp_path, kineto(), "trace.json.gz")
    with occatrace.open(path) as run:
        assert run.facts["imported"]["product"] == "PyTorch profiler (Kineto)" and run.facts["program"] == ("python",)
        (process,) = run.sql("SELECT pid, rank, size, realtime_ns - mono_ns FROM processes").fetchall()
        assert process == (PID, 1, 4, 1_700_000_000_000_000_000)
        (kernel,) = run.report("gpu_kern_sum")
        assert (kernel["name"], kernel["calls"], kernel["total_ns"], kernel["device"]) == (
            "sgemm",
            2,
            200_500,
            "NVIDIA H100",
        )
        (copy,) = run.report("gpu_mem_size_sum")
        assert (copy["name"], copy["calls"], copy["bytes"]) == ("HtoD (pageable)", 2, 8192)
        calls = {row["name"]: (row["api"], row["calls"], row["total_ns"]) for row in run.report("api_sum")}
        assert calls["cudaLaunchKernel"] == ("cudart", 2, 11_000) and calls["cudaDeviceSynchronize"] == (
            "cudart",
            2,
            300_000,
        )
        (launch,) = run.report("kern_exec_sum")
        assert (launch["function"], launch["queue_ns"]) == ("cudaLaunchKernel", 2 * 14_500)
        work = {row["name"]: (row["domain"], row["kernels"], row["bytes"]) for row in run.report("range_gpu_proj_sum")}
        assert work["aten::addmm"] == ("pytorch cpu_op", 2, 8192) and work["ProfilerStep#1"] == (
            "pytorch user_annotation",
            1,
            4096,
        )
        depths = run.sql("SELECT DISTINCT name, depth FROM ranges WHERE domain = 'cpu_op' ORDER BY 1").fetchall()
        assert depths == [("aten::addmm", 1), ("aten::linear", 0)]
        assert [row["total_ns"] for row in run.report("sync_sum")] == [296_000]
        python = run.sql("SELECT DISTINCT name, source, line, depth, inner_ns FROM python_calls ORDER BY 1").fetchall()
        assert python == [("forward", "nn.py", 7, 1, 0), ("step", "train.py", 12, 0, 300_000)]
        (memory,) = run.report("mem_usage")
        assert (memory["api"], memory["high_water_bytes"], memory["in_use_bytes"]) == ("pytorch", 1024, 0)
        (size,) = run.sql("SELECT DISTINCT gx, gy, lx FROM activities WHERE kind = 'kernel'").fetchall()
        assert size == (640, 2, 64)
        assert not run.losses.lines()
    for words in (("why",), ("timeline", "-o", tmp_path / "t.pftrace")):
        assert main([words[0], str(path), *map(str, words[1:])]) == 0
    capsys.readouterr()


def test_a_file_of_pytorch(tmp_path: Path) -> None:
    """Three steps of a network on the CPU, as PyTorch 2.13's profiler exported them: counts and times are those of the file."""
    file = Path(__file__).resolve().parents[1] / "golden/pytorch-2.13.json.gz"
    wanted: dict[tuple[str, str], list[float]] = {}
    for event in json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]:
        if event.get("ph") == "X" and event["cat"] in ("cpu_op", "user_annotation"):
            wanted.setdefault((event["cat"], event["name"]), []).append(event["dur"])
    assert main(["import", str(file), "-o", str(tmp_path / "run")]) == 0
    with occatrace.open(tmp_path / "run") as run:
        assert run.facts["host"] == "node3" and run.facts["imported"]["product"] == "PyTorch profiler (Kineto)"
        # Without a category: two marks of the profiler's own.
        query = "SELECT domain, name, count(*), sum(end_ns - start_ns) FROM ranges WHERE domain != '' GROUP BY 1, 2"
        found = run.sql(query).fetchall()
        assert {(domain, name): count for domain, name, count, _ in found} == {k: len(v) for k, v in wanted.items()}
        for domain, name, count, total in found:
            assert abs(total - 1000 * sum(wanted[domain, name])) <= count
        (memory,) = run.report("mem_usage")
        assert memory["allocations"] > memory["frees"] > 0
        assert not run.losses.notes


def test_other_writers(tmp_path: Path) -> None:
    """The list alone, without its end; begins and ends; what may overlap; counters; texts for numbers of processes."""
    events = [
        {"ph": "B", "name": "outer", "cat": "app", "pid": 1, "tid": "main", "ts": 10},
        {"ph": "B", "name": "inner", "cat": "app", "pid": 1, "tid": "main", "ts": "12.5"},
        {"ph": "E", "pid": 1, "tid": "main", "ts": 20},
        {"ph": "E", "pid": 1, "tid": "main", "ts": 30},
        {"ph": "E", "pid": 1, "tid": "main", "ts": 31},
        {"ph": "b", "name": "io", "cat": "app", "id": "0x1", "pid": 1, "tid": 2, "ts": 5},
        {"ph": "e", "name": "io", "cat": "app", "id": "0x1", "pid": 1, "tid": 3, "ts": 25},
        {"ph": "B", "name": "never ends", "cat": "app", "pid": 1, "tid": 2, "ts": 26},
        {"ph": "i", "name": "here", "pid": "browser", "tid": 1, "ts": 15},
        {"ph": "C", "name": "load", "pid": 1, "ts": 11, "args": {"a": 1.5, "b": 2}},
        {"ph": "Z", "name": "?", "ts": 1},
    ]
    with occatrace.open(imported(tmp_path, json.dumps(events)[:-1].encode() + b",\n")) as run:
        rows = run.sql("SELECT name, kind, depth, end_ns - start_ns FROM ranges ORDER BY start_ns").fetchall()
        assert rows == [
            *[("io", "start", 0, 20_000), ("outer", "push", 0, 20_000), ("inner", "push", 1, 7_500)],
            *[("here", "mark", 0, 0), ("never ends", "push", 0, None)],
        ]
        assert run.sql("SELECT name, value FROM counters ORDER BY 1").fetchall() == [("load a", 1.5), ("load b", 2.0)]
        assert sorted(run.sql("SELECT exe FROM processes").fetchall()) == [("",), ("browser",)]
        assert run.losses.notes == ["not imported: 1 ends of ranges without their begins, 1 events of phase Z"]


def test_half_a_character_in_a_name_is_read(tmp_path: Path) -> None:
    """JSON may write half of a pair of UTF-16 by an escape (a name that was cut); no table can hold it."""
    events = [
        span("cpu_op", "cut \ud83d", 1, 2),
        span("cpu_op", "whole \U0001f680", 5, 2),
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "\udc00"}},
    ]
    with occatrace.open(imported(tmp_path, events)) as run:
        names = run.sql("SELECT name FROM ranges ORDER BY start_ns").fetchall()
        assert names == [("cut \\ud83d",), ("whole \U0001f680",)]


GOOD = json.dumps(span("app", "x", 1, 2)).encode()
BAD: dict[str, tuple[bytes, str]] = {
    "no events": (b"{}", "no traceEvents"),
    "no rows": (b'{"traceEvents": []}', "no calls, no device work"),
    "an object cut off": (b'{"traceEvents": [' + GOOD + b",", "cut off after 1 events"),
    "an event cut off": (b"[" + GOOD + b"," + GOOD[:-9], "cut off in event 2"),
    "text between": (b"[" + GOOD + b" hello]", "damaged after event 1"),
    "no object": (b"[3]", "event 1 is no object"),
    "no phase": (b'[{"ts": 1}]', "ph is None"),
    "text as time": (
        b'[{"ph": "X", "name": "a\\u001b", "ts": "soon", "dur": 1}]',
        "event 1 (a\\x1b): ts is soon, not a number",
    ),
    "no time": (b'[{"ph": "i", "name": "a"}]', "ts is None, not a number"),
    "a negative length": (b'[{"ph": "X", "ts": 1, "dur": -2}]', "dur is -2, which cannot be"),
    "huge": (b'[{"ph": "X", "ts": 1e999999999, "dur": 1}]', "which cannot be"),
    "huge digits": (b'[{"ph": "X", "ts": ' + b"9" * 5000 + b"}]", "in event 1"),
    "no number": (b'[{"ph": "X", "ts": NaN}]', "in event 1"),
    "huge bytes": (
        b'[{"ph": "X", "cat": "gpu_memset", "ts": 1, "dur": 1, "args": {"bytes": 99999999999999999999}}]',
        "bytes is 99999",
    ),
    "nested": (b"[" * 100_000, "nested too deeply"),
    "a list as category": (b'[{"ph": "X", "cat": [], "ts": 1}]', "cat is [], not a text"),
    "damaged gzip": (b"\x1f\x8b\x08\x00" + b"x" * 50, "damaged"),
    "gzip cut off": (gzip.compress(b"[" + GOOD * 100 + b"]")[:-20], "damaged or cut off"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_files_are_one_line(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content, said = BAD[what]
    (tmp_path / "x").write_bytes(content)
    assert main(["import", str(tmp_path / "x"), "-o", str(tmp_path / "run")]) == 2
    out, err = capsys.readouterr()
    assert not out and err.count("\n") == 1 and said in err and "internal" not in err
    assert [p.name for p in tmp_path.iterdir()] == ["x"]
