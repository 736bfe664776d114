# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is in the way of a rotation of keys, and what each step of it needs of the one before. Pure; plans are in their JSON form."""

from __future__ import annotations

import re
import typing as t

from ..._plan.mesh_plan import MeshPlan
from ..._values.generations import WHOLE_MESH, bypass_device, bypass_of_mesh
from ..._values.refused import ValueRefused, quoted
from ..kubespan.annotations import PUBLIC_KEY
from ..kubespan.generations import Layout
from ..semaphore.preshared import OFF
from ..semaphore.rotation import ASIDE, BACK, DONE, FINISHED, GO_ASIDE, GO_BACK, allowed_step
from . import kubespan_rotation
from .generations import node_devices, public_key_of, records_of

Data = dict[str, t.Any]
_UNITS = {"d": 86400, "h": 3600, "min": 60, "s": 1}
_AGE = re.compile(r"([1-9][0-9]{0,5})(d|h|min|s)\Z", re.ASCII)
#: How many names a message has.
_SHOWN = 6
#: What a key that changes in place costs where the other end learns it by an event, and what it waits for otherwise.
_COST = "about 5 s where the other end follows events, else until it next reads the annotations"


def refusal(mesh: MeshPlan, hosts: t.Collection[str], limited: t.Collection[str] | None, in_place: bool) -> str:
    """Why no rotation of the keys of these hosts begins; empty where it may. limited: the hosts that ``--limit`` left, None without one."""
    if mesh.spans_nodes and not any(node.publishable for node in mesh.nodes.values()):
        return "rotate_keys keeps how far it is in annotations of Nodes, and kubespan_registries has no annotations [no_annotations]"
    if mesh.failures:
        names = ", ".join(sorted(str(row["cluster"]) for row in mesh.failures))
        return f"cluster {names} could not be read, so nobody knows which keys its nodes have; run rotate_keys again when it answers [unreachable]"
    strange = sorted(set(hosts) - set(mesh.nodes))
    if strange:
        return f"rotate_nodes: {_few(strange)} is no node of the fabric [unknown_host]"
    records = records_of(mesh)
    needed = participants(mesh, hosts) | {host for host, _remote in records}
    if limited is not None and not needed.issubset(limited):
        return (
            f"--limit leaves out {_few(sorted(needed.difference(limited)))}, and a key changes at both ends together; name the nodes that get new keys in "
            "rotate_nodes in place of --limit [outside_limit]"
        )
    contested = _contested(mesh)
    if contested:
        return f"{_few(contested)} claims what another node claims too; settle that first, see the warnings of the plan [contested]"
    without = unmanaged(mesh, mesh.nodes) if mesh.preshared else []
    if without:
        return (
            f"{_few(without)} is no host of this inventory, and upstream programs know no preshared keys: its pairs would be cut. Add it to the inventory, or "
            "leave preshared: false [not_preshared]"
        )
    others = unmanaged(mesh, hosts)
    if others and not in_place:
        one = "a node" if mesh.spans_nodes else "a cluster"
        return (
            f"{_few(others)} is no host of this inventory, and upstream programs know one key of {one}: towards it the key would change in place, "
            f"which loses packets of these pairs ({_COST}). Accept that with rotate_in_place: true [in_place]"
        )
    return ""


def _contested(mesh: MeshPlan) -> list[str]:
    if mesh.kubespan is not None:
        contested = [f"{row['cluster']}/{row['node']}" for row in mesh.kubespan.contested]
        return sorted({*contested, *kubespan_rotation.disputes(mesh)})
    return sorted(
        f"{remote}/{row['node']}"
        for part in mesh.clusters.values()
        for remote, settings in part.remotes.items()
        for row in settings.contested
    )


