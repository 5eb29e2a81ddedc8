"""The reader's behaviour: arrays without a copy, bounded memory, stopping early, signals, several traces."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from occatrace import _native
from tests.support import traces

pytestmark = pytest.mark.skipif(bool(traces.why_no_recording()), reason=traces.why_no_recording())


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return traces.record(tmp_path_factory.mktemp("trace") / "calls", "2", "75000", "calls", events="columns_test:call")


@pytest.fixture(params=["babeltrace2", "fast"])
def decoder(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_no_copy_and_arrays_outlive_the_reader(trace: Path, decoder: str) -> None:
    reader = _native.Reader(trace, decoder=decoder)
    batch = next(reader)
    column = batch.columns["start"]
    assert not column.flags.owndata and column.flags.c_contiguous
    before = column.copy()
    reader.close()
    del reader, batch
    assert np.array_equal(column, before)


def test_batches_are_bounded(trace: Path, decoder: str) -> None:
    sizes = [len(batch) for batch in _native.Reader(trace, decoder=decoder, batch_rows=10_000)]
    assert max(sizes) == 10_000
    assert sum(sizes) == 150_000


def test_schema_and_trace(trace: Path, decoder: str) -> None:
    reader = _native.Reader(trace, decoder=decoder)
    assert reader.schema["columns_test:call"] == {
        "ts": "u64",
        "tid": "u32",
        "seq": "u32",
        "start": "u64",
        "handle": "u64",
        "bytes": "u64",
        "ret": "i32",
    }
    assert reader.trace_env["tracer_name"] == "lttng-ust"
    assert reader.trace_env["hostname"] == os.uname().nodename
    offset = time.time_ns() - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    assert abs(reader.clock_offset - offset) < 60e9
    assert reader.traces[0]["clock_frequency"] == 1_000_000_000
    assert reader.traces[0]["decoder"] == decoder


def test_time_stamps(trace: Path, decoder: str) -> None:
    for batch in _native.Reader(trace, decoder=decoder):
        late = batch.columns["ts"].astype(np.int64) - batch.columns["start"].astype(np.int64)
        assert (late >= 0).all()
        assert np.median(late) < 1e6


def test_stopping_early(trace: Path, decoder: str) -> None:
    """Workers that wait for a slow consumer end when it goes."""
    for _ in range(5):
        reader = _native.Reader(trace, decoder=decoder, batch_rows=100, threads=4)
        next(reader)
        del reader
        with _native.Reader(trace, decoder=decoder, batch_rows=100) as reader:
            next(reader)
        with pytest.raises(StopIteration):
            next(reader)


def test_other_threads_run_meanwhile(trace: Path, decoder: str) -> None:
    """The GIL is free while events are decoded: nobody is made to give it up here, so a thread has its turn where the reader
    lets go of it, or never."""
    turns, stop = 0, threading.Event()

    def take_turns() -> None:
        nonlocal turns
        while not stop.is_set():
            turns += 1
            time.sleep(0)

    def turns_while_reading() -> int:
        reader = _native.Reader(trace, decoder=decoder, threads=1)
        found = 0
        while True:
            before = turns
            if next(reader, None) is None:
                return found
            found += turns - before

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    thread = threading.Thread(target=take_turns)
    thread.start()
    try:
        # The system may keep the thread from its turn in one batch, though not in all of a hundred traces.
        assert any(turns_while_reading() for _ in range(100))
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        thread.join()


def test_interrupted(trace: Path, decoder: str) -> None:
    """Ctrl-C while waiting for a batch."""
    script = (
        "import signal, sys, os\n"
        "from occatrace import _native\n"
        f"reader = _native.Reader({str(trace)!r}, decoder={decoder!r})\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
        "for batch in reader: pass\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=300, check=False)
    assert done.returncode == -signal.SIGINT


def test_several_traces(trace: Path, tmp_path: Path, decoder: str) -> None:
    shutil.copytree(trace, tmp_path / "host-a" / "ust")
    shutil.copytree(trace, tmp_path / "host-b" / "ust")
    reader = _native.Reader(tmp_path, decoder=decoder)
    rows = [0, 0]
    for batch in reader:
        rows[batch.trace] += len(batch)
    assert rows == [150_000, 150_000]
    assert [Path(each["path"]).parent.name for each in reader.traces] == ["host-a", "host-b"]


def test_decoder_by_environment(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fast", "babeltrace2"):
        monkeypatch.setenv("OCCATRACE_DECODER", name)
        assert _native.Reader(trace).traces[0]["decoder"] == name
    monkeypatch.delenv("OCCATRACE_DECODER")
    assert _native.Reader(trace).traces[0]["decoder"] == "fast"
    with pytest.raises(ValueError, match="OCCATRACE_DECODER"):
        _native.Reader(trace, decoder="slow")


@pytest.mark.parametrize("rows", [1_000_000])
def test_memory_is_bounded(trace: Path, decoder: str, rows: int) -> None:
    """Four times the trace, a slow consumer: no more than the stated buffers on top of Python and numpy."""
    script = (
        "import resource, sys, time\n"
        "from occatrace import _native\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        f"for path in [{str(trace)!r}] * 4:\n"
        f"    for batch in _native.Reader(path, decoder={decoder!r}, batch_rows={rows}): time.sleep(0.05)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=300, check=True)
    assert int(done.stdout) < 220 * 1024
