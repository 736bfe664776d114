# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The whole life of a control plane's address that the Equinix Metal cloud controller kept: taken over, changed in every way, given back.

``original`` is the program, or what it was recorded to have written: ``begin()`` is its first start, ``again()`` the one after us.
"""

from __future__ import annotations

import contextlib
import json
import typing as t
import urllib.parse

from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers import (
    ccm_nodes,
    control_plane_address,
)
from ansible_collections.multicluster.network.plugins.module_utils._io.https import HealthProbe
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import Conflict, NotFound
from balancer_life import NODES, US, Balanced, different, posts, said, spelled

CONTROLLER = "cloud-provider-equinix-metal"
TAG, EIP, IDENT = "control-plane-of-aws", "203.0.113.100", "00000000-0000-4000-8000-00000000000e"
ROLE = "node-role.kubernetes.io/control-plane"
#: MetalLB's annotation by its present name, which upstream does not know.
PRESENT_POOL = "metallb.io/address-pool"
EXTERNAL = CONTROLLER + "-kubernetes-external"
SYSTEM, SLICES = (
    "/api/v1/namespaces/kube-system/services/" + EXTERNAL,
    "/apis/discovery.k8s.io/v1/namespaces/{0}/endpointslices",
)
COPY, SOURCE = SLICES.format("kube-system") + "/" + EXTERNAL, SLICES.format("default") + "/kubernetes"


class Plane:
    """Two control-plane nodes at the double of the provider, and a reserved address that nobody holds. ``down``: with an API server that answers no more."""

    def __init__(self, server: t.Any, double: t.Any) -> None:
        self.balanced = Balanced(server, double, "kube-vip")
        self.server, self.double, self.client = server, double, server.client()
        self.down: set[str] = set()

    # -- what there is

    def put(self) -> None:
        """Fresh nodes as kubelets make them. This API server advertises a loopback address and makes no slice of that, so the test does."""
        self.balanced.prepare()
        self.double.ask("/reservations", tags=[TAG], address=EIP, id=IDENT)
        for number in (1, 2):
            self.node(number)
        self.slice_of("10.66.1.5")

    def node(self, number: int) -> str:
        name = self.balanced.node(number)
        self.client.merge_patch(NODES + "/" + name, {"metadata": {"labels": {ROLE: ""}}}, "kubeadm")
        return name

    def slice_of(self, *addresses: str) -> None:
        """The API servers' own endpoints, as they write them."""
        rows = [{"addresses": [address], "conditions": {"ready": True}} for address in addresses]
        ports = [{"name": "https", "port": self.server.port, "protocol": "TCP"}]
        body = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "addressType": "IPv4",
            "endpoints": rows,
            "ports": ports,
            "metadata": {"name": "kubernetes", "labels": {"kubernetes.io/service-name": "kubernetes"}},
        }
        try:
            self.client.create(SLICES.format("default"), body, "kube-apiserver")
        except Conflict:
            self.client.merge_patch(SOURCE, {"endpoints": rows}, "kube-apiserver")

    def clear(self) -> None:
        self.balanced.clear()
        for path in (SYSTEM, COPY, SOURCE):
            with contextlib.suppress(NotFound):
                self.client.delete(path)

    def holder(self) -> list[str]:
        """The owner of the device that the provider has on record for the address."""
        state = self.double.ask("/state")
        named = {row["id"]: row["hostname"] for row in state["devices"]}
        held = next(row for row in state["reservations"] if row["id"] == IDENT)
        return [named[row["assigned_to"]["href"].rpartition("/")[2]] for row in held["assignments"]]

    def objects(self) -> list[dict[str, t.Any]]:
        """Everything that upstream may have written."""
        found = [dict(item, apiVersion="v1", kind="Node") for item in self.client.list(NODES).items]
        found.append(dict(self.client.get(SYSTEM), apiVersion="v1", kind="Service"))
        return found + [dict(self.client.get(COPY), apiVersion="discovery.k8s.io/v1", kind="EndpointSlice")]

    def written(self) -> dict[t.Any, t.Any]:
        found = said(self.objects())
        for obj in found.values():
            (obj["metadata"].get("annotations") or {}).pop(PRESENT_POOL, None)
        found["Service", EXTERNAL]["spec"]["ports"][0].pop("port")  # port() has it
        return found

    def port(self) -> int:
        """At which the Service listens: since its release 3.4 upstream leaves that of the Service kubernetes, where nothing answers (ccm 11.4)."""
        return int(self.client.get(SYSTEM)["spec"]["ports"][0]["port"])

    def records(self) -> list[tuple[str, str, t.Any]]:
        """(kind, who, fields) on record for the Service and its endpoints."""
        return [
            (obj["kind"], entry["manager"], entry["fieldsV1"])
            for obj in self.objects()
            if obj["kind"] != "Node"
            for entry in obj["metadata"].get("managedFields") or ()
        ]

    def nodes_of_theirs(self) -> set[str]:
        """What of Nodes the controller is still on record for; annotations and their labels belong to load balancers."""
        return {
            name
            for obj in self.objects()
            if obj["kind"] == "Node"
            for entry in obj["metadata"].get("managedFields") or ()
            if entry["manager"].startswith(CONTROLLER)
            for part in ("f:spec", "f:status")
            for name in entry["fieldsV1"].get(part) or ()
        }

    # -- what we do

    def probe(self) -> type[HealthProbe]:
        """A probe that goes over TLS to the API server: every address of the provider leads there while the node behind it is up."""
        plane = self

        class Probe(HealthProbe):
            def __call__(self, url: str) -> int | None:
                parts = urllib.parse.urlsplit(url)
                asked = str(parts.hostname)
                names = (
                    plane.holder()
                    if asked == EIP
                    else ["metal-" + asked.split(".")[2 if asked.startswith("10.66.") else 3]]
                )
                assert names and parts.port == plane.server.port, url
                return (
                    None if set(names) & plane.down else super().__call__(f"https://127.0.0.1:{parts.port}{parts.path}")
                )

        return Probe

    def run(self, check: bool = False, **more: t.Any) -> dict[str, t.Any]:
        """The address, then the nodes, which show who has it; both results as one."""
        ask = self.balanced.request(dict({"probe_failures": 1, "rest_seconds": 0}, **more))
        ask["settings"] = [dict(ask["settings"][0], eip_tag=TAG)]
        first = control_plane_address.run(ask, check=check)
        second = ccm_nodes.run(ask, check=check)
        assert not first["failures"] and not second["failures"], (first["failures"], second["failures"])
        return {
            "changed": first["changed"] or second["changed"],
            "refused": first["refused"] + second["refused"],
            "changes": first["plan"]["changes"] + second["plan"]["changes"],
        }


