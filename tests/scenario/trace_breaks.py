# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ways to break a lab, each with the cause that a trace has to name.

Every one of them breaks what it is named after, in kernels and clusters of the lab. Each is a generator: what is before its ``yield`` breaks,
what is after it takes back what no playbook would.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
import typing as t

import felix_double as felix
from ansible_collections.multicluster.network.plugins.filter.policy_selector import policy_selector
from harness import REPO
from service_lab import client, running, until
from trace_lab import assert_arrives

A, A2, B, B2 = "aws-node-1", "aws-node-2", "gcp-node-1", "gcp-node-2"
#: The device of each towards the other cluster.
DEVICE = {A: "wireguard.gcp", A2: "wireguard.gcp", B: "wireguard.aws", B2: "wireguard.aws"}
ADDRESS = {A: "10.66.23.31", A2: "10.66.23.32", B: "10.22.22.27", B2: "10.22.22.28"}
PODS = {A: "10.2.3.0/24", A2: "10.2.4.0/24", B: "10.4.7.0/24", B2: "10.4.8.0/24"}
PORT, CLOSED = 8888, 8889
FROM, TO, SERVICE = "aws/default/web", "gcp/sys-log/fluentd-a", "gcp/sys-log/service/fluentd"
#: As kubeadm writes it, in short.
COREFILE = """.:53 {
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
    }
    forward . /etc/resolv.conf
    cache 30
    reload
}
"""
SYSTEM, DNS = "/api/v1/namespaces/kube-system/", "10.3.0.10"
#: Answers for one name, and reports that all others do not exist.
DNS_SERVER = """
import socket, struct, sys
known = b"".join(bytes([len(part)]) + part for part in sys.argv[1].encode().split(b".")) + bytes(1)
listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
listener.bind(("", 53))
while True:
    asked, peer = listener.recvfrom(512)
    end = asked.index(bytes(1), 12) + 5
    right, kind = asked[12:end - 4].lower() == known, struct.unpack("!H", asked[end - 4:end - 2])[0]
    answer = struct.pack("!HHHIH", 0xc00c, 1, 1, 5, 4) + socket.inet_aton(sys.argv[2]) if right and kind == 1 else b""
    head = struct.pack("!HHHHH", 0x8180 if right else 0x8183, 1, 1 if answer else 0, 0, 0)
    listener.sendto(asked[:2] + head + asked[12:end] + answer, peer)
"""
PING = {"trace_from": FROM, "trace_to": TO}
BACKWARDS = {"trace_from": TO, "trace_to": FROM}
TCP = dict(PING, trace_port=PORT)


class Break(t.NamedTuple):
    """One way to break the lab. fix: the playbook that heals it as the finding states, None where its own second half does."""

    name: str
    cause: str
    asks: t.Mapping[str, t.Any]
    fix: str | None
    quick: bool
    deed: t.Callable[[t.Any], t.Iterator[None]]

    @contextlib.contextmanager
    def broken(self, fabric):
        """The lab is broken inside, and what no playbook takes back is taken back in any case."""
        deed = self.deed(fabric)
        next(deed, None)
        try:
            yield
        finally:
            next(deed, None)


BREAKS: list[Break] = []
#: What to ask to see that it is green again, where it is not the broken question itself.
HEALS: list[t.Mapping[str, t.Any]] = []
#: Breaks that are in no list of causes: whatever is said must not be wrong.
OTHERS: list[Break] = []


def breaks(cause, asks=None, fix=None, quick=False, name=None, into=None):
    """A breaker under its own name, or another one."""

    def add(function):
        (BREAKS if into is None else into).append(
            Break(name or function.__name__, cause, asks or PING, fix, quick, function)
        )
        return function

    return add


def peer(fabric, node, other):
    """(key, settings) of the peer that a node has for another."""
    found = fabric.wireguard(node)[DEVICE[node]]["peers"]
    return next((key, row) for key, row in found.items() if PODS[other] in row["allowed_ips"])


