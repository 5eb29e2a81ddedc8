"""Debug information from servers of debuginfod, where the person has configured them (DEBUGINFOD_URLS): by elfutils' own client,
which keeps what it has fetched, and remembers what there is not.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

_BUILD_ID = re.compile(r"([0-9a-f]{2}){4,32}")
_SECONDS = 60  # for all files of a run; what was fetched by then is there the next time


class Servers:
    """Asks for debug information by build id, until it has taken too long."""

    def __init__(self) -> None:
        self._urls = os.environ.get("DEBUGINFOD_URLS", "").strip()
        self._client = shutil.which("debuginfod-find") if self._urls else None
        self._left = float(_SECONDS)

    def why_not(self) -> str:
        """Why nobody can be asked though servers are configured; empty: they can, or none is."""
        return "DEBUGINFOD_URLS is set, but debuginfod-find is missing" if self._urls and not self._client else ""

    def find(self, build_id: str) -> Path | None:
        """The file with the debug information; None: no server has it, or none was asked."""
        # The number comes with the run, which may be a stranger's.
        if not self._client or self._left <= 0 or not _BUILD_ID.fullmatch(build_id):
            return None
        begin = time.monotonic()
        try:
            done = subprocess.run(
                [self._client, "debuginfo", build_id], capture_output=True, timeout=self._left, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        finally:
            self._left -= time.monotonic() - begin
        path = Path(os.fsdecode(done.stdout.strip()))
        return path if done.returncode == 0 and path.is_file() else None
