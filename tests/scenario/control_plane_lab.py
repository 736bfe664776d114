# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A control plane of three real API servers: each in a network namespace of its own, over one etcd, on one bridge."""

from __future__ import annotations

import fcntl
import functools
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import urllib3
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.access import parse_access
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Client

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lab"))

from mcnlab import certificates  # pylint: disable=wrong-import-position

TURN = pathlib.Path("/run/multicluster-network-lab/control-plane.lock")
PREFIX = os.environ.get("MCN_LAB_PREFIX", "sc-") + "cp"
NET, PORT, TOKEN = f"10.251.{os.getpid() % 200 + 20}", 6443, "token-of-the-scenario"
EIP, GATEWAY = NET + ".100", NET + ".254"
SERVERS = {"cp-%d" % number: "%s.%d" % (NET, number) for number in (1, 2, 3)}
MOVE = """
import subprocess, sys
address, node, prefix, names = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4].split(",")
for name in names:
    subprocess.run(["ip", "-n", prefix + name, "address", "del", address + "/32", "dev", "eth0"], capture_output=True, check=False)
subprocess.run(["ip", "-n", prefix + node, "address", "add", address + "/32", "dev", "eth0"], check=True)
subprocess.run(["ip", "neigh", "flush", "to", address], check=False)  # a router would hear a gratuitous ARP
"""


@functools.cache
def programs():
    """The folder of the Kubernetes that KUBERNETES chooses."""
    build = pathlib.Path(__file__).resolve().parents[1] / "lab" / "build-kubernetes"
    return pathlib.Path(
        subprocess.run([str(build), "--cached"], capture_output=True, text=True, check=True).stdout.split()[-1]
    )


def program(name):
    path = programs() / name
    return str(path) if path.exists() else shutil.which(name)


def ip(*words, check=True):
    return subprocess.run(["ip", *words], check=check, capture_output=True, text=True, stdin=subprocess.DEVNULL)


class Plane:
    """etcd on the bridge's address, and the API servers."""

    def __init__(self, folder):
        self.folder, self.bridge = folder, PREFIX[:13] + "br"
        self.running, self.turn = {}, None

    def start(self):
        # The bridge's addresses are the machine's: another run with such a bridge is waited for.
        TURN.parent.mkdir(parents=True, exist_ok=True)
        self.turn = TURN.open("w")
        fcntl.flock(self.turn, fcntl.LOCK_EX)
        self.clean()
        ip("link", "add", self.bridge, "type", "bridge")
        ip("address", "add", GATEWAY + "/24", "dev", self.bridge)
        ip("link", "set", self.bridge, "up")
        for number, (name, address) in enumerate(SERVERS.items()):
            space, port = PREFIX + name, f"{PREFIX[:12]}{number}"
            ip("netns", "add", space)
            ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("link", "set", port, "master", self.bridge, "up")
            ip("-n", space, "link", "set", "lo", "up")
            ip("-n", space, "address", "add", address + "/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")
        etcd, peer = f"http://{GATEWAY}:12379", f"http://{GATEWAY}:12380"
        self.spawn(
            "etcd",
            [
                program("etcd"),
                "--data-dir",
                str(self.folder / "etcd"),
                "--listen-client-urls",
                etcd,
                "--advertise-client-urls",
                etcd,
                "--listen-peer-urls",
                peer,
                "--initial-advertise-peer-urls",
                peer,
                "--initial-cluster",
                "default=" + peer,
                "--unsafe-no-fsync",
            ],
        )
        certificates.ensure(self.folder / "pki", "cp", ["kubernetes"], [EIP, "10.3.0.1", *SERVERS.values()])
        (self.folder / "tokens.csv").write_text(f'{TOKEN},tester,1,"system:masters"\n')
        for name in SERVERS:
            self.start_server(name)
        for address in SERVERS.values():
            self.wait_for(address)

    def start_server(self, name):
        pki = self.folder / "pki"
        self.spawn(
            name,
            [
                "ip",
                "netns",
                "exec",
                PREFIX + name,
                program("kube-apiserver"),
                "--etcd-servers",
                f"http://{GATEWAY}:12379",
                "--secure-port",
                str(PORT),
                "--bind-address",
                "0.0.0.0",
                "--advertise-address",
                SERVERS[name],
                "--tls-cert-file",
                str(pki / "server.crt"),
                "--tls-private-key-file",
                str(pki / "server.key"),
                "--service-cluster-ip-range",
                "10.3.0.0/16",
                "--service-account-issuer",
                "https://" + EIP,
                "--service-account-key-file",
                str(pki / "sa.pub"),
                "--service-account-signing-key-file",
                str(pki / "sa.key"),
                "--token-auth-file",
                str(self.folder / "tokens.csv"),
                "--authorization-mode",
                "RBAC",
                "--disable-admission-plugins",
                "ServiceAccount",
            ],
        )

    def spawn(self, name, words):
        log = (self.folder / (name + ".log")).open("ab")
        self.running[name] = subprocess.Popen(
            words, stdout=log, stderr=log, cwd=str(self.folder), stdin=subprocess.DEVNULL
        )

    def kill(self, name, how=signal.SIGKILL):
        os.kill(self.running[name].pid, how)  # ip netns exec replaces itself, so this is the server
        if how == signal.SIGKILL:
            self.running.pop(name).wait(10)

    def ca(self):
        return (self.folder / "pki" / "ca.crt").read_text()

    def healthy(self, address):
        pool = urllib3.PoolManager(ca_certs=str(self.folder / "pki" / "ca.crt"), retries=False, timeout=2)
        try:
            return pool.request("GET", f"https://{address}:{PORT}/healthz").status == 200
        except urllib3.exceptions.HTTPError:
            return False

    def wait_for(self, address):
        deadline = time.monotonic() + 120
        while not self.healthy(address):
            assert time.monotonic() < deadline, "no API server at " + address
            time.sleep(0.2)

    def holder(self):
        return [
            name
            for name in SERVERS
            if EIP in ip("-n", PREFIX + name, "-4", "-o", "address", "show", "dev", "eth0").stdout
        ]

    def client(self, address=EIP):
        return Client(
            parse_access({"name": "cp", "api_url": f"https://{address}:{PORT}", "token": TOKEN, "ca_data": self.ca()})
        )

    def make_nodes(self):
        """The Nodes of the three servers, as their kubelets would report them."""
        client = self.client(SERVERS["cp-1"])
        for name, address in SERVERS.items():
            meta = {"name": name, "labels": {"node-role.kubernetes.io/control-plane": ""}}
            client.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": meta}, "kubelet")
            rows = [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": address}]
            client.merge_patch(f"/api/v1/nodes/{name}/status", {"status": {"addresses": rows}}, "kubelet")

    def stop(self):
        for process in self.running.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self.running.values():
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(5)
        self.clean()
        self.turn.close()

    def clean(self):
        links = [self.bridge, *(f"{PREFIX[:12]}{number}" for number in range(len(SERVERS)))]
        for name in SERVERS:
            ip("netns", "del", PREFIX + name, check=False)
        for link in links:
            ip("link", "del", link, check=False)
        deadline = time.monotonic() + 30  # the kernel takes namespaces apart in its own time
        while any(ip("link", "show", link, check=False).returncode == 0 for link in links):
            assert time.monotonic() < deadline
            time.sleep(0.1)
