# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who owns what differs, and since when."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._status import drift, earlier_runs
from ansible_collections.multicluster.network.plugins.module_utils._values import packed
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

US = "multicluster.network/default"
KEY = "ZIaHH+/lKD6Qd4cGGQnQcBWBKkasTnRUJ7m30oCgcAA="
NODE = {
    "devices": [
        {
            "name": "wireguard.gcp",
            "alias": "multicluster.network/default",
            "peers": [{"public_key": KEY, "allowed_ips": ["10.4.7.0/24"]}],
        }
    ],
    "routes": [
        {"table": 254, "dst": "10.4.0.0/16", "type": "unicast", "dev": "eth0", "protocol": 4},
        {"table": 254, "dst": "10.9.0.0/16", "type": "unicast", "dev": "wireguard.gcp", "protocol": 109},
    ],
    "rules": [{"version": 4, "priority": 32500, "table": 180, "protocol": 3}],
    "tables": [
        {"family": "inet", "name": "talos_kubespan", "owner": US, "owned": True},
        {"family": "ip", "name": "kube-proxy", "owner": None, "owned": False},
    ],
}


def blamed(kind, ident, action="update", names=None, node=None):
    plan = {"plan": {"changes": [{"kind": kind, "id": ident, "action": action, "fields": ["allowed_ips"]}]}}
    return drift.node_entries("aws-node-1", plan, NODE if node is None else node, names or {})[0]


@pytest.mark.parametrize(
    "kind,ident,action,owner",
    [
        ("peer", "wireguard.gcp " + KEY, "update", "the key of gcp/gcp-node-1"),
        ("peer", "wireguard.gcp OTHER", "create", "nobody"),
        (
            "route",
            "10.4.0.0/16 dev wireguard.gcp table main",
            "create",
            "protocol 4, static (an administrator or network manager)",
        ),
        ("route", "10.9.0.0/16 dev wireguard.gcp table main", "delete", "protocol 109, multicluster.network"),
        ("route", "10.5.0.0/16 dev wireguard.gcp table main", "create", "nobody"),
        (
            "rule",
            "32500: from all fwmark 0x40/0x60 lookup 180 (IPv4)",
            "create",
            "protocol 3, boot (a command or script)",
        ),
        ("rule", "32500: from all fwmark 0x40/0x60 lookup 180 (IPv6)", "create", "nobody"),
        (
            "rule",
            "IPv4 32500:\tfrom all fwmark 0x40/0x60 lookup 180 proto static",
            "create",
            "protocol 3, boot (a command or script)",
        ),
        ("nftables set", "inet talos_kubespan kubespan_targets_ipv4", "update", US),
        ("nftables table", "ip kube-proxy", "update", "kube-proxy"),
        ("nftables table", "inet gone", "create", "nobody"),
        ("link", "wireguard.gcp", "update", "multicluster.network/default"),
        ("link", "wireguard.aws", "create", "nobody"),
        ("file", "/etc/systemd/system/x.service", "create", "nobody"),
    ],
)
def test_things_of_a_kernel(kind, ident, action, owner):
    assert blamed(kind, ident, action, {KEY: ("gcp", "gcp-node-1")})["owner"] == owner


def test_a_key_of_nobody_is_named():
    assert KEY in blamed("peer", "wireguard.gcp " + KEY, "delete")["owner"]


def test_a_node_that_did_not_answer_has_nothing_to_blame():
    assert blamed("peer", "wireguard.gcp " + KEY, node={})["owner"] == "nobody"


def fields(**tree):
    return {"f:" + name: inner for name, inner in tree.items()}


def managed(*rows):
    return {
        "metadata": {
            "managedFields": [
                {
                    "manager": manager,
                    "operation": operation,
                    "time": time,
                    "fieldsV1": tree,
                    **({"subresource": sub} if sub else {}),
                }
                for manager, operation, time, tree, sub in rows
            ]
        }
    }


def change(action="update", kind="Service", names=("spec",)):
    return {"kind": kind, "id": "gcp/ns/x", "action": action, "fields": list(names)}


def test_the_last_writer_of_the_field_is_blamed():
    obj = managed(
        (US, "Apply", "2026-01-05T00:00:00Z", fields(spec={}), None),
        ("kubectl-edit", "Update", "2026-01-03T00:00:00Z", fields(spec={"f:ports": {}}), None),
        ("older", "Update", "2026-01-02T00:00:00Z", fields(spec={}), None),
        ("label-writer", "Update", "2026-01-04T00:00:00Z", fields(metadata={"f:labels": {"f:x": {}}}), None),
        ("status-writer", "Update", "2026-01-06T00:00:00Z", fields(spec={}), "status"),
    )
    assert drift.blame_object(obj, change(), US) == ("kubectl-edit", "2026-01-03T00:00:00Z", "by Update")
    assert drift.blame_object(obj, change(names=("metadata",)), US)[0] == "label-writer"


def test_a_field_that_was_removed_has_no_owner():
    obj = managed(
        ("eraser", "Update", "2026-01-03T00:00:00Z", fields(metadata={"f:annotations": {"f:note": {}}}), None)
    )
    owner, since, note = drift.blame_object(obj, change(), US)
    assert (owner, since) == (None, None) and "eraser" in note


