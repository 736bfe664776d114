# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The whole life of network sets that semaphore-policy made: taken over, changed in every way, and given back.

``original`` as in mirror_life. Upstream lists addresses in the order in which it heard of them, which means nothing; here they are compared
as sets.
"""

from __future__ import annotations

from ansible_collections.multicluster.network.plugins.module_utils._flows.services import network_sets
from recorded import content
from set_kinds import LABEL, namespace, path_of, pod, remove

US = "multicluster.network/t"
GRANTS = {
    "aws": {"pod_cidrs": ["10.2.0.0/16"], "node_cidrs": ["10.66.23.0/24"]},
    "gcp": {"pod_cidrs": ["10.4.0.0/16"], "node_cidrs": ["10.22.22.0/24"]},
}
KIND = "calico_v3"
PODS = {
    ("sys-log", "forwarder-1"): ("forwarder", "10.4.1.3"),
    ("sys-log", "forwarder-2"): ("forwarder", "10.4.0.13"),
    ("shop", "cart"): ("cart", "10.4.2.4"),
}


def run(aws, gcp, **more):
    request = {
        "fabric": "t",
        "clusters": [aws.access("aws"), gcp.access("gcp")],
        "grants": GRANTS,
        "sources": ["gcp"],
        "timeout": 20,
    }
    return network_sets.run(dict(request, **more))


def sets(aws):
    """Every set, as the server has it."""
    return [
        dict(obj, apiVersion="projectcalico.org/v3", kind="GlobalNetworkSet")
        for obj in aws.client().list(path_of(KIND)).items
    ]


def said(objects):
    """What the sets say; addresses sorted."""
    found = {}
    for obj in map(content, objects):
        obj["spec"]["nets"] = sorted(obj["spec"]["nets"])
        found[obj["metadata"]["name"]] = obj
    return found


def nets(aws, name="gcp-sys-log-forwarder"):
    return said(sets(aws))[name]["spec"]["nets"]


def managers(obj):
    return {entry["manager"] for entry in obj["metadata"].get("managedFields") or []}


def refused(result):
    """Refusals but the one that gcp has no kind for sets of its own here."""
    return [row for row in result["refused"] if row["reason"] != "kind_not_served"]


def put_pods(gcp) -> None:
    for space in ("sys-log", "shop"):
        namespace(gcp.client(), space)
    for (space, name), (value, address) in PODS.items():
        pod(gcp.client(), space, name, value, address)


def take_pods(gcp) -> None:
    """Every labelled pod goes."""
    for obj in gcp.client().list("/api/v1/pods", label_selector=LABEL).items:
        remove(gcp.client(), obj["metadata"]["namespace"], obj["metadata"]["name"])


def settle(aws, gcp, **more):
    """A run that changes something; then one that writes nothing."""
    result = run(aws, gcp, **more)
    assert result["changed"] and not result["failures"] and not refused(result), result
    nothing_to_do(aws, gcp)
    assert all(managers(obj) == {US} for obj in sets(aws))
    return result


def nothing_to_do(aws, gcp, **more) -> None:
    marks = aws.mark(), gcp.mark()
    result = run(aws, gcp, **more)
    assert not result["changed"] and aws.writes(marks[0]) == [] and gcp.writes(marks[1]) == []


def live(aws, gcp, original) -> None:
    """From upstream to us, every later change, and back."""
    put_pods(gcp)
    original.begin()
    before = said(sets(aws))
    assert {name: obj["spec"]["nets"] for name, obj in before.items()} == {
        "gcp-sys-log-forwarder": ["10.4.0.13/32", "10.4.1.3/32"],
        "gcp-shop-cart": ["10.4.2.4/32"],
    }
    left_alone(aws, gcp)
    assert settle(aws, gcp, adopt=True)["plan"]["update"] == 2
    assert said(sets(aws)) == before, "taking over has changed what the sets say"
    changes(aws, gcp)
    before = said(sets(aws))
    assert run(aws, gcp, state="released")["plan"]["update"] == len(before)
    assert said(sets(aws)) == before and not any(US in managers(obj) for obj in sets(aws))
    nothing_to_do(aws, gcp, state="released")
    original.again()
    assert said(sets(aws)) == before, "upstream found something to change"
    left_alone(aws, gcp)


def left_alone(aws, gcp) -> None:
    """Without being asked nothing of another program's is written; a set that would have to change is said."""
    nothing_to_do(aws, gcp)
    pod(gcp.client(), "sys-log", "more", "forwarder", "10.4.7.7")
    mark = aws.mark()
    result = run(aws, gcp)
    assert (
        [row["reason"] for row in refused(result)] == ["adoptable"] and not result["changed"] and aws.writes(mark) == []
    )
    remove(gcp.client(), "sys-log", "more")


def changes(aws, gcp) -> None:
    """Pods of a set come, change their address, go; sets come and go with them."""
    client = gcp.client()
    pod(client, "sys-log", "forwarder-3", "forwarder", "10.4.4.2")
    settle(aws, gcp)
    assert nets(aws) == ["10.4.0.13/32", "10.4.1.3/32", "10.4.4.2/32"]
    remove(client, "sys-log", "forwarder-1")
    settle(aws, gcp)
    assert nets(aws) == ["10.4.0.13/32", "10.4.4.2/32"]
    client.merge_patch(
        "/api/v1/namespaces/sys-log/pods/forwarder-2/status",
        {"status": {"podIP": "10.4.0.14", "podIPs": [{"ip": "10.4.0.14"}]}},
        "kubelet",
    )
    settle(aws, gcp)
    assert nets(aws) == ["10.4.0.14/32", "10.4.4.2/32"]
    pod(client, "shop", "pay", "pay", "10.4.6.1")
    settle(aws, gcp)
    assert nets(aws, "gcp-shop-pay") == ["10.4.6.1/32"]
    remove(client, "shop", "cart")
    settle(aws, gcp)
    assert set(said(sets(aws))) == {"gcp-sys-log-forwarder", "gcp-shop-pay"}
