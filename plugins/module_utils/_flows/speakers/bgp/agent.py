# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs alongside a node's BGP daemon without a play.

speaker.pyz start    write what the daemon starts with
speaker.pyz follow   the follower
"""

from __future__ import annotations

import sys
import typing as t

from . import follow as speaker_follow


def main(arguments: t.Sequence[str]) -> int:
    """Returns the exit status."""
    words = list(arguments)
    if words == ["start"]:
        return speaker_follow.start()
    if words == ["follow"]:
        speaker_follow.follow()
        return 0
    sys.stderr.write("usage: speaker.pyz start | follow\n")
    return 2
