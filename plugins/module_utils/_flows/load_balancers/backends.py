# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration of a cluster's load balancer: MetalLB's ConfigMap or its custom resources. The others have none that we write (ccm 10)."""

from __future__ import annotations

import typing as t

from ..._kubernetes.client import Client, segment
from ..._kubernetes.errors import ListIncomplete
from ..._loadbalancers.bgp.values import NodeBgp
from ..._loadbalancers.metallb.config import POOLS, Config, ServiceKey, managed_text, parse_managed, pool_users
from ..._loadbalancers.metallb.resources import ADVERTISEMENT, LAYER2, PEER, POOL, SECRET, VERSIONS, Resources
from ..._loadbalancers.settings import CUSTOM_RESOURCES, METALLB, LoadBalancer
from ..._loadbalancers.setup import AUTO, Setup
from ..._loadbalancers.yaml_edit import edit, parse_document
from ..._plan.budget import check_budget, why_refused
from ..._plan.deletable import may_delete, why_it_stays
from ..._plan.objects import owners
from ..._plan.plan import Change, Refusal
from ..._plan.sole_owner import others, taken_paths, taken_record
from ..._values.keys import fingerprint
from ..._values.refused import ValueRefused, quoted
from ..._values.text import lower
from .writes import Put, difference

KINDS = (POOL, ADVERTISEMENT, PEER)
SYNC, ADD, REMOVE, ABSENT = "sync", "add", "remove", "absent"
#: Pools that go make room for those that come: MetalLB refuses any two that overlap.
_STAGES = {
    (POOL, "delete"): 1,
    (SECRET, "delete"): 6,
    (PEER, "delete"): 5,
    (ADVERTISEMENT, "delete"): 1,
    (LAYER2, "delete"): 1,
}
_LATER = {SECRET: 2, POOL: 2, PEER: 3, ADVERTISEMENT: 4, LAYER2: 4}


class BackendState(t.NamedTuple):
    """What there is: where it lives, the ConfigMap or the objects, each with its kind."""

    balancer: LoadBalancer
    configmap: t.Mapping[str, t.Any] | None = None
    objects: tuple[t.Mapping[str, t.Any], ...] = ()


class BackendRequest(t.NamedTuple):
    """What should be announced, and how much may go for it.

    ``services`` with their networks, ``gone`` those that are removed by name; ``nodes`` with BGP facts, ``alive`` all nodes of the cluster,
    ``whole`` whether every node's facts are known; ``reserved`` networks are of our reservations. ``refused``: the Services and nodes that this
    run refuses: their entries go like those of Services and nodes that are gone. ``adopt``, ``max_deletes``: the user's; ``confirmed``: whether
    confirm_empty names the cluster.
    """

    mode: str
    services: t.Mapping[ServiceKey, tuple[str, ...]]
    nodes: t.Sequence[NodeBgp]
    alive: frozenset[str]
    whole: bool
    reserved: frozenset[str]
    gone: tuple[ServiceKey, ...] = ()
    refused: tuple[Refusal, ...] = ()
    adopt: bool = False
    max_deletes: int | None = None
    confirmed: bool = False


class BackendPlan(t.NamedTuple):
    """Writes, refusals, notes, the networks that are in the back end once the writes are done, and why it announces none of them."""

    puts: list[Put]
    refused: list[Refusal]
    notes: list[str]
    mapped: frozenset[str]
    unreachable: str = ""


_NO_KIND = (
    "the API server has no {0} in {1}: install MetalLB 0.13.2 or newer in this cluster, or write another load_balancer into "
    "load_balancers_settings"
)
_NO_PEER = "MetalLB has no BGP peer in {0}: give its nodes bgp_speaker_neighbors with bgp_speaker_source_ip, or make a peer of your own"


def read(client: Client, setup: Setup) -> BackendState:
    """One GET, or one LIST a kind. Raises KubeErrors."""
    if setup.balancer.type != METALLB:
        return BackendState(setup.balancer)
    asks = setup.metallb_mode in (AUTO, CUSTOM_RESOURCES)
    balancer = setup.metallb(asks and client.serves(VERSIONS[POOL], POOL))
    if balancer.mode != CUSTOM_RESOURCES:
        path = f"/api/v1/namespaces/{segment(balancer.namespace)}/configmaps"
        items = client.list_served(path, field_selector="metadata.name=" + balancer.configmap)
        return BackendState(balancer, items[0] if items else None)
    objects: list[t.Mapping[str, t.Any]] = []
    label = "{0}={1}".format(*setup.resource_options.label)
    for kind in KINDS + ((LAYER2,) if setup.metallb_advertise else ()) + (SECRET,):
        if kind == SECRET and not _has_passwords(setup, objects):
            continue  # nobody needs to read Secrets for sessions without passwords
        resource = client.resource(VERSIONS[kind], kind)
        if resource is None:
            raise ValueRefused("kind_not_served", _NO_KIND.format(kind, VERSIONS[kind]))
        rows = client.list(resource.path(balancer.namespace), label_selector=label if kind == SECRET else None).items
        objects += [dict(row, kind=kind, apiVersion=VERSIONS[kind]) for row in rows]
    return BackendState(balancer, None, tuple(objects))


