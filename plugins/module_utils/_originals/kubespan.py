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

_OPTIONS = ("advertiseKubernetesNetworks", "allowDownPeerBypass", "harvestExtraEndpoints", "mtu", "filters", "extraAnnouncedEndpoints")
#: What the original assumes and we do not: it is said, so that nothing changes on the wire.
_DEFAULTS = {"advertiseKubernetesNetworks": False}


def read_machine(documents: t.Sequence[t.Any], where: str, into: Proposal) -> None:
    """The documents of one machine configuration: the old single one, or the newer ones of their own kinds."""
    found: t.Dict[str, t.Any] = {}
    cluster: t.Dict[str, t.Any] = {}
    for document in documents:
        kind = mapping(document).get("kind")
        if kind == "KubeSpanConfig":
            found.update({key: value for key, value in document.items() if key not in ("apiVersion", "kind")})
        elif kind in ("KubespanEndpoints", "KubeSpanEndpoints"):
            found["extraAnnouncedEndpoints"] = document.get("extraAnnouncedEndpoints")
        elif kind is None:
            found.update(mapping(document, "machine", "network", "kubespan"))
            cluster = mapping(document, "cluster") or cluster
    if not found:
        into.find(where, "config_parse", "it has no machine.network.kubespan and no document of KubeSpan")
        return
    Document(found, where, into).tell(KUBESPAN)
    for key in ("id", "secret"):
        if cluster.get(key):
            into.tell(KUBESPAN, where, "cluster." + key)
            into.say(None, "mesh_" + key, into.vault("mesh", key, "{0}, cluster.{1}".format(where, key)), where)
    Document({"discovery": mapping(cluster, "discovery")}, where, into).tell(KUBESPAN)
    if mapping(cluster, "discovery", "registries", "service").get("disabled") is not True:
        text = "its nodes find each other by a discovery service; here endpoints come from the inventory, from Nodes and from handshakes"
        into.find(where, "discovery", text)
    if found.get("enabled") is not True:
        into.find(where, "not_enabled", "KubeSpan is not enabled there")
        return
    into.say(None, "multicluster_mesh", "kubespan", where)
    config = {**_DEFAULTS, **{key: found[key] for key in _OPTIONS if found.get(key) is not None}}
    if config.get("mtu") == 0:
        del config["mtu"]
    for key in sorted(config):
        try:
            parse_config({key: config[key]})
        except ValueRefused as refused:
            into.find(where, refused.reason, "{0} has a value that cannot be used, and is left out".format(key))
            del config[key]
    into.say(None, "kubespan_config", config, where)
