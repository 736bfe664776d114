# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real pods on a node: its own containerd with runc and CNI plugins, and a kubelet, below the node's files and in its network."""

from __future__ import annotations

import json
import pathlib
import typing as t

from . import cgroups, images, namespaces, process
from .errors import LabError
from .kubernetes import DNS_DOMAIN, ControlPlane, kubeconfig
from .pod_parts import PodParts
from .topology import Node

if t.TYPE_CHECKING:
    from .lab import Lab
    from .nodes import NodeMachine

SCRIPT = pathlib.Path(__file__).with_name("pod_init.py")
# Where the runtime's namespaces show the node's folder (pod_init.py).
INSIDE = "/mnt"
SOCKET = "/run/containerd/containerd.sock"
#: Without a network of the lab: the programs of the node's network plugin, next to which Debian's plugins are linked.
OWN_CNI = "cni-bin"
# And there the programs, wherever the cache is.
NODE_PROGRAMS = f"{INSIDE}/programs/node"
RUNTIME = f"{INSIDE}/programs/runtime"
CNI_PROGRAMS = f"{RUNTIME}/root/usr/lib/cni"
PATH = f"{RUNTIME}/root/usr/sbin:{RUNTIME}/root/usr/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class PodRuntime:
    def __init__(self, lab: Lab, machine: NodeMachine) -> None:
        self.lab, self.machine = lab, machine
        self.node: Node = machine.node
        self.plane = ControlPlane(lab, lab.topology.cluster(self.node.cluster))
        self.folder = machine.folder / "pods"
        self.leader_file = self.folder / "leader"
        self.cgroup = lab.namespace(self.node.name) + ".pods"

    @property
    def leader(self) -> int | None:
        """The process that ends everything with its end of the runtime; None when it is down."""
        return process.read_pid(self.leader_file)

    def ensure(self, parts: PodParts) -> bool:
        """Start containerd and kubelet unless they run. True when they were started."""
        if self.leader is not None:
            return False
        self.write(parts)
        process.run(
            ["/usr/bin/python3", "-B", SCRIPT, self.folder / "settings.json"],
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", process.MARK: str(self.lab.state), "container": "lab"},
        )
        pid = int((self.folder / "init.pid").read_text())
        if process.start_time(pid) is None:
            raise LabError(f"node {self.node.name}: its container runtime died at once; see {self.folder / 'init.log'}")
        process.write_pid(self.leader_file, pid)
        return True

    def stop(self) -> None:
        """End containers, containerd and kubelet as a power cut does."""
        pid = self.leader
        if pid is not None:
            process.end([pid], patience=0)
        self.leader_file.unlink(missing_ok=True)
        cgroups.remove(self.cgroup)

    def enter(self, command: t.Sequence[str]) -> list[str]:
        """The command line that runs one of the machine's programs where containerd and kubelet run."""
        pid = self.leader
        if pid is None:
            raise LabError(f"node {self.node.name} runs no pods")
        return ["nsenter", f"--target={pid}", "--mount", "--net", "--pid", "--uts", "--ipc", *command]

    def write(self, parts: PodParts) -> None:
        """All files that the programs read."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        (self.folder / "net.d").mkdir(exist_ok=True)
        plane, own_cni = self.plane, self.plane.cluster.cni == "none"
        credentials = kubeconfig(
            plane.cluster.name, plane.server_for_nodes, plane.pki / "ca.crt", plane.kubelet_token(self.node.name)
        )
        files = {
            "containerd.toml": containerd_configuration(f"{INSIDE}/{OWN_CNI}" if own_cni else CNI_PROGRAMS),
            "kubelet.json": json.dumps(kubelet_configuration(self.node, plane.dns_address), indent=1),
            "kubelet.kubeconfig": credentials,
            "ca.crt": (plane.pki / "ca.crt").read_text(),
            "resolv.conf": "",  # there is nobody to ask alongside the cluster's own DNS
            "settings.json": json.dumps(
                {
                    "name": self.node.name,
                    "folder": str(self.folder),
                    "netns": str(namespaces.path(self.machine.namespace)),
                    "leader": self.machine.leader,
                    "mark": [process.MARK, str(self.lab.state)],
                    "path": PATH,
                    "programs": {"node": str(parts.node), "runtime": str(parts.runtime)},
                    "images": parts.runtime.name,
                    "cgroup": self.cgroup,
                    "hierarchies": cgroups.hierarchies(),
                    "commands": commands(self.node),
                },
                indent=1,
            ),
        }
        if own_cni:
            self.link_plugins(parts)
        else:
            files["net.d/10-lab.conflist"] = json.dumps(cni_configuration(self.node), indent=1)
        for name, text in files.items():
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o600)

    def link_plugins(self, parts: PodParts) -> None:
        """Debian's plugins where the runtime looks for programs, as a node's package puts them there; those of a network plugin stay."""
        folder = self.folder / OWN_CNI
        folder.mkdir(exist_ok=True)
        for plugin in (parts.runtime / "root/usr/lib/cni").iterdir():
            if not (folder / plugin.name).exists() and not (folder / plugin.name).is_symlink():
                (folder / plugin.name).symlink_to(f"{CNI_PROGRAMS}/{plugin.name}")


def commands(node: Node) -> dict[str, list[str]]:
    """Command lines of containerd, kubelet and of the images' import."""
    return {
        "containerd": [f"{RUNTIME}/root/usr/bin/containerd", f"--config={INSIDE}/containerd.toml"],
        "import": [
            f"{RUNTIME}/root/usr/bin/ctr",
            f"--address={SOCKET}",
            "--namespace=k8s.io",
            "images",
            "import",
            f"{RUNTIME}/images.tar",
        ],
        "kubelet": [
            f"{NODE_PROGRAMS}/kubelet",
            f"--config={INSIDE}/kubelet.json",
            f"--kubeconfig={INSIDE}/kubelet.kubeconfig",
            f"--hostname-override={node.name}",
            f"--node-ip={','.join(node.addresses)}",
        ],
    }


