"""What another user of the machine may do, and a run folder from a stranger. Root gives files and processes to the
stranger; an ordinary user cannot, so that tests which need one are left out there."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.fake import demo_trace, recorded


def _worker() -> int:
    return int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))


# Users that no other test has, in any worker.
STRANGER = 61500 + 2 * _worker()
BYSTANDER = STRANGER + 1


@pytest.fixture
def give() -> Callable[[Path], Path]:
    """Makes something, and all that is below, the stranger's."""
    if os.geteuid() != 0:
        pytest.skip("only root can give files to another user")

    def chown(path: Path) -> Path:
        for folder, below, files in os.walk(path):
            for name in (*below, *files):
                os.lchown(os.path.join(folder, name), STRANGER, STRANGER)
        os.lchown(path, STRANGER, STRANGER)
        return path

    return chown


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder like /tmp, in a path short enough for sockets."""
    path = Path(tempfile.mkdtemp(prefix="oc-", dir="/tmp"))
    path.chmod(0o1777)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder that nothing may touch; `untouched` asks."""
    path = tmp_path / "victim"
    for name in ("index/kept", "buffers/kept", "metadata", "stream_0"):
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"this is {name}")
    return path


def untouched(victim: Path) -> bool:
    names = sorted(str(p.relative_to(victim)) for p in victim.rglob("*") if p.is_file())
    return names == ["buffers/kept", "index/kept", "metadata", "stream_0"] and all(
        (victim / name).read_text() == f"this is {name}" for name in names
    )


@pytest.fixture(scope="session")
def made_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("demo"), demo_trace())


@pytest.fixture
def run(made_run: Path, tmp_path: Path) -> Path:
    """A small run with tables."""
    return Path(shutil.copytree(made_run, tmp_path / "run"))


@pytest.fixture
def crash_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In the place of lttng-crash: it finds a metadata file and a stream in any buffers."""
    tools = tmp_path / "tools"
    tools.mkdir()
    tool = tools / "lttng-crash"
    tool.write_text(
        '#!/bin/sh\nout=${1#--extract=}/ust\nmkdir -p "$out"\n'
        'printf found > "$out/metadata"\nprintf found > "$out/stream_0"\n'
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    return tool
