# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every check of an inventory, all findings at once."""

from __future__ import annotations

import re
import typing as t

from ..._dataplane.key_plan import KEY_DIRECTORY
from ..._values.addresses import overlaps, parse_endpoint, parse_network, special_kind
from ..._values.prefix_sets import PrefixSet
from ..._values.refused import ValueRefused, quoted
from ..._values.selectors import parse_selector
from ..._values.text import check_interface_name, parse_cluster_name, parse_subdomain
from ..semaphore.annotations import ADDRESS_TYPES, DEFAULT_PORT
from ..semaphore.device import DEFAULT_MTU, check_device_name, device_of, listen_ports, parse_listen_port, parse_mtu
from ..semaphore.peers import SOURCES
from .groups import SHADOWED
from .pod_range_readers import AUTO
from .pod_ranges import LIMIT, SOURCES as POD_RANGES
from .range_checks import MAPPING, NODE_MAPPING, POOL, check_ranges, read_mapping, read_node_mapping
from .variables import Finding, Variables, misspelt, read_findings

__all__ = ["Finding", "check_definition"]

#: No cluster can be granted these: half the Internet, the host itself, links and groups.
_NEVER = [
    parse_network(text)
    for text in ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3")
    + ("::/128", "::1/128", "::ffff:0:0/96", "64:ff9b::/96", "fe80::/10", "ff00::/8")
]
_RANGES = {
    "pod_cidrs": "pod_subnet_invalid",
    "service_cidrs": "bad_cidr",
    "node_cidrs": "bad_cidr",
    "wireguard_cidrs": "bad_cidr",
}
_BALANCED = "floating_cidrs"
#: A label of a name in DNS, which is also a value that a label of Kubernetes may have.
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\Z")
Clusters = dict[str, dict[str, t.Any]]


def check_definition(
    definition: t.Mapping[str, t.Any],
) -> tuple[str, Clusters, dict[str, dict[str, str]], list[Finding]]:
    """(name, clusters, nodes, findings) in normal form; what cannot be read is left out or has its default."""
    findings: list[Finding] = []
    name = _fabric_name(definition.get("name"), findings)
    raw = definition.get("clusters") or {}
    if not isinstance(raw, dict):
        findings.append(Finding("fabric", "clusters", "bad_type", "clusters is a mapping of name to variables"))
        raw = {}
    clusters: Clusters = {}
    for cluster in sorted(raw, key=str):
        clusters[str(cluster)] = _cluster(str(cluster), raw[cluster], raw, findings)
    if len(clusters) < 2:
        message = f"a fabric joins at least two clusters, this one has {len(clusters)}; add hosts to group clusters"
        findings.append(Finding("fabric", "clusters", "no_remotes", message))
    _shared_aliases(clusters, findings)
    _shared_ids(clusters, findings)
    check_ranges(clusters, name, findings)
    _views(clusters, findings)
    nodes = _nodes(definition.get("nodes") or {}, clusters, findings)
    findings = _with_inventory(findings, read_findings(definition.get("findings")))
    return name, clusters, nodes, sorted(set(findings), key=lambda item: (item.level, item.where, item.variable, item))


def _with_inventory(findings: list[Finding], given: list[Finding]) -> list[Finding]:
    """All findings; what is only the consequence of another one is left out."""
    shadowed = {finding.where for finding in given if finding.reason == SHADOWED and finding.level == "error"}
    named = {finding.variable for finding in given}
    own = [
        finding for finding in findings if not (finding.reason == "pod_subnet_missing" and finding.where in shadowed)
    ]
    return given + [
        finding for finding in own if not (finding.reason == "misspelt_variable" and finding.variable in named)
    ]


def _fabric_name(name: object, findings: list[Finding]) -> str:
    if name == "":
        message = "the fabric's name is empty; give multicluster_fabric a name, or leave it out for the default"
        findings.append(Finding("fabric", "name", "fabric_name_invalid", message))
        return "mesh"
    try:
        return parse_cluster_name("mesh" if name is None else name, "fabric_name_invalid")
    except ValueRefused as error:
        findings.append(Finding("fabric", "name", error.reason, error.message))
        return "mesh"


