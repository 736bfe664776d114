# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two API servers with the kinds of the tenant mapping, and the seed's tenant."""

from __future__ import annotations

import builtins
import contextlib
import os
import pathlib
import time
import typing as t

import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._flows.tenants import (
    attach as tenants_attach,
    converge as tenants,
    side as tenants_side,
)
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes import errors
from ansible_collections.multicluster.network.plugins.module_utils._tenants.options import (
    APINET,
    CLUSTER_KINDS,
    ONMETAL,
    SOURCE,
    plural,
)

FILES = pathlib.Path(__file__).resolve().parents[2] / "roles" / "tenants_crds" / "files"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAMESPACE = "apinet-system"
TEAM = "team-a"
PREFIXES = ["203.0.113.0/28", "2001:db8::/120"]
ZONE = ONMETAL.zone
#: Every order and every fault, which takes minutes; otherwise some of them.
FULL = bool(os.environ.get("MCN_FULL"))
SOURCE_KINDS = (
    "Network",
    "NetworkInterface",
    "VirtualIP",
    "LoadBalancer",
    "LoadBalancerRouting",
    "NATGateway",
    "Prefix",
)
APINET_KINDS = (
    "NetworkInterface",
    "LoadBalancerRouting",
    "NATGatewayAutoscaler",
    "NATTable",
    "Instance",
    "DaemonSet",
    "LoadBalancer",
    "NATGateway",
    "IP",
    "Network",
    "NetworkID",
    "IPAddress",
    "Node",
)


def install(server: t.Any, side: str, profile: t.Any = ONMETAL) -> None:
    """The side's kinds, served."""
    client = server.client()
    pairs = []
    for path in sorted(FILES.glob(side + "_*.yml")):
        for definition in yaml.safe_load(
            path.read_text().replace("api.onmetal.de", profile.source.partition("/")[0].partition(".")[2])
        )["items"]:
            with contextlib.suppress(errors.Conflict):
                client.create(DEFINITIONS, definition, "test")
            pairs.append((definition["spec"]["group"] + "/v1alpha1", definition["spec"]["names"]["kind"]))
    deadline = time.monotonic() + 60
    for api_version, kind in pairs:
        while client.resource(api_version, kind, refresh=True) is None:
            assert time.monotonic() < deadline
            time.sleep(0.1)


def make_namespace(server: t.Any, name: str) -> None:
    with contextlib.suppress(errors.Conflict):
        server.client().create(
            "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, "test"
        )


