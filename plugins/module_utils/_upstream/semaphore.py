# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The three programs of Semaphore: their configuration files, flags and variables as our inventory (semaphore 2.2, 3.1, 4.1, 6.1)."""

from __future__ import annotations

from .._values.text import parse_cluster_name, parse_subdomain
from . import fields
from .fields import Document
from .programs import MIRROR, WIREGUARD
from .proposal import Proposal
from .workloads import ConfigMaps, Configured, Process

#: Default of semaphore-wireguard where nothing is set: it stays on the wire.
LISTEN_PORT = 51820


class Mesh:
    """What all agents say of ports and MTUs: one variable of a cluster where they agree, exceptions on those clusters that differ."""

    def __init__(self) -> None:
        self.ports: dict[str, dict[str, int]] = {}
        self.mtus: dict[str, dict[str, int]] = {}

    def settle(self, into: Proposal) -> None:
        """Say it."""
        for variable, by_remote in (("wireguard_port", self.ports), ("wireguard_mtu", self.mtus)):
            for remote, by_local in sorted(by_remote.items()):
                if len(set(by_local.values())) == 1:
                    into.say(remote, variable, next(iter(by_local.values())), "semaphore-wireguard")
                    continue
                for local, value in sorted(by_local.items()):
                    into.put(local, variable + "s", remote, value, "semaphore-wireguard")


def read_wireguard(one: Process, config_maps: ConfigMaps, into: Proposal, mesh: Mesh) -> None:
    """The agent of a node."""
    directory = into.checked(
        one.where,
        "-wg-key-path",
        fields.path,
        one.text("-wg-key-path", "SWG_WG_KEY_PATH") or "/var/lib/semaphore-wireguard",
    )
    document = configuration(one, config_maps, into, "-clusters-config", "SWG_CLUSTERS_CONFIG")
    if document is None:
        return
    document.tell(WIREGUARD)
    local = _local(document.below("local"), one, into)
    if local is None:
        return
    if directory and directory != "/var/lib/semaphore-wireguard":
        into.say(local, "key_dir", directory, one.where)
    for remote in document.each("remotes"):
        name = _remote(remote, one, config_maps, into)
        if name is None:
            continue
        subnet = remote.value("podSubnet", fields.network)
        if subnet:
            into.add(name, "pod_cidrs", [subnet])
        port = remote.value("wgListenPort", fields.number(0, 65535)) or LISTEN_PORT
        mesh.ports.setdefault(name, {})[local] = port
        mtu = remote.value("wgDeviceMTU", fields.number(0, 9216))
        if mtu:
            mesh.mtus.setdefault(name, {})[local] = mtu
        remote.value("resyncPeriod", fields.duration)


def read_mirror(one: Process, config_maps: ConfigMaps, into: Proposal) -> None:
    """The mirror's controller of a cluster. A flag ranks over a variable, and that over the file."""
    document = configuration(one, config_maps, into, "-config", "SSM_CONFIG")
    if document is None:
        return
    document.tell(MIRROR)
    local = _local(document.below("localCluster"), one, into)
    if local is None:
        return
    common = document.below("global")
    for flag, variable, key, parse, owned in (
        (
            "-mirror-svc-label-selector",
            "SSM_MIRROR_SVC_LABEL_SELECTOR",
            "mirrorSvcLabelSelector",
            fields.selector,
            "service_mirror_selector",
        ),
        (
            "-global-svc-label-selector",
            "SSM_GLOBAL_SVC_LABEL_SELECTOR",
            "globalSvcLabelSelector",
            fields.selector,
            "service_mirror_global_selector",
        ),
        (
            "-global-svc-routing-strategy-label",
            "SSM_GLOBAL_SVC_TOPOLOGY_LABEL",
            "globalSvcRoutingStrategyLabel",
            fields.selector,
            "service_mirror_routing_selector",
        ),
        ("-mirror-ns", "SSM_MIRROR_NS", "mirrorNamespace", parse_subdomain, "service_mirror_namespace"),
    ):
        configured = one.text(flag, variable)
        value = into.checked(one.where, flag, parse, configured) if configured else common.value(key, parse)
        if value:
            into.say(None, owned, value, one.where)
            if key == "mirrorNamespace":
                into.say(None, "coredns_rewrite_mirror_namespace", value, one.where)
    for key, owned in (
        ("serviceSync", "service_mirror_service_sync"),
        ("endpointSliceSync", "service_mirror_endpoint_slice_sync"),
    ):
        into.say(None, owned, bool(common.value(key, fields.flag)), one.where)
    zones = document.below("localCluster").value("zones", fields.zones)
    if zones:
        into.put(None, "service_mirror_zones", local, zones, one.where)
    into.add(None, "service_mirror_destinations", [local])
    into.add(None, "multicluster_capabilities", ["service_mirror"])
    for remote in document.each("remoteClusters"):
        name = _remote(remote, one, config_maps, into)
        if name is None:
            continue
        into.add(None, "service_mirror_sources", [name])
        prefix = remote.value("servicePrefix", parse_cluster_name)
        if prefix:
            into.put(None, "service_mirror_prefixes", name, prefix, one.where)
        remote.value("resyncPeriod", fields.duration)


