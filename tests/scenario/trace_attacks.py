# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ways to break a lab that are no cause of their own: what a trace reports of them must not be wrong.

The words of each are those that are true of it; "arrives" is there where packets may pass. That nothing is explained is always true, and is only
left out where the facts do tell the cause.
"""

from __future__ import annotations

import contextlib
import json

from service_lab import LABEL, client
from trace_breaks import (
    ADDRESS,
    B2,
    BACKWARDS,
    DEVICE,
    FROM,
    MIRRORED,
    PING,
    PODS,
    TCP,
    A,
    B,
    breaks,
    fresh,
    mirror,
    nft,
    peer,
    pod_of,
    underlay,
    uplink_route,
    wg,
)

ATTACKS = []
POD = {A: A + "-pod-1", B: B + "-pod-1"}
#: By which a node reaches its pod.
INSIDE = "pod1"
UDP = dict(PING, trace_port=8888, trace_protocol="udp")


def attack(causes="not_explained", asks=None, name=None):
    return breaks(causes, PING if asks is None else asks, into=ATTACKS, name=name)


@contextlib.contextmanager
def unowned_rule(fabric, node, rule, hook="forward", priority="0", family="ip", kind="filter", device=None):
    """A rule in a table of its own."""
    on = f" device {device}" if device else ""
    nft(
        fabric,
        node,
        f"add table {family} unowned; add chain {family} unowned c {{ type {kind} hook {hook}{on} priority {priority}; }}; add rule {family} unowned c {rule}",
    )
    try:
        yield
    finally:
        nft(fabric, node, f"delete table {family} unowned")


@contextlib.contextmanager
def between(fabric, rule):
    """A rule in the network between the nodes."""
    underlay(
        fabric,
        "nft",
        f"add table ip odd; add chain ip odd c {{ type filter hook forward priority 0; }}; add rule ip odd c {rule}",
    )
    try:
        yield
    finally:
        underlay(fabric, "nft", "delete", "table", "ip", "odd")


@contextlib.contextmanager
def undone(fabric, node, deed, undo):
    """A command, and the one that takes it back."""
    fabric.sh(node, *deed.split())
    try:
        yield
    finally:
        fabric.sh(node, *undo.split())


def ruled(name, causes, node, rule, asks=None, **place):
    """An attack that is one rule of nft."""

    def deed(fabric):
        with unowned_rule(fabric, node, rule.format(a=PODS[A], b=PODS[B]), **place):
            yield

    attack(causes, asks, name)(deed)


# --- rules of others, in every family and hook ------------------------------------------------------------------------

ruled("rule_in_raw", "forward_dropped", A, "ip daddr {b} drop", hook="prerouting", priority="-300")
ruled("rule_before_all_hooks", "not_explained", A, "ip daddr {b} drop", hook="prerouting", priority="-450")
ruled(
    "rule_in_mangle_there", "forward_dropped", B, "ip saddr {a} drop", hook="prerouting", priority="-150", family="inet"
)
ruled("rule_behind_source_nat", "forward_dropped", A, "ip daddr {b} drop", hook="postrouting", priority="300")
ruled("rule_that_resets", "forward_dropped", B, "ip saddr {a} tcp dport 8888 reject with tcp reset", TCP)
ruled("rule_that_rejects", "forward_dropped", A, "ip daddr {b} reject with icmp type admin-prohibited")
ruled(
    "rule_that_counts_connections",
    "forward_dropped",
    B,
    "ip saddr {a} ct state new limit rate over 1/hour burst 1 packets drop",
    TCP,
)
ruled("rule_for_large_packets", "forward_dropped", B, "ip saddr {a} meta length > 1000 drop")
ruled("rule_for_large_answers", "forward_dropped", B, "ip daddr {a} meta length > 1000 drop")
ruled("rule_for_a_part_of_them", "forward_dropped arrives", B, "ip saddr {a} numgen inc mod 2 == 1 drop")
ruled("rule_for_answers", "forward_dropped", A, "ip saddr {b} drop")
ruled(
    "rule_at_the_door_for_answers",
    "not_explained",
    A,
    "ip saddr {b} drop",
    hook="ingress",
    family="netdev",
    device=DEVICE[A],
)
ruled(
    "rule_for_what_is_encrypted",
    "udp_blocked_one_way no_handshake not_explained",
    A,
    "udp dport 51821 ip daddr " + ADDRESS[B] + " drop",
    hook="output",
)
ruled(
    "rule_for_what_comes_encrypted",
    "udp_blocked_one_way no_handshake not_explained",
    B,
    "udp dport 51821 ip saddr " + ADDRESS[A] + " drop",
    hook="input",
)
ruled(
    "redirected_to_the_node",
    "not_explained",
    A,
    "tcp dport 8888 redirect to :9",
    TCP,
    hook="prerouting",
    priority="-100",
    kind="nat",
)
ruled(
    "redirected_there",
    "forward_dropped not_explained",
    B,
    "ip saddr {a} tcp dport 8888 redirect to :9",
    TCP,
    hook="prerouting",
    priority="-100",
    kind="nat",
)
ruled(
    "translated_to_nobody",
    "not_explained",
    A,
    "tcp dport 8888 ip daddr {b} dnat to 10.4.7.250",
    TCP,
    hook="prerouting",
    priority="-110",
    kind="nat",
)
ruled("answers_of_another", "not_explained masqueraded", B, "ip saddr {b} icmp type echo-reply ip saddr set 10.4.7.99")
ruled(
    "answers_of_nobody_known",
    "not_explained masqueraded",
    B,
    "ip saddr {b} icmp type echo-reply ip saddr set 172.30.1.1",
)
ruled("last_hop_of_its_life", "not_explained", A, "ip daddr {b} ip ttl set 1", hook="prerouting", priority="-150")


@attack("masqueraded not_explained")
def masqueraded_by_old_rules(fabric):
    """Rules of legacy iptables tell no trace. They come after the mesh's own table, which has to sleep meanwhile."""
    words = "iptables-legacy -t nat -{0} POSTROUTING -s " + PODS[A] + " -d " + PODS[B] + " -j MASQUERADE"
    kept = "nft add table inet multicluster-network-default-nat "
    with (
        undone(fabric, A, kept + "{ flags dormant; }", kept + "{ }"),
        undone(fabric, A, words.format("A"), words.format("D")),
    ):
        yield