def _cluster(name: str, raw: t.Any, others: t.Mapping[str, t.Any], findings: list[Finding]) -> dict[str, t.Any]:
    where = f"clusters/{name}"
    if raw is not None and not isinstance(raw, dict):
        findings.append(Finding(where, "", "bad_type", "the variables of a cluster are a mapping"))
    values = Variables(where, raw if isinstance(raw, dict) else {}, findings)
    try:
        parse_cluster_name(name)
    except ValueRefused as error:
        findings.append(Finding(where, "inventory_hostname", error.reason, error.message))
    cluster: dict[str, t.Any] = {key: values.networks(key, reason) for key, reason in _RANGES.items()}
    cluster[_BALANCED] = values.networks(_BALANCED, "bad_cidr")
    if not cluster["pod_cidrs"] and not values.given("pod_cidrs"):
        message = "write pod_cidrs, the networks of the cluster's pods, for example pod_cidrs: [10.2.0.0/16]"
        findings.append(Finding(where, "pod_cidrs", "pod_subnet_missing", message))
    cluster["wireguard_port"] = values.integer("wireguard_port", "port_out_of_range")
    cluster["wireguard_mtu"] = values.integer("wireguard_mtu", "mtu_out_of_range") or DEFAULT_MTU
    for variable, reason, default in (
        ("wireguard_ports", "port_out_of_range", DEFAULT_PORT),
        ("wireguard_mtus", "mtu_out_of_range", DEFAULT_MTU),
    ):
        given = values.integers(variable, reason)
        cluster[variable] = {remote: number or default for remote, number in given.items() if remote in others}
        for remote in sorted(set(given) - set(map(str, others))):
            message = f"{quoted(remote)} is not a cluster of this fabric"
            findings.append(Finding(where, variable, "unknown_cluster", message))
    cluster["device_alias"] = values.text("device_alias", None)
    _device_name(where, name, cluster, findings)
    cluster["endpoint_address_type"] = values.choice("endpoint_address_type", ADDRESS_TYPES)
    cluster["allowed_ips_source"] = values.choice("allowed_ips_source", tuple(reversed(SOURCES)))
    cluster["pod_ranges"] = values.choice("pod_ranges", POD_RANGES)
    cluster["pod_ranges_limit"] = _limit(where, values, findings)
    cluster["node_pod_cidrs"] = {}
    cluster["keep_pod_addresses"] = values.boolean_or("keep_pod_addresses", AUTO)
    cluster["calico_ippools"] = values.choice("calico_ippools", ("auto", "always", "never"))
    cluster["key_dir"] = values.text("key_dir", KEY_DIRECTORY)
    if not str(cluster["key_dir"]).startswith("/"):
        findings.append(Finding(where, "key_dir", "bad_path", "key_dir is an absolute path"))
        cluster["key_dir"] = KEY_DIRECTORY
    cluster["allow"] = values.texts("allow")
    cluster["cluster_id"] = _cluster_id(where, name, values, findings)
    cluster["mcs_namespaces"] = _namespaces(where, raw, findings)
    findings.extend(misspelt(where, raw if isinstance(raw, dict) else {}))
    cluster[POOL] = values.networks(POOL, "bad_cidr")
    for variable in _RANGES:
        cluster[variable] = [text for text in cluster[variable] if _possible(where, variable, text, findings)]
    given = raw if isinstance(raw, dict) else {}
    mapping, former = read_mapping(where, values, given, cluster["pod_cidrs"], findings)
    cluster["exported_pod_cidrs"] = {
        source: target for source, target in mapping.items() if _possible(where, MAPPING, target, findings)
    }
    cluster["former_pod_cidrs"] = former
    nodes, former_nodes = read_node_mapping(where, values, given, cluster["node_cidrs"], findings)
    cluster["exported_node_cidrs"] = {
        source: target for source, target in nodes.items() if _possible(where, NODE_MAPPING, target, findings)
    }
    cluster["former_node_cidrs"] = former_nodes
    return cluster


def _limit(where: str, values: Variables, findings: list[Finding]) -> int:
    """How many ranges a node may have where its Pods show them."""
    found = values.integer("pod_ranges_limit", "bad_choice") if values.given("pod_ranges_limit") else LIMIT
    if 1 <= found <= LIMIT:
        return found
    message = f"pod_ranges_limit is a number from 1 to {LIMIT:,}, not {found}"
    findings.append(Finding(where, "pod_ranges_limit", "bad_choice", message))
    return LIMIT


def _cluster_id(where: str, name: str, values: Variables, findings: list[Finding]) -> str:
    """The cluster's id in names and labels of the Multi-Cluster Services API; its name unless the inventory has another one."""
    found = str(values.text("multicluster_cluster_id", name))
    if found != name and not _LABEL.match(found):
        message = f"{quoted(found)} is no label of a name in DNS: lower-case letters, digits and hyphens, at most 63 characters"
        findings.append(Finding(where, "multicluster_cluster_id", "cluster_id_invalid", message))
        return name
    return found


