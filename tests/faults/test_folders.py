"""Run folders in file systems that lack something, as those of clusters do, or that refuse to be written."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.integration.session.test_disk import ticks
from tests.support.suites.faults import one_line
from tests.support.suites.session import OCCA_PROF, Person, environment

PROFILE = shlex.join(OCCA_PROF)
EVENTS = 3000


def without(tools: Path, folder: Path, feature: str) -> dict[str, str]:
    """An environment in which what is below `folder` has no such feature."""
    return environment() | {"LD_PRELOAD": str(tools / "refuse.so"), "REFUSE": feature, "REFUSE_BELOW": str(folder)}


@pytest.mark.parametrize("feature", ["locks", "mappings", "links", "modes", "fallocate"])
def test_a_file_system_without_a_feature(user: Person, tools: Path, folder: Path, probe: Path, feature: str) -> None:
    """Every event is recorded, and what reads the run does."""
    env = without(tools, folder, feature)
    done = user.run([*OCCA_PROF, "-m", "full", "-o", "run", str(probe), str(EVENTS), "exit", "3"], env=env)
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr and "internal error" not in done.stderr
    assert sorted(ticks(folder / "run/trace")) == list(range(EVENTS))
    shown = user.run([*OCCA_PROF, "report", "run", "--format", "json"], env=env)
    assert shown.returncode == 0 and shown.stderr == "", shown.stderr
    losses = json.loads(shown.stdout)["losses"]
    assert losses["events"] == 0
    # DuckDB writes no file without locking it.
    assert [line for line in losses["problems"] if "cannot be locked, its tables are not kept" in line][1:] == []
    assert any("cannot be locked" in line for line in losses["problems"]) == (feature == "locks")
    drawn = user.run([*OCCA_PROF, "timeline", "run", "-o", "x.pftrace"], env=env)
    assert drawn.returncode == 0, drawn.stderr
    assert (folder / "x.pftrace").stat().st_size > 100


def test_removed_files_that_stay(user: Person, tools: Path, folder: Path, probe: Path) -> None:
    env = without(tools, folder, "removal")
    done = user.run([*OCCA_PROF, "-m", "full", "-o", "run", str(probe), str(EVENTS), "exit", "3"], env=env)
    assert done.returncode == 3 and "Traceback" not in done.stderr, done.stderr
    assert sorted(ticks(folder / "run/trace")) == list(range(EVENTS))
    assert user.run([*OCCA_PROF, "report", "run"], env=env).returncode == 0


def test_root_that_may_not_write(root: Person, user: Person, folder: Path, probe: Path) -> None:
    """NFS makes root a user without rights: here root without its capabilities, in a folder of an ordinary user."""
    home = folder / "home"
    assert user.run(["mkdir", "-m", "700", str(home)]).returncode == 0
    squashed = dataclasses.replace(
        root, prefix=("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all")
    )
    done = squashed.run([*OCCA_PROF, "-o", str(home / "run"), str(probe), "1", "exit", "3"])
    assert "Permission denied" in one_line(done)
    done = squashed.run(
        ["sh", "-c", f"cd {home} 2> /dev/null || cd {folder}; chmod 755 . ; exec {PROFILE} -o run {probe} 5 exit 3"]
    )
    assert done.returncode in (2, 3) and "Traceback" not in done.stderr, done.stderr


def in_disk(owner: Person, folder: Path, options: str, script: str) -> subprocess.CompletedProcess[str]:
    """A shell script in a file system of its own, `folder/disk`, with the rights of root to change it."""
    disk = folder / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o mode=1777,{options} none {disk}"
    person = dataclasses.replace(owner, mounts=" && ".join(filter(None, (owner.mounts, mount))))
    return person.run(["sh", "-c", f"cd {disk} && {script}"])


def test_no_inode_is_free(root: Person, folder: Path, probe: Path) -> None:
    """At first, or while it records."""
    done = in_disk(root, folder, "nr_inodes=2", f"touch x; {PROFILE} -o run {probe} 5 exit 3; echo status $?; ls")
    assert done.stdout.split() in (["status", "2", "x"], ["status", "3", "x"]), done.stdout
    assert "No space left" in done.stderr and done.stderr.count("\n") == 1, done.stderr
    os.rmdir(folder / "disk")
    done = in_disk(root, folder, "nr_inodes=7", f"{PROFILE} -m full -o run {probe} 50 exit 3; echo status $?")
    assert done.stdout == "status 3\n", done.stderr
    assert "o space left" in done.stderr and "Traceback" not in done.stderr and "internal error" not in done.stderr, (
        done.stderr
    )
