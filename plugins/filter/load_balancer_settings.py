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


def load_balancer_settings(hostvars: t.Any, groups: t.Mapping[str, t.Any], clusters_group: str = "clusters") -> t.List[t.Dict[str, t.Any]]:
    """See DOCUMENTATION."""
    if not hasattr(hostvars, "__getitem__") or not isinstance(groups, t.Mapping):
        raise AnsibleFilterError("load_balancer_settings: use it as hostvars | load_balancer_settings(groups)")
    facts: t.Dict[str, t.List[t.Dict[str, t.Any]]] = {}
    speakers: t.Dict[str, t.List[str]] = {}
    for host in sorted({host for members in groups.values() for host in members}):
        given = hostvars[host]
        neighbors = given.get("bgp_speaker_neighbors")
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
    for host in sorted(groups.get(clusters_group, ())):
        settings = hostvars[host].get("load_balancers_settings")
        if settings:
            from_nodes = {"bgp_nodes": facts.get(str(host), []), "bgp_speakers": speakers.get(str(host), [])}
            found.append(dict(from_nodes, **dict(settings, cluster=str(host))))
    return found


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> t.Dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"load_balancer_settings": load_balancer_settings}