def _namespaces(where: str, raw: t.Any, findings: list[Finding]) -> t.Any:
    """Namespaces from which the cluster may export: a list of names, the text of a label selector, or None for the default."""
    if not isinstance(raw, dict) or raw.get("mcs_namespaces") is None:
        return None
    given = raw["mcs_namespaces"]
    try:
        if isinstance(given, str):
            parse_selector(given)
            return given
        if isinstance(given, (list, tuple)) and all(isinstance(name, str) and _LABEL.match(name) for name in given):
            return sorted(set(given))
        message = f"mcs_namespaces is a list of names of namespaces, or the text of a label selector for them, not {quoted(given)}"
        findings.append(Finding(where, "mcs_namespaces", "bad_type", message))
    except ValueRefused as error:
        findings.append(Finding(where, "mcs_namespaces", error.reason, error.message))
    return []


def _device_name(where: str, name: str, cluster: dict[str, t.Any], findings: list[Finding]) -> None:
    alias = cluster["device_alias"]
    try:
        check_device_name(name, alias)
    except ValueRefused as error:
        if alias is not None or error.reason == "device_name_too_long":
            findings.append(Finding(where, "device_alias", error.reason, error.message))
    try:
        check_interface_name(device_of(name, alias))
    except ValueRefused:
        # The views below need device names that can be written down; the finding above stops the run.
        cluster["device_alias"] = None


def _possible(where: str, variable: str, text: str, findings: list[Finding]) -> bool:
    network = parse_network(text)
    for special in _NEVER:
        if overlaps(special, network):
            message = f"{text} overlaps {special}, which no cluster can own; write its own networks"
            findings.append(Finding(where, variable, _RANGES.get(variable, "bad_cidr"), message))
            return False
    return True


def _shared_aliases(clusters: Clusters, findings: list[Finding]) -> None:
    seen: dict[str, str] = {}
    for name in sorted(clusters):
        short = clusters[name]["device_alias"] or name
        if short in seen:
            message = f"clusters {quoted(seen[short])} and {quoted(name)} would both have devices named {quoted(device_of(short))}; write another device_alias"
            findings.append(Finding(f"clusters/{name}", "device_alias", "duplicate_device_alias", message))
        seen.setdefault(short, name)


def _shared_ids(clusters: Clusters, findings: list[Finding]) -> None:
    seen: dict[str, str] = {}
    for name in sorted(clusters):
        found = clusters[name]["cluster_id"]
        if found in seen:
            message = f"clusters {quoted(seen[found])} and {quoted(name)} would both have the id {quoted(found)}; write another multicluster_cluster_id"
            findings.append(Finding(f"clusters/{name}", "multicluster_cluster_id", "duplicate_cluster_id", message))
        seen.setdefault(found, name)


def _views(clusters: Clusters, findings: list[Finding]) -> None:
    """Check the devices of each cluster's nodes: ports and MTUs, and no port twice (semaphore 3.1).

    What hundreds of views say about one variable is said once.
    """
    said: set[tuple[str, str, str]] = set()

    def say(local: str, remote: str, single: str, reason: str, message: str) -> None:
        several = single + "s"
        own = remote in clusters[local][several]
        where, variable = f"clusters/{local if own else remote}", several if own else single
        if (where, variable, reason) not in said:
            said.add((where, variable, reason))
            hint = f"write {single} for clusters/{remote}, or {several}: {{{remote}: ...}} for clusters/{local}"
            findings.append(Finding(where, variable, reason, f"{message}; {hint}"))

    for local in sorted(clusters):
        seen: dict[int, str] = {}
        for remote, port in sorted(listen_ports(clusters, local).items()):
            mtu = clusters[local]["wireguard_mtus"].get(remote, clusters[remote]["wireguard_mtu"])
            checks: tuple[tuple[str, t.Callable[[object], int], int], ...] = (
                ("wireguard_port", parse_listen_port, port),
                ("wireguard_mtu", parse_mtu, mtu),
            )
            for variable, parse, value in checks:
                try:
                    parse(value)
                except ValueRefused as error:
                    say(local, remote, variable, error.reason, error.message)
            if port in seen:
                message = "the devices towards {0} and {1} would both listen on port {2}; each needs its own"
                say(
                    local,
                    remote,
                    "wireguard_port",
                    "duplicate_listen_port",
                    message.format(quoted(seen[port]), quoted(remote), port),
                )
            seen.setdefault(port, remote)