def _has_passwords(setup: Setup, objects: t.Iterable[t.Mapping[str, t.Any]]) -> bool:
    """Whether a session has one, or had one; a provider may give one at any time."""
    if not setup.static or any(node.password for node in setup.nodes):
        return True
    return any("passwordSecret" in (obj.get("spec") or {}) for obj in objects)


def mapped(setup: Setup, found: BackendState) -> dict[ServiceKey, set[str]]:
    """The networks that owned entries in the back end have for each Service now; none where its text cannot be read."""
    if found.balancer.type == METALLB and found.balancer.mode == CUSTOM_RESOURCES:
        return Resources(found.objects, setup.resource_options).networks()
    rows: dict[ServiceKey, set[str]] = {}
    try:
        pools = parse_document(((found.configmap or {}).get("data") or {}).get("config") or "").get(POOLS) or ()
        for pool in pools:
            for user in pool_users(pool):
                namespace, dummy, name = user.partition("/")
                rows.setdefault((namespace, name), set()).update(str(one) for one in pool.get("addresses") or ())
    except ValueRefused:
        return {}
    return rows


def plan_backend(
    client: Client, setup: Setup, found: BackendState, request: BackendRequest, manager: str
) -> BackendPlan:
    """What to write. Pure but for the discovery that read() has done already."""
    if found.balancer.type != METALLB:
        return BackendPlan(
            [], [], [], frozenset(network for networks in request.services.values() for network in networks)
        )
    if found.balancer.mode == CUSTOM_RESOURCES:
        return _resources(client, setup, found, request, manager)
    return _configmap(setup, found, request, manager)


class EntryBudget:
    """Whether Services and BGP peers may lose their place in the back end (decision 38), and what the user should know of it."""

    def __init__(self, cluster: str, request: BackendRequest) -> None:
        self.cluster, self.request = cluster, request
        self.refusals: list[Refusal] = []
        self.notes: list[str] = []

    def services_may_go(self, owned: t.Collection[str]) -> bool:
        """``owned``: the Services, ``namespace/name``, that owned entries are for."""
        kept = {"/".join(key) for key in self.request.services}
        gone = [frozenset([name]) for name in owned if name not in kept]
        return self._may_go("mapped Service", "Service", gone, len(owned), len(kept), "no longer announced")

    def peers_may_go(self, stale: t.Sequence[frozenset[str]], owned: int) -> bool:
        """``stale``: the nodes of each owned peer that no node's facts ask for any more; ``owned``: how many owned peers there are."""
        return self._may_go("BGP peer", "node", stale, owned, owned - len(stale), "without its BGP peers")

    def _may_go(
        self, what: str, kind: str, gone: t.Sequence[frozenset[str]], owned: int, kept: int, outcome: str
    ) -> bool:
        if self.request.mode != SYNC:
            return True
        refused = {
            row.object.partition("/")[2]: row._replace(object=row.object.partition(" ")[2])
            for row in self.request.refused
            if row.object.startswith(lower(kind) + " ")
        }
        names = {name for one in gone for name in one}
        rows = [refused[name] for name in sorted(names) if name in refused]
        why = why_refused(rows, sorted(names - set(refused)), kind)
        refusal = check_budget(
            self.cluster, what, owned, len(gone), kept, self.request.max_deletes, self.request.confirmed, why
        )
        if refusal is not None:
            self.refusals.append(refusal)
            return False
        self.notes += [f"{kind} {row.object.partition('/')[2]} is {outcome}: it is refused" for row in rows]
        return True


# -- the ConfigMap ---------------------------------------------------------------------------------------------------