def wg(fabric, node, *words):
    fabric.sh(node, "wg", "set", DEVICE[node], *words)


def nft(fabric, node, text):
    fabric.sh(node, "nft", text)


def underlay(fabric, *words):
    """A command in the network between the nodes."""
    done = subprocess.run(
        ["ip", "netns", "exec", fabric.namespace("underlay"), *words],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def uplink(fabric, node):
    """The device of a node's default route."""
    return json.loads(fabric.sh(node, "ip", "-j", "route", "show", "default"))[0]["dev"]


def uplink_route(fabric, node):
    """``via GATEWAY dev DEVICE`` of a node's default route, as words."""
    row = json.loads(fabric.sh(node, "ip", "-j", "route", "show", "default"))[0]
    return ["via", row["gateway"], "dev", row["dev"]]


# --- peers ----------------------------------------------------------------------------------------------------------


@breaks("peer_missing", fix="mesh")
def peer_missing_there(fabric):
    wg(fabric, B, "peer", peer(fabric, B, A)[0], "remove")
    yield


@breaks("peer_missing", fix="mesh", quick=True)
def peer_missing_here(fabric):
    wg(fabric, A, "peer", peer(fabric, A, B)[0], "remove")
    yield


@breaks("wrong_key", fix="mesh")
def wrong_key_there(fabric):
    key, row = peer(fabric, B, A)
    other = fabric.sh(B, "sh", "-c", "wg genkey | wg pubkey").strip()
    wg(fabric, B, "peer", key, "remove")
    wg(fabric, B, "peer", other, "endpoint", row["endpoint"], "allowed-ips", ",".join(row["allowed_ips"]))
    yield


@breaks("wrong_key", fix="mesh")
def wrong_key_here(fabric):
    key, row = peer(fabric, A, B)
    other = fabric.sh(A, "sh", "-c", "wg genkey | wg pubkey").strip()
    wg(fabric, A, "peer", key, "remove")
    wg(fabric, A, "peer", other, "endpoint", row["endpoint"], "allowed-ips", ",".join(row["allowed_ips"]))
    yield


@breaks("stale_endpoint", fix="mesh")
def stale_endpoint(fabric):
    """The other node had this address before; it has none for us, so it cannot call."""
    key, row = peer(fabric, B, A)
    wg(fabric, B, "peer", key, "remove")
    wg(fabric, B, "peer", key, "allowed-ips", ",".join(row["allowed_ips"]))
    wg(fabric, A, "peer", peer(fabric, A, B)[0], "endpoint", "10.22.22.99:51821")
    yield


@breaks("endpoint_moved", asks=BACKWARDS, fix="mesh")
def endpoint_moved(fabric):
    """A translation between them gave the caller another port, and forgot it: who answers has learned it, and sends where nobody is."""
    underlay(
        fabric,
        "nft",
        "add table ip moved; add chain ip moved out { type nat hook postrouting priority 100; }; "
        "add rule ip moved out ip saddr 10.66.23.31 udp sport 51821 snat to 10.66.23.1:40001",
    )
    try:
        wg(fabric, A, "peer", peer(fabric, A, B)[0], "persistent-keepalive", "1")
        deadline = time.monotonic() + 120
        while not peer(fabric, B, A)[1]["endpoint"].endswith(":40001"):
            assert time.monotonic() < deadline, peer(fabric, B, A)
            underlay(fabric, "sh", "-c", "conntrack -D -p udp 2>/dev/null || true")
            fabric.sh(A, "ping", "-c", "1", "-W", "1", "-I", ADDRESS[A], ADDRESS[B], check=False)
            time.sleep(0.5)
        wg(fabric, A, "peer", peer(fabric, A, B)[0], "persistent-keepalive", "0")
    finally:
        underlay(fabric, "nft", "delete", "table", "ip", "moved")
    underlay(fabric, "sh", "-c", "conntrack -D -p udp 2>/dev/null || true")
    yield


@breaks("keys_shared", asks={"trace_from": FROM, "trace_to": "gcp/sys-log/other"})
def keys_shared(fabric):
    """An image of one node became another one."""
    folder = fabric.sh(B, "sh", "-c", "grep -rl . /var/lib/semaphore-wireguard | head -n 1").strip()
    key = fabric.sh(B, "cat", folder)
    before = fabric.sh(B2, "cat", folder)
    write = "umask 077; printf %s '{0}' > {1}; wg set wireguard.aws private-key {1}"
    fabric.sh(B2, "sh", "-c", write.format(key.strip(), folder))
    fabric.play("mesh")
    yield
    fabric.sh(B2, "sh", "-c", write.format(before.strip(), folder))
    fabric.play("mesh").ok()


@breaks("allowed_ips_lack_source", fix="mesh")
def allowed_ips_lack_source(fabric):
    wg(fabric, B, "peer", peer(fabric, B, A)[0], "allowed-ips", "10.2.99.0/24")
    yield


@breaks("allowed_ips_lack_target", fix="mesh")
def allowed_ips_lack_target(fabric):
    wg(fabric, A, "peer", peer(fabric, A, B)[0], "allowed-ips", "10.4.99.0/24")
    yield


@breaks("no_handshake", fix="mesh")
def no_handshake(fabric):
    """Two preshared keys that differ: everything that can be read is right."""
    other = "umask 077; wg genpsk > /run/other.psk; wg set {0} peer {1} preshared-key /run/other.psk; rm /run/other.psk"
    fabric.sh(B, "sh", "-c", other.format(DEVICE[B], peer(fabric, B, A)[0]))
    fresh(fabric, A, B)
    yield


def fresh(fabric, node, other):
    """A peer without the session that it had."""
    key, row = peer(fabric, node, other)
    wg(fabric, node, "peer", key, "remove")
    wg(fabric, node, "peer", key, "endpoint", row["endpoint"], "allowed-ips", ",".join(row["allowed_ips"]))


# --- between the nodes ----------------------------------------------------------------------------------------------


def blocked(fabric, *rules):
    """Packets between two nodes that the network between them does not carry."""
    underlay(
        fabric,
        "nft",
        "add table ip blocked; add chain ip blocked through { type filter hook forward priority 0; }; "
        + "; ".join("add rule ip blocked through " + rule for rule in rules),
    )


def open_again(fabric):
    underlay(fabric, "nft", "delete", "table", "ip", "blocked")


@breaks("udp_blocked_one_way")
def udp_blocked_one_way(fabric):
    blocked(fabric, f"ip saddr {ADDRESS[A]} ip daddr {ADDRESS[B]} udp dport 51821 drop")
    fresh(fabric, A, B)
    fresh(fabric, B, A)
    wg(fabric, B, "peer", peer(fabric, B, A)[0], "persistent-keepalive", "1")
    yield
    open_again(fabric)
    fabric.play("mesh").ok()


@breaks("udp_blocked")
def udp_blocked_both_ways(fabric):
    blocked(
        fabric,
        *(
            "ip saddr {0} ip daddr {1} udp dport 51821 drop".format(*ends)
            for ends in ((ADDRESS[A], ADDRESS[B]), (ADDRESS[B], ADDRESS[A]))
        ),
    )
    fresh(fabric, A, B)
    fresh(fabric, B, A)
    yield
    open_again(fabric)
    fabric.play("mesh").ok()


@breaks("mtu_black_hole")
def mtu_black_hole(fabric):
    """Small packets pass, large ones do not, and nothing reports it."""
    blocked(fabric, f"ip saddr {ADDRESS[A]} ip daddr {ADDRESS[B]} udp dport 51821 ip length > 1300 drop")
    yield
    open_again(fabric)


# --- routing --------------------------------------------------------------------------------------------------------


@breaks("route_missing", fix="mesh")
def route_missing(fabric):
    fabric.sh(A, "ip", "route", "del", "10.4.0.0/16", "dev", DEVICE[A])
    yield


@breaks("route_missing", fix="mesh", name="route_missing_for_the_answer")
def route_missing_back(fabric):
    fabric.sh(B, "ip", "route", "del", "10.2.0.0/16", "dev", DEVICE[B])
    yield


@breaks("route_shadowed")
def route_shadowed(fabric):
    fabric.sh(A, "ip", "route", "add", "10.4.7.0/25", *uplink_route(fabric, A))
    yield
    fabric.sh(A, "ip", "route", "del", "10.4.7.0/25")


@breaks("rule_shadowed")
def rule_shadowed(fabric):
    fabric.sh(A, "ip", "route", "add", "default", *uplink_route(fabric, A), "table", "100")
    fabric.sh(A, "ip", "rule", "add", "to", PODS[B], "table", "100", "priority", "50")
    yield
    fabric.sh(A, "ip", "rule", "del", "to", PODS[B], "table", "100", "priority", "50")
    fabric.sh(A, "ip", "route", "del", "default", "table", "100")


def another_way_back(fabric):
    """Answers to one node's pods leave by the uplink."""
    fabric.sh(B, "ip", "route", "add", "default", *uplink_route(fabric, B), "table", "101")
    fabric.sh(B, "ip", "rule", "add", "from", PODS[B], "to", PODS[A], "table", "101", "priority", "51")


def same_way_back(fabric):
    fabric.sh(B, "ip", "rule", "del", "from", PODS[B], "to", PODS[A], "table", "101", "priority", "51")
    fabric.sh(B, "ip", "route", "del", "default", "table", "101")


@breaks("answer_another_way")
def answer_another_way(fabric):
    """The tunnel's device takes packets without looking where their answers go."""
    names = ["net.ipv4.conf.all.rp_filter", f"net.ipv4.conf.{DEVICE[B].replace('.', '/')}.rp_filter"]
    before = settings(fabric, B, *names)
    change(fabric, B, dict.fromkeys(names, "0"))
    another_way_back(fabric)
    yield
    same_way_back(fabric)
    change(fabric, B, before)


@breaks("reverse_path_filter")
def reverse_path_filter(fabric):
    """Strict (of the device's value and that of all, the larger counts), and the way back to one node's pods is another one."""
    names = ["net.ipv4.conf.all.rp_filter", f"net.ipv4.conf.{DEVICE[B].replace('.', '/')}.rp_filter"]
    before = settings(fabric, B, *names)
    change(fabric, B, dict.fromkeys(names, "1"))
    fabric.sh(B, "ip", "route", "add", PODS[A], *uplink_route(fabric, B))
    yield
    fabric.sh(B, "ip", "route", "del", PODS[A])
    change(fabric, B, before)


@breaks("reverse_path_filter", name="reverse_path_filter_that_is_loose")
def reverse_path_filter_loose(fabric):
    """On a device without an address it takes no other way back either."""
    fabric.sh(B, "ip", "route", "add", PODS[A], *uplink_route(fabric, B))
    yield
    fabric.sh(B, "ip", "route", "del", PODS[A])


def settings(fabric, node, *names):
    return {name: fabric.sh(node, "sysctl", "-n", name).strip() for name in names}


def change(fabric, node, desired):
    for name, value in desired.items():
        fabric.sh(node, "sysctl", "-q", "-w", f"{name}={value}")


@breaks("forwarding_off")
def forwarding_off(fabric):
    change(fabric, A, {"net.ipv4.ip_forward": "0"})
    yield
    change(fabric, A, {"net.ipv4.ip_forward": "1"})


@breaks("forwarding_off", name="forwarding_off_at_the_target")
def forwarding_off_there(fabric):
    change(fabric, B, {"net.ipv4.ip_forward": "0"})
    yield
    change(fabric, B, {"net.ipv4.ip_forward": "1"})


@breaks("device_down")
def device_down(fabric):
    """Of the other node; its routes go with it."""
    fabric.sh(B, "ip", "link", "set", DEVICE[B], "down")
    yield
    fabric.sh(B, "ip", "link", "set", DEVICE[B], "up")
    fabric.play("mesh").ok()


@breaks("device_down", fix="mesh", name="device_down_here")
def device_down_here(fabric):
    fabric.sh(A, "ip", "link", "set", DEVICE[A], "down")
    yield


@breaks("device_missing", fix="mesh")
def device_missing(fabric):
    fabric.sh(B, "ip", "link", "del", DEVICE[B])
    yield


# --- rules ----------------------------------------------------------------------------------------------------------


@breaks("forward_dropped", quick=True)
def forward_dropped_by_policy(fabric):
    """What Docker does to a machine."""
    nft(
        fabric,
        B,
        "add table ip docker; add chain ip docker FORWARD { type filter hook forward priority 0; policy drop; }",
    )
    yield
    nft(fabric, B, "delete table ip docker")


@breaks("forward_dropped", asks=TCP)
def forward_dropped_by_rule(fabric):
    nft(
        fabric,
        A,
        "add table inet firewall; add chain inet firewall through { type filter hook forward priority 5; policy accept; }",
    )
    nft(fabric, A, f'add rule inet firewall through ip daddr {PODS[B]} counter drop comment "no-clouds"')
    yield
    nft(fabric, A, "delete table inet firewall")


@breaks("conntrack_full")
def conntrack_full_here(fabric):
    """Of this node alone: how much of the limit is used is counted in each network namespace."""
    words = [
        "ip",
        "netns",
        "exec",
        fabric.namespace(A),
        "python3",
        str(REPO / "tests" / "kernel" / "tracked_connections.py"),
    ]
    subprocess.run([*words, "fill"], check=True, capture_output=True)
    filling = subprocess.Popen([*words, "keep"], stdin=subprocess.DEVNULL)
    yield
    assert filling.poll() is None, "the table was not kept full"
    filling.kill()
    filling.wait()
    subprocess.run([*words, "flush"], check=True, capture_output=True)


@breaks("masqueraded")
def masqueraded(fabric):
    """Before the mesh's own table keeps the address: the first rule that decides wins."""
    nft(fabric, A, "add table ip cni; add chain ip cni out { type nat hook postrouting priority 90; }")
    nft(fabric, A, f"add rule ip cni out ip saddr {PODS[A]} ip daddr != 10.2.0.0/16 snat to {ADDRESS[A]}")
    yield
    nft(fabric, A, "delete table ip cni")


# --- pods and Services ----------------------------------------------------------------------------------------------


@breaks("port_closed", asks=dict(PING, trace_port=CLOSED))
def port_closed(fabric):
    """Nobody listens there, ever."""
    yield
    HEALS.append(TCP)


@breaks("target_silent", asks=TCP)
def target_silent(fabric):
    rule = "add table inet deaf; add chain inet deaf in { type filter hook input priority 0; }; add rule inet deaf in tcp dport 8888 drop"
    fabric.lab("pod-exec", B + "-pod-1", "--", "nft", rule)
    yield
    fabric.lab("pod-exec", B + "-pod-1", "--", "nft", "delete table inet deaf")


@breaks("no_endpoints", asks={"trace_from": FROM, "trace_to": "aws/default/service/empty", "trace_port": 80})
def no_endpoints(fabric):
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "empty"},
        "spec": {"selector": {"app": "nobody"}, "ports": [{"port": 80}]},
    }
    client(fabric, "aws").create("/api/v1/namespaces/default/services", body, "test")
    yield
    fabric.kubectl("aws", "delete", "service", "empty")
    HEALS.append(TCP)


