# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The whole life of what the Equinix Metal cloud controller made: nodes, addresses and MetalLB's configuration, taken over, changed in every way, given back.

``original`` is the program, or what it was recorded to have written: ``begin()`` is its first start, ``again()`` the one after us.
"""

from __future__ import annotations

import contextlib
import copy
import json
import time
import typing as t

import yaml
from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers import (
    ccm_nodes,
    converge as load_balancers,
)
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import Conflict
from equinix_cloud import CRDS, PROJECT, TOKEN, uid
from recorded import content

US = "multicluster.network/t"
SPACE, METALLB = "lb-life", "metallb-system"
SERVICES, NODES = f"/api/v1/namespaces/{SPACE}/services", "/api/v1/nodes"
CONFIGMAPS = f"/api/v1/namespaces/{METALLB}/configmaps"
FINALIZER = "service.kubernetes.io/load-balancer-cleanup"
TAINT = {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}
KINDS = {
    "IPAddressPool": ("metallb.io/v1beta1", "ipaddresspools"),
    "BGPAdvertisement": ("metallb.io/v1beta1", "bgpadvertisements"),
    "BGPPeer": ("metallb.io/v1beta2", "bgppeers"),
}
MODES = {
    "configmap": "metallb:///metallb-system/config",
    "custom-resources": "metallb:///metallb-system?crdConfiguration=true",
    "kube-vip": "kube-vip://",
}
#: As upstream: the names of annotations with numbers, the tags of its name, every node's password alongside its session.
SETTINGS = {
    "identity": "cloud-provider-equinix-metal",
    "annotation_scheme": "indexed",
    "metallb_peer_tracking": "service",
    "publish_bgp_password": True,
}


class Balanced:
    """A cluster at the double of the provider, with MetalLB as the mode has it."""

    def __init__(self, server: t.Any, double: t.Any, mode: str) -> None:
        self.server, self.double, self.mode, self.client = server, double, mode, server.client()

    def request(self, more: t.Mapping[str, t.Any] | None = None) -> dict[str, t.Any]:
        settings = dict(
            SETTINGS,
            cluster="aws",
            provider="equinix_metal",
            load_balancer=MODES[self.mode],
            base_url=self.double.root + "/metal/v1",
            allow_plain_http=True,
            api_key=TOKEN,
            project_id=PROJECT,
            metro="da",
            gc_orphans=True,
        )
        return dict(
            {"fabric": "t", "clusters": [self.server.access()], "settings": [settings], "timeout": 60, "lock_wait": 60},
            **(more or {}),
        )

    def run(self, check: bool = False, **more: t.Any) -> dict[str, t.Any]:
        """Nodes, then addresses; both results as one."""
        first = ccm_nodes.run(
            self.request(
                {"state": "released"} if more.get("state") == "released" else {"adopt": bool(more.get("adopt"))}
            ),
            check=check,
        )
        second = load_balancers.run(self.request(more), check=check)
        assert not first["failures"] and not second["failures"], (first["failures"], second["failures"])
        return {
            "changed": first["changed"] or second["changed"],
            "refused": first["refused"] + second["refused"],
            "changes": first["plan"]["changes"] + second["plan"]["changes"],
            "warnings": second["warnings"],
        }

    # -- what there is

    def clear(self) -> None:
        """Nothing of it is left."""
        for item in self.client.list(SERVICES).items:
            if item["metadata"].get("finalizers"):
                self.client.merge_patch(
                    SERVICES + "/" + item["metadata"]["name"], {"metadata": {"finalizers": None}}, "kubectl"
                )
            self.client.delete(SERVICES + "/" + item["metadata"]["name"])
        for path in (NODES, CONFIGMAPS, *(self.path(kind) for kind in KINDS if self.mode == "custom-resources")):
            for item in self.client.list(path).items:
                if item["metadata"]["name"] != "kube-root-ca.crt":
                    self.client.delete(path + "/" + item["metadata"]["name"])
        for name in ("cloud-provider-equinix-metal-reservations", "metal-ccm-reservations"):
            self.client.delete("/api/v1/namespaces/kube-system/configmaps/" + name)

    def prepare(self) -> None:
        """Namespaces, MetalLB's kinds, and two devices at the provider."""
        for name in (SPACE, METALLB):
            self._create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        if self.mode == "custom-resources":
            self.serve()
        self.double.ask("/reset")
        for number in (1, 2):
            self.double.ask("/devices", hostname="metal-%d" % number, number=number)

    def put(self) -> None:
        """Two fresh nodes as kubelets make them, two Services, MetalLB without a setting of the user's."""
        self.prepare()
        if self.mode == "configmap":
            self._create(
                CONFIGMAPS,
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "config"}, "data": {"config": ""}},
            )
        for number in (1, 2):
            self.node(number)
        for name in ("db", "web"):
            self.service(name)

    def serve(self) -> None:
        """MetalLB's own kinds."""
        for body in yaml.safe_load(CRDS.read_text("utf-8"))["items"]:
            self._create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
        deadline = time.monotonic() + 60
        while not all(self.client.resource(version, kind, refresh=True) for kind, (version, dummy) in KINDS.items()):
            assert time.monotonic() < deadline
            time.sleep(0.2)

    def _create(self, path: str, body: t.Mapping[str, t.Any]) -> None:
        with contextlib.suppress(Conflict):
            self.client.create(path, body, "kubectl")

    def path(self, kind: str) -> str:
        version, plural = KINDS[kind]
        return f"/apis/{version}/namespaces/{METALLB}/{plural}"

    def node(self, number: int) -> str:
        name = "metal-%d" % number
        self.double.ask("/devices", hostname=name, number=number)
        labels = {"kubernetes.io/hostname": name}
        self.client.create(
            NODES,
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": labels},
                "spec": {"taints": [TAINT]},
            },
            "kubelet",
        )
        status = {"conditions": [{"type": "Ready", "status": "True"}]}
        self.client.merge_patch(f"{NODES}/{name}/status", {"status": status}, "kubelet")
        return name

    def service(self, name: str) -> None:
        spec = {"type": "LoadBalancer", "ports": [{"port": 80, "protocol": "TCP"}], "selector": {"app": name}}
        self.client.create(
            SERVICES, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}, "kubectl"
        )

    def reports(self) -> None:
        """MetalLB's controller, or kube-vip: each Service's address in its status, as long as nobody else wrote it."""
        for item in self.client.list(SERVICES).items:
            address = item["spec"].get("loadBalancerIP")
            if address and not item["status"]["loadBalancer"].get("ingress"):
                path = f"{SERVICES}/{item['metadata']['name']}/status"
                self.client.merge_patch(
                    path, {"status": {"loadBalancer": {"ingress": [{"ip": address}]}}}, "controller"
                )

    def objects(self) -> list[dict[str, t.Any]]:
        """Everything that upstream may have written."""
        found = [dict(item, apiVersion="v1", kind="Service") for item in self.client.list(SERVICES).items]
        found += [dict(item, apiVersion="v1", kind="Node") for item in self.client.list(NODES).items]
        if self.mode == "configmap":
            found += [
                dict(item, apiVersion="v1", kind="ConfigMap")
                for item in self.client.list(CONFIGMAPS).items
                if item["metadata"]["name"] == "config"
            ]
        if self.mode == "custom-resources":
            for kind, (version, dummy) in KINDS.items():
                found += [dict(item, apiVersion=version, kind=kind) for item in self.client.list(self.path(kind)).items]
        return found

    def held(self) -> dict[str, list[str]]:
        """Address -> tags, of all reservations; the cluster's UID, which differs from server to server, by a name."""
        return {
            row["address"]: sorted(tag.replace(uid(self.client), "UID") for tag in row["tags"])
            for row in self.double.held()
        }


