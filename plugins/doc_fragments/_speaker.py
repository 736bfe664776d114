# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""Documentation of the options in _flows/speakers/arguments.py."""

from __future__ import annotations


class ModuleDocFragment:
    """What a node announces, and what shows that it can deliver it."""

    DOCUMENTATION = r"""
options:
  routes:
    description: What to announce while the node can deliver it, as RV(multicluster.network.load_balancers#module:load_balancers) has it.
    type: list
    elements: dict
    default: []
    suboptions:
      network:
        description: A network or a single address; on a network segment, a single address.
        type: str
        required: true
      group:
        description:
          - The group in which nodes of a network segment wait to take the address, from 1 to 255 (VRRP's virtual router identifier). One node holds all
            addresses of a group. Each route needs one in M(multicluster.network.layer2_speaker); routers are not notified of it.
        type: int
      health_ports:
        description:
          - Ports of this node that all have to answer with status 200, such as C(healthCheckNodePort) of a Service with
            C(externalTrafficPolicy=Local). Any other answer withdraws the network at once, or hands the group over; silence does after 10 seconds. The
            same for all of a group.
        type: list
        elements: int
        default: []
      services:
        description: The owner of the network, for people.
        type: list
        elements: str
        default: []
  node_health_port:
    description:
      - Port on which kube-proxy reports whether the node can deliver at all. Everything is withdrawn, or given to another node, by its answer.
        It counts once it has ever
        answered, so that nodes without kube-proxy go on. V(0) is for no such port.
    type: int
    default: 10256
"""
