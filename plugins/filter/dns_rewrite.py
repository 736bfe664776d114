# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a name rewrites to."""

from __future__ import annotations

DOCUMENTATION = r"""
name: dns_rewrite
short_description: What CoreDNS makes of a name of another cluster
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Applies the rules that M(multicluster.network.coredns_rewrite) renders to one name, as CoreDNS does.
options:
  _input:
    description: The name that a client asks for.
    type: str
    required: true
  clusters:
    description: Names of the remote clusters.
    type: list
    elements: str
    required: true
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
seealso:
  - module: multicluster.network.coredns_rewrite
"""

EXAMPLES = r"""
- name: Where does this name lead
  ansible.builtin.debug:
    msg: "{{ 'fluentd.sys-log.svc.cluster.aws' | multicluster.network.dns_rewrite(['aws']) }}"
"""

RETURN = r"""
_value:
  description:
    - C(name) as the question is rewritten, empty when it is not. C(answer) as the client sees the name in the answer.
    - C(shown) is the given name as a client sees it where it is in an answer, such as the target of a CNAME or SRV record.
    - C(rcode) is C(SERVFAIL) where the rewritten name would have a label of more than 63 characters.
  type: dict
  sample:
    name: aws-sys-log-73736d-fluentd.sys-semaphore.svc.cluster.local.
    answer: fluentd.sys-log.svc.cluster.aws.
    rcode: null
    shown: fluentd.sys-log.svc.cluster.aws
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.multicluster.network.plugins.module_utils._services import coredns_rules


def dns_rewrite(
    name: str,
    clusters: t.Sequence[str],
    mirror_namespace: str = "sys-semaphore",
    global_zone: bool = False,
    prefixes: t.Mapping[str, str] | None = None,
    cluster_domain: str = coredns_rules.DEFAULT_DOMAIN,
) -> dict[str, str | None]:
    """See DOCUMENTATION."""
    if not isinstance(name, str) or isinstance(clusters, str):
        raise AnsibleFilterError("dns_rewrite: use it as 'name' | dns_rewrite([clusters])")
    try:
        rules = coredns_rules.rewrite_rules(list(clusters), mirror_namespace, global_zone, prefixes, cluster_domain)
    except ValueError as error:
        raise AnsibleFilterError(f"dns_rewrite: {error}") from error
    return dict(coredns_rules.rewrite_name(rules, name)._asdict(), shown=coredns_rules.answer_name(rules, name))


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"dns_rewrite": dns_rewrite}
