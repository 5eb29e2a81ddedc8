"""Sums of calls by place, and the build id by which a file is known."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from occatrace import _native
from occatrace.ingest.call_sites import Module, why_not
from occatrace.ingest.elf import build_id


def test_sums_by_thread_and_place() -> None:
    thread = np.array([0, 0, 1, 0, 0], np.int32)
    caller = np.array([0x10, 0x20, 0x10, 0x10, 0], np.uint64)
    start = np.array([100, 200, 300, 400, 500], np.uint64)
    end = np.array([110, 230, 290, 440, 600], np.uint64)  # the clock of the third went back
    failed = np.array([False, False, False, True, False])
    moved = np.array([1, 2, 4, 8, 16], np.uint64)
    found = _native.fold_callers(thread, caller, start, end, failed, moved)
    rows = list(
        zip(
            *(found[name].tolist() for name in ("slot", "caller", "since", "calls", "failed", "total", "bytes")),
            strict=True,
        )
    )
    assert rows == [(0, 0x10, 110, 2, 1, 50, 1), (0, 0x20, 230, 1, 0, 30, 2), (1, 0x10, 290, 1, 0, 0, 4)]
    assert _native.fold_callers(thread, caller, start, end)["bytes"].tolist() == [0, 0, 0]


def test_many_places_are_kept_apart() -> None:
    count = 5000
    caller = np.tile(np.arange(1, count + 1, dtype=np.uint64) * 64, 2)
    times = np.arange(2 * count, dtype=np.uint64)
    found = _native.fold_callers(np.zeros(2 * count, np.int32), caller, times, times + np.uint64(1))
    assert found["caller"].tolist() == caller[:count].tolist()
    assert set(found["calls"].tolist()) == {2}


def _library(folder: Path, *options: str) -> Path:
    (folder / "one.c").write_text("int one(void) { return 1; }\n", encoding="utf-8")
    subprocess.run(["gcc", "-shared", "-fPIC", *options, folder / "one.c", "-o", folder / "one.so"], check=True)
    return folder / "one.so"


@pytest.mark.compiles
def test_build_id(tmp_path: Path) -> None:
    assert build_id(_library(tmp_path, "-Wl,--build-id=0x00c0ffee")) == "00c0ffee"
    assert build_id(_library(tmp_path, "-Wl,--build-id=none")) == ""
    text = tmp_path / "text"
    text.write_text("no program" * 20, encoding="utf-8")
    assert build_id(text) is None
    assert build_id(tmp_path / "absent") is None
    cut = tmp_path / "cut"
    cut.write_bytes((tmp_path / "one.so").read_bytes()[:100])
    assert build_id(cut) in ("", None)


@pytest.mark.compiles
@pytest.mark.parametrize(
    ("build", "expected"),
    [
        ("00c0ffee", ""),
        ("00c0ffef", "is not the file that was run: it was built again since"),
        ("", "is not the file that was run: it was built again since"),
    ],
)
def test_only_the_file_that_was_run_is_asked(build: str, expected: str, tmp_path: Path) -> None:
    library = _library(tmp_path, "-Wl,--build-id=0x00c0ffee")
    assert why_not(Module(str(library), build, 0)) == (f"{library} {expected}" if expected else "")


@pytest.mark.compiles
def test_without_a_build_id_the_time_decides(tmp_path: Path) -> None:
    library = _library(tmp_path, "-Wl,--build-id=none")
    changed = library.stat().st_mtime_ns
    assert why_not(Module(str(library), "", changed + 1)) == ""
    assert "built again" in why_not(Module(str(library), "", changed - 1))
    assert why_not(Module(str(tmp_path / "absent.so"), "", changed)) == f"{tmp_path}/absent.so is not there (any more)"
    os.mkfifo(tmp_path / "pipe")  # nothing is read from it: no writer would ever come
    assert "is no program" in why_not(Module(str(tmp_path / "pipe"), "", changed))