def mirror(fabric):
    """Name of the mirror of fluentd in aws."""
    return next(
        row["metadata"]["name"]
        for row in client(fabric, "aws").list("/api/v1/namespaces/sys-semaphore/services").items
        if row["metadata"]["name"].endswith("-fluentd")
    )


MIRRORED = {"trace_from": FROM, "trace_to": SERVICE, "trace_port": PORT}


@breaks("mirror_missing", asks=MIRRORED, fix="service_mirror", quick=True)
def mirror_missing(fabric):
    name = mirror(fabric)
    address = client(fabric, "aws").get("/api/v1/namespaces/sys-semaphore/services/" + name)["spec"]["clusterIP"]
    fabric.kubectl("aws", "-n", "sys-semaphore", "delete", "service", name)
    until(lambda: not any(address in fabric.sh(node, "iptables-save", "-t", "nat") for node in (A, A2)))  # kube-proxy
    yield


@breaks("mirror_stale", asks=MIRRORED, fix="service_mirror")
def mirror_stale(fabric):
    """It has an address that is no endpoint of the Service any more."""
    api, base = client(fabric, "aws"), "/api/v1/namespaces/sys-semaphore/endpoints/"
    name = mirror(fabric)
    subsets = json.loads(json.dumps(api.get(base + name)["subsets"]))
    subsets[0]["addresses"] = [{"ip": "10.4.7.200"}]
    api.merge_patch(base + name, {"subsets": subsets}, "test")
    yield