@attack()
def dropped_by_old_rules(fabric):
    words = "iptables-legacy -{0} FORWARD -s " + PODS[A] + " -j DROP"
    with undone(fabric, B, words.format("A"), words.format("D")):
        yield


@attack()
def marked_for_another_table(fabric):
    """A rule by a mark that a rule of nft gives: neither the facts nor the kernel's answer know of it."""
    fabric.sh(A, "ip", "route", "add", "default", *uplink_route(fabric, A), "table", "177")
    with (
        undone(
            fabric, A, "ip rule add fwmark 0x77 table 177 priority 60", "ip rule del fwmark 0x77 table 177 priority 60"
        ),
        unowned_rule(fabric, A, f"ip daddr {PODS[B]} meta mark set 0x77", hook="prerouting", priority="-150"),
    ):
        yield
    fabric.sh(A, "ip", "route", "del", "default", "table", "177")


# --- routing ----------------------------------------------------------------------------------------------------------


def commanded(name, causes, node, deed, undo, asks=None):
    """An attack that is one command."""

    def deed_of(fabric):
        with undone(fabric, node, deed, undo):
            yield

    attack(causes, asks, name)(deed_of)


for kind in ("unreachable", "blackhole", "prohibit"):
    commanded(
        "rule_" + kind,
        "rule_shadowed",
        A,
        f"ip rule add to {PODS[B]} {kind} priority 40",
        f"ip rule del to {PODS[B]} {kind} priority 40",
    )
    commanded("route_" + kind, "route_shadowed", A, f"ip route add {kind} {PODS[B]}", f"ip route del {kind} {PODS[B]}")
commanded(
    "rule_by_port",
    "rule_shadowed not_explained",
    A,
    "ip rule add ipproto tcp dport 8888 blackhole priority 40",
    "ip rule del ipproto tcp dport 8888 blackhole priority 40",
    TCP,
)
commanded(
    "route_to_itself",
    "not_explained route_shadowed",
    A,
    "ip route add local 10.4.7.10 dev lo",
    "ip route del local 10.4.7.10 dev lo",
)
commanded(
    "rule_for_answers_alone",
    "answer_another_way rule_shadowed reverse_path_filter",
    B,
    f"ip rule add from {PODS[B]} to {PODS[A]} blackhole priority 40",
    f"ip rule del from {PODS[B]} to {PODS[A]} blackhole priority 40",
)
commanded(
    "forwarding_off_for_the_device",
    "forwarding_off",
    B,
    f"sysctl -qw net.ipv4.conf.{DEVICE[B].replace('.', '/')}.forwarding=0",
    f"sysctl -qw net.ipv4.conf.{DEVICE[B].replace('.', '/')}.forwarding=1",
)


