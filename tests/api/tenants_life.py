# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A tenant from apinetlet to us and back: taken over, changed in every way, given back, and upstream finds its own."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._flows.tenants import released as tenants_released
from ansible_collections.multicluster.network.plugins.module_utils._tenants.options import APINET, ONMETAL, SOURCE
from recorded import content
from tenant_servers import NAMESPACE, TEAM, Lab, ends, interface, source

#: What apinetlet writes, and what it writes into.
TWINS = (
    "Network",
    "IP",
    "LoadBalancer",
    "LoadBalancerRouting",
    "NATGateway",
    "NATGatewayAutoscaler",
    "NetworkInterface",
)
SOURCES = ("Network", "VirtualIP", "LoadBalancer", "LoadBalancerRouting", "NATGateway", "NetworkInterface")
NODES = ("node-a", "node-b")
POOL = "machinepoollet"
MANAGER = "multicluster.network/t"
NOTHING: dict[str, list[t.Any]] = {SOURCE: [], APINET: []}
Object = dict[str, t.Any]


class Side(t.Protocol):
    """Who is alongside us: upstream, and the network side's own controllers."""

    def begin(self) -> None:
        """Upstream runs over the tenant for the first time, and ends."""

    def network(self) -> bool:
        """The network side does what there is to do; whether it did anything."""

    def again(self) -> None:
        """It runs once more, and ends."""


def seed() -> list[Object]:
    """Neither an internal load balancer nor a virtual IP of IPv6: both end upstream's own API server (23)."""
    network = {"networkRef": {"name": "net-1"}}
    return [
        *ends(),
        source(
            "LoadBalancer",
            "lb-1",
            dict(network, type="Public", ipFamilies=["IPv4"], ports=[{"protocol": "TCP", "port": 80}]),
        ),
        source("NATGateway", "nat-1", dict(network, type="Public", ipFamily="IPv4")),
    ]


def put_nodes(lab: Lab) -> None:
    for name in NODES:
        lab.create(
            APINET,
            {
                "apiVersion": ONMETAL.apinet,
                "kind": "Node",
                "metadata": {"name": name, "labels": {lab.profile.zone: name}},
                "spec": {},
            },
        )


def put(lab: Lab, rest: t.Callable[[], t.Any]) -> None:
    """What the tenant orders, one after the other: ``rest`` returns when nobody works on the one before."""
    for obj in seed():
        lab.create(SOURCE, obj)
        rest()


def plug(lab: Lab, name: str, node: str, rest: t.Callable[[], t.Any]) -> None:
    """What the pool of machines does: an interface on a node, and the tenant's one names it. ``rest``: returns when the network side is done with it,
    since upstream's server keeps an address as given away if two write an interface at once."""
    nic = lab.get(SOURCE, "NetworkInterface", TEAM, name)
    network = lab.get(SOURCE, "Network", TEAM, nic["spec"]["networkRef"]["name"])["metadata"]["uid"]
    spec = {
        "nodeRef": {"name": node},
        "networkRef": {"name": network},
        "ips": [one["value"] for one in nic["spec"]["ips"]],
    }
    body = {
        "apiVersion": ONMETAL.apinet,
        "kind": "NetworkInterface",
        "metadata": {"namespace": NAMESPACE, "name": "of-" + name},
        "spec": spec,
    }
    twin = lab.clients[APINET].create(lab.path(APINET, "NetworkInterface", NAMESPACE), body, POOL)
    lab.clients[APINET].merge_patch(
        lab.path(APINET, "NetworkInterface", NAMESPACE, "of-" + name) + "/status", {"status": {"state": "Ready"}}, POOL
    )
    rest()
    ident = f"{ONMETAL.provider_prefix}{NAMESPACE}/of-{name}/{node}/{twin['metadata']['uid']}"
    lab.clients[SOURCE].merge_patch(
        lab.path(SOURCE, "NetworkInterface", TEAM, name), {"spec": {"providerID": ident}}, POOL
    )


def objects(lab: Lab) -> dict[str, list[Object]]:
    """All that is there of the kinds that the mapping knows, each with its version and kind."""
    found = {}
    for side, kinds in ((SOURCE, SOURCES), (APINET, TWINS)):
        found[side] = [
            dict(obj, apiVersion=lab.profile.group_version(side, kind), kind=kind)
            for kind in kinds
            for obj in lab.list(side, kind)
        ]
    return found


