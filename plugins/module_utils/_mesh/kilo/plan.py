# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole cluster mesh: what every target gets, keeps and loses, with the reason for each (kilo 13, 20)."""

from __future__ import annotations

import typing as t

from ..._plan.budget import check_budget, why_refused
from ..._plan.object_plan import Key, Write
from ..._plan.plan import CREATE, DELETE, UPDATE, Change, Plan
from ..._plan.sole_owner import others, release_patch
from ..._values.addresses import Address
from ..fabric.claims import label_of
from .endpoints import NONE, SOURCES, collect_discovered, endpoint_address, enrich_endpoint
from .meshes import mesh_id
from .node_annotations import NodeAnnotations, desired_annotations
from .nodes import DUPLICATE
from .peers import Peer, changed_fields, diff_peers, peer_endpoint, same_spec, with_endpoint, without
from .sources import Gathered, Settings, SourcePlan, Sources, Target, peer_spec, plan_sources
from .status import Outcome
from .validation import endpoint_name, refused_by_kilo
from .values import API_VERSION, CLUSTERMESH_ENDPOINT, DEFAULT_PORT, ENDPOINT

RELEASE = "release"
KIND = "Peer"
#: Of an owned Peer, this may be another's: the second key of a tunnel, which no cluster publishes.
THEIRS = (("spec", "presharedKey"),)


class PeerWrite(t.NamedTuple):
    """One write to one target: create, update, delete or release. ``early``: before the creations, since it frees a key or
    range that one of them needs."""

    write: Write
    action: str
    reason: str
    early: bool = False

    @property
    def name(self) -> str:
        return self.write.key.name

    @property
    def manifest(self) -> dict[str, t.Any] | None:
        """The Peer as it should be, None where it goes or is given back."""
        return self.write.manifest if self.action in (CREATE, UPDATE) else None


class Kept(t.NamedTuple):
    """A Peer that stays although nothing asks for it now."""

    target: str
    name: str
    reason: str


class MeshPlan(t.NamedTuple):
    """``writes`` of each target in order; ``outcomes`` of each mesh by id; ``anchors`` {mesh: {cluster: node}}.

    ``annotations`` {cluster: {node: {key: value}}} of Nodes; ``isolated`` {cluster: what to do} of clusters without any Peer.
    """

    plan: Plan
    writes: dict[str, list[PeerWrite]]
    kept: list[Kept]
    outcomes: dict[str, Outcome]
    anchors: dict[str, dict[str, str]]
    bootstrapping: bool
    adoptable: dict[str, int]
    annotations: NodeAnnotations
    isolated: t.Mapping[str, str]


class _Run:
    """One planning pass: the inputs, and what has been found so far."""

    def __init__(self, gathered: Gathered, settings: Settings, targets: dict[str, Target]) -> None:
        self.gathered, self.settings, self.targets = gathered, settings, targets
        self.plan = Plan()
        self.writes: dict[str, list[PeerWrite]] = {name: [] for name in sorted(targets)}
        self.kept: list[Kept] = []
        self.adoptable: dict[str, int] = {}

    def create(self, target: Target, peer: Peer, reason: str) -> None:
        ident = f"{target.name}/{peer.name}"
        change = Change(CREATE, KIND, ident, None, dict(peer.spec, labels=peer.labels, reason=reason))
        write = Write(change, _key(peer.name), peer.manifest(), None, None, self.settings.adopt)
        self.writes[target.name].append(PeerWrite(write, CREATE, reason))

    def update(self, target: Target, peer: Peer, reason: str) -> None:
        """An owned Peer, or one to take over. Another's key for the tunnel (presharedKey) is never touched."""
        name = peer.name
        obj = target.objects[name]
        metadata, before = obj["metadata"], dict(peer_spec(obj))
        shown = dict(peer.spec)
        if "presharedKey" in before:
            before["presharedKey"] = shown["presharedKey"] = "(not shown)"
        change = Change(UPDATE, KIND, f"{target.name}/{name}", before, shown)
        # forced: the Peer is owned, whoever wrote what is there
        write = Write(change, _key(name), peer.manifest(), metadata.get("uid"), metadata.get("resourceVersion"), True)
        self.writes[target.name].append(PeerWrite(write, UPDATE, reason))

    def remove(self, target: Target, name: str, reason: str, action: str = DELETE, early: bool = False) -> None:
        obj = target.objects[name]
        metadata, spec = obj["metadata"], dict(peer_spec(obj))
        if "presharedKey" in spec:
            spec["presharedKey"] = "(not shown)"
        shown = dict(spec, reason=reason)
        change = Change(
            DELETE if action == DELETE else UPDATE,
            KIND,
            f"{target.name}/{name}",
            shown,
            None if action == DELETE else dict(shown, owner="(nobody)"),
        )
        patch = release_patch(obj) if action == RELEASE else None
        write = Write(change, _key(name), patch, metadata.get("uid"), metadata.get("resourceVersion"), False)
        self.writes[target.name].append(PeerWrite(write, action, reason, early))

    def purge(
        self,
        target: Target,
        source: str,
        doomed: t.Mapping[str, str],
        owned: int,
        remaining: int,
        turned_away: str = "",
    ) -> None:
        """Delete owned Peers, within the budget of (target, source)."""
        if not doomed:
            return
        settings = self.settings
        confirmed = source in settings.confirm_empty or target.name in settings.confirm_empty
        refusal = check_budget(
            source, KIND, owned, len(doomed), remaining, settings.max_deletes, confirmed, turned_away, claimed=True
        )
        if refusal is not None:
            message = f"in cluster {target.name}: {refusal.message}"
            self.plan.refuse(f"{target.name}/{source}", refusal.reason, message)
            self.kept.extend(Kept(target.name, name, "delete_budget") for name in sorted(doomed))
            return
        for name in sorted(doomed):
            self.remove(target, name, doomed[name])