@attack("route_missing not_explained")
def pods_device_down(fabric):
    """Its route goes with it."""
    fabric.sh(B, "ip", "link", "set", INSIDE, "down")
    yield
    fabric.sh(
        B,
        "sh",
        "-c",
        f"ip link set {INSIDE} up; ip route replace {pod_of(fabric, B)} dev {INSIDE} proto static scope link",
    )


commanded(
    "policy_of_ipsec",
    "not_explained",
    A,
    f"ip xfrm policy add dst {PODS[B]} dir fwd action block",
    f"ip xfrm policy delete dst {PODS[B]} dir fwd",
)
commanded(
    "policy_of_ipsec_out",
    "not_explained",
    A,
    f"ip xfrm policy add dst {PODS[B]} dir out action block",
    f"ip xfrm policy delete dst {PODS[B]} dir out",
)
commanded(
    "neighbour_of_the_uplink",
    "udp_blocked_one_way udp_blocked no_handshake not_explained",
    A,
    "ip neigh replace 10.66.23.1 lladdr 02:00:00:00:00:99 dev eth0 nud permanent",
    "ip neigh del 10.66.23.1 dev eth0",
)
commanded("mtu_of_the_uplink", "arrives mtu_black_hole", A, "ip link set eth0 mtu 1280", "ip link set eth0 mtu 1500")
commanded(
    "mtu_of_the_tunnel_there", "arrives", B, f"ip link set {DEVICE[B]} mtu 1280", f"ip link set {DEVICE[B]} mtu 1420"
)
commanded(
    "mtu_of_the_pods_device",
    "arrives mtu_black_hole",
    B,
    f"ip link set {INSIDE} mtu 1280",
    f"ip link set {INSIDE} mtu 1500",
)


# --- before and behind what a trace sees ---------------------------------------------------------------------------------

ruled(
    "filter_of_the_sources_device",
    "not_explained",
    A,
    "ip daddr {b} drop",
    hook="ingress",
    family="netdev",
    device=INSIDE,
)
ruled(
    "filter_of_the_targets_device",
    "forward_dropped",
    B,
    "ip saddr {a} drop",
    hook="egress",
    family="netdev",
    device=INSIDE,
)
ruled(
    "filter_of_the_targets_answers",
    "not_explained target_silent",
    B,
    "ip daddr {a} drop",
    hook="ingress",
    family="netdev",
    device=INSIDE,
)
ruled(
    "filter_of_the_answer_at_its_end",
    "forward_dropped",
    A,
    "ip saddr {b} drop",
    hook="egress",
    family="netdev",
    device=INSIDE,
)
ruled(
    "filter_of_large_packets",
    "forward_dropped",
    A,
    "ip daddr {b} meta length > 1300 drop",
    hook="egress",
    family="netdev",
    device=DEVICE[A],
)
ruled(
    "all_lost_in_the_uplink",
    "udp_blocked_one_way udp_blocked no_handshake not_explained",
    A,
    "udp dport 51821 drop",
    hook="egress",
    family="netdev",
    device="eth0",
)
ruled(
    "half_lost_in_the_uplink",
    "arrives udp_blocked_one_way no_handshake not_explained",
    A,
    "udp dport 51821 numgen random mod 2 == 0 drop",
    hook="egress",
    family="netdev",
    device="eth0",
)


@attack("arrives not_explained")
def every_second_is_lost(fabric):
    """Small ones pass and large ones do not, by chance: no black hole."""
    with between(fabric, f"ip saddr {ADDRESS[A]} ip daddr {ADDRESS[B]} udp length > 120 numgen inc mod 2 == 1 drop"):
        yield


@attack("no_handshake udp_blocked_one_way not_explained")
def handshakes_are_lost(fabric):
    with between(fabric, "udp length 156 drop"):
        fresh(fabric, A, B)
        fresh(fabric, B, A)
        yield
    fabric.play("mesh").ok()


@attack("udp_blocked_one_way no_handshake not_explained")
def the_answers_way_is_blocked(fabric):
    with between(fabric, f"ip saddr {ADDRESS[B]} ip daddr {ADDRESS[A]} udp dport 51821 drop"):
        yield


@attack("mtu_black_hole")
def nobody_is_reported_how_large(fabric):
    """The tunnel there takes less, and what would say so is dropped."""
    fabric.sh(B, "ip", "link", "set", INSIDE, "mtu", "1280")
    with unowned_rule(fabric, A, "icmp type destination-unreachable drop", hook="prerouting", priority="-150"):
        yield
    fabric.sh(B, "ip", "link", "set", INSIDE, "mtu", "1500")