@breaks("port_not_in_service", asks=dict(MIRRORED, trace_port=9999))
def port_not_in_service(fabric):
    yield
    HEALS.append(MIRRORED)


@breaks("kube_proxy_off", asks=MIRRORED)
def kube_proxy_off(fabric):
    fabric.lab("kube-proxy-stop", A)
    yield
    fabric.lab("kube-proxy-start", A)


NAMED = {"trace_from": FROM, "trace_to": "fluentd.sys-log.svc.cluster.gcp", "trace_port": PORT}


@breaks("rewrite_missing", asks=NAMED, fix="coredns_rewrite")
def rewrite_missing(fabric):
    """The Corefile as kubeadm writes it."""
    apply(fabric, "configmaps/coredns", kind="ConfigMap", metadata={"name": "coredns"}, data={"Corefile": COREFILE})
    yield
    HEALS.append(NAMED)


def apply(fabric, path, **body):
    """What kubeadm would write."""
    client(fabric, "aws").apply(SYSTEM + path, dict(body, apiVersion="v1"), "kubeadm", force=True)


@contextlib.contextmanager
def cluster_dns(fabric):
    """A right Corefile, and the Service of a DNS server on a node; gives a function that runs one, which knows one name or none, and the name's address."""
    apply(fabric, "configmaps/coredns", kind="ConfigMap", metadata={"name": "coredns"}, data={"Corefile": COREFILE})
    fabric.play("coredns_rewrite").ok()
    ports = [{"name": "dns", "port": 53, "protocol": "UDP"}]
    apply(
        fabric,
        "services/kube-dns",
        kind="Service",
        metadata={"name": "kube-dns"},
        spec={"clusterIP": DNS, "ports": ports},
    )
    apply(
        fabric,
        "endpoints/kube-dns",
        kind="Endpoints",
        metadata={"name": "kube-dns"},
        subsets=[{"addresses": [{"ip": ADDRESS[A2]}], "ports": ports}],
    )
    address = client(fabric, "aws").get("/api/v1/namespaces/sys-semaphore/services/" + mirror(fabric))["spec"][
        "clusterIP"
    ]
    try:
        yield lambda name: running(fabric, "exec", A2, "--", "/usr/bin/python3", "-c", DNS_SERVER, name, address)
    finally:
        for what in ("services/kube-dns", "configmaps/coredns"):
            client(fabric, "aws").delete(SYSTEM + what)
        HEALS.append(PING)


