"""tools/wheel: the modules of one Python in a wheel, sources that are what they should be, one line where it cannot work."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import packer  # noqa: E402
from packer import base, parts  # noqa: E402


@pytest.fixture
def content(tmp_path: Path) -> Path:
    """The files of a wheel for two Pythons."""
    folder = tmp_path / "content"
    (folder / "occatrace").mkdir(parents=True)
    (folder / "occatrace-1.2.dist-info").mkdir()
    for name in ("_native.cpython-310-x86_64-linux-gnu.so", "_native.cpython-313-x86_64-linux-gnu.so", "core.py"):
        (folder / "occatrace" / name).touch()
    return folder


def test_a_wheel_has_the_modules_of_one_python(content: Path) -> None:
    name = parts.select(content, "3.13")
    assert name == f"occatrace-1.2-cp313-cp313-linux_{os.uname().machine}.whl"
    left = sorted(path.name for path in (content / "occatrace").iterdir())
    assert left == ["_native.cpython-313-x86_64-linux-gnu.so", "core.py"]
    written = (content / "occatrace-1.2.dist-info" / "WHEEL").read_text()
    assert f"Tag: cp313-cp313-linux_{os.uname().machine}\n" in written


def test_a_python_without_modules_is_named(content: Path) -> None:
    with pytest.raises(SystemExit, match=r"^wheel: the modules for Python 3\.12 are not built here$"):
        parts.select(content, "3.12")


def test_a_changed_archive_is_refused_and_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "CACHE", tmp_path / "cache")
    source = tmp_path / "python.tar.xz"
    source.write_bytes(b"changed")
    with pytest.raises(SystemExit, match="not the file that was expected"):
        base.download(source.as_uri(), hashlib.sha256(b"released").hexdigest())
    assert not (tmp_path / "cache" / "downloads" / "python.tar.xz").exists()
    found = base.download(source.as_uri(), hashlib.sha256(b"changed").hexdigest())
    assert found.read_bytes() == b"changed"
    with pytest.raises(SystemExit, match=r"none\.tar\.xz: .*--sources DIR"):
        base.download((tmp_path / "none.tar.xz").as_uri(), "")


def test_archives_come_from_the_mirror_that_is_named_or_that_apt_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(base, "output", lambda *words: "http://apt.example/debian/\nhttp://other.example/debian/\n")
    assert base.mirror_of("http://named.example/debian/") == "http://named.example/debian"
    assert base.mirror_of(None) == "http://apt.example/debian"
    found = {python.short: python.address(None) for python in base.PYTHONS}
    assert found["3.11"] == "http://apt.example/debian/pool/main/p/python3.11/python3.11_3.11.2.orig.tar.gz"
    assert found["3.12"] == "https://www.python.org/ftp/python/3.12.3/Python-3.12.3.tar.xz"
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(SystemExit, match="name one by --mirror URL"):
        base.mirror_of(None)


def test_an_ordinary_user_is_told_what_works_without_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    with pytest.raises(SystemExit, match="--here packs what tools/setup built"):
        base.prepare(["3.11"], None, None, 1)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(SystemExit, match="needs debootstrap and bubblewrap: apt-get install .*, as root"):
        packer.system_tools("debootstrap", "bwrap=bubblewrap")


@pytest.mark.parametrize(
    ("name", "bundled"),
    [
        ("liblttng-ust-tracepoint.so.1", "liboctng-ust-tracepoint.so.1"),
        ("liburcu-bp.so.8", "liburcu-bp-occatrace.so.8"),
    ],
)
def test_bundled_libraries_have_names_of_their_own(name: str, bundled: str) -> None:
    assert parts.new_name(name) == bundled
