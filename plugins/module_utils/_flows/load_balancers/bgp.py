# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""BGP facts of a cluster's nodes: asked of the provider, checked against the grants, written as annotations (ccm 7, 8)."""

from __future__ import annotations

import typing as t

from ..._kubernetes.client import Client
from ..._kubernetes.errors import KubeError
from ..._loadbalancers.bgp.values import NodeBgp, check_bgp_claims, prefix_limit, project_bgp, selected_nodes
from ..._loadbalancers.node_annotations import password_keys, plan_node_annotations
from ..._loadbalancers.reservations import parse_provider_id
from ..._loadbalancers.setup import Setup
from ..._plan.plan import Change, Plan, Refusal
from ..._values.keys import fingerprint
from ..._values.refused import ValueRefused
from ..mesh import node_annotations as nodes_flow
from . import providers as interface


class Facts(t.NamedTuple):
    """Nodes that may speak, their private networks, every node's name, whether all selected nodes are known, the prefix limit, and the
    refusals of nodes with facts that are known and not granted."""

    nodes: list[NodeBgp]
    private: dict[str, str]
    alive: frozenset[str]
    whole: bool
    limit: int | None
    refused: tuple[Refusal, ...] = ()


def gather(setup: Setup, provider: interface.Provider, state: t.Any, mode: str, dry: bool, plan: Plan) -> Facts:
    """One node that fails is refused by name, the others go on. Raises ValueRefused where the project's BGP cannot be had."""
    can, settings = provider.capabilities(), setup.settings
    limit, switched_on = setup.max_prefixes, True
    if interface.PROJECT_BGP in can and mode in ("sync", "add"):
        # a failing read is an error: switching on blindly would erase the project's password (ccm 7.1)
        desired = project_bgp(provider.read_project_bgp(), settings.number("local_asn"), settings.text("bgp_pass"))
        if desired.post is not None:
            shown = dict(
                desired.post, **({"md5": fingerprint(str(desired.post["md5"]))} if "md5" in desired.post else {})
            )
            plan.create("ProjectBgp", setup.cluster, shown)
            switched_on = not dry
            if not dry:
                provider.enable_project_bgp(desired)
                desired = project_bgp(
                    provider.read_project_bgp(), settings.number("local_asn")
                )  # which limit we have got
        limit = prefix_limit(limit, desired.max_prefixes)
    found, private, failed = [], {}, False
    objects = [{"name": name, "labels": node["metadata"].get("labels") or {}} for name, node in state.nodes.items()]
    for name in (
        sorted(selected_nodes(objects, settings.text("bgp_node_selector")))
        if interface.NODE_BGP in can and mode != "absent"
        else ()
    ):
        try:
            device = "" if setup.static else parse_provider_id((state.nodes[name].get("spec") or {}).get("providerID"))
            facts = _node(setup, provider, name, device, dry or mode == "remove", switched_on, plan)
            if facts is not None:
                found.append(facts)
                if not setup.static:
                    private[name] = provider.private_network(device) or ""
        except ValueRefused as error:
            failed = True
            plan.refuse(f"node {setup.cluster}/{name}", error.reason, error.message)
    kept, claims = check_bgp_claims(found, setup.grants)
    refused = tuple(
        Refusal(
            row.object.replace("node ", f"node {setup.cluster}/", 1),
            row.reason,
            row.message.replace("the grants", "bgp_grants in load_balancers_settings"),
        )
        for row in claims
    )
    plan.refused += refused
    private = {node.name: private[node.name] for node in kept if node.name in private}
    return Facts(kept, private, frozenset(state.nodes), not failed, limit, refused)


def _node(
    setup: Setup, provider: interface.Provider, name: str, device: str, dry: bool, switched_on: bool, plan: Plan
) -> NodeBgp | None:
    facts = provider.node_bgp_info(device, name)
    if setup.static and facts is not None and not facts.source_ip:
        raise ValueRefused("no_ipv4_neighbor", "the inventory names no source address")
    if facts is None and not setup.static:
        # first asked, then opened: an open session is never asked for again (decision 42)
        plan.create("BgpSession", f"{setup.cluster}/{name}", {"address_family": "ipv4"})
        if dry or not switched_on:
            return None
        provider.ensure_node_bgp(device)
        facts = provider.node_bgp_info(device, name)
        if facts is None:
            raise ValueRefused("no_ipv4_neighbor", "the provider names no IPv4 neighbour")
    return facts


def annotate(
    client: Client,
    setup: Setup,
    state: t.Any,
    facts: Facts,
    manager: str,
    plan: Plan,
    failed: list[KubeError],
    dry: bool,
    adopt: bool,
    absent: bool,
) -> None:
    """Nodes with facts get theirs; nodes with missing facts keep what they have; with absent all owned ones go."""
    scheme = setup.scheme
    part, patches = plan_node_annotations(
        setup.cluster, facts.nodes, facts.private, state.nodes, scheme, manager, adopt, absent=absent
    )
    part.unchanged = 0
    part.changes = [_hidden(change, scheme) for change in part.changes]
    if not dry and patches:
        part = nodes_flow.apply(
            lambda what, names, send: {names[0]: send(names[0], client)},
            failed.append,
            part,
            {setup.cluster: patches},
            manager,
        )
    plan.extend(part)


def _hidden(change: Change, scheme: t.Any) -> Change:
    sides = []
    for side in (change.before, change.after):
        values = (side or {}).get("annotations") or {}
        secret = password_keys(values, scheme)
        sides.append(
            dict(
                side or {},
                annotations={
                    key: fingerprint(str(value)) if key in secret and value else value for key, value in values.items()
                },
            )
        )
    return change._replace(before=sides[0], after=sides[1])
