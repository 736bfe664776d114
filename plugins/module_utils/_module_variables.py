# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages that name what the user wrote: alongside a module's option the variable of the role that hands it on.

Planners speak of options, since a module is also used alone. Most users set a variable of a role, and search for that.
"""

from __future__ import annotations

import re
import typing as t

#: Options that roles leave alone, whatever the module.
_LEFT = frozenset(
    (
        "fail_on_failures",
        "fail_on_errors",
        "node_plans",
        "validate_only",
        "cluster_cidrs",
        "controller_time",
        "key_files",
        "unread_devices",
        "objects_by_cluster",
        "skip_unserved",
        "service_account",
        "record_namespace",
    )
)
_NO_REFUSALS: dict[str, tuple[str, ...]] = {"fail_on_refused": ()}
#: module -> (role, what is not simply named role_option). An empty tuple: the role does not hand it on.
_ROLES: dict[str, tuple[str, dict[str, tuple[str, ...]]]] = {
    "apinet_allocate": ("tenants", {**_NO_REFUSALS}),
    "apinet_attach": (
        "tenants",
        {
            **_NO_REFUSALS,
            "lock_wait": (),
            "detach_namespace": ("tenants_watch_namespace",),
            "require_ready": ("tenants_attach_require_ready",),
        },
    ),
    "apinet_info": ("tenants", {"confirm_empty": (), "max_deletes": ()}),
    "apinet_schedule": ("tenants", {**_NO_REFUSALS}),
    "apinet_sync": ("tenants", {}),
    "bgp_speaker": ("bgp_speaker", {**_NO_REFUSALS, "routes_only": ()}),
    "ccm_nodes": ("ccm_nodes", {}),
    "cluster_objects": (
        "mesh",
        {
            **_NO_REFUSALS,
            "adopt": (
                "mesh_adopt",
                "cluster_access_adopt",
                "clustermesh_crds_adopt",
                "clustermesh_secrets_adopt",
                "tenants_crds_adopt",
                "node_access_adopt",
            ),
            "clusters_group": ("mesh_clusters_group", "node_access_clusters_group"),
            "files_cluster": ("tenants_crds_source", "tenants_crds_apinet"),
        },
    ),
    "cluster_token": ("cluster_access", {**_NO_REFUSALS}),
    "clustermesh_info": ("clustermesh", {"node_cidrs": ()}),
    "clustermesh_peers": ("clustermesh", {**_NO_REFUSALS, "node_cidrs": ()}),
    "control_plane_address": (
        "control_plane_address",
        {
            **_NO_REFUSALS,
            "lock_wait": (),
            "probe_ca": (),
            "address": ("control_plane_address_ip",),
        },
    ),
    "coredns_rewrite": ("coredns_rewrite", {}),
    "fabric_preflight": ("preflight", {"load_balancers": ()}),
    "fabric_status": ("status", {}),
    "layer2_speaker": ("layer2_speaker", {**_NO_REFUSALS, "routes_only": ()}),
    "load_balancers": ("load_balancers", {}),
    "mesh_report": ("mesh", {"allow_unproven": ("mesh_verify_allow_unproven",)}),
    "mesh_plan": ("mesh", {**_NO_REFUSALS, "mesh_id": ("mesh_id",)}),
    "network_sets": ("network_sets", {}),
    "node_annotations": (
        "mesh",
        {**_NO_REFUSALS, "clusters_group": ("mesh_clusters_group", "clustermesh_clusters_group")},
    ),
    "node_comparison": ("node_dataplane", {"preshared_keys": ()}),
    "node_dataplane": (
        "node_dataplane",
        {"rollback_seconds": ("node_dataplane_rollback_seconds",), "preshared_keys": ()},
    ),
    "node_probe": (
        "mesh",
        {"max_pods": ("mesh_verify_pods",), "wait_seconds": (), "pod_cidrs": (), "for_ends": (), "host_targets": ()},
    ),
    "node_info": ("support_bundle", {"pod_cidrs": ()}),
    "upstream_info": ("adopt", {"keep_clustermeshes": ()}),
    "run_lock": ("run_lock", {"lock_wait": ("run_lock_wait",)}),
    "run_guard": ("capability", {}),
    "run_outcome": (
        "capability",
        {"failures_only": (), "clusters_group": ("capability_clusters_group", "mesh_clusters_group")},
    ),
    "service_mirror": (
        "service_mirror",
        {
            "mirror_namespace": ("service_mirror_namespace",),
            "mirror_selector": ("service_mirror_selector",),
            "mirror_as": ("service_mirror_as",),
        },
    ),
    "service_imports": ("mcs", {}),
    "support_bundle": ("support_bundle", {}),
    "trace_node": ("trace", {"id": (), "flows": (), "wait_seconds": ()}),
    "trace_plan": (
        "trace",
        {
            "source": ("trace_from",),
            "target": ("trace_to",),
            "hosts": (),
            "mesh": (),
            "number": (),
            "mirror_namespace": (),
            "prefixes": (),
            "cluster_domain": (),
            "coredns_namespace": (),
            "coredns_configmap": (),
            "pairs": (),
            "failing": ("verify_traces",),
            "questions": ("trace_questions",),
            "assumed": (),
            "mirror_selector": (),
            "global_selector": (),
            "speakers": (),
            "reserved": (),
        },
    ),
    "trace_report": ("trace", {"trace": (), "nodes": (), "unreachable": (), "outside": ()}),
}
#: An option that is a plain English term is taken for one only where a message could mean nothing else.
_PLAIN = frozenset(("adopt", "renumber"))
#: Words that servers use too: one is an option only where a message calls it one.
_CALLED = {"timeout": "the option timeout"}


def variables_of(module: str, option: str) -> tuple[str, ...]:
    """The variables of roles that become this option; none where no role hands it on. ``module`` may have its collection's name."""
    role, special = _ROLES.get(module.rpartition(".")[2], ("", {}))
    if not role or option in _LEFT:
        return ()
    return special.get(option, (role + "_" + option,))


def named(module: str, text: t.Any, options: t.Iterable[str]) -> t.Any:
    """A message with the variable behind each option that it names: ``adopt (service_mirror_adopt of the role)``."""
    if not isinstance(text, str):
        return text
    words = [
        option
        for option in options
        if ("_" in option or option in _PLAIN) and option in text or _CALLED.get(option, "\0") in text
    ]
    for option in sorted(words, key=len, reverse=True):
        variables = variables_of(module, option)
        if variables and not any(variable in text for variable in variables):
            shown = f"{option} ({' or '.join(variables)} of the role)"
            said, shown = _CALLED.get(option, option), _CALLED.get(option, option)[: -len(option)] + shown
            text = re.sub(
                rf"(?<![\w.\x27\"-]){re.escape(said)}(?![\w\x27\"(-])",
                lambda found: shown,  # noqa: B023
                text,
                count=1,
                flags=re.ASCII,
            )
    return text


def named_rows(module: str, rows: t.Any, options: t.Collection[str]) -> t.Any:
    """Rows of ``refused`` or ``failures``, their messages named."""
    return [
        dict(row, message=named(module, row.get("message"), options)) if isinstance(row, dict) else row
        for row in rows or ()
    ]
