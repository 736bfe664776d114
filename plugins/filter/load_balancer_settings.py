# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the inventory says of load balancing."""

from __future__ import annotations

DOCUMENTATION = r"""
name: load_balancer_settings
short_description: Collect the settings of every cluster's load balancing from the inventory
version_added: 0.1.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Gives the option C(settings) of M(multicluster.network.load_balancers).
  - A host of the clusters group takes part when it has the variable C(load_balancers_settings), whose keys are those of the option.
  - Its nodes' BGP facts come from their variables C(bgp_speaker_source_ip), C(bgp_speaker_asn) and C(bgp_speaker_neighbors), unless the
    settings have C(bgp_nodes). C(bgp_speakers) names those that have neighbours.
  - C(reserved_ranges) has what no Service may name. These are the ranges of all clusters, the pools of the others, and the addresses of nodes
    (C(ansible_host), C(bgp_speaker_source_ip)), routers (C(bgp_speaker_neighbors)) and control planes (C(control_plane_address_address)).
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
- name: Which clusters have load balancing
  ansible.builtin.debug:
    msg: "{{ hostvars | multicluster.network.load_balancer_settings(groups) | map(attribute='cluster') }}"
"""

RETURN = r"""
_value:
  description: One dictionary for each cluster that has settings.
  type: list
  elements: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.inventory import GRANTS
from ansible_collections.multicluster.network.plugins.module_utils._values.addresses import parse_address
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from ansible_collections.multicluster.network.plugins.plugin_utils.load_balancer_keys import VARIABLE, wrong_settings


def load_balancer_settings(hostvars: t.Any, groups: t.Mapping[str, t.Any], clusters_group: str = "clusters") -> t.List[t.Dict[str, t.Any]]:
    """See DOCUMENTATION."""
    if not hasattr(hostvars, "__getitem__") or not isinstance(groups, t.Mapping):
        raise AnsibleFilterError("load_balancer_settings: use it as hostvars | load_balancer_settings(groups)")
    facts: t.Dict[str, t.List[t.Dict[str, t.Any]]] = {}
    reserved: t.Dict[str, t.List[str]] = {}
    speakers: t.Dict[str, t.List[str]] = {}
    for host in sorted({host for members in groups.values() for host in members}):
        given = hostvars[host]
        neighbors = given.get("bgp_speaker_neighbors")
        if "multicluster_cluster" in given:
            ends = [one.get("address") for one in neighbors or ()]
            _add(reserved, "routers of cluster {0} (bgp_speaker_neighbors)".format(given["multicluster_cluster"]), *ends)
            own = [given.get("ansible_host"), given.get("bgp_speaker_source_ip")]
            _add(reserved, "nodes of cluster {0} (ansible_host, bgp_speaker_source_ip)".format(given["multicluster_cluster"]), *own)
        if not neighbors or "multicluster_cluster" not in given:
            continue
        speakers.setdefault(str(given["multicluster_cluster"]), []).append(given.get("node_name") or str(host))
        if "bgp_speaker_source_ip" not in given:
            continue
        row = {"name": given.get("node_name") or str(host), "source_ip": given["bgp_speaker_source_ip"],
               "peers": [one["address"] for one in neighbors], "peer_asn": neighbors[0].get("asn"),
               "password": neighbors[0].get("password"), "multihop": bool(neighbors[0].get("multihop"))}  # fmt: skip
        if given.get("bgp_speaker_asn"):
            row["local_asn"] = given["bgp_speaker_asn"]
        facts.setdefault(str(given["multicluster_cluster"]), []).append({key: value for key, value in row.items() if value is not None})
    found = []
    pools: t.Dict[str, t.List[str]] = {}
    for host in sorted(groups.get(clusters_group, ())):
        given = hostvars[host]
        wrong = wrong_settings(given[VARIABLE]) if given.get(VARIABLE) else []
        if wrong:
            raise AnsibleFilterError("{0} of cluster {1}: {2} [bad_setting]".format(VARIABLE, host, "; ".join(wrong)))
        for name in GRANTS:
            networks = given.get(name) or ()
            _add_range(reserved, "{0} of cluster {1}".format(name, host), [networks] if isinstance(networks, str) else networks)
        _add(reserved, "control_plane_address_address of cluster {0}".format(host), given.get("control_plane_address_address"))
        pool = (given.get(VARIABLE) or {}).get("pool") or ()
        _add_range(pools, str(host), [pool] if isinstance(pool, str) else pool)
    for host in sorted(groups.get(clusters_group, ())):
        settings = hostvars[host].get(VARIABLE)
        if settings:
            theirs = {"pool of cluster " + name: texts for name, texts in pools.items() if name != str(host)}
            from_nodes = {"bgp_nodes": facts.get(str(host), []), "bgp_speakers": speakers.get(str(host), []), "reserved_ranges": {**reserved, **theirs}}
            found.append(dict(from_nodes, **dict(settings, cluster=str(host))))
    return found


def _add_range(found: t.Dict[str, t.List[str]], label: str, texts: t.Iterable[t.Any]) -> None:
    rows = [str(text) for text in texts]
    if rows:
        found.setdefault(label, []).extend(rows)


def _add(found: t.Dict[str, t.List[str]], label: str, *texts: t.Any) -> None:
    """Those that are addresses: a host may be reached by a name as well, or not at all."""
    for text in texts:
        try:
            address = str(parse_address(str(text)))
        except ValueRefused:
            continue
        if address not in found.setdefault(label, []):
            found[label].append(address)


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> t.Dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"load_balancer_settings": load_balancer_settings}