@breaks("dns_fails", asks=NAMED)
def dns_fails(fabric):
    """Nobody listens where the Service of the DNS leads."""
    with cluster_dns(fabric) as server:
        yield
        with server(NAMED["trace_to"]):
            assert_arrives(fabric, **NAMED)


@breaks("dns_differs", asks=NAMED)
def dns_differs(fabric):
    """It has not loaded the Corefile that is there now."""
    with cluster_dns(fabric) as server:
        with server("old.name"):
            time.sleep(2)  # until kube-proxy leads there
            yield
        with server(NAMED["trace_to"]):
            assert_arrives(fabric, **NAMED)


@breaks("name_unknown", asks={"trace_from": FROM, "trace_to": "gcp/sys-log/nobody"})
def name_unknown(fabric):
    yield
    HEALS.append(PING)


@breaks("policy_lacks_source", asks=TCP)
def policy_lacks_source(fabric):
    """A policy that names ranges, without that of the source; a rule replaces the CNI that enforces it."""
    body = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "known", "namespace": "sys-log"},
        "spec": {
            "podSelector": {"matchLabels": {"app": "fluentd"}},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"ipBlock": {"cidr": "10.4.0.0/16"}}]}],
        },
    }
    client(fabric, "gcp").create("/apis/networking.k8s.io/v1/namespaces/sys-log/networkpolicies", body, "test")
    fabric.lab(
        "pod-exec",
        B + "-pod-1",
        "--",
        "nft",
        "add table inet cni; add chain inet cni in { type filter hook input priority 0; }; "
        "add rule inet cni in ip saddr != 10.4.0.0/16 drop",
    )
    yield
    fabric.lab("pod-exec", B + "-pod-1", "--", "nft", "delete table inet cni")
    fabric.kubectl("gcp", "-n", "sys-log", "delete", "networkpolicy", "known")


