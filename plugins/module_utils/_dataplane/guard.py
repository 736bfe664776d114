# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must hold around a node's mesh: modes of folders, settings of the kernel. Pure."""

from __future__ import annotations

import typing as t

#: Reverse path filter: strict drops what comes in where the answer would leave elsewhere; loose lets it in, whatever holds for all devices.
STRICT, NO_FILTER = 1, 2
#: What lets a host pass on the packets of pods, by IP version.
FORWARDING = {4: ("net", "ipv4", "ip_forward"), 6: ("net", "ipv6", "conf", "all", "forwarding")}
_OTHERS_WRITE, _STICKY = 0o022, 0o1000


def folder_mode(mode: int, private: bool) -> t.Optional[int]:
    """The mode that a folder of root's must have. private: for root's eyes only. None: everybody shares it, so it is nobody's to change."""
    if private:
        return 0o700
    if not mode & _OTHERS_WRITE:
        return mode
    return None if mode & _STICKY else mode & ~_OTHERS_WRITE
