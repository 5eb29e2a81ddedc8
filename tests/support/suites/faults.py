"""People, programs and folders for the faults: those of the tests of the session."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.suites.session import ROOT, folder, people, probe, root, user

__all__ = ["folder", "people", "probe", "root", "user"]

PROGRAMS = ROOT / "tests" / "programs" / "faults"


@pytest.fixture(scope="session")
def tools() -> Iterator[Path]:
    """`refuse.so` and `deny` (tests/programs/faults), where everybody can use them."""
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    folder.chmod(0o755)
    warnings = ["gcc", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(
        [*warnings, "-shared", "-fPIC", PROGRAMS / "refuse.c", "-o", folder / "refuse.so", "-ldl"], check=True
    )
    subprocess.run([*warnings, PROGRAMS / "deny.c", "-o", folder / "deny"], check=True)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """The message of a command that fails."""
    assert done.returncode == 2 and done.stdout == "", (done.returncode, done.stdout, done.stderr)
    assert done.stderr.startswith("occa_prof: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def readable(done: subprocess.CompletedProcess[str]) -> bool:
    """Whether a report came; otherwise one line says why not."""
    if done.returncode == 0:
        json.loads(done.stdout)
        return True
    one_line(done)
    return False
