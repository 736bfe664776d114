# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""apinetlet: its flags as the variables of the role tenants (apinet 2). The files of its two connections are the inventory's access."""

from __future__ import annotations

from .._values.text import parse_subdomain
from . import fields
from .proposal import Proposal
from .workloads import Process


def read_apinetlet(one: Process, into: Proposal) -> None:
    """The process of one pair of API servers. It runs alongside the tenants' side unless its kubeconfig has another server."""
    into.add(None, "multicluster_capabilities", ["tenants"])
    for flag, variable, parse in (
        ("--api-net-namespace", "tenants_apinet_namespace", parse_subdomain),
        ("--namespace", "tenants_watch_namespace", parse_subdomain),
        ("--watch-filter", "tenants_watch_filter", fields.short_text),
    ):
        configured = one.text(flag)
        value = into.checked(one.where, flag, parse, configured) if configured else None
        if value:
            into.say(None, variable, value, one.where)
    if "ironcore" in one.image:
        into.say(None, "tenants_profile", "ironcore", one.where)
    outside = one.first("--kubeconfig", "--kubeconfig-secret-name", "--bootstrap-kubeconfig")
    alongside = one.first("--api-net-kubeconfig", "--api-net-kubeconfig-secret-name", "--api-net-bootstrap-kubeconfig")
    for variable, elsewhere in (("tenants_source", outside), ("tenants_apinet", alongside)):
        if elsewhere is None and one.cluster:
            into.cluster(one.cluster)
            into.say(None, variable, one.cluster, one.where)
        else:
            into.find(
                one.where,
                "unknown_cluster",
                f"{variable}: a kubeconfig of its own selects the cluster; write the name of its host",
            )
