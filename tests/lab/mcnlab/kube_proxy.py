# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kube-proxy inside a node, on demand: service addresses then work there. Gone after a reboot until started again."""

from __future__ import annotations

import pathlib
import time
import typing as t

from . import process
from .errors import LabError
from .kubernetes import ControlPlane, kubeconfig

if t.TYPE_CHECKING:
    from .lab import Lab
    from .nodes import NodeMachine

# Take out the rules and chains of kube-proxy, then the tables in which nothing is left.
CLEAN = """
for family in ip ip6; do
    case $family in ip) tool=iptables;; ip6) tool=ip6tables;; esac
    for table in nat filter mangle; do
        $tool-save -t $table | grep -v KUBE- | $tool-restore -T $table
        $tool-save -t $table | grep -q '^-A' || nft delete table $family $table 2>/dev/null
    done
done
rm -f /run/kube-proxy.kubeconfig
"""


class KubeProxy:
    def __init__(self, lab: Lab, machine: NodeMachine) -> None:
        self.lab, self.machine = lab, machine
        self.plane = ControlPlane(lab, lab.topology.cluster(machine.node.cluster))
        self.pid_file = machine.folder / "kube-proxy.pid"
        self.log = machine.folder / "kube-proxy.log"

    def start(self, programs: pathlib.Path) -> None:
        if process.read_pid(self.pid_file):
            return
        text = kubeconfig(
            self.plane.cluster.name, self.plane.server_for_nodes, self.plane.pki / "ca.crt", self.plane.token
        )
        self._in_node("umask 077; cat > /run/kube-proxy.kubeconfig", text)
        process.spawn(self.lab.state, self.pid_file, self.log, self.machine.enter(self._command(programs)))
        deadline = time.monotonic() + 600
        while "KUBE-SERVICES" not in process.run(self.machine.enter(["iptables-save", "-t", "nat"])).stdout:
            if time.monotonic() > deadline or not process.read_pid(self.pid_file):
                raise LabError(f"kube-proxy does not start on {self.machine.node.name}: {self.log.read_text()[-1500:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        pid = process.read_pid(self.pid_file)
        if pid:
            # nsenter waits for its child, which is what has to end; the child's own namespaces tell it apart.
            process.end([*_children(pid), pid])
        self.pid_file.unlink(missing_ok=True)
        if self.machine.leader:
            self._in_node(CLEAN, "")

    def _command(self, programs: pathlib.Path) -> list[str]:
        cidrs = [cidr for cidr in self.plane.cluster.pod_cidrs if ":" not in cidr] or list(self.plane.cluster.pod_cidrs)
        return [
            str(programs / "kube-proxy"),
            "--proxy-mode=iptables",
            f"--hostname-override={self.machine.node.name}",
            "--kubeconfig=/run/kube-proxy.kubeconfig",
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
            f"--cluster-cidr={cidrs[0]}",
            "--iptables-min-sync-period=100ms",
        ]

    def _in_node(self, script: str, text: str) -> None:
        process.run(self.machine.enter(["/bin/sh", "-c", script]), input=text)


def _children(pid: int) -> list[int]:
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found
