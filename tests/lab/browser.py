# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A headless Chromium, led over its debugging port: pages at the width of a phone, in the dark, whole.

``--screenshot`` alone is not enough, since the window of a headless Chromium is never narrower than 500 pixels.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from ..reaper import bound

NAMES = ("chromium", "chromium-browser", "google-chrome")
# Without these Chromium asks the network for updates and lists.
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)


def find_chromium() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@dataclass(frozen=True)
class Screen:
    """How a page is looked at; sizes in CSS pixels. ``most_height`` cuts a picture that would be longer."""

    width: int
    dark: bool = False
    most_height: int = 4000
    before: str = ""  # JavaScript that is run first, for example to open something


class Browser:
    def __init__(self, port: int) -> None:
        self._port = port

    def look(self, page: Path, screen: Screen, ask: str, picture: Path | None = None) -> Any:
        """The value of a JavaScript expression in the page as it is shown on the screen; a picture of it if asked for."""
        return asyncio.run(asyncio.wait_for(self._look(page.resolve().as_uri(), screen, ask, picture), 60))

    async def _look(self, url: str, screen: Screen, ask: str, picture: Path | None) -> Any:
        base = f"http://127.0.0.1:{self._port}"
        async with aiohttp.ClientSession() as session:
            async with session.put(f"{base}/json/new?about:blank") as answer:
                target = await answer.json()
            async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as line:
                tab = _Tab(line)
                try:
                    await tab.call("Page.enable")
                    await tab.call("Network.enable")
                    await self._size(tab, screen, 900)
                    scheme = [{"name": "prefers-color-scheme", "value": "dark" if screen.dark else "light"}]
                    await tab.call("Emulation.setEmulatedMedia", features=scheme)
                    await tab.call("Page.navigate", url=url)
                    await tab.until("Page.loadEventFired")
                    if screen.before:
                        await tab.value(screen.before)
                    found = await tab.value(ask)
                    if picture is not None:
                        height = int(await tab.value("document.documentElement.scrollHeight"))
                        await self._size(tab, screen, min(height, screen.most_height))
                        taken = await tab.call("Page.captureScreenshot", format="png", optimizeForSpeed=False)
                        picture.write_bytes(base64.b64decode(taken["data"]))
                    return {"found": found, "requests": tab.requests}
                finally:
                    async with session.get(f"{base}/json/close/{target['id']}"):
                        pass

    @staticmethod
    async def _size(tab: _Tab, screen: Screen, height: int) -> None:
        mobile = screen.width < 700
        await tab.call(
            "Emulation.setDeviceMetricsOverride", width=screen.width, height=height, deviceScaleFactor=1, mobile=mobile
        )


class _Tab:
    def __init__(self, line: aiohttp.ClientWebSocketResponse) -> None:
        self._line = line
        self._count = 0
        self._events: list[str] = []
        #: Every address that the page asked for, its own first.
        self.requests: list[str] = []

    async def _next(self) -> dict[str, Any]:
        message: dict[str, Any] = await self._line.receive_json()
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        if "method" in message:
            self._events.append(message["method"])
        return message

    async def call(self, method: str, **parameters: Any) -> Any:
        self._count += 1
        await self._line.send_json({"id": self._count, "method": method, "params": parameters})
        while True:
            message = await self._next()
            if message.get("id") == self._count:
                assert "error" not in message, f"{method}: {message}"
                return message["result"]

    async def until(self, event: str) -> None:
        while event not in self._events:
            await self._next()

    async def value(self, expression: str) -> Any:
        answer = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")


@contextmanager
def browser() -> Iterator[Browser]:
    """One Chromium with a profile of its own; it and all its children are ended afterwards."""
    program = find_chromium()
    assert program is not None
    with tempfile.TemporaryDirectory(prefix="pdops-browser-", ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        bound(process)
        try:
            told = Path(profile) / "DevToolsActivePort"
            deadline = time.monotonic() + 30
            while not (told.exists() and told.read_text().count("\n")):
                assert process.poll() is None, f"{program} ended with {process.returncode}"
                assert time.monotonic() < deadline, f"{program} did not open its debugging port"
                time.sleep(0.1)
            yield Browser(int(told.read_text().split("\n")[0]))
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
