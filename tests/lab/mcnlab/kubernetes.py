# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One cluster's control plane: etcd, kube-apiserver and kube-controller-manager on loopback, and its Node objects."""

from __future__ import annotations

import base64
import ipaddress
import json
import os
import pathlib
import re
import secrets
import subprocess
import time
import typing as t

from . import certificates, namespaces, ports, process, world
from .api import Api
from .errors import LabError
from .topology import Cluster, Node

if t.TYPE_CHECKING:
    from .lab import Lab

RELAY = pathlib.Path(__file__).with_name("relay.py")
EGRESS = pathlib.Path(__file__).with_name("egress.py")
BUILD = pathlib.Path(__file__).resolve().parent.parent / "build-kubernetes"
PORT_NAMES = ("etcd", "etcd_peer", "api", "manager")
CONTROLLERS = "endpoint,endpointslice,endpointslicemirroring,garbagecollector,namespace,serviceaccount"
# With real pods: who makes them, who reports that they are gone, and what they trust.
POD_CONTROLLERS = (
    "cronjob,daemonset,deployment,disruption,job,nodelifecycle,podgc,replicaset,root-ca-certificate-publisher-controller,statefulset,"
    "taint-eviction-controller,ttl-after-finished"
)
POD_PORT_NAMES = (*PORT_NAMES, "scheduler")
DNS_DOMAIN = "cluster.local"
# Everything that a client of the collection does, so that a test can prove from outside what was written. The cluster's own programs by name: an
# account that the collection makes for itself is in kube-system too.
AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, users: ['system:apiserver', 'lab-manager', 'system:kube-scheduler', 'system:serviceaccount:kube-system:coredns']}
- {level: None, userGroups: ['system:nodes']}
- {level: None, nonResourceURLs: ['/readyz*', '/livez*', '/healthz*']}
- {level: Metadata}
"""


def binaries(state: pathlib.Path | None = None, default: str = "") -> pathlib.Path:
    """The folder with the Kubernetes programs, as KUBERNETES chooses; builds them if need be (progress goes to our standard error).

    A lab remembers its own in its ``state``: what one release has written, another's etcd may not be able to read.
    ``default`` is what to take where KUBERNETES is not set.
    """
    pinned = None
    if state and (state / "kubernetes").exists():
        pinned = pathlib.Path((state / "kubernetes").read_text().strip())
        if not os.environ.get("KUBERNETES") and (pinned / "kube-apiserver").exists():
            return pinned
    environment = {**os.environ, "KUBERNETES": os.environ.get("KUBERNETES") or default}
    result = subprocess.run([str(BUILD)], stdout=subprocess.PIPE, text=True, check=False, env=environment)
    lines = result.stdout.split()
    if result.returncode or not lines:
        raise LabError("no Kubernetes programs; see above")
    found = pathlib.Path(lines[-1])
    # the same release in another cache is the same: its cache was emptied, or moved
    if pinned is not None and state is not None and pinned.name != found.name:
        raise LabError(
            f"lab {state.name!r} was started with {pinned.name}, not with {found.name}: end it first, or use another name"
        )
    return found


class ControlPlane:
    def __init__(self, lab: Lab, cluster: Cluster):
        self.lab, self.cluster = lab, cluster
        self.folder = lab.state / cluster.name
        self.pki = self.folder / "pki"
        self.kubeconfig = self.folder / "kubeconfig"
        self.audit_log = self.folder / "log" / "audit.log"
        self.real_pods = lab.topology.real_pods

    # Reading

    @property
    def ports(self) -> dict[str, int]:
        chosen: dict[str, int] = json.loads((self.folder / "ports.json").read_text())
        return chosen

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.ports['api']}"

    @property
    def gateway(self) -> str:
        """The address on the underlay where the cluster's nodes find the API server, on the same port."""
        return self.cluster.uplink_of(self.cluster.nodes[0].address)[1]

    @property
    def server_for_nodes(self) -> str:
        return f"https://{self.gateway}:{self.ports['api']}"

    @property
    def dns_address(self) -> str:
        """The address of the Service kube-dns, by convention the tenth of the range."""
        return str(ipaddress.ip_network(self.cluster.service_cidrs[0])[10])

    def kubelet_token(self, node: str) -> str:
        return (self.folder / "kubelets" / node).read_text().strip()

    @property
    def token(self) -> str:
        return (self.folder / "token").read_text().strip()

    @property
    def api(self) -> Api:
        return Api(self.server, self.pki / "ca.crt", self.token)

    @property
    def programs(self) -> tuple[str, ...]:
        """What has to run for the cluster to work."""
        return ("etcd", "kube-apiserver", "kube-controller-manager", *(["kube-scheduler"] if self.real_pods else []))

    def alive(self, program: str) -> bool:
        return process.read_pid(self._pid_file(program)) is not None

    # Doing

    def ensure(self, programs: pathlib.Path, node_programs: pathlib.Path | None = None) -> None:
        """Start what does not run, wait until the API server is ready, register the nodes.

        ``node_programs`` is the folder with kube-scheduler, for a lab with real pods.
        """
        self.prepare()
        self.start(programs, node_programs)
        self.register_nodes()

    def start(self, programs: pathlib.Path, node_programs: pathlib.Path | None = None) -> None:
        commands = self._commands(programs)
        if node_programs:
            commands.update(self._pod_commands(node_programs))
            self._start("egress", commands["egress"])
        for program in ("etcd", "kube-apiserver"):
            self._start(program, commands[program])
        self.wait_ready()
        for program in ("kube-controller-manager", "relay", *(["kube-scheduler"] if node_programs else [])):
            self._start(program, commands[program])

    def stop(self, keep_etcd: bool = False) -> None:
        names = ["relay", "egress", "kube-scheduler", "kube-controller-manager", "kube-apiserver"] + (
            [] if keep_etcd else ["etcd"]
        )
        process.end([pid for pid in (process.read_pid(self._pid_file(name)) for name in names) if pid])

    def wait_ready(self, patience: float = 600.0) -> None:
        """Return when the API server reports that it is ready. A loaded machine takes minutes for what a quiet one does in seconds,
        so only a program that has ended, or ``patience`` seconds, are a failure."""
        deadline, last = time.monotonic() + patience, "no answer"
        while time.monotonic() < deadline:
            try:
                if self.api.request("GET", "/readyz", timeout=3) == "ok":
                    return
            except (OSError, LabError) as error:
                last = str(error)
            for program in ("etcd", "kube-apiserver"):
                if not self.alive(program):
                    raise LabError(f"{self.cluster.name}: {program} has ended\n{self._log_tail(program)}")
            time.sleep(0.1)
        raise LabError(
            f"{self.cluster.name}: API server is not ready after {patience:.0f} s: {last}\n{self._log_tail('kube-apiserver')}"
        )

    def register_nodes(self) -> None:
        api = self.api
        present = {item["metadata"]["name"]: item for item in api.get("/api/v1/nodes")["items"]}
        for node in self.cluster.nodes:
            # A kubelet reports itself how its node is.
            desired = {**node_object(node), "status": {}} if self.real_pods else node_object(node)
            if node.name not in present:
                api.post("/api/v1/nodes", desired)
            elif (
                not self.real_pods
                and present[node.name].get("status", {}).get("addresses") != desired["status"]["addresses"]
            ):
                api.merge(f"/api/v1/nodes/{node.name}/status", {"status": desired["status"]})
            if world.HOST_NETWORK in node.like and not self.real_pods:
                self._host_pod(node)

    def _host_pod(self, node: Node, patience: float = 600.0) -> None:
        """The node's Pod on its own network, as a kubelet would report it, as soon as the server has made the namespace."""
        pod, place, deadline = world.host_pod(node), "/api/v1/namespaces/kube-system", time.monotonic() + patience
        while self.api.get_or_none(place) is None and time.monotonic() < deadline:
            time.sleep(0.1)
        if self.api.get_or_none(f"{place}/pods/{pod['metadata']['name']}") is None:
            self.api.post(f"{place}/pods", {**pod, "status": {}})
            self.api.merge(f"{place}/pods/{pod['metadata']['name']}/status", {"status": pod["status"]})

    def wait_pods(self, patience: float = 600.0) -> None:
        """Return when every node reports that it is ready, and the cluster's DNS is."""
        deadline, waiting = time.monotonic() + patience, ["all"]
        while time.monotonic() < deadline:
            nodes = {item["metadata"]["name"]: item for item in self.api.get("/api/v1/nodes")["items"]}
            waiting = [node.name for node in self.cluster.nodes if not is_ready(nodes.get(node.name, {}), "Ready")]
            dns = self.api.get("/apis/apps/v1/namespaces/kube-system/deployments/coredns")
            if (
                not is_ready(dns, "Available")
                or dns["status"].get("observedGeneration") != dns["metadata"]["generation"]
            ):
                waiting.append("coredns")
            if not waiting:
                return
            time.sleep(0.2)
        raise LabError(
            f"cluster {self.cluster.name}: not ready after {patience:.0f} s: {', '.join(waiting)}; "
            f"kubelet and containerd say why in {self.lab.state}/nodes/NODE/pods/*.log"
        )

    # How

    def _pid_file(self, program: str) -> pathlib.Path:
        return self.folder / "run" / f"{program}.pid"

    def _log_tail(self, program: str) -> str:
        try:
            return (self.folder / "log" / f"{program}.log").read_text(errors="replace")[-1500:]
        except OSError:
            return ""

    def _start(self, program: str, command: t.Sequence[object]) -> None:
        """Start a program unless it runs with this very command line."""
        record = self.folder / "run" / f"{program}.json"
        pid = process.read_pid(self._pid_file(program))
        text = json.dumps([str(argument) for argument in command], indent=1)
        if pid and record.exists() and record.read_text() == text:
            return
        if pid:
            process.end([pid])
        process.spawn(self.lab.state, self._pid_file(program), self.folder / "log" / f"{program}.log", command)
        record.write_text(text)

    def prepare(self) -> None:
        """Choose ports, make certificates and tokens, write the files that the programs read; once each."""
        self.folder.mkdir(parents=True, exist_ok=True)
        ports.ensure(POD_PORT_NAMES if self.real_pods else PORT_NAMES, self.folder / "ports.json")
        gateways = [self.cluster.uplink_of(address)[1] for node in self.cluster.nodes[:1] for address in node.addresses]
        certificates.ensure(
            self.pki,
            self.cluster.name,
            ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"],
            ["127.0.0.1", *gateways, *(first_address(cidr) for cidr in self.cluster.service_cidrs)],
        )
        for name in ("token", "manager-token"):
            if not (self.folder / name).exists():
                _secret(self.folder / name, secrets.token_hex(20) + "\n")
        manager = (self.folder / "manager-token").read_text().strip()
        tokens = (
            f'{self.token},lab-admin,lab-admin,"system:masters"\n{manager},lab-manager,lab-manager,"system:masters"\n'
        )
        if self.real_pods:
            tokens += self._prepare_pods()
        _secret(self.folder / "tokens.csv", tokens)
        _secret(self.kubeconfig, kubeconfig(self.cluster.name, self.server, self.pki / "ca.crt", self.token))
        _secret(
            self.folder / "manager.kubeconfig", kubeconfig(self.cluster.name, self.server, self.pki / "ca.crt", manager)
        )
        (self.folder / "audit.yml").write_text(AUDIT_POLICY)

    def _prepare_pods(self) -> str:
        """Credentials of the scheduler and of every kubelet, and the API server's own for the kubelets; returns lines of tokens.csv."""
        names = {"scheduler-token": self.folder / "scheduler-token"}
        (self.folder / "kubelets").mkdir(exist_ok=True)
        names.update({node.name: self.folder / "kubelets" / node.name for node in self.cluster.nodes})
        for file in names.values():
            if not file.exists():
                _secret(file, secrets.token_hex(20) + "\n")
        scheduler = names.pop("scheduler-token").read_text().strip()
        _secret(
            self.folder / "scheduler.kubeconfig",
            kubeconfig(self.cluster.name, self.server, self.pki / "ca.crt", scheduler),
        )
        certificates.client(self.pki, "kubelet-client", "kube-apiserver-kubelet-client", "system:masters")
        (self.folder / "egress.json").write_text(json.dumps(egress_configuration(self.egress_socket), indent=1))
        lines = [f"{scheduler},system:kube-scheduler,system:kube-scheduler"]
        lines += [f'{self.kubelet_token(name)},system:node:{name},system:node:{name},"system:nodes"' for name in names]
        return "\n".join(lines) + "\n"

    @property
    def egress_socket(self) -> pathlib.Path:
        return self.folder / "run" / "egress.sock"

    def _pod_commands(self, programs: pathlib.Path) -> dict[str, list[object]]:
        nodes = [namespaces.path(self.lab.namespace(node.name)) for node in self.cluster.nodes]
        return {
            "egress": ["/usr/bin/python3", "-B", EGRESS, self.egress_socket, *nodes],
            "kube-scheduler": [
                programs / "kube-scheduler",
                f"--kubeconfig={self.folder / 'scheduler.kubeconfig'}",
                "--leader-elect=false",
                "--bind-address=127.0.0.1",
                f"--secure-port={self.ports['scheduler']}",
                "--kube-api-qps=400",
                "--kube-api-burst=800",
            ],
        }

    def _commands(self, programs: pathlib.Path) -> dict[str, list[object]]:
        chosen, folder, pki = self.ports, self.folder, self.pki
        etcd = programs / "etcd"
        if not etcd.exists():
            etcd = pathlib.Path("/usr/bin/etcd")
        client, peer = (f"http://127.0.0.1:{chosen[name]}" for name in ("etcd", "etcd_peer"))
        gates = self._feature_gates(programs)
        gateway = self.gateway
        return {
            "relay": ["/usr/bin/python3", "-B", RELAY, namespaces.path(self.lab.underlay), gateway, chosen["api"]],
            "etcd": [
                etcd,
                "--name=lab",
                f"--data-dir={folder / 'etcd'}",
                "--unsafe-no-fsync",
                "--log-level=warn",
                f"--listen-client-urls={client}",
                f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=lab={peer}",
            ],
            "kube-apiserver": [
                programs / "kube-apiserver",
                f"--etcd-servers={client}",
                "--bind-address=127.0.0.1",
                f"--secure-port={chosen['api']}",
                f"--advertise-address={gateway}",
                f"--tls-cert-file={pki / 'server.crt'}",
                f"--tls-private-key-file={pki / 'server.key'}",
                f"--service-cluster-ip-range={','.join(self.cluster.service_cidrs)}",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={pki / 'sa.pub'}",
                f"--service-account-signing-key-file={pki / 'sa.key'}",
                f"--token-auth-file={folder / 'tokens.csv'}",
                *self._server_options(),
                f"--audit-policy-file={folder / 'audit.yml'}",
                f"--audit-log-path={self.audit_log}",
                "--audit-log-maxsize=100",
                "--audit-log-maxbackup=1",
                "--allow-privileged=true",
                "--profiling=false",
                *gates,
            ],
            "kube-controller-manager": [
                programs / "kube-controller-manager",
                f"--kubeconfig={folder / 'manager.kubeconfig'}",
                *self._manager_options(),
                "--leader-elect=false",
                "--bind-address=127.0.0.1",
                f"--secure-port={chosen['manager']}",
                *self._manager_port(programs),
                *gates,
                "--kube-api-qps=400",
                "--kube-api-burst=800",
            ],
        }

    def _server_options(self) -> list[str]:
        if not self.real_pods:
            return [
                "--endpoint-reconciler-type=none",
                "--authorization-mode=RBAC",
                "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            ]
        return [
            "--endpoint-reconciler-type=lease",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            f"--kubelet-client-certificate={self.pki / 'kubelet-client.crt'}",
            f"--kubelet-client-key={self.pki / 'kubelet-client.key'}",
            "--kubelet-preferred-address-types=InternalIP",
            f"--egress-selector-config-file={self.folder / 'egress.json'}",
        ]

    def _manager_options(self) -> list[str]:
        if not self.real_pods:
            return [f"--controllers={CONTROLLERS}"]
        return [
            f"--controllers={CONTROLLERS},{POD_CONTROLLERS}",
            f"--root-ca-file={self.pki / 'ca.crt'}",
            f"--service-account-private-key-file={self.pki / 'sa.key'}",
        ]

    def _manager_port(self, programs: pathlib.Path) -> list[str]:
        return ["--port=0"] if _minor(programs) < 24 else []

    def _feature_gates(self, programs: pathlib.Path) -> list[str]:
        """Dual-stack is a feature gate up to 1.22, later always on."""
        several = [node for node in self.cluster.nodes if len(node.pod_cidrs) > 1]
        return ["--feature-gates=IPv6DualStack=true"] if several and _minor(programs) < 23 else []


_VERSIONS: dict[pathlib.Path, str] = {}


def version(programs: pathlib.Path) -> str:
    """Which release the programs of a folder are, such as 1.20.2."""
    if programs not in _VERSIONS:
        said = process.run([programs / "kube-apiserver", "--version"]).stdout
        found = re.search(r"v(1\.\d+\.\d+)", said)
        if not found:
            raise LabError(f"{programs}/kube-apiserver --version prints {said!r}")
        _VERSIONS[programs] = found.group(1)
    return _VERSIONS[programs]


def _minor(programs: pathlib.Path) -> int:
    return int(version(programs).split(".")[1])


def node_object(node: Node) -> dict[str, t.Any]:
    """A Node as a kubelet would have registered it."""
    addresses = [{"type": "InternalIP", "address": address} for address in (*node.more_addresses, *node.addresses)]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "labels": {"kubernetes.io/hostname": node.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"},
        },
        "spec": {"podCIDR": node.pod_cidrs[0], "podCIDRs": list(node.pod_cidrs)} if node.pod_cidrs else {},
        "status": {
            "addresses": [*addresses, {"type": "Hostname", "address": node.name}],
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "KubeletReady",
                    "message": "the lab's node",
                    "lastHeartbeatTime": "2026-01-01T00:00:00Z",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ],
        },
    }


