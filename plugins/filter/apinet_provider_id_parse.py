# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider ID taken apart."""

from __future__ import annotations

DOCUMENTATION = r"""
name: apinet_provider_id_parse
short_description: Parts of a provider ID of tenant networks
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Takes a provider ID of an interface or a network apart. The scheme in front is optional.
  - Only the form is checked, and of an interface also that the node is a DNS subdomain. Fails with C(segment_count) or C(invalid_node).
options:
  _input:
    description: The provider ID.
    type: str
    required: true
  kind:
    description: What it is the ID of.
    type: str
    choices: [network_interface, network]
    default: network_interface
  profile:
    description: Which generation of the project the strings are of.
    type: str
    choices: [onmetal, ironcore]
    default: onmetal
"""

EXAMPLES = r"""
- name: Show rack-1.node-a
  ansible.builtin.debug:
    msg: "{{ ('onmetal-api-net://apinet-system/nic-1/rack-1.node-a/7c1c88f0' | multicluster.network.apinet_provider_id_parse).node }}"

- name: Show 4711
  ansible.builtin.debug:
    msg: "{{ ('apinet-system/net/4711/8a0d' | multicluster.network.apinet_provider_id_parse('network')).id }}"
"""

RETURN = r"""
_value:
  description: C(namespace), C(name), C(node) of an interface or C(id) of a network, and C(uid).
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.multicluster.network.plugins.module_utils._tenants.links import (
    parse_interface_id,
    parse_network_id,
)
from ansible_collections.multicluster.network.plugins.module_utils._tenants.options import PROFILES
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused


def apinet_provider_id_parse(text: t.Any, kind: str = "network_interface", profile: str = "onmetal") -> dict[str, str]:
    """The parts."""
    if kind not in ("network_interface", "network") or profile not in PROFILES:
        raise AnsibleFilterError(
            "apinet_provider_id_parse: kind is network_interface or network, profile one of " + ", ".join(PROFILES)
        )
    try:
        found = (parse_network_id if kind == "network" else parse_interface_id)(text, PROFILES[profile])
    except ValueRefused as error:
        raise AnsibleFilterError(f"apinet_provider_id_parse: {error.message} [{error.reason}]") from error
    return dict(found._asdict())


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"apinet_provider_id_parse": apinet_provider_id_parse}
