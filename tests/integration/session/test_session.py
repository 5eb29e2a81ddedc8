"""The session alone: daemon, keeper, registration, buffers; with a traced program of the tests."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.suites.session import (
    USER,
    Driven,
    Person,
    left_of,
    nothing_left,
    processes_named,
    processes_of,
    wait_for,
)

Drive = Callable[[Person], Driven]


def has_written(running: subprocess.Popen[str]) -> None:
    """Waits for a probe that sleeps once its events are written."""
    assert running.stdout and running.stdout.readline() == "ready\n"


def test_every_event_and_nothing_left(person: Person, drive: Drive, probe: Path) -> None:
    driven = drive(person)
    result = driven.run(probe, 1000)
    assert result["state"] == "recorded", result
    assert result["pids"] == [result["program"]]
    assert result["notes"] == []
    assert result["daemon"] == "own"
    assert driven.events() == 1000
    nothing_left(driven.run_id)
    assert driven.output.stat().st_mode & 0o077 == 0


def test_program_that_never_registers(person: Person, drive: Drive, probe: Path) -> None:
    driven = drive(person)
    result = driven.run(probe, 0, "exit", 7)
    assert (result["state"], result["status"], result["pids"]) == ("unused", 7, [])
    nothing_left(driven.run_id)


def test_end_is_quick_without_registration(user: Person, drive: Drive, probe: Path) -> None:
    """LTTng's daemon waits for ever when it ends a session without buffers whose folder somebody else has made."""
    for _ in range(8):
        assert drive(user).run(probe, 0)["notes"] == []  # else: it does not answer any more


def test_daemon_that_hangs(user: Person, drive: Drive, probe: Path) -> None:
    """Stopped for good, it is killed in the end, and nothing is left."""
    driven = drive(user)
    running = user.start(driven.command(probe, 100, "sleep", 1), stderr=subprocess.DEVNULL)
    has_written(running)
    daemons = processes_named(driven.run_id, "lttng-sessiond")
    (pid,) = driven.pids()
    for daemon in daemons:
        os.kill(daemon, signal.SIGSTOP)
    os.kill(pid, signal.SIGKILL)
    running.wait(300)
    nothing_left(driven.run_id)


def test_killed_program_keeps_its_events(user: Person, drive: Drive, probe: Path) -> None:
    driven = drive(user)
    result = driven.run(probe, 500, "kill", int(signal.SIGKILL))
    assert result["status"] == -signal.SIGKILL
    assert driven.events() == 500
    nothing_left(driven.run_id)


def test_many_processes(person: Person, drive: Drive, probe: Path) -> None:
    driven = drive(person)
    result = driven.run("sh", "-c", f"for i in $(seq 20); do {probe} 50 & done; wait")
    assert result["state"] == "recorded"
    assert len(result["pids"]) == 20
    assert driven.events() == 1000


@pytest.mark.parametrize("name", ["user", "root"])
def test_two_runs_at_once(people: dict[str, Person], drive: Drive, probe: Path, name: str) -> None:
    if name not in people:
        pytest.skip("needs root and mount namespaces")
    one, two = drive(people[name]), drive(people[name])
    # In one namespace: root's runs share a daemon there, which one of them starts and the last one ends.
    script = f"""
        {" ".join(one.command(probe, 300, "sleep", 0.4))} & first=$!
        {" ".join(two.command(probe, 700, "sleep", 0.8))} & second=$!
        wait $first $second
        for i in $(seq 600); do [ -e /run/occatrace.lock ] || break; sleep 0.1; done
        echo left $(ls /run/occatrace.lock /run/lttng/client-lttng-sessiond 2> /dev/null)
    """
    done = people[name].run(["sh", "-c", script])
    assert [one.events(), two.events()] == [300, 700], done.stderr
    if name == "root":
        assert done.stdout.splitlines()[-1] == "left"
    nothing_left(one.run_id)
    nothing_left(two.run_id)


def test_one_run_after_the_other(root: Person, drive: Drive, probe: Path) -> None:
    """A run that begins while the last one's daemon is being ended waits for that."""
    runs = [drive(root) for _ in range(4)]
    script = " && ".join(" ".join(r.command(probe, 100)) for r in runs)
    done = root.run(["sh", "-c", script])
    assert done.returncode == 0, done.stderr
    assert [r.events() for r in runs] == [100] * 4


def test_root_uses_the_daemon_that_runs_and_leaves_it(root: Person, drive: Drive, probe: Path) -> None:
    driven = drive(root)
    script = f"""
        lttng-sessiond --daemonize --no-kernel > /dev/null 2>&1
        lttng -q create somebody --output={driven.output}.other
        lttng -q enable-event -u 'nothing:*' && lttng -q start
        {" ".join(driven.command(probe, 200))}
        lttng list
        kill $(cat /run/lttng/lttng-sessiond.pid)
    """
    done = root.run(["sh", "-c", script])
    assert '"daemon": "machine"' in done.stdout, done.stderr
    assert "somebody" in done.stdout
    assert f"occatrace-{driven.run_id}" not in done.stdout
    assert driven.events() == 200
    nothing_left(driven.run_id)


def test_root_records_its_own_processes_only(root: Person, drive: Drive, probe: Path) -> None:
    """Another program with the same events runs meanwhile and is not asked for."""
    driven, other = drive(root), drive(root)
    script = f"""
        {" ".join(driven.command(probe, 200, "sleep", 1.5))} &
        sleep 0.6
        {" ".join(other.command(probe, 900))}
        wait
    """
    done = root.run(["sh", "-c", script])
    assert [driven.events(), other.events()] == [200, 900], done.stderr