def parse_age(text: str) -> int:
    """Seconds of ``90d``, ``12h``, ``30min`` or ``600s``. Raises ValueRefused."""
    found = _AGE.match(text)
    if found is None:
        raise ValueRefused("bad_age", f"rotate_older_than: {quoted(text)} is no age such as 90d or 12h")
    return int(found.group(1)) * _UNITS[found.group(2)]


def due_hosts(mesh: MeshPlan, hosts: t.Collection[str], ages: t.Mapping[str, int | None], limit: int) -> list[str]:
    """Of these hosts those with a key older than so many seconds, of one cluster: the one with the oldest key. None while an earlier rotation goes on.

    ages: seconds by host, None where it has no key. Raises ValueRefused ``unreachable`` where a node of the fabric did not report.
    """
    missing = sorted(host for host, node in mesh.nodes.items() if node.publishable and host not in ages)
    if missing:
        message = f"{_few(missing)} did not report the age of its keys, and keys change by their age only while all nodes answer [unreachable]"
        raise ValueRefused("unreachable", message)
    old = {host: age for host in hosts for age in [ages.get(host)] if age is not None and age > limit}
    if not old or records_of(mesh):
        return []
    oldest = max(sorted(old), key=lambda host: old[host])
    return sorted(host for host in old if mesh.node(host).cluster == mesh.node(oldest).cluster)


def participants(mesh: MeshPlan, hosts: t.Collection[str]) -> set[str]:
    """The hosts that a rotation concerns: those with new keys, and the nodes of the other clusters."""
    nodes = mesh.nodes
    if mesh.spans_nodes:
        return {host for host, node in nodes.items() if node.publishable and hosts}
    clusters = {nodes[host].cluster for host in hosts if host in nodes}
    return {host for host, node in nodes.items() if node.publishable and (host in hosts or (clusters - {node.cluster}))}


def unmanaged(mesh: MeshPlan, hosts: t.Collection[str]) -> list[str]:
    """``cluster/node`` of the peers of these hosts that are no hosts of the inventory."""
    if mesh.spans_nodes:
        return kubespan_rotation.unmanaged(mesh) if hosts else []
    managed = _managed(mesh)
    found: set[str] = set()
    for host in hosts:
        for remote, settings in mesh.cluster(mesh.node(host).cluster).remotes.items():
            found.update(f"{remote}/{row['node']}" for row in settings.peers if (remote, row["node"]) not in managed)
    return sorted(found)


def _managed(mesh: MeshPlan) -> dict[tuple[str, str], str]:
    return {(node.cluster, node.node_name): host for host, node in mesh.nodes.items() if node.publishable}


def lines(mesh: MeshPlan, hosts: t.Collection[str], state: str, in_place: bool) -> list[str]:
    """What a run will do, for people: each node, each pair."""
    records = records_of(mesh)
    found = []
    phases = sorted({record.phase for record in records.values()})
    if phases:
        what = "goes on with" if state == FINISHED else "takes back"
        found.append(f"{what} the rotation that an earlier run began ({', '.join(phases)})")
    if state != FINISHED:
        return found or ["no rotation has begun, so there is nothing to abandon"]
    if not {ASIDE, BACK}.intersection(phases):
        for host in sorted(hosts):
            found += _host_lines(mesh, host)
        found += _preshared_lines(mesh, hosts)
        if not hosts and not phases:
            found.append("no key is older than rotate_older_than, so none changes")
    others = unmanaged(mesh, hosts) if in_place else []
    if others:
        found.append(f"in place, with loss ({_COST}): pairs with {_few(others)}")
    return found


def _host_lines(mesh: MeshPlan, host: str) -> list[str]:
    if mesh.spans_nodes:
        return _lines_of_all(mesh, host)
    node, managed = mesh.nodes[host], _managed(mesh)
    rows = []
    for remote, settings in sorted(mesh.clusters[node.cluster].remotes.items()):
        peers = [str(row["node"]) for row in settings.peers if (remote, row["node"]) in managed]
        if peers and node.published.get(public_key_of(remote)):
            name = settings.device
            rows.append(f"{host}: new key of {name}, meanwhile by {bypass_device(name)}, with {_few(peers)}")
    return rows


