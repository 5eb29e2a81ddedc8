"""Every cell of recorded traces, against Debian's bt2 and against what the emitter is known to write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import traces

pytestmark = pytest.mark.skipif(bool(traces.why_no_recording()), reason=traces.why_no_recording())

THREADS, COUNT = 3, 400


@pytest.fixture(scope="module", params=["plain", "contexts"])
def trace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    contexts = ("vpid", "vtid", "procname") if request.param == "contexts" else ()
    return traces.record(tmp_path_factory.mktemp("trace") / request.param, str(THREADS), str(COUNT), contexts=contexts)


@pytest.fixture(params=["babeltrace2", "fast"])
def decoder(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_equal_to_bt2(trace: Path, decoder: str) -> None:
    if traces.why_no_oracle():
        pytest.skip(traces.why_no_oracle())
    traces.assert_same(traces.columns(trace, decoder=decoder), traces.oracle(trace))


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("batch_rows", [1, 7, 1_000_000])
def test_any_threads_and_batches(trace: Path, decoder: str, threads: int, batch_rows: int) -> None:
    rows = traces.columns(trace, decoder=decoder, threads=threads, batch_rows=batch_rows)
    traces.assert_same(rows, traces.columns(trace, decoder="babeltrace2", threads=1))


def _expected(thread: int, n: int) -> dict[str, dict[str, Any]]:
    name = f"name {n % 100} of {thread} é"
    length = n % 11

    def unsigned(value: int, bits: int) -> int:
        return value % (1 << bits)

    def signed(value: int, bits: int) -> int:
        value %= 1 << bits
        return value - (1 << bits) if value >> (bits - 1) else value

    scalars = {
        "u8": unsigned(n, 8),
        "i8": signed(-n, 8),
        "u16": unsigned(n * 257, 16),
        "i16": signed(n * -257, 16),
        "u32": unsigned(n * 65537, 32),
        "i32": signed(n * -65537, 32),
        "u64": n * 0x100000001,
        "i64": -n * 0x100000001,
        "f32": float(np.float32(n) / np.float32(4)),
        "f64": n / 3,
    }
    return {
        "native": scalars,
        "scalars": {**scalars, "big_endian_on_the_wire": n},
        "text": {
            "name": name,
            "fixed": str(n),
            "piece": name.encode()[:length].decode(),
            "last": "end",
        },
        "lists": {
            "fixed": tuple(n + i for i in range(4)),
            "some": tuple(-i * n for i in range(length)),
            "longs": tuple(n << 32 | i for i in range(length // 2)),
            "after": length,
        },
        "kinds": {"colour": n % 5 - 1, "small": n % 4},
    }


def test_known_content(trace: Path, decoder: str) -> None:
    rows = traces.columns(trace, decoder=decoder)
    assert len(rows["columns_test:empty"]) == THREADS * COUNT
    for event in ("native", "scalars", "text", "lists", "kinds"):
        found = {}
        for row in rows[f"columns_test:{event}"]:
            cells = {key: value for key, value in row if key != "ts" and not key.startswith("ctx.")}
            found[cells.pop("thread"), cells.pop("n")] = cells
        expected = {(t, n): _expected(t, n)[event] for t in range(THREADS) for n in range(COUNT)}
        assert found.keys() == expected.keys()
        for key, cells in expected.items():
            assert found[key] == cells


def test_only_wanted_events(trace: Path, decoder: str) -> None:
    rows = traces.columns(trace, decoder=decoder, events=["columns_test:te*", "columns_test:call"])
    assert rows.keys() == {"columns_test:text", "columns_test:call"}
    assert traces.columns(trace, decoder=decoder, events=[]) == {}
