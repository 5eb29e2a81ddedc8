"""Sockets in shared folders: who listens there, and who asks, is checked on both ends."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from occatrace.cli.dispatch import main
from occatrace.cli.start import control_path, sessions
from occatrace.core import files, places
from occatrace.record import job, session
from occatrace.run import install
from occatrace.run.ranks import Place
from tests.support.suites.security import STRANGER, untouched

Give = Callable[[Path], Path]
AS_STRANGER = ("setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups")
LISTEN = """
import os, socket, sys
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o777)
listener.listen(8)
print("ready", flush=True)
while True:
    client = listener.accept()[0]
    try:
        client.send(sys.argv[2].encode())
    except OSError:
        pass
    client.close()
"""
CONNECT = """
import socket, sys
client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
client.connect(sys.argv[1])
client.send(sys.argv[2].encode())
print(client.recv(100))
"""


@contextmanager
def stranger_listens(path: Path, answer: str = "OK") -> Iterator[None]:
    if os.geteuid() != 0:
        pytest.skip("only root can be another user")
    with subprocess.Popen(
        [*AS_STRANGER, "/usr/bin/python3", "-c", LISTEN, str(path), answer], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout and process.stdout.readline() == "ready\n"
            yield
        finally:
            process.kill()


@pytest.fixture(autouse=True)
def place_for_sockets(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)


def one_line(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main([str(word) for word in words]) == 2, words
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("occa_prof: ") and err.count("\n") == 1, err
    return err


def test_start_and_stop_do_not_believe_a_stranger(
    tmp_path: Path, victim: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    evil = tmp_path / "evil"
    evil.mkdir()
    facts = {"schema": 1, "program": ["x"], "id": "x/../../victim", "ended": None, "session": {"shm": str(tmp_path)}}
    (evil / "run.json").write_text(json.dumps(facts))
    control = control_path("mine")
    with stranger_listens(control, json.dumps({"run": str(evil), "state": "recorded"})):
        assert f"uid {STRANGER}" in one_line(capsys, "start", "mine")
        assert f"uid {STRANGER}" in one_line(capsys, "stop", "mine")
        assert sessions() == []
        os.lchown(control, 0, 0)  # now only who listens tells
        assert "another user listens there" in one_line(capsys, "start", "mine")
        assert "another user listens there" in one_line(capsys, "stop", "mine")
    assert untouched(victim) and control.exists()


@pytest.mark.parametrize("answer", ["", "{}", "[", '{"run": 3, "state": "recorded"}'])
def test_an_answer_of_stop_that_cannot_be_understood(answer: str, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(control_path("mine")))
        listener.listen(1)

        def serve() -> None:
            client, _ = listener.accept()
            if answer:
                client.send(answer.encode())
            client.close()

        server = threading.Thread(target=serve)
        server.start()
        assert "without an answer" in one_line(capsys, "stop", "mine")
        server.join()


def test_a_file_in_the_place_of_the_control_socket_stays(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    control = control_path("mine")
    control.write_text("kept")
    assert "is not a socket" in one_line(capsys, "start", "mine")
    assert control.read_text() == "kept"


def test_sockets_lie_where_others_cannot_replace_them(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert next(files.shared_places()) == place
    place.chmod(0o777)  # without the sticky bit everybody may rename what is ours
    assert place not in files.shared_places()
    place.chmod(0o1777)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert next(files.shared_places()) == tmp_path
    if os.geteuid() == 0:
        os.chown(tmp_path, STRANGER, STRANGER)  # as after su
        assert next(files.shared_places()) == place


@pytest.mark.parametrize("how", ["foreign", "writable", "link", "listener"])
def test_ranks_do_not_meet_where_a_stranger_waits(
    place: Path, tmp_path: Path, how: str, give: Give, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "USUAL", ())
    desk = job.find_desk("0" * 12)
    folder = desk.folder
    assert folder.parent == place and desk.listener
    desk.close()
    desk.listener.close()
    (folder / "node").unlink()
    if how == "foreign":
        give(folder)
        said = rf"belongs to another user \(uid {STRANGER}\)"
    elif how == "writable":
        folder.chmod(0o770)
        said = "can be written to by other users"
    elif how == "link":
        folder.rename(tmp_path / "elsewhere")
        folder.symlink_to(tmp_path / "elsewhere")
        said = "is not a folder"
    else:
        give(folder)
        with stranger_listens(folder / "node"):
            os.chown(folder, 0, 0)
            os.lchown(folder / "node", 0, 0)
            with pytest.raises(job.JobError, match="another user listens there"):
                job.find_desk("0" * 12)
        return
    with pytest.raises(job.JobError, match=said):
        job.find_desk("0" * 12)


def test_a_stranger_is_not_taken_for_a_rank(place: Path) -> None:
    desk = job.find_desk("0" * 12)
    assert desk.listener
    assert files.accept(desk.listener), "our own"
    if os.geteuid() == 0:
        desk.folder.chmod(0o711)
        (desk.folder / "node").chmod(0o777)
        words = [*AS_STRANGER, "/usr/bin/python3", "-c", CONNECT, str(desk.folder / "node"), '{"rank": 0, "pid": 1}']
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as stranger:
            assert files.accept(desk.listener) is None
            assert stranger.communicate()[0] in (b"", b"b''\n")
    desk.close()
    desk.listener.close()
    job.clear_desk(desk.folder)


def test_nodes_do_not_meet_in_a_strangers_file(place: Path, tmp_path: Path, give: Give) -> None:
    """The run goes beside it, in a folder in which others may write, too."""
    meeting = job.Meeting.of(job.key_of(Place(rank=0, size=2, job="1.0")), place)
    meeting.tell(folder=str(tmp_path), id="00000000")
    give(meeting.file)
    for ask in (meeting.call, lambda: meeting.wait(1)):
        with pytest.raises(
            job.JobError, match=rf"belongs to another user \(uid {STRANGER}\): choose a folder of your own"
        ):
            ask()
    meeting.file.unlink()
    meeting.file.symlink_to(tmp_path / "other")
    (tmp_path / "other").write_text(json.dumps({"folder": str(tmp_path), "id": "00000000"}))
    with pytest.raises(job.JobError, match="did not make a folder"):
        meeting.wait(0)


def test_a_program_does_not_register_with_a_stranger(place: Path) -> None:
    """Its run has ended, and somebody else has made a folder of the same name."""
    path = place / "register"
    program = [sys.executable, "-c", "import ctypes; print(ctypes.CDLL(None).occatrace_start())"]
    env = {**os.environ, "LD_PRELOAD": str(install.PRELOAD), "OCCATRACE_SOCKET": str(path)}
    with stranger_listens(path, "OK"):
        done = subprocess.run(program, env=env, capture_output=True, text=True, timeout=300)
    assert done.stdout == "0\n"
    assert "another user listens at OCCATRACE_SOCKET" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("how", ["own", "foreign", "short", "pipe", "link"])
def test_a_strangers_switch_is_not_mapped(place: Path, tmp_path: Path, how: str, give: Give) -> None:
    """A file that is cut short would end the program by SIGBUS, a pipe would hold it up."""
    page = place / "switch"
    if how == "pipe":
        os.mkfifo(page)
    elif how == "link":
        (tmp_path / "switch").write_bytes(b"\1" * 4096)
        page.symlink_to(tmp_path / "switch")
    else:
        page.write_bytes(b"\1" * (0 if how == "short" else 4096))
    if how == "foreign":
        give(page)
    code = "import ctypes; ctypes.CDLL(None).occatrace_start(); print(open('/proc/self/maps').read().count('/switch'))"
    env = {**os.environ, "LD_PRELOAD": str(install.PRELOAD), "OCCATRACE_CONTROL": str(page)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, f"{how == 'own':d}\n"), done.stderr


def started_apart(script: str, env: dict[str, str] | None = None) -> list[int]:
    """Numbers that a shell says, which is nobody's child."""
    with subprocess.Popen(["setsid", "-f", "sh", "-c", script], stdout=subprocess.PIPE, env=env) as shell:
        assert shell.stdout
        return list(map(int, shell.stdout.readline().split()))


def test_a_stranger_cannot_add_processes_to_roots_run(place: Path, give: Give) -> None:
    """Everybody reaches that socket: a program below the run may be another user's."""

    class Asked(session.Session):
        def __init__(self) -> None:
            self.path = place / "register"

        @property
        def socket_path(self) -> Path:
            return self.path

    asked = Asked()
    sleep = [*AS_STRANGER, "sleep", "1000"]
    below = subprocess.Popen(sleep)
    alone, _ = started_apart(f"{' '.join(sleep)} & echo $! $$")
    env = {**os.environ, "OCCATRACE_SOCKET": str(asked.path)}
    of_rank, parent = started_apart(f"{' '.join(sleep)} & echo $! $$; exec sleep 1000", env)
    try:
        assert asked._is_of_run(below.pid, STRANGER), "its parent is us"
        assert asked._is_of_run(of_rank, STRANGER), "its parent is root's, with our socket in its environment"
        assert not asked._is_of_run(alone, STRANGER)
        assert asked._is_of_run(alone, 0), "root's own"
    finally:
        below.kill()
        below.wait()
        for pid in (alone, of_rank, parent):
            os.kill(pid, 9)