def test_a_field_is_found_below_the_top():
    obj = managed(("intruder", "Update", "2026-01-03T00:00:00Z", fields(data={"f:Corefile": {}}), None))
    assert drift.blame_object(obj, change(kind="ConfigMap", names=("Corefile",)), US)[0] == "intruder"
    assert drift.blame_object(obj, change(kind="ConfigMap", names=("Other",)), US)[0] is None


@pytest.mark.parametrize(
    "unit,shown",
    [
        (
            {
                "name": "multicluster-network-default-watch.service",
                "active": "inactive",
                "enabled": "enabled",
                "result": "success",
            },
            True,
        ),
        ({"name": "multicluster-network-default-watch.service", "active": "active", "enabled": "enabled"}, False),
        ({"name": "multicluster-network-default.service", "active": "inactive", "enabled": "enabled"}, False),
        (
            {
                "name": "multicluster-network-default.service",
                "active": "failed",
                "enabled": "enabled",
                "result": "exit-code",
            },
            True,
        ),
    ],
)
def test_units_that_should_run(unit, shown):
    assert bool(drift.unit_entries("h", {"units": [unit]})) == shown


def test_a_unit_that_the_next_run_starts_is_shown_once():
    name = "multicluster-network-default-watch.service"
    node = {"units": [{"name": name, "active": "inactive", "enabled": "enabled", "result": "success"}]}
    result = {"plan": {"changes": [{"kind": "unit", "id": name, "action": "update", "fields": ["active"]}]}}
    rows = drift.node_entries("h", result, node, {}) + drift.unit_entries("h", node, drift.planned_changes(result))
    assert [(row["name"], row["owner"], row["note"]) for row in rows] == [(name, "systemd", "inactive, result success")]


def test_an_object_that_is_gone_is_nobodys():
    assert drift.blame_object(None, change("create"), US)[0] is None


def test_of_a_node_only_the_meshs_annotations_count():
    obj = managed(
        (
            "kubelet",
            "Update",
            "2026-01-09T00:00:00Z",
            fields(metadata={"f:annotations": {"f:volumes.kubernetes.io/x": {}}}),
            None,
        ),
        (
            "kubectl-annotate",
            "Update",
            "2026-01-03T00:00:00Z",
            fields(metadata={"f:annotations": {"f:gcp.wireguard.semaphore.uw.io/pubKey": {}}}),
            None,
        ),
    )
    found = drift.blame_object(
        obj, change(kind="node", names=("annotations",)), US, ["*.wireguard.semaphore.uw.io/pubKey"]
    )
    assert found[0] == "kubectl-annotate"


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"metadata": None},
        {"metadata": {"managedFields": "x"}},
        {"metadata": {"managedFields": [1, {"fieldsV1": 3, "manager": None}]}},
    ],
)
def test_broken_records_blame_nobody(broken):
    assert drift.blame_object(broken, change(), US)[0] is None


def test_what_was_not_looked_up_is_said():
    rows = drift.object_entries({"x": {"plan": {"changes": [change()]}}}, {}, US)
    assert rows[0]["note"] == "its owner was not looked up" and (rows[0]["where"], rows[0]["name"]) == ("gcp", "ns/x")


def row(name):
    return drift.entry("gcp", {"kind": "Service", "id": name, "action": "update", "fields": ["spec"]}, None, None)


def test_runs_are_compared():
    first, since = earlier_runs.compare_runs([row("a")], None, "T1")
    assert (
        since == {"previous": None, "new": [], "gone": []}
        and first[0]["first_seen"] == "T1"
        and first[0]["last_good"] is None
    )
    second, since = earlier_runs.compare_runs([row("a"), row("b")], {"generated": "T1", "drift": first}, "T2")
    assert [(r["name"], r["first_seen"], r["last_good"]) for r in second] == [("a", "T1", None), ("b", "T2", "T1")]
    assert [r["name"] for r in since["new"]] == ["b"] and since["previous"] == "T1"
    third, since = earlier_runs.compare_runs([], {"generated": "T2", "drift": second}, "T3")
    assert third == [] and [r["name"] for r in since["gone"]] == ["a", "b"]


@pytest.mark.parametrize("previous", [None, [], "x", {}, {"drift": 3}, {"drift": ["x", 1]}])
def test_a_document_that_is_none_is_no_earlier_run(previous):
    rows, since = earlier_runs.compare_runs([row("a")], previous, "T1")
    assert rows[0]["first_seen"] == "T1" and not since["new"] and not since["gone"] or previous == {"drift": ["x", 1]}


@pytest.mark.parametrize("value", [{}, {"nodes": {"ä": [1, None, True, "\u0000"]}, "mesh": {}}, [1.5]])
def test_packed_facts_come_back_as_they_were(value):
    assert packed.unpack(packed.pack(value)) == value


@pytest.mark.parametrize("text", ["", "x", "AAAA", packed.pack({"a": 1})[:-8], packed.pack({"a": 1}) + "!"])
def test_what_is_not_packed_is_refused(text):
    with pytest.raises(ValueRefused) as caught:
        packed.unpack(text)
    assert caught.value.reason == "bad_type"
