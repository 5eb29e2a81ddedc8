"""The daemon that occa_prof starts before it has read its command line, and its consumer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.suites.session import OCCA_PROF, PYTHON, Person, environment

# Starts a daemon as occa_prof does, waits for its consumer, and ends it. No session is made.
CONSUMER = """
import os, time
from pathlib import Path
from occatrace.record import keeper
keeper.begin()
begun = keeper._begun
assert os.read(begun.keeper.fd, 1) == b"R"

def below(pid):
    found = {}
    for entry in filter(str.isdecimal, os.listdir("/proc")):
        try:
            name, rest = Path("/proc", entry, "stat").read_text().rpartition(")")[::2]
        except OSError:
            continue
        found.setdefault(int(rest.split()[1]), []).append((int(entry), name.partition("(")[2]))
    out = list(found.get(pid, []))
    for child, _ in found.get(pid, []):
        out += below(child)
    return out

end = time.monotonic() + 60
while not any(name == "lttng-consumerd" for _, name in below(begun.keeper.pid)):
    assert time.monotonic() < end
    time.sleep(0.01)
keeper.drop()
assert not os.path.exists(begun.home) and not os.path.exists(keeper.buffers_folder(begun.run_id))
assert not os.path.exists(f"/proc/{begun.keeper.pid}")
print("ended")
"""


def test_the_consumer_does_not_wait_for_a_session(user: Person) -> None:
    done = user.run([PYTHON, "-c", CONSUMER])
    assert done.stdout == "ended\n", done.stderr


@pytest.mark.parametrize("words", [["no-such-program"], ["--no-such-option", "true"]])
def test_nothing_is_left_where_no_run_begins(user: Person, folder: Path, words: list[str]) -> None:
    done = user.run([*OCCA_PROF, *words], env=environment() | {"TMPDIR": str(folder)}, cwd=folder)
    assert done.returncode in (2, 127)
    assert len(done.stderr.splitlines()) == 1
    assert not list(folder.iterdir())


@pytest.mark.parametrize("elsewhere", [False, True])
def test_the_run_is_that_of_the_daemon(user: Person, folder: Path, probe: Path, elsewhere: bool) -> None:
    """Where its buffers are elsewhere, or not: one daemon, and nothing of another one."""
    shm = folder / "shm"
    sockets = folder / "sockets"
    for place in (shm, sockets):
        place.mkdir()
        place.chmod(0o777 | 0o1000)
    words = ["-q", "-o", str(folder / "run"), *(["--shm-path", str(shm)] if elsewhere else [])]
    env = environment() | {"TMPDIR": str(sockets)}
    done = user.run([*OCCA_PROF, *words, "--", str(probe), "1"], env=env)
    assert done.returncode == 0, done.stderr
    assert json.loads((folder / "run" / "run.json").read_text())["session"]["state"] == "recorded"
    assert not list(shm.iterdir()) and not list(sockets.iterdir())
