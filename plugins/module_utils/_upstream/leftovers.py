# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an original leaves in a cluster that nothing needs once its place is taken: named, with the command that removes it, and never removed from here.

Everything here is a claim of the cluster that sent it, as in workloads.py. What another workload of the cluster mentions as well is nobody's to remove.
"""

from __future__ import annotations

import typing as t

from .._values.text import dicts_of, lower, mapping, text_of
from .programs import EQUINIX
from .workloads import KINDS, containers_of, processes, shown

#: More lines are counted.
MOST_LINES = 40
#: What every namespace has.
_ALWAYS = {("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt")}
#: Kinds without a namespace.
CLUSTER_WIDE = frozenset(
    (
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    )
)
Use = tuple[str, str, str]


class Left(t.NamedTuple):
    """One object. ``command``: what removes it, empty where its name is none that belongs into a command."""

    cluster: str
    program: str
    kind: str
    namespace: str
    name: str
    command: str


def leftovers(cluster: str, objects: t.Iterable[t.Any]) -> list[Left]:
    """The workloads of upstream programs that a capability replaces, and what they alone use, in the order of their kinds and names."""
    theirs, others = _parted(cluster, objects)
    return [left_of(cluster, theirs[use], *use) for use in sorted(set(theirs) - others)]


def others_use(cluster: str, objects: t.Iterable[t.Any]) -> set[Use]:
    """What workloads use that are not left."""
    return _parted(cluster, objects)[1]


def _parted(cluster: str, objects: t.Iterable[t.Any]) -> tuple[dict[Use, str], set[Use]]:
    """The program of each thing that goes with its place, and what others use."""
    theirs: dict[Use, str] = {}
    others: set[Use] = set()
    for obj in objects:
        place = use_of(obj)
        if place is None or place[0] not in KINDS:
            continue
        spec = mapping(obj, "spec", "template", "spec")
        used = {(used_kind, place[1], used_name) for used_kind, used_name in uses(spec)}
        found = [one.program for one in processes(cluster, [obj])]
        # one that has other containers as well, or that goes on running, is somebody's
        if not found or len(found) < len(containers_of(spec)) or not all(program.capability for program in found):
            others |= used
            continue
        theirs[place] = found[0].name
        for use in used:
            # every run may take its settings from that one (config_secret)
            if use[::2] not in _ALWAYS and not (found[0] is EQUINIX and use[0] == "Secret"):
                theirs.setdefault(use, found[0].name)
    return theirs, others


def use_of(obj: t.Any) -> Use | None:
    """Kind, namespace and name of an object; the namespace of a kind that has none is empty, None for what is no object."""
    kind, name, namespace = (
        mapping(obj).get("kind"),
        mapping(obj, "metadata").get("name"),
        mapping(obj, "metadata").get("namespace"),
    )
    if not isinstance(kind, str) or not isinstance(name, str):
        return None
    if kind in CLUSTER_WIDE:
        return kind, "", name
    return kind, namespace if isinstance(namespace, str) else "default", name


def uses(spec: t.Mapping[str, t.Any]) -> set[tuple[str, str]]:
    """(kind, name) of the ConfigMaps, Secrets and the account that the pods of a workload use."""
    found: set[tuple[str, t.Any]] = {("ServiceAccount", text_of(spec.get("serviceAccountName")))}
    found |= {("Secret", text_of(row.get("name"))) for row in dicts_of(spec.get("imagePullSecrets"))}
    for volume in dicts_of(spec.get("volumes")):
        for holder in (volume, *dicts_of(mapping(volume, "projected").get("sources"))):
            found.add(("ConfigMap", text_of(mapping(holder, "configMap").get("name"))))
            found.add(
                (
                    "Secret",
                    text_of(mapping(holder, "secret").get("secretName") or mapping(holder, "secret").get("name")),
                )
            )
    for container in (*containers_of(spec), *dicts_of(spec.get("initContainers"))):
        sources = [mapping(row, "valueFrom") for row in dicts_of(container.get("env"))] + dicts_of(
            container.get("envFrom")
        )
        for source in sources:
            for field, kind in (
                ("configMapKeyRef", "ConfigMap"),
                ("configMapRef", "ConfigMap"),
                ("secretKeyRef", "Secret"),
                ("secretRef", "Secret"),
            ):
                found.add((kind, text_of(mapping(source, field).get("name"))))
    return {(kind, name) for kind, name in found if name}


def lines(found: t.Sequence[Left]) -> list[str]:
    """What a person reads, a line for each and at most MOST_LINES, then how many more there are."""
    shown_lines = [
        "not needed once taken over: {0} {1} of {2} in cluster {3}{4}".format(
            one.kind, _place(one), one.program, shown(one.cluster), "; " + one.command if one.command else ""
        )
        for one in found[:MOST_LINES]
    ]
    return shown_lines + [f"not needed once taken over: {len(found) - MOST_LINES} more"] * (len(found) > MOST_LINES)


def _place(one: Left) -> str:
    return shown(one.name) if one.kind in CLUSTER_WIDE else f"{shown(one.namespace)}/{shown(one.name)}"


def left_of(cluster: str, program: str, kind: str, namespace: str, name: str, patch: str = "") -> Left:
    """One object with its command; ``patch``: what has to be merged into it before."""
    command = _command(kind, namespace, name)
    if command and patch:
        command = f"{command.replace(' delete ', ' patch ', 1)} --type merge --patch '{patch}' && {command}"
    return Left(cluster, program, kind, namespace, name, command)


def _command(kind: str, namespace: str, name: str) -> str:
    if (
        shown(namespace or "-") != (namespace or "-")
        or shown(name) != name
        or namespace.startswith("-")
        or name.startswith("-")
    ):
        return ""
    if kind in CLUSTER_WIDE:
        return f"kubectl delete {lower(kind)} {name}"
    return f"kubectl --namespace {namespace} delete {lower(kind)} {name}" if namespace else ""
