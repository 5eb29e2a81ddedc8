"""Where shims stand before a vendor's library, and that none does where there is no such library."""

from __future__ import annotations

from pathlib import Path

import pytest

from occatrace.record import shims


@pytest.fixture
def vendor(tmp_path: Path) -> Path:
    folder = tmp_path / "vendor"
    folder.mkdir()
    (folder / "libcuda.so.1").write_bytes(b"\x7fELF\x02 driver")
    return folder


def test_an_absent_library_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shims, "CACHE", tmp_path / "none")
    assert shims.environment({"LD_LIBRARY_PATH": str(tmp_path)}, tmp_path) == {}
    assert list(tmp_path.iterdir()) == []


def test_the_shim_comes_first_and_the_real_library_has_another_name(vendor: Path, tmp_path: Path) -> None:
    found = shims.environment({"LD_LIBRARY_PATH": f"{vendor}:/elsewhere"}, tmp_path)
    links = tmp_path / "shims"
    assert found == {"LD_LIBRARY_PATH": f"{links}:{vendor}:/elsewhere"}
    assert (links / "libcuda.so.1").resolve() == shims.SHIMS[0].library.resolve()
    assert (links / "libcuda_real.so.1").resolve() == vendor / "libcuda.so.1"
    # Asked again, for the environment of a child: the shim itself is no vendor's library.
    assert shims.environment(found, tmp_path / "again") == {}


def test_the_loaders_cache_is_read(vendor: Path, tmp_path: Path) -> None:
    cache = tmp_path / "ld.so.cache"
    narrow = tmp_path / "narrow"
    narrow.mkdir()
    (narrow / "libcuda.so.1").write_bytes(b"\x7fELF\x01 of 32 bits")
    names = [str(narrow / "libcuda.so.1"), "libcuda.so.1", str(vendor / "libcuda.so.1"), "libcuda.so.1.2"]
    cache.write_bytes(b"glibc-ld.so.cache\0" + b"\0".join(n.encode() for n in names) + b"\0")
    assert shims.vendor_library("libcuda.so.1", {}, cache) == vendor / "libcuda.so.1"
    assert shims.vendor_library("libamdhip64.so.6", {}, cache) is None
