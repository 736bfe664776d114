# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words for why a packet does not arrive, what a step and a fault are, and how hosts' texts are shown. Pure."""

from __future__ import annotations

import typing as t

from .._values.prefix_sets import address_text
from .._values.text import is_alnum

ALLOWED_IPS_LACK_SOURCE, ALLOWED_IPS_LACK_TARGET = "allowed_ips_lack_source", "allowed_ips_lack_target"
ANSWER_ANOTHER_WAY, CONNTRACK_FULL, DEVICE_DOWN, DEVICE_MISSING, ENDPOINT_MOVED = (
    "answer_another_way",
    "conntrack_full",
    "device_down",
    "device_missing",
    "endpoint_moved",
)
DNS_DIFFERS, DNS_FAILS = "dns_differs", "dns_fails"
FORWARD_DROPPED, FORWARDING_OFF, KEYS_SHARED, KUBE_PROXY_OFF = (
    "forward_dropped",
    "forwarding_off",
    "keys_shared",
    "kube_proxy_off",
)
MASQUERADED, MIRROR_MISSING, MIRROR_STALE, MTU_BLACK_HOLE = (
    "masqueraded",
    "mirror_missing",
    "mirror_stale",
    "mtu_black_hole",
)
NAME_UNKNOWN, NO_ENDPOINTS, NO_HANDSHAKE, NOT_EXPLAINED = (
    "name_unknown",
    "no_endpoints",
    "no_handshake",
    "not_explained",
)
PEER_MISSING, POLICY_LACKS_SOURCE, PORT_CLOSED, PORT_NOT_IN_SERVICE = (
    "peer_missing",
    "policy_lacks_source",
    "port_closed",
    "port_not_in_service",
)
REVERSE_PATH_FILTER, REWRITE_MISSING, ROUTE_MISSING, ROUTE_SHADOWED = (
    "reverse_path_filter",
    "rewrite_missing",
    "route_missing",
    "route_shadowed",
)
RULE_SHADOWED, STALE_ENDPOINT, TARGET_UNREACHABLE, TRANSLATION_MISSING, UDP_BLOCKED = (
    "rule_shadowed",
    "stale_endpoint",
    "target_silent",
    "translation_missing",
    "udp_blocked",
)
UDP_BLOCKED_ONE_WAY, WATCHER_STOPPED, WRONG_KEY = "udp_blocked_one_way", "watcher_stopped", "wrong_key"

