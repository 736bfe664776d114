# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rights that each capability needs, as manifests: ServiceAccount, ClusterRole, binding (decision 7). Pure."""

from __future__ import annotations

import base64
import copy
import typing as t

from .._values.refused import ValueRefused, quoted
from .._values.text import parse_subdomain
from .objects import MANAGED_BY, MANAGED_BY_US

Rule = dict[str, list[str]]


def _rule(groups: str, resources: str, verbs: str, names: str = "") -> Rule:
    rule = {"apiGroups": groups.split(","), "resources": resources.split(","), "verbs": verbs.split(",")}
    return dict(rule, resourceNames=names.split(",")) if names else rule


#: API groups of tenant networks, under the project's former and present name.
_TENANT = "networking.api.onmetal.de,networking.ironcore.dev"
_IPAM = "ipam.api.onmetal.de,ipam.ironcore.dev"
_CORE = "core.apinet.api.onmetal.de,core.apinet.ironcore.dev"
_MAPPED = "networks,networkinterfaces,virtualips,loadbalancers,natgateways"
_TENANT_RULES = (
    _rule(_TENANT, _MAPPED, "get,list,patch"),
    _rule(_TENANT, ",".join(kind + "/status" for kind in _MAPPED.split(",")), "patch"),
    _rule(_TENANT, "loadbalancerroutings", "get,list"),
    _rule(_IPAM, "prefixes", "get,list"),
)
_BALANCED = (
    _rule("", "services", "get,list,patch"),
    _rule("", "services/status", "patch"),
    _rule("", "nodes", "get,list,patch"),
    # the cluster's UID; and the labels of namespaces, by which a pool may be for some
    _rule("", "namespaces", "get", "kube-system"),
    _rule("", "namespaces", "list"),
    # what `kubectl describe` shows of a Service's address
    _rule("", "events", "list,create,patch,delete"),
)
_COREFILE = _rule("", "configmaps", "get,patch", "coredns,coredns-custom")
_MULTICLUSTER = "multicluster.x-k8s.io"
_MCS = (
    _rule(_MULTICLUSTER, "serviceexports", "get,list"),
    _rule(_MULTICLUSTER, "serviceimports", "get,list,create,patch,delete"),
    _rule(_MULTICLUSTER, "serviceexports/status,serviceimports/status", "patch"),
    # derived Services and imported slices are in the namespaces of those who export, and a Service shows whether it can be
    _rule("", "services", "get,list,create,patch,delete"),
    _rule("discovery.k8s.io", "endpointslices", "get,list,create,patch,delete"),
    _rule("", "endpoints,namespaces", "get,list"),
    # the name that a cluster has for itself
    _rule("about.k8s.io", "clusterproperties", "list"),
    # whether the definition has a field for it that the slices of an import exist
    _rule("apiextensions.k8s.io", "customresourcedefinitions", "get", "serviceimports." + _MULTICLUSTER),
)
#: Where Calico and Cilium keep the ranges of nodes (pod_ranges 1).
_RANGES = (
    _rule("projectcalico.org,crd.projectcalico.org", "blockaffinities,ipamblocks,ippools", "list"),
    _rule("cilium.io", "ciliumnodes", "list"),
)
_LEASES = _rule("coordination.k8s.io", "leases", "create,get,patch,delete")

