# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""KubeSpan: of a machine configuration only what concerns it; all its secrets stay there (kubespan 2)."""

from __future__ import annotations

import typing as t

from .._mesh.kubespan.config import parse_config
from .._values.refused import ValueRefused
from .._values.text import mapping
from .fields import Document
from .programs import KUBESPAN
from .proposal import Proposal

_OPTIONS = (
    "advertiseKubernetesNetworks",
    "allowDownPeerBypass",
    "harvestExtraEndpoints",
    "mtu",
    "filters",
    "extraAnnouncedEndpoints",
)
#: The service that a machine asks where its configuration names none.
PUBLIC_SERVICE = "https://discovery.talos.dev/"
#: What Talos assumes and we do not: it is set, so that nothing changes on the wire.
_DEFAULTS = {"advertiseKubernetesNetworks": False}


def _fields(document: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    return {str(key): value for key, value in document.items() if key not in ("apiVersion", "kind")}


def _discovery(
    services: t.Sequence[t.Mapping[str, t.Any]], older: t.Mapping[str, t.Any], where: str, into: Proposal
) -> None:
    """The service by which its nodes find each other, so that hosts of the inventory find them too."""
    urls = [str(service["endpoint"]) for service in services if service.get("endpoint")]
    urls = urls or [str(older.get("endpoint") or PUBLIC_SERVICE)]
    into.say(None, "kubespan_registries", ["inventory", "discovery"], where)
    into.say(None, "kubespan_discovery_url", urls[0], where)
    if len(urls) > 1:
        into.find(
            where, "discovery", "it has several discovery services, of which hosts of the inventory ask the first"
        )


def read_machine(documents: t.Sequence[t.Any], where: str, into: Proposal) -> None:
    """The documents of one machine configuration: the old single one, or the newer ones of their own kinds."""
    found: dict[str, t.Any] = {}
    cluster: dict[str, t.Any] = {}
    identity: dict[str, t.Any] = {}
    services: list[t.Mapping[str, t.Any]] = []
    for document in documents:
        kind = mapping(document).get("kind")
        if kind == "KubeSpanConfig" or kind == "KubeSpanEndpointsConfig":
            found.update(_fields(document))
        elif kind == "DiscoveryIdentityConfig":
            identity.update(_fields(document))
        elif kind == "DiscoveryServiceConfig":
            services.append(_fields(document))
        elif kind is None:
            found.update(mapping(document, "machine", "network", "kubespan"))
            cluster = mapping(document, "cluster") or cluster
        else:
            into.tell(KUBESPAN, where, f"kind.{kind}")
    if not found:
        into.find(where, "config_parse", "it has no machine.network.kubespan and no document of KubeSpan")
        return
    Document(found, where, into).tell(KUBESPAN)
    for key, field in (("id", "clusterID"), ("secret", "clusterSecret")):
        path = "cluster." + key if cluster.get(key) else "DiscoveryIdentityConfig." + field
        if cluster.get(key) or identity.get(field):
            into.tell(KUBESPAN, where, path)
            into.say(None, "mesh_" + key, into.vault("mesh", key, f"{where}, {path}"), where)
    more = {key: identity[key] for key in identity if key not in ("clusterID", "clusterSecret")}
    Document({"DiscoveryIdentityConfig": more}, where, into).tell(KUBESPAN)
    for service in services:
        Document({"DiscoveryServiceConfig": service}, where, into).tell(KUBESPAN)
    Document({"discovery": mapping(cluster, "discovery")}, where, into).tell(KUBESPAN)
    # the newer documents have no switch: without one of the service no service is asked
    asks = (
        bool(services)
        if identity
        else mapping(cluster, "discovery", "registries", "service").get("disabled") is not True
    )
    if found.get("enabled") is not True:
        into.find(where, "not_enabled", "KubeSpan is not enabled there")
        return
    into.say(None, "multicluster_mesh", "kubespan", where)
    if asks or services:
        _discovery(services, mapping(cluster, "discovery", "registries", "service"), where, into)
    config = {**_DEFAULTS, **{key: found[key] for key in _OPTIONS if found.get(key) is not None}}
    if config.get("mtu") == 0:
        del config["mtu"]
    for key in sorted(config):
        try:
            parse_config({key: config[key]})
        except ValueRefused as refused:
            into.find(where, refused.reason, f"{key} has a value that cannot be used, and is left out")
            del config[key]
    into.say(None, "kubespan_config", config, where)
