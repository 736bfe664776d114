# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Calico IPPools that make a cluster treat remote pod ranges as pod addresses (semaphore 3.7).

The pools are disabled, so that no local pod gets an address from them; they only stop masquerading and let host
rules accept the traffic. Calico's own programs read a disabled pool's other fields all the same, so each of these is
written with the value that changes nothing:

* ``ipipMode`` and ``vxlanMode``: any other value in any pool makes felix switch the encapsulation on for the whole
  cluster (it restarts, drops the packets of other hosts and lowers the MTU of pods).
* ``disableBGPExport``: BIRD learns the kernel's routes and announces those that lie inside a pool; the route to the
  other cluster is such a route.
"""

from __future__ import annotations

import typing as t

from ..fabric.inventory import Fabric

V3, CRD = "projectcalico.org/v3", "crd.projectcalico.org/v1"


def pool_name(remote: str, index: int) -> str:
    """``gcp-pods`` for the first range of a remote, ``gcp-pods-2`` for the second: a range added later renames none."""
    return f"{remote}-pods" if index == 0 else f"{remote}-pods-{index + 1}"


def ip_pools(fabric: Fabric, local: str, api_version: str = V3) -> list[dict[str, t.Any]]:
    """The desired IPPool manifests of one cluster, by name. api_version: ``projectcalico.org/v3`` where Calico's API
    server is installed, else ``crd.projectcalico.org/v1``; the objects have the same fields.
    """
    pools = []
    for remote, settings in fabric.remotes(local).items():
        for index, cidr in enumerate(settings.pod_subnets):
            pools.append(
                {
                    "apiVersion": api_version,
                    "kind": "IPPool",
                    "metadata": {"name": pool_name(remote, index)},
                    "spec": {
                        "cidr": cidr,
                        "disabled": True,
                        "disableBGPExport": True,
                        "ipipMode": "Never",
                        "vxlanMode": "Never",
                    },
                }
            )
    return sorted(pools, key=lambda pool: pool["metadata"]["name"])


def pools_desired(setting: str, calico_served: bool) -> bool:
    """Whether a cluster gets pools at all: ``always``, ``never``, or ``auto`` where its API serves Calico's kinds."""
    return setting == "always" or (setting == "auto" and calico_served)
