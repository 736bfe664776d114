# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of the Multi-Cluster Services API: what a CoreDNS needs to answer them, and whether a cluster's has it. Pure.

CoreDNS watches ServiceImports from then on. One that cannot list them, because the kind is not served or its account may not, is never
ready again, and with it no name of the cluster resolves. So all of it is looked at before the zone is written.
"""

from __future__ import annotations

import typing as t

from .._plan.object_plan import Key, Read, Write, plan_objects
from .._plan.objects import is_owned
from .._plan.plan import Plan
from .._values.refused import ValueRefused, quoted
from .._values.text import dicts_of, mapping, parse_subdomain
from .coredns_corefile import FIRST_MULTICLUSTER, Options, Version, accepts, parse_version

#: The version of the API that CoreDNS asks for, whatever the server stores.
API_VERSION, KIND = "multicluster.x-k8s.io/v1alpha1", "ServiceImport"
#: Role and binding of CoreDNS's account; the same for every fabric, since there is one CoreDNS.
RIGHTS = "multicluster-coredns-serviceimports"
_RBAC = "rbac.authorization.k8s.io"
ROLE, BINDING = Key(_RBAC + "/v1", "ClusterRole", "", RIGHTS), Key(_RBAC + "/v1", "ClusterRoleBinding", "", RIGHTS)
DEFAULT_ACCOUNT = "coredns"


class Found(t.NamedTuple):
    """What one cluster reports of its CoreDNS.

    ``deployment`` None: there is none of that name. ``served``: whether the API server has ServiceImports as CoreDNS asks for them.
    ``rights``: role and binding as they are. ``hidden``: what the access may not read, as an operation.
    """

    deployment: t.Mapping[str, t.Any] | None = None
    served: bool = False
    rights: t.Mapping[Key, t.Mapping[str, t.Any]] = {}
    hidden: tuple[str, ...] = ()


def version_of(deployment: t.Mapping[str, t.Any] | None) -> Version | None:
    """The version in the image's tag; None where it has none, which is no reason to guess."""
    found = []
    for image in _images(deployment):
        repository, dummy, tag = image.partition("@")[0].rpartition(":")
        if repository.rpartition("/")[2].endswith("coredns") and tag:
            try:
                found.append(parse_version(tag))
            except ValueRefused:
                continue
    return min(found) if found else None


def _images(deployment: t.Mapping[str, t.Any] | None) -> list[str]:
    containers = dicts_of(mapping(deployment, "spec", "template", "spec").get("containers"))
    return [row["image"] for row in containers if isinstance(row.get("image"), str)]


def account_of(deployment: t.Mapping[str, t.Any] | None) -> str:
    """The ServiceAccount of CoreDNS's pods. Raises ValueRefused for what is no name."""
    return parse_subdomain(
        mapping(deployment, "spec", "template", "spec").get("serviceAccountName") or DEFAULT_ACCOUNT, "name_invalid"
    )


def refused(
    options: Options, given: bool, found: Found, namespace: str, name: str, exists: bool
) -> tuple[str, str] | None:
    """Why the zone cannot be written, as (reason, message), or None.

    given: the version of ``options`` is what the user gave, not a default. exists: the zone is there since an earlier run; then what
    is not known does not take it away, and what is known does.
    """
    version = options.version if given else version_of(found.deployment)
    if version is not None and not accepts(version, "kubernetes", "multicluster"):
        shown, first = (".".join(str(part) for part in one) for one in (version, FIRST_MULTICLUSTER))
        return (
            "coredns_too_old",
            f"CoreDNS {shown} does not load the option multicluster, which came with {first}; update CoreDNS first",
        )
    if exists:
        return None
    if found.hidden:
        return (
            "forbidden",
            "the access may not {0}; the role cluster_access gives it with cluster_access_capability: coredns_rewrite_mcs".format(
                ", ".join(found.hidden)
            ),
        )
    if version is None:
        images = _images(found.deployment)
        why = (
            f"Deployment {namespace}/{name} has the image {quoted(', '.join(images))}"
            if images
            else (f"there is no Deployment {namespace}/{name} to tell it (coredns_rewrite_deployment)")
        )
        return (
            "coredns_version_unknown",
            "the option multicluster needs CoreDNS {0}: {1}; say the version with coredns_rewrite_version".format(
                ".".join(str(part) for part in FIRST_MULTICLUSTER), why
            ),
        )
    if not found.served:
        return (
            "kind_not_served",
            f"the API server has no {KIND} in {API_VERSION}, and a CoreDNS that cannot list them is never ready; mcs_install_crds brings them",
        )
    return None


def manifests(namespace: str, account: str) -> dict[Key, dict[str, t.Any]]:
    """Role and binding that let CoreDNS's account follow ServiceImports."""
    rule = {"apiGroups": [API_VERSION.partition("/")[0]], "resources": ["serviceimports"], "verbs": ["list", "watch"]}
    head = {"apiVersion": ROLE.api_version, "metadata": {"name": RIGHTS}}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    reference = {"apiGroup": _RBAC, "kind": ROLE.kind, "name": RIGHTS}
    return {
        ROLE: dict(head, kind=ROLE.kind, rules=[rule]),
        BINDING: dict(head, kind=BINDING.kind, roleRef=reference, subjects=[subject]),
    }


def plan_rights(cluster: str, namespace: str, found: Found, desired: bool, manager: str) -> tuple[Plan, list[Write]]:
    """The writes for role and binding. Where they are not desired, only owned ones go, and those of others are not reported."""
    read = Read(found.rights, frozenset(), frozenset(), {key[:2]: False for key in (ROLE, BINDING)})
    if desired:
        return plan_objects(cluster, manifests(namespace, account_of(found.deployment)), read, manager)
    owned: dict[Key, dict[str, t.Any]] = {key: {} for key, actual in found.rights.items() if is_owned(actual, manager)}
    return plan_objects(cluster, owned, read, manager, state="absent", named=True)
