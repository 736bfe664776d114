# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""The little of systemd that we use: tell it to read its units again."""

from __future__ import annotations

import os
import subprocess


def running() -> bool:
    """True where systemd is the init (the documented test, the same as sd_booted)."""
    return os.path.isdir("/run/systemd/system")


def reload_units() -> bool:
    """Let systemd read changed unit files; False where it is not running, which is no error in an image build."""
    if not running():
        return False
    subprocess.run(["systemctl", "daemon-reload"], check=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    return True


def forget_failed(unit: str) -> None:
    """Drop what systemd remembers of a unit that is gone."""
    if running():
        subprocess.run(["systemctl", "reset-failed", unit], check=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
