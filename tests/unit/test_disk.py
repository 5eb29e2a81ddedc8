"""Disks without room: how an error is known, and what is said."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import duckdb
import pytest

from occatrace import errors
from occatrace.core import disk
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
