#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: service_mirror
short_description: Manage mirrors of Services of other clusters, and global Services
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Copies the labelled Services of every cluster, with their endpoints, into the mirror namespace of every other, all clusters
    and both directions in one call. Names, labels and forms are those of Semaphore-Service-Mirror.
  - Each kind is listed once in each cluster, and only what differs is written. Nothing is ever written to a source.
  - A source cluster only makes claims. Endpoints must lie in the pod ranges, or for pods on the host's network in the node ranges,
    that the inventory grants it. Others are left out and listed in RV(refused), and the rest is mirrored.
  - Of a Service only ports, headlessness and session affinity are copied, those labels and annotations that O(copy_labels) and
    O(copy_annotations) name, and never its external addresses, selectors or node ports.
  - Mirrors without a source are removed, unless the source could not be listed completely or more would go than O(max_deletes).
  - An object in the mirror namespace is owned when this fabric's field manager applied it. Those of the upstream program are taken
    over with O(adopt=true), others never.
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
  definition:
    description:
      - The fabric. C(definition.clusters) maps a name to C(pod_cidrs), C(service_cidrs), C(node_cidrs) and C(wireguard_cidrs).
        The default is what the inventory has.
      - It has to name every cluster of the fabric, also those that O(clusters) gives no access to.
    type: dict
  state:
    description:
      - V(absent) removes what came from O(sources) out of O(destinations). O(max_deletes) does not hold then.
      - V(released) leaves it as it is and gives up its ownership, for the upstream program to go on with. Mirrors with
        slices as endpoints are refused, since the upstream program writes Endpoints.
    type: str
    choices: [present, absent, released]
    default: present
  sources:
    description:
      - Clusters with Services that are mirrored. Mirrors of other clusters are left alone.
      - The default is all of O(clusters), and with O(state=absent) or O(state=released) all clusters of O(definition).
    type: list
    elements: str
  destinations:
    description: Clusters that get mirrors. The default is all of O(clusters).
    type: list
    elements: str
  mirror_namespace:
    description: Namespace of the mirrors, in every cluster.
    type: str
    default: sys-semaphore
  create_namespace:
    description: Make the namespace where it is missing. Otherwise a cluster without it is listed in RV(failures).
    type: bool
    default: false
  mirror_selector:
    description: Label selector of the Services to mirror, and of their Endpoints and slices. Empty switches mirrors off.
    type: str
    default: mirror.semaphore.uw.io/mirror-service=true
  global_selector:
    description: Label selector of the Services and slices that make up global services. Without it there are none.
    type: str
  routing_selector:
    description: Label selector of the Services that ask for local-first routing. Without it nobody does, and no hints are written.
    type: str
  topology_mode:
    description: Also write C(service.kubernetes.io/topology-mode=Auto) on global Services that ask for local-first routing.
    type: bool
    default: false
  prefixes:
    description: Cluster name to the prefix of its mirrors' names. The default is the cluster's name, which DNS rewriting expects.
    type: dict
    default: {}
  zones:
    description: Cluster name to a list of its zones, at most eight, for the hints of local-first routing.
    type: dict
    default: {}
  mirror_as:
    description:
      - The form of a mirror's endpoints. V(auto) writes EndpointSlices where the API server has C(discovery.k8s.io/v1), else Endpoints.
      - V(slices) writes C(discovery.k8s.io/v1beta1) where there is nothing newer.
      - After a change the new form is written before the old one is deleted.
    type: str
    choices: [auto, endpoints, slices]
    default: auto
  endpoint_fields:
    description:
      - V(safe) keeps addresses, ports, conditions, hostname, zone and the target's kind and name. V(all) also copies the target's
        namespace and uid and the name of the node, as the upstream operator does.
    type: str
    choices: [safe, all]
    default: safe
  allow_host_network:
    description:
      - Whether pods on the host's network are mirrored, by addresses in the node ranges of their cluster. A mesh of pods does not carry these, so
        V(false) refuses them with C(host_network_in_clear), by name. V(true) is for a mesh that carries nodes, such as KubeSpan.
        V(clear) writes them although packets to them leave unencrypted.
    type: str
    choices: ["false", "true", clear]
    default: "false"
  session_affinity:
    description: Copy session affinity.
    type: bool
    default: true
  honour_annotations:
    description:
      - What the owners of Services may choose about their mirrors, by annotations below C(mirror.semaphore.uw.io/).
      - V(ports) honours C(ports), the names or numbers of the ports to mirror, V(clusters) honours C(clusters), the clusters that get
        a mirror, both separated by commas.
      - V(exported_name) honours C(exported-name), which replaces the Service's name in the name of its mirror, for one that would be
        longer than 63 characters. A Service that is called so keeps the name.
      - Global services have no such choices.
    type: list
    elements: str
    choices: [ports, clusters, exported_name]
    default: []
  copy_labels:
    description: Labels of Services that their mirrors get, too. Without it none are copied.
    type: list
    elements: str
    default: []
  copy_annotations:
    description: Annotations of Services that their mirrors get, too. Mind who obeys them in the other cluster. Without it none are copied.
    type: list
    elements: str
    default: []
  service_sync:
    description: Remove mirrors and global Services without a source.
    type: bool
    default: true
  endpoint_slice_sync:
    description: Remove copies of slices of global services without a source.
    type: bool
    default: true
  on_unreachable:
    description:
      - What becomes of the endpoints of a source with an API server that does not answer. V(keep) leaves them, V(not_ready) marks them not
        ready, V(empty) takes them out. They come back when it answers.
      - A cluster that answers and refuses our credential always keeps them.
    type: str
    choices: [keep, not_ready, empty]
    default: keep
  unreachable_grace:
    description:
      - Seconds that a source may be unreachable before O(on_unreachable) counts. The time at which it was first found so is kept in
        the ConfigMap C(service-mirror-outages-FABRIC) of the mirror namespace.
    type: int
    default: 0