def set_label(fabric, value):
    """The label by which network_sets knows a pod."""
    body = {"metadata": {"labels": {"policy.semaphore.uw.io/name": value}}}
    client(fabric, "aws").merge_patch("/api/v1/namespaces/default/pods/web", body, "test")


@breaks("policy_lacks_source", asks=TCP, fix="network_sets", name="policy_with_a_set_without_the_source")
def policy_with_a_set_without_the_source(fabric):
    """A policy of Calico that names an owned set, and the set was made before the pod. The double enforces as Felix would."""
    api = client(fabric, "gcp")
    for plural, kind, scope in (
        ("globalnetworksets", "GlobalNetworkSet", "Cluster"),
        ("networkpolicies", "NetworkPolicy", "Namespaced"),
    ):
        felix.define(api, plural, kind, scope)
    policy = {
        "apiVersion": "crd.projectcalico.org/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "from-web", "namespace": "sys-log"},
        "spec": {
            "selector": "app == 'fluentd'",
            "types": ["Ingress"],
            "ingress": [
                {
                    "action": "Allow",
                    "protocol": "TCP",
                    "source": policy_selector("web", "aws", "default"),
                    "destination": {"ports": [PORT]},
                }
            ],
        },
    }
    folder = "/apis/crd.projectcalico.org/v1/namespaces/sys-log/networkpolicies"
    api.create(folder, policy, "test")
    set_label(fabric, "web")
    with felix.enforced(fabric, api, B, "sys-log"):
        yield
        api.delete(folder + "/from-web")
    set_label(fabric, None)
    fabric.play("network_sets").ok()


