# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of nodes under one annotation key."""

from __future__ import annotations

DOCUMENTATION = r"""
name: same_annotation
short_description: Give every node's value the same annotation key
version_added: 0.1.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Turns cluster to node to value into the option C(annotations) of M(multicluster.network.node_annotations).
options:
  _input:
    description: Cluster to node to value.
    type: dict
    required: true
  key:
    description: The annotation key.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Annotations to write
  ansible.builtin.debug:
    msg: "{{ {'eu': {'eu-1': '203.0.113.1:51820'}} | multicluster.network.same_annotation('kilo.squat.ai/clustermesh-endpoint') }}"
"""

RETURN = r"""
_value:
  description: Cluster to node to annotations.
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError


def same_annotation(values: t.Any, key: str) -> t.Dict[str, t.Dict[str, t.Dict[str, str]]]:
    """See DOCUMENTATION."""
    if not isinstance(values, t.Mapping):
        raise AnsibleFilterError("same_annotation: the input maps clusters to nodes")
    return {str(cluster): {str(node): {str(key): value} for node, value in nodes.items()} for cluster, nodes in values.items()}


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> t.Dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"same_annotation": same_annotation}
