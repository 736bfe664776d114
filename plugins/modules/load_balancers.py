#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: load_balancers
short_description: Manage addresses of Services of type LoadBalancer, and the load balancer's configuration
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Does, without anything running in the cluster, what a cloud controller does for Services of type LoadBalancer. Each gets an
    address, reserved from a pool of the inventory or at a provider, and MetalLB, kube-vip or nothing at all announces it.
  - Every Service of every cluster is looked at in one call. Services and nodes are listed once, the provider is asked once for all
    reservations, and only what differs is written.
  - An address that is in use stays, whoever gave it and whether it is in C(spec.loadBalancerIP), in an annotation or only in the
    Service's status, unless it belongs to another Service. Only O(renumber) gives one up.
  - What was reserved is recorded in a ConfigMap of the namespace C(kube-system), and only what is recorded there is ever released.
  - With O(adopt=true) an address of O(settings[].pool) that a Service has already, from another controller, becomes its reservation.
    Without it a Service that has its address only in its status is left to the controller that gave it, and refused by name. A reservation at a
    provider that the upstream program made for a Service, and with the address that it has, is recorded as owned then.
  - Nodes with annotations that another program wrote, and a ConfigMap of MetalLB with its pools or peers, are left alone and refused as C(adoptable)
    without O(adopt=true), as are its custom resources.
  - Plans in check mode tell what would be ordered and given back before any call is made.
extends_documentation_fragment:
  - multicluster.network._kubernetes.inventory
  - multicluster.network._kubernetes
  - multicluster.network._kubernetes.owner
  - multicluster.network._refused
  - multicluster.network._load_balancers
  - multicluster.network._attributes
  - multicluster.network._attributes.writes
options:
  state:
    description:
      - V(absent) takes everything back. Services lose the addresses that we set, the load balancer gets nothing any more,
        annotations go, and reservations are released, unless O(settings[].reclaim_policy=retain).
      - V(released) gives everything back to the upstream program as it is. Addresses stay with their Services, at the provider and in the load balancer, and
        none of it is on record as owned any more. With a provider, Services have the finalizer of cloud controllers again.
    type: str
    choices: [present, absent, released]
    default: present
  mode:
    description:
      - V(sync) looks at every Service and takes away what belongs to none. V(add) and V(remove) handle the named O(services) only,
        as events of a cluster ask for.
    type: str
    choices: [sync, add, remove]
    default: sync
  services:
    description: Services by C(namespace/name), for O(mode=add) and O(mode=remove).
    type: list
    elements: str
    default: []
  renumber:
    description:
      - Networks of addresses that are given up. A Service with one of them gets the address that is reserved for it, or another one; RV(plan)
        and the diff show the old and the new one. An address that is reserved for its Service stays.
      - V(true) means every address that is neither of the pool nor reserved for its Service.
    type: list
    elements: str
    default: []
  gc_orphans:
    description: O(settings[].gc_orphans) of every cluster without it in its settings.
    type: bool
  release:
    description:
      - Whether this run releases what no Service wants. With V(false) it only reports, in RV(load_balancers), what another run would
        release, so that nodes can stop announcing first.
    type: bool
    default: true
  pending:
    description: Only where M(multicluster.network.load_balancers) has found in the same run that something is to be given back, or stays for now. Else skipped.
    type: bool
    default: false
  keep_addresses:
    description:
      - For O(state=absent), whether Services keep their addresses for the controller that is to serve them. What we reserved is forgotten, and what we
        wrote besides goes, so that nothing marks them as owned any more.
      - With V(status) the address stays in the status alone, where MetalLB and Cilium find it. With V(field) it is in C(spec.loadBalancerIP), too,
        which cloud controllers read. With V(metallb), V(kube-vip) and V(cilium) the Service asks by the annotation of that controller.
      - Empty, the addresses go from the Services.
    type: str
    choices: ["", status, field, metallb, kube-vip, cilium]
    default: ""
  events:
    description:
      - Whether Events of Services report what became of their addresses. C(EnsuredLoadBalancer) reports which one was given,
        C(SyncLoadBalancerFailed) why a Service is refused, and C(AllocationFailed) that no pool has one left for it.
      - The last Event of a Service is not written again. Events count as no change, and check mode writes none.
    type: bool
    default: true
  lock_wait:
    description: Seconds to wait for another run on the same cluster to end.
    type: float
    default: 30
seealso:
  - module: multicluster.network.bgp_speaker
"""

EXAMPLES = r"""
- name: Addresses of one's own for the Services of two clusters
  multicluster.network.load_balancers:
    fabric: demo
    clusters:
      - {name: aws, kubeconfig: ~/.kube/aws}
      - {name: gcp, kubeconfig: ~/.kube/gcp}
    settings:
      - {cluster: aws, load_balancer: "empty://", pool: [203.0.113.0/27]}
      - {cluster: gcp, load_balancer: "metallb:///metallb-system?crdConfiguration=true", pool: [203.0.113.64-203.0.113.95]}

- name: Pools with names, the second for those who ask for it
  multicluster.network.load_balancers:
    fabric: demo
    clusters:
      - {name: aws, kubeconfig: ~/.kube/aws}
    settings:
      - cluster: aws
        load_balancer: "empty://"
        pools:
          - {name: public, addresses: [203.0.113.0/27, "2001:db8:5::/120"], max_per_namespace: 4}
          - {name: partners, addresses: [198.51.100.0/28], auto_assign: false, namespaces: [shop]}

