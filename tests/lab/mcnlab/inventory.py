# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's two inventories: nodes entered through their namespaces, and nodes reached over SSH."""

from __future__ import annotations

import json
import pathlib
import typing as t

from .namespaces import hardware
from .node_init import LIGHT_PYTHON

if t.TYPE_CHECKING:
    from .lab import Lab


def write(lab: Lab) -> None:
    """Write inventory/hosts.yml and inventory-ssh/hosts.yml (JSON inside YAML, which every YAML reader takes)."""
    for folder, over_ssh in (("inventory", False), ("inventory-ssh", True))[
        : 1 if lab.topology.light else 2
    ]:  # light nodes have no sshd
        file = lab.state / folder / "hosts.yml"
        file.parent.mkdir(parents=True, exist_ok=True)
        text = render(lab, over_ssh)
        if not file.exists() or file.read_text() != text:
            temporary = pathlib.Path(f"{file}.new")
            temporary.write_text(text)
            temporary.replace(file)


def render(lab: Lab, over_ssh: bool) -> str:
    lines = ["---", "all:", "  children:", "    clusters:", "      vars:"]
    lines += [
        "        ansible_connection: local",
        '        ansible_python_interpreter: "{{ ansible_playbook_python }}"',
        "      hosts:",
    ]
    for plane in lab.control_planes:
        cluster = plane.cluster
        lines.append(f"        {cluster.name}:")
        lines.append(f"          kubeconfig: {_value(str(plane.kubeconfig))}")
        for name in ("pod_cidrs", "service_cidrs", "node_cidrs"):
            lines.append(f"          {name}: {_value(list(getattr(cluster, name)))}")
        lines.extend(f"          {name}: {_value(value)}" for name, value in sorted(cluster.variables.items()))
    for cluster in lab.topology.clusters:
        lines += [f"    {cluster.name.replace('-', '_')}_nodes:", "      vars:"]
        variables = {"multicluster_cluster": cluster.name, **(_ssh(lab) if over_ssh else _netns(lab))}
        variables["ansible_python_interpreter"] = LIGHT_PYTHON if lab.topology.light else "/usr/bin/python3"
        lines += [f"        {name}: {_value(value)}" for name, value in variables.items()]
        lines.append("      hosts:")
        for node in cluster.nodes:
            # Nodes have nothing but veth: what a machine's first network card would say is said here.
            own = {
                "kubespan_mac": hardware(lab.namespace(node.name)),
                **({"ansible_host": node.address} if over_ssh else {}),
            }
            lines.append(f"        {node.name}: {_value(own)}")
    return "\n".join(lines) + "\n"


def _netns(lab: Lab) -> dict[str, str]:
    return {
        "ansible_connection": "multicluster.network.netns",
        "ansible_netns_leader": f"{lab.state}/nodes/{{{{ inventory_hostname }}}}/leader",
    }


def _ssh(lab: Lab) -> dict[str, str]:
    return {
        "ansible_connection": "ssh",
        "ansible_user": "root",
        "ansible_ssh_private_key_file": str(lab.ssh.client_key),
        # Nodes of all labs have the same addresses: a connection that waits to be used again must not be another lab's.
        "ansible_control_path_dir": str(lab.ssh.control_paths),
        "ansible_ssh_common_args": " ".join(f"'{option}'" if " " in option else option for option in lab.ssh.options()),
    }


def _value(value: object) -> str:
    return json.dumps(value) if not isinstance(value, str) or set(value) & set("{}[]:#'\" ,&*") else value