seealso:
  - module: multicluster.network.cluster_objects
  - plugin: multicluster.network.mirror_name
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Mirror every labelled Service of two clusters into the other
  multicluster.network.service_mirror:
    fabric: demo
    clusters:
      - {name: aws, kubeconfig: ~/.kube/aws}
      - {name: gcp, kubeconfig: ~/.kube/gcp}
    definition:
      clusters:
        aws: {pod_cidrs: [10.2.0.0/16], service_cidrs: [10.3.0.0/16], node_cidrs: [10.66.23.0/24]}
        gcp: {pod_cidrs: [10.4.0.0/16], service_cidrs: [10.5.0.0/16], node_cidrs: [10.22.22.0/24]}
    create_namespace: true

- name: The same from an inventory, with global services
  multicluster.network.service_mirror:
    fabric: demo
    global_selector: mirror.semaphore.uw.io/global-service=true
    create_namespace: true

- name: Take away what came from aws
  multicluster.network.service_mirror:
    fabric: demo
    sources: [aws]
    state: absent
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
      - {action: create, kind: Service, id: gcp/sys-semaphore/aws-sys-log-73736d-fluentd, fields: []}
      - {action: create, kind: Endpoints, id: gcp/sys-semaphore/aws-sys-log-73736d-fluentd, fields: []}
refused:
  description: What was left out, each with the object, a reason and a message.
  type: list
  elements: dict
  returned: always
  sample:
    - {object: aws/default/web, reason: special_address, message: "left out: '169.254.169.254' is link local"}
sources:
  description: For each source, whether it could be listed, how many Services it offers, and how many of those that are mirrored have no endpoints.
  type: dict
  returned: always
  sample: {aws: {listed: true, mirrors: 1, global: 0, without_endpoints: 0}, gcp: {listed: true, mirrors: 0, global: 0, without_endpoints: 0}}
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
  sample: {requests: {aws: {list: 4}, gcp: {apply: 2, get: 1, list: 4}}, seconds: 0.08}
reachability:
  description:
    - What would be lost, C(lost) pairs of a cluster and a Service, or a set of pods, of another one, by C(classes) with an example each. C(stops) has the
      names of the classes for which a run stops, C(lines) what check mode shows.
  type: dict
  returned: with O(state=present)
  sample: {lost: 0, classes: [], stops: [], lines: [], message: ""}
"""

from typing import Any

from ansible_collections.multicluster.network.plugins.module_utils._flows.services import mirror as service_mirror
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.argspec import (
    inventory_spec,
    lost_pairs_spec,
    owner_spec,
)
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.module import KubeModule, exit_kube
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.inventory import InventoryRefused
from ansible_collections.multicluster.network.plugins.module_utils._module import fail_on_refused_spec
from ansible_collections.multicluster.network.plugins.module_utils._services.losses import PairsLost


def argument_spec() -> dict[str, Any]:
    """All options."""
    return {
        "definition": {"type": "dict"},
        "state": {"type": "str", "choices": ["present", "absent", "released"], "default": "present"},
        "sources": {"type": "list", "elements": "str"},
        "destinations": {"type": "list", "elements": "str"},
        "mirror_namespace": {"type": "str", "default": "sys-semaphore"},
        "create_namespace": {"type": "bool", "default": False},
        "mirror_selector": {"type": "str", "default": "mirror.semaphore.uw.io/mirror-service=true"},
        "global_selector": {"type": "str"},
        "routing_selector": {"type": "str"},
        "topology_mode": {"type": "bool", "default": False},
        "prefixes": {"type": "dict", "default": {}},
        "zones": {"type": "dict", "default": {}},
        "mirror_as": {"type": "str", "choices": ["auto", "endpoints", "slices"], "default": "auto"},
        "endpoint_fields": {"type": "str", "choices": ["safe", "all"], "default": "safe"},
        "allow_host_network": {"type": "str", "choices": ["false", "true", "clear"], "default": "false"},
        "session_affinity": {"type": "bool", "default": True},
        "honour_annotations": {
            "type": "list",
            "elements": "str",
            "choices": ["ports", "clusters", "exported_name"],
            "default": [],
        },
        "copy_labels": {"type": "list", "elements": "str", "default": []},
        "copy_annotations": {"type": "list", "elements": "str", "default": []},
        "service_sync": {"type": "bool", "default": True},
        "endpoint_slice_sync": {"type": "bool", "default": True},
        "on_unreachable": {"type": "str", "choices": ["keep", "not_ready", "empty"], "default": "keep"},
        "unreachable_grace": {"type": "int", "default": 0},
        **inventory_spec(),
        **lost_pairs_spec(),
        **owner_spec(),
        **fail_on_refused_spec(),
    }


def run(module: Any) -> None:
    """All but the start, which the action plugin does for itself."""
    try:
        result = service_mirror.run(module.params, check=module.check_mode, diff=module._diff)
    except InventoryRefused as err:
        module.fail_json(msg=str(err), findings=err.findings)
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
