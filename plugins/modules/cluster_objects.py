#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_objects
short_description: Manage a set of objects in one or more clusters
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Brings a set of objects of any kinds to what their manifests say, in all clusters at the same time, in one call.
  - Each kind is listed once. Only the fields that a manifest gives are compared, and only objects that differ are written,
    by server-side apply with the fabric's own field manager.
  - An object is owned when this field manager applied something of it outside C(metadata), or the label
    C(app.kubernetes.io/managed-by=multicluster.network). Other objects are neither changed nor deleted without O(adopt=true).
  - Fields that a manifest had once and has no more are removed.
extends_documentation_fragment:
  - multicluster.network._kubernetes.inventory
  - multicluster.network._kubernetes
  - multicluster.network._kubernetes.owner
  - multicluster.network._refused
  - multicluster.network._attributes
  - multicluster.network._attributes.writes
options:
  objects:
    description: Manifests that every cluster gets.
    type: list
    elements: dict
    default: []
  objects_by_cluster:
    description: Cluster name to a list of manifests that only this cluster gets.
    type: dict
    default: {}
  files:
    description: Files with manifests, which every cluster gets, of the role that has the task or on the controller. In place of O(objects).
    type: list
    elements: str
    default: []
  files_cluster:
    description: The only cluster that gets what is in O(files).
    type: str
  substitute:
    description: Texts that are replaced in O(files), and what by.
    type: dict
    default: {}
  planned:
    description:
      - V(ip_pools) takes the address pools that M(multicluster.network.mesh_plan) planned in the same run for O(objects_by_cluster), and their
        kind for O(purge).
      - With O(state=absent) and O(state=released), only those of clusters with all of their nodes in the play.
    type: str
    choices: [ip_pools]
  access:
    description: >-
      An account for each capability that every cluster gets as well, a ServiceAccount, a ClusterRole with exactly the rights that are used, and a
      binding. To see the manifests, use check mode with diff.
    type: dict
    suboptions:
      capabilities:
        description: Names of capabilities, such as V(mesh), V(mesh_read), V(ippools), V(network_sets) or V(coredns_rewrite).
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
        description: Namespace in which the capability V(service_mirror) may write. It has to exist.
        type: str
        default: sys-semaphore
  node_pods:
    description: >-
      A namespace and a DaemonSet that every cluster gets as well. By its pods P(multicluster.network.node_pod#connection) reaches nodes.
      They are privileged, in the network of their nodes. Without O(clusters), only clusters get them that have a host with this connection.
    type: dict
    suboptions:
      image:
        description: Image with C(/bin/sh), C(head), C(cat) and Python 3.9 or newer, and C(wireguard-go) where kernels have no WireGuard.
        type: str
      namespace:
        description: An existing namespace. Without it they get one of their own, with the labels of Pod Security that privileged pods need.
        type: str
        default: ""
      node_selector:
        description: Labels of the nodes that get a pod.
        type: dict
        default: {}
      pull_secrets:
        description: Names of Secrets in O(node_pods.namespace) with which the image is pulled.
        type: list
        elements: str
        default: []
      during_runs:
        description: >-
          The run will remove them at its end. Where it ends before, a process on the controller does, once every change that nobody confirmed
          has been taken back.
        type: bool
        default: false
  kubeconfig_secrets:
    description: >-
      Secrets with kubeconfigs that every cluster gets as well, as C(kubeconfigSecretRef) of a C(ClusterMesh) object refers to them. The files are read
      here, and are no part of the task. In check mode a file that does not exist yet is left out.
    type: dict
    suboptions:
      clusters:
        description: Names of the clusters of these kubeconfigs.
        type: list
        elements: str
        required: true
      path:
        description: Path of a cluster's kubeconfig. C({cluster}) is replaced by its name.
        type: path
        required: true
      namespace:
        description: Namespace of the Secrets.
        type: str
        required: true
      name:
        description: Name of a Secret. C({cluster}) is replaced by the cluster's name.
        type: str
        default: "{cluster}-kubeconfig"
      key:
        description: Key of the kubeconfig in the Secret.
        type: str
        default: kubeconfig
  state:
    description:
      - V(absent) deletes the objects, and everything owned in O(purge).
      - V(released) leaves all of these as they are and gives up their ownership.
    type: str
    choices: [present, absent, released]
    default: present
  purge:
    description: Ranges in which owned objects that are not desired are deleted.
    type: list
    elements: dict
    default: []
    suboptions:
      api_version:
        description: API version of the kind.
        type: str
        required: true
      kind:
        description: Kind.
        type: str
        required: true
      namespace:
        description: Only in this namespace.
        type: str
      label_selector:
        description: Only objects that this selector finds.
        type: str
  skip_unserved:
    description:
      - What to do with a kind that an API server does not have. V(true) lists the object in RV(refused) as
        C(kind_not_served), V(false) in RV(failures).
    type: bool
    default: false
seealso:
  - module: multicluster.network.node_annotations
"""

EXAMPLES = r"""
- name: One namespace in two clusters
  multicluster.network.cluster_objects:
    fabric: demo
    clusters:
      - {name: aws, kubeconfig: ~/.kube/aws}
      - {name: gcp, kubeconfig: ~/.kube/gcp}
    objects:
      - apiVersion: v1
        kind: Namespace
        metadata:
          name: mirrors
          labels:
            app.kubernetes.io/managed-by: multicluster.network

- name: An account for the mesh, with the rights that it needs
  multicluster.network.cluster_objects:
    fabric: demo
    clusters:
      - {name: aws, kubeconfig: ~/.kube/aws-admin}
    access:
      capabilities: [mesh, ippools]

- name: Address pools that Calico must not masquerade, and no other owned ones
  multicluster.network.cluster_objects:
    fabric: demo
    clusters:
      - {name: aws, kubeconfig: ~/.kube/aws}
    objects_by_cluster:
      aws:
        - apiVersion: crd.projectcalico.org/v1
          kind: IPPool
          metadata: {name: multicluster-gcp-pods}
          spec: {cidr: 10.4.0.0/16, disabled: true, disableBGPExport: true, ipipMode: Never, vxlanMode: Never}
    purge:
      - {api_version: crd.projectcalico.org/v1, kind: IPPool}
    skip_unserved: true
"""

RETURN = r"""
plan:
  description: Counts of what was (or, in check mode, would be) created, updated and deleted, and the first 200 changes.
  type: dict
  returned: always
  sample:
    create: 2
    update: 0
    delete: 0
    unchanged: 0
    changes:
      - {action: create, kind: Namespace, id: aws/mirrors, fields: []}
      - {action: create, kind: Namespace, id: gcp/mirrors, fields: []}
refused:
  description: What was left out, each with the object, a reason and a message.
  type: list
  elements: dict
  returned: always
  sample:
    - {object: Namespace aws/mirrors, reason: not_ours, message: "exists, has another owner and differs in spec"}
failures:
  description: What could not be read or written, each with C(cluster), C(operation), C(reason), C(message) and C(status).
  type: list
  elements: dict
  returned: always
  sample: []
stats:
  description: Requests by verb for each cluster, and seconds. C(get) is the question which kinds there are.
  type: dict
  returned: always
  sample: {requests: {aws: {apply: 1, get: 1, list: 1}}, seconds: 0.06}
"""

from typing import Any

from ansible_collections.multicluster.network.plugins.module_utils._flows.access import cluster_objects
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.argspec import inventory_spec, owner_spec
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.module import KubeModule, exit_kube
from ansible_collections.multicluster.network.plugins.module_utils._module import fail_on_refused_spec


def argument_spec() -> dict[str, Any]:
    """All options."""
    scope = {
        "api_version": {"type": "str", "required": True},
        "kind": {"type": "str", "required": True},
        "namespace": {"type": "str"},
        "label_selector": {"type": "str"},
    }
    access = {
        "capabilities": {"type": "list", "elements": "str", "required": True},
        "namespace": {"type": "str", "default": "kube-system"},
        "prefix": {"type": "str", "default": "multicluster"},
        "extra_rules": {"type": "list", "elements": "dict", "default": []},
        "target_namespace": {"type": "str", "default": "sys-semaphore"},
    }
    pods = {
        "image": {"type": "str"},
        "namespace": {"type": "str", "default": ""},
        "node_selector": {"type": "dict", "default": {}},
        "pull_secrets": {"type": "list", "elements": "str", "default": [], "no_log": False},
        "during_runs": {"type": "bool", "default": False},
    }
    secrets = {
        "clusters": {"type": "list", "elements": "str", "required": True},
        "path": {"type": "path", "required": True},
        "namespace": {"type": "str", "required": True},
        "name": {"type": "str", "default": "{cluster}-kubeconfig"},
        "key": {"type": "str", "default": "kubeconfig", "no_log": False},
    }
    return {
        "access": {"type": "dict", "options": access},
        "node_pods": {"type": "dict", "options": pods},
        "kubeconfig_secrets": {"type": "dict", "options": secrets, "no_log": False},
        "objects": {"type": "list", "elements": "dict", "default": []},
        "objects_by_cluster": {"type": "dict", "default": {}},
        "files": {"type": "list", "elements": "str", "default": []},
        "files_cluster": {"type": "str"},
        "substitute": {"type": "dict", "default": {}},
        "planned": {"type": "str", "choices": ["ip_pools"]},
        "state": {"type": "str", "choices": ["present", "absent", "released"], "default": "present"},
        "purge": {"type": "list", "elements": "dict", "options": scope, "default": []},
        "skip_unserved": {"type": "bool", "default": False},
        **inventory_spec(),
        **owner_spec(),
        **fail_on_refused_spec(),
    }


def main() -> None:
    """Entry point."""
    module = KubeModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        result = cluster_objects.run(module.params, check=module.check_mode)
    except ValueError as err:
        module.fail_json(msg=str(err))
    exit_kube(module, result)


if __name__ == "__main__":
    main()