def said(objects: t.Iterable[t.Mapping[str, t.Any]]) -> dict[tuple[str, str], t.Any]:
    """What objects say; MetalLB's text as what it means, and lists of which the order means nothing sorted."""
    found = {}
    for given in objects:
        obj = copy.deepcopy(content(given))
        obj.get("status", {}).pop("conditions", None)
        if obj["kind"] == "ConfigMap":  # our note of owned peers, for us alone
            (obj["metadata"].get("annotations") or {}).pop("metal.equinix.com/managed-peers", None)
            if not obj["metadata"].get("annotations"):
                obj["metadata"].pop("annotations", None)
        if obj["kind"] == "ConfigMap":
            text = yaml.safe_load(obj["data"]["config"]) or {}
            obj["data"]["config"] = {key: sorted(map(meant, rows), key=spelled) for key, rows in text.items() if rows}
        if obj["kind"] == "BGPAdvertisement":
            obj["spec"]["ipAddressPools"].sort()
        found[obj["kind"], obj["metadata"]["name"]] = obj
    return found


def spelled(value: t.Any) -> str:
    return json.dumps(value, sort_keys=True)


def meant(value: t.Any) -> t.Any:
    """A part of MetalLB's text without what has no effect: upstream writes every field that it knows, with an empty value where it has none."""
    if isinstance(value, list):
        return sorted(map(meant, value), key=spelled)
    if not isinstance(value, dict):
        return value
    return {
        key: meant(one)
        for key, one in value.items()
        if one not in (None, "", [], 0) or (one is False and key == "auto-assign")
    }


def different(before: t.Mapping[t.Any, t.Any], after: t.Mapping[t.Any, t.Any]) -> list[tuple[t.Any, ...]]:
    """(object, path, before, after) of everything that is not the same."""

    def walk(path: str, one: t.Any, other: t.Any) -> t.Iterator[tuple[str, t.Any, t.Any]]:
        if isinstance(one, dict) and isinstance(other, dict):
            for name in sorted(set(one) | set(other)):
                yield from walk(path + "." + name, one.get(name), other.get(name))
        elif one != other:
            yield path, one, other

    keys = sorted(set(before) | set(after))
    return [
        ("/".join(key) if isinstance(key, tuple) else key, *row)
        for key in keys
        for row in walk("", before.get(key), after.get(key))
    ]


