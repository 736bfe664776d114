# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: node_pod
short_description: Reach nodes without SSH through the API server of their cluster
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Runs tasks in a pod of the collection on the node, by the API server's exec. The role P(multicluster.network.node_access#role) makes these pods,
    which are in the network of their nodes.
  - The pod is found by its label, its namespace and its node. Before each command it has to prove by its UID and its node, which it knows by the
    downward API, that it is the one that was asked for.
  - A pod that is not as the role writes it gets nothing, and its host is lost (C(node_pod_edited)). That is one with another container, command,
    variable, folder or security context.
  - A command has ended only when the server reports how. A connection that ends before makes the host unreachable.
  - Servers are offered WebSockets with version 5 of the channel protocol, then version 4. Input has its length before it and is never closed, so both do.
requirements:
  - urllib3 on the controller
  - C(/bin/sh), C(head), C(cat) and Python 3.9 or newer in the image of the pods
options:
  pipelining:
    description: Send modules by the input of one command, in place of files that are written and removed by commands of their own.
    type: boolean
    default: true
    vars:
      - name: ansible_pipelining
  cluster:
    description: Name of the node's cluster.
    type: string
    required: true
    vars:
      - name: multicluster_cluster
  clusters:
    description:
      - The clusters, each with the access to its API server, with the options of M(multicluster.network.mesh_plan), such as C(kubeconfig) and C(context).
    type: dict
    vars:
      - name: multicluster_fabric_clusters
  access:
    description: >-
      The access to the API server of O(cluster), where the clusters are hosts of the inventory and O(clusters) is not set. The inventory plugin
      P(multicluster.network.cluster_nodes#inventory) sets it; elsewhere, it is a dictionary such as
      C({kubeconfig: "{{ hostvars[multicluster_cluster].kubeconfig }}"}).
    type: dict
    vars:
      - name: ansible_node_pod_access
  fabric:
    description: Name of the fabric.
    type: string
    default: default
    vars:
      - name: multicluster_fabric
  namespace:
    description: Namespace of the pods. The default is C(multicluster-node-) and the name of the fabric.
    type: string
    default: ""
    vars:
      - name: node_access_namespace
  node:
    description: Name of the Node.
    type: string
    required: true
    vars:
      - name: inventory_hostname
      - name: node_name
  machine_id:
    description:
      - The machine ID of the node, as C(/etc/machine-id) has it. With it, a pod on another machine is refused, whatever the API server reports.
    type: string
    default: ""
    vars:
      - name: node_machine_id
  image:
    description:
      - The image that the pod has to have. A pod of another one is not used, and O(wait) is the time in which the DaemonSet has to replace it.
      - Empty accepts any.
    type: string
    default: ""
    vars:
      - name: node_access_image
  wait:
    description: Seconds to wait for a pod that does not run yet.
    type: float
    default: 60
    vars:
      - name: ansible_node_pod_wait
  timeout:
    description: Seconds for each request to the API server, and for the begin of a command.
    type: float
    default: 30
    vars:
      - name: ansible_node_pod_timeout
  output_mib:
    description: Most MiB that a command may write to its output.
    type: int
    default: 256
    vars:
      - name: ansible_node_pod_output_mib
notes:
  - The user is root of the node. Privilege escalation to root has nothing to do, and to other users needs programs that the image may not have.
  - Command lines are in the API server's audit log. With pipelining, modules and their arguments are not part of them.
  - An HTTPS proxy in front of the API server is not supported. Other proxies are.
"""

EXAMPLES = r"""
# inventory
# aws_nodes:
#   vars:
#     multicluster_cluster: aws
#     ansible_connection: multicluster.network.node_pod
#     ansible_python_interpreter: python3
#   hosts:
#     ip-10-0-1-17.eu-central-1.compute.internal: {}
- name: Show the routes of a node without SSH
  hosts: aws_nodes
  gather_facts: false
  tasks:
    - name: Read the routes
      ansible.builtin.command: cat /proc/net/route
      changed_when: false
"""

import io
import os
import pathlib
import shlex
import typing as t

from ansible.errors import AnsibleConnectionFailure, AnsibleFileNotFound
from ansible.module_utils.common.text.converters import to_bytes, to_text
from ansible.plugins.connection import ConnectionBase
from ansible.utils.display import Display
from ansible_collections.multicluster.network.plugins.module_utils._flows.access.node_pods import (
    NodeLost,
    NodePods,
    Place,
)

display = Display()

_MIB = 1024 * 1024


class TooMuch(Exception):
    """A command wrote more than it may."""


class Bounded:
    """A sink of bytes with a limit."""

    def __init__(self, most: int) -> None:
        self._most, self._size = most, 0
        self._parts: list[bytes] = []

    def __call__(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._most:
            raise TooMuch
        self._parts.append(data)

    def value(self) -> bytes:
        """All of it."""
        return b"".join(self._parts)


class Connection(ConnectionBase):
    """Connection to a node by its pod."""

    transport = "multicluster.network.node_pod"
    has_pipelining = True
    # Commands run as root. Those who ask learn it here, so that `become: true` towards root has nothing to do.
    default_user = "root"

    _pods: NodePods | None = None

    def _connect(self) -> Connection:
        self._play_context.remote_user = self.default_user
        self._lost(self._node().find)
        self._connected = True
        return self

    def close(self) -> None:
        self._connected = False
        self._pods = None

    def reset(self) -> None:
        """The next command looks for the pod again, over a new connection."""
        self.close()

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> tuple[int, bytes, bytes]:
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        display.vvv(f"EXEC {to_text(cmd)}", host=self.get_option("node"))
        return self._run(to_text(cmd), None if in_data is None else to_bytes(in_data))

    def put_file(self, in_path: str, out_path: str) -> None:
        super().put_file(in_path, out_path)
        file = pathlib.Path(to_text(in_path, errors="surrogate_or_strict"))
        if not file.exists():
            raise AnsibleFileNotFound(f"no file {to_text(in_path)} on the controller")
        path = shlex.quote(to_text(out_path))
        with file.open("rb") as source:
            size = os.fstat(source.fileno()).st_size
            code, stdout, stderr = self._exchange(f"cat > {path} && wc -c < {path}", source, size)
        if code:
            raise AnsibleConnectionFailure(f"cannot write {to_text(out_path)}: {to_text(stderr).strip()}")
        if stdout.strip() != str(size).encode("ascii"):
            raise AnsibleConnectionFailure(f"{to_text(out_path)} has {to_text(stdout).strip()} bytes instead of {size}")

    def fetch_file(self, in_path: str, out_path: str) -> None:
        super().fetch_file(in_path, out_path)
        path, target = shlex.quote(to_text(in_path)), pathlib.Path(to_text(out_path, errors="surrogate_or_strict"))
        errors = Bounded(_MIB)
        received = 0
        with target.open("wb") as file:

            def keep(data: bytes) -> None:
                nonlocal received
                received += len(data)
                file.write(data)

            code = self._lost(
                lambda: self._node().run(
                    f"n=$(wc -c < {path}) && echo $n >&2 && head -c $n < {path}", None, None, keep, errors
                )
            )
        if code:
            raise AnsibleConnectionFailure(f"cannot read {to_text(in_path)}: {to_text(errors.value()).strip()}")
        if errors.value().strip() != str(received).encode("ascii"):
            raise AnsibleConnectionFailure(
                f"{received} bytes of {to_text(in_path)} arrived instead of {to_text(errors.value()).strip()}"
            )

    def _node(self) -> NodePods:
        if self._pods is None:
            cluster = str(self.get_option("cluster"))
            found = (self.get_option("clusters") or {}).get(cluster) or self.get_option("access")
            if not found:
                raise AnsibleConnectionFailure(
                    f"node_pod: there is no access to the cluster {cluster}: multicluster_fabric_clusters does not have it, and "
                    "ansible_node_pod_access is not set"
                )
            place = Place(
                {**found, "name": cluster},
                str(self.get_option("fabric")),
                str(self.get_option("namespace") or ""),
                str(self.get_option("node")),
                str(self.get_option("machine_id") or ""),
                str(self.get_option("image") or ""),
            )
            self._pods = self._lost(
                lambda: NodePods(place, float(self.get_option("timeout")), float(self.get_option("wait")))
            )
        return self._pods

    def _run(self, command: str, in_data: bytes | None) -> tuple[int, bytes, bytes]:
        if in_data is None:
            return self._exchange(command, None, None)
        return self._exchange(command, io.BytesIO(in_data), len(in_data))

    def _exchange(self, command: str, feed: t.BinaryIO | None, size: int | None) -> tuple[int, bytes, bytes]:
        most = int(self.get_option("output_mib")) * _MIB
        out, err = Bounded(most), Bounded(most)
        try:
            code = self._lost(lambda: self._node().run(command, feed, size, out, err))
        except TooMuch:
            raise AnsibleConnectionFailure(
                f"node_pod: a command wrote more than {most // _MIB} MiB (ansible_node_pod_output_mib)"
            ) from None
        return code, out.value(), err.value()

    def _lost(self, function: t.Callable[[], t.Any]) -> t.Any:
        try:
            return function()
        except NodeLost as error:
            raise AnsibleConnectionFailure(f"node_pod: {error}") from None
