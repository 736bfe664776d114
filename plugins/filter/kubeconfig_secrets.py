# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets with the kubeconfigs of clusters."""

from __future__ import annotations

DOCUMENTATION = r"""
name: kubeconfig_secrets
short_description: Make Secrets with the kubeconfigs of clusters
version_added: 0.1.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - One manifest for each cluster, as C(kubeconfigSecretRef) of a C(ClusterMesh) object refers to it.
options:
  _input:
    description: Names of the clusters.
    type: list
    elements: str
    required: true
  texts:
    description: The kubeconfigs in the same order. Without any, manifests without data are made, which are enough to remove the Secrets.
    type: list
    elements: str
    required: true
  namespace:
    description: Namespace of the Secrets.
    type: str
    required: true
  name:
    description: Name of a Secret. C({cluster}) stands for the cluster's name.
    type: str
    default: "{cluster}-kubeconfig"
  key:
    description: Key of the kubeconfig in the Secret.
    type: str
    default: kubeconfig
"""

EXAMPLES = r"""
- name: Which Secrets would there be
  ansible.builtin.debug:
    msg: "{{ ['us'] | multicluster.network.kubeconfig_secrets([], 'kilo-system') | map(attribute='metadata.name') | list }}"
"""

RETURN = r"""
_value:
  description: Manifests, for M(multicluster.network.cluster_objects).
  type: list
  elements: dict
"""

import base64
import typing as t

from ansible.errors import AnsibleFilterError


def kubeconfig_secrets(
    names: t.Sequence[str],
    texts: t.Sequence[str],
    namespace: str,
    name: str = "{cluster}-kubeconfig",
    key: str = "kubeconfig",
) -> t.List[t.Dict[str, t.Any]]:
    """See DOCUMENTATION."""
    if texts and len(texts) != len(names):
        raise AnsibleFilterError("kubeconfig_secrets: {0} names and {1} kubeconfigs".format(len(names), len(texts)))
    found = []
    for index, cluster in enumerate(names):
        raw = str(texts[index]).encode("utf-8") if texts else b""
        found.append(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "type": "Opaque",
                "metadata": {"name": str(name).replace("{cluster}", str(cluster)), "namespace": str(namespace)},
                "data": {str(key): base64.b64encode(raw).decode("ascii")},
            }
        )
    return found


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> t.Dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"kubeconfig_secrets": kubeconfig_secrets}