def containerd_configuration(plugins: str = CNI_PROGRAMS) -> str:
    """containerd's settings (TOML), with the folder of CNI plugins: only what differs from its own, which are root, state and socket at their usual paths."""
    runc = 'plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc'
    return (
        "version = 2\n"
        "oom_score = 0\n"
        f"[grpc]\naddress = {_toml(SOCKET)}\n"
        '[plugins."io.containerd.grpc.v1.cri"]\n'
        f"sandbox_image = {_toml(images.PAUSE_NAME)}\n"
        "disable_apparmor = true\n"
        "restrict_oom_score_adj = true\n"
        '[plugins."io.containerd.grpc.v1.cri".containerd]\n'
        'snapshotter = "overlayfs"\n'
        'default_runtime_name = "runc"\n'
        f"[{runc}]\n"
        'runtime_type = "io.containerd.runc.v2"\n'
        f"[{runc}.options]\n"
        f"BinaryName = {_toml(f'{RUNTIME}/root/usr/sbin/runc')}\n"
        "SystemdCgroup = false\n"
        '[plugins."io.containerd.grpc.v1.cri".cni]\n'
        f"bin_dir = {_toml(plugins)}\n"
        f"conf_dir = {_toml(INSIDE + '/net.d')}\n"
    )


def _toml(value: str) -> str:
    return json.dumps(value)  # a basic string of TOML is one of JSON


def cni_configuration(node: Node) -> dict[str, t.Any]:
    """One veth a pod and addresses of the node's own pod ranges: what a routed CNI gives, and what plain routes to the node reach."""
    return {
        "cniVersion": "1.0.0",
        "name": "lab",
        "plugins": [
            {
                "type": "ptp",
                "ipMasq": False,
                "mtu": 1500,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": cidr}] for cidr in node.pod_cidrs],
                    "routes": [{"dst": "::/0" if ":" in cidr else "0.0.0.0/0"} for cidr in node.pod_cidrs],
                    "dataDir": "/var/lib/cni/networks",
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def kubelet_configuration(node: Node, dns: str) -> dict[str, t.Any]:
    """A kubelet that neither needs version 2 of cgroups nor sets limits on the machine, and trusts the API server's certificate alone."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "0.0.0.0" if not node.address6 else "::",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{INSIDE}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "clusterDNS": [dns],
        "clusterDomain": DNS_DOMAIN,
        "resolvConf": f"{INSIDE}/resolv.conf",
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "localStorageCapacityIsolation": False,
        "evictionHard": {},
        "imageGCHighThresholdPercent": 100,  # nobody could bring an image back
        "makeIPTablesUtilChains": False,
        "maxPods": 110,
        "nodeStatusUpdateFrequency": "5s",
        "registerNode": True,
        "serializeImagePulls": False,
        "shutdownGracePeriod": "0s",
        "syncFrequency": "10s",  # a ConfigMap that changes is in its pods soon
    }
