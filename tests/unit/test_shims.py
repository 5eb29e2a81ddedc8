"""Where shims stand before a vendor's library, and that none does where there is no such library."""

from __future__ import annotations

from pathlib import Path

import pytest

from occatrace.record import shims
from occatrace.run import linker


@pytest.fixture
def vendor(tmp_path: Path) -> Path:
    folder = tmp_path / "vendor"
    folder.mkdir()
    (folder / "libcuda.so.1").write_bytes(b"\x7fELF\x02 driver")
    return folder


def test_an_absent_library_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linker, "CACHE", tmp_path / "none")
    monkeypatch.setattr(linker, "FOLDERS", ())
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
