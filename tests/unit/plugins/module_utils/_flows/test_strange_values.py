# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every value of every object of one cluster replaced by what no API server sends: no flow ends, and the others' part of it is as it was."""

from __future__ import annotations

import copy
import json
import pathlib
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.clustermesh import converge as clustermesh
from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers import (
    converge as load_balancers,
)
from ansible_collections.multicluster.network.plugins.module_utils._flows.mesh import (
    cluster_nodes,
    mesh_plan,
    node_annotations,
)
from ansible_collections.multicluster.network.plugins.module_utils._flows.services import (
    mirror as service_mirror,
    network_sets,
)
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes import errors
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Client, Resource
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.decode import decode
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.node_hosts import Names

HOSTILE = json.loads(
    (pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "hostile" / "strange_values.json").read_text("utf-8")
)
VALUES = [json.loads(text) for text in HOSTILE["values"]] + [10 ** HOSTILE["digits"], "x" * HOSTILE["letters"]]
GOOD, OTHER, EVIL = "good", "other", "evil"
RANGES = {GOOD: 1, OTHER: 2, EVIL: 3}
DEFINITION = {
    "clusters": {
        name: {
            "pod_cidrs": [f"10.{n}.0.0/16"],
            "service_cidrs": [f"10.10{n}.0.0/16"],
            "node_cidrs": [f"10.66.{n}.0/24"],
            "wireguard_cidrs": [f"10.200.{n}.0/24"],
        }
        for name, n in RANGES.items()
    },
    "nodes": {name + "-1": {"multicluster_cluster": name, "node_name": "n1"} for name in RANGES},
}
KEYS = {
    GOOD: "SBaB+IXZbGZ2kiUWQdGyqdOZ0TFCdKjhcz2bLvSpOkA=",
    OTHER: "J+cMWxHk9Ugfqa2Mw1ODcRScEKdXAzHfVQqCbgSKYhQ=",
    EVIL: "0XGDNkDc5bEJhPRQKJbKa8SzR5kRb5bcDw+C9mn9Pnc=",
}


FIELDS = {
    "operation": "Update",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:metadata": {"f:annotations": {"f:a": {}}}, "f:spec": {"f:ports": {}}},
}