def plan_clustermesh(meshes: t.Sequence[t.Mapping[str, t.Any]], gathered: Gathered, settings: Settings) -> MeshPlan:
    """All writes of all targets. Pure: the same input gives the same plan."""
    targets = {name: Target(name, peers, settings.manager) for name, peers in gathered.peers.items()}
    run = _Run(gathered, settings, targets)
    if settings.state != "present":
        return _leave(run, meshes)
    sources = plan_sources(meshes, gathered, targets, settings)
    for finding in sources.findings:
        run.plan.refuse(", ".join(finding.meshes), finding.reason, finding.message)
    run.plan.refused.extend(sources.refused)
    run.plan.warnings.extend(sources.warnings)
    for name in sorted(filter(settings.gets_peers, targets)):
        _say_unresolved(run, targets[name])
        _plan_target(run, targets[name], sources, {mesh.get("name") for mesh in meshes})
        _in_order(run.writes[name])
        run.plan.changes.extend(write.write.change for write in run.writes[name])
    outcomes = {mesh_id(mesh): _outcome(mesh, sources, gathered) for mesh in meshes}
    anchors: dict[str, dict[str, str]] = {}
    for (mesh_name, cluster), source in sorted(sources.plans.items(), key=lambda item: item[0]):
        if source.anchor is not None:
            anchors.setdefault(mesh_name, {})[cluster] = source.anchor
    bootstrapping = any(source.bootstrapping for source in sources.plans.values())
    bootstrapping = bootstrapping or any(kept.reason == DUPLICATE for kept in run.kept)  # soon over
    on_nodes = desired_annotations(sources, gathered, settings, run.plan.warnings)
    isolated = {key[1]: _isolated(source, gathered) for key, source in sources.plans.items() if source.without_endpoint}
    return MeshPlan(run.plan, run.writes, run.kept, outcomes, anchors, bootstrapping, run.adoptable, on_nodes, isolated)


def _key(name: str) -> Key:
    return Key(API_VERSION, KIND, "", name)


def _isolated(source: SourcePlan, gathered: Gathered) -> str:
    cluster = source.entry["name"]
    names = sorted(name for name, reason in source.reasons.items() if reason == NONE)
    found = {node.name: node.annotation(ENDPOINT) for node in gathered.nodes[cluster]}
    private = [found[name] for name in names if found.get(name)]
    text = (
        "none of the {0} nodes of cluster {1} gets a Peer, since other clusters could not reach one: no node has an endpoint. Write it with "
        "kubectl annotate node {2} {3}=ADDRESS:{4}"
    ).format(
        len(source.reasons), cluster, names[0], CLUSTERMESH_ENDPOINT, source.entry.get("wireguardPort") or DEFAULT_PORT
    )
    if private:
        text += f", or set clustermesh_kilo_endpoints to any where the others reach the private addresses that Kilo found ({', '.join(private[:3])})"
    return text + ", or set clustermesh_endpoint_policy to roam for nodes behind NAT"


