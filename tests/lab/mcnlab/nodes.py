# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes: a network namespace with an uplink, and in it a real systemd over an overlay of the machine's root.

Order of a boot: network namespace, uplink, addresses and routes; then systemd (which starts what the node itself
brings: boot units, sshd); then the pods' links, as a kubelet would. A light node has a shell that waits in systemd's place.
"""

from __future__ import annotations

import ipaddress
import json
import pathlib
import shutil
import sys
import time
import typing as t
import uuid

from . import cgroups, namespaces, process, underlay, world
from .errors import LabError
from .namespaces import hardware
from .topology import Cluster, Node, Pod

if t.TYPE_CHECKING:
    from .lab import Lab

UPLINK = "eth0"
#: Of a node with a further address: a network that no other node is in.
STORAGE = "eth1"
SCRIPT = pathlib.Path(__file__).with_name("node_init.py")
READY = ("running", "degraded")


class NodeMachine:
    """One node of a lab: where its things are and what can be done to it."""

    def __init__(self, lab: Lab, node: Node):
        self.lab = lab
        self.node = node
        self.folder = lab.state / "nodes" / node.name
        self.leader_file = self.folder / "leader"
        self.namespace = lab.namespace(node.name)
        self.cgroup = cgroups.unified() / lab.namespace(node.name)

    # What is there

    @property
    def leader(self) -> int | None:
        """The process id of the node's init, or None when the node is down."""
        return process.read_pid(self.leader_file)

    @property
    def upper(self) -> pathlib.Path:
        """The folder with every file that differs from the machine's."""
        return self.folder / "upper"

    def enter(self, command: t.Sequence[str]) -> list[str]:
        """The command line that runs a command inside the node, as in a root shell there."""
        pid = self.leader
        if pid is None:
            raise LabError(f"node {self.node.name} is down")
        return [
            "nsenter",
            f"--target={pid}",
            "--mount",
            "--uts",
            "--ipc",
            "--net",
            "--pid",
            "--cgroup",
            "--root",
            "--wd",
            "env",
            "-i",
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME=/root",
            "LANG=C.UTF-8",
            "TERM=dumb",
            *command,
        ]

    # What can be done

    def ensure(self) -> bool:
        """Boot the node unless it runs; repair its network either way. True when it was booted."""
        booted = False
        if self.leader is None or not namespaces.exists(self.namespace):
            self.stop()
            self._network()
            self._boot()
            booted = True
        else:
            self._network()
        for pod in self.node.pods:
            self._pod(pod)
        return booted

    def stop(self) -> None:
        """Switch the node off as a power cut does: everything in memory is gone, files stay."""
        pid = self.leader
        if pid is not None:
            process.end([pid], patience=0)
        self.leader_file.unlink(missing_ok=True)
        for pod in self.node.pods:
            namespaces.delete(self.lab.namespace(pod.name))
        port = underlay.port_of(self.node)
        if namespaces.exists(self.lab.underlay) and port in namespaces.links(self.lab.underlay):
            namespaces.batch(self.lab.underlay, [f"link delete {port}"])
        namespaces.delete(self.namespace)
        cgroups.remove_folder(self.cgroup)

    def wait(self, patience: float = 600.0) -> str:
        """Wait until systemd reports that it has started everything; an init that is gone is a failure at once. A light node starts nothing."""
        if self.lab.topology.light and self.leader is not None:
            return "light"
        deadline = time.monotonic() + patience
        state = "?"
        while time.monotonic() < deadline:
            if self.leader is None:
                break
            state = process.run(self.enter(["systemctl", "is-system-running"]), check=False).stdout.strip()
            if state in READY:
                return state
            time.sleep(0.1)
        console = self.folder / "console.log"
        tail = console.read_text(errors="replace")[-1500:] if console.exists() else ""
        raise LabError(f"node {self.node.name}: systemd is {state!r} after {patience:.0f} s\n{tail}")

    # How

    def _network(self) -> None:
        node, cluster = self.node, self.lab.topology.cluster(self.node.cluster)
        if not namespaces.exists(self.namespace):
            namespaces.create(self.namespace)
            namespaces.sysctl(
                self.namespace,
                {
                    "ipv4/ip_forward": 1,
                    "ipv6/conf/all/forwarding": 1,
                    "ipv6/conf/default/accept_dad": 0,
                    "ipv6/conf/default/accept_ra": 0,
                    # What systemd's defaults set on a machine.
                    "ipv4/conf/all/rp_filter": 2,
                    "ipv4/conf/default/rp_filter": 2,
                    **world.settings(node),
                },
            )
        port = underlay.port_of(node)
        if UPLINK not in namespaces.links(self.namespace):
            namespaces.batch(self.lab.underlay, [f"link delete {port}"], force=True)
            namespaces.batch(
                self.lab.underlay,
                [
                    f"link add {port} type veth peer name {UPLINK} address {hardware(self.namespace)} netns {self.namespace}",
                    f"link set {port} master {underlay.BRIDGE} up",
                ],
            )
        commands = []
        for address in node.addresses:
            length, _gateway = cluster.uplink_of(address)
            commands.append(f"address replace {address}/{length} dev {UPLINK}{' nodad' if ':' in address else ''}")
        if node.more_addresses and STORAGE not in namespaces.links(self.namespace):
            commands.append(
                f"link add {STORAGE} address {hardware(self.namespace + STORAGE)} type veth peer name {STORAGE}-far"
            )
        for address in node.more_addresses:
            commands += [
                f"link set {STORAGE}-far up",
                f"address replace {address}/{24 if '.' in address else 64} dev {STORAGE}",
                f"link set {STORAGE} up",
            ]
        commands.append(f"link set {UPLINK} up")
        for address in node.addresses:
            gateway = cluster.uplink_of(address)[1]
            commands.append(f"route replace {everywhere(address)} via {gateway} dev {UPLINK} proto static")
        namespaces.batch(self.namespace, commands)
        if cluster.cni != "none":
            namespaces.batch(self.namespace, [f"route replace {line}" for line in cluster_routes(cluster, node)])
        tables = world.tables(self.lab.topology, cluster, node)
        if tables:
            namespaces.load(self.namespace, tables)
        if self.lab.topology.real_pods and cluster.cni != "none":
            namespaces.run(
                self.namespace, ["nft", "-f", "-"], input=masquerade(cluster, node), text=True, capture_output=True
            )

    def _boot(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        identity = self.folder / "machine-id"
        if not identity.exists():
            identity.write_text(uuid.uuid4().hex + "\n")
        settings = {
            "name": self.node.name,
            "folder": str(self.folder),
            "netns": str(namespaces.path(self.namespace)),
            "cgroup": str(self.cgroup),
            "hide": str(self.lab.state.parent),
            "mark": [process.MARK, str(self.lab.state)],
            "machine_id": identity.read_text(),
            "addresses": list(self.node.addresses),
            "ssh": str(self.lab.ssh.folder),
            "light": self.lab.topology.light,
        }
        (self.folder / "settings.json").write_text(json.dumps(settings, indent=1))
        process.run(
            [
                sys.executable if sys.executable.startswith("/usr/bin/") else "/usr/bin/python3",
                "-B",
                SCRIPT,
                self.folder / "settings.json",
            ]
        )
        pid = int((self.folder / "init.pid").read_text())
        if process.start_time(pid) is None:
            raise LabError(f"node {self.node.name}: init died at once; see {self.folder / 'console.log'}")
        process.write_pid(self.leader_file, pid)
        self.wait()

    def _pod(self, pod: Pod) -> None:
        """A pod: its own namespace, its addresses on eth0, everything through the node."""
        namespace = self.lab.namespace(pod.name)
        link = "pod" + pod.name.rpartition("-")[2]
        if not namespaces.exists(namespace):
            namespaces.create(namespace)
            namespaces.sysctl(namespace, {"ipv6/conf/default/accept_dad": 0, "ipv6/conf/default/accept_ra": 0})
        if UPLINK not in namespaces.links(namespace):
            namespaces.batch(self.namespace, [f"link delete {link}"], force=True)
            mine, theirs = hardware(namespace + link), hardware(namespace)
            namespaces.batch(
                self.namespace,
                [f"link add {link} address {mine} type veth peer name {UPLINK} address {theirs} netns {namespace}"],
            )
        inside, outside = [f"link set {UPLINK} up"], [f"link set {link} up"]
        for cidr, address in zip(self.node.pod_cidrs, pod.addresses):
            gateway, six = gateway_of(cidr), ":" in address
            length, nodad = (128, " nodad") if six else (32, "")
            outside.append(f"address replace {gateway}/{length} dev {link}{nodad}")
            outside.append(f"route replace {address}/{length} dev {link} proto static")
            inside.append(f"address replace {address}/{length} dev {UPLINK}{nodad}")
            inside.append(f"route replace {gateway}/{length} dev {UPLINK}")
            inside.append(f"route replace {everywhere(address)} via {gateway} dev {UPLINK}")
        namespaces.batch(self.namespace, outside)
        namespaces.batch(namespace, inside)
        self._process(pod)

    def _process(self, pod: Pod) -> None:
        """The pod's one process: in the pod's network, and in all else one of the node's, so that the node finds the pod as a real node does."""
        file = self.folder / "processes" / pod.name
        if process.read_pid(file) is None:
            network = f"--net={namespaces.path(self.lab.namespace(pod.name))}"
            rest = [
                "nsenter",
                f"--target={self.leader}",
                "--mount",
                "--uts",
                "--ipc",
                "--pid",
                "--cgroup",
                "--root",
                "--wd",
                "sleep",
                "infinity",
            ]
            process.spawn(self.lab.state, file, file.with_suffix(".log"), ["nsenter", network, *rest])


def everywhere(address: str) -> str:
    """The default destination of an address's family, in words that a batch of ip commands takes."""
    return "::/0" if ":" in address else "0.0.0.0/0"


def gateway_of(cidr: str) -> str:
    """The node's own address inside its pod range: the first."""
    return str(ipaddress.ip_network(cidr)[1])


def cluster_routes(cluster: Cluster, node: Node) -> list[str]:
    """Routes to the pods of the cluster's other nodes, straight over the node network: what a routed CNI sets up."""
    lines = []
    for other in cluster.nodes:
        if other.name == node.name:
            continue
        for cidr in other.pod_cidrs:
            via = other.address_of(6 if ":" in cidr else 4)
            if via and node.address_of(6 if ":" in cidr else 4):
                lines.append(f"{cidr} via {via} dev {UPLINK} proto static")
    return lines


def masquerade(cluster: Cluster, node: Node) -> str:
    """Pods ask the API server behind the gateway as their node: the underlay knows no way back to a pod."""
    gateway = cluster.uplink_of(node.address)[1]
    sources = ", ".join(cidr for cidr in node.pod_cidrs if ":" not in cidr)
    if not sources or ":" in gateway:
        return ""
    return (
        "table ip lab\ndelete table ip lab\n"
        "table ip lab {\n chain postrouting {\n  type nat hook postrouting priority srcnat\n"
        f"  ip saddr {{ {sources} }} ip daddr {gateway} masquerade\n }}\n}}\n"
    )


def forget_files(machine: NodeMachine) -> None:
    """Delete the node's files."""
    shutil.rmtree(machine.folder, ignore_errors=True)
