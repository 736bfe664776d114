# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The labels that link a twin."""

from __future__ import annotations

DOCUMENTATION = r"""
name: apinet_link_labels
short_description: Labels on what belongs to an object of tenant networks
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Gives the three labels that everything on the network side carries which belongs to an object, to select it by them.
options:
  _input:
    description: The object of the tenant-facing side, as the API server gives it.
    type: dict
    required: true
  kind:
    description: Its kind. The default is its own.
    type: str
  profile:
    description: Which generation of the project the strings are of.
    type: str
    choices: [onmetal, ironcore]
    default: onmetal
"""

EXAMPLES = r"""
- name: Show the labels of the twin of a network
  ansible.builtin.debug:
    msg: "{{ network | multicluster.network.apinet_link_labels }}"
  vars:
    network: {kind: Network, metadata: {namespace: team-a, name: net-1, uid: 4d2f1c66}}
"""

RETURN = r"""
_value:
  description: The labels.
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.multicluster.network.plugins.module_utils._tenants.links import link_labels
from ansible_collections.multicluster.network.plugins.module_utils._tenants.options import KINDS, PROFILES


def apinet_link_labels(source: t.Any, kind: str | None = None, profile: str = "onmetal") -> dict[str, str]:
    """The labels."""
    found = kind or (source.get("kind") if isinstance(source, dict) else None)
    if not isinstance(source, dict) or found not in KINDS or profile not in PROFILES:
        raise AnsibleFilterError(
            "apinet_link_labels: not an object of one of " + ", ".join(KINDS) + ", or an unknown profile"
        )
    return link_labels(found, source, PROFILES[profile])


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"apinet_link_labels": apinet_link_labels}