# --- what is in no list ---------------------------------------------------------------------------------------------


@breaks("forward_dropped", into=OTHERS)
def lost_before_the_tunnel(fabric):
    """A filter behind every hook of the fabric: the mark is still on the packet."""
    nft(
        fabric,
        A,
        f"add table netdev odd; add chain netdev odd out {{ type filter hook egress device {DEVICE[A]} priority 0; }}",
    )
    nft(fabric, A, f"add rule netdev odd out ip daddr {PODS[B]} drop")
    yield
    nft(fabric, A, "delete table netdev odd")


@breaks("not_explained", into=OTHERS)
def lost_behind_the_tunnel(fabric):
    """A filter before every hook that a trace sees."""
    nft(
        fabric,
        B,
        f"add table netdev odd; add chain netdev odd in {{ type filter hook ingress device {DEVICE[B]} priority 0; }}",
    )
    nft(fabric, B, f"add rule netdev odd in ip saddr {PODS[A]} drop")
    yield
    nft(fabric, B, "delete table netdev odd")


@breaks("not_explained target_silent", into=OTHERS)
def wrong_hardware_address(fabric):
    """The node sends to a machine that is not there."""
    row = json.loads(fabric.sh(B, "ip", "-j", "route", "get", pod_of(fabric, B)))[0]
    fabric.sh(
        B,
        "ip",
        "neigh",
        "replace",
        pod_of(fabric, B),
        "lladdr",
        "02:00:00:00:00:99",
        "dev",
        row["dev"],
        "nud",
        "permanent",
    )
    yield
    fabric.sh(B, "ip", "neigh", "del", pod_of(fabric, B), "dev", row["dev"])


