"""Lines of stripped programs by debuginfod: elfutils' client and a server of ours that has the debug information by build id."""

from __future__ import annotations

import http.server
import shutil
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from occatrace.ingest.elf import build_id
from tests.support.runs import OCCA_PROF, ROOT, Run, execute, profiled, until

PROGRAM = ROOT / "tests" / "programs" / "call_sites" / "calls.c"
LINES = "SELECT DISTINCT c.function, c.line, c.why FROM call_sites c WHERE c.module LIKE '%/calls' ORDER BY ALL"

pytestmark = pytest.mark.skipif(
    shutil.which("debuginfod-find") is None, reason="no debuginfod-find (Debian: debuginfod)"
)


@dataclass
class Served:
    """A server, the file that it has, and what it was asked for."""

    url: str = ""
    content: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Served]:
    served = Served()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked.append(self.path)
            content = served.content.get(self.path)
            self.send_response(404 if content is None else 200)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        served.url = f"http://127.0.0.1:{listening.server_address[1]}"
        yield served
        listening.shutdown()
        thread.join()


def _compile(*command: object) -> None:
    subprocess.run([str(word) for word in command], check=True, timeout=120)


def test_lines_of_a_stripped_program(server: Served, tmp_path: Path) -> None:
    program, whole, debug = tmp_path / "calls", tmp_path / "whole", tmp_path / "calls.debug"
    _compile("gcc", "-O2", "-g", PROGRAM, "-o", program, "-lOpenCL", "-ldl")
    _compile("gcc", "-O2", "-g", "-DLIBRARY", "-fPIC", "-shared", PROGRAM, "-o", tmp_path / "library.so")
    shutil.copy(program, whole)
    _compile("objcopy", "--only-keep-debug", program, debug)
    _compile("strip", "--strip-debug", program)
    command = [program, tmp_path / "library.so"]
    place = f"/buildid/{build_id(program)}/debuginfo"
    cache = {"DEBUGINFOD_CACHE_PATH": str(tmp_path / "cache")}
    # Nobody is asked unless the person says whom.
    run = profiled(Run, tmp_path / "none", command, "-m", "full", **cache, DEBUGINFOD_URLS=None)
    assert {line for _, line, _ in run.sql(LINES)} == {0} and not server.asked
    assert {why for *_, why in run.sql(LINES)} == {"no debug information (compile with -g)"}
    # Servers that have it, and nothing of other files.
    server.content[place] = debug.read_bytes()
    run = profiled(Run, tmp_path / "run", command, "-m", "full", **cache, DEBUGINFOD_URLS=server.url)
    told = {(words[1], int(words[2])) for line in run.stderr.splitlines() if (words := line.split())[:1] == ["TRUE"]}
    found = run.sql(LINES)
    assert found and {line for _, line, _ in found} <= {line for _, line in told} and {why for *_, why in found} == {""}
    assert server.asked.count(place) == 1 and server.asked.count("/metrics") == 1
    assert all(path.startswith("/buildid/") for path in server.asked if path != "/metrics")
    # The same run where the program is another one by now: the number of what has run counts.
    shutil.rmtree(run.folder / "tables")
    _compile("gcc", "-O1", PROGRAM, "-o", program, "-lOpenCL", "-ldl")
    assert execute([*OCCA_PROF, "report", run.folder], **cache, DEBUGINFOD_URLS=server.url).returncode == 0
    assert run.sql(LINES) == found
    # A client that is missing is named.
    shutil.rmtree(run.folder / "tables")
    shutil.copy(whole, program)
    _compile("strip", "--strip-debug", program)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("addr2line", "sh"):
        (tools / name).symlink_to(str(shutil.which(name)))
    made = execute([*OCCA_PROF, "report", run.folder], PATH=str(tools), DEBUGINFOD_URLS=server.url)
    assert made.returncode == 0, made.stderr
    assert {why for *_, why in run.sql(LINES)} == {"DEBUGINFOD_URLS is set, but debuginfod-find is missing"}


def test_a_server_that_is_silent_is_not_waited_for(server: Served, tmp_path: Path) -> None:
    """The client would wait for it until there is no time left for another one."""
    program, debug = tmp_path / "calls", tmp_path / "calls.debug"
    _compile("gcc", "-O2", "-g", PROGRAM, "-o", program, "-lOpenCL", "-ldl")
    _compile("objcopy", "--only-keep-debug", program, debug)
    _compile("strip", "--strip-debug", program)
    server.content[f"/buildid/{build_id(program)}/debuginfo"] = debug.read_bytes()
    with socket.create_server(("127.0.0.1", 0)) as silent:  # connects, as the kernel does that, and says nothing
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        cache = {"DEBUGINFOD_CACHE_PATH": str(tmp_path / "cache"), "DEBUGINFOD_TIMEOUT": None}
        run = profiled(Run, tmp_path / "run", [program], "-m", "full", **cache, DEBUGINFOD_URLS=url)
        assert {why for *_, why in run.sql(LINES)} == {"no answer from the servers of DEBUGINFOD_URLS"}
        shutil.rmtree(run.folder / "tables")
        both = f"{url} {server.url}"
        assert execute([*OCCA_PROF, "report", run.folder], **cache, DEBUGINFOD_URLS=both).returncode == 0
    assert {why for *_, why in run.sql(LINES)} == {""}


@pytest.mark.skipif(shutil.which("debuginfod") is None, reason="no debuginfod (Debian: debuginfod)")
def test_lines_by_elfutils_own_server(tmp_path: Path) -> None:
    """Also those of debug information that refers to a supplementary file (dwz -m), which is not fetched."""
    if shutil.which("dwz") is None or shutil.which("llvm-addr2line") is None:
        pytest.skip("no dwz or llvm-addr2line is there")
    program, other, debug, served = (tmp_path / name for name in ("calls", "other", "calls.debug", "served"))
    served.mkdir()
    _compile("gcc", "-O2", "-g", PROGRAM, "-o", program, "-lOpenCL", "-ldl")
    _compile("objcopy", "--only-keep-debug", program, debug)
    _compile("strip", "-s", program)
    shutil.copy(debug, other)
    _compile("dwz", "-m", tmp_path / "common", debug, other)
    shutil.copy(debug, served)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = ["debuginfod", "-d", str(tmp_path / "index"), "-F", "-p", str(port), str(served)]
    url, cache = f"http://127.0.0.1:{port}", {"DEBUGINFOD_CACHE_PATH": str(tmp_path / "cache")}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        try:
            until(lambda: _has(f"{url}/buildid/{build_id(program)}/debuginfo"), "the server to have read the file")
            run = profiled(Run, tmp_path / "run", [program], "-m", "full", **cache, DEBUGINFOD_URLS=url)
        finally:
            running.terminate()
    true = {int(words[2]) for line in run.stderr.splitlines() if (words := line.split())[:1] == ["TRUE"]}
    found = run.sql(LINES)
    assert {line for _, line, _ in found} == true and {why for *_, why in found} == {""}


def _has(url: str) -> bool:
    try:
        with urllib.request.urlopen(url):
            return True
    except OSError:
        return False
