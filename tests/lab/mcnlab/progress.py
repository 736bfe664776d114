# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Progress lines with elapsed times, on standard error, so that standard output stays for results."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import typing as t

_BEGAN = time.monotonic()
_LOCK = threading.Lock()


def say(text: str) -> None:
    """Print one progress line."""
    with _LOCK:
        print(f"[lab {time.monotonic() - _BEGAN:6.1f}s] {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def phase(text: str, every: float = 20.0) -> t.Iterator[None]:
    """Announce a phase, repeat it every ``every`` seconds while it lasts, and say how long it took."""
    began = time.monotonic()
    done = threading.Event()

    def heartbeat() -> None:
        while not done.wait(every):
            say(f"{text}: still working after {time.monotonic() - began:.0f} s")

    beat = threading.Thread(target=heartbeat, daemon=True)
    beat.start()
    say(f"{text} ...")
    try:
        yield
    finally:
        done.set()
        beat.join()
    say(f"{text}: {time.monotonic() - began:.1f} s")