def same(before: t.Mapping[t.Any, t.Any], one: Balanced, what: str) -> None:
    found = different(before, said(one.objects()))
    assert not found, f"{what}: {found}"


def owned(one: Balanced) -> set[tuple[str, str]]:
    """The objects that we are on record for."""
    return {
        (obj["kind"], obj["metadata"]["name"])
        for obj in one.objects()
        for entry in obj["metadata"].get("managedFields") or ()
        if entry["manager"] == US
    }


def others_of_nodes(one: Balanced) -> set[str]:
    """What a cloud controller writes into Nodes, and others than we and kubelets are on record for; taints belong to whoever changed any of them last."""
    return {
        name
        for obj in one.objects()
        if obj["kind"] == "Node"
        for entry in obj["metadata"].get("managedFields") or ()
        if entry["manager"] not in (US, "kubelet", "kubectl")
        for part in ("f:spec", "f:metadata", "f:status")
        for name in entry["fieldsV1"].get(part) or ()
        if name not in ("f:conditions", ".")
    }


def posts(one: Balanced, since: int) -> list[str]:
    return [call for call in one.double.calls()[since:] if not call.startswith("GET ")]


def settle(one: Balanced, **more: t.Any) -> dict[str, t.Any]:
    """A run that changes something and refuses nothing; then one that writes nothing."""
    result = one.run(**more)
    assert result["changed"] and not result["refused"], result
    one.reports()
    quiet(one)
    return result


def quiet(one: Balanced, **more: t.Any) -> None:
    mark, calls = one.server.mark(), len(one.double.calls())
    result = one.run(**more)
    assert not result["changed"], result["changes"]
    assert one.server.writes(mark) == [] and posts(one, calls) == []


def live(one: Balanced, original: t.Any) -> None:
    """From upstream to us, every later change, and back."""
    original.begin()
    before, held = said(one.objects()), one.held()
    assert len(held) == 2 and {before["Service", name]["spec"]["loadBalancerIP"] for name in ("db", "web")} == set(held)

    # without adopt nothing of upstream's is touched
    mark, calls = one.server.mark(), len(one.double.calls())
    one.run()
    assert one.server.writes(mark) == [] and posts(one, calls) == []
    # the plan has what would change, which is who is on record, and our record of reservations
    planned = one.run(check=True, adopt=True)
    assert one.server.writes(mark) == [] and posts(one, calls) == []
    result = settle(one, adopt=True)
    assert sorted(map(spelled, result["changes"])) == sorted(map(spelled, planned["changes"])), (
        result["changes"],
        planned["changes"],
    )
    same(before, one, "taking over has changed something")
    assert one.held() == held and posts(one, calls) == [] and others_of_nodes(one) <= {"f:taints"}

    changes(one)

    before, held, calls = said(one.objects()), one.held(), len(one.double.calls())
    assert one.run(state="released")["changed"]
    for (kind, dummy), obj in before.items():  # what a cloud controller would write anyway
        if kind == "Service":
            obj["metadata"]["finalizers"] = [FINALIZER]
    same(before, one, "releasing has changed something")
    assert one.held() == held and posts(one, calls) == [] and owned(one) == set()
    quiet(one, state="released")
    original.again()
    same(before, one, "upstream found something to change")
    assert one.held() == held
    mark = one.server.mark()
    one.run()
    assert one.server.writes(mark) == []


def changes(one: Balanced) -> None:
    """Services come and go, the latter also where a finalizer of upstream holds them; nodes come and go."""
    one.service("late")
    settle(one)
    address = one.client.get(SERVICES + "/late")["spec"]["loadBalancerIP"]
    assert address in one.held()
    gone = one.client.get(SERVICES + "/db")["spec"]["loadBalancerIP"]
    one.client.request_deletion(SERVICES + "/db")
    assert one.client.get(SERVICES + "/db")["metadata"]["finalizers"] == [FINALIZER]
    settle(one)
    assert [item["metadata"]["name"] for item in one.client.list(SERVICES).items] == [
        "late",
        "web",
    ] and gone not in one.held()
    one.node(3)
    settle(one)
    assert "metal.equinix.com/bgp-peers-0-peer-ip" in one.client.get(NODES + "/metal-3")["metadata"]["annotations"]
    assert one.mode == "kube-vip" or "metal-3" in repr(said(one.objects()))
    one.client.delete(NODES + "/metal-2")
    if one.mode != "kube-vip":
        settle(one)
        assert "metal-2" not in repr({key: obj for key, obj in said(one.objects()).items() if key[0] != "Node"})
