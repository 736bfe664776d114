# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the inventory as a whole has that no variable of one host can tell."""

from __future__ import annotations

DOCUMENTATION = r"""
name: inventory_findings
short_description: Find names that nothing knows, inventories that overrule each other, and clusters without hosts
version_added: 0.1.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Looks at the names of all variables of all hosts. One that begins as the collection's variables do and is none of them would
    have no effect. What was set by a task is left aside, and so is what C(multicluster_foreign_variables) names.
  - Looks at the values of variables that have choices, such as C(multicluster_capabilities), which must be the same for all, and of
    those that are seconds, a group, a list of names, or yes or no.
  - Finds clusters without hosts, groups that are named like a cluster's host, nodes under two names, and, where several inventories
    are given, hosts that two of them claim and hosts whose own inventory is overruled by another one.
  - Gives findings for the option C(definition.findings) of M(multicluster.network.mesh_plan). It asks nobody.
options:
  _input:
    description: The variable C(hostvars).
    type: dict
    required: true
  groups:
    description: The variable C(groups).
    type: dict
    required: true
  clusters_group:
    description: Name of the group whose hosts are the clusters.
    type: str
    default: clusters
"""

EXAMPLES = r"""
- name: What has the inventory that nothing knows
  ansible.builtin.debug:
    msg: "{{ hostvars | multicluster.network.inventory_findings(groups) | map(attribute='message') }}"
"""

RETURN = r"""
_value:
  description: Findings, each with C(where), C(variable), C(reason), C(message) and C(level).
  type: list
  elements: dict
"""

import json
import typing as t

from ansible.errors import AnsibleFilterError
from ansible.parsing.dataloader import DataLoader
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.groups import (
    check_capabilities,
    check_groups,
    check_machines,
    placer,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.names import Known, check_choices, check_names
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.sources import check_sources
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.values import check_types
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.variables import Finding
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory_sources import read_sources
from ansible_collections.multicluster.network.plugins.plugin_utils.known_variables import known_variables
from ansible_collections.multicluster.network.plugins.plugin_utils.load_balancer_keys import VARIABLE, wrong_settings

_NOT_OURS = "multicluster_foreign_variables"
_CAPABILITIES = "multicluster_capabilities"
#: Connections by which a host's address says which machine it is, and what else says it: the same address is another machine
#: by another port or another way there.
_REMOTE = ("ssh", "smart", "paramiko_ssh", "ansible.builtin.ssh", "ansible.builtin.paramiko_ssh")
_WAY = ("ansible_port", "ansible_connection", "ansible_ssh_common_args", "ansible_ssh_extra_args", "ansible_ssh_args")


class _Names:
    """Names of all hosts' variables, and the values of those few that are looked at."""

    def __init__(self, hostvars: t.Any, groups: t.Mapping[str, t.Any], known: Known) -> None:
        manager = getattr(hostvars, "_variable_manager", None)
        #: What -e gave, as far as this Ansible tells.
        self.command_line = frozenset(getattr(manager, "extra_vars", None) or {})
        made = getattr(manager, "_nonpersistent_fact_cache", None) or {}
        self.hosts: t.Dict[str, t.List[str]] = {}
        self.not_ours: t.Set[str] = set()
        self.clusters: t.Dict[str, object] = {}
        self.machines: t.Dict[t.Tuple[str, ...], t.List[str]] = {}
        self.sources: t.List[str] = []
        self._values: t.Dict[t.Tuple[str, str], t.Tuple[t.Any, t.List[str]]] = {}
        for host in sorted({str(host) for members in groups.values() for host in members}):
            given, facts = hostvars[host], made.get(host) or {}
            for name in given:
                if not name.startswith(("ansible_", "__")) and name not in facts:
                    self.hosts.setdefault(name, []).append(host)
            for name in (*known.choices, *known.types):
                if name in given and name not in facts:
                    self._see(name, given[name], host)
            if _NOT_OURS in given:
                value = given[_NOT_OURS]
                self.not_ours.update(str(name) for name in ([value] if isinstance(value, str) else value if isinstance(value, (list, tuple)) else ()))
            if "multicluster_cluster" in given:
                self.clusters[host] = given["multicluster_cluster"]
                if given.get("ansible_connection", "ssh") in _REMOTE:
                    address = given.get("ansible_host") or host
                    self.machines.setdefault((str(address), *(str(given.get(key) or "") for key in _WAY)), []).append(host)
            if not self.sources and "ansible_inventory_sources" in given:
                self.sources = [str(path) for path in given["ansible_inventory_sources"] or ()]

    def _see(self, name: str, value: t.Any, host: str) -> None:
        self._values.setdefault((name, json.dumps(value, default=str)), (value, []))[1].append(host)

    def values(self) -> t.List[t.Tuple[str, t.Any, t.List[str]]]:
        """(variable, value, hosts) for each value of a variable with choices or a type."""
        return [(name, value, hosts) for (name, dummy), (value, hosts) in sorted(self._values.items(), key=lambda item: item[0])]


def inventory_findings(hostvars: t.Any, groups: t.Mapping[str, t.Any], clusters_group: str = "clusters") -> t.List[t.Dict[str, t.Any]]:
    """See DOCUMENTATION."""
    if not hasattr(hostvars, "__getitem__") or not isinstance(groups, t.Mapping):
        raise AnsibleFilterError("inventory_findings: use it as hostvars | inventory_findings(groups)")
    known = known_variables()
    names = _Names(hostvars, groups, known)
    members = {str(group): [str(host) for host in hosts] for group, hosts in groups.items()}
    place = placer(members)
    found = check_names(names.hosts, known, place, names.command_line, names.not_ours)
    values = names.values()
    found += check_choices([row for row in values if row[0] in known.choices], known, place, names.command_line)
    found += check_types([row for row in values if row[0] in known.types], known.types, members, place, names.command_line)
    capabilities = [(value, hosts) for name, value, hosts in values if name == _CAPABILITIES]
    found += check_capabilities(_CAPABILITIES, capabilities, members.get(clusters_group, ()), names.clusters)
    without_pods = [host for host in members.get(clusters_group, ()) if "pod_cidrs" not in hostvars[host]]
    found += check_groups(members, clusters_group, names.clusters, without_pods, names.hosts.get("pod_cidrs", ()))
    found += check_machines([(way[0], hosts) for way, hosts in names.machines.items() if len(hosts) > 1])
    if len(names.sources) > 1:
        loader = getattr(hostvars, "_loader", None) or DataLoader()
        found += check_sources(read_sources(names.sources, loader), names.clusters)
    for host in members.get(clusters_group, ()):
        settings = hostvars[host].get(VARIABLE)
        found += [Finding("clusters/" + host, VARIABLE, "bad_setting", text) for text in (wrong_settings(settings) if settings else ())]
    return [finding._asdict() for finding in found]


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> t.Dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"inventory_findings": inventory_findings}
