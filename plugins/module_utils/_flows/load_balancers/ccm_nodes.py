# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes get what a cloud controller gives them: provider ID, addresses, labels, and lose the taint of the uninitialised (ccm 6)."""

from __future__ import annotations

import copy
import typing as t

from ..._kubernetes.client import Client, segment
from ..._kubernetes.clusters import seconds_of
from ..._loadbalancers.control_plane import LABELS
from ..._loadbalancers.instances import (
    LABELS as GIVEN_LABELS,
    PROVIDED_IP,
    SHUTDOWN,
    UNINITIALIZED,
    Device,
    Fate,
    Variant,
    device_of,
    fate_of,
    node_facts,
    same_addresses,
)
from ..._loadbalancers.setup import Setup
from ..._plan.budget import check_budget
from ..._plan.objects import field_manager
from ..._plan.plan import Change, Plan
from ..._plan.sole_owner import Path
from ..._values.refused import ValueRefused
from ..._values.text import dicts_of, mapping
from .converge import guarded, open_clusters, result_of
from .read import NODES, ClusterState, make_provider
from .released import given_up
from .run import Report
from .writes import Put, Written, put_all, record_taken

Object = t.Mapping[str, t.Any]


def run(request: t.Mapping[str, t.Any], check: bool = False) -> dict[str, t.Any]:
    """The module's result. Raises ValueRefused for options that make no sense."""
    manager = field_manager(request["fabric"])
    setups, clusters = open_clusters(request)
    names = [name for name in sorted(setups) if name in clusters.clients and not setups[name].static]
    work = _released if request.get("state") == "released" else _cluster
    reports = clusters.read(
        "read nodes",
        lambda name, client: guarded(client, lambda: work(client, setups[name], request, manager, check)),
        names,
    )
    return result_of(reports, clusters, "nodes")


def variant_of(request: t.Mapping[str, t.Any]) -> Variant:
    return Variant(
        request.get("region_from") or "metro", request.get("zone_from") or "none", request.get("address_list") or "all"
    )


def _cluster(client: Client, setup: Setup, request: t.Mapping[str, t.Any], manager: str, check: bool) -> Report:
    plan, shown, puts, gone = Plan(), {}, t.cast(list[Put], []), t.cast(list[Put], [])
    provider = make_provider(setup, ClusterState(setup.balancer), "", seconds_of(request))
    devices = provider.list_devices()  # complete, or nothing happens: what is missing in half a list is not gone
    variant, mapped = variant_of(request), request.get("node_devices") or {}
    nodes = client.list(NODES).items
    for node in nodes:
        name = str(node["metadata"]["name"])
        row: dict[str, t.Any] = {"device": "", "initialized": UNINITIALIZED not in _taints(node), "state": ""}
        shown[name] = row
        ident = str((node.get("spec") or {}).get("providerID") or "")
        try:
            device = device_of(name, ident or str(mapped.get(name) or ""), devices, variant)
            fate = fate_of(_ready(node), device, _taints(node), bool(request.get("delete_nodes")))
            if device is None:
                row["state"] = "gone"
                if fate.delete:
                    before = {"providerID": (node.get("spec") or {}).get("providerID")}
                    change = Change("delete", "Node", f"{setup.cluster}/{name}", before, None)
                    gone.append(
                        Put(change, f"{NODES}/{segment(name)}", None, str(node["metadata"].get("uid") or ""), 3)
                    )
                elif not row["initialized"]:
                    plan.refuse(
                        f"node {setup.cluster}/{name}",
                        "no_device",
                        "the project has no device of this name; the taint stays",
                    )
                continue
            row.update(device=device.id, state=device.state)
            puts += _puts(setup, name, node, device, fate, variant, manager if request.get("adopt") else "")
        except ValueRefused as error:
            plan.refuse(f"node {setup.cluster}/{name}", error.reason, error.message)
    refusal = check_budget(
        setup.cluster,
        "Node",
        len(nodes),
        len(gone),
        len(nodes) - len(gone),
        request.get("max_deletes"),
        setup.cluster in (request.get("confirm_empty") or ()),
    )
    if refusal is not None:
        plan.refused.append(refusal)
    else:
        puts += gone
    plan.warnings += provider.warnings()
    if check:
        plan.changes += [put.change for put in puts]
        return Report(plan, [], shown, provider.calls)
    done = put_all(client, puts, manager)
    plan.changes += done.changes
    plan.refused += done.refused
    return Report(plan, done.failed, shown, provider.calls)


def _released(client: Client, setup: Setup, request: t.Mapping[str, t.Any], manager: str, check: bool) -> Report:
    """Nodes stay as they are, and we are no longer on record for what a cloud controller gives them."""
    plan, shown = Plan(), t.cast(dict[str, t.Any], {})
    puts = []
    for node in client.list(NODES).items:
        name = str(node["metadata"]["name"])
        shown[name] = {"device": "", "initialized": UNINITIALIZED not in _taints(node), "state": ""}
        put = given_up(setup.cluster, "Node", node, f"{NODES}/{segment(name)}", within=_is_owned)
        puts += [put] if put.body else []
    done = Written([put.change for put in puts], [], []) if check else put_all(client, puts, manager)
    plan.changes, plan.refused = done.changes, done.refused
    return Report(plan, done.failed, shown, 0)


def _is_owned(leaf: tuple[str, ...]) -> bool:
    """Whether a field of a Node is one that a cloud controller writes; what other capabilities wrote stays owned."""
    return leaf[:2] in (
        ("f:spec", "f:providerID"),
        ("f:spec", "f:taints"),
        ("f:status", "f:addresses"),
        ("f:metadata", "f:labels"),
    )


