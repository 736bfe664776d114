# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab: its state on disk, its control planes, its nodes, its underlay; up and down."""

from __future__ import annotations

import concurrent.futures
import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import typing as t

from . import (
    cgroups,
    cluster_dns,
    inventory,
    kubernetes,
    namespaces,
    own_images,
    packages,
    pod_parts,
    ports,
    probes,
    process,
    snapshot,
    topology,
    underlay,
    watches,
)
from .capture import Capture
from .errors import LabError
from .kube_proxy import KubeProxy
from .kubernetes import ControlPlane
from .nodes import NodeMachine
from .pod_parts import PodParts
from .pod_runtime import PodRuntime
from .progress import phase, say
from .ssh import SshKeys

DEFAULT_STATE = "/var/lib/multicluster-network-lab"
CLONE = pathlib.Path(__file__).resolve().parents[3]
_pool = concurrent.futures.ThreadPoolExecutor


class Lab:
    """One lab by name. Several may run side by side: nothing outside its state folder and its names is touched."""

    def __init__(self, name: str = "demo"):
        if not re.match(r"[a-z0-9][a-z0-9-]{0,19}\Z", name):
            raise LabError(f"{name!r} is not a lab's name: at most 20 of a-z, 0-9 and -")
        self.name = name
        self.parent = pathlib.Path(os.environ.get("MCN_LAB_STATE") or DEFAULT_STATE).absolute()
        self.state = self.parent / name
        self.underlay = self.namespace("underlay")
        self.ssh = SshKeys(self.state / "ssh", namespaces.path(self.underlay))
        self.capture = Capture(self)

    # Names and parts

    @property
    def prefix(self) -> str:
        """What names of the machine's namespaces and control groups begin with: of this lab, and of none in another state folder."""
        if str(self.parent) == DEFAULT_STATE:
            return f"mcn.{self.name}."
        return f"mcn.{self.name}-{hashlib.sha256(str(self.parent).encode()).hexdigest()[:6]}."

    def namespace(self, thing: str) -> str:
        """The name of the network namespace of a node, a pod or the underlay."""
        return self.prefix + thing

    @property
    def inventory(self) -> pathlib.Path:
        return self.state / "inventory" / "hosts.yml"

    @property
    def inventory_ssh(self) -> pathlib.Path:
        return self.state / "inventory-ssh" / "hosts.yml"

    @property
    def topology(self) -> topology.Topology:
        file = self.state / "topology.json"
        if not file.exists():
            raise LabError(f"there is no lab {self.name!r}: run `up` first")
        return topology.parse(topology.read(file))

    @property
    def control_planes(self) -> list[ControlPlane]:
        return [ControlPlane(self, cluster) for cluster in self.topology.clusters]

    @property
    def machines(self) -> list[NodeMachine]:
        return [NodeMachine(self, node) for node in self.topology.nodes]

    def control_plane(self, name: str) -> ControlPlane:
        return ControlPlane(self, self.topology.cluster(name))

    @property
    def kubeconfig(self) -> pathlib.Path:
        """Every cluster as a context of its own name."""
        return self.state / "kubeconfig"

    def pod_runtime(self, machine: NodeMachine) -> PodRuntime:
        return PodRuntime(self, machine)

    def machine(self, name: str) -> NodeMachine:
        return NodeMachine(self, self.topology.node(name))

    # The whole lab

    def up(
        self, topology_name: str | None = None, pods: str | None = None, generated: dict[str, t.Any] | None = None
    ) -> None:
        """Start what is missing; a second call finds everything there and reports it in a second.

        ``generated``: a topology as ``generate.topology`` makes it, in place of a name.
        ``pods``: "real" or "namespaces"; what the topology has when it is None.
        """
        if os.geteuid() != 0:
            raise LabError("the lab needs root: namespaces, mounts and packages")
        packages.ensure()
        merged = self._merged(topology_name, pods, generated)
        parsed = topology.parse(merged)
        parts = pod_parts.ensure() if parsed.real_pods else None
        watches.allow(watches.needed(parsed))
        programs = kubernetes.binaries(self.state, "newest" if parts else "")
        with self.locked():
            merged = self._merged(topology_name, pods, generated)
            self.state.mkdir(parents=True, exist_ok=True)
            self.state.chmod(0o755)
            self._claim()
            (self.state / "topology.json").write_text(json.dumps(merged, indent=1) + "\n")
            (self.state / "kubernetes").write_text(f"{programs}\n")
            lab = self.topology
            if not lab.light:
                self.ssh.ensure(lab)
            underlay.ensure(self.underlay, lab)
            for plane in self.control_planes:
                plane.prepare()
            everything = f"{len(lab.clusters)} control planes (Kubernetes {kubernetes.version(programs)}) and {len(lab.nodes)} nodes"
            with phase(everything), _pool(8) as pool, _pool(2) as boots:
                # Booting is work for the processor: two at a time leave some for the API servers.
                planes = [pool.submit(self._cluster_up, plane, programs, parts) for plane in self.control_planes]
                nodes = [boots.submit(self._node_up, machine, parts) for machine in self.machines]
                failures = [error for error in (f.exception() for f in [*planes, *nodes]) if error is not None]
            inventory.write(self)
            kubernetes.write_kubeconfig(self.kubeconfig, self.control_planes)
            if failures:
                raise failures[0]
            if parts:
                with phase("real pods: kube-proxy and DNS"), _pool(4) as pool:
                    waiting = [pool.submit(self._pods_up, plane, programs, parts) for plane in self.control_planes]
                    for future in waiting:
                        future.result()
        say(f"lab {self.name} is up: {self.inventory}")

    def _merged(
        self, topology_name: str | None, pods: str | None, generated: dict[str, t.Any] | None
    ) -> dict[str, t.Any]:
        """The description of the lab as it will be."""
        stored = topology.read(self.state / "topology.json") if (self.state / "topology.json").exists() else None
        desired = generated
        if not desired and (topology_name or not stored):
            desired = topology.read(topology.find(topology_name) if topology_name else topology.DEFAULT)
        if pods:
            desired = {"clusters": {}, **(desired or {}), "pods": pods}
        merged = topology.merge(stored, desired)
        topology.parse(merged)
        return merged

    @property
    def clone(self) -> pathlib.Path | None:
        """The clone that this lab belongs to: the one that booted it, as long as that still exists."""
        try:
            found = pathlib.Path((self.state / "clone").read_text().strip())
        except OSError:
            return None
        return found if (found / "tests" / "lab" / "lab.py").exists() else None

    def _claim(self) -> None:
        if self.clone not in (None, CLONE):
            raise LabError(
                f"lab {self.name!r} belongs to the clone {self.clone}: choose another --name, or end it there"
            )
        (self.state / "clone").write_text(f"{CLONE}\n")

    def down(self) -> None:
        """End everything of this lab and forget it; safe on a lab that is half there or not there at all."""
        with self.locked(), phase(f"lab {self.name}: ending it"):
            inits, others = process.marked(self.state)
            process.end(inits, patience=0)  # an init takes a polite signal as a request to reload
            process.end(others, patience=1)  # what they would save is deleted with them
            for name in namespaces.named(self.prefix):
                namespaces.delete(name)
            with contextlib.suppress(LabError):
                cgroups.remove(self.prefix + "*")
            ports.release(self.state)
            shutil.rmtree(self.state, ignore_errors=True)
            if self.state.exists():
                shutil.rmtree(self.state)
            with contextlib.suppress(OSError):
                (self.parent / f".{self.name}.lock").unlink()
            with contextlib.suppress(OSError):
                self.parent.rmdir()

    def status(self) -> dict[str, t.Any]:
        """What runs: clusters with their programs, nodes with their init's process id."""
        return {
            "name": self.name,
            "state": str(self.state),
            "clone": str(self.clone or ""),
            "namespaces": self.prefix,
            "inventory": str(self.inventory),
            "inventory_ssh": None if self.topology.light else str(self.inventory_ssh),
            "kubernetes": (self.state / "kubernetes").read_text().strip(),
            "underlay": self.underlay if namespaces.exists(self.underlay) else None,
            "clusters": {
                plane.cluster.name: {
                    "server": plane.server,
                    "kubeconfig": str(plane.kubeconfig),
                    "audit_log": str(plane.audit_log),
                    **{program: plane.alive(program) for program in plane.programs},
                }
                for plane in self.control_planes
            },
            "nodes": {
                machine.node.name: {
                    "cluster": machine.node.cluster,
                    "address": machine.node.address,
                    "leader": machine.leader,
                    **({"pod_runtime": self.pod_runtime(machine).leader} if self.topology.real_pods else {}),
                    "pods": {pod.name: list(pod.addresses) for pod in machine.node.pods},
                }
                for machine in self.machines
            },
        }

    @contextlib.contextmanager
    def locked(self) -> t.Iterator[None]:
        """One change of a lab at a time; another call waits."""
        self.parent.mkdir(parents=True, exist_ok=True)
        with (self.parent / f".{self.name}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say("another call changes this lab: waiting for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _cluster_up(self, plane: ControlPlane, programs: pathlib.Path, parts: PodParts | None) -> None:
        plane.ensure(programs, parts.node if parts else None)
        say(f"cluster {plane.cluster.name}: ready, {len(plane.cluster.nodes)} nodes registered")

    def _node_up(self, machine: NodeMachine, parts: PodParts | None) -> None:
        if machine.ensure():
            say(f"node {machine.node.name}: {'made' if self.topology.light else 'booted'}, init is {machine.leader}")
        if parts and self.pod_runtime(machine).ensure(parts):
            say(f"node {machine.node.name}: containerd and kubelet started")

    def _pods_up(self, plane: ControlPlane, programs: pathlib.Path, parts: PodParts) -> None:
        """Service addresses on every node, DNS in the cluster; returns when every node and the DNS are ready."""
        cluster_dns.apply(plane, parts.coredns)
        for machine in self.machines:
            if machine.node.cluster == plane.cluster.name:
                KubeProxy(self, machine).start(programs)
        if plane.cluster.cni == "none":
            say(f"cluster {plane.cluster.name}: nodes have no network for pods yet")
            return
        plane.wait_pods()
        say(f"cluster {plane.cluster.name}: nodes and DNS are ready")

    # Parts of it

    def node_stop(self, name: str) -> None:
        """Power cut: the node's namespaces, processes and pods vanish, its files stay."""
        with self.locked():
            self._node_stop(self.machine(name))

    def _node_stop(self, machine: NodeMachine) -> None:
        if self.topology.real_pods:
            self.pod_runtime(machine).stop()
        machine.stop()

    def node_rebuild(self, name: str) -> None:
        """Reboot: power cut, then a boot over the kept files; returns when systemd has started everything."""
        parts = self._parts()
        with self.locked():
            machine = self.machine(name)
            self._node_stop(machine)
            self._node_up(machine, parts)
            if parts:
                KubeProxy(self, machine).start(kubernetes.binaries(self.state))

    def api_stop(self, name: str) -> None:
        with self.locked():
            self.control_plane(name).stop(keep_etcd=True)

    def api_start(self, name: str) -> None:
        programs, parts = kubernetes.binaries(self.state), self._parts()
        with self.locked():
            self.control_plane(name).start(programs, parts.node if parts else None)

    def _parts(self) -> PodParts | None:
        return pod_parts.ensure() if self.topology.real_pods else None

    def image(self, name: str, program: pathlib.Path) -> None:
        """Make one program an image of every node's, under the name that a manifest uses; nothing is pulled."""
        if not self.topology.real_pods:
            raise LabError("only a lab of real pods has images: up --pods real")
        with self.locked():
            own_images.add([self.pod_runtime(machine) for machine in self.machines], name, program)

    def kubectl(
        self, cluster: str, words: t.Sequence[str], check: bool = True, **options: t.Any
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the cluster's administrator; text in and out."""
        return process.run(self.kubectl_command(cluster, words), check=check, **options)

    def kubectl_command(self, cluster: str, words: t.Sequence[str]) -> list[str]:
        plane, programs = self.control_plane(cluster), kubernetes.binaries(self.state)
        return [str(programs / "kubectl"), f"--kubeconfig={plane.kubeconfig}", *words]

    def kube_proxy_start(self, name: str) -> None:
        """Start kube-proxy inside a node: its services' addresses then work there, as on a real node."""
        programs = kubernetes.binaries(self.state)
        with self.locked():
            KubeProxy(self, self.machine(name)).start(programs)

    def kube_proxy_stop(self, name: str) -> None:
        with self.locked():
            KubeProxy(self, self.machine(name)).stop()

    def run_in_node(
        self, name: str, command: t.Sequence[str], check: bool = True, **options: t.Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as root inside a node; text in and out."""
        return process.run(self.machine(name).enter(command), check=check, **options)

    def run_in_pod(
        self, name: str, command: t.Sequence[str], check: bool = True, **options: t.Any
    ) -> subprocess.CompletedProcess[str]:
        """Run one of the machine's programs in a pod's network namespace."""
        return process.run(self.enter_pod(name, command), check=check, **options)

    def enter_pod(self, name: str, command: t.Sequence[str]) -> list[str]:
        pod = self.topology.pod(name)
        return ["nsenter", f"--net={namespaces.path(self.namespace(pod.name))}", *command]

    def ping_matrix(self, cross_only: bool = False) -> list[dict[str, t.Any]]:
        return probes.ping_matrix(self, cross_only)

    def snapshot(self, name: str) -> dict[str, t.Any]:
        """Of a node or of a cluster, see snapshot.py."""
        if any(cluster.name == name for cluster in self.topology.clusters):
            return snapshot.of_cluster(self.control_plane(name))
        return snapshot.of_node(self.machine(name))
