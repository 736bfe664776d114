# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses that a cluster left behind at a provider when it was deleted: listed with what proves their owner, or released (ccm 9.7)."""

from __future__ import annotations

import typing as t

from ..._io.settings_source import environment, read_text
from ..._kubernetes.clusters import Clusters, seconds_of
from ..._loadbalancers.reservations import Owner, Reservation, sweep
from ..._loadbalancers.settings import parse_load_balancer
from ..._loadbalancers.setup import EQUINIX, Setup, parse_setup
from ..._plan.plan import Change, Plan
from ..._values.refused import ValueRefused
from .read import ClusterState, cluster_uid, make_provider

NAME = "the project"


def run(request: t.Mapping[str, t.Any], check: bool = False) -> dict[str, t.Any]:
    """The module's result. Raises ValueRefused for options that make no sense, and ``missing_cluster_uid``."""
    setup = _setup(request)
    owner = setup.owner(str(request.get("cluster_uid") or "").strip())
    _tag = owner.cluster_tag  # refuses an empty one before anything is asked
    plan, shown = Plan(), t.cast(dict[str, t.Any], {"release": [], "blocked": [], "kept": 0})
    failures, requests = _living(request, owner, plan)
    provider = None
    if not failures and not plan.refused:
        try:
            provider = make_provider(setup, ClusterState(parse_load_balancer("")), "", seconds_of(request))
            _sweep(request, owner, provider, plan, shown, check)
        except ValueRefused as error:
            failures.append(
                {
                    "cluster": NAME,
                    "operation": "list addresses",
                    "reason": error.reason,
                    "message": error.message,
                    "status": None,
                }
            )
    plan.warnings += provider.warnings() if provider is not None else []
    result = plan.result()
    result.update(
        shown,
        failures=failures,
        diff=plan.diff(),
        warnings=plan.warnings,
        stats={"requests": requests, "provider_calls": provider.calls if provider is not None else 0},
    )
    return result


def _setup(request: t.Mapping[str, t.Any]) -> Setup:
    env = environment(("METAL_", "PACKET_")) if request.get("use_environment") else {}
    file = read_text(request["config_file"]) if request.get("config_file") else None
    names = ("project_id", "api_key", "base_url", "allow_plain_http", "adopt_identities", "identity")
    return parse_setup(dict({name: request.get(name) for name in names}, cluster=NAME, provider=EQUINIX), env, file)


def _living(
    request: t.Mapping[str, t.Any], owner: Owner, plan: Plan
) -> tuple[list[dict[str, t.Any]], dict[str, t.Any]]:
    """A cluster that is still there has not left anything behind; one that cannot be asked may be the one."""
    clusters = Clusters(request.get("clusters") or [], seconds_of(request))

    for name, found in sorted(clusters.read("read its UID", lambda unused, client: cluster_uid(client)).items()):
        if found == owner.cluster_uid:
            plan.refuse("cluster " + name, "cluster_alive", "the addresses of this cluster itself would be released")
    return clusters.failures, dict(clusters.stats()["requests"])


def _row(item: Reservation, owner: Owner) -> dict[str, t.Any]:
    """What a reservation is, and the tags that show its owner."""
    proof = sorted(
        tag for tag in item.tags if tag == owner.cluster_tag or tag in owner.usage_tags or tag.startswith("service=")
    )
    return {
        "id": item.id,
        "address": item.address,
        "state": item.state,
        "location": item.location,
        "tags": proof,
        "assigned_to": [row.device for row in item.assignments],
    }


def _sweep(
    request: t.Mapping[str, t.Any], owner: Owner, provider: t.Any, plan: Plan, shown: dict[str, t.Any], check: bool
) -> None:
    held = provider.list_addresses()
    found = sweep(held, owner, bool(request.get("force")))
    by_id = {item.id: item for item in held}
    shown.update(
        kept=len(found.keep),
        blocked=[_row(by_id[ident], owner) for ident in found.blocked],
        release=[_row(by_id[ident], owner) for ident in found.release],
    )
    for row in shown["blocked"]:
        plan.refuse(
            "reservation " + row["id"], "blocked", f"{row['address']} still points at {', '.join(row['assigned_to'])}"
        )
    for row in shown["release"] if request.get("confirm") or check else []:
        try:
            if not check:
                provider.release_address(row["id"])
        except ValueRefused as error:
            plan.refuse("reservation " + row["id"], error.reason, error.message)
            if error.reason == "auth":
                return
            continue
        plan.changes.append(Change("delete", "Reservation", row["id"], row, None))
