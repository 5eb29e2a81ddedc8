"""What tools/wheel does: an old system to build in (base), the parts of others (parts), a trial of the result (trial)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "build" / "dist"
RESULTS = ROOT / "build" / "ci"  # for tools/support
CACHE = Path(
    os.environ.get("OCCATRACE_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "occatrace"
)


def fail(text: str) -> SystemExit:
    """One line, and the end."""
    return SystemExit(f"wheel: {text}")


def output(*words: str | Path) -> str:
    """What a command prints."""
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True).stdout


def logged(
    what: str, log: Path, words: list[str], environment: Mapping[str, str] | None = None, cwd: Path | None = None
) -> None:
    """Run a command with its output in a log, and show the end of the log where it fails.

    Raises SystemExit."""
    log.parent.mkdir(parents=True, exist_ok=True)
    print(f"wheel: {what} ...", flush=True)
    with log.open("wb") as file:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment, cwd=cwd, check=False
        )
    if done.returncode:
        raise fail(f"{what}: failed; all of it is in {log}\n{log.read_text(errors='replace')[-2000:]}")


def system_tools(*names: str) -> None:
    """Install these programs, Debian packages of the same name or NAME=PACKAGE, where they are missing.

    Raises SystemExit where they cannot be installed."""
    missing = [name.rpartition("=")[2] for name in names if not shutil.which(name.partition("=")[0])]
    if not missing:
        return
    command = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
    if os.getuid() or not shutil.which("apt-get"):
        raise fail(f"needs {' and '.join(missing)}: {' '.join(command)}, as root")
    logged(f"installing {' '.join(missing)}", CACHE / "wheel" / "logs" / "tools.log", command)
