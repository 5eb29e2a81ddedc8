"""Timelines of real runs: Perfetto shows what the tables say, to the nanosecond, and its interface opens them offline."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("perfetto")
pytest.importorskip("wasmtime")

from occatrace.store.tables import open_store
from tests.support.browser import Browser, chromium
from tests.support.perfetto_check import check
from tests.support.suites.reports import OCCA_PROF, occa_prof
from tests.support.suites.timeline import Run
from tests.support.trace_processor import load

# What the tables hold, each told on its own: calls under the names that authors gave to kernels, and work on devices.
CALLS = """
SELECT c.start_ns + p.realtime_ns - p.mono_ns, c.end_ns - c.start_ns,
       CASE WHEN c.failed THEN '✗ ' ELSE '' END || coalesce(k.name, o.kind || ' in ' || nullif(o.function, ''),
           'thread of ' || nullif(i.function, ''), c.function), t.name, t.tid
FROM calls c JOIN threads t USING (thread) JOIN processes p ON p.process = c.process
LEFT JOIN kernel_runs r ON r.thread = c.thread AND r.seq = c.seq AND c.api = 'occa' LEFT JOIN kernels k USING (kernel)
LEFT JOIN omp_regions o ON o.thread = c.thread AND o.seq = c.seq
LEFT JOIN omp_threads m ON m.thread = c.thread AND m.seq = c.seq
LEFT JOIN omp_regions i ON i.thread = m.region_thread AND i.seq = m.region_seq
UNION ALL
SELECT m.end_ns + p.realtime_ns - p.mono_ns, m.join_ns + m.late_ns, 'barrier wait', t.name, t.tid
FROM omp_threads m JOIN threads t USING (thread) JOIN processes p ON p.process = m.process WHERE m.join_ns + m.late_ns > 0
"""
WORK = """
SELECT a.start_ns + p.realtime_ns - p.mono_ns, a.end_ns - a.start_ns, coalesce(k.name, a.name)
FROM activities a JOIN processes p USING (process) LEFT JOIN kernels k ON a.kind = 'kernel' AND k.kernel = a.kernel
"""


def table(run: Run, sql: str) -> Counter[tuple[Any, ...]]:
    with open_store(run.folder) as store:
        store.functions()
        return Counter(store.con.execute(sql).fetchall())


def test_same_as_the_tables(run: Run) -> None:
    content = check(run.timeline)
    assert content.problems == []
    with load(run.timeline) as tp:
        errors = list(tp.query("SELECT name, value FROM stats WHERE severity <> 'info' AND value > 0"))
        assert [(e.name, e.value) for e in errors] == []
        calls = tp.query(
            "SELECT s.ts, s.dur, s.name, t.name AS thread, t.tid FROM slice s JOIN thread_track k ON k.id = s.track_id"
            " JOIN thread t USING (utid)"
        )
        assert Counter((r.ts, r.dur, r.name, r.thread, r.tid) for r in calls) == table(run, CALLS)
        work = tp.query(
            "SELECT s.ts, s.dur, s.name FROM slice s JOIN track t ON t.id = s.track_id"
            " WHERE t.name GLOB 'queue*' OR t.name = 'memory operations'"
        )
        found = Counter((r.ts, r.dur, r.name) for r in work)
        assert found == table(run, WORK)
        assert bool(found) == (run.mode == "OpenCL")


def test_all_work_has_its_arrows(run: Run) -> None:
    """From the launching call to every piece of work; from the OCCA kernel call to every kernel of it."""
    with load(run.timeline) as tp:
        found = Counter(
            (r.thread, r.delay >= 0)
            for r in tp.query(
                "SELECT a.category AS thread, b.ts - a.ts AS delay FROM flow JOIN slice a ON a.id = slice_out"
                " JOIN slice b ON b.id = slice_in"
            )
        )
    with open_store(run.folder) as store:
        ((all_work, kernels),) = store.con.execute("SELECT count(*), count(kernel) FROM activities").fetchall()
    expected = {("opencl", True): all_work, ("occa", True): kernels}
    assert found == {key: count for key, count in expected.items() if count}


def test_memory_in_use(run: Run) -> None:
    """It rises with every allocation, and is nothing at the end."""
    with load(run.timeline) as tp:
        values = [
            int(r.value)
            for r in tp.query(
                "SELECT c.value FROM counter c JOIN counter_track t ON t.id = c.track_id"
                " WHERE t.name GLOB 'memory in use*' ORDER BY c.ts"
            )
        ]
    with open_store(run.folder) as store:
        store.functions()
        ((taken,),) = store.con.execute('SELECT sum(args.bytes) FROM "occa.device_malloc" WHERE NOT failed').fetchall()
    assert values[-1] == 0
    assert 0 < max(values) <= taken


def test_command(run: Run, tmp_path: Path) -> None:
    """Options reach the file; an existing file is kept."""
    path = tmp_path / "x.pftrace.gz"
    words = ("timeline", run.folder, "-o", path, "--apis", "occa", "--min-duration", "1us", "--no-counters")
    ran = occa_prof(*words)
    assert ran.returncode == 0, ran.stderr
    content = check(path)
    assert content.problems == []
    assert content.slices and not content.values
    assert all(s.category in ("occa", "problem") and s.duration >= 1000 for s in content.slices)
    assert f"{len(content.slices):,} slices" in ran.stdout
    again = occa_prof(*words)
    assert again.returncode == 2 and "--force" in again.stderr
    assert occa_prof(*words, "--force").returncode == 0
    assert path.stat().st_mode & 0o077 == 0


@pytest.fixture
def view(run: Run) -> Iterator[str]:
    """The address that `occa_prof view` prints."""
    pytest.importorskip("viztracer")
    server = subprocess.Popen(
        [*OCCA_PROF, "view", str(run.folder), "--no-browser"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdout
    yield server.stdout.readline().strip()
    server.send_signal(signal.SIGINT)
    assert server.wait(300) == 0


def test_interface_offline(run: Run, view: str, tmp_path: Path) -> None:
    """The real interface in a real browser: all is there, and nothing leaves this machine."""
    if not chromium():
        pytest.skip("chromium is not installed")
    queues = ["queue 1", "busy", "enqueued, not finished", "traffic"] if run.mode == "OpenCL" else []
    with Browser(1600, 1000) as browser:
        browser.open(view)
        browser.wait("!!(window.app && app.trace && app.trace.engine)", 120)
        count = "app.trace.engine.query('select count(*) as n from slice').then(r => r.firstRow({n: 0}).n)"
        assert browser.run(count) == len(check(run.timeline).slices)
        # Groups are open without anybody's doing.
        for track in ("demo", "memory in use", *queues):
            browser.wait(f"document.body.innerText.includes({track!r})")
        time.sleep(1)  # tracks are drawn when their data has come; the page does not tell
        picture = tmp_path / f"{run.mode}.png"
        browser.picture(picture)
        assert picture.stat().st_size > 20_000
        if keep := os.environ.get("OCCATRACE_TEST_PICTURES"):
            shutil.copy(picture, keep)
        hosts = {address.split("/")[2] for address in browser.requests if address.startswith("http")}
    assert hosts == {view.split("/")[2]}


def test_view_tells_nobody_else(run: Run, view: str) -> None:
    """The secret is needed, a foreign name for this machine is refused, and no file beside the interface's is given."""
    port, secret = view.split("/")[2], view.split("/")[3]

    def status(path: str, host: str = port) -> int:
        request = urllib.request.Request(f"http://{port}{path}", headers={"Host": host})
        try:
            with urllib.request.urlopen(request, timeout=300) as reply:
                assert "default-src 'self'" in reply.headers["Content-Security-Policy"]
                return int(reply.status)
        except urllib.error.HTTPError as error:
            return error.code

    assert status(f"/{secret}/") == 200
    assert status(f"/{secret}/trace/timeline.pftrace") == 200
    assert status("/") == status("/index.html") == status("/trace/timeline.pftrace") == 404
    assert status(f"/{secret}x/") == status(f"/{secret}/../../pyproject.toml") == 404
    assert status(f"/{secret}/%2e%2e/%2e%2e/viewer.py") == status(f"/{secret}//etc/passwd") == 404
    assert status(f"/{secret}/", "evil.example:80") == 404
