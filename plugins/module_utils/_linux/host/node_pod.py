# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether we run in a pod of the role node_access: a node's network and processes, and none of its init."""

from __future__ import annotations

import os

#: Set in the container by the role's DaemonSet; its value is the fabric.
VARIABLE = "MULTICLUSTER_NODE_POD"


def inside() -> bool:
    """True in such a pod."""
    return bool(os.environ.get(VARIABLE))
