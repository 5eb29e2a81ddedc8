"""Truncated and corrupted traces: what can be read is delivered, the damage is reported, nothing crashes or hangs."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from occatrace import _native
from tests.support import traces

pytestmark = pytest.mark.skipif(bool(traces.why_no_recording()), reason=traces.why_no_recording())


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return traces.record(tmp_path_factory.mktemp("trace") / "whole", "3", "1500")


@pytest.fixture(params=["babeltrace2", "fast"])
def decoder(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def copy(trace: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trace, tmp_path / "copy"))


def _streams(path: Path) -> list[Path]:
    return sorted((p for p in path.iterdir() if p.name.startswith("ch_")), key=lambda p: p.stat().st_size)


def _read(path: Path, decoder: str) -> tuple[traces.Rows, list[str]]:
    reader = _native.Reader(path, decoder=decoder, threads=2)
    return traces.rows_of(reader), reader.problems


def _is_part(part: traces.Rows, whole: traces.Rows) -> bool:
    return all(set(rows) <= set(whole[name]) for name, rows in part.items())


def _count(rows: traces.Rows) -> int:
    return sum(len(each) for each in rows.values())


@pytest.mark.parametrize("cut", [1, 100, 4096, 100_000])
@pytest.mark.parametrize("index", [True, False])
def test_truncated_stream(trace: Path, copy: Path, decoder: str, cut: int, index: bool) -> None:
    whole, problems = _read(trace, decoder)
    assert not problems
    stream = _streams(copy)[-1]
    size = stream.stat().st_size
    with stream.open("r+b") as file:
        file.truncate(size - cut)
    if not index:
        shutil.rmtree(copy / "index")
    rows, problems = _read(copy, decoder)
    assert any(stream.name in problem for problem in problems)
    is_part = _is_part(rows, whole)
    assert is_part
    # All but what was cut and the event at the cut.
    # Whoever asks for babeltrace2 gets the fast decoder here: libbabeltrace2 refuses the whole stream.
    assert (_count(whole) - _count(rows)) * 6 < cut + 2000


def test_everything_but_the_metadata_gone(copy: Path, decoder: str) -> None:
    for stream in _streams(copy):
        stream.write_bytes(b"")
    rows, problems = _read(copy, decoder)
    assert not rows and not problems


def test_metadata_damaged(copy: Path, decoder: str) -> None:
    metadata = copy / "metadata"
    metadata.write_bytes(metadata.read_bytes()[:1000])
    with pytest.raises(_native.TraceError, match=str(copy)):
        _read(copy, decoder)
    metadata.write_bytes(b"")
    with pytest.raises(_native.TraceError):
        _read(copy, decoder)


def test_no_trace(tmp_path: Path, decoder: str) -> None:
    with pytest.raises(_native.TraceError, match="no CTF trace"):
        _native.Reader(tmp_path, decoder=decoder)
    with pytest.raises(_native.TraceError, match="cannot open"):
        _native.Reader(tmp_path / "nothing", decoder=decoder)


def test_a_packet_overwritten(trace: Path, copy: Path, decoder: str) -> None:
    """Garbage in the middle of a stream costs at most what follows it in its packet."""
    whole, _ = _read(trace, decoder)
    stream = _streams(copy)[-1]
    data = bytearray(stream.read_bytes())
    place = len(data) // 2
    data[place : place + 5000] = random.Random(1).randbytes(5000)
    stream.write_bytes(data)
    rows, problems = _read(copy, decoder)
    assert problems
    # Other packets stand on their own.
    assert _count(rows) > 0.8 * _count(whole)


def test_truncated_stream_of_a_layout_that_is_not_known(trace: Path, copy: Path) -> None:
    """babeltrace2 refuses a trace with a truncated stream: the other streams are read all the same."""
    metadata = copy / "metadata"
    text = subprocess.run(["babeltrace2", "-o", "ctf-metadata", str(trace)], check=True, capture_output=True, text=True)
    metadata.write_text(text.stdout + 'clock { name = "other"; freq = 1000; };\n')
    whole, problems = _read(copy, "fast")
    assert not problems
    assert _native.Reader(copy, decoder="fast").traces[0]["declined"] == "not exactly one clock"
    stream = _streams(copy)[-1]
    data = stream.read_bytes()
    stream.write_bytes(data[: len(data) - 100])
    reader = _native.Reader(copy, decoder="fast")
    rows = traces.rows_of(reader)
    assert any(stream.name in problem for problem in reader.problems)
    is_part = _is_part(rows, whole)
    assert is_part
    shutil.move(stream, copy.parent / "elsewhere")
    assert len(_streams(copy)) == 0 or _count(rows) == _count(_read(copy, "fast")[0])


READ = """
import sys
from occatrace import _native
from tests.support import traces
traces.rows_of(_native.Reader(sys.argv[1], decoder="babeltrace2", threads=2))
"""


@pytest.mark.parametrize("seed", range(12))
def test_flipped_bits(copy: Path, decoder: str, seed: int) -> None:
    """Any bits of any file: an end within seconds, by rows or by an error."""
    random_ = random.Random(seed)
    for file in [*_streams(copy), *(copy / "index").iterdir(), *([copy / "metadata"] if seed % 3 == 0 else [])]:
        data = bytearray(file.read_bytes())
        for _ in range(random_.choice([1, 10, 200])):
            data[random_.randrange(len(data))] ^= 1 << random_.randrange(8)
        file.write_bytes(data)
    if decoder == "babeltrace2":
        # Read by another process: Babeltrace 2.0 itself ends the process at some of such packets (`ds_file_mmap`).
        done = subprocess.run([sys.executable, "-c", READ, copy], capture_output=True, text=True, timeout=300)
        if done.returncode < 0:
            assert done.returncode == -signal.SIGABRT and "ds_file_mmap(): Assertion" in done.stderr, done.stderr
        elif done.returncode > 0:
            assert "\noccatrace._native.TraceError: " in done.stderr, done.stderr
    else:
        try:
            _read(copy, decoder)
        except _native.TraceError as error:
            assert str(error)
