# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Vectors of the tenant mapping: both servers are stores in memory; nothing is decided here."""

from __future__ import annotations

import copy
import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._tenants import (
    allocation,
    links,
    nat_blocks,
    placement,
)
from ansible_collections.multicluster.network.plugins.module_utils._tenants.converge import converge, one_by_one
from ansible_collections.multicluster.network.plugins.module_utils._tenants.options import (
    APINET,
    SOURCE,
    Options,
    needed,
    parse_options,
)
from ansible_collections.multicluster.network.plugins.module_utils._tenants.store import MemoryStore, StoreError
from ansible_collections.multicluster.network.plugins.module_utils._tenants.view import View
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

from ..compare import merge_patch, without_empty

Vector = t.Mapping[str, t.Any]
Answer = dict[str, t.Any]

NOW = "2026-01-02T03:04:05Z"
#: The vectors set no budget for deletions (decision 38), no grants (decision 29), and expect that a server which refuses a
#: manifest that would change nothing is noticed, as by upstream.
OPTIONS = {"apinet_namespace": "apinet-system", "max_deletes": -1, "always_apply": True}
RUNS = 10


def parse(vector: Vector) -> Answer:
    interface = vector.get("kind") == "network_interface"
    try:
        found = (links.parse_interface_id if interface else links.parse_network_id)(vector["input"])
    except ValueRefused as error:
        return {"error": error.reason}
    return {"ok": dict(found._asdict())}


def format_(parts: t.Mapping[str, t.Any]) -> Answer:
    third = parts.get("node") if "node" in parts else parts.get("id")
    return {"ok": links.format_id((parts.get("namespace"), parts.get("name"), third, parts.get("uid")))}


# --- the two servers ---------------------------------------------------------------------------------------------


def _filler(fills: t.Sequence[Vector]) -> t.Callable[[Answer, t.Any], Answer]:
    def fill(obj: Answer, _before: t.Any) -> Answer:
        for given in fills:
            if (given["kind"], given["name"]) == (obj.get("kind"), obj["metadata"]["name"]):
                obj = _missing(obj, given["set"])
        return obj

    return fill


def _missing(value: t.Any, added: t.Any) -> t.Any:
    """A value with what it lacks; entries of lists are matched by name."""
    if isinstance(added, dict) and isinstance(value, dict):
        return dict(value, **{key: _missing(value.get(key), item) for key, item in added.items()})
    if isinstance(added, list) and isinstance(value, list):
        given = {item.get("name"): item for item in added if isinstance(item, dict)}
        return [_missing(item, given.get(item.get("name"), {})) if isinstance(item, dict) else item for item in value]
    return copy.deepcopy(added) if value in (None, "", [], {}) else value


def _rejecter(rejects: t.Sequence[Vector]) -> t.Callable[[str, t.Any, t.Any], None]:
    def admit(verb: str, key: t.Any, _obj: t.Any) -> None:
        known = {"create": "apply", "patch": "apply", "status": "apply"}
        named = verb if key.kind == "NetworkInterface" else known.get(verb, verb)
        for given in rejects:
            same = given["kind"] == key.kind and given.get("name") in (None, key.name)
            if same and (named in given["verbs"] or (verb == "delete" and "delete" in given["verbs"])):
                raise StoreError("Rejected", str(given.get("reason", "")))

    return admit


def _group(obj: Vector) -> t.Any:
    return (obj.get("kind"), obj["metadata"].get("namespace"), obj["metadata"].get("name"))