- name: Apply the inventory's settings
  multicluster.network.load_balancers:
    fabric: demo

- name: What would be ordered
  multicluster.network.load_balancers:
    fabric: demo
    clusters:
      - {name: aws, kubeconfig: ~/.kube/aws}
    settings:
      - cluster: aws
        provider: equinix_metal
        base_url: https://metal.example.net/metal/v1
        project_id: 0d9f3c5e-5a3c-4d1e-9d5a-4f6d2f3b8a11
        api_key: "{{ vault_metal_token }}"
        metro: da
        load_balancer: "kube-vip://"
        gc_orphans: true
  check_mode: true
  register: costs
"""

RETURN = r"""
plan:
  description: Counts of what was (or, in check mode, would be) created, updated and deleted, and the first 200 changes.
  type: dict
  returned: always
  sample:
    create: 1
    update: 2
    delete: 0
    unchanged: 0
    changes:
      - {action: create, kind: Reservation, id: aws/default/web, fields: []}
      - {action: update, kind: Service, id: aws/default/web, fields: [address]}
refused:
  description: What was left out, each with the object, a reason and a message.
  type: list
  elements: dict
  returned: always
  sample:
    - {object: service aws/evil/web, reason: claimed_twice, message: "203.0.113.1 belongs to 'default/web'"}
load_balancers:
  description:
    - For each cluster the state of every Service, the networks to announce where we announce them ourselves, the nodes that speak
      BGP, and the costs of the plan.
    - C(releases) are addresses that this run released, or would with O(release=true), see C(released). C(kept) are those that no Service wants any more and
      that stay until O(confirm_empty) names the cluster, since nothing else wants one there.
    - C(routes) are the networks to announce with the ports (C(health_ports)) on which a node answers that it can deliver, for
      O(multicluster.network.bgp_speaker#module:routes), and C(left_out) the nodes that announce nothing, each with C(excluded), C(cordoned) or
      C(not_ready). With nodes that replace each other a route has its C(group), and C(segments) are those nodes, for
      O(multicluster.network.layer2_speaker#module:nodes).
    - C(pools) has for each pool and family how many addresses it hands out (C(total)), how many are taken (C(used)) and C(free).
    - C(former) lists, with O(adopt=true), the Services with owned addresses that another controller gave them, each with its C(service), the
      controller C(from), one of C(metallb), C(kube-vip), C(cilium) and C(cloud), what of that is still C(at_work) in the cluster, what it C(left) on the
      Service, and whether this run C(removed) that, which it does when the controller is gone.
    - C(events) is how many Events of Services were written.
    - C(unannounced) lists the addresses that no router receives, each with its C(service) and a C(reason) that names what to set.
  type: dict
  returned: always
  sample:
    aws:
      provider: static
      load_balancer: empty
      services:
        - service: default/web
          address: 203.0.113.1
          addresses: [203.0.113.1]
          reservation: 203.0.113.1
          requested: false
          reserved: true
          assigned: true
          mapped: true
          ready: true
          state: Mapped
      pools:
        - {pool: default, family: 4, total: 32, used: 1, free: 31}
      announce: [203.0.113.1/32]
      routes:
        - network: 203.0.113.1/32
          services: [default/web]
          health_ports: []
      left_out: {}
      segments: {}
      unannounced: []
      nodes: [aws-node-1, aws-node-2]
      former: []
      releases: []
      released: true
      kept: []
      cost: {orders: [], before: 1, after: 1, limit: null}
failures:
  description: What could not be read or written, each with C(cluster), C(operation), C(reason), C(message) and C(status).
  type: list
  elements: dict
  returned: always
  sample: []
stats:
  description: Requests by verb for each cluster, calls of each provider, and seconds.
  type: dict
  returned: always
  sample: {requests: {aws: {get: 1, list: 3}}, provider_calls: {aws: 0}, seconds: 0.05}
"""

from typing import Any

from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers import (
    converge as load_balancers,
)
from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers.arguments import common_spec
from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers.migration import KEEP
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.module import KubeModule, exit_kube


def argument_spec() -> dict[str, Any]:
    """All options."""
    return {
        "state": {"type": "str", "choices": ["present", "absent", "released"], "default": "present"},
        "mode": {"type": "str", "choices": ["sync", "add", "remove"], "default": "sync"},
        "services": {"type": "list", "elements": "str", "default": []},
        "renumber": {"type": "list", "elements": "str", "default": []},
        "gc_orphans": {"type": "bool"},
        "release": {"type": "bool", "default": True},
        "pending": {"type": "bool", "default": False},
        "keep_addresses": {"type": "str", "choices": list(KEEP), "default": ""},
        "events": {"type": "bool", "default": True},
        "lock_wait": {"type": "float", "default": 30.0},
        "leave_conflicts": {"type": "bool", "default": False},
        **common_spec(),
    }


def run(module: Any) -> None:
    """All but the start, which the action plugin does for itself."""
    try:
        result = load_balancers.run(module.params, check=module.check_mode)
    except ValueError as err:
        module.fail_json(msg=str(err))
    exit_kube(module, result)


def main() -> None:
    """Entry point."""
    run(KubeModule(argument_spec=argument_spec(), supports_check_mode=True))


if __name__ == "__main__":
    main()
