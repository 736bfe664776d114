# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What translation of pod addresses costs: two pods through a tunnel, translated on both nodes and not, with the same connection tracking.

Run by `tests/run bench translation`, with the kernel's WireGuard: in the virtual machine of `tests/run kernel_vm` where this machine's kernel has
none. `--tunnel wireguard-go` and `--tunnel veth` measure here with another tunnel. Each case has nodes, pods and a tunnel of its own. They are measured
for a short time one after the other, in an order that changes from round to round, so that whatever else the machine does meets all of them.
Other work slows a round and speeds none up, so what nine tenths of the rounds do not reach is compared, next to the medians: where throughput or
connections of a case are below 0.9 of those without a table of the mesh by both, the bench fails. All cases have the connection tracking and the
NAT that a node of Kubernetes has by its kube-proxy and its network plugin; a fourth one, without that NAT, shows what the NAT of these costs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys

PACKAGE = "ansible_collections.multicluster.network.plugins.module_utils."
#: Least of throughput and connections compared with the case without a table (translation 6).
BOUND = 0.9
TRACKED, KEPT, TRANSLATED = "not translated", "kept (keep_pod_addresses)", "translated"
BARE = "not translated, and no NAT of others"
CASES = (TRACKED, KEPT, TRANSLATED, BARE)
#: By side: real and exported pod range, address of the pod, as others see it.
SIDES = {
    "a": ("10.2.0.0/16", "10.201.0.0/16", "10.2.0.5", "10.201.0.5"),
    "b": ("10.4.0.0/16", "10.204.0.0/16", "10.4.0.5", "10.204.0.5"),
}
OTHER = {"a": "b", "b": "a"}
#: What every CNI has, so that connections are tracked in all cases.
TRACKING = "table inet tracking { chain in { type filter hook prerouting priority 0; ct state new accept; }; }"
#: What kube-proxy and a network plugin have, of other connections than those that are measured.
OTHERS = """
table ip others {
  chain services { type nat hook prerouting priority dstnat; ip daddr 10.96.0.0/12 counter; }
  chain own { type nat hook output priority -100; ip daddr 10.96.0.0/12 counter; }
  chain leaving { type nat hook postrouting priority srcnat; ip saddr 172.31.0.0/16 masquerade; }
}
"""

APPLY = f"""
import importlib, json, sys
ask = json.load(sys.stdin)
load = lambda name: importlib.import_module({PACKAGE!r} + name)
tables = load("_flows.node.tables")
table = load("_mesh.topology.kept_addresses").kept_table(load("_plan.mesh_plan").MeshPlan.from_json(ask["topology"]), "a")
print(json.dumps(load("_flows.node.nft_table").run(tables.request(table, "bench"), False)["changed"]))
"""
SERVER = """
import socket, threading
def listen(port):
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind(("0.0.0.0", port))
    one.listen(4096)
    return one
def sink(listener):
    while True:
        one, unused = listener.accept()
        with one:
            count = 0
            while True:
                data = one.recv(1 << 20)
                count += len(data)
                if not data or data.endswith(b"!"):
                    break
            one.sendall(b"%20d" % count)
def echo(listener):
    while True:
        one, source = listener.accept()
        with one:
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            one.sendall(source[0].encode())
            while True:
                data = one.recv(100)
                if not data:
                    break
                one.sendall(data)
for work, port in ((sink, 5001), (echo, 5002)):
    threading.Thread(target=work, args=(listen(port),), daemon=True).start()
listener = listen(5003)
print("ready", flush=True)
while True:
    one, unused = listener.accept()
    one.close()
"""
CLIENT = """
import socket, statistics, struct, sys, time
clock = time.perf_counter
def connect(address, port):
    one = socket.create_connection((address, port), 20)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return one
def stream(address, seconds):
    one, block = connect(address, 5001), b"." * (1 << 17)
    with one:
        end = (started := clock()) + seconds
        while clock() < end:
            one.sendall(block)
        one.sendall(b"!")
        count = int(one.recv(100))
        return count * 8 / (clock() - started) / 1e6
def opened(address, seconds):
    end, count = (started := clock()) + seconds, 0
    while clock() < end:
        one = connect(address, 5003)
        one.recv(1)  # until the other side closes
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.close()
        count += 1
    return count / (clock() - started)
def latency(address, seconds):
    with connect(address, 5002) as one:
        seen = one.recv(100).decode()
        end, found = clock() + seconds, []
        while clock() < end:
            started = clock()
            one.sendall(b"q" * 64)
            one.recv(100)
            found.append(clock() - started)
        return f"{statistics.median(found) * 1e6} {seen}"
for line in sys.stdin:
    name, address, seconds = line.split()
    print(globals()[name](address, float(seconds)), flush=True)
"""
MEASURES = (("stream", "Mbit/s"), ("opened", "connections/s"), ("latency", "µs a round trip"))
TITLES = {
    "stream": "throughput of one stream",
    "opened": "connections, one after the other",
    "latency": "latency, median",
}