def reconcile(vector: Vector) -> Answer:
    config = dict(OPTIONS, **(vector.get("config") or {}))
    if vector.get("kinds"):
        config["kinds"] = vector["kinds"]
    config["switches"] = vector.get("extension") or []
    options = parse_options(config)
    source = MemoryStore(vector.get("source") or [], prefix="s")
    fill, admit = _filler(vector.get("apinet_fills") or []), _rejecter(vector.get("apinet_rejects") or [])
    apinet = MemoryStore(vector.get("apinet") or [], admit=admit, fill=fill, prefix="a")
    before = {_group(obj): obj for obj in source.all()}
    for _run in range(RUNS):
        written = len(source.writes) + len(apinet.writes)
        stores = {SOURCE: source, APINET: apinet}
        result = converge(_view(stores, options), NOW, one_by_one(stores, options))
        if written == len(source.writes) + len(apinet.writes):
            break
    else:
        raise AssertionError("it does not settle")
    failed = [outcome.source or outcome.key for outcome in result.failed]
    return {
        "source_patches": _patches(before, {_group(obj): obj for obj in source.all()}),
        "apinet_after": apinet.all(),
        "errors": [{"kind": key.kind, "namespace": key.namespace, "name": key.name} for key in failed],
    }


def _view(stores: t.Mapping[str, MemoryStore], options: Options) -> View:
    """What a run reads: one list for each kind and side."""
    found: dict[str, list[t.Any]] = {SOURCE: [], APINET: []}
    for side, kind in needed(options):
        within = options.apinet_namespace if side == APINET else options.watch_namespace
        found[side] += stores[side].list(options.profile.group_version(side, kind), kind, within)
    return View(found[SOURCE], found[APINET], options)


def _patches(before: t.Mapping[t.Any, Vector], after: t.Mapping[t.Any, Vector]) -> list[Answer]:
    found = []
    for place, obj in before.items():
        named = dict(zip(("kind", "namespace", "name"), place))
        if place not in after:
            found.append(dict(named, deleted=True))
            continue
        patch = merge_patch(*[_comparable(side) for side in (obj, after[place])])
        if patch:
            found.append(dict(named, patch=patch))
    return found


def _comparable(obj: Vector) -> t.Any:
    plain = without_empty(obj)
    plain["metadata"].pop("resourceVersion", None)
    return plain


# --- the network side ------------------------------------------------------------------------------------------


def _zipped(given: t.Sequence[str]) -> list[Answer]:
    return [{"ip": address, "name": str(index)} for index, address in enumerate(given)]


def nat_table(vector: Vector) -> Answer:
    given = vector["gateway"]
    gateway = {
        "metadata": {"name": given["name"], "uid": given["uid"]},
        "spec": {
            "networkRef": {"name": given["network"]},
            "ipFamily": given["family"],
            "portsPerNetworkInterface": given["ports"],
            "ips": _zipped(given["ips"]),
        },
    }
    interfaces = []
    for item in vector["interfaces"]:
        claim = {"ipFamily": given["family"], "claimRef": {"name": "", "uid": item.get("claim")}}
        meta = {"name": item["name"], "uid": item["uid"], "deletionTimestamp": NOW if item.get("deleting") else None}
        spec = {
            "nodeRef": {"name": item.get("node")},
            "networkRef": {"name": item.get("network", given["network"])},
            "ips": item.get("ips"),
            "publicIPs": [{"ipFamily": family} for family in item.get("public") or []],
            "natGateways": [claim] if item.get("claim") else [],
        }
        interfaces.append({"metadata": meta, "spec": spec})
    try:
        return dict(nat_blocks.plan_nat(gateway, interfaces, vector.get("existing_table") or [])._asdict())
    except ValueRefused as error:
        return {"error": error.reason}


def autoscaler(vector: Vector) -> Answer:
    data = vector["input"]
    args = (data["ports_per_interface"], data["current_ips"], data["requested"], data.get("min"), data.get("max"))
    try:
        found = [nat_blocks.desired_addresses(*args, upstream=upstream) for upstream in (True, False)]
    except ValueRefused as error:
        return {"error": error.reason}
    return {"desired_upstream": found[0], "desired_recommended": found[1]}


