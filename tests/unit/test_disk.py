"""Disks without room: how an error is known, and what is said."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import duckdb
import pytest

from occatrace import errors
from occatrace.core import disk
from occatrace.lttng.packets import METADATA, METADATA_HEADER, METADATA_MAGIC, restore_metadata
from occatrace.run import folder as runs
from occatrace.store import tables


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_errors_of_a_full_disk(number: int) -> None:
    assert disk.is_full(OSError(number, os.strerror(number)))
    assert disk.is_full(duckdb.IOException(f'Could not write to file "x": {os.strerror(number)}'))


def test_the_cause_of_an_error_counts() -> None:
    try:
        try:
            raise OSError(errno.ENOSPC, "full")
        except OSError as error:
            raise errors.StoreError("no tables") from error
    except errors.StoreError as error:
        assert disk.is_full(error)


def test_other_errors() -> None:
    assert not disk.is_full(OSError(errno.EACCES, "no"))
    assert not disk.is_full(ValueError("No space left on device"))  # somebody's text
    assert not disk.is_full(None)


def test_no_room_anywhere_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = runs.create(tmp_path / "run", runs.RunInfo(program=("p",), ended="now", id="x"))

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(tables, "_build", full)
    with pytest.raises(errors.StoreError, match=r"no space left on device: the disk of .*/run is full .*TMPDIR"):
        tables.open_store(run.path)
    assert sorted(path.name for path in run.path.iterdir()) == [".tables.lock", "run.json"]


def test_a_reserve_takes_room_and_gives_it_back(tmp_path: Path) -> None:
    reserve = disk.Reserve(tmp_path, "host")
    reserve.make()
    (file,) = tmp_path.iterdir()
    assert file.stat().st_size == 2 << 20
    assert not reserve.is_full(tmp_path / "no log")
    (tmp_path / "log").write_text("PERROR: Error in write mmap: No space left on device (in x)")
    assert reserve.is_full(tmp_path / "log")
    reserve.release()
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def packets(text: bytes) -> bytes:
    """Metadata as LTTng writes it: packets of 4096 bytes with a header of 37."""
    room = 4096 - METADATA_HEADER
    out = b""
    for begin in range(0, len(text), room):
        part = text[begin : begin + room]
        head = METADATA.pack(METADATA_MAGIC, bytes(16), 0, 8 * (METADATA_HEADER + len(part)), 8 * 4096)
        out += (head.ljust(METADATA_HEADER, b"\0") + part).ljust(4096, b"\0")
    return out


@pytest.mark.parametrize(
    ("written", "restored"),
    [(packets(b"a" * 9000 + b"b" * 900), False), (packets(b"a" * 9000), True), (packets(b"a" * 9000 + b"b" * 900)[:-9], True),
     (b"", True)],
    ids=["all", "up to a registration", "its last packet cut off", "nothing"],
)  # fmt: skip
def test_metadata_for_which_there_was_no_room(tmp_path: Path, written: bytes, restored: bool) -> None:
    """It is written again from the copy beside the buffers, also where what is there looks complete."""
    copy, target = (tmp_path / name / "ust/uid/0/64-bit/metadata" for name in ("buffers", "trace"))
    for path in (copy, target):
        path.parent.mkdir(parents=True)
    text = b"a" * 9000 + b"b" * 900
    copy.write_bytes(text)
    target.write_bytes(written)
    restore_metadata(tmp_path / "buffers", tmp_path / "trace")
    assert target.read_bytes() == (text if restored else written)
    assert [path.name for path in target.parent.iterdir()] == ["metadata"]
