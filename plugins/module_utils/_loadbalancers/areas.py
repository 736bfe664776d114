# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""Which jobs a run has: what is configured, less what the provider cannot do. The rest is silent (ccm 1, 15)."""

from __future__ import annotations

import typing as t

from .load_balancer_setting import LoadBalancer

INSTANCES, PROJECT_BGP, NODE_BGP, ADDRESSES, CONTROL_PLANE = "instances project_bgp node_bgp addresses control_plane".split()
#: What a job needs of a provider. Addresses that users bring along are mapped without any provider.
_NEEDS = {INSTANCES: "devices", PROJECT_BGP: "project_bgp", NODE_BGP: "node_bgp", ADDRESSES: None, CONTROL_PLANE: "assign"}


def areas(load_balancer: LoadBalancer, control_plane_tag: str, capabilities: t.Container[str]) -> t.List[str]:
    """In the order in which they run; one that fails does not stop the others."""
    on = [ADDRESSES] if load_balancer.enabled else []
    on.append(INSTANCES)
    on += [PROJECT_BGP, NODE_BGP] if load_balancer.uses_bgp else []
    on += [CONTROL_PLANE] if control_plane_tag else []
    return [area for area in on if _NEEDS[area] is None or _NEEDS[area] in capabilities]
