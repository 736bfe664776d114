# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What points at leftovers of upstream programs, and so is left with them: rights, leases, Services, webhooks; and a ClusterMesh with its Secrets.

Everything here is a claim of the cluster that sent it, as in workloads.py, and nothing is removed from here. What points at anything else as well is
nobody's to remove.
"""

from __future__ import annotations

import typing as t

from .._values.text import dicts_of, mapping
from .leftovers import Left, Use, left_of, others_use, use_of
from .programs import CLUSTERMESH
from .workloads import KINDS

BINDINGS = ("ClusterRoleBinding", "RoleBinding")
ROLES = ("ClusterRole", "Role")
WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
DEFINITION = "clustermeshes.kilo.squat.ai"
#: Of roles that Kubernetes brings, or that are parts of others.
_SHARED = ("kubernetes.io/bootstrapping", "rbac.authorization.k8s.io/aggregate-to-")
Objects = t.Sequence[t.Any]


def remains(
    cluster: str, left: t.Sequence[Left], workloads: Objects, around: Objects, meshes: Objects = ()
) -> list[Left]:
    """In the order of their kinds and names. ``left``: of the same cluster; ``around``: bindings, roles, leases, Services, webhooks, each with its kind;
    ``meshes``: ClusterMesh objects of which nothing is read any more."""
    known = {(one.kind, one.namespace, one.name): one.program for one in left}
    found: dict[Use, str] = {}
    found.update(_rights(known, around))
    found.update(_leases(known, workloads, around))
    services = _services(known, workloads, around)
    found.update(services)
    found.update(_webhooks(services, around))
    made = [left_of(cluster, program, *use) for use, program in found.items()]
    made += _meshes(cluster, workloads, around, meshes)
    return sorted(one for one in made if (one.kind, one.namespace, one.name) not in known)


def _named(around: Objects, *kinds: str) -> t.Iterator[tuple[Use, t.Any]]:
    for obj in around:
        use = use_of(obj)
        if use is not None and use[0] in kinds:
            yield use, obj


def _rights(known: t.Mapping[Use, str], around: Objects) -> dict[Use, str]:
    """Bindings of none but accounts that are left, and the roles that nothing else binds."""
    theirs: dict[Use, str] = {}
    roles: dict[Use, str] = {}
    others: set[Use] = set()
    for use, obj in _named(around, *BINDINGS):
        reference = mapping(obj, "roleRef")
        kind, name = reference.get("kind"), reference.get("name")
        role = (str(kind), use[1] if kind == "Role" else "", str(name))
        subjects = obj.get("subjects")
        accounts = [_account(row) for row in subjects] if isinstance(subjects, list) and subjects else [None]
        programs = [known.get(account) if account is not None else None for account in accounts]
        if all(programs):
            theirs[use] = roles[role] = str(programs[0])
        else:
            others.add(role)
    for use, obj in _named(around, *ROLES):
        labels = mapping(obj, "metadata", "labels")
        shared = (
            use[2].startswith("system:")
            or any(str(label).startswith(_SHARED) for label in labels)
            or obj.get("aggregationRule")
        )
        if use in roles and use not in others and not shared:
            theirs[use] = roles[use]
    return theirs


def _account(subject: t.Any) -> Use | None:
    row = mapping(subject)
    namespace, name = row.get("namespace"), row.get("name")
    if row.get("kind") != "ServiceAccount" or not isinstance(namespace, str) or not isinstance(name, str):
        return None
    return "ServiceAccount", namespace, name


def _leases(known: t.Mapping[Use, str], workloads: Objects, around: Objects) -> dict[Use, str]:
    """Those with a holder that is named as a pod of a workload that is left."""
    names = [use for use in map(use_of, workloads) if use is not None]
    found = {}
    for use, obj in _named(around, "Lease"):
        holder = mapping(obj, "spec").get("holderIdentity")
        if isinstance(holder, str):
            # of ccm and ccm-other the longer name has it
            owners = sorted(
                (one for one in names if one[1] == use[1] and holder.startswith(one[2] + "-")),
                key=lambda one: len(one[2]),
            )
            if owners and owners[-1] in known:
                found[use] = known[owners[-1]]
    return found


def _services(known: t.Mapping[Use, str], workloads: Objects, around: Objects) -> dict[Use, str]:
    """Those that select pods of workloads that are left, and of no other."""
    pods = [
        (use, mapping(obj, "spec", "template", "metadata", "labels"))
        for obj in workloads
        for use in [use_of(obj)]
        if use is not None
    ]
    found = {}
    for use, obj in _named(around, "Service"):
        selector = mapping(obj, "spec", "selector")
        chosen = [
            one
            for one, labels in pods
            if one[1] == use[1] and selector and all(labels.get(key) == value for key, value in selector.items())
        ]
        if chosen and all(one in known for one in chosen):
            found[use] = known[chosen[0]]
    return found


def _webhooks(services: t.Mapping[Use, str], around: Objects) -> dict[Use, str]:
    """Those that ask nothing but Services that are left: every write that they would judge fails meanwhile."""
    found = {}
    for use, obj in _named(around, *WEBHOOKS):
        asked = [mapping(row, "clientConfig", "service") for row in dicts_of(obj.get("webhooks"))]
        programs = [services.get(("Service", str(one.get("namespace")), str(one.get("name")))) for one in asked]
        if programs and all(programs):
            found[use] = str(programs[0])
    return found


def _meshes(cluster: str, workloads: Objects, around: Objects, meshes: Objects) -> list[Left]:
    """The only ClusterMesh, which runs of its cluster have in variables, its kubeconfig Secrets, and the kind. Several stay, and are read."""
    found: list[Left] = []
    others = others_use(cluster, workloads)
    for obj in meshes if len(meshes) == 1 else ():
        use = use_of(dict(obj, kind="ClusterMesh") if isinstance(obj, dict) else obj)
        if use is None:
            continue
        # its operator would clean up, so Peers too: without the finalizer nobody does
        held = bool(mapping(obj, "metadata").get("finalizers"))
        found.append(left_of(cluster, CLUSTERMESH.name, *use, patch='{"metadata":{"finalizers":null}}' if held else ""))
        for entry in dicts_of(mapping(obj, "spec").get("clusters")):
            secret = mapping(entry, "kubeconfigSecretRef").get("name")
            if isinstance(secret, str) and secret and ("Secret", use[1], secret) not in others:
                found.append(left_of(cluster, CLUSTERMESH.name, "Secret", use[1], secret))
    for use, dummy in _named(around, "CustomResourceDefinition"):
        if use[2] == DEFINITION and len(meshes) < 2:
            found.append(left_of(cluster, CLUSTERMESH.name, *use))
    return list(dict.fromkeys(found))


def namespaces_of(left: t.Iterable[Left]) -> list[str]:
    """Where workloads are left."""
    return sorted({one.namespace for one in left if one.kind in KINDS})