def command(*words, stdin=None, check=True):
    done = subprocess.run(words, input=stdin, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise SystemExit(f"{' '.join(words[:8])}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def inside(namespace, *words, **more):
    return command("ip", "netns", "exec", namespace, *words, **more)


def pair(one, device, other, there):
    command("ip", "-n", one, "link", "add", device, "type", "veth", "peer", "name", there, "netns", other)
    for namespace, name in ((one, device), (other, there)):
        command("ip", "-n", namespace, "link", "set", name, "up")


def tunnel_kinds():
    """What can be had here, the best first."""
    made = subprocess.run(["ip", "link", "add", "wgprobe", "type", "wireguard"], capture_output=True, check=False)
    if made.returncode == 0:
        command("ip", "link", "del", "wgprobe")
    return ["wireguard"] * (made.returncode == 0) + ["wireguard-go", "veth"]


def build(kind, tag):
    """Two nodes with a pod each, and the tunnel between the nodes; it carries real and exported ranges. ``tag``: ends the namespaces' names."""
    for name in ("na" + tag, "nb" + tag, "pa" + tag, "pb" + tag):
        command("ip", "netns", "add", name)
        command("ip", "-n", name, "link", "set", "lo", "up")
    for side, (real, unused, address, unused_too) in SIDES.items():
        node, pod = "n" + side + tag, "p" + side + tag
        gateway = real.replace(".0.0/16", ".0.1")
        pair(node, "cni0", pod, "eth0")
        command("ip", "-n", node, "address", "add", gateway + "/24", "dev", "cni0")
        command("ip", "-n", pod, "address", "add", address + "/24", "dev", "eth0")
        command("ip", "-n", pod, "link", "set", "eth0", "mtu", "1420")
        command("ip", "-n", pod, "route", "add", "default", "via", gateway)
        inside(node, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        inside(node, "nft", "-f", "-", stdin=TRACKING)
    if kind == "veth":
        pair("na" + tag, "tunnela" + tag, "nb" + tag, "tunnelb" + tag)
        for side, number in (("a", 1), ("b", 2)):
            command("ip", "-n", "n" + side + tag, "address", "add", f"192.0.2.{number}/24", "dev", f"tunnel{side}{tag}")
    else:
        pair("na" + tag, "under", "nb" + tag, "under")
        keys = {}
        for side, number in (("a", 1), ("b", 2)):
            node, device = "n" + side + tag, f"tunnel{side}{tag}"
            command("ip", "-n", node, "address", "add", f"198.51.100.{number}/24", "dev", "under")
            if kind == "wireguard":
                command("ip", "-n", node, "link", "add", device, "type", "wireguard")
            else:
                inside(node, "wireguard-go", device)  # its control socket is named by the device alone
            keys[side] = command("wg", "genkey").strip()
        for side, number in (("a", 1), ("b", 2)):
            other = OTHER[side]
            ranges = ",".join(SIDES[other][:2])
            public = command("wg", "pubkey", stdin=keys[other]).strip()
            node = "n" + side + tag
            inside(node, "sh", "-c", f"umask 077; cat >/run/key{side}", stdin=keys[side])
            inside(
                *f"{node} wg set tunnel{side}{tag} listen-port 51820 private-key /run/key{side} peer {public} "
                f"endpoint 198.51.100.{3 - number}:51820 allowed-ips {ranges}".split()
            )
            command("ip", "-n", node, "link", "set", f"tunnel{side}{tag}", "mtu", "1420", "up")
    for side, number in (("a", 1), ("b", 2)):
        for text in SIDES[OTHER[side]][:2]:
            via = ["via", f"192.0.2.{3 - number}"] if kind == "veth" else []
            command("ip", "-n", "n" + side + tag, "route", "add", text, *via, "dev", f"tunnel{side}{tag}")


def table(side, case, tag):
    """The mesh's own table on a node."""
    real, exported, *dummy = SIDES[side]
    cluster = {
        "remotes": {"other": {"device": f"tunnel{side}{tag}", "routes": [{"dst": SIDES[OTHER[side]][1]}]}},
        "keep_pod_addresses": {"ranges": [real], "required": True},
    }
    if case == TRANSLATED:
        cluster["exported_pod_cidrs"] = {"pairs": {real: exported}, "former": []}
    topology = {"fabric": "bench", "nodes": {"a": {"cluster": "own", "pod_cidrs": []}}, "clusters": {"own": cluster}}
    ask = json.dumps({"topology": topology})
    assert json.loads(inside("n" + side + tag, sys.executable, "-B", "-c", APPLY, stdin=ask)), (
        "the table did not change"
    )


class Pods:
    """The server in one pod, the client in the other."""

    def __init__(self, case, tag):
        self.case = case
        words = ["ip", "netns", "exec"]
        pipe = subprocess.PIPE
        self.server = subprocess.Popen([*words, "pb" + tag, sys.executable, "-c", SERVER], stdout=pipe, text=True)
        assert self.server.stdout.readline() == "ready\n"
        self.client = subprocess.Popen(
            [*words, "pa" + tag, sys.executable, "-c", CLIENT], stdin=pipe, stdout=pipe, text=True
        )

    def measure(self, name, seconds):
        case = self.case
        address = SIDES["b"][3 if case == TRANSLATED else 2]
        self.client.stdin.write(f"{name} {address} {seconds}\n")
        self.client.stdin.flush()
        value, *source = self.client.stdout.readline().split()
        if source:  # so that no case measures what it is not
            assert source == [SIDES["a"][3 if case == TRANSLATED else 2]], (case, source)
        return float(value)

    def end(self):
        for one in (self.client, self.server):
            one.kill()
            one.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tunnel", choices=("auto", "wireguard", "wireguard-go", "veth"), default="auto")
    parser.add_argument("--rounds", type=int, default=101)
    parser.add_argument("--seconds", type=float, default=0.1)
    options = parser.parse_args()
    known = tunnel_kinds()
    kind = known[0] if options.tunnel == "auto" else options.tunnel
    if kind not in known:
        raise SystemExit(f"there is no {kind} here")
    pods = {}
    for tag, case in enumerate(CASES):
        build(kind, str(tag))
        for side in SIDES:
            if case != BARE:
                inside(f"n{side}{tag}", "nft", "-f", "-", stdin=OTHERS)
            if case in (KEPT, TRANSLATED):
                table(side, case, str(tag))
        pods[case] = Pods(case, str(tag))
    found = {(case, name): [] for case in CASES for name, unused in MEASURES}
    words = {
        "wireguard": "the kernel's WireGuard",
        "wireguard-go": "wireguard-go",
        "veth": "a veth in place of the tunnel",
    }
    print(
        f"two pods over {words[kind]}, Linux {os.uname().release}; {options.rounds} rounds of {options.seconds:g} s each",
        flush=True,
    )
    try:
        for number in range(-1, options.rounds):  # the first one warms up
            for name, unused in MEASURES:
                # a stream of a moment meets other work or does not; a longer one meets its part of it
                seconds = options.seconds * (4 if name == "stream" else 1)
                for case in CASES[number % len(CASES) :] + CASES[: number % len(CASES)]:
                    value = pods[case].measure(name, seconds)
                    if number >= 0:
                        found[case, name].append(value)
    finally:
        for one in pods.values():
            one.end()
    report(found)


def quickest(rows, name):
    """The value that nine tenths of the rounds do not reach."""
    return statistics.quantiles(rows, n=10)[0 if name == "latency" else -1]


def report(found):
    low = []
    print(
        "\n| what | case | median | quickest tenth | ratio of these | ratio of medians | of each round, median (quartiles) |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, unit in MEASURES:
        base = found[TRACKED, name]
        for case in CASES:
            rows = found[case, name]
            median, best = statistics.median(rows), quickest(rows, name)
            ratio, whole = best / quickest(base, name), median / statistics.median(base)
            first, middle, third = statistics.quantiles([one / other for one, other in zip(rows, base)], n=4)
            row = f"| {TITLES[name]} | {case} | {median:.1f} {unit} | {best:.1f} | {ratio:.3f} | {whole:.3f}"
            print(f"{row} | {middle:.3f} ({first:.3f} to {third:.3f}) |", flush=True)
            if name != "latency" and max(ratio, whole) < BOUND:
                low.append(f"{TITLES[name]}, {case}: {ratio:.3f} and {whole:.3f}")
    if low:
        raise SystemExit(f"below {BOUND}: {'; '.join(low)}")


if __name__ == "__main__":
    main()
