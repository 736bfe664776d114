# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A double of Calico's Felix: what a NetworkPolicy with a set as its source lets through, as rules of nftables in a node's namespace.

It knows as much of Calico as the guide's policy needs: Ingress, Allow, TCP, a source by labels of GlobalNetworkSets, ports. A policy that
says anything else is an error, so that nothing is let through or held back by being overlooked.
"""

from __future__ import annotations

import re

TABLE = "felix_double"
_TERM = re.compile(r"([A-Za-z0-9./_-]+) == '([^']*)'\Z")


def terms(selector):
    """``{label: value}`` of ``a == 'b' && c == 'd'``."""
    found = {}
    for part in selector.split("&&"):
        match = _TERM.match(part.strip())
        if match is None:
            raise ValueError("the double knows no selector like {0!r}".format(part))
        found[match.group(1)] = match.group(2)
    return found


def selects(selector, labels):
    """Whether the labels fit."""
    return all(labels.get(name) == value for name, value in terms(selector).items())


def nets(rule, sets):
    """The networks of all sets that the rule's source names."""
    if set(rule["source"]) != {"selector", "namespaceSelector"} or rule["source"]["namespaceSelector"] != "global()":
        raise ValueError("only a source by global sets is known")
    chosen = [item for item in sets if selects(rule["source"]["selector"], item["metadata"].get("labels") or {})]
    return sorted({net for item in chosen for net in (item.get("spec") or {}).get("nets") or ()})


def ruleset(policy, sets, pods):
    """nft's text: towards each pod (address, labels) that the policy selects, what its rules allow and nothing else."""
    spec = policy["spec"]
    if set(spec) - {"selector", "types", "ingress", "order"} or spec["types"] != ["Ingress"]:
        raise ValueError("the double knows only Ingress")
    lines = ["table inet {0}".format(TABLE), "delete table inet {0}".format(TABLE), "table inet {0} {{".format(TABLE),
             "  chain forward {", "    type filter hook forward priority 10; policy accept;", "    ct state established,related accept"]  # fmt: skip
    for address in sorted(address for address, labels in pods if selects(spec["selector"], labels)):
        for rule in spec["ingress"]:
            if (rule["action"], rule["protocol"], set(rule) - {"action", "protocol", "source", "destination"}) != ("Allow", "TCP", set()):
                raise ValueError("the double knows only Allow of TCP")
            sources, ports = ", ".join(nets(rule, sets)), ", ".join(str(port) for port in rule["destination"]["ports"])
            if sources:
                lines.append("    ip daddr {0} ip saddr {{ {1} }} tcp dport {{ {2} }} counter accept".format(address, sources, ports))
        lines.append("    ip daddr {0} counter drop".format(address))
    return "\n".join(lines + ["  }", "}", ""])
