# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs alongside a node's layer 2 speaker without a play.

speaker.pyz start    before keepalived: what this node can deliver
speaker.pyz clean    after keepalived, however it ended: what it left behind
speaker.pyz follow   the follower
"""

from __future__ import annotations

import sys
import typing as t

from ...._linux.errors import LinuxError
from . import follow


def main(arguments: t.Sequence[str]) -> int:
    """Returns the exit status."""
    words = list(arguments)
    if words == ["start"]:
        return follow.start()
    if words == ["clean"]:
        try:
            for address in follow.clean():
                sys.stdout.write(f"{address} was left behind and is taken away\n")
        except (LinuxError, ValueError) as error:
            sys.stderr.write(f"{error}\n")
            return 1
        return 0
    if words == ["follow"]:
        follow.follow()
        return 0
    sys.stderr.write("usage: speaker.pyz start | clean | follow\n")
    return 2
