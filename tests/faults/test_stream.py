"""`--stream` where something goes wrong: the program is untouched, and nothing that was kept is lost."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from tests.integration.hazards.test_hazards import check_rounds, hazard
from tests.integration.session.test_command import info
from tests.integration.session.test_disk import FULL
from tests.integration.session.test_stream import (
    Start,
    calls,
    check_checksums,
    check_whole,
    counted,
    descendants,
    manifest,
    paced,
    setting,
    start,
    worker_of,
)
from tests.support.suites.faults import readable
from tests.support.suites.ranks import Job, job_folder, make_job, mpi_programs
from tests.support.suites.session import OCCA_PROF, Person, environment, wait_for

__all__ = ["hazard", "job_folder", "mpi_programs", "paced", "start"]


def test_killed_worker(folder: Path, start: Start) -> None:
    """Its pieces are made into tables by the next worker, or at the end."""
    running, run = start(20), folder / "run"
    wait_for(lambda: manifest(run).consumed >= 0)
    os.kill(worker_of(running.pid), signal.SIGKILL)
    (folder / "end").touch()
    said, errors = running.communicate(timeout=300)
    assert running.returncode == 0 and "Traceback" not in errors, errors
    check_whole(counted(run), int(said))
    check_checksums(run)


@pytest.mark.parametrize(("way", "status"), [("abort", 128 + signal.SIGABRT), ("segv", 128 + signal.SIGSEGV)])
def test_program_that_ends_itself(hazard: Path, folder: Path, way: str, status: int) -> None:
    """So early that no piece has been cut."""
    words = [*OCCA_PROF, "--stream", "-o", str(folder / "run"), str(hazard), way]
    done = subprocess.run(words, text=True, capture_output=True, check=False, env=environment())
    assert done.returncode == status and "Traceback" not in done.stderr, done.stderr
    check_rounds(folder / "run", 1)


def test_program_that_is_killed(user: Person, folder: Path, start: Start, paced: Path) -> None:
    sent = signal.SIGKILL  # OpenCL's compiler catches others
    running, run = start(20), folder / "run"
    wait_for(lambda: manifest(run).consumed >= 0)
    # The program, not a child that it has just now. One that has ended since then has no file.
    processes = []
    for pid in descendants(running.pid):
        with contextlib.suppress(OSError):
            processes += [pid] if Path(os.readlink(f"/proc/{pid}/exe")) == paced else []
    program = min(processes, key=lambda pid: int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]))
    os.kill(program, sent)
    _, errors = running.communicate(timeout=300)
    assert running.returncode == 128 + sent and "Traceback" not in errors, errors
    assert info(run)["exit_status"] == 128 + sent
    found = counted(run)
    assert calls(found, "clFlush") >= 20 * 1000
    assert readable(user.run([*OCCA_PROF, "report", "run", "--format", "json"]))


def test_full_disk(root: Person, user: Person, folder: Path, paced: Path) -> None:
    """More is recorded than there is room for, and --max-size does not know of it."""
    disk = folder / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=6m,mode=1777 none {disk}"
    person = dataclasses.replace(user, mounts=" && ".join(filter(None, (user.mounts, mount))))
    profile = shlex.join([*OCCA_PROF, "--stream", "-m", "full", "-o", "run", str(paced), "400", "200"])
    report = shlex.join([*OCCA_PROF, "report", "run", "--format", "json"])
    done = person.run(
        ["sh", "-c", f"cd {disk} && {profile} > {folder}/said; echo $?; rm -f run/filler; {report}"],
        env=setting(folder),
    )
    status, _, document = done.stdout.partition("\n")
    assert status == "0", done.stderr
    assert (folder / "said").read_text().strip() == "400"
    assert "Traceback" not in done.stderr and "internal error" not in done.stderr, done.stderr
    shown = json.loads(document) if document else {}
    said = " ".join((done.stderr, *shown.get("run", {}).get("notes", ()), *shown.get("losses", {}).get("problems", ())))
    assert FULL in said or "No space left" in said or "only counted" in said, done.stderr


def test_rank_that_is_killed(
    mpi_programs: Path, job_folder: Path, people: dict[str, Person], monkeypatch: pytest.MonkeyPatch
) -> None:
    job: Job = make_job("mpich", mpi_programs, job_folder, people.get("root", people["user"]))
    done = job.run(3, *OCCA_PROF, "--stream", "-o", job.folder / "run", job.program, "1:kill=9", timeout=300)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr, done.stderr
    assert len(job.facts["job"]["ranks"]) == 3
    shown = job.person.run([*OCCA_PROF, "report", str(job.folder / "run"), "--format", "json"])
    assert readable(shown)
    job.nothing_left()
