# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where our section is in each cluster: in the Corefile, or in a file that it imports where a program keeps the Corefile as it made it. Pure."""

from __future__ import annotations

import fnmatch
import re
import typing as t

from .._values.refused import quoted
from .._values.text import mapping

#: The Corefile of most clusters, and the key that holds it.
DEFAULT_MAP, COREFILE = "coredns", "Corefile"
#: The ConfigMap with the keys that k3s, AKS and others mount for their users, and our key in it.
CUSTOM_MAP, CUSTOM_KEY = "coredns-custom", "multicluster.server"
_IMPORT = re.compile(r"^[ \t]*import[ \t]+(?:/etc/coredns/)?custom/([A-Za-z0-9*?._-]+)[ \t]*(?:#.*)?$", re.MULTILINE)

#: (annotation or label, its value or None for any, who it is, when he writes). The first that fits is the owner.
_MARKS: tuple[tuple[str, str | None, str, str], ...] = (
    ("objectset.rio.cattle.io/id", None, "the add-ons of k3s or RKE2", "whenever a server starts"),
    ("addonmanager.kubernetes.io/mode", "Reconcile", "the add-on manager", "within minutes"),
    ("argocd.argoproj.io/tracking-id", None, "Argo CD", "at its next sync"),
    ("kustomize.toolkit.fluxcd.io/name", None, "Flux", "at its next reconciliation"),
    ("helm.toolkit.fluxcd.io/name", None, "Flux", "at its next upgrade"),
    ("meta.helm.sh/release-name", None, "Helm", "when the release is upgraded"),
)
#: Field managers that are programs which write it back, where nothing else shows it.
_MANAGERS = {"eks": ("the EKS add-on", "when the add-on is updated")}


class Owner(t.NamedTuple):
    """Who keeps an object as he made it. ``mark``: by which that is known; ``when`` he writes it back."""

    name: str
    mark: str
    when: str


class Place(t.NamedTuple):
    """Where the section is in one cluster, and what else differs there. ``chosen``: the user named the ConfigMap or the key."""

    namespace: str = "kube-system"
    name: str = DEFAULT_MAP
    key: str = COREFILE
    deployment: str = "coredns"
    cluster_domain: str = "cluster.local"
    chosen: bool = False


def place_of(request: t.Mapping[str, t.Any], cluster: str) -> Place:
    """The place in one cluster: what ``places`` has of it, else the options. Empty names of the ConfigMap and key leave the choice to us."""
    given = dict(request, **mapping(request.get("places"), cluster))
    usual = Place()
    name, key = given.get("name"), given.get("key")
    return Place(
        str(given.get("namespace") or usual.namespace),
        str(name or (CUSTOM_MAP if key and key != COREFILE else DEFAULT_MAP)),
        str(key or (CUSTOM_KEY if name == CUSTOM_MAP else COREFILE)),
        str(given.get("deployment") or usual.deployment),
        str(given.get("cluster_domain") or usual.cluster_domain),
        bool(name or key),
    )


def owner_of(config: t.Mapping[str, t.Any] | None) -> Owner | None:
    """The program that keeps this object as it made it, by its labels, annotations, owners and field managers; None where none of them shows one."""
    labels, annotations = mapping(config, "metadata", "labels"), mapping(config, "metadata", "annotations")
    for key, value, name, when in _MARKS:
        for kind, given in (("label", labels), ("annotation", annotations)):
            found = given.get(key)
            if isinstance(found, str) and (value is None or found == value):
                return Owner(name, f"{kind} {key}: {quoted(found)}", when)
    metadata = mapping(config, "metadata")
    for row in metadata.get("ownerReferences") or ():
        if isinstance(row, dict) and row.get("controller") is True:
            return Owner(
                f"{quoted(row.get('kind'))} {quoted(row.get('name'))}",
                "its owner reference",
                "as soon as it sees a change",
            )
    for row in metadata.get("managedFields") or ():
        manager = row.get("manager") if isinstance(row, dict) else None
        if isinstance(manager, str) and manager in _MANAGERS:
            name, when = _MANAGERS[manager]
            return Owner(name, f"field manager {quoted(manager)}", when)
    return None


def imports(text: str, key: str) -> bool:
    """Whether a Corefile imports this key of the ConfigMap for its users' files."""
    return any(fnmatch.fnmatchcase(key, pattern) for pattern in _IMPORT.findall(text))


def with_imports(text: str, custom: t.Mapping[str, t.Any], but: str = "") -> str:
    """A Corefile with the users' files that it imports in their places, as CoreDNS reads it. but: a key that is left out."""

    def spread(found: re.Match[str]) -> str:
        files = [
            custom[key]
            for key in sorted(custom)
            if key != but and isinstance(custom[key], str) and fnmatch.fnmatchcase(key, found.group(1))
        ]
        return "\n".join(files)

    return _IMPORT.sub(spread, text)


def owner_sentence(cluster: str, place: Place, owner: Owner, text: str) -> str:
    """What the user should know who has the section in a text that somebody writes back."""
    said = f"{cluster}: ConfigMap {place.namespace}/{place.name} is that of {owner.name} ({owner.mark}), and loses our section {owner.when}"
    if imports(text, CUSTOM_KEY):
        return (
            said
            + f"; leave coredns_rewrite_config_map and coredns_rewrite_key empty, and it goes to {CUSTOM_MAP}, which this Corefile imports"
        )
    return said + f"; run again after that, or let {owner.name} write the blocks"