#: Exactly what is used, capability by capability (semaphore 7). Only what follows clusters watches, and nothing reads Secrets.
CAPABILITIES: dict[str, tuple[Rule, ...]] = {
    # publishes keys and endpoints on nodes of its own cluster
    "mesh": (_rule("", "nodes", "get,list,patch"), *_RANGES),
    # only reads what nodes of another cluster publish
    "mesh_read": (_rule("", "nodes", "get,list"), *_RANGES),
    # the same as mesh where only the Pods show which addresses a node has
    "mesh_pods": (_rule("", "nodes", "get,list,patch"), _rule("", "pods", "list"), *_RANGES),
    # where the pods of a cluster are, compared with the inventory by preflight and verify
    "pod_ranges": (
        _rule("", "pods", "list"),
        _rule(
            "projectcalico.org,crd.projectcalico.org",
            "ippools,blockaffinities,hostendpoints,felixconfigurations",
            "list",
        ),
        _rule("cilium.io", "ciliumnodes", "list"),
        _rule("", "configmaps", "list", "cilium-config"),
    ),
    # Calico: no masquerading between clusters; apply needs create and patch
    "ippools": (_rule("crd.projectcalico.org", "ippools", "get,list,create,patch,delete"),),
    # network sets of its own cluster; its own pods become sets in the others
    "network_sets": (
        _rule("", "pods", "get,list"),
        _rule("projectcalico.org,crd.projectcalico.org", "globalnetworksets", "get,list,create,patch,delete"),
        _rule("cilium.io", "ciliumcidrgroups", "get,list,create,patch,delete"),
    ),
    # a cluster of which only the pods are read
    "network_sets_read": (_rule("", "pods", "get,list"),),
    # Kilo's cluster mesh in a member: reads nodes, owns Peers; and the cluster that holds ClusterMesh objects
    "clustermesh": (_rule("", "nodes", "get,list"), _rule("kilo.squat.ai", "peers", "get,list,create,patch,delete")),
    # the same, and annotations of its nodes (clustermesh_node_keepalive, clustermesh_force_internal_ip, kilo.migrate)
    "clustermesh_nodes": (
        _rule("", "nodes", "get,list,patch"),
        _rule("kilo.squat.ai", "peers", "get,list,create,patch,delete"),
    ),
    "clustermesh_management": (
        _rule("", "nodes", "get,list"),
        _rule("kilo.squat.ai", "peers", "get,list,create,patch,delete"),
        _rule("kilo.squat.ai", "clustermeshes,clustermeshes/status", "get,list,patch"),
    ),
    # the Corefile, or the users' files that it imports; one of another name needs extra rules, and so has one that is to be made
    "coredns_rewrite": (_COREFILE,),
    # the same with names of ServiceImports: what CoreDNS runs, and its account's right to follow them, which nobody can give without having it
    "coredns_rewrite_mcs": (
        _COREFILE,
        _rule("apps", "deployments", "get", "coredns"),
        _rule(
            "rbac.authorization.k8s.io",
            "clusterroles,clusterrolebindings",
            "get,create,patch,delete",
            "multicluster-coredns-serviceimports",
        ),
        _rule(_MULTICLUSTER, "serviceimports", "list,watch"),
    ),
    # the Multi-Cluster Services API; and the same where its definitions are installed
    "mcs": _MCS,
    "mcs_crds": _MCS
    + (
        _rule(
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            "get,create,patch",
            "serviceexports.multicluster.x-k8s.io,serviceimports.multicluster.x-k8s.io",
        ),
    ),
    # a cluster of which only the exports are read
    "mcs_read": (
        _rule(_MULTICLUSTER, "serviceexports,serviceimports", "get,list"),
        _rule("", "services,endpoints,namespaces", "get,list"),
        _rule("discovery.k8s.io", "endpointslices", "get,list"),
        _rule("about.k8s.io", "clusterproperties", "list"),
    ),
    # offers its own Services and reads those of others; what it writes is in NAMESPACED
    "service_mirror": (
        _rule("", "services,endpoints", "get,list"),
        _rule("discovery.k8s.io", "endpointslices", "get,list"),
    ),
    # a cluster of which only the Services are read
    "service_mirror_read": (
        _rule("", "services,endpoints", "get,list"),
        _rule("discovery.k8s.io", "endpointslices", "get,list"),
    ),
    # what an event source or the role reconciler follows
    "follow": (
        _rule("", "nodes,pods,services,endpoints", "list,watch"),
        _rule("discovery.k8s.io", "endpointslices", "list,watch"),
        _rule("kilo.squat.ai", "clustermeshes", "list,watch"),
        _rule(_MULTICLUSTER, "serviceexports,serviceimports", "list,watch"),
        _rule("projectcalico.org,crd.projectcalico.org", "blockaffinities,ipamblocks", "list,watch"),
        _rule("cilium.io", "ciliumnodes", "list,watch"),
    ),
    # who is where, who answers for a name, and which policies speak of both ends of a trace; it writes nothing
    "trace": (
        _rule("", "nodes,pods,services,endpoints", "list"),
        _rule("", "configmaps", "get", "coredns,coredns-custom"),
        _rule("discovery.k8s.io", "endpointslices", "list"),
        _rule("networking.k8s.io", "networkpolicies", "list"),
        _rule(
            "projectcalico.org,crd.projectcalico.org", "globalnetworksets,globalnetworkpolicies,networkpolicies", "list"
        ),
        _rule("cilium.io", "ciliumcidrgroups", "list"),
        _rule(_MULTICLUSTER, "serviceimports,serviceexports", "list"),
    ),
    # addresses of Services; and the same where MetalLB is notified of them. Passwords of BGP sessions need Secrets in MetalLB's
    # namespace, by extra rules
    "load_balancers": _BALANCED,
    "load_balancers_metallb": _BALANCED
    + (
        _rule(
            "metallb.io", "ipaddresspools,bgpadvertisements,l2advertisements,bgppeers", "get,list,create,patch,delete"
        ),
        # who announces where there is no BGP peer
        _rule("metallb.io", "l2advertisements", "list"),
        _rule("", "configmaps", "get,list,patch", "config"),
    ),
    # the same while Services come from another controller: whether that is still at work
    "load_balancers_moving": _BALANCED
    + (
        _rule("apps", "deployments,daemonsets,statefulsets", "list"),
        _rule("", "pods", "list"),
        _rule("cilium.io", "ciliumloadbalancerippools", "list"),
    ),
    # the tenant-facing side of tenant networks; and the same where tenants' objects are deleted for them
    "tenants_source": _TENANT_RULES,
    "tenants_source_leave": _TENANT_RULES + (_rule(_TENANT, _MAPPED + ",loadbalancerroutings", "delete"),),
    # the network side: what the mapping writes; and the same with attaching and the network side's own work
    "tenants_apinet": (_rule(_CORE, "networkids,ipaddresses", "get,list"),),
    "tenants_network": (
        _rule(_CORE, "networkids,ipaddresses", "get,list,create,delete"),
        _rule(_CORE, "nodes", "get,list"),
    ),
}
#: Further rights in one namespace only, which has to exist.
NAMESPACED: dict[str, tuple[Rule, ...]] = {
    "service_mirror": (
        _rule("", "services,endpoints", "create,patch,delete"),
        _rule("discovery.k8s.io", "endpointslices", "create,patch,delete"),
        # since when a source is not reachable
        _rule("", "configmaps", "get,list,create,patch,delete"),
        _rule("", "namespaces", "get"),
    ),
    # the record of addresses, and the lease
    "load_balancers": (_rule("", "configmaps", "get,list,create,patch,delete"), _LEASES),
    "load_balancers_metallb": (_rule("", "configmaps", "get,list,create,patch,delete"), _LEASES),
    "load_balancers_moving": (_rule("", "configmaps", "get,list,create,patch,delete"), _LEASES),
    "tenants_apinet": (
        _rule(
            _CORE,
            "networks,ips,loadbalancers,loadbalancerroutings,natgateways,natgatewayautoscalers",
            "get,list,create,patch,delete",
        ),
        _rule(_CORE, "networkinterfaces", "get,list,patch"),
        _LEASES,
    ),
    "tenants_network": (
        _rule(
            _CORE,
            "networks,ips,loadbalancers,loadbalancerroutings,natgateways,natgatewayautoscalers",
            "get,list,create,patch,delete",
        ),
        _rule(_CORE, "networkinterfaces,nattables,daemonsets,instances", "get,list,create,patch,delete"),
        _rule(_CORE, "natgateways/status", "patch"),
        _LEASES,
    ),
}


