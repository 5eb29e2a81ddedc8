"""What is asked of LTTng's daemon before it is used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from occatrace.errors import DaemonError
from occatrace.record import daemon


def process(proc: Path, pid: int, root: Path) -> Path:
    """A process's entry as /proc has it."""
    (proc / str(pid)).mkdir(parents=True)
    (proc / str(pid) / "root").symlink_to(root)
    return proc


def test_a_daemon_that_sees_another_folder(tmp_path: Path) -> None:
    """It may run in another mount namespace, where the same path leads elsewhere."""
    folder = tmp_path / "run"
    folder.mkdir()
    proc = process(tmp_path / "proc", 1, Path("/"))
    assert daemon.sees(1, folder, proc)
    elsewhere = tmp_path / "elsewhere"
    process(proc, 2, elsewhere)
    elsewhere.mkdir()
    assert not daemon.sees(2, folder, proc)  # none there
    (elsewhere / folder.relative_to("/")).mkdir(parents=True)
    assert not daemon.sees(2, folder, proc)  # another one
    assert daemon.sees(3, folder, proc)  # nothing known of this process


def test_it_is_not_used_where_it_would_write_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "machines_daemon", lambda: 7)
    monkeypatch.setattr(daemon, "sees", lambda pid, folder: folder != tmp_path)
    ours = daemon.Daemon("session", "0123abcd", None)
    ours.check_folders(Path(os.sep))
    with pytest.raises(DaemonError, match=rf"process 7\) runs in another mount namespace, where {tmp_path} is another"):
        ours.check_folders(Path(os.sep), tmp_path)
    ours.started_ours = True
    ours.check_folders(tmp_path)
    ours.close()