class Lab:
    """Both servers (which may be one), and shortcuts."""

    def __init__(self, source: t.Any, apinet: t.Any, profile: t.Any = ONMETAL) -> None:
        self.servers = {SOURCE: source, APINET: apinet}
        self.clients = {side: server.client() for side, server in self.servers.items()}
        self.profile = profile

    def path(self, side: str, kind: str, namespace: str = "", name: str | None = None) -> str:
        place = "/namespaces/" + namespace if namespace and not (side == APINET and kind in CLUSTER_KINDS) else ""
        found = f"/apis/{self.profile.group_version(side, kind)}{place}/{plural(kind)}"
        return found if name is None else found + "/" + name

    def create(self, side: str, obj: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """Make an object; its status is written after it, as a controller would."""
        body = {key: value for key, value in obj.items() if key != "status"}
        meta = {key: value for key, value in obj["metadata"].items() if key != "uid"}
        path = self.path(side, obj["kind"], meta.get("namespace", ""))
        made = self.clients[side].create(path, dict(body, metadata=meta), "test")
        if obj.get("status"):
            made = self.status(side, obj["kind"], meta.get("namespace", ""), meta["name"], obj["status"])
        return made

    def status(self, side: str, kind: str, namespace: str, name: str, status: t.Any) -> dict[str, t.Any]:
        return self.clients[side].merge_patch(
            self.path(side, kind, namespace, name) + "/status", {"status": status}, "test"
        )

    def patch(self, side: str, kind: str, namespace: str, name: str, body: t.Any) -> dict[str, t.Any]:
        return self.clients[side].merge_patch(self.path(side, kind, namespace, name), body, "test")

    def get(self, side: str, kind: str, namespace: str, name: str) -> dict[str, t.Any]:
        return self.clients[side].get(self.path(side, kind, namespace, name))

    def list(self, side: str, kind: str) -> builtins.list[dict[str, t.Any]]:
        return self.clients[side].list(self.path(side, kind)).items

    def delete(self, side: str, kind: str, namespace: str, name: str) -> None:
        self.clients[side].delete(self.path(side, kind, namespace, name))

    def clear(self) -> None:
        """Nothing left on either side, whatever holds it."""
        for side, kinds in ((SOURCE, SOURCE_KINDS), (APINET, APINET_KINDS)):
            for kind in kinds:
                for obj in self.list(side, kind):
                    meta = obj["metadata"]
                    place = (side, kind, meta.get("namespace", ""), meta["name"])
                    if meta.get("finalizers"):
                        self.patch(*place, {"metadata": {"finalizers": None}})
                    self.delete(*place)

    def left(self) -> builtins.list[str]:
        """What there is, on both sides; nodes do not count."""
        found = []
        for side, kinds in ((SOURCE, SOURCE_KINDS), (APINET, APINET_KINDS[:-1])):
            for kind in kinds:
                found += [f"{side} {kind} {obj['metadata']['name']}" for obj in self.list(side, kind)]
        return found

    # -- running

    def request(self, **more: t.Any) -> dict[str, t.Any]:
        clusters = [self.servers[SOURCE].access("east"), self.servers[APINET].access("fabric")]
        return dict(
            {
                "fabric": "t",
                "clusters": clusters,
                "source": "east",
                "apinet": "fabric",
                "apinet_namespace": NAMESPACE,
                "profile": self.profile.name,
                "timeout": 60,
                "lock_wait": 60,
                "max_deletes": -1,
            },
            **more,
        )

    def sync(self, check: bool = False, **more: t.Any) -> dict[str, t.Any]:
        return tenants.run(self.request(**more), check)

    def allocate(self, check: bool = False, **more: t.Any) -> dict[str, t.Any]:
        return tenants_side.allocate(self.request(**dict({"public_prefixes": PREFIXES}, **more)), check)

    def schedule(self, check: bool = False, **more: t.Any) -> dict[str, t.Any]:
        return tenants_side.schedule(self.request(**more), check)

    def attach(self, check: bool = False, **more: t.Any) -> dict[str, t.Any]:
        return tenants_attach.run(self.request(**more), check)

    def settle(self, limit: int = 12, **more: t.Any) -> dict[str, t.Any]:
        """Both programs and the nodes' agents in turn, until nobody writes; the last result of the mapping."""
        for _turn in range(limit):
            rounds = [self.sync(**more), self.allocate(), self.schedule()]
            for result in rounds:
                assert result["failures"] == [], result["failures"]
            if not any([result["changed"] for result in rounds] + [self.agents()]):
                return rounds[0]
        raise AssertionError("it does not settle")

    def agents(self) -> bool:
        """What the nodes' agents do: every interface is ready and shows its addresses."""
        wrote = False
        for twin in self.list(APINET, "NetworkInterface"):
            public = [entry["ip"] for entry in twin["spec"].get("publicIPs") or ()]
            desired = {"state": "Ready", "publicIPs": public}
            status = twin.get("status") or {}
            if any((status.get(field) or []) != (value or []) for field, value in desired.items()):
                meta = twin["metadata"]
                self.status(APINET, "NetworkInterface", meta["namespace"], meta["name"], desired)
                wrote = True
        return wrote

    def mark(self) -> dict[str, int]:
        return {side: server.mark() for side, server in self.servers.items()}

    def writes(self, mark: t.Mapping[str, int]) -> dict[str, builtins.list[t.Any]]:
        return {side: server.writes(mark[side]) for side, server in self.servers.items()}

    def audit(self, mark: t.Mapping[str, int]) -> dict[str, builtins.list[t.Any]]:
        return {side: server.audit(mark[side]) for side, server in self.servers.items()}


def source(kind: str, name: str, spec: t.Any | None = None, namespace: str = TEAM, **more: t.Any) -> dict[str, t.Any]:
    """An object of the tenant-facing side."""
    obj = {
        "apiVersion": ONMETAL.group_version(SOURCE, kind),
        "kind": kind,
        "metadata": {"namespace": namespace, "name": name},
    }
    return dict(obj, **({"spec": spec} if spec is not None else {}), **more)


def interface(
    name: str, address: str, virtual_ip: str = "", namespace: str = TEAM, network: str = "net-1"
) -> dict[str, t.Any]:
    spec: dict[str, t.Any] = {"networkRef": {"name": network}, "ipFamilies": ["IPv4"], "ips": [{"value": address}]}
    if virtual_ip:
        spec["virtualIP"] = {"virtualIPRef": {"name": virtual_ip}}
    return source("NetworkInterface", name, spec, namespace)


def ends() -> list[dict[str, t.Any]]:
    """What every tenant of the tests has: a network with two interfaces, one of which has a virtual IP."""
    return [
        source("Network", "net-1", {}),
        source("VirtualIP", "vip-1", {"type": "Public", "ipFamily": "IPv4"}),
        interface("nic-1", "192.168.178.1", "vip-1"),
        interface("nic-2", "192.168.178.2"),
    ]


def seed() -> list[dict[str, t.Any]]:
    """A network, two interfaces (one with a virtual IP, one behind NAT), load balancers of both types, a gateway."""
    network = {"networkRef": {"name": "net-1"}}
    return [
        *ends(),
        source("LoadBalancer", "lb-1", dict(network, type="Public", ipFamilies=["IPv4", "IPv6"], ports=[{"port": 80}])),
        source(
            "LoadBalancer", "lb-2", dict(network, type="Internal", ipFamilies=["IPv4"], ips=[{"value": "10.1.0.9"}])
        ),
        source("NATGateway", "nat-1", dict(network, type="Public", ipFamily="IPv4")),
    ]


def nodes() -> list[dict[str, t.Any]]:
    made = []
    for name, zone in (("node-a", "a"), ("node-b", "a"), ("node-c", "b")):
        made.append(
            {
                "apiVersion": ONMETAL.apinet,
                "kind": "Node",
                "metadata": {"name": name, "labels": {ZONE: zone}},
                "spec": {},
            }
        )
    return made


def routing(lab: Lab, name: str = "lb-1", targets: t.Sequence[str] = ("nic-1",)) -> None:
    """What the tenant-facing side's own controller writes once interfaces are available."""
    destinations = []
    for target in targets:
        found = lab.get(SOURCE, "NetworkInterface", TEAM, target)
        reference = {"uid": found["metadata"]["uid"], "name": target, "providerID": found["spec"].get("providerID", "")}
        destinations.append({"ip": found["spec"]["ips"][0]["value"], "targetRef": reference})
    network = lab.get(SOURCE, "Network", TEAM, "net-1")["metadata"]
    body = source(
        "LoadBalancerRouting", name, networkRef={"name": "net-1", "uid": network["uid"]}, destinations=destinations
    )
    lab.create(SOURCE, body)


def attachments(*names: str) -> list[dict[str, str]]:
    return [{"namespace": TEAM, "name": name, "node": "node-a"} for name in names]


@pytest.fixture(scope="session")
def tenant_sides(server, tmp_path_factory):
    """The session's API server as the tenants' one, and one more as the fabric's."""
    more = type(server)(tmp_path_factory.mktemp("fabric"))
    try:
        more.start()
        install(server, SOURCE)
        install(more, APINET)
        make_namespace(server, TEAM)
        make_namespace(more, NAMESPACE)
        yield Lab(server, more)
    finally:
        more.stop()


@pytest.fixture
def lab(tenant_sides):
    """Both sides, with nothing on them before and after."""
    tenant_sides.clear()
    yield tenant_sides
    tenant_sides.clear()


@pytest.fixture
def tenant(lab):
    """The seed's tenant, settled: interfaces attached, routing written."""
    for obj in nodes():
        lab.create(APINET, obj)
    for obj in seed():
        lab.create(SOURCE, obj)
    lab.settle()
    lab.attach(interfaces=attachments("nic-1", "nic-2"), require_ready=False)
    lab.settle()
    routing(lab)
    lab.settle()
    return lab
