# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kilo: what its agents and the operator's ClusterMesh objects say, as our inventory (kilo 2, 4). The agents themselves go on running."""

from __future__ import annotations

import typing as t

from .._values.text import mapping, parse_cluster_name, parse_port
from . import fields
from .fields import Document
from .programs import CLUSTERMESH
from .proposal import Proposal
from .workloads import Process, shown

#: The agent's defaults where no flag has them.
SUBNET, PORT = "10.4.0.0/16", 51820


def read_agent(one: Process, into: Proposal) -> None:
    """Kilo's agent: the ranges and the port of its cluster."""
    if not one.cluster:
        into.find(
            one.where, "local_name_missing", "it is not said in which cluster it runs: give its file with a cluster"
        )
        return
    subnet = into.checked(one.where, "--subnet", fields.network, one.text("--subnet") or SUBNET)
    if subnet:
        into.add(one.cluster, "wireguard_cidrs", [subnet])
    port = into.checked(one.where, "--port", parse_port, one.text("--port") or PORT)
    if port:
        into.say(one.cluster, "wireguard_port", port, one.where)
    services = one.text("--service-cidr")
    found = (
        into.checked(one.where, "--service-cidr", lambda text: fields.networks(text.split(",")), services)
        if services
        else None
    )
    if found:
        into.add(one.cluster, "service_cidrs", found)
    granularity = one.text("--mesh-granularity") or "location"
    if granularity == "cross":
        into.find(
            one.where,
            "granularity",
            "with the granularity cross, nodes of one location need no tunnel to each other; look at the plan",
        )
    elif granularity != "full":
        into.say(None, "clustermesh_group_locations", True, one.where)


def read_meshes(cluster: str, objects: t.Sequence[t.Any], into: Proposal) -> None:
    """ClusterMesh objects: one mesh becomes variables; several stay where they are, and the inventory names their cluster."""
    meshes = [obj for obj in objects if isinstance(obj, dict)]
    into.add(None, "multicluster_capabilities", ["clustermesh"] if meshes else [])
    if len(meshes) > 1:
        into.say(
            None, "clustermesh_management", {"cluster": cluster}, f"ClusterMesh objects of cluster {shown(cluster)}"
        )
        into.find(
            f"cluster {shown(cluster)}",
            "several_meshes",
            f"its {len(meshes)} ClusterMesh objects stay, and runs read them",
        )
        for obj in meshes:
            _mesh(obj, cluster, into, False)
        return
    for obj in meshes:
        _mesh(obj, cluster, into, True)


def _mesh(obj: t.Mapping[str, t.Any], cluster: str, into: Proposal, say: bool) -> None:
    meta = mapping(obj, "metadata")
    where = f"ClusterMesh {shown(meta.get('namespace'))}/{shown(meta.get('name'))} of cluster {shown(cluster)}"
    document = Document({"spec": mapping(obj, "spec")}, where, into)
    document.tell(CLUSTERMESH)
    if not say:
        return
    name = into.checked(where, "its name", fields.short_text, meta.get("name"))
    if name:
        into.say(None, "clustermesh_name", name, where)
    for entry in document.below("spec").each("clusters"):
        _entry(entry, cluster, str(meta.get("namespace")), where, into)


def _entry(entry: Document, cluster: str, namespace: str, where: str, into: Proposal) -> None:
    name = entry.value("name", parse_cluster_name)
    if name is None:
        into.find(where, "remote_name_missing", "a cluster without a usable name is left out")
        return
    into.cluster(name)
    for key, variable in (
        ("podCIDRs", "pod_cidrs"),
        ("wireguardCIDR", "wireguard_cidrs"),
        ("serviceCIDR", "service_cidrs"),
        ("additionalCIDRs", "clustermesh_additional_cidrs"),
        ("allowedNetworks", "clustermesh_allowed_networks"),
    ):
        found = entry.value(key, fields.networks)
        if found:
            into.add(name, variable, found)
    port = entry.value("wireguardPort", fields.number(0, 65535))
    if port:
        into.say(name, "wireguard_port", port, where)
    keepalive = entry.value("persistentKeepalive", fields.number(0, 65535))
    if keepalive:
        into.say(name, "clustermesh_keepalive", keepalive, where)
    if entry.value("local", fields.flag):
        if name != cluster:
            text = (
                "it calls its own cluster {0}, and that name is in every Peer: call the host of the inventory so, too"
            )
            into.find(where, "name_differs", text.format(name))
        return
    secret = entry.below("kubeconfigSecretRef")
    held = secret.value("name", fields.short_text)
    if held and name not in into.reachable:
        place = f"Secret {shown(namespace)}/{shown(held)}, key {shown(secret.value('key', fields.short_text))}, of cluster {shown(cluster)}"
        into.say(name, "kubeconfig", into.vault(name, "kubeconfig", place), where)
