# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What hosts say of themselves, and what of it their clusters' Node objects have to carry."""

from __future__ import annotations

import typing as t

from ..._plan.mesh_plan import MeshPlan
from ..semaphore.annotations import is_next_public_key, key_of


def annotations_to_publish(
    plan: MeshPlan, public_keys: t.Mapping[str, t.Mapping[str, t.Any]], equal_too: bool = False
) -> dict[str, dict[str, dict[str, t.Any]]]:
    """cluster -> node -> annotations, only for nodes on which something differs from what is published.

    ``public_keys`` is host -> remote -> key as the hosts themselves reported it: a host's own report beats what is in
    the cluster. Hosts that did not report take no part, so a run with --limit touches no other node. ``equal_too``: nodes on which nothing
    differs as well, for a run that takes over what somebody else published.
    """
    desired: dict[str, dict[str, dict[str, t.Any]]] = {}
    for host in sorted(public_keys):
        node = plan.node(host)
        if not node.publishable:
            continue
        values = dict(node.annotations)
        for remote, key in public_keys[host].items():
            if key_of(remote, "pubKey") in values:
                values[key_of(remote, "pubKey")] = key
        # a host that has another key than its record retires makes no next one, and a value that never comes ends every step
        made = {key_of(remote, "pubKey") for remote in public_keys[host]}
        values = {
            name: value
            for name, value in values.items()
            if isinstance(value, str) or name in made or not is_next_public_key(name)
        }
        if equal_too or values != node.published or node.stale:
            desired.setdefault(node.cluster, {})[node.node_name] = values
    return desired


def host_reports(results: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, dict[str, t.Any]]:
    """host -> annotations as the host itself reports them, from the results of node_dataplane by host."""
    reports: dict[str, dict[str, t.Any]] = {}
    for host, result in results.items():
        said = {
            key_of(remote, "pubKey"): key
            for remote, key in (result.get("public_keys") or {}).items()
            if isinstance(key, str)
        }
        announced = (result.get("kubespan") or {}).get("annotations") or {}
        said.update((key, value) for key, value in announced.items() if isinstance(value, str) and value)
        if said:
            reports[host] = said
    return reports


def nodes_by_cluster(plan: MeshPlan, hosts: t.Container[str]) -> dict[str, dict[str, dict[str, t.Any]]]:
    """cluster -> node -> {}, for the Node objects of these hosts: the form of nodes from which everything of the fabric is to go."""
    found: dict[str, dict[str, dict[str, t.Any]]] = {}
    for host, node in plan.nodes.items():
        if host in hosts:
            found.setdefault(node.cluster, {})[node.node_name] = {}
    return found