def _lines_of_all(mesh: MeshPlan, host: str) -> list[str]:
    others = sorted(name for name, other in kubespan_rotation.managed(mesh).items() if other != host)
    if not others or not mesh.nodes[host].published.get(PUBLIC_KEY):
        return []
    return [f"{host}: new key of its KubeSpan device, meanwhile by {bypass_of_mesh(mesh.fabric)}, with {_few(others)}"]


def _preshared_lines(mesh: MeshPlan, hosts: t.Collection[str]) -> list[str]:
    """What becomes of preshared keys. Their generation changes with new keys of all nodes only."""
    nodes = [node for node in mesh.nodes.values() if node.publishable]
    present = sorted(
        {node.preshared.get(remote, OFF) for node in nodes for remote in mesh.clusters[node.cluster].remotes}
    )
    if present == [mesh.preshared] or not present:
        return []
    if not {host for host, node in mesh.nodes.items() if node.publishable}.issubset(hosts):
        return [
            "preshared keys stay as they are: they change with new keys of all nodes, so run rotate_keys without rotate_nodes"
        ]
    before, after = ", ".join(_shown(number) for number in present), _shown(mesh.preshared)
    return [f"preshared keys of all pairs: {before} -> {after}"]


def _shown(generation: int) -> str:
    return f"generation {generation}" if generation else "none"


def unfinished(
    mesh: MeshPlan,
    there: t.Collection[str],
    results: t.Mapping[str, t.Mapping[str, t.Any]],
    published: t.Mapping[str, t.Any],
    state: str = FINISHED,
) -> str:
    """Why the step before is not done everywhere: a node of the rotation that was lost on the way, or that refused a device, or a record that no cluster
    took. there: hosts that the run still has; results: of node_dataplane; published: of node_annotations. A bypass device that cannot have its key is what
    a rotation is abandoned for, so it does not keep one from that."""
    records = records_of(mesh)
    unread = sorted({str(row["cluster"]) for row in (*mesh.failures, *(published.get("failures") or ()))})
    if unread:
        return f"cluster {_few(unread)} could not be read or written, so no further step begins; run rotate_keys again when it answers [unreachable]"
    if published.get("failed"):
        return f"the records of the rotation could not be written: {published.get('msg')} [unreachable]"
    for row in published.get("refused") or ():
        return "{object}: {message} [{reason}]".format(**row)
    lost = sorted({host for host, _remote in records}.difference(there))
    if lost:
        return (
            f"{_few(lost)} did not do the last step, so no further one begins: every pair stays in a state that loses nothing. Run rotate_keys again when "
            "all nodes answer, or with rotate_keys_state: abandoned [node_lost]"
        )
    for host in sorted({host for host, _remote in records}):
        refused = [
            row
            for row in (results.get(host) or {}).get("refused") or ()
            if _concerns(mesh, host, str(row["object"])) and (state == FINISHED or row["reason"] != "key_differs")
        ]
        if refused:
            return "{host}: {object}: {message} [{reason}]".format(host=host, **refused[0])
    return ""


def _concerns(mesh: MeshPlan, host: str, thing: str) -> bool:
    names = [str(device["name"]) for device in node_devices(mesh, host)]
    if mesh.spans_nodes:
        first = thing.split(" ")[0]
        return first in names or "/" not in first  # its device, whatever that is called
    routes = [cidr for device in node_devices(mesh, host) for cidr in device["routes"]]
    return any(thing == name or thing.startswith((name + " ", name + "/")) for name in [*names, *routes])