def same(before: t.Mapping[t.Any, t.Any], plane: Plane, what: str) -> None:
    found = different(before, plane.written())
    assert not found, f"{what}: {found}"


def writes(plane: Plane, since: int) -> list[t.Any]:
    return [row for row in plane.server.writes(since) if "/leases" not in json.dumps(row)]


def untouched(plane: Plane, mark: int, calls: int) -> None:
    """Neither cluster nor provider was asked to change anything since then."""
    found = {"cluster": writes(plane, mark), "provider": posts(plane.balanced, calls)}
    assert found == {"cluster": [], "provider": []}, found


def quiet(plane: Plane, **more: t.Any) -> None:
    mark, calls = plane.server.mark(), len(plane.double.calls())
    result = plane.run(**more)
    assert not result["changed"], result["changes"]
    untouched(plane, mark, calls)


def settle(plane: Plane, **more: t.Any) -> dict[str, t.Any]:
    """A run that changes something and refuses nothing; then one that writes nothing."""
    result = plane.run(**more)
    assert result["changed"] and not result["refused"], result
    quiet(plane)
    return result


def live(plane: Plane, original: t.Any) -> None:
    """From upstream to us, every later change, and back."""
    original.begin()
    before, first = plane.written(), plane.holder()
    assert len(first) == 1 and before["Service", EXTERNAL]["spec"]["loadBalancerIP"] == EIP and plane.port() == 443

    # without adopt nothing of upstream's is touched, and that it could be is said
    mark, calls = plane.server.mark(), len(plane.double.calls())
    ran = plane.run()
    refused = ran["refused"]
    assert not ran["changed"], ran["changes"]
    assert {row["reason"] for row in refused} == {"adoptable"} and "control_plane_address_adopt" in str(refused)
    untouched(plane, mark, calls)
    planned = plane.run(check=True, adopt=True)
    untouched(plane, mark, calls)
    result = settle(plane, adopt=True)
    assert sorted(map(spelled, result["changes"])) == sorted(map(spelled, planned["changes"])), (
        result["changes"],
        planned["changes"],
    )
    same(before, plane, "taking over has changed something")
    assert plane.port() == plane.server.port
    assert plane.nodes_of_theirs() <= {"f:taints"}, plane.nodes_of_theirs()
    # what came through the status stays on record, the finalizer of Services of this type among it
    others = [
        row
        for row in plane.records()
        if row[1] != US and row[2].keys() != {"f:status"} and "f:finalizers" not in str(row[2].get("f:metadata"))
    ]
    assert not others, others
    assert plane.holder() == first and posts(plane.balanced, calls) == []

    changes(plane)

    before, holder, calls = plane.written(), plane.holder(), len(plane.double.calls())
    assert plane.run(state="released")["changed"]
    same(before, plane, "releasing has changed something")
    assert (
        US not in [row[1] for row in plane.records()]
        and plane.holder() == holder
        and posts(plane.balanced, calls) == []
    )
    quiet(plane, state="released")
    calls = len(plane.double.calls())
    original.again()
    same(before, plane, "upstream found something to change")
    assert plane.holder() == holder and posts(plane.balanced, calls) == []


def changes(plane: Plane) -> None:
    """The holder is cordoned, its API server dies, endpoints come and go, nodes come and go."""
    (former,) = plane.holder()
    plane.client.merge_patch(NODES + "/" + former, {"spec": {"unschedulable": True}}, "kubectl")
    settle(plane)
    (holder,) = plane.holder()
    assert holder != former
    plane.client.merge_patch(NODES + "/" + former, {"spec": {"unschedulable": None}}, "kubectl")
    quiet(plane)
    plane.down.add(holder)
    settle(plane)
    assert plane.holder() == [former]
    plane.down.clear()
    for addresses in (["10.66.1.5", "10.66.2.5"], ["10.66.2.5"]):
        plane.slice_of(*addresses)
        settle(plane)
        assert [row["addresses"] for row in plane.client.get(COPY)["endpoints"]] == [[address] for address in addresses]
    plane.node(3)
    settle(plane)
    plane.client.delete(NODES + "/" + holder)
    quiet(plane)
    assert plane.holder() == [former]
