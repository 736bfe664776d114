# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Kilo node's endpoint."""

from __future__ import annotations

DOCUMENTATION = r"""
name: resolve_endpoint
short_description: The WireGuard endpoint of a Kilo node and where it comes from
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - The first source that is not empty counts. These are the annotation C(kilo.squat.ai/clustermesh-endpoint), the annotation
    C(kilo.squat.ai/force-endpoint), and the first ExternalIP (IPv4 before IPv6) with O(port).
  - Fails with C(NodeEndpointInvalid) for an annotation that is not C(host:port), and with C(NodeNoEndpoint) without any source.
options:
  _input:
    description: A Node object, or a dictionary with C(name), C(annotations), C(podCIDRs) and C(addresses).
    type: dict
    required: true
  port:
    description: UDP port for an ExternalIP. 0 means 51820.
    type: int
    default: 0
"""

EXAMPLES = r"""
- name: Where is the node reached
  ansible.builtin.debug:
    msg: "{{ node | multicluster.network.resolve_endpoint(51821) }}"
"""

RETURN = r"""
_value:
  description: C(endpoint) and C(source), which is C(clustermesh-endpoint), C(force-endpoint) or C(external-ip).
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kilo.endpoints import (
    resolve_endpoint as resolve,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kilo.values import parse_node
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused


def resolve_endpoint(node: t.Any, port: int = 0) -> t.Any:
    """See DOCUMENTATION."""
    try:
        found = resolve(parse_node(node), int(port))
        return {"endpoint": found.text, "source": found.source}
    except ValueRefused as err:
        # the message begins with the reason
        raise AnsibleFilterError(str(err)) from err


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"resolve_endpoint": resolve_endpoint}