def unchanged(mesh: MeshPlan, results: t.Mapping[str, t.Mapping[str, t.Any]]) -> str:
    """Which host still has the key that was to be replaced, after the step that renews keys; empty where none has."""
    for (host, remote), record in sorted(records_of(mesh).items()):
        result = results.get(host) or {}
        key = (result.get("public_keys") or {}).get(remote)
        if remote == WHOLE_MESH:
            key = ((result.get("kubespan") or {}).get("annotations") or {}).get(PUBLIC_KEY)
        if record.phase == ASIDE and record.retired is not None and key == record.retired:
            return (
                f"{host} still has its old key towards {remote}, since not all nodes of {remote} were ready; run rotate_keys again: until then every packet "
                "keeps the way that it has [not_renewed]"
            )
    return ""


def order_of(step: str, mesh: MeshPlan, state: str) -> str:
    """The step that the plans of a pass have."""
    return allowed_step(step, records_of(mesh), state)


def awaited(mesh: MeshPlan, host: str) -> tuple[list[Data], bool]:
    """(tunnels, quiet) for which a host waits before it does the step of a plan; no tunnels where there is nothing to wait for.

    It sends by a tunnel only after a handshake with each peer of it, and a bypass device goes when nothing has come by it for a while. A peer that upstream
    programs run learns a new key in its own time, and is not waited for.
    """
    node = mesh.node(host)
    if mesh.rotation_step == DONE:
        if mesh.spans_nodes:
            return [{"device": bypass_of_mesh(mesh.fabric), "peers": []}], True
        remotes = mesh.cluster(node.cluster).remotes
        return [{"device": bypass_device(remotes[remote].device), "peers": []} for remote in sorted(remotes)], True
    if mesh.rotation_step not in (GO_ASIDE, GO_BACK):
        return [], False
    if mesh.spans_nodes and mesh.rotation_step == GO_BACK and node.rotation:
        return [{"device": Layout().device, "peers": kubespan_rotation.keys(mesh, host)}], False
    managed, rows = _managed(mesh), []
    for device in node_devices(mesh, host):
        bypass = device["remote"].partition("/")
        if bypass[0] not in node.rotation or (mesh.rotation_step == GO_BACK) == bool(bypass[1]):
            continue
        keys = [
            str(row["public_key"])
            for row in device["peers"]
            if isinstance(row["public_key"], str) and (mesh.spans_nodes or (bypass[0], row["node"]) in managed)
        ]
        rows.append({"device": device["name"], "peers": keys})
    return rows, False


def names_of_peers(mesh: MeshPlan, host: str) -> dict[tuple[str, str], str]:
    """(device, public key) -> ``cluster/node``, bypass devices included."""
    found = {
        (device["name"], str(row["public_key"])): str(row.get("node"))
        if mesh.spans_nodes
        else f"{device['remote'].partition('/')[0]}/{row.get('node')}"
        for device in node_devices(mesh, host)
        for row in device["peers"]
    }
    rows = mesh.kubespan.affiliates if mesh.kubespan is not None else ()
    found.update(((Layout().device, str(row["public_key"])), f"{row['cluster']}/{row['node']}") for row in rows)
    return found


def missing_text(mesh: MeshPlan, host: str, missing: t.Sequence[t.Mapping[str, t.Any]], busy: t.Sequence[str]) -> str:
    """What people have to know where a node waited in vain."""
    if busy:
        return f"{host}: {_few(busy)} still receives packets, so it stays and loses nothing; run rotate_keys again, or raise rotate_wait_seconds [still_used]"
    names = names_of_peers(mesh, host)
    rows = [
        "no handshake by {device} with {0} ({endpoint}, from UDP port {listen_port})".format(
            names.get((str(row["device"]), str(row["public_key"])), "a peer"), **row
        )
        for row in missing
    ]
    return (
        f"{host}: {'; '.join(rows[:_SHOWN])}. Open these UDP ports between the nodes in both directions and run rotate_keys again, or with "
        "rotate_keys_state: abandoned; until then every packet keeps the way that it has [no_handshake]"
    )


def _few(names: t.Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