def _taints(node: Object) -> list[str]:
    return [str(one.get("key")) for one in (node.get("spec") or {}).get("taints") or () if isinstance(one, dict)]


def _ready(node: Object) -> bool:
    rows = dicts_of(mapping(node, "status").get("conditions"))
    states = [row.get("status") for row in rows if row.get("type") == "Ready"]
    # a node that has not reported yet is not one that has gone
    return states in ([], ["True"])


def _puts(
    setup: Setup, name: str, node: Object, device: Device, fate: Fate, variant: Variant, adopting: str = ""
) -> list[Put]:
    """Addresses first, the taint last: pods must not come before the node has its fields. ``adopting``: the manager that gets the record, or none."""
    meta, spec = node["metadata"], node.get("spec") or {}
    provided = (meta.get("annotations") or {}).get(PROVIDED_IP)
    facts = node_facts(device, _taints(node), str(spec.get("providerID") or ""), provided, variant)
    path, ident = f"{NODES}/{segment(name)}", f"{setup.cluster}/{name}"
    puts = []
    addresses = (node.get("status") or {}).get("addresses") or []
    if not same_addresses(addresses, facts.addresses):
        body = {"status": {"addresses": facts.addresses}}
        puts.append(
            Put(
                Change("update", "Node status", ident, {"addresses": addresses}, {"addresses": facts.addresses}),
                path + "/status",
                body,
                stage=0,
            )
        )
    before: dict[str, t.Any] = {}
    after: dict[str, t.Any] = {}
    patch: dict[str, t.Any] = {"metadata": {"resourceVersion": meta.get("resourceVersion")}}
    if facts.provider_id and not spec.get("providerID"):
        after["providerID"] = facts.provider_id
    labels = {key: value for key, value in facts.labels.items() if (meta.get("labels") or {}).get(key) != value}
    if labels:
        before["labels"] = {key: meta["labels"][key] for key in labels if key in (meta.get("labels") or {})}
        after["labels"] = patch["metadata"]["labels"] = labels
    taints = _new_taints(copy.deepcopy(spec.get("taints") or []), facts.taint_removed, fate)
    if taints != (spec.get("taints") or []):
        before["taints"], after["taints"] = spec.get("taints") or [], taints
    if after:
        patch["spec"] = {key: after[key] or None for key in ("providerID", "taints") if key in after}
        puts.append(
            Put(Change("update", "Node", ident, before, after), path, patch, stage=1, again=_again(patch, spec))
        )
    return puts + (_taken(node, path, ident, adopting) if adopting else [])


def _taken(node: Object, path: str, ident: str, manager: str) -> list[Put]:
    """The write after which nobody but us is on record for what a cloud controller writes, equal values too; none where it is so already.

    Not for taints: they are one field, which belongs to whoever changed any of them last.
    """

    def within(leaf: Path) -> bool:
        label = leaf[:2] == ("f:metadata", "f:labels") and len(leaf) == 3 and leaf[2][2:] in GIVEN_LABELS
        return label or leaf[:2] in (("f:spec", "f:providerID"), ("f:status", "f:addresses"))

    def theirs(entry: Object) -> bool:
        return entry.get("manager") != manager

    return record_taken("Node", ident, path, node, theirs, within, manager)


def _again(patch: dict[str, t.Any], seen: Object) -> t.Callable[[Object], dict[str, t.Any] | None]:
    """Nodes change every few seconds: once more, if the taints are still those that we saw."""

    def fresh(now: Object) -> dict[str, t.Any] | None:
        if ((now.get("spec") or {}).get("taints") or []) != (seen.get("taints") or []):
            return None
        return dict(patch, metadata=dict(patch["metadata"], resourceVersion=now["metadata"].get("resourceVersion")))

    return fresh


def _new_taints(taints: list[t.Any], initialized: bool, fate: Fate) -> list[t.Any]:
    if initialized:
        taints = [one for one in taints if one.get("key") != UNINITIALIZED]
    if fate.shutdown is False:
        taints = [one for one in taints if one.get("key") != SHUTDOWN]
    if fate.shutdown:
        taints.append({"key": SHUTDOWN, "effect": "NoSchedule"})
    return taints


def findings(
    nodes: t.Iterable[Object], devices: t.Sequence[Device], mapped: t.Mapping[str, str], pods: t.Iterable[Object]
) -> list[dict[str, str]]:
    """What is in the way (ccm 16): names that do not meet, and programs that have a cloud of their own."""
    found = []
    names = {device.hostname for device in devices}
    for node in nodes:
        name, ident = str(node["metadata"]["name"]), (node.get("spec") or {}).get("providerID")
        if not ident and name not in mapped and devices and name not in names:
            found.append(
                {
                    "object": "node " + name,
                    "reason": "no_device",
                    "message": "no device has this name; set node_devices",
                }
            )
        if (
            not ident
            and UNINITIALIZED not in _taints(node)
            and not any(label in (node["metadata"].get("labels") or {}) for label in LABELS)
        ):
            message = "it has neither a provider ID nor the taint: its kubelet runs without --cloud-provider=external"
            found.append({"object": "node " + name, "reason": "kubelet_flag", "message": message})
    for pod in pods:
        for container in (pod.get("spec") or {}).get("containers") or ():
            for argument in [*(container.get("command") or ()), *(container.get("args") or ())]:
                key, unused, value = str(argument).partition("=")
                if key == "--cloud-provider" and value not in ("", "external"):
                    label = f"pod kube-system/{pod['metadata'].get('name')}"
                    found.append({"object": label, "reason": "cloud_provider", "message": f"it runs with {argument}"})
    return sorted(found, key=lambda row: (row["object"], row["reason"]))
