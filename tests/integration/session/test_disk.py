"""Disks that are full: the program is untouched, what was written before is read, and it is said which disk it was."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest

from occatrace._native import Reader
from tests.integration.session.test_command import TICK_BYTES
from tests.support.suites.session import OCCA_PROF, Person

FULL = "no space left on device"
PROFILE = shlex.join(OCCA_PROF)
ONE_CPU = f"taskset -c {min(os.sched_getaffinity(0))}"  # so that there is one stream, in order


@pytest.fixture
def owner(people: dict[str, Person]) -> Person:
    """Somebody who has a disk of a few megabytes, where a test is root, who may mount one."""
    if "root" not in people:
        pytest.skip("needs root and mount namespaces")
    return people["user"]


def on_small_disk(owner: Person, folder: Path, size: str, script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script in a disk, `folder/disk`, that is there for it alone."""
    disk = folder / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size={size},mode=1777 none {disk}"
    mounts = f"{owner.mounts} && {mount}" if owner.mounts else mount
    person = dataclasses.replace(owner, mounts=mounts)
    return person.run(["sh", "-c", f"cd {disk} && {script}"])


def ticks(trace: Path) -> list[int]:
    """The numbers of the probe's events in a trace, processor by processor."""
    found: list[int] = []
    for batch in Reader(str(trace), threads=1, events=["occatrace_probe:tick"]):
        found += batch.columns["number"].tolist()
    return found


@pytest.mark.parametrize(("name", "size"), [("user", "3m"), ("root", "4m")])
def test_full_while_the_program_is_recorded(
    people: dict[str, Person], owner: Person, folder: Path, probe: Path, name: str, size: str
) -> None:
    """The trace has the first events, as many as there was room for, and can be read."""
    script = f"{PROFILE} -m full -o run {ONE_CPU} {probe} 400000 exit 3; echo status $?; cp -a run {folder}/kept"
    done = on_small_disk(people[name], folder, size, script)
    assert done.stdout == "status 3\n", done.stderr
    (line,) = (line for line in done.stderr.splitlines() if FULL in line)
    assert line.startswith("! ") and f"({folder}/disk)" in line
    assert "no report" not in done.stderr and "cannot be read" not in done.stderr
    facts = json.loads((folder / "kept/run.json").read_text())
    assert facts["exit_status"] == 3 and facts["ended"] is not None
    assert [FULL in note for note in facts["notes"]] == [True]
    numbers = ticks(folder / "kept/trace")
    assert numbers == list(range(len(numbers)))
    stream = max((folder / "kept/trace").glob("*/ust/**/occatrace_*"), key=lambda path: path.stat().st_size)
    assert 1 << 20 < len(numbers) * TICK_BYTES <= stream.stat().st_size
    assert [path.name for path in (folder / "kept").rglob(".*") if path.name != ".tables.lock"] == []


def test_filled_by_the_program(owner: Person, folder: Path) -> None:
    """Then run.json still says how it ended: room was kept for it."""
    script = f"{PROFILE} -q -o run sh -c 'dd if=/dev/zero of=all bs=4k 2> /dev/null; exit 4'; echo status $?; cat run/run.json"
    done = on_small_disk(owner, folder, "3m", script)
    said, _, facts = done.stdout.partition("\n")
    assert said == "status 4", done.stderr
    assert json.loads(facts)["exit_status"] == 4
    assert done.stderr == ""


def test_run_json_cannot_be_written_when_the_session_of_a_shell_ends(owner: Person, folder: Path) -> None:
    """`stop` says so, and not that nobody answers."""
    script = (
        f'cd {folder}; eval "$({PROFILE} start -o run {folder.name})"; rm run/run.json; mkdir -p run/run.json/x;'
        f" {PROFILE} stop {folder.name}"
    )
    done = owner.run(["sh", "-c", script])
    assert "run.json does not say how the run ended: " in done.stderr and "without an answer" not in done.stderr


def test_full_at_the_report(owner: Person, folder: Path, probe: Path) -> None:
    """The report comes all the same; the tables are kept once there is room."""
    report = f"{PROFILE} report run --format json"
    script = (
        f"{PROFILE} -q -o run {probe} 5 && dd if=/dev/zero of=all bs=4k 2> /dev/null;"
        f" {report}; echo; echo status $?; ls -A run | sort; rm all; echo ----; {report}; echo; ls run | sort"
    )
    full, _, later = on_small_disk(owner, folder, "3m", script).stdout.partition("----\n")
    document, _, rest = full.partition("\n\nstatus ")
    (problem,) = (line for line in json.loads(document)["losses"]["problems"] if FULL in line)
    assert f"({folder}/disk)" in problem
    assert rest.split() == ["0", ".tables.lock", "run.json", "trace"]
    assert FULL not in later
    assert later.split("\n\n")[-1].split() == ["run.json", "tables", "trace"]
