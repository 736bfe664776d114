# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that was read of clusters and files, as one proposal. No cluster's and no program's mistake keeps the others' out."""

from __future__ import annotations

import functools
import typing as t

from .._values.refused import ValueRefused
from .._values.text import mapping
from . import equinix, kilo, kubespan, semaphore
from .apinetlet import read_apinetlet
from .programs import APINETLET, CLUSTERMESH, EQUINIX, KILO, KUBESPAN, MIRROR, POLICY, WIREGUARD, Program
from .proposal import Proposal
from .workloads import KINDS, ConfigMaps, Configured, Mount, Process, flags, processes, shown


class Seen(t.NamedTuple):
    """What one cluster, or one file of objects, has: workloads and ClusterMesh objects as they are, ConfigMaps by namespace and name."""

    cluster: str
    objects: t.Sequence[t.Any]
    config_maps: ConfigMaps
    meshes: t.Sequence[t.Any] = ()


class Given(t.NamedTuple):
    """One configuration file by itself: of which program and cluster, its documents and its text."""

    program: Program
    cluster: str
    where: str
    text: str
    documents: t.Sequence[t.Any] = ()


def propose(
    seen: t.Sequence[Seen], given: t.Sequence[Given], reachable: t.Iterable[str] = ()
) -> tuple[Proposal, list[Process]]:
    """The proposal, and the processes that were found. reachable: clusters to which the inventory has the access."""
    into, mesh = Proposal(reachable), semaphore.Mesh()
    found: list[Process] = []
    for one in seen:
        for process in processes(one.cluster, one.objects, one.config_maps):
            found.append(process)
            _contained(process.where, into, functools.partial(_process, process, one.config_maps, into, mesh))
        if one.meshes:
            _contained(
                f"cluster {shown(one.cluster)}",
                into,
                functools.partial(kilo.read_meshes, one.cluster, one.meshes, into),
            )
    for file in given:
        _contained(file.where, into, functools.partial(_file, file, into, mesh))
    mesh.settle(into)
    for name in sorted(into.clusters):
        if not into.clusters[name].get("pod_cidrs") and not into.clusters[name].get("clustermesh_allowed_networks"):
            into.find(f"cluster {name}", "pod_subnet_missing", "its pod ranges are unknown: write pod_cidrs")
        if name not in into.reachable and not {"kubeconfig", "api_url"} & set(into.clusters[name]):
            into.find(
                f"cluster {name}",
                "remote_access_incomplete",
                "its access is unknown: write kubeconfig, or api_url with a credential",
            )
    return into, found


def objects_of(cluster: str, documents: t.Iterable[t.Any]) -> Seen:
    """The objects of a file of manifests, lists of them opened."""
    objects: list[t.Any] = []
    for document in documents:
        items = mapping(document).get("items")
        objects.extend(items if isinstance(items, list) else [document])
    config_maps = {
        (
            str(mapping(obj, "metadata").get("namespace") or "default"),
            str(mapping(obj, "metadata").get("name")),
        ): mapping(obj, "data")
        for obj in objects
        if mapping(obj).get("kind") == "ConfigMap"
    }
    return Seen(
        cluster,
        [obj for obj in objects if mapping(obj).get("kind") in KINDS],
        config_maps,
        [obj for obj in objects if mapping(obj).get("kind") == "ClusterMesh"],
    )


def _contained(where: str, into: Proposal, function: t.Callable[[], None]) -> None:
    try:
        function()
    except ValueRefused as refused:
        into.find(where, refused.reason, "nothing more of it is used")


def _process(one: Process, config_maps: ConfigMaps, into: Proposal, mesh: semaphore.Mesh) -> None:
    for name in sorted(one.configured):
        into.tell(one.program, one.where, name.replace("PACKET_", "METAL_", 1) if one.program is EQUINIX else name)
    for text in one.alongside:
        into.find(one.where, "unread", text)
    if one.program is WIREGUARD:
        semaphore.read_wireguard(one, config_maps, into, mesh)
    elif one.program is MIRROR:
        semaphore.read_mirror(one, config_maps, into)
    elif one.program is POLICY:
        semaphore.read_policy(one, config_maps, into)
    elif one.program is KILO:
        kilo.read_agent(one, into)
    elif one.program is EQUINIX:
        equinix.read_controller(one, config_maps, into)
    elif one.program is APINETLET:
        read_apinetlet(one, into)


#: A file by itself is read as if a ConfigMap with it were mounted there.
_FILE = Mount("/given", "ConfigMap", "given", {}, "")
_CONFIGURED_BY = {WIREGUARD.name: "SWG_CLUSTERS_CONFIG", MIRROR.name: "SSM_CONFIG"}


def _file(file: Given, into: Proposal, mesh: semaphore.Mesh) -> None:
    if file.program is EQUINIX:
        equinix.read_file(file.cluster, file.text, file.where, into)
    elif file.program is KUBESPAN:
        kubespan.read_machine(file.documents, file.where, into)
    elif file.program is CLUSTERMESH:
        kilo.read_meshes(file.cluster, file.documents, into)
    elif file.program.name in _CONFIGURED_BY:
        configured = {_CONFIGURED_BY[file.program.name]: Configured(_FILE.path + "/text")}
        process = Process(file.program, file.cluster, "", file.where, "", 1, configured, (_FILE,))
        _process(process, {("", _FILE.name): {"text": file.text}}, into, mesh)
    else:
        _process(Process(file.program, file.cluster, "", file.where, "", 1, _words(file), ()), {}, into, mesh)


def _words(file: Given) -> dict[str, Configured]:
    """Flags, and variables as NAME=VALUE, of a program without a file of its own."""
    words = file.text.split()
    configured = {
        argument.partition("=")[0]: Configured(argument.partition("=")[2])
        for argument in words
        if "=" in argument and not argument.startswith("-")
    }
    return {**configured, **flags(file.program, [Configured(argument) for argument in words])}
