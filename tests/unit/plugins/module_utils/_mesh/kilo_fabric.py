# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Three clusters of Kilo and the plan of their mesh."""

from __future__ import annotations

import base64
import copy
import hashlib
import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._mesh.kilo.plan import MeshPlan, plan_clustermesh
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kilo.sources import Gathered, Settings
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kilo.values import parse_node

G = "kilo.squat.ai/"
NUMBERS = {"eu": 20, "us": 30, "ap": 40}
SETTINGS = Settings("multicluster.network/t")


def key_of(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def entry(name: str, **more: t.Any) -> dict[str, t.Any]:
    number = NUMBERS[name]
    return dict(
        {
            "name": name,
            "podCIDRs": ["10.%d.0.0/16" % number],
            "wireguardCIDR": "100.%d.0.0/24" % (number + 50),
            "serviceCIDR": "10.%d.0.0/16" % (number + 100),
        },
        **more,
    )


def node(cluster: str, number: int) -> dict[str, t.Any]:
    base = NUMBERS[cluster]
    name = "%s-%d" % (cluster, number)
    return {
        "name": name,
        "annotations": {G + "wireguard-ip": "100.%d.0.%d/24" % (base + 50, number), G + "key": key_of(name)},
        "podCIDRs": ["10.%d.%d.0/24" % (base, number)],
        "addresses": [
            {"type": "InternalIP", "address": "192.168.%d.%d" % (base, number)},
            {"type": "ExternalIP", "address": "198.51.%d.%d" % (base, number)},
        ],
    }


MESH = {"name": "m", "clusters": [entry("eu"), entry("us"), entry("ap")]}
MESHES = [MESH]


def nodes(count: int = 2) -> dict[str, list[dict[str, t.Any]]]:
    return {name: [node(name, number) for number in range(1, count + 1)] for name in NUMBERS}


def live(plan: MeshPlan, manager: str = SETTINGS.manager) -> dict[str, list[dict[str, t.Any]]]:
    """The Peers that a plan would leave, as an API server lists them."""
    managed = [{"manager": manager, "operation": "Apply", "fieldsV1": {"f:spec": {"f:publicKey": {}}}}]
    return {
        target: [
            dict(
                copy.deepcopy(write.manifest),
                metadata={
                    "name": write.name,
                    "uid": "u",
                    "resourceVersion": "1",
                    "labels": write.manifest["metadata"]["labels"],
                    "managedFields": managed,
                },
            )
            for write in writes
            if write.manifest
        ]
        for target, writes in plan.writes.items()
    }


def empty() -> dict[str, list[t.Any]]:
    return {name: [] for name in NUMBERS}


def gathered(found: t.Any, peers: t.Any, unreachable: t.Any = None) -> Gathered:
    """What is read of these nodes and Peers."""
    return Gathered({name: [parse_node(one) for one in rows] for name, rows in found.items()}, peers, unreachable or {})


def planned(found: t.Any, peers: t.Any = None, meshes: t.Any = None, **settings: t.Any) -> MeshPlan:
    return plan_clustermesh(meshes or MESHES, gathered(found, peers or empty()), SETTINGS._replace(**settings))


def reasons(plan: MeshPlan) -> set[tuple[str, str]]:
    return {(refusal.object, refusal.reason) for refusal in plan.plan.refused}