def egress_configuration(socket: pathlib.Path) -> dict[str, t.Any]:
    """How an API server on loopback reaches kubelets and Services: by a proxy that connects from inside a node's network."""
    return {
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [
            {
                "name": "cluster",
                "connection": {"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": str(socket)}}},
            },
        ],
    }


def is_ready(item: dict[str, t.Any], kind: str) -> bool:
    """Whether an object has a condition of this kind that is True."""
    conditions = item.get("status", {}).get("conditions") or []
    return any(one["type"] == kind and one["status"] == "True" for one in conditions)


def first_address(cidr: str) -> str:
    return str(ipaddress.ip_network(cidr)[1])


def kubeconfig(cluster: str, server: str, ca: pathlib.Path, token: str) -> str:
    return render_kubeconfig([(cluster, server, ca, "lab-admin", token)])


def write_kubeconfig(file: pathlib.Path, planes: list[ControlPlane]) -> None:
    """All clusters in one file, each a context of its name; the first one is the current."""
    entries = [
        (plane.cluster.name, plane.server, plane.pki / "ca.crt", f"lab-admin-{plane.cluster.name}", plane.token)
        for plane in planes
    ]
    _secret(file, render_kubeconfig(entries))


def render_kubeconfig(entries: list[tuple[str, str, pathlib.Path, str, str]]) -> str:
    """A kubeconfig of [(cluster, server, authority's file, user, token)]."""
    clusters = users = contexts = ""
    for cluster, server, ca, user, token in entries:
        authority = base64.b64encode(ca.read_bytes()).decode()
        clusters += (
            f"- name: {cluster}\n  cluster:\n    server: {server}\n    certificate-authority-data: {authority}\n"
        )
        users += f"- name: {user}\n  user:\n    token: {token}\n"
        contexts += f"- name: {cluster}\n  context:\n    cluster: {cluster}\n    user: {user}\n"
    return f"apiVersion: v1\nkind: Config\nclusters:\n{clusters}users:\n{users}contexts:\n{contexts}current-context: {entries[0][0]}\n"


def _secret(file: pathlib.Path, text: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
