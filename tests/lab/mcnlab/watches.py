# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many files this machine lets one user watch: the usual limit ends kubelets and wireguard-go of a second lab without a message."""

from __future__ import annotations

import pathlib

from .progress import say
from .topology import Topology

SETTING = pathlib.Path("/proc/sys/fs/inotify/max_user_instances")
USUAL, FEW = 128, 32
# A kubelet, its containerd and the node's systemd watch files by about a dozen instances, which the kernel counts per user over all labs.
WITH_PODS = 1024


def needed(topology: Topology) -> int:
    """Instances for a lab alongside others, 0 where the usual limit does. Each wireguard-go, one a node and other cluster, watches its socket by one."""
    devices = len(topology.nodes) * (len(topology.clusters) - 1)
    return max(WITH_PODS if topology.real_pods else 0, USUAL + 2 * devices if devices > FEW else 0)


def allow(desired: int, setting: pathlib.Path = SETTING) -> None:
    """Raise the limit; a machine that allows more keeps its own. It stays until the machine boots: other labs count on it by then."""
    found = int(setting.read_text())
    if found < desired:
        say(f"{setting.name} of the machine becomes {desired} (was {found}), until it boots again")
        setting.write_text(f"{desired}\n")