def _plan_target(run: _Run, target: Target, sources: Sources, defined: t.Container[t.Any]) -> None:
    mine = [mesh for mesh in sources.meshes if any(entry["name"] == target.name for entry in mesh["clusters"])]
    observed = collect_discovered(run.gathered.nodes.get(target.name, ()))
    desired: dict[tuple[str, str], list[Peer]] = {}
    for mesh in mine:
        for entry in mesh["clusters"]:
            source = sources.plans.get((mesh["name"], entry["name"]))
            if source is not None and entry["name"] != target.name:
                desired[mesh["name"], entry["name"]] = _for_target(run, source, observed, sources)
    if len(mine) > 1:
        desired = _one_owner(target, desired)
    for mesh in sources.meshes:
        entries = {entry["name"] for entry in mesh["clusters"]}
        for name, source_name in target.existing.groups():
            if name == mesh["name"] and (
                target.name not in entries or source_name not in entries or source_name == target.name
            ):
                _purge_group(run, target, name, source_name, "its cluster is not in the mesh any more")
    for name, source_name in target.existing.groups() if run.settings.purge_meshes else ():
        if name and name not in defined:
            _purge_group(run, target, name, source_name, "its mesh is gone")
    leaving = frozenset(write.name for write in run.writes[target.name])
    for key, peers in desired.items():
        _plan_source(run, target, sources.plans[key], peers, leaving)


def _say_unresolved(run: _Run, target: Target) -> None:
    """Whoever wrote it: a name that does not resolve keeps an agent from doing anything at all."""
    for name, obj in target.objects.items():
        host = endpoint_name(peer_spec(obj))
        if host is not None and run.settings.resolved.get(host, [host]) == []:
            text = (
                "cluster {0}: the endpoint {1} of Peer {2} does not resolve here. An agent that cannot resolve it either changes no tunnel, route "
                "or rule at all until it can; agents that looked it up before go on until they restart"
            )
            run.plan.warnings.append(text.format(target.name, host, name))


def _purge_group(run: _Run, target: Target, mesh: str, source: t.Any, reason: str) -> None:
    doomed = {name: reason for name in target.existing.own(mesh, source) if target.owned(name)}
    run.purge(target, str(source), doomed, len(doomed), 0)


def _for_target(run: _Run, source: SourcePlan, observed: t.Mapping[str, str], sources: Sources) -> list[Peer]:
    """The source's Peers as this target gets them: with what its own nodes learnt about where they are (kilo 11)."""
    peers = list(source.peers.values())
    held: list[Address] = []
    if not observed or run.settings.learnt_endpoints == "never":
        return peers
    for index, (name, peer) in enumerate(source.peers.items()):
        learnt = observed.get(peer.spec["publicKey"])
        if learnt is None:
            continue
        resolved = peer_endpoint(source.nodes[name], source.entry, source.options.policy)[1]
        annotated = resolved is not None and resolved.source in [item[1] for item in SOURCES]
        if annotated and run.settings.learnt_endpoints != "before_annotations":
            continue  # decision 9: what somebody wrote beats what a node saw
        configured = peer.spec.get("endpoint")
        endpoint = enrich_endpoint(configured, learnt)
        address = endpoint_address(endpoint)
        if (
            endpoint is configured
            or address is None
            or sources.checked.routed(source.entry["name"], name, address) is not None
        ):
            continue
        held.append(address)
        spec = with_endpoint(
            dict(peer.spec, allowedIPs=source.routes(name)), endpoint, source.keepalive, source.entry, source.options
        )
        if resolved is None and "persistentKeepalive" in peer.spec:
            spec["persistentKeepalive"] = peer.spec["persistentKeepalive"]  # it still roams
        peers[index] = peer._replace(spec=spec)
    if held and source.extras and not source.options.own_endpoint_routes:
        # what one node carries for its whole cluster makes way for the endpoint of each of its nodes
        names = list(source.peers)
        if source.anchor in names:
            index = names.index(source.anchor)
            routes = without(peers[index].spec["allowedIPs"], held)
            peers[index] = peers[index]._replace(spec=dict(peers[index].spec, allowedIPs=routes))
    return peers


