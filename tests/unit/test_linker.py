"""The cache of the dynamic linker."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from occatrace.run import install, linker


def test_it_is_read_as_ldconfig_does() -> None:
    said = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    machine = {"x86_64": "x86-64", "aarch64": "AArch64"}[os.uname().machine]
    wanted: dict[str, list[str]] = {}
    for name, path in re.findall(rf"^\t(\S+) \(libc6,{machine}\) => (\S+)$", said, re.MULTILINE):
        wanted.setdefault(name, []).append(path)
    assert len(wanted) > 100
    assert linker.known() == wanted


def cache(name: str, *paths: str, flags: Mapping[str, int] | None = None) -> bytes:
    """A cache with these paths of a library, in this order; `flags`: of those that are of another kind."""
    entries, texts = b"", b""
    at = linker._HEADER.size + len(paths) * linker._ENTRY.size
    for path in paths:
        kind = (flags or {}).get(path, linker._KINDS[os.uname().machine])
        entries += linker._ENTRY.pack(kind, at, at + len(name) + 1, 0, 0)
        texts += f"{name}\0{path}\0".encode()
        at += len(name) + len(path) + 2
    return linker._HEADER.pack(linker._MAGIC, len(paths), len(texts)) + entries + texts


def test_of_several_the_first_counts_also_behind_an_older_cache(tmp_path: Path) -> None:
    file, paths = tmp_path / "cache", ["/cuda/libOpenCL.so.1", "/usr/lib/libOpenCL.so.1"]
    file.write_bytes(b"ld.so-1.7.0\0" + bytes(20) + cache("libOpenCL.so.1", *paths))
    assert linker.known(file) == {"libOpenCL.so.1": paths}


def test_what_is_of_another_processor_or_gone_is_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library, narrow = tmp_path / "vendor" / "libcuda.so.1", tmp_path / "narrow" / "libcuda.so.1"
    for path in (library, narrow):
        path.parent.mkdir()
        path.touch()
    paths = [str(narrow), str(tmp_path / "gone" / "libcuda.so.1"), str(library)]
    (tmp_path / "cache").write_bytes(cache("libcuda.so.1", *paths, flags={str(narrow): 0x0003}))
    monkeypatch.setattr(linker, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(linker, "FOLDERS", ())
    assert linker.find("libcuda.so.1", {}) == library
    assert linker.find("libamdhip64.so.6", {}) is None


@pytest.mark.parametrize("data", [None, b"", b"glibc-ld.so.cache1.1", b"glibc-ld.so.cache1.1" + b"\xff" * 40])
def test_no_cache_or_another_form(tmp_path: Path, data: bytes | None) -> None:
    file = tmp_path / f"cache{len(data or b'')}"
    if data is not None:
        file.write_bytes(data)
    assert linker.known(file) == {}


def test_the_loader_of_opencl_is_the_one_that_programs_get(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA's toolkit brings a loader without layers, before the system's in the linker's cache."""
    library = tmp_path / "libOpenCL.so.1"
    library.touch()
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    monkeypatch.setattr(linker, "known", lambda _: {library.name: [str(library)]})
    assert install.opencl_loader() == library
    other = tmp_path / "other" / library.name
    other.parent.mkdir()
    other.touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(other.parent))
    assert install.opencl_loader() == other