#: What to do about each; the finding's own text names the place.
FIXES = {
    ALLOWED_IPS_LACK_SOURCE: "run the mesh (clustermesh over Kilo) again on {host}: its peers follow pod_cidrs and the Nodes' podCIDRs of the other cluster",
    ALLOWED_IPS_LACK_TARGET: "run the mesh (clustermesh over Kilo) again on {host}: its peers follow pod_cidrs and the Nodes' podCIDRs of the other cluster",
    ANSWER_ANOTHER_WAY: "remove the route or rule on {host} that takes the answer, or list its range in nobody's pod_cidrs",
    CONNTRACK_FULL: "raise net.netfilter.nf_conntrack_max on {host}, or end what opens so many connections there",
    DEVICE_DOWN: "ip link set DEVICE up on {host}, or run the mesh again there",
    DEVICE_MISSING: "run the mesh again on {host}; it makes the device",
    DNS_DIFFERS: "run coredns_rewrite in the source's cluster, and look whether its CoreDNS has loaded the Corefile that is there now (its log has the time)",
    DNS_FAILS: "look at the pods of the DNS server in the source's cluster, and at what is between {host} and them",
    ENDPOINT_MOVED: "run the mesh again, so that {host} learns the other's present endpoint; set wireguard_endpoint where a NAT is in between",
    FORWARD_DROPPED: "change the rule that is named, on {host}; firewalls have to let the tunnel's devices pass",
    FORWARDING_OFF: "set net.ipv4.ip_forward=1, net.ipv6.conf.all.forwarding=1 or that of the device on {host}, and fix what sets it at boot",
    KEYS_SHARED: "give one of the nodes a new key: remove its key file and run the mesh on it",
    KUBE_PROXY_OFF: "start kube-proxy (or what replaces it) on {host}",
    MASQUERADED: "except the ranges in pod_cidrs of the other clusters from masquerading on {host}",
    MIRROR_MISSING: "run service_mirror (or mcs), and look at the selector and the namespaces that it shares",
    MIRROR_STALE: "run service_mirror again, or start the reconciler",
    MTU_BLACK_HOLE: "lower wireguard_mtu to what the way between the nodes carries, less 80",
    NAME_UNKNOWN: "correct trace_from or trace_to",
    NO_ENDPOINTS: "look at the pods of the Service: none is ready",
    NO_HANDSHAKE: "run the mesh again on {host} and on the other; look whether UDP between them passes (wg show on both)",
    NOT_EXPLAINED: "look at what is between the place where it was last seen and the next one",
    PEER_MISSING: "run the mesh (clustermesh over Kilo) again on {host}; refused peers are named by mesh_plan",
    POLICY_LACKS_SOURCE: "run network_sets again, or let the policy select the set of the source's cluster",
    PORT_CLOSED: "start what listens on the port, or ask another port with trace_port",
    PORT_NOT_IN_SERVICE: "ask one of its ports with trace_port, or add the port to the Service",
    REVERSE_PATH_FILTER: "fix the way back on {host}, or net.ipv4.conf.DEVICE.rp_filter=0 there (for all and the device: the larger counts)",
    REWRITE_MISSING: "run coredns_rewrite in the source's cluster",
    ROUTE_MISSING: "run the mesh again on {host}; its routes follow pod_cidrs of the other cluster (the way to its own pods is that of its CNI)",
    ROUTE_SHADOWED: "remove the route on {host} that is named, or its origin",
    RULE_SHADOWED: "remove the rule on {host} that is named, or give it a priority behind the owned rules",
    STALE_ENDPOINT: "run the mesh again on {host}, so that both ends agree on where the other listens",
    TARGET_UNREACHABLE: "look at the program behind the address: the packet was delivered and nothing came back",
    TRANSLATION_MISSING: "run the mesh again on {host}; a connection that is older than its table is forgotten then",
    UDP_BLOCKED: "let UDP between the two endpoints pass, in both directions (firewalls, security groups)",
    UDP_BLOCKED_ONE_WAY: "let UDP pass in the direction that is named (firewalls, security groups)",
    WATCHER_STOPPED: "systemctl start the mesh's watcher on {host}",
    WRONG_KEY: "run the mesh again on {host}, so that it learns the other's present key",
}

PROVEN, LIKELY, UNEXPLAINED = "proven", "likely", "not explained"
FORWARD, BACK = "forward", "back"
#: Places on a node, in the order in which a packet comes by them.
IN, OUT, TUNNEL, DELIVERED = 0, 1, 2, 3


class Step(t.NamedTuple):
    """One thing that decides. ``dev``: by which the packet leaves there, if it is about that."""

    host: str
    stage: int
    what: str
    text: str
    command: str
    source: str
    dev: str | None = None


class Fault(t.NamedTuple):
    """Why a packet cannot go on. ``stage``: the last place on ``host`` that it still reaches; ``dev``: the device by which it leaves there instead,
    where it does. ``at``: the host that has to be fixed; ``device``: the device there that its fix names."""

    cause: str
    host: str
    stage: int
    text: str
    at: str
    command: str = ""
    dev: str | None = None
    confidence: str = PROVEN
    device: str = ""

    @property
    def fix(self) -> str:
        """What to do, with the device's own name where one is concerned."""
        return FIXES[self.cause].format(host=self.at).replace("DEVICE", self.device or "DEVICE")


def printable(text: t.Any, longest: int = 200) -> str:
    """What a host or a cluster calls something: visible ASCII on one line, cut."""
    shown = "".join(char if " " <= char <= "~" else "?" for char in str(text)[: longest + 1])
    return shown if len(shown) <= longest else shown[: longest - 3] + "..."


def argument(text: t.Any) -> str:
    """The same as one argument of a command that somebody may paste."""
    shown = printable(text)
    plain = shown.replace(".", "").replace("-", "").replace("_", "").replace(":", "").replace("/", "").replace("@", "")
    return shown if is_alnum(plain) else "'{0}'".format(shown.replace("'", "?"))


def place_text(version: int, number: int, port: int | None = None) -> str:
    """An address, with its port where there is one."""
    text = address_text(version, number)
    return text if port is None else f"[{text}]:{port}" if version == 6 else f"{text}:{port}"
