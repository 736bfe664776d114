# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that prevents a first run, of the whole fleet and at once. Pure.

Conditions that the plans know already (unowned routes, tables, devices, annotations, claims outside a grant) come as their
refusals; what only a comparison of hosts shows is found here.
"""

from __future__ import annotations

import re
import typing as t

from .._dataplane.iptables_walk import DROP, MASQUERADE, Packet, walk
from .._dataplane.peer_spec import is_fresh
from .._values.addresses import Network, contains, overlaps, parse_network, readable_address
from .._values.prefix_sets import PrefixSet, overlapping_pairs
from .._values.refused import ValueRefused
from .probe_lines import stray_text, udp_text
from .remedies import full_tracking, masquerade_fix, without_proxy
from .texts import cut

Data = dict[str, t.Any]
Facts = t.Mapping[str, t.Any]

ERROR, WARNING = "error", "warning"
#: Seconds that clocks may differ where nobody said.
SKEW = 30.0
#: The oldest kernel with every message that we send.
OLDEST_KERNEL = (4, 18)
#: What WireGuard puts around a packet, by the version of IP outside.
OVERHEAD = {4: 60, 6: 80}
#: What state, keys and the code at boot take, with room for a second copy.
FREE_BYTES = 32 << 20
#: How ranges of pods are called.
_PODS = "the pods"
#: Programs that do one of our jobs: a part of their image's name, and what they would fight about.
PROGRAMS = (
    ("semaphore-wireguard", "the node mesh"),
    ("semaphore-service-mirror", "mirrored Services"),
    ("semaphore-policy", "network sets"),
    ("kilo-clustermesh-operator", "Kilo's Peers"),
    ("cloud-provider-equinix-metal", "addresses of Services"),
    ("apinetlet", "tenants' networks"),
)
#: Refusals of plans that say that something belongs to somebody else.
UNOWNED = frozenset(
    (
        "not_ours",
        "adoptable",
        "claimed_twice",
        "table_taken",
        "table_shared",
        "priority_taken",
        "port_taken",
        "mark_taken",
        "rule_before",
    )
)


def find(facts: Facts, max_skew: float = SKEW) -> list[Data]:
    """All of it: [{level, where, reason, message}], errors first. max_skew: seconds that a node's clock may differ from the controller's.

    facts: ``inventory`` [{where, variable, reason, message, level}], ``without_host`` {cluster: names of Nodes},
    ``left_clusters`` {cluster that left: clusters that hold something for it}, ``same_clusters`` [[cluster, one that lists the same Nodes]],
    ``pod_places`` {cluster: [{level, reason, message}]},
    ``grants`` {cluster: {pod_cidrs, service_cidrs, node_cidrs, ...}},
    ``nodes`` {host: {cluster, node: of node_info with checks, or None}}, ``devices`` {host: [{name, listen_port, mtu, keep}]},
    ``failed`` [{where, why}] checks that say nothing since they failed,
    ``refused`` [{where, object, reason, message, stops: whether a capability does nothing for it}], ``failures`` [{cluster, reason, message}],
    ``needs_proxy``: whether addresses of Services have to work on nodes,
    ``planned_failures`` [{cluster, reason, message, operation, capability}] of the capabilities' plans,
    ``notices`` [{where: capability, message}] warnings of those plans, ``workloads`` {cluster: [(kind and name, image)]},
    ``unreached`` {host: what its connection or the module said}, ``without_namespace`` {cluster: namespace of mirrors},
    ``unannounced`` {cluster: why nobody announces the addresses of its Services},
    ``lacking`` {cluster: {rights: [text], capability, undefined}} for the Multi-Cluster Services API, ``untraced`` {cluster: [right]}.
    """
    found: list[Data] = []

    def note(level: str, where: str, reason: str, message: str, longest: int = 500) -> None:
        found.append({"level": level, "where": cut(where), "reason": cut(reason, 60), "message": cut(message, longest)})

    for row in facts.get("inventory") or ():
        level = WARNING if row.get("level") == "warning" else ERROR
        note(level, row["where"], row["reason"], f"{row['variable']}: {row['message']}")
    for cluster, names in sorted((facts.get("without_host") or {}).items()):
        for name in names:
            note(
                WARNING,
                cluster,
                "node_without_host",
                f"no host of the inventory represents Node {name}, so no run does anything for its pods",
            )
    for cluster, holders in sorted((facts.get("left_clusters") or {}).items())[:10]:
        text = "it was in this fabric, as Nodes of {0} say, and is not in the inventory; write it there again and run leave with -e cluster={1}"
        note(WARNING, cluster, "cluster_left", text.format(", ".join(holders), cluster))
    for cluster, other in list(facts.get("same_clusters") or ())[:10]:
        text = "it lists the same Nodes as {0}: kubeconfig, context or api_url of one of them leads to the other; correct it"
        note(ERROR, other, "same_cluster", text.format(cluster))
    for cluster, places in sorted((facts.get("pod_places") or {}).items()):
        for row in places:
            note(row["level"], cluster, row["reason"], row["message"], 1000)
    known = {str(why) for why in (facts.get("unreached") or {}).values()}
    for row in facts.get("failed") or ():
        if row["why"] in known:
            continue  # a host that did not answer, which has a row of its own
        note(ERROR, row["where"], "check_failed", row["why"])
    for row in facts.get("failures") or ():
        note(ERROR, row["cluster"], row["reason"], row["message"])
    for row in facts.get("refused") or ():
        note(
            ERROR if row["reason"] in UNOWNED or row.get("stops") else WARNING,
            row["where"],
            row["reason"],
            f"{row['object']}: {row['message']}",
        )
    planned = [row for row in facts.get("refused") or () if str(row["object"]).startswith("mcs")]
    ranges = _ranges(facts.get("grants") or {})
    for host, given in sorted((facts.get("nodes") or {}).items()):
        if given.get("node") is None:
            note(ERROR, host, "no_answer", _why_unknown(str((facts.get("unreached") or {}).get(host) or "")))
            continue
        node = given["node"]
        if facts.get("needs_proxy") and without_proxy(node):
            note(WARNING, host, "kube_proxy_off", without_proxy(node))
        for level, reason, message in _of_node(
            node, (facts.get("devices") or {}).get(host) or (), given.get("cluster"), ranges, max_skew
        ):
            note(level, host, reason, message)
    for where, reason, message in _shared(facts.get("nodes") or {}, facts.get("grants") or {}):
        note(ERROR, where, reason, message)
    for cluster, workloads in sorted((facts.get("workloads") or {}).items()):
        for name, image in workloads:
            for part, job in PROGRAMS:
                if part in image:
                    note(WARNING, cluster, "foreign_manager", f"{name} runs {image}, which looks after {job} too")
    for cluster, namespace in sorted((facts.get("without_namespace") or {}).items()):
        message = "namespace {0}, into which Services are mirrored, does not exist; make it, or set service_mirror_create_namespace: true"
        note(ERROR, cluster, "mirror_namespace_missing", message.format(namespace))
    for cluster, row in sorted((facts.get("lacking") or {}).items()):
        if row["undefined"] and (cluster, "kind_not_served") not in {(one["where"], one["reason"]) for one in planned}:
            note(
                ERROR,
                cluster,
                "kind_not_served",
                "the API server has no ServiceExports and ServiceImports; install them, or set mcs_install_crds: true",
            )
        if row["rights"]:
            message = "for the capability mcs the access may not {0}; the role cluster_access gives it with cluster_access_capability: {1}"
            note(ERROR, cluster, "forbidden", message.format("; ".join(row["rights"]), row["capability"]))
    for cluster, rights in sorted((facts.get("untraced") or {}).items()):
        message = "a trace would not find all of its way (cluster_access_capability: trace of the role cluster_access helps), since the access may not {0}"
        note(WARNING, cluster, "forbidden", message.format("; ".join(rights)))
    for cluster, why in sorted((facts.get("unannounced") or {}).items()):
        note(WARNING, cluster, "unannounced", "nobody would announce the addresses of Services: " + why)
    for row in facts.get("notices") or ():
        note(WARNING, row["where"], "plan_warning", row["message"], 1000)
    said = {(row["where"], row["reason"]) for row in found}
    for row in facts.get("planned_failures") or ():
        if (row["cluster"], row["reason"]) not in said:
            note(
                ERROR,
                row["cluster"],
                row["reason"],
                f"{row['capability']}: cannot {row['operation']}: {row['message']}",
            )
    unique = {(row["level"], row["where"], row["reason"], row["message"]): row for row in found}
    return [unique[key] for key in sorted(unique)]


def _why_unknown(why: str) -> str:
    """Why a host is not known. why: what its connection or the module said, of collected.why_none."""
    if not why:
        return "the host did not answer"
    if _PYTHON.search(why):
        return f"no usable Python there ({why}); install Python 3.9 or newer, or set ansible_python_interpreter to where it is"
    return f"the host did not answer ({why})"


#: How ansible-core, a shell and an old Python say that a module did not start.
_PYTHON = re.compile(
    r"deserialization failed|interpreter|python[0-9.]*: (?:not found|No such file)|SyntaxError|requires? (?:a )?(?:minimum )?Python|MODULE FAILURE",
    re.IGNORECASE | re.ASCII,
)


def _of_node(
    node: Facts,
    devices: t.Sequence[Facts],
    cluster: t.Any,
    ranges: t.Sequence[tuple[Network, str, str]],
    max_skew: float,
) -> t.Iterator[tuple[str, str, str]]:
    for row in node.get("errors") or ():
        yield ERROR, "unreadable", f"{row.get('section')}: {row.get('message')}"
    yield from _kernel(node)
    if node.get("skew") is not None and abs(node["skew"]) > max_skew:
        yield ERROR, "clock_skew", f"its clock differs from the controller's by {node['skew']:.0f} s"
    if node.get("pending"):
        yield WARNING, "unconfirmed", "a change of an earlier run waits for its confirmation"
    own = {device.get("listen_port"): device.get("name") for device in node.get("devices") or () if device.get("owned")}
    for row in node.get("conflicts") or ():
        yield row["level"], row["reason"], row["message"]
    unowned = {device.get("name") for device in node.get("devices") or () if not device.get("owned")}
    for device in devices:
        if device.get("name") in unowned:
            yield ERROR, "adoptable", f"device {device['name']} exists and is unowned"
            continue
        port = device.get("listen_port")
        if port in own:
            continue
        other = next((row["name"] for row in node.get("devices") or () if row.get("listen_port") == port), None)
        if other or port in (node.get("udp_ports") or ()):
            yield (
                ERROR,
                "port_taken",
                f"UDP port {port} of {device.get('name')} is {'that of device ' + other if other else 'in use'}",
            )
    if node.get("strays"):
        yield ERROR, "pods_outside_node_range", stray_text(node["strays"], node.get("pod_cidrs") or ())
    keep = next((row["keep"] for row in devices if row.get("keep")), False)
    if keep and node.get("prefix_nat"):
        text = (
            "the table that keeps or translates addresses of pods (keep_pod_addresses, exported_pod_cidrs) cannot be written here: {0}; "
            "it needs nft 1.0.6 and Linux 5.8{1}"
        )
        more = (
            ""
            if keep is True
            else "; this node goes without it, and nothing has to change while no program masquerades packets of pods"
        )
        yield ERROR if keep is True else WARNING, "no_prefix_nat", text.format(node["prefix_nat"], more)
    if full_tracking(node):
        yield ERROR, "conntrack_full", full_tracking(node)
    if keep and node.get("conntrack_list") is False:
        text = (
            "its kernel has no list of tracked connections (CONFIG_NF_CT_NETLINK), so a connection that is open while exported_pod_cidrs changes "
            "keeps its former translation until it ends"
        )
        yield WARNING, "no_conntrack_list", text
    yield from _unanswered(node)
    yield from _between_pods(node, devices, cluster, ranges)
    if node.get("free_bytes") is not None and node["free_bytes"] < FREE_BYTES:
        text = "{0:,} MB are free where the state of the mesh is kept, and {1} MB are needed"
        yield ERROR, "disk_full", text.format(node["free_bytes"] >> 20, FREE_BYTES >> 20)
    needed = max((int(device.get("mtu") or 0) for device in devices), default=0)
    for link in node.get("uplinks") or ():
        if needed and int(link["mtu"]) < needed + OVERHEAD.get(link.get("version"), 80):
            message = "{0} has an MTU of {1}; packets of {2} bytes do not fit through it with WireGuard around them"
            yield ERROR, "mtu_too_small", message.format(link["device"], link["mtu"], needed)
    for text in node.get("ranges") or ():
        try:
            network = parse_network(text)
        except ValueRefused:
            continue
        for granted, owner, kind in ranges:
            if owner != cluster and overlaps(network, granted):
                yield (
                    ERROR,
                    "range_in_use",
                    f"the host has a network {text} of its own inside {granted}, {kind} of cluster {owner}",
                )
    for route in node.get("routes") or ():
        # a wider route gives way to the mesh's, one that is as narrow or narrower takes packets from the mesh
        if route.get("table") != 254 or route.get("protocol") == 109 or route.get("dst") in ("0.0.0.0/0", "::/0"):
            continue
        network = parse_network(route["dst"])
        inside = next(
            ((owner, kind) for granted, owner, kind in ranges if owner != cluster and contains(granted, network)), None
        )
        if inside:
            yield (
                ERROR,
                "route_taken",
                "its route to {0} by {1} takes packets for {3} of cluster {2}".format(
                    route["dst"], route.get("dev"), *inside
                ),
            )


def _between_pods(
    node: Facts, devices: t.Sequence[Facts], cluster: t.Any, ranges: t.Sequence[tuple[Network, str, str]]
) -> t.Iterator[tuple[str, str, str]]:
    """What would happen on this host to packets of its pods to pods of other clusters: no family, another source, or a drop."""
    others = [(network, owner) for network, owner, kind in ranges if owner != cluster and kind == _PODS]
    off, sixes = node.get("ipv6_off"), [(network, owner) for network, owner in others if network.version == 6]
    if off and sixes:
        text = "IPv6 is switched off ({0} = {1}; {2}), so this node gets no route to {3} of cluster {4}; set it to 0, for all and default"
        who = off.get("set_by") or "no file of the host sets it"
        yield (
            ERROR,
            "family_off",
            text.format(
                off["name"], off["value"], who, ", ".join(str(network) for network, dummy in sixes[:3]), sixes[0][1]
            ),
        )
    judged: dict[tuple[str, str], list[str]] = {}
    own = [parse_network(text) for text in node.get("pod_cidrs") or ()]
    for network, owner in others:
        device = next(
            (str(row["name"]) for row in devices if str(row.get("name")).endswith(owner)),
            str(devices[0].get("name")) if devices else "",
        )
        for source in [source for source in own if source.version == network.version]:
            lines = (node.get("filters") or {}).get(str(network.version)) or ()
            for table, chain, bad in (("nat", "POSTROUTING", MASQUERADE), ("filter", "FORWARD", DROP)):
                found = walk(lines, table, chain, Packet(source, network, device))
                if found.what == bad:
                    judged.setdefault((bad, found.rule), []).append(owner)
    for (bad, rule), owners in sorted(judged.items()):
        where = ", ".join(dict.fromkeys(owners))
        if bad == MASQUERADE and any(row.get("keep") for row in devices) and not node.get("prefix_nat"):
            continue  # the mesh's own table decides before it (keep_pod_addresses)
        if bad == MASQUERADE:
            text = "packets of pods to pods of {0} would come from the node's address: {1}; {2}"
            yield ERROR, "masqueraded", text.format(where, rule, masquerade_fix(rule, "this host"))
        else:
            yield (
                ERROR,
                "forward_dropped",
                f"packets of pods to pods of {where} would be dropped: {rule}; let the tunnel's devices pass",
            )
    # one that iptables shows was judged with its rules
    chains = [
        name
        for name in node.get("forward_drops") or ()
        if name not in ("ip filter FORWARD", "ip6 filter FORWARD") or not (node.get("filters") or {})
    ]
    if chains and others and not any(bad == DROP for bad, dummy in judged):
        text = "the chain {0} drops what none of its rules lets pass: see that one lets packets between pods and the tunnel's devices pass (nft list ruleset)"
        yield WARNING, "forward_policy_drop", text.format(", ".join(chains))


def _unanswered(node: Facts) -> t.Iterator[tuple[str, str, str]]:
    """Tunnels of an earlier run that nobody answers: in a cloud, mostly a port that is closed."""
    for device in node.get("devices") or ():
        for peer in device.get("peers") or () if device.get("owned") else ():
            clock = float(node.get("now") or 0)
            if not peer.get("endpoint") or is_fresh(int(peer.get("handshake") or 0), clock):
                continue
            about = {
                "endpoint": peer["endpoint"],
                "listen_port": device.get("listen_port"),
                "source": (node.get("sources") or {}).get(peer["endpoint"]),
            }
            yield WARNING, "udp_unanswered", f"{device.get('name')}: {udp_text(about)}"


def _kernel(node: Facts) -> t.Iterator[tuple[str, str, str]]:
    system = node.get("host") or {}
    digits = re.match(r"([0-9]+)\.([0-9]+)", str(system.get("kernel") or ""))
    if digits and (int(digits.group(1)), int(digits.group(2))) < OLDEST_KERNEL:
        yield ERROR, "kernel_too_old", "kernel {0}; {1}.{2} is the oldest".format(system["kernel"], *OLDEST_KERNEL)
    if node.get("wireguard") == "missing":
        yield ERROR, "wireguard_missing", "the kernel has no WireGuard and wireguard-go is not installed"
    elif node.get("wireguard") == "no_tun":
        yield ERROR, "tun_missing", "wireguard-go needs /dev/net/tun"


def _shared(nodes: Facts, grants: Facts) -> t.Iterator[tuple[str, str, str]]:
    """Keys and addresses that two hosts have. Only addresses of the fabric count: every host has the same bridge of containers."""
    fabric = PrefixSet.of_texts(
        text
        for ranges in grants.values()
        for kind in ("node_cidrs", "wireguard_cidrs")
        for text in ranges.get(kind) or ()
    )
    keys: dict[str, list[str]] = {}
    addresses: dict[str, list[str]] = {}
    for host in sorted(nodes):
        node = nodes[host].get("node") or {}
        for device in node.get("devices") or ():
            if device.get("public_key"):
                keys.setdefault(device["public_key"], []).append(f"{host} ({device.get('name')})")
        for text in sorted({item.partition("/")[0] for item in (node.get("host") or {}).get("addresses") or ()}):
            address = readable_address(text)
            if address is not None and address in fabric:
                addresses.setdefault(text, []).append(host)
    for key, hosts in sorted(keys.items()):
        if len({name.partition(" ")[0] for name in hosts}) > 1:
            yield ", ".join(hosts), "key_twice", f"they have the same public key {key}; one is a copy of the other"
    for text, hosts in sorted(addresses.items()):
        if len(hosts) > 1:
            yield ", ".join(hosts), "address_twice", f"they have the same address {text}"


def _ranges(grants: Facts) -> list[tuple[Network, str, str]]:
    """Ranges of clusters that no host of another one may use. Services that overlap those of another cluster are nobody's matter: each has its own."""
    kinds = {"pod_cidrs": _PODS, "service_cidrs": "the Services"}
    found = [
        (parse_network(text), str(cluster), kind)
        for cluster in sorted(grants)
        for kind in kinds
        for text in grants[cluster].get(kind) or ()
    ]
    shared = {
        (network, owner)
        for pair in overlapping_pairs(
            [(network, owner) for network, owner, kind in found if kind == "service_cidrs"],
            lambda one, other: one == other,
        )
        for network, owner in pair
    }
    return [
        (network, owner, kinds[kind])
        for network, owner, kind in found
        if kind != "service_cidrs" or (network, owner) not in shared
    ]
