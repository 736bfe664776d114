# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The name of a twin."""

from __future__ import annotations

DOCUMENTATION = r"""
name: apinet_twin_name
short_description: Name of the twin of an object of tenant networks
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Gives the name that the twin of an object has on the network side, which is the uid of the object.
options:
  _input:
    description: The object of the tenant-facing side, as the API server gives it.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the name of a network on the network side
  ansible.builtin.debug:
    msg: "{{ network | multicluster.network.apinet_twin_name }}"
  vars:
    network: {metadata: {namespace: team-a, name: net-1, uid: 4d2f1c66-6d0b-4c39-9d0d-0f0d3b8f3b5a}}
"""

RETURN = r"""
_value:
  description: The name.
  type: str
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.multicluster.network.plugins.module_utils._tenants.links import twin_name


def apinet_twin_name(source: t.Any) -> str:
    """The name."""
    found = twin_name(source) if isinstance(source, dict) else ""
    if not found:
        raise AnsibleFilterError("apinet_twin_name: the object has no uid")
    return found


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"apinet_twin_name": apinet_twin_name}
