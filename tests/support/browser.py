"""A real Chromium, driven by its own protocol over a pair of pipes."""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chromium-browser", "chrome"))), None)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="neither chromium nor google-chrome is installed")
_SECONDS = 60.0
# The protocol is read from descriptor 3 and written to 4.
_START = """
import fcntl, os, sys
held = [fcntl.fcntl(int(one), fcntl.F_DUPFD, 10) for one in sys.argv[1:3]]
for place, one in enumerate(held, start=3):
    os.dup2(one, place)
os.execv(sys.argv[3], sys.argv[3:])
"""


class BrowserPage:
    """A page of a running browser. `logged` are the messages of its console, and of its security policy."""

    def __init__(self, reading: int, writing: int) -> None:
        self.reading, self.writing = reading, writing
        self.logged: list[str] = []
        self.requested: list[str] = []
        self._read, self._number, self._session = b"", 0, ""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **values: Any) -> dict[str, Any]:
        """Call a method of the protocol, and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": values}
        message |= {"sessionId": self._session} if self._session else {}
        os.write(self.writing, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + _SECONDS
        while True:
            answer = self._receive(until)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _receive(self, until: float) -> Any:
        while b"\0" not in self._read:
            ready, _, _ = select.select([self.reading], [], [], max(0.0, until - time.monotonic()))
            assert ready, "the browser does not answer"
            piece = os.read(self.reading, 1 << 20)
            assert piece, "the browser has ended"
            self._read += piece
        message, _, self._read = self._read.partition(b"\0")
        return json.loads(message)

    def _note(self, event: Any) -> None:
        values = event.get("params", {})
        if event.get("method") == "Log.entryAdded":
            self.logged.append(values["entry"]["text"])
        elif event.get("method") == "Runtime.exceptionThrown":
            self.logged.append(json.dumps(values["exceptionDetails"]))
        elif event.get("method") == "Network.requestWillBeSent":
            self.requested.append(values["request"]["url"])

    def open(self, url: str) -> None:
        """Open an address, and wait until it is loaded."""
        self.send("Page.navigate", url="about:blank")
        self.send("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def show(self, width: int, height: int = 900, *, dark: bool = False, phone: bool = False) -> None:
        """Set the size of the window and the colour scheme."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression, JSON as a rule, awaited if it is a promise."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Wait until an expression is true."""
        until = time.monotonic() + _SECONDS
        while not self.evaluate(f"Boolean({expression})"):
            assert time.monotonic() < until, f"it did not become true: {expression}"
            time.sleep(0.05)

    def type(self, text: str) -> None:
        """Type a text where the focus is."""
        self.send("Input.insertText", text=text)

    def press(self, key: str) -> None:
        """Press and release a key where the focus is."""
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        code = {"Enter": 13, "Tab": 9, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}.get(key, 0)
        pressed = {"key": key, "windowsVirtualKeyCode": code}
        self.send("Input.dispatchKeyEvent", type="keyDown", **pressed, **({"text": text} if text else {}))
        self.send("Input.dispatchKeyEvent", type="keyUp", **pressed)

    def picture(self, path: Path, *, full_page: bool = True) -> None:
        """Save a picture of the page, or of the part that the window shows."""
        taken = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=full_page)
        path.write_bytes(base64.b64decode(taken["data"]))


@contextmanager
def browsing(profile: Path) -> Iterator[BrowserPage]:
    """Start a browser with an empty profile in a folder."""
    assert BROWSER is not None
    their_read, writing = os.pipe()
    reading, their_write = os.pipe()
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    flags += ["--disable-background-networking", "--disable-component-update", "--hide-scrollbars"]
    flags += ["--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"]
    started = subprocess.Popen(
        [sys.executable, "-c", _START, str(their_read), str(their_write), BROWSER, *flags],
        pass_fds=(their_read, their_write),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(their_read)
    os.close(their_write)
    try:
        yield BrowserPage(reading, writing)
    finally:
        os.close(writing)
        os.close(reading)
        started.terminate()
        started.wait(timeout=30)