def _affinity(nodes: t.Sequence[str] | None, anti: Vector | None = None) -> Answer:
    found: Answer = {}
    if nodes is not None:
        terms = [item for node in nodes for item in placement.node_term(node)[TERMS]["nodeSelectorTerms"]]
        found["nodeAffinity"] = {TERMS: {"nodeSelectorTerms": terms}}
    if anti:
        term = {"topologyKey": anti["topology_key"], "labelSelector": {"matchLabels": anti["match_labels"]}}
        found["instanceAntiAffinity"] = {TERMS: [term]}
    return found


def daemonset(vector: Vector) -> Answer:
    instances = []
    for item in vector["instances"]:
        spec: Answer = {"affinity": _affinity([item["target_node"]])}
        if item.get("scheduled"):
            spec["nodeRef"] = {"name": item["target_node"]}
        meta = {"name": item["name"], "creationTimestamp": item.get("created")}
        if item.get("deleting"):
            meta["deletionTimestamp"] = NOW
        instances.append({"metadata": meta, "spec": spec})
    nodes = [{"metadata": {"name": node}} for node in vector["nodes"]]
    template = {"affinity": _affinity(vector.get("node_affinity_nodes"))}
    return dict(placement.plan_daemon(template, nodes, instances)._asdict())


def _instance(item: Vector) -> Answer:
    spec: Answer = {"affinity": _affinity(item.get("node_affinity_nodes"), item.get("anti_affinity"))}
    if item.get("node"):
        spec["nodeRef"] = {"name": item["node"]}
    spread = item.get("spread") or []
    if spread:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": each["max_skew"],
                "topologyKey": each["topology_key"],
                "labelSelector": {"matchLabels": each.get("match_labels") or {}},
            }
            for each in spread
        ]
    return {"metadata": {"name": item["name"], "labels": item.get("labels")}, "spec": spec}


def schedule(vector: Vector) -> Answer:
    nodes = [{"metadata": {"name": node["name"], "labels": node.get("labels")}} for node in vector["nodes"]]
    placed = [_instance(item) for item in vector["placed"]]
    answer: Answer = {}
    for item in vector["pending"]:
        instance = _instance(item)
        found = placement.acceptable_nodes(instance, nodes, placed)
        answer[item["name"]] = found or None
        if found:
            placed.append(dict(instance, spec=dict(instance["spec"], nodeRef={"name": found[0]})))
    return answer


def allocator(vector: Vector) -> Answer:
    data = vector["input"]
    owner: Answer = {"metadata": {"namespace": "apinet-system", "name": "x", "uid": "u"}}
    try:
        if data["kind"] == "Network":
            known = {
                bound: data[key] for bound, key in (("lowest", "min"), ("highest", "max")) if data.get(key) is not None
            }
            found = allocation.next_id(set(data.get("taken") or ()), data.get("wanted"), **known)
            return {"id": found, "claim": allocation.claim_reference("networks", owner)}
        found = allocation.next_address(
            [data["prefix"]] if data.get("prefix") else [],
            data["family"],
            set(data.get("taken") or ()),
            data.get("wanted"),
        )
    except ValueRefused as error:
        return {"error": error.reason}
    labels = allocation.address_labels(found, data["family"])
    return {"ip": found, "claim": allocation.claim_reference("ips", owner), "labels": labels}


TERMS = "requiredDuringSchedulingIgnoredDuringExecution"
MAPPED = (
    "network",
    "virtual_ip",
    "load_balancer",
    "load_balancer_routing",
    "nat_gateway",
    "network_interface",
    "delete",
    "combined",
)
HANDLERS: dict[str, t.Any] = {"provider_id": {"parse": parse, "format": format_}}
HANDLERS.update((group, reconcile) for group in MAPPED)
HANDLERS.update(
    {
        "optional_apinet_side.nat_table": nat_table,
        "optional_apinet_side.autoscaler": autoscaler,
        "optional_apinet_side.daemonset": daemonset,
        "optional_apinet_side.scheduler": schedule,
        "optional_apinet_side.allocator": allocator,
    }
)
