"""A headless Chromium, driven through its debugging pipe: no port, no driver, no further package."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def chromium() -> str | None:
    """Where it is, if it is installed."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Browser:
    """One page. Every address that it asked for, and was not refused by the page's policy, is in `requests`."""

    def __init__(self, width: int = 1600, height: int = 1000) -> None:
        executable = chromium()
        assert executable, "chromium is not installed"
        self._profile = tempfile.mkdtemp(prefix="occatrace-browser-")
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()

        def connect() -> None:
            # The browser reads commands from 3 and writes answers to 4; our own ends may have these very numbers.
            reading, writing = os.dup(to_read), os.dup(to_write)
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        self._process = subprocess.Popen(
            [
                executable, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
                f"--user-data-dir={self._profile}", "--no-first-run", "--disable-background-networking",
                "--disable-component-update", "--disable-dev-shm-usage", f"--window-size={width},{height}",
                "about:blank",
            ],
            preexec_fn=connect, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._buffer = b""
        self._numbers = itertools.count(1)
        self._requests: dict[str, str] = {}
        target = next(t for t in self._send("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self._session = self._send("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime"):
            self.command(f"{domain}.enable")
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._read)
        os.close(self._write)
        shutil.rmtree(self._profile, ignore_errors=True)

    @property
    def requests(self) -> list[str]:
        """What went out."""
        return list(self._requests.values())

    def open(self, url: str) -> None:
        """Go there."""
        self.command("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """The value of an expression in the page, awaited if it is a promise."""
        answer = self.command("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(
                answer["exceptionDetails"].get("exception", {}).get("description", "exception in the page")
            )
        return answer["result"].get("value")

    def wait(self, script: str, seconds: float = 60) -> Any:
        """The value of an expression as soon as it is true."""
        end = time.monotonic() + seconds
        while True:
            value = self.run(script)
            if value:
                return value
            if time.monotonic() > end:
                raise TimeoutError(f"never true in the page: {script}")
            time.sleep(0.2)

    def picture(self, path: Path) -> None:
        """A screenshot."""
        path.write_bytes(base64.b64decode(self.command("Page.captureScreenshot", format="png")["data"]))

    def look(
        self, *, dark: bool = False, paper: bool = False, width: int = 1280, height: int = 900, phone: bool = False
    ) -> None:
        """What the page is seen on."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.command("Emulation.setEmulatedMedia", media="print" if paper else "screen", features=features)
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )

    def long_picture(self, path: Path, height: int) -> None:
        """A screenshot of what is above `height`, in view or not."""
        size = self.run("({w: document.documentElement.clientWidth, h: document.documentElement.scrollHeight})")
        clip = {"x": 0, "y": 0, "width": size["w"], "height": min(size["h"], height), "scale": 1}
        answer = self.command("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(answer["data"]))

    def pdf(self) -> bytes:
        """The page as it is printed."""
        return base64.b64decode(self.command("Page.printToPDF", preferCSSPageSize=True)["data"])

    def command(self, method: str, **params: Any) -> Any:
        """A command of the debugging protocol to the page."""
        return self._send(method, self._session, **params)

    def _send(self, method: str, session: str | None = None, **params: Any) -> Any:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        return self._answer(lambda answer: answer.get("id") == number)

    def _answer(self, wanted: Callable[[dict[str, Any]], bool]) -> Any:
        while True:
            while b"\0" not in self._buffer:
                piece = os.read(self._read, 1 << 16)
                if not piece:
                    raise ConnectionError("the browser has ended")
                self._buffer += piece
            message, _, self._buffer = self._buffer.partition(b"\0")
            answer = json.loads(message)
            if answer.get("method") == "Network.requestWillBeSent":
                self._requests[answer["params"]["requestId"]] = answer["params"]["request"]["url"]
            if answer.get("method") == "Network.loadingFailed" and answer["params"].get("blockedReason") == "csp":
                self._requests.pop(answer["params"]["requestId"], None)
            if wanted(answer):
                if "error" in answer:
                    raise RuntimeError(answer["error"]["message"])
                return answer["result"]
