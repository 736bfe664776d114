# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Captures of everything that crosses the underlay's bridge."""

from __future__ import annotations

import pathlib
import time
import typing as t

from . import namespaces, process, underlay
from .errors import LabError

if t.TYPE_CHECKING:
    from .lab import Lab


class Capture:
    """One running capture of a lab; started and stopped by its pid file, so different calls can do either."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.pid_file = lab.state / "run" / "capture.pid"
        self.log = lab.state / "run" / "capture.log"

    def start(self, out: pathlib.Path, expression: str = "") -> None:
        if process.read_pid(self.pid_file):
            raise LabError("a capture runs already: capture-stop first")
        self.log.unlink(missing_ok=True)
        process.spawn(
            self.lab.state,
            self.pid_file,
            self.log,
            [
                "nsenter",
                f"--net={namespaces.path(self.lab.underlay)}",
                "tcpdump",
                "-i",
                underlay.BRIDGE,
                "-nn",
                "-U",
                "-s",
                "0",
                "--immediate-mode",
                "-B",
                "16384",
                "-Z",
                "root",
                "-w",
                out.absolute(),
                *([expression] if expression else []),
            ],
        )
        deadline = time.monotonic() + 10
        while "listening on" not in (self.log.read_text() if self.log.exists() else ""):
            if time.monotonic() > deadline or not process.read_pid(self.pid_file):
                raise LabError(f"tcpdump did not start: {self.log.read_text().strip()}")
            time.sleep(0.02)

    def stop(self) -> str:
        """End the capture; returns tcpdump's summary."""
        pid = process.read_pid(self.pid_file)
        if pid is None:
            raise LabError("no capture runs")
        time.sleep(0.2)  # what has just been sent is still in tcpdump's buffer
        process.end([pid])
        self.pid_file.unlink(missing_ok=True)
        return self.log.read_text().strip()

    def take(self, out: pathlib.Path, seconds: float, expression: str = "") -> str:
        self.start(out, expression)
        time.sleep(seconds)
        return self.stop()
