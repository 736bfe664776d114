# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A headless Chromium, spoken to over its own pipe: pages, what they fetch, what they complain about, pictures."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

#: A busy machine may take its time; nothing here waits longer than it has to.
PATIENCE = 120.0


class Chromium:
    """One browser; ``page`` opens a page in a window of a size."""

    def __init__(self, program=None):
        self.folder = tempfile.mkdtemp(prefix="mcn-chromium-")
        # above those that the browser wants: 3 to read from, 4 to write to
        low = (*os.pipe(), *os.pipe())
        to_read, self._write, self._read, to_write = (fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, 20) for handle in low)
        for handle in low:
            os.close(handle)
        words = [
            program or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome"),
            "--headless",
            "--remote-debugging-pipe",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-first-run",
            "--user-data-dir=" + self.folder,
            "about:blank",
        ]
        script = f'exec "$@" 3<&{to_read} 4>&{to_write}'
        self._log = pathlib.Path(self.folder, "log").open("wb")
        self.process = subprocess.Popen(
            ["bash", "-c", script, "bash", *words],
            pass_fds=(to_read, to_write),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        os.close(to_read)
        os.close(to_write)
        self._buffer, self._number, self.events = b"", 0, []

    def close(self):
        with contextlib.suppress(Exception):
            self.ask("Browser.close")
        for handle in (self._write, self._read):
            with contextlib.suppress(OSError):
                os.close(handle)
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, 9)
            self.process.wait()
        self._log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _message(self, end):
        while b"\0" not in self._buffer:
            ready = select.select([self._read], [], [], max(0.0, end - time.monotonic()))[0]
            part = os.read(self._read, 1 << 20) if ready else b""
            if not part:
                log = pathlib.Path(self.folder, "log").read_text(errors="replace")
                raise AssertionError("the browser prints nothing:\n" + log[-3000:])
            self._buffer += part
        message, dummy, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def ask(self, method, session=None, **parameters):
        """The result of one command; events that come meanwhile are kept."""
        self._number += 1
        request = {"id": self._number, "method": method, "params": parameters}
        if session:
            request["sessionId"] = session
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        end = time.monotonic() + PATIENCE
        while True:
            message = self._message(end)
            if message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]
            self.events.append(message)

    def until(self, method, session):
        """Wait for an event."""
        end = time.monotonic() + PATIENCE
        while True:
            for event in self.events:
                if event.get("method") == method and event.get("sessionId") == session:
                    return event
            self.events.append(self._message(end))

    @contextlib.contextmanager
    def page(self, url, width=1280, height=900, dark=False, script=True):
        """A page that has loaded."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.events.clear()
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.ask(domain + ".enable", session)
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            session,
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 700,
        )
        self.ask(
            "Emulation.setEmulatedMedia",
            session,
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )
        if not script:
            self.ask("Emulation.setScriptExecutionDisabled", session, value=True)
        self.ask("Page.navigate", session, url=url)
        self.until("Page.loadEventFired", session)
        try:
            yield Page(self, session)
        finally:
            self.ask("Target.closeTarget", targetId=target)


class Page:
    """A page that is open."""

    def __init__(self, browser, session):
        self._browser, self._session = browser, session

    def value(self, expression):
        """What an expression is worth in the page."""
        answer = self._browser.ask("Runtime.evaluate", self._session, expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def numbers(self):
        """Every number by its labels: {key: [value]}; one that is nothing has None."""
        rows = json.loads(
            self.value('JSON.stringify([...document.querySelectorAll("[data-k]")].map(e=>[e.dataset.k,e.dataset.v]))')
        )
        found = {}
        for key, value in rows:
            found.setdefault(key, []).append(json.loads(value) if value else None)
        return found

    def requests(self):
        """What the page asked for."""
        self.value("1")
        desired = [
            event["params"]["request"]["url"]
            for event in self._browser.events
            if event.get("method") == "Network.requestWillBeSent"
        ]
        return [url for url in desired if not url.startswith(("data:", "about:"))]

    def complaints(self):
        """Errors and warnings of console, log and script."""
        self.value("1")
        found = []
        for event in self._browser.events:
            name, reported = event.get("method"), event.get("params", {})
            if name == "Runtime.exceptionThrown":
                found.append(reported["exceptionDetails"].get("text"))
            elif name == "Runtime.consoleAPICalled" and reported["type"] in ("error", "warning", "assert"):
                found.append(reported["args"])
            elif name == "Log.entryAdded" and reported["entry"]["level"] in ("error", "warning"):
                found.append(reported["entry"]["text"])
        return found

    def picture(self, path, whole=True):
        """A PNG of the page."""
        size = self._browser.ask("Page.getLayoutMetrics", self._session)["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 4000), "scale": 1}
        more = {"clip": clip, "captureBeyondViewport": True} if whole else {}
        shot = self._browser.ask("Page.captureScreenshot", self._session, format="png", **more)
        with pathlib.Path(path).open("wb") as file:
            file.write(base64.b64decode(shot["data"]))