def _one_owner(target: Target, desired: t.Mapping[tuple[str, str], list[Peer]]) -> dict[tuple[str, str], list[Peer]]:
    """One Peer for a key that several meshes want, with the ranges of all of them (gap G13).

    The Peer that exists keeps the key, else the first by name has it.
    """
    by_key: dict[str, list[Peer]] = {}
    for peers in desired.values():
        for peer in peers:
            by_key.setdefault(peer.spec["publicKey"], []).append(peer)
    winners: dict[str, Peer] = {}
    for key, peers in by_key.items():
        if len(peers) > 1:
            ranked = sorted(peers, key=lambda peer: (peer.name not in target.objects, peer.name))
            union = dict.fromkeys(route for peer in ranked for route in peer.spec["allowedIPs"])
            winners[key] = ranked[0]._replace(spec=dict(ranked[0].spec, allowedIPs=list(union)))
    found: dict[tuple[str, str], list[Peer]] = {}
    for group, peers in desired.items():
        found[group] = []
        for peer in peers:
            winner = winners.get(peer.spec["publicKey"])
            if winner is None or winner.name == peer.name:
                found[group].append(winner or peer)
    return found


def _plan_source(
    run: _Run, target: Target, source: SourcePlan, peers: t.Sequence[Peer], leaving: t.AbstractSet[str]
) -> None:
    mesh, cluster = source.mesh["name"], source.entry["name"]
    own = target.existing.own(mesh, cluster)
    diff = diff_peers(mesh, cluster, target.existing, peers, leaving=leaving)
    created = {peer.name for peer in diff.create}
    strict = run.settings.strict_keys and run.settings.strict_endpoints
    for peer in peers:
        name = peer.name
        label = f"Peer {target.name}/{name}"
        problem = refused_by_kilo(peer.spec) if strict else None
        if problem is not None:
            run.plan.refuse(label, "refused_by_kilo", problem + "; Kilo takes no such Peer, so what exists stays")
            continue
        if name in diff.held:
            message = "its key is held by Peer {0}, which is not of this mesh and source and stays as it is"
            run.plan.refuse(label, "claimed_twice", message.format(diff.held[name]))
        elif name in created:
            if name in target.objects:
                run.plan.refuse(label, "not_ours", "a Peer of this name exists with other labels and stays as it is")
            else:
                run.create(target, peer, f"node {source.node_of.get(name, '')} has no Peer yet")
        else:
            _compare(run, target, peer, own[name], label)
    _plan_deletes(run, target, source, own, diff.delete, len(peers))


def _compare(run: _Run, target: Target, peer: Peer, existing: Peer, label: str) -> None:
    name, spec = peer.name, existing.spec
    if "presharedKey" in spec:
        spec = {field: value for field, value in spec.items() if field != "presharedKey"}
    same = same_spec(spec, peer.spec)
    # the owner is only asked for where it matters: most Peers of most runs are as desired, and have no other owner
    alongside = others(target.objects[name], run.settings.manager, THEIRS) if same else []
    if same and alongside and target.owned(name):
        run.update(target, peer, f"{', '.join(alongside)} is on record as its owner, too")
    elif same and (not run.settings.adopt or target.owned(name)):
        run.plan.unchanged += 1
    elif same:
        run.update(target, peer, "taken over as it is")
    elif (target.owned(name) or run.settings.adopt) and refused_by_kilo(spec) is not None:
        reason = f"Kilo does not see changes of a Peer that it refuses ({refused_by_kilo(spec)}), so it is made anew"
        run.remove(target, name, reason, early=True)
        run.create(target, peer, reason)
    elif target.owned(name):
        run.update(target, peer, "differs in " + ", ".join(changed_fields(spec, peer.spec)))
    elif run.settings.adopt:
        run.update(target, peer, "taken over; differs in " + ", ".join(changed_fields(spec, peer.spec)))
    else:
        run.adoptable[target.name] = run.adoptable.get(target.name, 0) + 1
        message = "was made by somebody else and differs in {0}; set adopt to take it over"
        run.plan.refuse(label, "adoptable", message.format(", ".join(changed_fields(spec, peer.spec))))


