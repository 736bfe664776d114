# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A double of Calico's Felix: what a NetworkPolicy with a set as its source lets through, as rules of nftables in a node's namespace.

It knows as much of Calico as the guide's policy needs: Ingress, Allow, TCP, a source by labels of GlobalNetworkSets, ports. A policy that
has anything else is an error, so that nothing is let through or held back by being overlooked.
"""

from __future__ import annotations

import contextlib
import re
import threading

from service_lab import until

TABLE = "felix_double"
_TERM = re.compile(r"([A-Za-z0-9./_-]+) == '([^']*)'\Z")


def terms(selector):
    """``{label: value}`` of ``a == 'b' && c == 'd'``."""
    found = {}
    for part in selector.split("&&"):
        match = _TERM.match(part.strip())
        if match is None:
            raise ValueError(f"the double knows no selector like {part!r}")
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
    lines = [
        f"table inet {TABLE}",
        f"delete table inet {TABLE}",
        f"table inet {TABLE} {{",
        "  chain cali-tw {",
        "    ct state established,related accept",
    ]
    for address in sorted(address for address, labels in pods if selects(spec["selector"], labels)):
        for rule in spec["ingress"]:
            if (rule["action"], rule["protocol"], set(rule) - {"action", "protocol", "source", "destination"}) != (
                "Allow",
                "TCP",
                set(),
            ):
                raise ValueError("the double knows only Allow of TCP")
            sources, ports = ", ".join(nets(rule, sets)), ", ".join(str(port) for port in rule["destination"]["ports"])
            if sources:
                lines.append(f"    ip daddr {address} ip saddr {{ {sources} }} tcp dport {{ {ports} }} counter accept")
        lines.append(f"    ip daddr {address} counter drop")
    lines += [
        "  }",
        "  chain forward {",
        "    type filter hook forward priority 10; policy accept;",
        "    jump cali-tw",
        "  }",
        "}",
        "",
    ]
    return "\n".join(lines)


def define(api, plural, kind, scope):
    """One of Calico's kinds, with any content."""
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": plural + ".crd.projectcalico.org"},
        "spec": {
            "group": "crd.projectcalico.org",
            "scope": scope,
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": kind + "List"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                }
            ],
        },
    }
    api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body, "calico")
    until(lambda: api.resource("crd.projectcalico.org/v1", kind, refresh=True) is not None)


def enforce(fabric, api, node, namespace):
    """What Felix would do: read, and write the rules of the node."""
    group = "/apis/crd.projectcalico.org/v1"
    (policy,) = api.list(f"{group}/namespaces/{namespace}/networkpolicies").items
    pods = [
        (pod["status"]["podIP"], pod["metadata"]["labels"])
        for pod in api.list(f"/api/v1/namespaces/{namespace}/pods").items
    ]
    text = ruleset(policy, api.list(group + "/globalnetworksets").items, pods)
    fabric.sh(node, "sh", "-c", 'printf %s "$0" | nft -f -', text)


@contextlib.contextmanager
def enforced(fabric, api, node, namespace):
    """The rules follow the sets meanwhile, and are gone afterwards."""
    stop, path = threading.Event(), "/apis/crd.projectcalico.org/v1/globalnetworksets"

    def follow():
        seen = None
        while not stop.wait(0.5):
            found = [item["metadata"]["resourceVersion"] for item in api.list(path).items]
            if found != seen:
                enforce(fabric, api, node, namespace)
                seen = found

    enforce(fabric, api, node, namespace)
    worker = threading.Thread(target=follow)
    worker.start()
    try:
        yield
    finally:
        stop.set()
        worker.join()
        fabric.sh(node, "nft", "delete", "table", "inet", TABLE)