@pytest.mark.parametrize("group", ["", "tracing"])
def test_user_beside_roots_daemon(root: Person, drive: Drive, probe: Path, group: str) -> None:
    """A member of the group `tracing`, too, gets a daemon of its own."""
    if group and subprocess.run(["getent", "group", group], capture_output=True, check=False).returncode != 0:
        pytest.skip(f"no group {group}")
    driven = drive(root)
    groups = f"--groups={group}" if group else "--clear-groups"
    script = f"""
        lttng-sessiond --daemonize --no-kernel > /dev/null 2>&1
        setpriv --reuid={USER} --regid={USER} {groups} {" ".join(driven.command(probe, 60))}
        kill $(cat /run/lttng/lttng-sessiond.pid)
    """
    done = root.run(["sh", "-c", script])
    assert '"daemon": "own"' in done.stdout, done.stderr
    assert driven.events() == 60
    nothing_left(driven.run_id)


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_killed_owner_leaves_nothing(person: Person, drive: Drive, probe: Path, sent: signal.Signals) -> None:
    driven = drive(person)
    running = person.start(driven.command(probe, 400, "sleep", 300), stderr=subprocess.DEVNULL)
    has_written(running)
    (pid,) = driven.pids()
    os.kill(pid, sent)
    running.wait(300)
    # The program goes on; it is not occa_prof's to kill. All else goes without waiting for it.
    program = processes_named(driven.run_id, "probe")
    wait_for(lambda: left_of(driven.run_id) == [f"process {p}" for p in program])
    for each in program:
        os.kill(each, signal.SIGKILL)
    nothing_left(driven.run_id)
    assert driven.events() == 400


def test_killed_keeper_leaves_no_process(user: Person, drive: Drive, probe: Path) -> None:
    driven = drive(user)
    running = user.start(driven.command(probe, 100, "sleep", 1))
    has_written(running)
    keeper = subprocess.run(
        ["pgrep", "-o", "-f", f"occatrace-keeper.*{driven.run_id}"], capture_output=True, text=True, check=True
    )
    os.kill(int(keeper.stdout), signal.SIGKILL)
    out, _ = running.communicate(timeout=300)
    assert "went away" in out
    wait_for(lambda: processes_of(driven.run_id) == [])


def test_buffers_are_made_before_a_process_asks(user: Person, drive: Drive) -> None:
    driven = drive(user)
    running = user.start(driven.command("sleep", 1000))
    wait_for(lambda: any(p.stat().st_size for p in Path("/dev/shm").glob(f"*{driven.run_id}/buffers/**/occatrace_0")))
    for pid in processes_named(driven.run_id, "sleep"):
        os.kill(pid, signal.SIGTERM)
    running.communicate(timeout=300)
    assert not list(driven.output.rglob("metadata")) or driven.events() == 0
    nothing_left(driven.run_id)


def test_what_a_massacre_left_is_swept_by_the_next_run(user: Person, drive: Drive, probe: Path) -> None:
    """Keeper, daemon and owner are all killed at once, so that nobody can tidy."""
    driven = drive(user)
    running = user.start(driven.command(probe, 100, "sleep", 300), stderr=subprocess.DEVNULL)
    has_written(running)
    victims = processes_of(driven.run_id)
    for sent in (signal.SIGSTOP, signal.SIGKILL):  # stopped first, so that none outlives another
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, sent)
    running.wait(300)
    wait_for(lambda: processes_of(driven.run_id) == [])
    left = [Path(name) for name in left_of(driven.run_id)]
    assert {p.parent for p in left} == {Path("/tmp"), Path("/dev/shm")}
    for path in left:
        os.utime(path, (0, 0))
    drive(user).run(probe, 1)
    nothing_left(driven.run_id)


def test_shared_memory_too_small_is_told(people: dict[str, Person], drive: Drive, probe: Path) -> None:
    if "user_small_shm" not in people:
        pytest.skip("needs root and mount namespaces")
    driven = drive(replace(people["user_small_shm"], mounts="mount -t tmpfs -o size=128k,mode=1777 none /dev/shm"))
    result = driven.run(probe, 10)
    assert re.search(r"/dev/shm has \d+ KiB free.*--shm-path", result["error"])
    nothing_left(driven.run_id)


def test_small_buffers_are_told(people: dict[str, Person], drive: Drive, probe: Path) -> None:
    if "user_small_shm" not in people:
        pytest.skip("needs root and mount namespaces")
    driven = drive(replace(people["user_small_shm"], mounts="mount -t tmpfs -o size=4m,mode=1777 none /dev/shm"))
    result = driven.run(probe, 100)
    assert "small trace buffers" in result["notes"][0]
    assert driven.events() == 100
    nothing_left(driven.run_id)


def test_no_daemon_installed(user: Person, drive: Drive, probe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCCATRACE_SESSIOND", "/nonexistent")
    driven = drive(user)
    assert "lttng-sessiond is not installed" in driven.run(probe, 1)["error"]
    nothing_left(driven.run_id)


def test_daemon_that_fails(
    user: Person, drive: Drive, probe: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = folder / "fake"
    fake.write_text("#!/bin/sh\necho 'Error: no such luck' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("OCCATRACE_SESSIOND", str(fake))
    driven = drive(user)
    result = driven.run(probe, 1)
    assert result["state"] == "failed"
    assert "no such luck" in result["problem"]
    assert result["status"] == 0
    nothing_left(driven.run_id)
