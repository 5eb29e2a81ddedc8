"""Checksums of a trace: damage is named, what was done on purpose is none, and lists from anywhere do no harm."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest

from occatrace.cli.dispatch import main
from occatrace.run import checksums
from occatrace.run import folder as runs
from occatrace.store import tables
from tests.support import ctf

FILES = {
    "ust/metadata": b"text",
    "ust/ch_0": bytes(range(256)) * 9000,
    "ust/ch_1": b"",
    "ust/index/ch_0.idx": b"i" * 88,
}
SIZE = sum(map(len, FILES.values()))


def make(folder: Path, **facts: Any) -> runs.Run:
    facts = {"program": ("p",), "id": "00000000", "ended": "now", "processes": (7,), **facts}
    return runs.create(folder / "run", runs.RunInfo(**facts))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    made = make(tmp_path)
    for name, content in FILES.items():
        file = made.trace / "host" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    checksums.write(made.trace / "host")
    return made.path


def damage(run: Path) -> list[str]:
    return [f"{each.file.relative_to(run / 'trace/host')} {each.what}" for each in checksums.verify(run).damaged]


def test_as_recorded(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert checksums.verify(run) == checksums.Verdict(4, SIZE, [])
    said = json.loads((run / "trace/host" / checksums.FILE).read_text())
    assert said["files"]["ust/ch_0"] == {"bytes": 256 * 9000, "crc32": f"{zlib.crc32(FILES['ust/ch_0']):08x}"}
    assert main(["report", str(run), "--verify"]) == 0
    assert capsys.readouterr().out == f"4 files, {SIZE:,} bytes: as they were recorded\n"


def test_damage(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = run / "trace/host"
    changed = bytearray(FILES["ust/ch_0"])
    changed[1_500_000] ^= 0x10
    (trace / "ust/ch_0").write_bytes(changed)
    (trace / "ust/metadata").write_bytes(b"tex")
    (trace / "ust/ch_1").unlink()
    os.mkfifo(trace / "ust/ch_1")
    shutil.rmtree(trace / "ust/index")
    sums = [f"{zlib.crc32(content):08x}" for content in (bytes(changed), FILES["ust/ch_0"])]
    assert damage(run) == [
        f"ust/ch_0 was changed: its checksum is {sums[0]}, recorded was {sums[1]}",
        f"ust/ch_1 cannot be read: {trace}/ust/ch_1 is no plain file",
        "ust/index/ch_0.idx is missing (88 bytes)",
        "ust/metadata has 3 bytes, 4 were recorded",
    ]
    assert main(["report", str(run), "--verify"]) == 2
    assert capsys.readouterr().out.splitlines()[-1] == "4 of 4 files damaged"


def test_several_hosts(run: Path) -> None:
    shutil.copytree(run / "trace/host", run / "trace/other")
    assert checksums.verify(run) == checksums.Verdict(8, 2 * SIZE, [])
    (run / "trace/other/ust/metadata").write_bytes(b"TEXT")
    assert [each.file for each in checksums.verify(run).damaged] == [run / "trace/other/ust/metadata"]


def test_large_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By several threads, each file once."""
    monkeypatch.setattr(checksums, "_MANY", 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)))
    for number in range(20):
        (tmp_path / f"ch_{number}").write_bytes(bytes([number]) * 100_000)
    checksums.write(tmp_path)
    found = json.loads((tmp_path / checksums.FILE).read_text())["files"]
    assert {name: each["crc32"] for name, each in found.items()} == {
        f"ch_{n}": f"{zlib.crc32(bytes([n]) * 100_000):08x}" for n in range(20)
    }


def test_what_was_changed_on_purpose(run: Path) -> None:
    trace = run / "trace/host"
    (trace / "ust/metadata").write_bytes(b"more text")
    shutil.rmtree(trace / "ust/index")
    checksums.changed(trace, trace / "ust/metadata", trace / "ust/index")
    assert checksums.verify(run) == checksums.Verdict(3, SIZE - 88 + 5, [])


def test_a_piece_that_lttng_moves(run: Path) -> None:
    trace = run / "trace/host"
    (trace / "archives").mkdir()
    (trace / "ust").rename(trace / "archives/ust")
    assert checksums.verify(run).damaged == []
    checksums.write(trace)
    (trace / "archives/ust").rename(trace / "ust")
    assert checksums.verify(run).damaged == []


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({}, "has no checksums of host: it was recorded by an older occatrace"),
        ({"ended": None}, "has no checksums yet"),
    ],
)
def test_without_checksums(
    tmp_path: Path, facts: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make(tmp_path, **facts)
    (run.trace / "host").mkdir(parents=True)
    (run.trace / "host/metadata").write_text("x")
    assert main(["report", str(run.path), "--verify"]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("processes", "said"), [((7,), "its trace is not kept"), ((), "nothing was recorded")])
def test_without_a_trace(tmp_path: Path, processes: tuple[int, ...], said: str) -> None:
    with pytest.raises(checksums.Unverified, match=said):
        checksums.verify(make(tmp_path, processes=processes).path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"schema": 1}',
        '{"schema": "one", "files": {}}',
        '{"schema": 1, "files": []}',
        '{"schema": 1, "files": {"a": 1}}',
        '{"schema": 1, "files": {"a": {"bytes": 1, "crc32": "no"}}}',
        '{"schema": 1, "files": {"../../run.json": {"bytes": 1, "crc32": "0"}}}',
        '{"schema": 1, "files": {"/etc/passwd": {"bytes": 1, "crc32": "0"}}}',
    ],
)
def test_a_damaged_list(run: Path, text: str) -> None:
    (run / "trace/host" / checksums.FILE).write_text(text)
    with pytest.raises(checksums.Unverified, match=r"checksums\.json is damaged"):
        checksums.verify(run)


def test_a_damaged_list_keeps_nobody_from_the_report(tmp_path: Path) -> None:
    run = make(tmp_path)
    trace = run.trace / "host/ust/uid/0/64-bit"
    trace.mkdir(parents=True)
    (trace / "metadata").write_text(ctf.HEAD)
    file = run.trace / "host" / checksums.FILE
    file.write_text("{")
    checksums.changed(run.trace / "host", file)
    with tables.open_store(run.path) as store:
        (problem,) = store.problems
    assert problem.startswith(f"{file} is damaged (")


def test_the_report_tells_of_files_that_are_gone(tmp_path: Path) -> None:
    """Also of a stream that was cut between two packets, or is not there: no reader could know."""
    run = make(tmp_path)
    trace = run.trace / "host/ust/uid/0/64-bit"
    trace.mkdir(parents=True)
    (trace / "metadata").write_text(ctf.HEAD)
    for name in ("ch_0", "ch_1", "ch_2"):
        (trace / name).write_bytes(b"")
    checksums.write(run.trace / "host")
    (trace / "ch_1").unlink()
    with tables.open_store(run.path) as store:
        assert list(store.problems) == [f"{trace}/ch_1 is missing (0 bytes)"]