@breaks("reverse_path_filter route_shadowed not_explained", into=OTHERS)
def blackhole(fabric):
    fabric.sh(B, "ip", "route", "add", "prohibit", "10.2.3.0/25")
    yield
    fabric.sh(B, "ip", "route", "del", "prohibit", "10.2.3.0/25")


@breaks("not_explained", into=OTHERS)
def pod_cannot_send(fabric):
    """The pod itself has no way out."""
    route = json.loads(fabric.lab("pod-exec", A + "-pod-1", "--", "ip", "-j", "route", "show", "default").stdout)[0]
    fabric.lab("pod-exec", A + "-pod-1", "--", "ip", "route", "del", "default")
    yield
    more = ["onlink"] if "onlink" in route.get("flags", ()) else []
    fabric.lab(
        "pod-exec",
        A + "-pod-1",
        "--",
        "ip",
        "route",
        "add",
        "default",
        "via",
        route["gateway"],
        "dev",
        route["dev"],
        *more,
    )


@breaks("rule_shadowed", into=OTHERS)
def prohibited_by_a_rule(fabric):
    fabric.sh(A, "ip", "rule", "add", "to", PODS[B], "prohibit", "priority", "40")
    yield
    fabric.sh(A, "ip", "rule", "del", "to", PODS[B], "prohibit", "priority", "40")


@breaks("not_explained", into=OTHERS)
def dropped_by_traffic_control(fabric):
    """Of the kernel's queues there is no trace event."""
    fabric.sh(A, "tc", "qdisc", "add", "dev", DEVICE[A], "root", "bfifo", "limit", "1")
    yield
    fabric.sh(A, "tc", "qdisc", "del", "dev", DEVICE[A], "root")


@breaks("not_explained forward_dropped", into=OTHERS)
def dropped_by_the_old_iptables(fabric):
    fabric.sh(B, "iptables-legacy", "-I", "FORWARD", "-s", PODS[A], "-j", "DROP")
    yield
    fabric.sh(B, "iptables-legacy", "-D", "FORWARD", "-s", PODS[A], "-j", "DROP")


@breaks("not_explained target_silent answer_another_way", into=OTHERS)
def pod_answers_by_nothing(fabric):
    """The target's own way back is gone."""
    route = json.loads(fabric.lab("pod-exec", B + "-pod-1", "--", "ip", "-j", "route", "show", "default").stdout)[0]
    fabric.lab("pod-exec", B + "-pod-1", "--", "ip", "route", "del", "default")
    yield
    more = ["onlink"] if "onlink" in route.get("flags", ()) else []
    fabric.lab(
        "pod-exec",
        B + "-pod-1",
        "--",
        "ip",
        "route",
        "add",
        "default",
        "via",
        route["gateway"],
        "dev",
        route["dev"],
        *more,
    )


def pod_of(fabric, node):
    """The address of a node's pod."""
    out = fabric.lab("pod-exec", node + "-pod-1", "--", "ip", "-j", "-4", "address", "show", "eth0").stdout
    return json.loads(out)[0]["addr_info"][0]["local"]
