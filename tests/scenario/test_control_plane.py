# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One address for three real API servers: each in a network namespace of its own, over one etcd. The tests build on each other."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest
import urllib3
from ansible_collections.multicluster.network.plugins.module_utils._flows import control_plane_address
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.access import parse_access
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Client

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lab"))

from mcnlab import certificates  # noqa: E402  # pylint: disable=wrong-import-position

PREFIX = os.environ.get("MCN_LAB_PREFIX", "sc-") + "cp"
NET, PORT, TOKEN = "10.251.{0}".format(os.getpid() % 200 + 20), 6443, "token-of-the-scenario"
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


def program(name):
    cache = pathlib.Path(os.environ.get("MCN_CACHE", "/var/cache/multicluster-network"))
    folders = [pathlib.Path(os.environ.get("KUBEBUILDER_ASSETS", "/nonexistent")), *sorted(cache.glob("kubernetes-*"), reverse=True)]
    found = [str(folder / name) for folder in folders if (folder / name).exists()]
    return found[0] if found else shutil.which(name)


def ip(*words, check=True):
    return subprocess.run(["ip", *words], check=check, capture_output=True, text=True, stdin=subprocess.DEVNULL)


class Plane:
    """etcd on the bridge's address, and the API servers."""

    def __init__(self, folder):
        self.folder, self.bridge = folder, PREFIX[:13] + "br"
        self.running = {}

    def start(self):
        self.clean()
        ip("link", "add", self.bridge, "type", "bridge")
        ip("address", "add", GATEWAY + "/24", "dev", self.bridge)
        ip("link", "set", self.bridge, "up")
        for number, (name, address) in enumerate(SERVERS.items()):
            space, port = PREFIX + name, "{0}{1}".format(PREFIX[:12], number)
            ip("netns", "add", space)
            ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("link", "set", port, "master", self.bridge, "up")
            ip("-n", space, "link", "set", "lo", "up")
            ip("-n", space, "address", "add", address + "/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")
        etcd, peer = "http://{0}:12379".format(GATEWAY), "http://{0}:12380".format(GATEWAY)
        self.spawn("etcd", [program("etcd"), "--data-dir", str(self.folder / "etcd"), "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
                            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer,
                            "--unsafe-no-fsync"])  # fmt: skip
        certificates.ensure(self.folder / "pki", "cp", ["kubernetes"], [EIP, "10.3.0.1", *SERVERS.values()])
        (self.folder / "tokens.csv").write_text('{0},tester,1,"system:masters"\n'.format(TOKEN))
        for name in SERVERS:
            self.start_server(name)
        for name in SERVERS:
            self.wait_for(SERVERS[name])

    def start_server(self, name):
        pki = self.folder / "pki"
        self.spawn(name, [
            "ip", "netns", "exec", PREFIX + name, program("kube-apiserver"), "--etcd-servers", "http://{0}:12379".format(GATEWAY),
            "--secure-port", str(PORT), "--bind-address", "0.0.0.0", "--advertise-address", SERVERS[name],
            "--tls-cert-file", str(pki / "server.crt"), "--tls-private-key-file", str(pki / "server.key"),
            "--service-cluster-ip-range", "10.3.0.0/16", "--service-account-issuer", "https://" + EIP,
            "--service-account-key-file", str(pki / "sa.pub"), "--service-account-signing-key-file", str(pki / "sa.key"),
            "--token-auth-file", str(self.folder / "tokens.csv"), "--authorization-mode", "RBAC", "--disable-admission-plugins", "ServiceAccount",
        ])  # fmt: skip

    def spawn(self, name, words):
        log = open(self.folder / (name + ".log"), "ab")
        self.running[name] = subprocess.Popen(words, stdout=log, stderr=log, cwd=str(self.folder), stdin=subprocess.DEVNULL)

    def kill(self, name, how=signal.SIGKILL):
        os.kill(self.running[name].pid, how)  # ip netns exec replaces itself, so this is the server
        if how == signal.SIGKILL:
            self.running.pop(name).wait(10)

    def ca(self):
        return (self.folder / "pki" / "ca.crt").read_text()

    def healthy(self, address):
        pool = urllib3.PoolManager(ca_certs=str(self.folder / "pki" / "ca.crt"), retries=False, timeout=2)
        try:
            return pool.request("GET", "https://{0}:{1}/healthz".format(address, PORT)).status == 200
        except urllib3.exceptions.HTTPError:
            return False

    def wait_for(self, address):
        deadline = time.monotonic() + 120
        while not self.healthy(address):
            assert time.monotonic() < deadline, "no API server at " + address
            time.sleep(0.2)

    def holder(self):
        return [name for name in SERVERS if EIP in ip("-n", PREFIX + name, "-4", "-o", "address", "show", "dev", "eth0").stdout]

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

    def clean(self):
        links = [self.bridge, *("{0}{1}".format(PREFIX[:12], number) for number in range(len(SERVERS)))]
        for name in SERVERS:
            ip("netns", "del", PREFIX + name, check=False)
        for link in links:
            ip("link", "del", link, check=False)
        deadline = time.monotonic() + 30  # the kernel takes namespaces apart in its own time
        while any(ip("link", "show", link, check=False).returncode == 0 for link in links):
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    one = Plane(tmp_path_factory.mktemp("plane"))
    try:
        one.start()
        client = Client(parse_access({"name": "cp", "api_url": "https://{0}:{1}".format(SERVERS["cp-1"], PORT), "token": TOKEN, "ca_data": one.ca()}))
        for name, address in SERVERS.items():
            meta = {"name": name, "labels": {"node-role.kubernetes.io/control-plane": ""}}
            client.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": meta}, "kubelet")
            rows = [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": address}]
            client.merge_patch("/api/v1/nodes/{0}/status".format(name), {"status": {"addresses": rows}}, "kubelet")
        (one.folder / "move.py").write_text(MOVE)
        yield one
    finally:
        one.stop()


def run(plane, check=False, **more):
    request = {
        "fabric": "t", "settings": [{"cluster": "cp", "eip_tag": "control-plane"}], "address": EIP, "timeout": 60, "rest_seconds": 0,
        "clusters": [{"name": "cp", "api_url": "https://{0}:{1}".format(EIP, PORT), "token": TOKEN, "ca_data": plane.ca()}],
        "assign_command": [sys.executable, str(plane.folder / "move.py"), "{address}", "{node}", PREFIX, ",".join(SERVERS)],
        "api_urls": ["https://{0}:{1}".format(address, PORT) for address in SERVERS.values()],
        "probe_timeout": 2, "probe_interval": 0.2, "probe_failures": 3, "probe_server_name": "kubernetes", "lock_timeout": 30,
    }  # fmt: skip
    return control_plane_address.run(dict(request, **more), check=check)


def shown(result):
    assert not result["failures"], result["failures"]
    return result["control_planes"]["cp"]


def settled(plane, **more):
    """Whether the address stays until nothing changes any more: Endpoints of default/kubernetes follow their servers slowly."""
    deadline = time.monotonic() + 120
    while True:
        result = run(plane, **more)
        if shown(result)["moved"] or not result["changed"]:
            return not shown(result)["moved"]
        assert time.monotonic() < deadline
        time.sleep(1)


def test_the_address_goes_to_the_first_healthy_server(plane):
    result = run(plane, check=True)
    assert shown(result)["holder"] == "cp-1" and plane.holder() == [] and result["plan"]["create"] == 2
    assert shown(run(plane))["moved"] and plane.holder() == ["cp-1"]
    plane.wait_for(EIP)
    assert settled(plane)
    result = run(plane)
    assert shown(result)["probes"] == 1 and shown(result)["holder"] == "cp-1"


def test_nodes_accept_the_address(plane):
    client = Client(parse_access({"name": "cp", "api_url": "https://{0}:{1}".format(EIP, PORT), "token": TOKEN, "ca_data": plane.ca()}))
    base, name = "/api/v1/namespaces/kube-system/", "metal-ccm-kubernetes-external"
    service = client.get(base + "services/" + name)
    assert service["spec"]["loadBalancerIP"] == EIP and "selector" not in service["spec"] and service["spec"]["ports"][0]["port"] == PORT
    assert service["status"]["loadBalancer"]["ingress"] == [{"ip": EIP}]
    deadline = time.monotonic() + 120  # the servers tell of each other in their own time
    while {row["ip"] for row in client.get(base + "endpoints/" + name)["subsets"][0]["addresses"]} != set(SERVERS.values()):
        assert time.monotonic() < deadline
        time.sleep(1)
        run(plane)


def test_the_holder_dies_and_clients_go_on(plane):
    seen, stop = [], threading.Event()

    def ask():
        while not stop.is_set():
            seen.append((time.monotonic(), plane.healthy(EIP)))
            time.sleep(0.1)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        plane.kill("cp-1")
        result = run(plane)
        assert shown(result)["moved"] and shown(result)["holder"] == "cp-2" and plane.holder() == ["cp-2"]
        plane.wait_for(EIP)
        mark = time.monotonic()
        while len([good for when, good in seen if good and when > mark]) < 3:
            assert time.monotonic() < mark + 60
            time.sleep(0.1)
    finally:
        stop.set()
        asking.join()
    assert settled(plane)
    plane.start_server("cp-1")
    plane.wait_for(SERVERS["cp-1"])
    assert settled(plane) and plane.holder() == ["cp-2"]  # it does not go back


def test_one_failed_probe_moves_nothing(plane):
    plane.kill("cp-2", signal.SIGSTOP)
    waker = threading.Timer(3.0, plane.kill, ["cp-2", signal.SIGCONT])
    waker.start()
    try:
        result = run(plane, probe_failures=40)
    finally:
        waker.join()
    assert not shown(result)["moved"] and plane.holder() == ["cp-2"]


def test_a_half_dead_server_loses_it_once(plane):
    """It takes connections and answers nothing: the address moves, and rests even when the new holder flaps."""
    plane.kill("cp-2", signal.SIGSTOP)
    try:
        assert shown(run(plane))["holder"] == "cp-1" and plane.holder() == ["cp-1"]
        plane.kill("cp-1", signal.SIGSTOP)
        try:
            result = run(plane, rest_seconds=3600)
            assert [one["reason"] for one in result["refused"]] == ["resting"] and plane.holder() == ["cp-1"]
            assert shown(run(plane))["holder"] == "cp-3"
        finally:
            plane.kill("cp-1", signal.SIGCONT)
    finally:
        plane.kill("cp-2", signal.SIGCONT)
    plane.wait_for(EIP)
    assert settled(plane) and plane.holder() == ["cp-3"]


def test_a_cordoned_holder_gives_it_away(plane):
    client = Client(parse_access({"name": "cp", "api_url": "https://{0}:{1}".format(EIP, PORT), "token": TOKEN, "ca_data": plane.ca()}))
    client.merge_patch("/api/v1/nodes/cp-3", {"spec": {"unschedulable": True}}, "kubectl")
    assert shown(run(plane))["holder"] == "cp-1" and plane.holder() == ["cp-1"]
    plane.wait_for(EIP)
    assert settled(plane)


def test_certificates_are_verified(plane):
    other = plane.folder / "other"
    certificates.ensure(other, "other", ["kubernetes"], [EIP])
    result = run(plane, probe_ca=(other / "ca.crt").read_text())
    assert [one["reason"] for one in result["failures"]] == ["no_candidate"] and plane.holder() == ["cp-1"]
    assert settled(plane, probe_ca=(other / "ca.crt").read_text(), probe_verify_tls=False)


def test_a_command_that_fails_is_told_and_tried_again(plane):
    plane.kill("cp-1")
    result = run(plane, assign_command=["/bin/false"])
    assert [one["reason"] for one in result["refused"]] == ["assign_failed"] and plane.holder() == ["cp-1"]
    assert shown(run(plane))["moved"] and json.dumps(result)
