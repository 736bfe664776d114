#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: coredns_rewrite
short_description: Manage CoreDNS rewrites of names of other clusters' Services to their local mirrors
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Puts server blocks into the Corefile of every cluster, so that C(SERVICE.NAMESPACE.svc.cluster.REMOTE) resolves to the
    local mirror of that service, and C(SERVICE.NAMESPACE.svc.cluster.OWN) to the service itself.
  - The blocks are between two comments at the head of the Corefile. Everything else stays byte for byte, and
    O(state=absent) leaves what was there before.
  - A Corefile that already has a server block for one of the zones is refused, since CoreDNS would not load it with two.
  - With O(clusterset_domain), also C(SERVICE.NAMESPACE.svc.clusterset.local) of the Multi-Cluster Services API resolves.
  - The Corefile is written only in the version that was read. If somebody changes it in between, the cluster is listed in
    RV(failures), and the next run merges into the new text.
extends_documentation_fragment:
  - multicluster.network._kubernetes.inventory
  - multicluster.network._kubernetes
  - multicluster.network._refused
  - multicluster.network._attributes
  - multicluster.network._attributes.writes
  - multicluster.network._attributes.controller
options:
  fabric:
    description: Name of the fabric. It is in the comments by which the blocks are known again.
    type: str
    required: true
  members:
    description: Names of all clusters of the fabric. The default is those in O(clusters), which always count, or the inventory's where that is not given.
    type: list
    elements: str
  destinations:
    description:
      - Clusters in which the Corefile is edited. The default is all of O(clusters). The others are members, and nothing is asked of them.
      - Where O(clusters) is not given either, it is the clusters with nodes in the inventory, or all where none has any.
    type: list
    elements: str
  mirror_namespace:
    description: Namespace of the mirrors.
    type: str
    default: sys-semaphore
  global_zone:
    description: Whether C(SERVICE.NAMESPACE.svc.cluster.global) resolves to global services.
    type: bool
    default: false
  own_zone:
    description: Whether each cluster also answers for its own name.
    type: bool
    default: true
  prefixes:
    description: Cluster name to the prefix of its mirrors, where the two differ.
    type: dict
    default: {}
  cluster_domain:
    description: DNS domain of Kubernetes itself, in all clusters but those of which O(places) has another.
    type: str
    default: cluster.local
  clusterset_domain:
    description:
      - Domain of the Multi-Cluster Services API, such as V(clusterset.local). CoreDNS 1.12.2 and newer answers C(SERVICE.NAMESPACE.svc.DOMAIN)
        from ServiceImports then. Empty for none.
      - With it, a ClusterRole and its binding let the account of CoreDNS list and watch ServiceImports; they go with the names.
      - It is refused where CoreDNS is older or does not say its version, and where the API server has no ServiceImports, since CoreDNS would
        not become ready. The other names are written all the same.
    type: str
  definitions_planned:
    description:
      - Whether the same run installs the definition of ServiceImport before the names, so that a run in check mode need not refuse
        O(clusterset_domain) where the API server does not have it yet. It has no effect on a run that writes.
    type: bool
    default: false
  deployment:
    description: Name of the Deployment of CoreDNS. With O(clusterset_domain), its image gives the version and its pods' account gets the rights.
    type: str
    default: coredns
  version:
    description: Version of CoreDNS. The default renders for 1.8.2 and newer.
    type: str
  versions:
    description: Cluster name to version of CoreDNS, where it differs from O(version).
    type: dict
    default: {}
  namespace:
    description: Namespace of the ConfigMap.
    type: str
    default: kube-system
  name:
    description:
      - Name of the ConfigMap. Where neither this nor O(key) is given, it is V(coredns), or V(coredns-custom) with the key V(multicluster.server) where a
        program keeps V(coredns) as it made it (k3s, AKS) and its Corefile imports C(custom/*.server).
      - Where a program keeps the Corefile and imports nothing, RV(warnings) names it, since the blocks go when it writes.
    type: str
  key:
    description:
      - Key of the ConfigMap. V(Corefile) must exist; it is the default with a O(name) other than V(coredns-custom).
      - Give another for a file that the Corefile imports, such as V(multicluster.server) of C(coredns-custom). The key and the
        ConfigMap are then made where they are missing.
    type: str
  places:
    description:
      - Cluster name to those of C(namespace), C(name), C(key), C(deployment) and C(cluster_domain) that differ there.
      - By default what the inventory has of a cluster in C(coredns_rewrite_namespace), C(coredns_rewrite_config_map), C(coredns_rewrite_key),
        C(coredns_rewrite_deployment) and C(coredns_rewrite_cluster_domain), where O(clusters) is not given.
    type: dict
  state:
    description: V(absent) takes the blocks away.
    type: str
    choices: [present, absent]
    default: present
  fail_on_failures:
    description: >-
      Whether the task fails when a cluster could not be read or written. The other clusters are always finished first,
      and the result lists RV(failures) either way.
    type: bool
    default: true
attributes:
  diff_mode:
    description: Shows the Corefile line by line.
    support: full
seealso:
  - plugin: multicluster.network.dns_rewrite
    plugin_type: filter
  - plugin: multicluster.network.corefile
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Names of each cluster in the other
  multicluster.network.coredns_rewrite:
    fabric: demo
    clusters:
      - {name: aws, kubeconfig: ~/.kube/aws}
      - {name: gcp, kubeconfig: ~/.kube/gcp}

- name: A cluster with a Corefile that is generated and imports further files
  multicluster.network.coredns_rewrite:
    fabric: demo
    clusters:
      - {name: edge, kubeconfig: ~/.kube/edge}
    members: [aws, gcp, edge]
    name: coredns-custom
    key: multicluster.server
"""

RETURN = r"""
plan:
  description: Counts of objects that were (or, in check mode, would be) written, and the changes.
  type: dict
  returned: always
  sample:
    create: 0
    update: 1
    delete: 0
    unchanged: 1
    changes:
      - {action: update, kind: ConfigMap, id: gcp/kube-system/coredns, fields: [Corefile]}
refused:
  description: What was left out, each with the object, a reason and a message.
  type: list
  elements: dict
  returned: always
  sample:
    - object: ConfigMap gcp/kube-system/coredns
      reason: not_ours
      message: a server block of another owner has the zone 'cluster.aws'; remove it, we leave it alone
failures:
  description: What could not be read or written, each with C(cluster), C(operation), C(reason), C(message) and C(status).
  type: list
  elements: dict
  returned: always
  sample: []
warnings:
  description: Who writes a Corefile back, and what keeps the blocks from having an effect.
  type: list
  elements: str
  returned: when there are any
  sample: ["gcp: ConfigMap kube-system/coredns is that of Helm (annotation meta.helm.sh/release-name: 'rke2-coredns'), and loses our section when ..."]
stats:
  description: Requests by verb for each cluster, and seconds.
  type: dict
  returned: always
  sample: {requests: {gcp: {get: 1, patch: 1}}, seconds: 0.03}
"""

from typing import Any

from ansible_collections.multicluster.network.plugins.module_utils._flows.services import coredns
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.argspec import inventory_spec
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.module import KubeModule, exit_kube
from ansible_collections.multicluster.network.plugins.module_utils._module import fail_on_refused_spec


def argument_spec() -> dict[str, Any]:
    """All options."""
    return {
        "fabric": {"type": "str", "required": True},
        "members": {"type": "list", "elements": "str"},
        "destinations": {"type": "list", "elements": "str"},
        "mirror_namespace": {"type": "str", "default": "sys-semaphore"},
        "global_zone": {"type": "bool", "default": False},
        "own_zone": {"type": "bool", "default": True},
        "prefixes": {"type": "dict", "default": {}},
        "cluster_domain": {"type": "str", "default": "cluster.local"},
        "clusterset_domain": {"type": "str"},
        "definitions_planned": {"type": "bool", "default": False},
        "deployment": {"type": "str", "default": "coredns"},
        "version": {"type": "str"},
        "versions": {"type": "dict", "default": {}},
        "namespace": {"type": "str", "default": "kube-system"},
        "name": {"type": "str"},
        "key": {"type": "str", "no_log": False},
        "places": {"type": "dict"},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "fail_on_failures": {"type": "bool", "default": True},
        **inventory_spec(),
        **fail_on_refused_spec(),
    }


def run(module: Any) -> None:
    """All but the start, which the action plugin does for itself."""
    try:
        result = coredns.run(module.params, check=module.check_mode)
    except ValueError as err:
        module.fail_json(msg=str(err))
    exit_kube(module, result)


def main() -> None:
    """Entry point."""
    run(KubeModule(argument_spec=argument_spec(), supports_check_mode=True))


if __name__ == "__main__":
    main()