def access_manifests(
    capabilities: t.Sequence[str],
    namespace: str = "kube-system",
    prefix: str = "multicluster",
    extra_rules: t.Sequence[Rule] = (),
    target_namespace: str = "sys-semaphore",
) -> list[dict[str, t.Any]]:
    """ServiceAccount ``<prefix>-<capability>`` with a ClusterRole and binding of its own, for each capability.

    ``extra_rules`` (RBAC rules) are added to every ClusterRole. ``target_namespace``: where a capability of NAMESPACED gets
    its Role. Raises ValueRefused for an unknown capability.
    """
    parse_subdomain(namespace, "name_invalid")
    parse_subdomain(target_namespace, "name_invalid")
    manifests: list[dict[str, t.Any]] = []
    for capability in sorted(set(capabilities)):
        if capability not in CAPABILITIES:
            raise ValueRefused(
                "capability_unknown", f"{quoted(capability)} is none of {', '.join(sorted(CAPABILITIES))}"
            )
        name = parse_subdomain(account_name(capability, prefix), "name_invalid")
        meta: dict[str, t.Any] = {"name": name, "labels": {MANAGED_BY: MANAGED_BY_US}}
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        manifests.append(
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": dict(meta, namespace=namespace),
                "automountServiceAccountToken": False,
            }
        )
        manifests += _role_and_binding("ClusterRole", meta, [*CAPABILITIES[capability], *extra_rules], subject)
        if capability in NAMESPACED:
            manifests += _role_and_binding(
                "Role", dict(meta, namespace=target_namespace), NAMESPACED[capability], subject
            )
    return manifests


def _role_and_binding(
    kind: str, meta: t.Mapping[str, t.Any], rules: t.Iterable[Rule], subject: t.Mapping[str, str]
) -> list[dict[str, t.Any]]:
    group = "rbac.authorization.k8s.io"
    role = {
        "apiVersion": group + "/v1",
        "kind": kind,
        "metadata": copy.deepcopy(meta),
        "rules": [dict(rule) for rule in rules],
    }
    reference = {"apiGroup": group, "kind": kind, "name": meta["name"]}
    return [
        role,
        {
            "apiVersion": group + "/v1",
            "kind": kind + "Binding",
            "metadata": copy.deepcopy(meta),
            "roleRef": reference,
            "subjects": [dict(subject)],
        },
    ]


def account_name(capability: str, prefix: str = "multicluster") -> str:
    return f"{prefix}-{capability.replace('_', '-')}"


def kubeconfig_secret(cluster: str, kubeconfig: bytes, namespace: str, name: str, key: str) -> dict[str, t.Any]:
    """The Secret of one cluster's kubeconfig; ``{cluster}`` in its name is replaced by the cluster's. Without data it is enough to remove it."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {"name": name.replace("{cluster}", cluster), "namespace": namespace},
        "data": {key: base64.b64encode(kubeconfig).decode("ascii")},
    }
