#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: network_sets
short_description: Manage sets of other clusters' pod addresses for network policies
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Pods that carry the label C(policy.semaphore.uw.io/name) become members of a set in every other cluster. Policies there
    name the set, by the labels that the filter P(multicluster.network.policy_selector#filter) puts together.
  - A set is a GlobalNetworkSet of Calico or a CiliumCIDRGroup of Cilium, called C(CLUSTER-NAMESPACE-VALUE). All clusters are
    done in one call. Each is asked once for its labelled pods and once for its sets, and only sets that differ are written.
  - Host-network and finished pods, and pods that should long be gone, are left out. Each address is one host, of either
    family, and must be in what O(grants) has for its cluster.
  - Two namespaces can make the same name. The set that exists keeps it, otherwise the first in order. The other is refused,
    and addresses are never mixed.
  - A cluster with pods that could not be listed completely keeps its sets everywhere, as they are, unless O(on_unreachable) is set otherwise.
  - A set that this fabric wrote is put right when somebody edited it. A set with the labels of semaphore-policy that this fabric
    did not write needs O(adopt=true). Any other set of a desired name is refused and never touched.
extends_documentation_fragment:
  - multicluster.network._kubernetes.inventory
  - multicluster.network._kubernetes.lost_pairs
  - multicluster.network._kubernetes
  - multicluster.network._kubernetes.owner
  - multicluster.network._refused
  - multicluster.network._attributes
  - multicluster.network._attributes.writes
  - multicluster.network._attributes.controller
options:
  grants:
    description:
      - Cluster name to a dictionary with C(pod_cidrs), and C(node_cidrs) where O(include_host_network=true).
      - Further keys are left alone, so that the variables of the inventory's clusters can be given as they are.
      - Clusters without an entry are no sources. Where O(clusters) is not given either, the default is what the inventory has.
    type: dict
    default: {}
  sources:
    description:
      - Clusters with pods that become sets elsewhere. The default is all that O(clusters) and O(grants) have.
      - With O(state=absent) and O(state=released), the clusters with the sets that go, which O(clusters) need not have any more. The
        default is all with sets that are owned.
    type: list
    elements: str
  targets:
    description:
      - Clusters that get sets. The default is all of O(clusters).
      - Where neither that nor O(grants) is given, it is the clusters with nodes in the inventory, or all where none has any.
    type: list
    elements: str
  target:
    description:
      - Kind of object. V(auto), V(calico) and V(cilium) take the first kind that the API server has, in the order of the other
        choices. These pin one.
    type: str
    choices:
      - auto
      - calico
      - cilium
      - projectcalico.org/v3
      - crd.projectcalico.org/v1
      - cilium.io/v2
      - cilium.io/v2alpha1
    default: auto
  include_host_network:
    description: Take in pods on the host network. Their address is that of the node and admits every process there.
    type: bool
    default: false
  on_unreachable:
    description:
      - What becomes of the sets of a source with an API server that does not answer. V(keep) leaves them as they are, V(empty) takes their
        networks out, so that nobody is admitted by an address that may be another's by now. They come back when it answers.
      - A cluster that answers and refuses our credential always keeps them.
    type: str
    choices: [keep, empty]
    default: keep
  unreachable_grace:
    description:
      - Seconds that a source may be unreachable before O(on_unreachable) counts. The time at which it was first found so is kept in
        the ConfigMap C(network-sets-outages-FABRIC) of O(record_namespace), in every cluster that gets sets.
    type: int
    default: 0
  record_namespace:
    description: Namespace of that ConfigMap.
    type: str
    default: kube-system
  state:
    description:
      - V(absent) removes the sets of O(sources), whatever their number.
      - V(released) leaves them as they are and gives up their ownership, for semaphore-policy to go on with.
    type: str
    choices: [present, absent, released]
    default: present
seealso:
  - plugin: multicluster.network.policy_selector
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Pods of each cluster as sets in the other
  multicluster.network.network_sets:
    fabric: demo
    clusters:
      - {name: aws, kubeconfig: ~/.kube/aws}
      - {name: gcp, kubeconfig: ~/.kube/gcp}
    grants:
      aws: {pod_cidrs: [10.2.0.0/16]}
      gcp: {pod_cidrs: [10.4.0.0/16]}

- name: The same from an inventory
  multicluster.network.network_sets:
    fabric: demo

- name: The cluster gcp has left
  multicluster.network.network_sets:
    fabric: demo
    clusters:
      - {name: aws, kubeconfig: ~/.kube/aws}
    sources: [gcp]
    state: absent
"""

RETURN = r"""
plan:
  description: Counts of sets that were (or, in check mode, would be) created, updated and deleted, and the first 200 changes.
  type: dict
  returned: always
  sample:
    create: 1
    update: 0
    delete: 0
    unchanged: 0
    changes:
      - {action: create, kind: GlobalNetworkSet, id: aws/gcp-sys-log-forwarder, fields: []}
refused:
  description: What was left out, each with the object, a reason and a message.
  type: list
  elements: dict
  returned: always
  sample:
    - {object: gcp/sys-log/forwarder-x, reason: outside_grant, message: 10.9.0.1 is in none of the pod_cidrs of gcp}
counts:
  description: Sets and addresses of every source with pods that could be listed.
  type: dict
  returned: always
  sample: {gcp: {sets: 1, addresses: 6}, aws: {sets: 0, addresses: 0}}
failures:
  description: What could not be read or written, each with C(cluster), C(operation), C(reason), C(message) and C(status).
  type: list
  elements: dict
  returned: always
  sample: []
stats:
  description: Requests by verb for each cluster, and seconds.
  type: dict
  returned: always
  sample: {requests: {aws: {list: 2}, gcp: {list: 2}}, seconds: 0.05}
reachability:
  description:
    - What would be lost, C(lost) pairs of a cluster and a Service, or a set of pods, of another one, by C(classes) with an example each. C(stops) has the
      names of the classes for which a run stops, C(lines) what check mode shows.
  type: dict
  returned: with O(state=present)
  sample: {lost: 0, classes: [], stops: [], lines: [], message: ""}
"""

from typing import Any

from ansible_collections.multicluster.network.plugins.module_utils._flows.services import network_sets
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.argspec import (
    inventory_spec,
    lost_pairs_spec,
    owner_spec,
)
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.module import KubeModule, exit_kube
from ansible_collections.multicluster.network.plugins.module_utils._module import fail_on_refused_spec
from ansible_collections.multicluster.network.plugins.module_utils._services.losses import PairsLost
from ansible_collections.multicluster.network.plugins.module_utils._services.network_sets.targets import TARGETS


def argument_spec() -> dict[str, Any]:
    """All options."""
    return {
        "grants": {"type": "dict", "default": {}},
        "sources": {"type": "list", "elements": "str"},
        "targets": {"type": "list", "elements": "str"},
        "target": {"type": "str", "choices": list(TARGETS), "default": "auto"},
        "include_host_network": {"type": "bool", "default": False},
        "on_unreachable": {"type": "str", "choices": ["keep", "empty"], "default": "keep"},
        "unreachable_grace": {"type": "int", "default": 0},
        "record_namespace": {"type": "str", "default": "kube-system"},
        "state": {"type": "str", "choices": ["present", "absent", "released"], "default": "present"},
        **inventory_spec(),
        **lost_pairs_spec(),
        **owner_spec(),
        **fail_on_refused_spec(),
    }


def run(module: Any) -> None:
    """All but the start, which the action plugin does for itself."""
    try:
        result = network_sets.run(module.params, check=module.check_mode)
    except PairsLost as err:
        module.fail_json(msg=str(err), reachability=err.reachability)
    except ValueError as err:
        module.fail_json(msg=str(err))
    exit_kube(module, result)


def main() -> None:
    """Entry point."""
    run(KubeModule(argument_spec=argument_spec(), supports_check_mode=True))


if __name__ == "__main__":
    main()