def node(name: str) -> t.Any:
    number = RANGES[name]
    notes = {}
    for remote in RANGES:
        if remote != name:
            notes[f"{remote}.wireguard.semaphore.uw.io/pubKey"] = KEYS[name]
            notes[f"{remote}.wireguard.semaphore.uw.io/endpoint"] = f"10.66.{number}.1:51820"
    notes.update(
        {
            "kilo.squat.ai/key": KEYS[name],
            "kilo.squat.ai/wireguard-ip": f"10.200.{number}.1/24",
            "kilo.squat.ai/granularity": "full",
            "kilo.squat.ai/force-endpoint": f"10.66.{number}.1:51820",
            "kilo.squat.ai/internal-ip": f"10.66.{number}.1/24",
            "networking.talos.dev/kubespan-public-key": KEYS[name],
            "cluster.talos.dev/node-id": "id-" + name,
            "networking.talos.dev/kubespan-endpoints": f"10.66.{number}.1:51820",
        }
    )
    return {
        "metadata": {
            "name": "n1",
            "uid": "u-" + name,
            "resourceVersion": "5",
            "annotations": notes,
            "labels": {"kubernetes.io/hostname": "n1"},
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [dict(FIELDS, manager="kubelet")],
        },
        "spec": {
            "podCIDR": f"10.{number}.1.0/24",
            "podCIDRs": [f"10.{number}.1.0/24"],
            "taints": [{"key": "a", "effect": "NoSchedule"}],
        },
        "status": {
            "addresses": [{"type": "InternalIP", "address": f"10.66.{number}.1"}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def objects_of(name: str) -> dict[str, list[t.Any]]:
    number = RANGES[name]
    labels = {"mirror.semaphore.uw.io/mirror-service": "true", "policy.semaphore.uw.io/name": "web"}
    meta = {
        "name": "web",
        "namespace": "default",
        "uid": "s-" + name,
        "resourceVersion": "7",
        "labels": labels,
        "annotations": {"a": "b"},
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "ownerReferences": [{"kind": "ReplicaSet", "name": "w", "uid": "x", "controller": True}],
        "managedFields": [dict(FIELDS, manager="kubectl")],
    }
    service = {
        "metadata": meta,
        "spec": {
            "type": "LoadBalancer",
            "clusterIP": f"10.10{number}.0.9",
            "clusterIPs": [f"10.10{number}.0.9"],
            "ipFamilies": ["IPv4"],
            "sessionAffinity": "None",
            "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}],
        },
        "status": {"loadBalancer": {}},
    }
    pod = {
        "metadata": meta,
        "spec": {"nodeName": "n1"},
        "status": {
            "phase": "Running",
            "podIP": f"10.{number}.1.9",
            "podIPs": [{"ip": f"10.{number}.1.9"}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    address = {
        "ip": f"10.{number}.1.9",
        "nodeName": "n1",
        "targetRef": {"kind": "Pod", "name": "web", "namespace": "default"},
    }
    ends = {
        "metadata": meta,
        "subsets": [{"addresses": [address], "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]}],
    }
    part = {
        "metadata": dict(meta, labels=dict(labels, **{"kubernetes.io/service-name": "web"})),
        "addressType": "IPv4",
        "endpoints": [
            {
                "addresses": [f"10.{number}.1.9"],
                "conditions": {"ready": True},
                "targetRef": {"kind": "Pod", "name": "web"},
            }
        ],
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    }
    return {"nodes": [node(name)], "services": [service], "pods": [pod], "endpoints": [ends], "endpointslices": [part]}


class World:
    """What three API servers answer; nothing is written."""

    def __init__(self) -> None:
        self.objects = {name: objects_of(name) for name in RANGES}

    def install(self, monkeypatch: t.Any) -> None:
        world = self

        def send(client: t.Any, request: t.Any, *unused: t.Any) -> t.Any:
            path, operation = request.path, request.operation
            assert request.method == "GET", operation
            if request.verb == "list":
                answer = {
                    "metadata": {"resourceVersion": "1"},
                    "items": world.objects[client.cluster].get(path.rpartition("/")[2], []),
                }
            elif path == "/api/v1/namespaces/kube-system":
                answer = {"metadata": {"uid": "uid-" + client.cluster}}
            else:
                raise errors.NotFound(client.cluster, operation, "no", status=404)
            text = json.dumps(answer).replace("Infinity", "1e999")
            try:
                return decode(text.encode(), 64)
            except ValueError as error:
                raise errors.BadAnswer(client.cluster, operation, str(error)) from None

        def resource(client: t.Any, version: str, kind: str, refresh: bool = False) -> t.Any:
            plural = "endpoints" if kind == "Endpoints" else kind.lower() + "s"
            return Resource(
                version,
                kind,
                plural,
                kind not in ("Node", "GlobalNetworkSet", "Peer"),
                frozenset(("list", "get", "create", "patch", "delete")),
            )

        monkeypatch.setattr(Client, "send", send)
        monkeypatch.setattr(Client, "resource", resource)
        monkeypatch.setattr(Client, "server_version", lambda client: (1, 30))


ACCESS = [{"name": name, "api_url": "https://127.0.0.1:1", "token": "abcdef"} for name in sorted(RANGES)]


def request(**more: t.Any) -> t.Any:
    return dict(
        {"fabric": "t", "clusters": copy.deepcopy(ACCESS), "definition": copy.deepcopy(DEFINITION), "timeout": 20},
        **more,
    )


def hosts() -> t.Any:
    read, failures = cluster_nodes.gather(copy.deepcopy(ACCESS), None, 20)
    ranges = {name: DEFINITION["clusters"][name]["node_cidrs"] for name in RANGES}
    found, refused, _renamed = cluster_nodes.hosts(read, ranges, "InternalIP", Names(), "plain")
    return {
        "plan": {name: [str(one) for one in rows] for name, rows in found.items() if name != EVIL},
        "failures": failures,
        "refused": list(refused),
    }


def entry(name: str) -> t.Any:
    ranges = DEFINITION["clusters"][name]
    return {
        "name": name,
        "podCIDRs": ranges["pod_cidrs"],
        "serviceCIDR": ranges["service_cidrs"][0],
        "wireguardCIDR": ranges["wireguard_cidrs"][0],
    }


FLOWS: dict[str, t.Callable[[], t.Any]] = {
    "mesh": lambda: mesh_plan.run(request()),
    "kubespan": lambda: mesh_plan.run(request(mode="kubespan", mesh_id="mesh")),
    "annotations": lambda: node_annotations.run(
        request(annotations={name: {"n1": {"a.example.org/b": "c"}} for name in RANGES}), check=True
    ),
    "kilo": lambda: clustermesh.run(
        request(meshes=[{"name": "m", "clusters": [entry(name) for name in sorted(RANGES)]}]), check=True
    ),
    "hosts": hosts,
    "policy": lambda: network_sets.run(
        request(grants={name: DEFINITION["clusters"][name] for name in RANGES}, target="calico"), check=True
    ),
    "services": lambda: service_mirror.run(
        request(
            mirror_namespace="mirrors",
            create_namespace=True,
            mirror_selector="mirror.semaphore.uw.io/mirror-service=true",
            global_selector="policy.semaphore.uw.io/name=web",
        ),
        check=True,
    ),
    "addresses": lambda: load_balancers.run(
        request(
            settings=[
                {"cluster": name, "load_balancer": "empty://", "pool": [f"192.0.2.{n}"]} for name, n in RANGES.items()
            ]
        ),
        check=True,
    ),
}


def places(value: t.Any, path: tuple[t.Any, ...] = ()) -> t.Iterator[tuple[t.Any, ...]]:
    """The way to every value in an object, also to those that hold others."""
    if path:
        yield path
    rows = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in rows:
        yield from places(inner, path + (key,))


def replaced(value: t.Any, path: tuple[t.Any, ...], new: t.Any) -> t.Any:
    found = copy.deepcopy(value)
    inner = found
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    return found


@pytest.mark.parametrize("flow", sorted(FLOWS))
def test_no_value_of_one_cluster_ends_a_flow(flow: str, monkeypatch: t.Any) -> None:
    world = World()
    world.install(monkeypatch)
    before = FLOWS[flow]()
    assert not before["failures"], before["failures"]
    assert (
        flow not in ("kilo", "policy", "services", "addresses", "annotations")
        or before["plan"]["create"]
        or before["plan"]["update"]
    ), before
    kinds = {kind for kind, rows in world.objects[EVIL].items() if rows}
    tried, wrong = 0, []
    for kind in sorted(kinds):
        if kind not in USED[flow]:
            continue
        honest = world.objects[EVIL][kind]
        for path in list(places(honest[0])):
            if path[0] == "metadata" and len(path) == 1:
                continue  # the client itself refuses an object without
            for new in VALUES:
                world.objects[EVIL][kind] = [replaced(honest[0], path, new)]
                tried += 1
                try:
                    result = FLOWS[flow]()
                    strangers = [row for row in result["failures"] if row["cluster"] != EVIL]
                    assert not strangers, strangers
                    json.dumps(result, default=str).encode("utf-8")
                except Exception as error:  # pylint: disable=broad-except
                    wrong.append(f"{kind} {'.'.join(map(str, path))} = {repr(new)[:30]}: {error!r}"[:300])
        world.objects[EVIL][kind] = honest
    assert tried > 300 and not wrong, "{0} of {1}:\n{2}".format(len(wrong), tried, "\n".join(wrong[:60]))


USED = {
    "kilo": ["nodes"],
    "mesh": ["nodes"],
    "kubespan": ["nodes"],
    "annotations": ["nodes"],
    "hosts": ["nodes"],
    "policy": ["pods"],
    "services": ["services", "endpoints", "endpointslices"],
    "addresses": ["services", "nodes"],
}
