# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The manifests behind the role cluster_access."""

from __future__ import annotations

DOCUMENTATION = r"""
name: access_manifests
short_description: Manifests of the rights that capabilities need in a cluster
version_added: 0.1.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - For each capability a ServiceAccount, a ClusterRole with exactly the rights that are used, and a binding.
options:
  _input:
    description: Names of capabilities, V(mesh), V(mesh_read), V(ippools), V(network_sets), V(network_sets_read) or V(coredns_rewrite).
    type: list
    elements: str
    required: true
  namespace:
    description: Namespace of the ServiceAccounts.
    type: str
    default: kube-system
  prefix:
    description: Begin of the names of all objects.
    type: str
    default: multicluster
  extra_rules:
    description: RBAC rules that every ClusterRole gets besides.
    type: list
    elements: dict
    default: []
  target_namespace:
    description: Namespace in which the capability C(service_mirror) may write. It has to exist.
    type: str
    default: sys-semaphore
"""

EXAMPLES = r"""
- name: What would a reader of the mesh get
  ansible.builtin.debug:
    msg: "{{ ['mesh_read'] | multicluster.network.access_manifests }}"
"""

RETURN = r"""
_value:
  description: Manifests, for M(multicluster.network.cluster_objects).
  type: list
  elements: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.multicluster.network.plugins.module_utils._plan import access_manifests as manifests


def access_manifests(
    capabilities: t.Sequence[str],
    namespace: str = "kube-system",
    prefix: str = "multicluster",
    extra_rules: t.Sequence[t.Dict[str, t.Any]] = (),
    target_namespace: str = "sys-semaphore",
) -> t.List[t.Dict[str, t.Any]]:
    """See DOCUMENTATION."""
    try:
        names = [str(name) for name in capabilities]
        return manifests.access_manifests(names, str(namespace), str(prefix), extra_rules, str(target_namespace))
    except ValueError as err:
        raise AnsibleFilterError("access_manifests: {0}".format(err)) from err


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> t.Dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"access_manifests": access_manifests}