def _configmap(setup: Setup, found: BackendState, request: BackendRequest, manager: str) -> BackendPlan:
    balancer, actual = found.balancer, found.configmap
    ident = f"{setup.cluster}/{balancer.namespace}/{balancer.configmap}"
    if actual is None:
        note = f"the ConfigMap {balancer.namespace}/{balancer.configmap} does not exist; MetalLB gets no configuration"
        return BackendPlan([], [], [note], frozenset(), note)
    text = (actual.get("data") or {}).get("config") or ""
    key = setup.scheme.domain + "/managed-peers"
    meta = actual.get("metadata") or {}
    recorded = (meta.get("annotations") or {}).get(key)
    budget = EntryBudget(setup.cluster, request)
    try:
        before = parse_document(text)
        config = Config(before, setup.config_options, parse_managed(recorded))
        entries = config.holds(request.nodes)
        _change_config(config, request, budget)
        after = edit(text, config.document, ("peers", "address-pools"))
    except ValueRefused as error:
        return BackendPlan([], [Refusal("ConfigMap " + ident, error.reason, error.message)], [], frozenset())
    patch: dict[str, t.Any] = {"metadata": {"resourceVersion": meta.get("resourceVersion")}}
    sides: tuple[dict[str, t.Any], dict[str, t.Any]] = ({}, {})
    if after != text:
        patch["data"] = {"config": after}
        sides[0]["config"], sides[1]["config"] = _shown(before), _shown(config.document)
    # it also shows, be it empty, that we wrote this ConfigMap: whoever edits the text later is on record for that alone
    managed, holds = managed_text(config.managed), bool(config.managed) or config.holds(request.nodes)
    if (
        managed != (recorded or "")
        or (holds and recorded is None and after != text)
        or (not holds and recorded is not None)
    ):
        patch["metadata"]["annotations"] = {key: managed if holds else None}
        sides[0][key], sides[1][key] = recorded or "", managed
    theirs = (
        [name for name in owners(actual, "data", "config") if name != manager]
        if entries and not _written_by(actual, manager)
        else []
    )
    if theirs and sides[1] and not request.adopt:
        message = "it has pools or peers of Services and nodes that {0} wrote; nothing is written alongside them, set adopt to take it over"
        refused = Refusal("ConfigMap " + ident, "adoptable", message.format(quoted(", ".join(theirs[:3]))))
        return BackendPlan(
            [], [refused], [], _networks(before), "" if before.get("peers") else _NO_PEER.format("its ConfigMap")
        )
    if theirs and request.adopt:
        record = taken_paths(actual, manager, [("data", "config"), ("metadata", "annotations", key)])
        if record is not None:
            patch["metadata"]["managedFields"] = record
            sides[0]["owner"], sides[1]["owner"] = ", ".join(theirs), manager
    puts = []
    if sides[1]:
        path = f"/api/v1/namespaces/{segment(balancer.namespace)}/configmaps/{segment(balancer.configmap)}"
        puts = [Put(Change("update", "ConfigMap", ident, sides[0], sides[1]), path, patch, stage=3)]
    unreachable = "" if config.document.get("peers") else _NO_PEER.format("its ConfigMap")
    return BackendPlan(puts, budget.refusals, config.notes + budget.notes, _networks(config.document), unreachable)


def _networks(document: t.Mapping[str, t.Any]) -> frozenset[str]:
    return frozenset(str(item) for pool in document.get(POOLS) or () for item in pool.get("addresses") or ())


def _change_config(config: Config, request: BackendRequest, budget: EntryBudget) -> None:
    # the ConfigMap's MetalLB has one address for a Service
    services, nodes = {key: networks[0] for key, networks in request.services.items()}, list(request.nodes)
    if request.mode in (SYNC, ABSENT) and budget.services_may_go(config.users()):
        config.sync_services(services, nodes, request.reserved)
    else:
        for key in request.gone:
            config.remove_service(key, "", request.reserved)
        for key in sorted(services):
            config.add_service(key, services[key], nodes, request.reserved)
    exact = request.mode == ABSENT or (request.mode == SYNC and request.whole)
    if exact and budget.peers_may_go(config.stale_peers(nodes, request.alive), config.count_peers()):
        config.sync_nodes(nodes, request.alive)
    elif request.mode != REMOVE:
        config.add_nodes(nodes)


def _shown(document: t.Any) -> t.Any:
    """A configuration for a diff: no passwords."""
    if isinstance(document, dict):
        return {
            key: fingerprint(str(value)) if key == "password" and value else _shown(value)
            for key, value in document.items()
        }
    if isinstance(document, list):
        return [_shown(item) for item in document]
    return document


# -- custom resources ------------------------------------------------------------------------------------------------


