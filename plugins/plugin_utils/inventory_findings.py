# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""What is wrong with an inventory as a whole: names that nothing reads, values that nothing takes, hosts that are claimed twice."""

from __future__ import annotations

import json
import os
import pathlib
import stat
import typing as t

from ansible.errors import AnsibleError, AnsibleUndefinedVariable
from ansible.parsing.dataloader import DataLoader
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.groups import (
    check_capabilities,
    check_groups,
    check_machines,
    check_rivals,
    check_sources,
    placer,
    strangers_in_groups,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.names import (
    Known,
    check_choices,
    check_names,
    check_types,
    renamed_words,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.scopes import check_scopes
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.variables import Finding
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.config import parse_mesh
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import KUBESPAN
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused, quoted
from ansible_collections.multicluster.network.plugins.plugin_utils import discovery_findings
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory import (
    FABRIC_CLUSTERS,
    NODE_POD,
    with_clusters,
)
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory_sources import read_sources
from ansible_collections.multicluster.network.plugins.plugin_utils.known_variables import (
    known_variables,
    option_specs,
    read_once,
)
from ansible_collections.multicluster.network.plugins.plugin_utils.load_balancer_keys import VARIABLE, wrong_settings
from ansible_collections.multicluster.network.plugins.plugin_utils.role_values import check_role_values

_UNOWNED = "multicluster_foreign_variables"
_CAPABILITIES = "multicluster_capabilities"
_SPEAKER = ("bgp_speaker_neighbors", "bgp_speaker_source_ip", "bgp_speaker_router_id")
#: What makes a node a speaker.
_SPEAKERS = ("bgp_speaker_neighbors", "layer2_speaker_segment")
#: Connections by which a host's address identifies the machine, and what else does: the same address is another machine
#: by another port or another way there.
_REMOTE = ("ssh", "smart", "paramiko_ssh", "ansible.builtin.ssh", "ansible.builtin.paramiko_ssh")
_WAY = ("ansible_port", "ansible_connection", "ansible_ssh_common_args", "ansible_ssh_extra_args", "ansible_ssh_args")


def check_access_files(rows: t.Iterable[tuple[str, t.Any]]) -> list[Finding]:
    """Warnings for kubeconfigs that every user of the controller can read. rows: (cluster, path of its kubeconfig)."""
    found = []
    for cluster, path in rows:
        try:
            mode = pathlib.Path(os.path.expanduser(path)).stat().st_mode if isinstance(path, str) and path else 0
        except (OSError, ValueError):
            continue  # whoever opens it reports that
        if mode & stat.S_IROTH:
            message = "every user of this machine can read {0} (mode {1:04o}): chmod 600 {0}".format(
                quoted(path), stat.S_IMODE(mode)
            )
            found.append(Finding("clusters/" + cluster, "kubeconfig", "readable_by_all", message, "warning"))
    return found


def _without_router_id(hostvars: t.Any, nodes: t.Iterable[str]) -> list[Finding]:
    """Nodes that speak BGP with routers of IPv6 alone and have no address for a router id."""
    found = []
    for host in nodes:
        given = hostvars[host]
        try:
            neighbors, source, router = (given.get(name, None) for name in _SPEAKER)
        except AnsibleUndefinedVariable:
            continue  # made of what only a run knows
        rows = neighbors if isinstance(neighbors, (list, tuple)) else ()
        addresses = [str(row.get("address") or "") for row in rows if isinstance(row, t.Mapping)]
        if addresses and not router and all(":" in text for text in [*addresses, str(source or ":")]):
            message = "all routers of the node are of IPv6, so nothing gives it a router id: write bgp_speaker_router_id, an IPv4 address of no one else's"
            found.append(Finding("nodes/" + host, "bgp_speaker_router_id", "bad_address", message))
    return found


def _speakers_without_init(hostvars: t.Any, nodes: t.Iterable[str]) -> list[Finding]:
    """Nodes that are reached by a pod and are to run a speaker, which needs an init and daemons of the host."""
    found = []
    for host in nodes:
        given = hostvars[host]
        if given.get("ansible_connection") != NODE_POD:
            continue
        for name in _SPEAKERS:
            if given.get(name, None):
                message = "the node is reached by a pod ({0}), where no speaker can run; take {1} from it, or reach it over SSH"
                found.append(
                    Finding("nodes/" + host, name, "speaker_without_init", message.format("ansible_connection", name))
                )
    return found


class _Names:
    """Names of all hosts' variables, and the values of those few that are looked at."""

    def __init__(self, hostvars: t.Any, groups: t.Mapping[str, t.Any], known: Known) -> None:
        manager = getattr(hostvars, "_variable_manager", None)
        #: What -e gave, as far as this Ansible shows it.
        self.command_line = frozenset(getattr(manager, "extra_vars", None) or {})
        made = getattr(manager, "_nonpersistent_fact_cache", None) or {}
        self.hosts: dict[str, list[str]] = {}
        self.unowned: set[str] = set()
        self.clusters: dict[str, object] = {}
        self.machines: dict[tuple[str, ...], list[str]] = {}
        self.sources: list[str] = []
        #: Such as of a vault without its password: (variable, why) -> hosts.
        self.unreadable: dict[tuple[str, str], list[str]] = {}
        self._values: dict[tuple[str, str], tuple[t.Any, list[str]]] = {}
        looked_at = {
            *known.choices,
            *known.types,
            *known.words_in,
            *option_specs(),
            FABRIC_CLUSTERS,
            *discovery_findings.LOOKED_AT,
        }
        for host in sorted({str(host) for members in groups.values() for host in members}):
            given, facts = hostvars[host], made.get(host) or {}
            for name in given:
                if not name.startswith(("ansible_", "__")) and name not in facts:
                    self.hosts.setdefault(name, []).append(host)
            for name in looked_at & set(given):
                if name not in facts:
                    self._look(name, given, host)
            if _UNOWNED in given:
                value = given[_UNOWNED]
                self.unowned.update(
                    str(name)
                    for name in (
                        [value] if isinstance(value, str) else value if isinstance(value, (list, tuple)) else ()
                    )
                )
            if "multicluster_cluster" in given:
                self.clusters[host] = given["multicluster_cluster"]
                if given.get("ansible_connection", "ssh") in _REMOTE:
                    address = given.get("ansible_host") or host
                    self.machines.setdefault((str(address), *(str(given.get(key) or "") for key in _WAY)), []).append(
                        host
                    )
            if not self.sources and "ansible_inventory_sources" in given:
                self.sources = [str(path) for path in given["ansible_inventory_sources"] or ()]

    def _look(self, name: str, given: t.Any, host: str) -> None:
        try:
            value = given[name]
        except AnsibleUndefinedVariable:
            return  # made of what only a run knows, such as a fact; the role checks it when it runs
        except AnsibleError as error:
            self.unreadable.setdefault((name, " ".join(str(error).split())[:200]), []).append(host)
            return
        self._see(name, value, host)

    def _see(self, name: str, value: t.Any, host: str) -> None:
        self._values.setdefault((name, json.dumps(value, default=str)), (value, []))[1].append(host)

    def values(self) -> list[tuple[str, t.Any, list[str]]]:
        """(variable, value, hosts) for each value of a variable that has its values checked."""
        return [
            (name, value, hosts)
            for (name, dummy), (value, hosts) in sorted(self._values.items(), key=lambda item: item[0])
        ]


def check_identity(rows: t.Iterable[tuple[str, t.Any, t.Sequence[str]]]) -> list[Finding]:
    """What is wrong with id and secret of a KubeSpan mesh, where the inventory asks for one; the secret is in no message."""
    given = {name: value for name, value, dummy in rows}
    if KUBESPAN not in (given.get("multicluster_mesh"), given.get("mesh_mode")):
        return []
    try:
        parse_mesh(given.get("mesh_id"), given.get("mesh_secret"))
    except ValueRefused as error:
        variable = "mesh_secret" if error.reason == "bad_mesh_secret" else "mesh_id"
        return [Finding("group all", variable, error.reason, f"{error.message}; write {variable} in group_vars/all")]
    return []


def inventory_findings(
    hostvars: t.Any, groups: t.Mapping[str, t.Any], clusters_group: str = "clusters"
) -> list[dict[str, t.Any]]:
    """Rows ``{where, variable, reason, message, level}`` for everything that is wrong with the inventory as such. Asks nobody.

    Names of all variables of all hosts: one that begins as the collection's do and is none of them would have no effect. What a task set
    is left aside, and so is what ``multicluster_foreign_variables`` names. Values of variables that have choices or a type. Clusters
    without hosts, groups named like a cluster's host, nodes under two names, and, of several inventories, hosts that two of them claim.
    """
    real = {str(host) for hosts in groups.values() for host in hosts}
    hostvars, groups = with_clusters(hostvars, groups, clusters_group)
    known = known_variables()
    names = _Names(hostvars, groups, known)
    members = {str(group): [str(host) for host in hosts] for group, hosts in groups.items()}
    placed = placer(members)

    def place(hosts: t.Sequence[str]) -> str:
        return "all hosts" if len(hosts) > 1 and set(hosts) == real else placed(hosts)

    found = check_names(names.hosts, known, place, names.command_line, names.unowned)
    values = names.values()
    found += check_choices([row for row in values if row[0] not in known.types], known, place, names.command_line)
    found += check_types(
        [row for row in values if row[0] in known.types], known.types, members, place, names.command_line
    )
    specs = {
        name: spec for name, spec in option_specs().items() if name not in known.types and name not in known.choices
    }
    current = [
        row for row in values if row[0] not in known.words_in or not renamed_words(row[1], known.former_words)
    ]  # the others were named above
    found += check_role_values(current, specs, place, names.command_line)
    clusters = [host for host in members.get(clusters_group, ()) if host in real]
    found += [
        Finding(place(hosts), name, "unreadable", f"{name} cannot be read: {why}")
        for (name, why), hosts in sorted(names.unreadable.items())
    ]
    found += check_identity(values)
    found += discovery_findings.check_services(values, names.clusters, place)
    found += check_scopes(
        values, read_once(), clusters, [host for host in sorted(names.clusters) if host not in clusters]
    )
    if len([row for row in values if row[0] == FABRIC_CLUSTERS]) > 1:
        text = f"{FABRIC_CLUSTERS} has not the same value on all hosts; write it once, in group_vars/all"
        found.append(Finding("group all", FABRIC_CLUSTERS, "clusters_differ", text))
    capabilities = [(value, hosts) for name, value, hosts in values if name == _CAPABILITIES]
    found += check_capabilities(_CAPABILITIES, capabilities, members.get(clusters_group, ()), names.clusters)
    without_pods = [host for host in members.get(clusters_group, ()) if "pod_cidrs" not in hostvars[host]]
    # a cluster that is no host has its name from no group
    apart = {
        group: hosts
        for group, hosts in members.items()
        if group in real or group not in members.get(clusters_group, ())
    }
    found += check_groups(apart, clusters_group, names.clusters, without_pods, names.hosts.get("pod_cidrs", ()))
    found += check_machines([(way[0], hosts) for way, hosts in names.machines.items() if len(hosts) > 1])
    if len(names.sources) > 1 or (names.sources and strangers_in_groups(members, names.clusters)):
        sources = read_sources(names.sources, getattr(hostvars, "_loader", None) or DataLoader())
        found += check_rivals(sources) + (check_sources(sources, names.clusters) if len(names.sources) > 1 else [])
    found += _without_router_id(hostvars, sorted(names.clusters))
    found += _speakers_without_init(hostvars, sorted(names.clusters))
    found += check_access_files([(host, hostvars[host].get("kubeconfig")) for host in members.get(clusters_group, ())])
    for host in members.get(clusters_group, ()):
        settings = hostvars[host].get(VARIABLE)
        found += [
            Finding("clusters/" + host, VARIABLE, "bad_setting", text)
            for text in (wrong_settings(settings) if settings else ())
        ]
    return [finding._asdict() for finding in found]
