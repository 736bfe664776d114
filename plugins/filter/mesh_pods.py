# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods the nodes of a play have found."""

from __future__ import annotations

DOCUMENTATION = r"""
name: mesh_pods
short_description: The pods that the nodes of a play have found
version_added: 0.1.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Collects what M(multicluster.network.node_dataplane) with its option C(probe), or M(multicluster.network.node_probe), registered on
    every host by our roles, once for all of them.
    Variables of all hosts cost time; a fabric of many nodes has none to look at them from each of its nodes.
options:
  _input:
    description: The variable C(hostvars), in which hosts have the registered results.
    type: dict
    required: true
  hosts:
    description: The hosts of the play.
    type: list
    elements: str
    required: true
positional: hosts
"""

EXAMPLES = r"""
- name: Keep what was found
  ansible.builtin.set_fact:
    fabric_pods: "{{ hostvars | multicluster.network.mesh_pods(ansible_play_hosts) }}"
  run_once: true
"""

RETURN = r"""
_value:
  description: Host to addresses; a host whose pods nobody looked for is not in it.
  type: dict
"""

import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._status import collected
from ansible_collections.multicluster.network.plugins.plugin_utils.registered import registered


def mesh_pods(hostvars: t.Any, hosts: t.Sequence[str]) -> dict[str, list[str]]:
    """See DOCUMENTATION."""
    return collected.pods(registered(hostvars), hosts)


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"mesh_pods": mesh_pods}
