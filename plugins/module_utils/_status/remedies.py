# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What to do about something that more than one check finds. Pure."""

from __future__ import annotations

import typing as t

from .._values.text import lower


def without_proxy(node: t.Mapping[str, t.Any]) -> str:
    """What is wrong with a node on which no process forwards the packets of Services; nothing where one does, or may do it.

    ``node``: what node_probe or node_status returns; ``service_proxy`` of it is as service_proxy.read has it, or None where it was not read.
    """
    found = node.get("service_proxy") or {}
    if found.get("running") is not False:
        return ""
    return (
        f"{found.get('how')}, so addresses of Services (mirrors, imports, load balancers) lead nowhere on this node; "
        "start kube-proxy or what replaces it"
    )


def full_tracking(node: t.Mapping[str, t.Any]) -> str:
    """What is wrong with a node that can track no further connection; nothing where it can, or where nobody looked.

    ``node``: what node_probe or node_info returns; ``tracking`` of it is as tracking.read_tracking has it.
    """
    found = node.get("tracking") or {}
    count, most = found.get("count"), found.get("most")
    if not isinstance(count, int) or not isinstance(most, int) or not 0 < most <= count:
        return ""
    return (
        f"its table of tracked connections is full ({count:,} of {most:,}), so it drops packets of new connections; "
        "raise net.netfilter.nf_conntrack_max there, or end what opens so many"
    )


def masquerade_fix(rule: str, host: str) -> str:
    """What to do about masquerading by a rule, of which the text or the place is given: each network plugin has its own way."""
    low = lower(rule)
    if "flannel" in low:
        how = "by a Network in flannel's net-conf.json that holds the pods of all clusters, or without --ip-masq (guide_clusters)"
    elif "cali" in low:
        how = "by calico_ippools: auto or always, which makes disabled IPPools of them"
    elif "ip-masq-agent" in low or "ip-masq" in low:
        how = "by nonMasqueradeCIDRs of ip-masq-agent"
    elif "cilium" in low:
        how = "by ipv4NativeRoutingCIDR of Cilium, which must hold the pods of all clusters"
    else:
        how = "in the program that wrote the rule"
    easy = (
        ""
        if "cilium" in low
        else "let the mesh keep them (keep_pod_addresses of its cluster not false, nft on its nodes, then site), or "
    )
    return f"{easy}except the ranges in pod_cidrs of the other clusters from masquerading on {host}, {how}"
