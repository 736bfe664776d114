# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider ID from its parts."""

from __future__ import annotations

DOCUMENTATION = r"""
name: apinet_provider_id_format
short_description: Provider ID of tenant networks from its parts
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Joins C(namespace), C(name), C(node) or C(id), and C(uid) to a provider ID. Nothing is checked or escaped.
options:
  _input:
    description: The parts, as P(multicluster.network.apinet_provider_id_parse#filter) gives them. Missing ones are empty.
    type: dict
    required: true
  profile:
    description: Which generation of the project the strings are of.
    type: str
    choices: [onmetal, ironcore]
    default: onmetal
"""

EXAMPLES = r"""
- name: Show onmetal-api-net://apinet-system/nic-1/rack-1.node-a/7c1c88f0
  ansible.builtin.debug:
    msg: "{{ {'namespace': 'apinet-system', 'name': 'nic-1', 'node': 'rack-1.node-a', 'uid': '7c1c88f0'}
      | multicluster.network.apinet_provider_id_format }}"
"""

RETURN = r"""
_value:
  description: The provider ID.
  type: str
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.multicluster.network.plugins.module_utils._tenants.links import format_id
from ansible_collections.multicluster.network.plugins.module_utils._tenants.options import PROFILES


def apinet_provider_id_format(parts: t.Any, profile: str = "onmetal") -> str:
    """The ID."""
    if not isinstance(parts, dict) or profile not in PROFILES:
        raise AnsibleFilterError(
            "apinet_provider_id_format: parts are a dictionary, profile is one of " + ", ".join(PROFILES)
        )
    third = parts.get("node") if "node" in parts else parts.get("id")
    return format_id((parts.get("namespace"), parts.get("name"), third, parts.get("uid")), PROFILES[profile])


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"apinet_provider_id_format": apinet_provider_id_format}
