# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a policy names pods of another cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
name: policy_selector
short_description: How a network policy names a set of another cluster's pods
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Gives the source of a policy's rule for a set that M(multicluster.network.network_sets) makes.
options:
  _input:
    description: Value of the pods' label C(policy.semaphore.uw.io/name).
    type: str
    required: true
  cluster:
    description: The pods' cluster.
    type: str
    required: true
  namespace:
    description: The pods' namespace.
    type: str
    required: true
  target:
    description: >-
      V(calico) gives C(selector) and C(namespaceSelector) of a NetworkPolicy of Calico, V(calico_global) only C(selector) for a
      GlobalNetworkPolicy, V(cilium) gives C(fromCIDRSet) of a CiliumNetworkPolicy.
    type: str
    choices: [calico, calico_global, cilium]
    default: calico
seealso:
  - module: multicluster.network.network_sets
"""

EXAMPLES = r"""
- name: Who may send logs
  ansible.builtin.debug:
    msg: "{{ 'forwarder' | multicluster.network.policy_selector('gcp', 'sys-log') }}"
"""

RETURN = r"""
_value:
  description: Fields of a rule's source.
  type: dict
  sample:
    selector: >-
      policy.semaphore.uw.io/name == 'forwarder' && policy.semaphore.uw.io/namespace == 'sys-log' &&
      policy.semaphore.uw.io/cluster == 'gcp'
    namespaceSelector: global()
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.multicluster.network.plugins.module_utils._services.network_sets import targets


def policy_selector(name: str, cluster: str, namespace: str, target: str = "calico") -> dict[str, t.Any]:
    """See DOCUMENTATION."""
    try:
        if target == "cilium":
            return targets.cilium_rule(cluster, namespace, name)
        found = dict(targets.calico_selector(cluster, namespace, name))
    except ValueError as error:
        raise AnsibleFilterError(f"policy_selector: {error}") from error
    if target == "calico_global":
        del found["namespaceSelector"]
    elif target != "calico":
        raise AnsibleFilterError("policy_selector: target is calico, calico_global or cilium")
    return found


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"policy_selector": policy_selector}
