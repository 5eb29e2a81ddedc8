"""Programs and people for the tests of the session: an ordinary user, and root in a mount namespace where /run is its
own (no daemon runs there), each also with 64 MB of /dev/shm."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
IS_ROOT = os.geteuid() == 0
# Workers of a test run share /tmp but not /dev/shm: each has a user of its own, so that none removes what another one left.
USER = 61234 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) if IS_ROOT else os.getuid()
AS_USER = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups")


def is_readable() -> bool:
    """Whether an ordinary user can read this clone: one below /root it cannot."""
    file = str(ROOT / "occatrace" / "__init__.py")
    return not IS_ROOT or subprocess.run([*AS_USER, "test", "-r", file], check=False).returncode == 0


# Where everybody sees the clone. Mounted for each command, in its own namespace, when not where it is.
CLONE = ROOT if is_readable() else Path("/mnt")
SHOW_CLONE = "" if CLONE == ROOT else f"mount --bind '{ROOT}' '{CLONE}'"
PYTHON = sys.executable.replace(str(ROOT), str(CLONE), 1)
PROGRAMS = CLONE / "tests" / "programs" / "session"
OCCA_PROF = [PYTHON, "-m", "occatrace.cli"]


def environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("HOME", "LTTNG_HOME", "XDG_RUNTIME_DIR")}
    return kept | {"PYTHONPATH": str(CLONE), "PYTHONDONTWRITEBYTECODE": "1"}


@dataclass(frozen=True)
class Person:
    """Somebody who runs commands, perhaps in a mount namespace of its own."""

    name: str
    prefix: Sequence[str] = ()
    mounts: str = ""

    def words(self, command: Sequence[str]) -> list[str]:
        mounts = [m for m in (SHOW_CLONE, self.mounts) if m]
        if mounts:
            script = " && ".join(["mount --make-rprivate /", *mounts, 'exec "$@"'])
            return ["unshare", "-m", "sh", "-c", script, "sh", *self.prefix, *command]
        return [*self.prefix, *command]

    def run(self, command: Sequence[str], **more: Any) -> subprocess.CompletedProcess[str]:
        more = dict[str, Any](timeout=300, capture_output=True, env=environment()) | more
        done: subprocess.CompletedProcess[str] = subprocess.run(self.words(command), text=True, check=False, **more)
        return done

    def start(self, command: Sequence[str], **more: Any) -> subprocess.Popen[str]:
        more = dict[str, Any](stdout=subprocess.PIPE, env=environment()) | more
        process: subprocess.Popen[str] = subprocess.Popen(self.words(command), text=True, **more)
        return process


OWN_RUN = "mount -t tmpfs none /run"
SMALL_SHM = "mount -t tmpfs -o size=64m,mode=1777 none /dev/shm"
ORDINARY = Person("user", AS_USER if IS_ROOT else ())
PEOPLE = {
    "user": ORDINARY,
    "root": Person("root", (), OWN_RUN),
    "user_small_shm": Person("user_small_shm", AS_USER, SMALL_SHM),
    "root_small_shm": Person("root_small_shm", (), f"{OWN_RUN} && {SMALL_SHM}"),
}


@pytest.fixture(scope="session")
def people() -> dict[str, Person]:
    """Those that can be had here."""
    check = ORDINARY.run([PYTHON, "-c", "import occatrace._session"])
    if check.returncode != 0:
        pytest.skip(f"an ordinary user cannot read this clone: {check.stderr.strip().splitlines()[-1]}")
    if IS_ROOT and PEOPLE["root"].run(["true"]).returncode == 0:
        return PEOPLE
    return {"user": ORDINARY}


@pytest.fixture(params=list(PEOPLE))
def person(request: pytest.FixtureRequest, people: dict[str, Person]) -> Person:
    if request.param not in people:
        pytest.skip("needs root and mount namespaces")
    return people[request.param]


@pytest.fixture
def user(people: dict[str, Person]) -> Person:
    return people["user"]


@pytest.fixture
def root(people: dict[str, Person]) -> Person:
    if "root" not in people:
        pytest.skip("needs root and mount namespaces")
    return people["root"]


@pytest.fixture(scope="session")
def probe() -> Iterator[Path]:
    """The traced program, where everybody can run it."""
    folder = Path(tempfile.mkdtemp(prefix="probe-"))
    folder.chmod(0o755)
    sources = ROOT / "tests" / "programs" / "session"
    provider: list[str | Path] = ["-fPIC", "-shared", f"-I{sources}", sources / "probe_tp.c", "-llttng-ust", "-ldl"]
    subprocess.run(["gcc", "-O1", "-o", folder / "libprobe_tp.so", *provider], check=True)
    subprocess.run(["gcc", "-O1", "-Wall", "-o", folder / "probe", sources / "probe.c", "-ldl"], check=True)
    yield folder / "probe"
    shutil.rmtree(folder)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder where everybody may write."""
    path = Path(tempfile.mkdtemp(prefix="session-test-"))
    path.chmod(0o777)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@dataclass
class Driven:
    """One run of drive.py."""

    person: Person
    output: Path
    run_id: str = field(default_factory=lambda: f"t{uuid.uuid4().hex[:10]}")

    def command(self, *program: object) -> list[str]:
        return [PYTHON, str(PROGRAMS / "drive.py"), self.run_id, str(self.output), *map(str, program)]

    def run(self, *program: object) -> dict[str, Any]:
        done = self.person.run(self.command(*program))
        assert done.returncode == 0, done.stderr
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return result | {"stderr": done.stderr}

    def events(self) -> int:
        """How many are in the trace."""
        done = subprocess.run(["babeltrace2", str(self.output)], text=True, capture_output=True, check=True)
        return len(done.stdout.splitlines())

    def pids(self) -> list[int]:
        """Of drive.py itself, once it runs."""
        words = [PYTHON.encode(), str(PROGRAMS / "drive.py").encode(), self.run_id.encode()]
        return [pid for pid, command in commands() if command.split(b"\0")[:3] == words]


@pytest.fixture
def drive(folder: Path) -> Callable[[Person], Driven]:
    return lambda person: Driven(person, folder / f"run-{uuid.uuid4().hex[:6]}" / "trace" / "host")


def commands() -> Iterator[tuple[int, bytes]]:
    """Process ids and their words."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            yield int(process.name), (process / "cmdline").read_bytes()
        except OSError:
            continue


def processes_of(run_id: str) -> list[int]:
    """Processes that have a run's id in their words or their environment."""
    found = []
    for pid, command in commands():
        try:
            environ = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            environ = b""
        if run_id.encode() in command + environ:
            found.append(pid)
    return found


def processes_named(run_id: str, name: str) -> list[int]:
    """Those of its processes that have a name; others may end meanwhile."""
    found = []
    for pid in processes_of(run_id):
        with contextlib.suppress(OSError):
            found += [pid] if Path(f"/proc/{pid}/comm").read_text() == f"{name}\n" else []
    return found


def left_of(run_id: str) -> list[str]:
    """What a run has left on the machine."""
    left = [str(p) for base in ("/tmp", "/dev/shm", "/run") for p in Path(base).glob(f"*{run_id}*")]
    return left + [f"process {pid}" for pid in processes_of(run_id)]


def nothing_left(run_id: str, within: float = 60) -> None:
    end = time.monotonic() + within
    while left := left_of(run_id):
        assert time.monotonic() < end, f"left behind: {left}"
        time.sleep(0.02)


def wait_for(what: Callable[[], object], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