def read_policy(one: Process, config_maps: ConfigMaps, into: Proposal) -> None:
    """The process of one remote cluster; the cluster in which it runs gets the sets."""
    remote = _configured_name(one, into, "-target-cluster-name", "SP_TARGET_CLUSTER_NAME")
    if remote is None:
        return
    into.cluster(remote)
    into.add(None, "network_sets_sources", [remote])
    into.add(None, "multicluster_capabilities", ["network_sets"])
    secret = one.first("SP_REMOTE_SERVICE_ACCOUNT_TOKEN")
    token_path = one.text("-remote-sa-token-path", "SP_REMOTE_SERVICE_ACCOUNT_TOKEN_PATH")
    place = ""
    if token_path:
        place = one.file(token_path, config_maps).place
    elif secret is not None:
        place = secret.place or f"the variable SP_REMOTE_SERVICE_ACCOUNT_TOKEN of {one.where}"
    _access(
        remote,
        one,
        config_maps,
        into,
        one.text("-target-kube-config", "SP_TARGET_KUBE_CONFIG"),
        one.text("-remote-api-url", "SP_REMOTE_API_URL"),
        one.text("-remote-ca-url", "SP_REMOTE_CA_URL"),
        place,
    )


def configuration(one: Process, config_maps: ConfigMaps, into: Proposal, *names: str) -> Document | None:
    """The document that a flag or a variable names, None with a finding where it cannot be read."""
    named = one.text(*names)
    if named is None:
        into.find(
            one.where,
            "config_path_missing",
            f"neither {' nor '.join(names)} is known, so its configuration is not read; give the file",
        )
        return None
    configured = one.file(named, config_maps)
    if configured.text is None:
        why = "Secrets are not read" if configured.secret else "it is not there"
        into.find(one.where, "config_unread", f"its configuration is {configured.place}: {why}; give the file")
        return None
    return Document.parse(configured.text, one.where, into)


def _local(document: Document, one: Process, into: Proposal) -> str | None:
    """The name that a cluster has for itself: all others call it that, and so must the inventory."""
    name = document.value("name", parse_cluster_name)
    if name is None:
        into.find(
            one.where,
            "local_name_missing",
            "its configuration does not name its own cluster, and nothing of it is used",
        )
        return None
    into.cluster(name)
    if one.cluster and name != one.cluster:
        text = "it calls its cluster {0}, and that name is in annotations, prefixes and devices: call the host of the inventory so, too"
        into.find(one.where, "name_differs", text.format(name))
    return str(name)


def _remote(document: Document, one: Process, config_maps: ConfigMaps, into: Proposal) -> str | None:
    """One neighbour: its name and the access to it."""
    name = document.value("name", parse_cluster_name)
    if name is None:
        into.find(one.where, "remote_name_missing", "a neighbour without a usable name is left out")
        return None
    into.cluster(name)
    token_path = document.value("remoteSATokenPath", fields.path)
    place = one.file(token_path, config_maps).place if token_path else ""
    _access(
        name,
        one,
        config_maps,
        into,
        document.value("kubeConfigPath", fields.path),
        document.value("remoteAPIURL", fields.url),
        document.value("remoteCAURL", fields.url),
        place,
    )
    return str(name)


def _access(
    name: str,
    one: Process,
    config_maps: ConfigMaps,
    into: Proposal,
    kubeconfig: str | None,
    api_url: str | None,
    ca_url: str | None,
    token_place: str,
) -> None:
    """How the controller may reach a neighbour that the inventory cannot reach yet. A kubeconfig wins, as upstream."""
    if name in into.reachable:
        return
    held = into.cluster(name)
    if kubeconfig and "api_url" not in held:
        configured = one.file(kubeconfig, config_maps)
        into.say(name, "kubeconfig", into.vault(name, "kubeconfig", f"{configured.place} (in {one.where})"), one.where)
        return
    server = into.checked(one.where, f"the URL of {name}", fields.url, api_url) if api_url else None
    if server and "kubeconfig" not in held:
        into.say(name, "api_url", server, one.where)
        if token_place:
            into.say(name, "token", into.vault(name, "token", token_place), one.where)
    authority = into.checked(one.where, f"the CA's URL of {name}", fields.url, ca_url) if ca_url else None
    if authority and authority.startswith("https://"):
        into.say(name, "ca_url", authority, one.where)
        into.find(
            one.where,
            "ca_unpinned",
            f"ca_url of {name} counts with ca_sha256 only: look the CA up and write its SHA-256 alongside it",
        )
    elif authority:
        into.find(
            one.where,
            "ca_unpinned",
            f"the CA of {name} comes over plain http, which nobody may trust: write ca_cert with the CA's file",
        )


def _configured_name(one: Process, into: Proposal, *names: str) -> str | None:
    configured: Configured | None = one.first(*names)
    if configured is None or configured.text is None:
        into.find(
            one.where,
            "target_cluster_missing",
            f"neither {' nor '.join(names)} names its remote cluster, and nothing of it is used",
        )
        return None
    name = into.checked(one.where, names[0], parse_cluster_name, configured.text)
    return None if name is None else str(name)