def said(found: t.Mapping[str, t.Iterable[Object]]) -> list[str]:
    """What the objects say, whoever is on record for it, in lines that can be compared."""
    return sorted(
        side + " " + json.dumps(content(obj), sort_keys=True) for side, group in found.items() for obj in group
    )


def same(before: t.Sequence[str], lab: Lab, why: str) -> None:
    now = said(objects(lab))
    assert list(before) == now, "{0}:\n{1}".format(why, "\n".join(sorted(set(before) ^ set(now))))


def appliers(lab: Lab) -> set[str]:
    """Who is on record as having applied what one program alone wrote of a twin. Owner references, empty maps and status are anybody's."""
    found = set()
    for obj in objects(lab)[APINET]:
        for entry in obj["metadata"]["managedFields"]:
            tree = entry["fieldsV1"]
            said_of_it = [tree[part] for part in tree if part not in ("f:metadata", "f:status")]
            said_of_it += [tree.get("f:metadata", {}).get(part) for part in ("f:labels", "f:annotations")]
            if entry["operation"] == "Apply" and any(said_of_it):
                found.add(entry["manager"])
    return found


class Changes:
    """Every kind of later change; each must arrive."""

    def __init__(self, lab: Lab, side: Side) -> None:
        self.lab, self.side = lab, side

    def settle(self) -> None:
        for _turn in range(12):
            result = self.lab.sync(switches=["vip_release"])
            assert result["failures"] == [] and result["refused"] == [], result
            if not (self.side.network() or result["changed"]):
                return
        raise AssertionError("it does not settle")

    def twin(self, kind: str, name: str, twin: str = "") -> Object:
        uid = self.lab.get(SOURCE, kind, TEAM, name)["metadata"]["uid"]
        return self.lab.get(APINET, twin or kind, NAMESPACE, uid)

    def patch(self, kind: str, name: str, body: t.Any) -> None:
        self.lab.patch(SOURCE, kind, TEAM, name, body)
        self.settle()

    def remove(self, kind: str, name: str, twins: t.Sequence[str]) -> None:
        uid = self.lab.get(SOURCE, kind, TEAM, name)["metadata"]["uid"]
        self.lab.delete(SOURCE, kind, TEAM, name)
        self.settle()
        assert name not in [obj["metadata"]["name"] for obj in self.lab.list(SOURCE, kind)]
        for twin in twins:
            assert uid not in [obj["metadata"]["name"] for obj in self.lab.list(APINET, twin)], twin

    def route(self, destinations: t.Sequence[str]) -> None:
        """What the tenant-facing side's own controller writes; an empty list is no destination at all."""
        rows = []
        for name in destinations:
            nic = self.lab.get(SOURCE, "NetworkInterface", TEAM, name)
            reference = {"uid": nic["metadata"]["uid"], "name": name, "providerID": nic["spec"].get("providerID", "")}
            rows.append({"ip": nic["spec"]["ips"][0]["value"], "targetRef": reference})
        network = self.lab.get(SOURCE, "Network", TEAM, "net-1")["metadata"]
        body = source(
            "LoadBalancerRouting", "lb-1", networkRef={"name": "net-1", "uid": network["uid"]}, destinations=rows
        )
        self.lab.clients[SOURCE].apply(
            self.lab.path(SOURCE, "LoadBalancerRouting", TEAM, "lb-1"), body, "onmetal-controller-manager", force=True
        )

    def targets(self) -> list[str]:
        return [
            one["targetRef"]["name"]
            for one in self.twin("LoadBalancer", "lb-1", "LoadBalancerRouting").get("destinations") or ()
        ]

    def public(self, name: str) -> list[str]:
        return [
            one["ip"]
            for one in self.lab.get(APINET, "NetworkInterface", NAMESPACE, "of-" + name)["spec"].get("publicIPs") or ()
        ]

    def all(self) -> None:
        lab = self.lab
        # added
        lab.create(SOURCE, source("Network", "net-2", {}))
        lab.create(SOURCE, source("VirtualIP", "vip-2", {"type": "Public", "ipFamily": "IPv4"}))
        lab.create(SOURCE, interface("nic-3", "192.168.178.3", "vip-2"))
        self.settle()
        assert lab.get(SOURCE, "Network", TEAM, "net-2")["status"]["state"] == "Available"
        second = lab.get(SOURCE, "VirtualIP", TEAM, "vip-2")["status"]["ip"]
        plug(lab, "nic-3", "node-b", self.side.network)
        self.settle()
        assert self.public("nic-3") == [second]
        # a port: added, changed, removed
        for ports in ([80, 443], [81, 443], [443]):
            self.patch(
                "LoadBalancer", "lb-1", {"spec": {"ports": [{"protocol": "TCP", "port": port} for port in ports]}}
            )
            assert [port["port"] for port in self.twin("LoadBalancer", "lb-1")["spec"]["ports"]] == ports
        # a destination: added, changed, removed
        for names in (["nic-1", "nic-2"], ["nic-1", "nic-3"], ["nic-3"], []):
            self.route(names)
            self.settle()
            assert self.targets() == ["of-" + name for name in names]
        # the gateway's blocks
        self.patch("NATGateway", "nat-1", {"spec": {"portsPerNetworkInterface": 1024}})
        assert self.twin("NATGateway", "nat-1")["spec"]["portsPerNetworkInterface"] == 1024
        # a virtual IP: moved, taken away, given again, and gone
        address = lab.get(SOURCE, "VirtualIP", TEAM, "vip-1")["status"]["ip"]
        self.patch("NetworkInterface", "nic-1", {"spec": {"virtualIP": None}})
        assert self.public("nic-1") == [] and "targetRef" not in lab.get(SOURCE, "VirtualIP", TEAM, "vip-1")["spec"]
        self.patch("NetworkInterface", "nic-2", {"spec": {"virtualIP": {"virtualIPRef": {"name": "vip-1"}}}})
        assert self.public("nic-2") == [address]
        self.patch("NetworkInterface", "nic-2", {"spec": {"virtualIP": None}})
        self.remove("VirtualIP", "vip-1", ["IP"])
        # removed
        lab.delete(APINET, "NetworkInterface", NAMESPACE, "of-nic-3")
        self.remove("NetworkInterface", "nic-3", [])
        self.remove("VirtualIP", "vip-2", ["IP"])
        self.remove("NATGateway", "nat-1", ["NATGateway", "NATGatewayAutoscaler"])
        self.remove("Network", "net-2", ["Network"])
        # and what upstream shall find when it comes back
        lab.create(
            SOURCE,
            source("NATGateway", "nat-2", {"networkRef": {"name": "net-1"}, "type": "Public", "ipFamily": "IPv4"}),
        )
        self.route(["nic-1"])
        self.settle()


