# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a Kilo node gets a Peer."""

from __future__ import annotations

DOCUMENTATION = r"""
name: validate_node
short_description: Whether a Kilo node gets a Peer, or the reason why not
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Fails with the reason when the node would be skipped, such as C(NodeNoWireguardIP) or C(WGIPOutOfRange).
  - WireGuard addresses that two nodes have are found over all nodes of a cluster only, and not here.
options:
  _input:
    description: A Node object, or a dictionary with C(name), C(annotations), C(podCIDRs) and C(addresses).
    type: dict
    required: true
  entry:
    description: The cluster's entry of a mesh, with C(podCIDRs) and C(wireguardCIDR), or C(allowedNetworks).
    type: dict
    required: true
  endpoint_policy:
    description: Whether a node without any endpoint fails.
    type: str
    default: require
    choices: [require, roam]
"""

EXAMPLES = r"""
- name: Is the node fit for the mesh
  ansible.builtin.debug:
    msg: "{{ node | multicluster.network.validate_node(entry) }}"
"""

RETURN = r"""
_value:
  description: The node's name.
  type: str
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kilo.nodes import validate_node as validate
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kilo.values import parse_node
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused


def validate_node(node: t.Any, entry: t.Any, endpoint_policy: str = "require") -> t.Any:
    """See DOCUMENTATION."""
    if not isinstance(entry, dict):
        raise AnsibleFilterError("validate_node: the entry is no dictionary")
    try:
        parsed = parse_node(node)
        validate(parsed, entry, endpoint_policy)
    except ValueRefused as err:
        # the message begins with the reason
        raise AnsibleFilterError(str(err)) from err
    return parsed.name


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"validate_node": validate_node}
