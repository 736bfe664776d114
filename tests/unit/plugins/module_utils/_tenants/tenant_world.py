# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A tenant of the reference flow, on two servers in memory with a network side that does its own work."""

from __future__ import annotations

import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._tenants import allocation, placement
from ansible_collections.multicluster.network.plugins.module_utils._tenants.allocation import Pools
from ansible_collections.multicluster.network.plugins.module_utils._tenants.claims import apply_claims
from ansible_collections.multicluster.network.plugins.module_utils._tenants.converge import (
    PASS_LIMIT,
    Result,
    converge,
    one_by_one,
    run_passes,
)
from ansible_collections.multicluster.network.plugins.module_utils._tenants.object_turn import ObjectTurn
from ansible_collections.multicluster.network.plugins.module_utils._tenants.options import (
    APINET,
    ONMETAL,
    SOURCE,
    Options,
    needed,
    parse_options,
)
from ansible_collections.multicluster.network.plugins.module_utils._tenants.store import MemoryStore, Store, StoreError
from ansible_collections.multicluster.network.plugins.module_utils._tenants.view import View

NOW = "2026-01-02T03:04:05Z"
NAMESPACE = "apinet-system"
PREFIXES = ("203.0.113.0/28", "2001:db8::/120")
OPTIONS = parse_options({"apinet_namespace": NAMESPACE, "switches": ["vip_release"], "max_deletes": -1})
Object = dict[str, t.Any]


def source(
    kind: str, name: str, uid: str, spec: Object | None = None, namespace: str = "team-a", **more: t.Any
) -> Object:
    group = ONMETAL.ipam if kind == "Prefix" else ONMETAL.source
    meta = {"namespace": namespace, "name": name, "uid": uid}
    return dict({"apiVersion": group, "kind": kind, "metadata": meta, "spec": spec or {}}, **more)


def interface(
    name: str, uid: str, twin: str = "", network: str = "net-1", virtual_ip: str = "", namespace: str = "team-a"
) -> Object:
    spec: Object = {"networkRef": {"name": network}, "ipFamilies": ["IPv4"], "ips": [{"value": "192.168.178.1"}]}
    if twin:
        spec["providerID"] = f"onmetal-api-net://{NAMESPACE}/{twin}/node-a/{twin}-uid"
    if virtual_ip:
        spec["virtualIP"] = {"virtualIPRef": {"name": virtual_ip}}
    return source("NetworkInterface", name, uid, spec, namespace)


def interface_twin(name: str, network: str, address: str = "192.168.178.1", **spec: t.Any) -> Object:
    inner = dict({"nodeRef": {"name": "node-a"}, "networkRef": {"name": network}, "ips": [address]}, **spec)
    meta = {"namespace": NAMESPACE, "name": name, "uid": name + "-uid"}
    return {
        "apiVersion": ONMETAL.apinet,
        "kind": "NetworkInterface",
        "metadata": meta,
        "spec": inner,
        "status": {"state": "Ready"},
    }


def node(name: str, zone: str) -> Object:
    return {
        "apiVersion": ONMETAL.apinet,
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": {ONMETAL.zone: zone}},
    }


def tenant() -> list[Object]:
    """Network, two interfaces (one with a virtual IP, one behind NAT), load balancers of both types, a gateway."""
    network = {"networkRef": {"name": "net-1"}}
    reference = {"uid": "nic-1-uid", "name": "nic-1", "providerID": f"onmetal-api-net://{NAMESPACE}/t1/node-a/t1-uid"}
    return [
        source("Network", "net-1", "net-uid"),
        source("VirtualIP", "vip-1", "vip-uid", {"type": "Public", "ipFamily": "IPv4"}),
        interface("nic-1", "nic-1-uid", "t1", virtual_ip="vip-1"),
        interface("nic-2", "nic-2-uid", "t2"),
        source(
            "LoadBalancer",
            "lb-1",
            "lb-uid",
            dict(network, type="Public", ipFamilies=["IPv4", "IPv6"], ports=[{"port": 80}]),
        ),
        source(
            "LoadBalancer",
            "lb-2",
            "lb2-uid",
            dict(network, type="Internal", ipFamilies=["IPv4"], ips=[{"value": "10.1.0.9"}]),
        ),
        dict(
            source("LoadBalancerRouting", "lb-1", "lbr-uid"),
            networkRef={"name": "net-1", "uid": "net-uid"},
            destinations=[{"ip": "192.168.178.1", "targetRef": reference}],
        ),
        source("NATGateway", "nat-1", "nat-uid", dict(network, type="Public", ipFamily="IPv4")),
    ]


def machines() -> list[Object]:
    """What the machine pool made on the network side."""
    twins = [interface_twin("t1", "net-uid"), interface_twin("t2", "net-uid", "192.168.178.2")]
    return twins + [node("node-a", "a"), node("node-b", "a"), node("node-c", "b")]


def read(stores: t.Mapping[str, Store], options: Options) -> View:
    """What a run reads: one list for each kind and side; one that fails is unread."""
    found: dict[str, list[dict[str, t.Any]]] = {SOURCE: [], APINET: []}
    unread = []
    for side, kind in needed(options):
        within = options.apinet_namespace if side == APINET else options.watch_namespace
        try:
            found[side].extend(stores[side].list(options.profile.group_version(side, kind), kind, within))
        except StoreError:
            unread.append((side, kind))
    return View(found[SOURCE], found[APINET], options, unread)


def converged(stores: t.Mapping[str, Store], options: Options, now: str = NOW, limit: int = PASS_LIMIT) -> Result:
    """The whole mapping between two stores."""
    return converge(read(stores, options), now, one_by_one(stores, options), apply_claims, limit)


class World:
    """Two servers and the programs that run on them."""

    def __init__(
        self, sources: t.Sequence[Object], apinet: t.Sequence[Object], options: Options = OPTIONS, **more: t.Any
    ) -> None:
        self.options = options
        self.source = MemoryStore(sources, prefix="s")
        self.apinet = MemoryStore(apinet, prefix="a", **more)
        self.pools = Pools(PREFIXES)

    @property
    def writes(self) -> int:
        return len(self.source.writes) + len(self.apinet.writes)

    def sync(self) -> Result:
        return converged({SOURCE: self.source, APINET: self.apinet}, self.options)

    def network_side(self) -> list[Result]:
        return [
            self._served(lambda view: allocation.plan_allocation(view, self.pools)),
            self._served(placement.plan_placement),
        ]

    def _served(self, plan: t.Callable[[View], list[ObjectTurn]]) -> Result:
        """One run of the network side's own work on its one server."""
        perform = one_by_one({APINET: self.apinet}, self.options)
        return run_passes(View([], self.apinet.all(), self.options), plan, perform)

    def settle(self, limit: int = 20) -> Result:
        """Both programs in turn until neither writes."""
        for _turn in range(limit):
            before = self.writes
            result = self.sync()
            self.network_side()
            if self.writes == before:
                return result
        raise AssertionError("it does not settle")

    def get(self, side: str, kind: str, name: str) -> Object | None:
        store = self.source if side == SOURCE else self.apinet
        return next((obj for obj in store.all() if (obj["kind"], obj["metadata"]["name"]) == (kind, name)), None)

    def state(self) -> list[Object]:
        """Everything, without what differs between two equal worlds."""
        found = []
        for obj in self.source.all() + self.apinet.all():
            meta = {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}
            found.append(dict(obj, metadata=meta))
        return found