# --- WireGuard --------------------------------------------------------------------------------------------------------


@attack("udp_blocked_one_way udp_blocked no_handshake not_explained stale_endpoint")
def mark_of_the_device(fabric):
    """Its packets get a mark by which they go nowhere."""
    wg(fabric, A, "fwmark", "0x99")
    with undone(
        fabric, A, "ip rule add fwmark 0x99 blackhole priority 30", "ip rule del fwmark 0x99 blackhole priority 30"
    ):
        yield
    wg(fabric, A, "fwmark", "0")


@attack("stale_endpoint arrives")
def port_of_the_device(fabric):
    wg(fabric, B, "listen-port", "51999")
    for node, other in ((A, B), (B, A)):
        wg(fabric, node, "peer", peer(fabric, node, other)[0], "persistent-keepalive", "0")
    yield
    fabric.play("mesh").ok()


@attack("wrong_key")
def key_of_the_device(fabric):
    fabric.sh(
        B, "sh", "-c", f"umask 077; wg genkey > /run/other; wg set {DEVICE[B]} private-key /run/other; rm /run/other"
    )
    yield
    fabric.play("mesh").ok()


@attack("wrong_key")
def key_of_the_device_here(fabric):
    fabric.sh(
        A, "sh", "-c", f"umask 077; wg genkey > /run/other; wg set {DEVICE[A]} private-key /run/other; rm /run/other"
    )
    yield
    fabric.play("mesh").ok()


@attack("allowed_ips_lack_target allowed_ips_lack_source")
def ranges_of_another_peer(fabric):
    """The other node hands it on, so it arrives, and its answer is not taken from who sends it."""
    wg(fabric, A, "peer", peer(fabric, A, B2)[0], "allowed-ips", f"{PODS[B2]},{PODS[B]}")
    yield
    fabric.play("mesh").ok()


@attack("allowed_ips_lack_target")
def narrower_range_of_a_stranger(fabric):
    key = fabric.sh(A, "sh", "-c", "wg genkey | wg pubkey").strip()
    wg(fabric, A, "peer", key, "allowed-ips", "10.4.7.10/32", "endpoint", "10.22.22.99:51821")
    yield
    wg(fabric, A, "peer", key, "remove")


@attack("arrives")
def stranger_with_the_whole_internet(fabric):
    key = fabric.sh(A, "sh", "-c", "wg genkey | wg pubkey").strip()
    wg(fabric, A, "peer", key, "allowed-ips", "0.0.0.0/0", "endpoint", "10.22.22.99:51821")
    yield
    wg(fabric, A, "peer", key, "remove")


@attack("device_missing")
def device_renamed(fabric):
    fabric.sh(A, "sh", "-c", "ip link set {0} down; ip link set {0} name wgold; ip link set wgold up".format(DEVICE[A]))
    yield
    fabric.sh(A, "sh", "-c", "ip link set wgold down; ip link set wgold name {0}; ip link set {0} up".format(DEVICE[A]))
    fabric.play("mesh").ok()


@attack("rule_shadowed")
def vpn_of_the_machine(fabric):
    """What wg-quick does with 0.0.0.0/0, without its rule for narrower routes."""
    fabric.sh(
        A,
        "sh",
        "-c",
        "ip link add vpn0 type veth peer name vpn1; ip link set vpn1 up; ip link set vpn0 up; ip route add default dev vpn0 table 51820; "
        "ip rule add not fwmark 51820 table 51820 priority 500",
    )
    yield
    fabric.sh(A, "sh", "-c", "ip rule del not fwmark 51820 table 51820 priority 500; ip link del vpn0")


@attack("stale_endpoint endpoint_moved udp_blocked udp_blocked_one_way no_handshake not_explained")
def address_of_the_node(fabric):
    """It has another one now, and the cluster still has the old one."""
    moved(fabric, ADDRESS[B], "10.22.22.99")
    fresh(fabric, B, A)
    yield
    moved(fabric, "10.22.22.99", ADDRESS[B])
    fabric.play("mesh").ok()


def moved(fabric, old, new):
    """Routes go with an address, so all of the uplink's are made again."""
    routes = [row for row in json.loads(fabric.sh(B, "ip", "-j", "route", "show", "dev", "eth0")) if row.get("gateway")]
    fabric.sh(B, "ip", "address", "del", old + "/24", "dev", "eth0")
    fabric.sh(B, "ip", "address", "add", new + "/24", "dev", "eth0")
    for row in routes:
        fabric.sh(B, "ip", "route", "replace", row["dst"], "via", row["gateway"], "dev", "eth0", "proto", "static")