def _plan_deletes(
    run: _Run, target: Target, source: SourcePlan, own: t.Mapping[str, Peer], surplus: t.Sequence[str], desired: int
) -> None:
    if not surplus:
        return
    doomed: dict[str, str] = {}
    remaining = desired
    for name in surplus:
        node = source.node_of.get(name)
        if node in source.kept:
            remaining += 1
            run.kept.append(Kept(target.name, name, source.reasons[node]))
        elif not target.may_remove(name, run.settings.adopt):
            run.adoptable[target.name] = run.adoptable.get(target.name, 0) + 1
            message = "nothing asks for it, and somebody else made it; set adopt to have it removed"
            run.plan.refuse(f"Peer {target.name}/{name}", "adoptable", message)
        elif node is None:
            doomed[name] = "its node is gone"
        elif node in source.led_by:
            doomed[name] = f"node {node}: {source.led_by[node]} leads its location now"
        else:
            doomed[name] = "node {0}: {1}".format(node, source.reasons.get(node, "another mesh's Peer has its key"))
    owned = sum(1 for name in own if name in doomed or target.owned(name))
    cluster = source.entry["name"]
    skipped = {label_of(cluster, node) for node in source.reasons if node not in source.kept}
    why = why_refused(
        [refusal for refusal in run.plan.refused if refusal.object in skipped],
        [label_of(cluster, node) for node in source.peers],
    )
    run.purge(target, cluster, doomed, owned, remaining, why)


def _in_order(writes: list[PeerWrite]) -> None:
    """Deletions that free a key or a range for a creation come first, other deletions last."""
    coming = [write.manifest["spec"] for write in writes if write.manifest is not None]
    keys = {spec["publicKey"] for spec in coming}
    routes = {route for spec in coming for route in spec["allowedIPs"]}
    for index, write in enumerate(writes):
        if write.action == DELETE:
            before = write.write.change.before
            early = before.get("publicKey") in keys or any(route in routes for route in before.get("allowedIPs") or ())
            writes[index] = write._replace(early=write.early or early)
    writes.sort(key=lambda write: (not write.early, write.action == DELETE, write.name))


def _leave(run: _Run, meshes: t.Sequence[t.Mapping[str, t.Any]]) -> MeshPlan:
    """state absent: our Peers of the meshes go; released: they stay and are nobody's. Others' Peers are not touched."""
    names = {mesh.get("name") for mesh in meshes}
    action = DELETE if run.settings.state == "absent" else RELEASE
    for target_name in sorted(filter(run.settings.gets_peers, run.targets)):
        target = run.targets[target_name]
        for mesh, source in target.existing.groups():
            for name in target.existing.own(mesh, source) if mesh in names else ():
                if target.owned(name):
                    run.remove(target, name, f"the mesh is {run.settings.state}", action)
                elif action == DELETE and target.may_remove(name, run.settings.adopt):
                    run.remove(target, name, "the mesh is absent, taken over", action)
                elif action == DELETE:
                    run.adoptable[target_name] = run.adoptable.get(target_name, 0) + 1
                    run.plan.refuse(f"Peer {target_name}/{name}", "adoptable", "somebody else made it; it stays")
        _in_order(run.writes[target_name])
        run.plan.changes.extend(write.write.change for write in run.writes[target_name])
    return MeshPlan(run.plan, run.writes, [], {}, {}, False, run.adoptable, {}, {})


def _outcome(mesh: t.Mapping[str, t.Any], sources: Sources, gathered: Gathered) -> Outcome:
    ident = mesh_id(mesh)
    problem = next((finding.message for finding in sources.findings if ident in finding.meshes), None)
    if problem is not None:
        return Outcome(problem, [], [], {})
    clusters, isolated = [], {}
    skipped: list[t.Any] = []
    unreachable: dict[str, str] = {}
    for entry in mesh["clusters"]:
        name = entry["name"]
        source = sources.plans.get((mesh["name"], name))
        if source is not None:
            clusters.append((name, len(source.peers), len(source.reasons)))
            skipped.extend((f"{name}/{node}", reason) for node, reason in source.reasons.items())
            if source.without_endpoint:
                isolated[name] = NONE
        if name in gathered.unreachable:
            unreachable[name] = gathered.unreachable[name]
    return Outcome(None, clusters, skipped, unreachable, isolated)
