# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Corefiles as text."""

from __future__ import annotations

DOCUMENTATION = r"""
name: corefile
short_description: The Corefile of one cluster of a fabric
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Renders a whole Corefile for those who deploy CoreDNS themselves, or only the server blocks that
    M(multicluster.network.coredns_rewrite) would merge into an existing one.
options:
  _input:
    description: Names of all clusters of the fabric.
    type: list
    elements: str
    required: true
  local:
    description: The cluster for which it is rendered.
    type: str
    required: true
  blocks_only:
    description: Only the blocks to be merged.
    type: bool
    default: false
  mirror_namespace:
    description: Namespace of the mirrors.
    type: str
    default: sys-semaphore
  global_zone:
    description: Whether there are global services.
    type: bool
    default: false
  prefixes:
    description: Cluster name to the prefix of its mirrors, where the two differ.
    type: dict
    default: {}
  cluster_domain:
    description: DNS domain of Kubernetes itself.
    type: str
    default: cluster.local
  ready:
    description: Whether the root answers the readiness probes of Kubernetes, on port 8181.
    type: bool
    default: false
  version:
    description: Version of CoreDNS. Options that it does not know are left out.
    type: str
seealso:
  - module: multicluster.network.coredns_rewrite
"""

EXAMPLES = r"""
- name: The Corefile of gcp
  ansible.builtin.debug:
    msg: "{{ ['aws', 'gcp'] | multicluster.network.corefile('gcp') }}"
"""

RETURN = r"""
_value:
  description: The text.
  type: str
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.multicluster.network.plugins.module_utils._services import coredns_corefile
from ansible_collections.multicluster.network.plugins.module_utils._services.coredns_rules import DEFAULT_DOMAIN


def corefile(
    clusters: t.Sequence[str],
    local: str,
    blocks_only: bool = False,
    mirror_namespace: str = "sys-semaphore",
    global_zone: bool = False,
    prefixes: t.Mapping[str, str] | None = None,
    cluster_domain: str = DEFAULT_DOMAIN,
    ready: bool = False,
    version: str | None = None,
) -> str:
    """See DOCUMENTATION."""
    if isinstance(clusters, str) or not isinstance(local, str):
        raise AnsibleFilterError("corefile: use it as [clusters] | corefile('local')")
    try:
        options = coredns_corefile.Options(
            local=local,
            remotes=tuple(sorted(set(clusters) - {local})),
            mirror_namespace=mirror_namespace,
            global_zone=global_zone,
            prefixes=prefixes or {},
            cluster_domain=cluster_domain,
            version=coredns_corefile.parse_version(version),
            ready=ready,
        )
        render = coredns_corefile.owned_blocks if blocks_only else coredns_corefile.whole_corefile
        return coredns_corefile.corefile_text(render(options))
    except ValueError as error:
        raise AnsibleFilterError(f"corefile: {error}") from error


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"corefile": corefile}