# --- pods and Services --------------------------------------------------------------------------------------------------


def status_address(fabric, cluster, namespace, name, address):
    client(fabric, cluster).merge_patch(
        f"/api/v1/namespaces/{namespace}/pods/{name}/status",
        {"status": {"podIP": address, "podIPs": [{"ip": address}]}},
        "kubelet",
    )


@attack("route_missing not_explained")
def wrong_address_of_the_target(fabric):
    """Its cluster has another one than its namespace has."""
    status_address(fabric, "gcp", "sys-log", "fluentd-a", "10.4.7.77")
    yield
    status_address(fabric, "gcp", "sys-log", "fluentd-a", "10.4.7.10")


@attack("not_explained")
def wrong_address_of_the_source(fabric):
    status_address(fabric, "aws", "default", "web", "10.2.3.77")
    yield
    status_address(fabric, "aws", "default", "web", "10.2.3.10")


@attack("arrives not_explained", asks={"trace_from": FROM, "trace_to": "gcp/sys-log/other"})
def two_with_one_address(fabric):
    status_address(fabric, "gcp", "sys-log", "other", "10.4.7.10")
    yield
    status_address(fabric, "gcp", "sys-log", "other", "10.4.8.10")


def in_pod(fabric, node, *words):
    fabric.lab("pod-exec", POD[node], "--", *words)


@attack("target_silent")
def targets_way_out(fabric):
    in_pod(fabric, B, "ip", "route", "add", "blackhole", PODS[A])
    yield
    in_pod(fabric, B, "ip", "route", "del", "blackhole", PODS[A])


@attack("not_explained")
def source_takes_no_answer(fabric):
    in_pod(
        fabric,
        A,
        "nft",
        "add table ip deaf; add chain ip deaf c { type filter hook input priority 0; }; add rule ip deaf c ip saddr 10.4.7.0/24 drop",
    )
    yield
    in_pod(fabric, A, "nft", "delete table ip deaf")


@attack("not_explained")
def source_sends_nothing(fabric):
    in_pod(
        fabric,
        A,
        "nft",
        "add table ip mute; add chain ip mute c { type filter hook output priority 0; }; add rule ip mute c ip daddr 10.4.7.0/24 drop",
    )
    yield
    in_pod(fabric, A, "nft", "delete table ip mute")


@attack("not_explained", asks=MIRRORED)
def service_goes_elsewhere(fabric):
    """A rule before kube-proxy's sends the Service's address to nobody."""
    address = json.loads(fabric.kubectl("aws", "-n", "sys-semaphore", "get", "service", mirror(fabric), "-o", "json"))[
        "spec"
    ]["clusterIP"]
    with unowned_rule(
        fabric,
        A,
        f"ip daddr {address} tcp dport 8888 dnat to 10.4.7.250:8888",
        hook="prerouting",
        priority="-110",
        kind="nat",
    ):
        yield


MIRRORING = {
    "multicluster_capabilities": ["service_mirror"],
    "service_mirror_create_namespace": True,
    "service_mirror_as": "endpoints",
}


@attack("arrives", asks=dict(MIRRORED, trace_to="gcp/sys-log/service/sticky", trace_port=80))
def another_port_and_one_pod_for_each_client(fabric):
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "sticky", "namespace": "sys-log", "labels": {LABEL: "true"}},
        "spec": {
            "selector": {"app": "fluentd"},
            "sessionAffinity": "ClientIP",
            "ports": [{"name": "http", "port": 80, "targetPort": 8888}],
        },
    }
    client(fabric, "gcp").create("/api/v1/namespaces/sys-log/services", body, "test")
    fabric.play("service_mirror", variables=MIRRORING).ok()
    yield
    fabric.kubectl("gcp", "-n", "sys-log", "delete", "service", "sticky")
    fabric.play("service_mirror", variables=MIRRORING).ok()


ruled("udp_that_is_dropped", "forward_dropped", B, "ip saddr {a} meta l4proto udp drop", UDP)
ruled(
    "udp_answers_are_dropped", "arrives forward_dropped", B, "ip daddr {a} icmp type destination-unreachable drop", UDP
)
ruled("backwards_dropped", "forward_dropped", A, "ip saddr {b} drop", BACKWARDS)