def _nodes(raw: t.Any, clusters: Clusters, findings: list[Finding]) -> dict[str, dict[str, str]]:
    nodes: dict[str, dict[str, str]] = {}
    seen: dict[tuple[str, str], str] = {}
    for host, variables in sorted(_node_rows(raw), key=lambda row: (row[0], str(row[1]))):
        where = f"nodes/{host}"
        cluster = variables.get("multicluster_cluster")
        if not cluster:
            message = "write multicluster_cluster, the name of the cluster that this node belongs to"
            findings.append(Finding(where, "multicluster_cluster", "cluster_missing", message))
            continue
        if not isinstance(cluster, str):
            message = f"a node belongs to one cluster; multicluster_cluster is {quoted(cluster)}"
            findings.append(Finding(where, "multicluster_cluster", "node_in_two_clusters", message))
            continue
        if host in nodes:
            if nodes[host]["cluster"] != cluster:
                message = f"the host is listed under {quoted(nodes[host]['cluster'])} and {quoted(cluster)}"
                findings.append(Finding(where, "multicluster_cluster", "node_in_two_clusters", message))
            continue
        if cluster not in clusters:
            message = f"{quoted(cluster)} is not in group clusters, which has {', '.join(sorted(clusters))}"
            findings.append(Finding(where, "multicluster_cluster", "unknown_cluster", message))
            continue
        name = variables.get("node_name") or host
        try:
            parse_subdomain(name)
        except ValueRefused as error:
            message = f"{error.message}; write node_name, the name of its Node object"
            findings.append(Finding(where, "node_name", error.reason, message))
            continue
        if (cluster, name) in seen:
            message = (
                f"hosts {quoted(seen[(cluster, name)])} and {quoted(host)} are both node {quoted(name)} of cluster {cluster}; "
                "write node_name for one of them"
            )
            findings.append(Finding(where, "node_name", "duplicate_node_name", message))
            continue
        seen[(cluster, name)] = host
        nodes[host] = {"cluster": cluster, "node_name": name}
        if variables.get("wireguard_endpoint"):
            nodes[host].update(_chosen_endpoint(where, variables["wireguard_endpoint"], findings))
        _own_ranges(where, name, variables, clusters[cluster], findings)
        known = ("multicluster_cluster", "node_name", "wireguard_endpoint", "node_pod_cidrs")
        findings.extend(misspelt(where, variables, known))
    return nodes


def _own_ranges(
    where: str, name: str, variables: t.Mapping[str, t.Any], cluster: dict[str, t.Any], findings: list[Finding]
) -> None:
    """Pod ranges that the inventory has for a node, into those of its cluster."""
    given = Variables(where, variables, findings).networks("node_pod_cidrs", "bad_cidr")
    if not given:
        return
    granted = PrefixSet.of_texts(cluster["pod_cidrs"])
    for text in given:
        if not granted.covers(parse_network(text)):
            message = f"{text} is outside of pod_cidrs of its cluster ({', '.join(granted.cidrs()) or 'none'})"
            findings.append(Finding(where, "node_pod_cidrs", "outside_grant", message))
    if cluster["pod_ranges"] != AUTO:
        message = f"its cluster has pod_ranges: {cluster['pod_ranges']}, which is another source; remove one of the two"
        findings.append(Finding(where, "node_pod_cidrs", "bad_choice", message))
    for other, ranges in cluster["node_pod_cidrs"].items():
        if PrefixSet.of_texts(ranges) & PrefixSet.of_texts(given):
            message = f"its ranges overlap those of node {quoted(other)}"
            findings.append(Finding(where, "node_pod_cidrs", "range_overlap", message))
    cluster["node_pod_cidrs"][name] = given


def _chosen_endpoint(where: str, given: t.Any, findings: list[Finding]) -> dict[str, str]:
    """``{endpoint}``, where others reach the node, without a port: each of its devices has its own. Nothing where that cannot be used."""
    try:
        found = parse_endpoint(f"[{given}]:1" if isinstance(given, str) and ":" in given else f"{given}:1")
        kind = special_kind(found.address) if found.address is not None else None
        if kind is None:
            return {"endpoint": str(given)}
        message = f"{quoted(given)} is a {kind.replace('_', '-')} address, which no node has"
    except ValueRefused:
        message = f"{quoted(given)} is no address and no name"
    message += "; write the address at which other clusters reach the node, without a port, such as 198.51.100.7"
    findings.append(Finding(where, "wireguard_endpoint", "bad_endpoint", message))
    return {}


def _node_rows(raw: t.Any) -> list[tuple[str, t.Mapping[str, t.Any]]]:
    """Rows of (host, variables). A list of ``{"name": host, ...}`` may name one host twice."""
    if isinstance(raw, dict):
        return [(str(host), values if isinstance(values, dict) else {}) for host, values in raw.items()]
    rows = raw if isinstance(raw, (list, tuple)) else ()
    return [(str(row.get("name")), row) for row in rows if isinstance(row, dict)]
