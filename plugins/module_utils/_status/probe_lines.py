# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node found that differs from the plan of the whole mesh, as lines of a verdict. Pure."""

from __future__ import annotations

import re
import typing as t

from .._dataplane.peer_spec import HANDSHAKE_FRESH
from .._plan.mesh_plan import MeshPlan, RemotePlan
from .._values.generations import bypass_device, bypass_of_mesh
from .remedies import full_tracking
from .verdict import counted

Facts = t.Mapping[str, t.Any]
Found = t.Mapping[str, t.Mapping[str, t.Any]]

#: One pod is named where many are alike.
NAMED = 3


def named_few(names: t.Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")


def apart(topology: MeshPlan, host: str, other: str) -> bool:
    """Whether two hosts reach each other through the mesh."""
    nodes = topology.nodes
    return host != other and (topology.spans_nodes or nodes[host].cluster != nodes[other].cluster)


def peer_names(topology: MeshPlan, host: str) -> dict[tuple[str, str], str]:
    """(device, public key) -> cluster/node, for the peers that a host should have."""
    if topology.kubespan is not None:
        own, bypass = topology.node(host), bypass_of_mesh(topology.fabric)
        found = {
            ("kubespan", str(row["public_key"])): f"{row['cluster']}/{row['node']}"
            for row in topology.kubespan.affiliates
            if (row["cluster"], row["node"]) != (own.cluster, own.node_name)
        }
        rows = topology.kubespan.rotation if own.rotation else ()
        label = f"{own.cluster}/{own.node_name}"
        known = [row for row in rows if isinstance(row["public_key"], str) and row["node"] != label]
        found.update({(bypass, str(row["public_key"])): str(row["node"]) for row in known})
        return found
    found = {
        (part.device, str(peer["public_key"])): f"{remote}/{peer.get('node', '?')}"
        for remote, part in remotes_of(topology, host).items()
        for peer in part.peers
    }
    about = topology.node(host)
    for remote in about.rotation:  # while keys are rotated
        name = bypass_device(remotes_of(topology, host)[remote].device)
        rows = topology.cluster(about.cluster).rotation.get(remote) or ()
        known = [peer for peer in rows if isinstance(peer["public_key"], str)]
        found.update({(name, str(peer["public_key"])): f"{remote}/{peer.get('node', '?')}" for peer in known})
    return found


def remotes_of(topology: MeshPlan, host: str) -> t.Mapping[str, RemotePlan]:
    """The clusters that a host's devices lead to; none where the plan does not know the host."""
    return topology.cluster(topology.node(host).cluster).remotes


#: A node's copy of the code, by content.
_BOOT_CODE = re.compile(r"^/usr/local/lib/multicluster-network/.*\.pyz$", re.ASCII)


def unread(topology: MeshPlan, host: str) -> str:
    """The host's cluster where it could not be read, so that its Node is not known; else nothing."""
    own = topology.node(host).cluster
    return own if any(failure["cluster"] == own for failure in topology.failures) else ""


def drift_lines(result: Facts) -> list[str]:
    """What differs on a host, and what its own plan refused: it is another owner's and in our way."""
    changes = list((result.get("plan") or {}).get("changes") or ())
    code = [c for c in changes if c["kind"] == "file" and _BOOT_CODE.search(c["id"])]
    lines = []
    if {c["action"] for c in code} == {"create", "delete"}:  # files carry their content in their name
        changes = [c for c in changes if c not in code]
        lines.append(
            "what it runs at boot is of another release of this collection than this run; multicluster.network.mesh brings it"
        )
    lines += ["{kind} {id} is not as desired ({action})".format(**c) for c in changes]
    return lines + ["{object}: {message} [{reason}]".format(**r) for r in result.get("refused") or ()]


def is_unreachable(row: Facts) -> bool:
    """Whether a host of ``found`` gave no answer at all."""
    return not row.get("probe") and not row.get("drift")


def handshake_lines(topology: MeshPlan, host: str, probe: Facts, unreachable: t.Collection[str] = ()) -> list[str]:
    """Peers that are missing, or that did not answer lately, with the way that packets would have to find open.

    unreachable: names of nodes that gave no answer at all. They have one line of their own, in place of one on each other node.
    """
    rows = _unanswered(topology, host, probe)
    return [text for name, missing, text in rows if missing or name not in unreachable]


def _unanswered(topology: MeshPlan, host: str, probe: Facts) -> list[tuple[str, bool, str]]:
    """(name of a peer, whether the device lacks it, what is wrong with it)."""
    seen = {(peer["device"], peer["public_key"]): peer for peer in probe.get("peers") or ()}
    by_key = {peer["public_key"]: peer for peer in probe.get("peers") or ()}
    rows = []
    names = {**peer_names(topology, host), **member_names(topology, host, probe)}
    for key, name in sorted(names.items(), key=lambda item: (item[1], item[0])):
        # a mesh of nodes has one device, whatever its name
        peer = seen.get(key) or (by_key.get(key[1]) if topology.spans_nodes else None)
        if peer is None:
            rows.append((name, True, f"{name} is no peer of {key[0]}"))
        elif peer["handshake_age"] is None:
            rows.append((name, False, f"no handshake with {name}: {udp_text(peer)}"))
        elif peer["handshake_age"] > HANDSHAKE_FRESH:
            text = f"last handshake with {name} is {peer['handshake_age']} s old: {udp_text(peer)}"
            rows.append((name, False, text))
    return rows


def udp_text(peer: Facts) -> str:
    """Which packets got no answer, and what to look at."""
    if not peer.get("endpoint"):
        return "it has no endpoint to send to"
    port = str(peer["endpoint"]).rpartition(":")[2]
    own = f"port {peer['listen_port']}" if peer.get("listen_port") else "its port"
    return "UDP from {0} {1} to {2} got no answer; check firewalls and security groups for UDP port {3} into the peer{4}, and that it is up".format(
        peer.get("source") or "this node",
        own,
        peer["endpoint"],
        port,
        " and " + own + " into this node" if peer.get("listen_port") else "",
    )


def path_lines(probe: Facts) -> list[str]:
    """Ranges of peers with packets that the kernel sends elsewhere."""
    found = probe.get("paths") or {}
    lines = [
        "packets for {0} (asked for {1}{2}) do not leave by {3}: {4}".format(
            row["range"], row["address"], " from " + row["source"] if row["source"] else "", row["device"], row["text"]
        )
        for row in found.get("elsewhere") or ()
    ]
    return lines + ([f"{found['more']:,} more such ranges"] if found.get("more") else [])


def stray_lines(topology: MeshPlan, host: str, probe: Facts) -> list[str]:
    """Pods with addresses that the mesh cannot carry, since they are not from the ranges of their Node."""
    strays = probe.get("strays") or ()
    if not strays or unread(topology, host):
        return []
    return [stray_text(strays, topology.node(host).pod_cidrs) + " [pods_outside_node_range]"]


def stray_text(strays: t.Sequence[str], pod_cidrs: t.Sequence[str]) -> str:
    """The finding, with what to set."""
    return (
        "{0} with an address outside the ranges {1} of its Node ({2}): the mesh does not carry them. Set pod_ranges of the cluster to "
        "where its network plugin keeps the ranges of nodes (auto, calico, cilium, ovn; pods where nothing else does), and run site again"
    ).format(counted(len(strays), "pod"), ", ".join(pod_cidrs) or "(none)", named_few(strays))


def substitutes(topology: MeshPlan, found: Found) -> frozenset[str]:
    """The addresses of nodes that were pinged, and pinged from, where no pod was found: they prove nothing of what is forwarded to pods.

    As the nodes have them, and as other clusters see them.
    """
    own = {
        (host, str(address))
        for host, row in found.items()
        for pod in (row.get("probe") or {}).get("pods") or ()
        if not pod.get("in_namespace", True)
        for address in pod["addresses"]
    }
    seen = {topology.cluster(topology.node(host).cluster).exported.address(address) for host, address in own}
    return frozenset(seen | {address for dummy, address in own})


def substitute_lines(topology: MeshPlan, host: str, probe: Facts) -> list[str]:
    """That a node's own address stood in for its pods, and what to do about it."""
    addresses = sorted(substitutes(MeshPlan(), {host: {"probe": probe}}))
    if not addresses:
        return []
    text = (
        "has no network namespace with an address of its pod ranges {0}, so its own address {1} was pinged in place of a pod: that proves the tunnel, "
        "and nothing of what is forwarded to pods; start a pod on it that is not on the host's network, and run verify again"
    )
    return [text.format(", ".join(topology.node(host).pod_cidrs) or "(none)", named_few(addresses))]


def ends_named(topology: MeshPlan, found: Found) -> t.Callable[[t.Any], str]:
    """Ends of pings as messages name them by their addresses: "does not reach pod 10.4.7.10". found: of all hosts."""
    nodes = substitutes(topology, found)
    return lambda address: f"{'node address' if address in nodes else 'pod'} {address}"


def ping_lines(probe: Facts, found: Found | None = None, topology: MeshPlan | None = None) -> list[str]:
    """Pods that did not answer, each with what a trace found, where there was one. found: of all hosts, which shows what is no pod."""
    named = ends_named(topology or MeshPlan(), found or {})
    lines = []
    for ping in probe.get("pings") or ():
        if not ping["ok"]:
            source, target = [named(ping[end]) for end in ("source", "target")]
            lines.append(
                f"{source} does not reach {target} of {ping['node']}" + (": " + ping["why"] if ping.get("why") else "")
            )
    return lines


def carried(topology: MeshPlan, host: str, row: Facts, ping: Facts) -> bool:
    """Whether the mesh carries a host's own packets of a ping's family: other clusters accept an address that it has (translation 7).

    That is one that the plan exports, or one that the node reports; what its table lacks is no reason.
    """
    six = ":" in ping["target"]
    exported = topology.node(host).exported_addresses.values()
    sources = (row.get("probe") or {}).get("host_sources") or ()
    return topology.spans_nodes or (6 if six else 4) in sources or any((":" in one) == six for one in exported)


def host_lines(topology: MeshPlan, host: str, row: Facts, found: Found) -> list[str]:
    """What the host itself does not reach, of what the mesh carries."""
    named = ends_named(topology, found)
    lines = []
    for ping in (row.get("probe") or {}).get("host_pings") or ():
        if ping["ok"] or not carried(topology, host, row, ping):
            continue
        exported = topology.node(ping["node"]).exported_addresses
        target = (
            f"its exported address {ping['target']}" if ping["target"] in exported.values() else named(ping["target"])
        )
        source = f" ({ping['source']})" if ping["source"] else ""
        lines.append(f"the host itself{source} does not reach {target} of {ping['node']}")
    return lines


def is_cut(ping: Facts) -> bool:
    """Whether a ping was answered and a packet that fills the tunnel was not."""
    return bool(ping["ok"] and ping.get("full") and ping["size"] < ping["full"])


def size_lines(topology: MeshPlan, probe: Facts, found: Found | None = None) -> list[str]:
    """Clusters to which large packets are lost, each with the largest that passes and the variable to set. found: as for ping_lines."""
    pings = [ping for ping in probe.get("pings") or () if is_cut(ping)]
    named = ends_named(topology, (found or {}) if pings else {})
    cut: dict[tuple[str, int, int], list[str]] = {}
    for ping in pings:
        remote = topology.node(ping["node"]).cluster
        target = f"{named(ping['target'])} of {ping['node']}"
        cut.setdefault((remote, ping["size"], ping["full"]), []).append(target)
    variable = (
        "kubespan_config: {{mtu: {1}}} on the nodes"
        if topology.spans_nodes
        else "wireguard_mtu: {1} on the host of cluster {0}"
    )
    text = (
        "packets of more than {0:,} bytes do not reach {1}, though the tunnel takes {2:,}: set "
        + variable.replace("{0}", "{3}").replace("{1}", "{0}")
        + ' and run site, or let ICMP "too big" and fragments pass between the nodes [mtu_black_hole]'
    )
    return [text.format(size, named_few(pods), full, remote) for (remote, size, full), pods in sorted(cut.items())]


def unit_lines(probe: Facts) -> list[str]:
    """Owned units that failed, or that should run all the time and do not."""
    bad = [unit for unit in probe.get("units") or () if unit_is_bad(unit)]
    return [f"unit {unit['name']} is {unit.get('active')} ({unit.get('result')})" for unit in bad]


def tracking_lines(probe: Facts) -> list[str]:
    """Why the node takes no further connection."""
    return [f"{text} [conntrack_full]" for text in (full_tracking(probe),) if text]


def unit_is_bad(unit: Facts) -> bool:
    watching = str(unit.get("name")).endswith("-watch.service") and unit.get("enabled") == "enabled"
    return unit.get("active") == "failed" or (watching and unit.get("active") not in ("active", "activating"))


def discovery_lines(probe: Facts, wrong: bool) -> list[str]:
    """What the watcher reports of the discovery service. wrong: whether the node itself is configured wrongly; else: that it does not answer."""
    found = probe.get("discovery") or {}
    if not found or found.get("state") == "connected" or (found.get("state") == "wrong_secret") != wrong:
        return []
    return [
        f"{found.get('message') or 'the discovery service is away'} [{found.get('reason')}]; its peers stay as they are"
    ]


def member_names(topology: MeshPlan, host: str, probe: Facts) -> dict[tuple[str, str], str]:
    """(device, public key) -> name, of peers that only a discovery service knows. No host of the inventory need be one of them."""
    if topology.kubespan is None or not topology.kubespan.members:
        return {}
    planned = {key for _device, key in peer_names(topology, host)}
    labels = (probe.get("discovery") or {}).get("labels") or {}
    return {
        (peer["device"], peer["public_key"]): f"discovery/{labels.get(peer['public_key']) or peer['public_key'][:12]}"
        for peer in probe.get("peers") or ()
        if peer["public_key"] not in planned
    }


def no_peer_lines(topology: MeshPlan, host: str, probe: Facts) -> list[str]:
    """Clusters to which a node has no peer at all."""
    if host not in topology.nodes:
        return ["the plan of the mesh does not know it"]
    if topology.spans_nodes:
        known = peer_names(topology, host) or member_names(topology, host, probe)
        return [] if known else ["no peer is planned, so it is no part of a mesh"]
    remotes = remotes_of(topology, host)
    why = {name: part.reason for name, part in sorted(remotes.items()) if not part.peers}
    refused = "; all its nodes are refused or publish nothing"
    lines = [f"no peer of cluster {name} is planned{(f': {why[name]}' if why[name] else refused)}" for name in why]
    return lines or ([] if remotes else ["there is no other cluster, so it is no part of a mesh"])


def no_ping_lines(
    topology: MeshPlan, host: str, probe: Facts, found: Found, outside: t.Collection[str] = ()
) -> list[str]:
    """Why nothing was pinged from a node, or which nodes nothing was pinged on."""
    if probe.get("pings") is None:
        return ["nothing was pinged from there"]
    if member_names(topology, host, probe) and (_is_no_node(topology, host) or len(topology.nodes) == 1):
        return []  # handshakes are the proof: machines that no inventory has cannot be asked for their pods
    if not probe.get("pods") and unread(topology, host):
        return [
            f"cluster {unread(topology, host)} was not read, so the pod range of this node is not known and nothing was pinged from there"
        ]
    if not probe.get("pods"):
        ranges = ", ".join(topology.node(host).pod_cidrs)
        where = (
            f"no pod and no address in its pod ranges {ranges}"
            if ranges
            else "no pod range (its Node has no spec.podCIDR)"
        )
        if not probe.get("others"):
            return [f"has {where}, so nothing was pinged from there; start a pod on it"]
        text = (
            "has {0}, so nothing was pinged from there; network namespaces there have other addresses ({1}): if they are pods, the CNI uses ranges that "
            "pod_cidrs of cluster {2} or spec.podCIDR does not have; if not, start a pod on it"
        )
        return [text.format(where, named_few(probe["others"]), topology.node(host).cluster or "(unknown)")]
    if host not in topology.nodes:
        return []
    reached = {ping["node"] for ping in probe["pings"]}
    asked = reached.union(probe.get("gone") or ())
    missed = [
        other
        for other in sorted(found)
        if other in topology.nodes and apart(topology, host, other) and other not in asked
    ]
    with_pods = [other for other in missed if (found[other].get("probe") or {}).get("pods")]
    if with_pods:
        return [
            f"no pod there has an address of the same IP version as those of {named_few(with_pods)}, so they were not pinged"
        ]
    unpinged = f"pinged no pod of another {'node' if topology.spans_nodes else 'cluster'}"
    nodes = substitutes(topology, found)
    if reached and nodes.issuperset(ping["target"] for ping in probe["pings"]):
        return [unpinged + ": what answered there are addresses of nodes"]
    # whether any host was asked that this one could have pinged
    if not reached and not (
        outside and all(other in outside for other in topology.nodes if apart(topology, host, other))
    ):
        return [unpinged]
    return []


def _is_no_node(topology: MeshPlan, host: str) -> bool:
    """Whether a host of a mesh with a discovery service has no pods, since it is no Node of the cluster."""
    about = topology.node(host)
    return host in topology.nodes and not about.pod_cidrs and about.own_addresses is None


def unread_lines(row: Facts) -> list[str]:
    probe = row.get("probe") or {}
    lines = [f"could not read {error.get('section')}: {error.get('message')}" for error in probe.get("errors") or ()]
    if "plan" not in (row.get("drift") or {}) and not (row.get("drift") or {}).get("refused"):
        lines.append("was not compared with the plan")
    if probe.get("pending"):
        lines.append("a change waits for its confirmation and may be taken back")
    if probe.get("paths") is None and not any(error.get("section") == "paths" for error in probe.get("errors") or ()):
        lines.append("its kernel was not asked where packets for its peers go")
    return lines