def live(lab: Lab, side: Side, kept: t.Callable[[str], None] = lambda stage: None) -> None:
    """The whole of it. ``kept(STAGE)`` is called when upstream has ended."""
    side.begin()
    kept("begun")
    before, mark = said(objects(lab)), lab.mark()
    refused = lab.sync()
    assert "adoptable" in {row["reason"] for row in refused["refused"]}, refused
    planned = lab.sync(check=True, adopt=True)
    assert lab.writes(mark) == NOTHING, lab.writes(mark)
    taken = lab.sync(adopt=True)
    assert taken["failures"] == [] and taken["refused"] == [], taken
    assert taken["plan"]["changes"] == planned["plan"]["changes"] != [], (taken, planned)
    same(before, lab, "taking over has changed something")
    assert appliers(lab) == {MANAGER}, appliers(lab)
    mark = lab.mark()
    for more in ({"adopt": True}, {}):
        assert not lab.sync(**more)["changed"]
    assert lab.writes(mark) == NOTHING, lab.writes(mark)
    Changes(lab, side).all()
    before = said(objects(lab))
    done = tenants_released.run(lab.request())
    assert done["failures"] == [] and done["changed"]
    same(before, lab, "handing back has changed something")
    assert appliers(lab) == {ONMETAL.field_manager}, appliers(lab)
    side.again()
    kept("returned")
    same(before, lab, "upstream has changed something")
    assert appliers(lab) == {ONMETAL.field_manager}, appliers(lab)
