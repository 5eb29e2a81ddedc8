"""Debug information from servers of debuginfod, where the person has configured them (DEBUGINFOD_URLS): by elfutils' own client,
which keeps what it has fetched, and remembers what there is not.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path

_BUILD_ID = re.compile(r"([0-9a-f]{2}){4,32}")
_SECONDS = 60  # for all files of a run; what was fetched by then is there the next time
_SILENCE = 3.0  # seconds after which a server that has not answered a question that needs no search counts as dead


class Servers:
    """Asks for debug information by build id, until it has taken too long."""

    def __init__(self) -> None:
        self._urls = os.environ.get("DEBUGINFOD_URLS", "").split()
        self._client = shutil.which("debuginfod-find") if self._urls else None
        self._left = float(_SECONDS)
        self._living: list[str] | None = None  # not known before the first question

    def why_not(self) -> str:
        """Why nobody can be asked though servers are configured; empty: they can, or none is."""
        if not self._urls:
            return ""
        if not self._client:
            return "DEBUGINFOD_URLS is set, but debuginfod-find is missing"
        return "no answer from the servers of DEBUGINFOD_URLS" if self._living == [] else ""

    def find(self, build_id: str) -> Path | None:
        """The file with the debug information; None: no server has it, or none was asked."""
        # The number comes with the run, which may be a stranger's.
        if not self._client or self._left <= 0 or not _BUILD_ID.fullmatch(build_id):
            return None
        if self._living is None:
            self._living = _living(self._urls)
        if not self._living:
            return None
        begin = time.monotonic()
        try:
            done = subprocess.run(
                [self._client, "debuginfo", build_id],
                capture_output=True,
                timeout=self._left,
                env=os.environ | {"DEBUGINFOD_URLS": " ".join(self._living)},
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        finally:
            self._left -= time.monotonic() - begin
        path = Path(os.fsdecode(done.stdout.strip()))
        return path if done.returncode == 0 and path.is_file() else None


def _living(urls: list[str]) -> list[str]:
    """Those that answer. The client itself waits 90 s for a server that accepts a connection and is silent."""
    answered: set[str] = set()
    # Looking up a name has no limit of time: nobody waits for such a thread.
    threads = [threading.Thread(target=_ask, args=(url, answered), daemon=True) for url in urls]
    for thread in threads:
        thread.start()
    end = time.monotonic() + _SILENCE
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return [url for url in urls if url in answered]


def _ask(url: str, answered: set[str]) -> None:
    """Whether a server is there: any answer will do."""
    # They take 50 ms to load, and are wanted only where servers are configured.
    import http.client
    import urllib.error
    import urllib.request

    if url.startswith(("http://", "https://")):
        try:
            with urllib.request.urlopen(url.rstrip("/") + "/metrics", timeout=_SILENCE):
                pass
        except urllib.error.HTTPError:
            pass
        except urllib.error.URLError as e:
            # The client may know other certificates. (Python may be without this module.)
            if type(e.reason).__module__ != "ssl":
                return
        except (OSError, http.client.HTTPException, ValueError):
            return
    answered.add(url)