def _resources(client: Client, setup: Setup, found: BackendState, request: BackendRequest, manager: str) -> BackendPlan:
    options = setup.resource_options
    resources = Resources(found.objects, options)
    before = {(str(obj["kind"]), str(obj["metadata"]["name"])): obj for obj in found.objects}
    derived = {key for key in before if resources.is_derived(*key)}
    where = f"{setup.cluster}/{options.namespace}/"
    budget = EntryBudget(setup.cluster, request)
    try:
        failed = _change_resources(resources, request, budget)
    except ValueRefused as error:
        return BackendPlan(
            [], budget.refusals + [Refusal("MetalLB " + where[:-1], error.reason, error.message)], [], frozenset()
        )
    refused = budget.refusals + [
        Refusal("service " + "/".join(key), error.reason, error.message) for key, error in failed.items()
    ]
    puts: list[Put] = []
    staying: list[t.Mapping[str, t.Any]] = []
    for kind, name in sorted(set(before) | set(resources.objects)):
        resource = client.resource(VERSIONS[kind], kind)
        if resource is None:
            continue
        actual, after = before.get((kind, name)), resources.objects.get((kind, name))
        put = difference(setup.cluster, resource, options.namespace, name, actual, after)
        mine = actual is None or _written_by(actual, manager)
        if actual is not None and after is not None and resources.is_owned(kind, name) and (mine or request.adopt):
            put = _alone(put, setup.cluster, resource.path(options.namespace, name), actual, manager)
        if put is None:
            continue
        if actual is not None and not request.adopt and not mine:
            message = "carries the label of the cloud controller and has another owner; set adopt to take it over"
            refused.append(Refusal(f"{kind} {where}{name}", "adoptable", message))
            staying += [actual] if kind == POOL else []
            continue
        named = request.adopt and (kind, name) in derived
        if put.body is None and actual is not None and not named and not may_delete(actual, manager, mine, kind=kind):
            refused.append(Refusal(f"{kind} {where}{name}", "not_ours", why_it_stays(actual, manager, kind)))
            staying += [actual] if kind == POOL else []
            continue
        puts.append(put._replace(stage=_STAGES.get((kind, put.change.action), _LATER[kind])))
    # what is refused stays as it was: its addresses are announced, and none of them is given back
    pools = [obj for (kind, dummy), obj in resources.objects.items() if kind == POOL] + staying
    mapped = frozenset(str(item) for pool in pools for item in (pool.get("spec") or {}).get("addresses") or ())
    peers = any(kind == PEER for kind, dummy in resources.objects)
    unreachable = "" if peers or not mapped or options.layer2 is not None else _by_layer2(client, options.namespace)
    return BackendPlan(puts, refused, resources.notes + budget.notes, mapped, unreachable)


def _by_layer2(client: Client, namespace: str) -> str:
    """Without any peer only an L2Advertisement of the user's announces. Where we may not read those, we cannot say that there is none."""
    try:
        resource = client.resource(VERSIONS[LAYER2], LAYER2)
        if resource is not None and client.list(resource.path(namespace)).items:
            return ""
    except ListIncomplete:
        return ""
    return _NO_PEER.format("the namespace " + namespace)


def _change_resources(
    resources: Resources, request: BackendRequest, budget: EntryBudget
) -> dict[ServiceKey, ValueRefused]:
    failed: dict[ServiceKey, ValueRefused] = {}
    services, nodes = dict(request.services), list(request.nodes)
    if request.mode in (SYNC, ABSENT) and budget.services_may_go({"/".join(key) for key in resources.services()}):
        failed = resources.sync_services(services, nodes)
    else:
        for key in request.gone:
            resources.remove_service(key)
        for key in sorted(services):
            try:
                resources.add_service(key, services[key], nodes)
            except ValueRefused as error:
                failed[key] = error
    exact = request.mode == ABSENT or (request.mode == SYNC and request.whole)
    if exact and budget.peers_may_go(resources.stale_peers(nodes), resources.count_peers()):
        resources.sync_nodes(nodes)
    elif request.mode != REMOVE:
        resources.add_nodes(nodes)
    return failed


def _alone(put: Put | None, cluster: str, path: str, actual: t.Mapping[str, t.Any], manager: str) -> Put | None:
    """The write after which nobody else is on record for the object, the given one or one for that alone."""
    theirs = others(actual, manager)
    if not theirs:
        return put
    meta = actual["metadata"]
    record = taken_record(actual, manager)
    if put is not None and put.body is not None:
        return put._replace(body=dict(put.body, metadata=dict(put.body.get("metadata") or {}, managedFields=record)))
    ident = f"{cluster}/{meta.get('namespace')}/{meta.get('name')}"
    change = Change("update", str(actual["kind"]), ident, {"owner": ", ".join(theirs)}, {"owner": manager})
    return Put(change, path, {"metadata": {"resourceVersion": meta.get("resourceVersion"), "managedFields": record}})


def _written_by(obj: t.Mapping[str, t.Any], manager: str) -> bool:
    entries = (obj.get("metadata") or {}).get("managedFields") or ()
    return not entries or any(isinstance(entry, dict) and entry.get("manager") == manager for entry in entries)
