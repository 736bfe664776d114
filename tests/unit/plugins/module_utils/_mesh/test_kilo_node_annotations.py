# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Kilo takes from its own Nodes: keepalive, the address it sends from, and its own annotation for an endpoint."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kilo.endpoints import with_kilo_endpoint
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kilo.node_annotations import stale_annotations
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kilo.report import report
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kilo.values import parse_node
from kilo_fabric import MESHES, SETTINGS, G, empty, entry, gathered, key_of, live, nodes, planned, reasons

KEEPALIVE, INTERNAL = G + "persistent-keepalive", G + "force-internal-ip"


def mesh(**of_us: t.Any) -> list[dict[str, t.Any]]:
    return [{"name": "m", "clusters": [entry("eu"), entry("us", **of_us), entry("ap")]}]


@pytest.mark.parametrize("of_us, seconds", [({"persistentKeepalive": 20}, "20"), ({"endpoint_policy": "roam"}, "25")])
def test_a_cluster_with_keepalive_is_notified_that_its_nodes_send_none_or_gets_it_on_its_nodes(
    of_us: t.Any, seconds: str
) -> None:
    plan = planned(nodes(), None, mesh(**of_us))
    assert plan.annotations == {}
    text = next(text for text in plan.plan.warnings if "keepalive" in text)
    assert (
        "cluster us: 2 of its nodes" in text and "kubectl annotate node us-1 us-2 " + KEEPALIVE + "=" + seconds in text
    )
    assert "clustermesh_node_keepalive" in text
    plan = planned(nodes(), None, mesh(**of_us), node_keepalive=True)
    assert (
        plan.annotations == {"us": {"us-1": {KEEPALIVE: seconds}, "us-2": {KEEPALIVE: seconds}}}
        and not plan.plan.warnings
    )


def test_a_node_that_sends_from_its_endpoint_is_reported_and_fixed_on_request() -> None:
    found = nodes()
    found["eu"][0]["annotations"][G + "internal-ip"] = "198.51.20.1/24"
    plan = planned(found)
    text = next(iter(plan.plan.warnings))
    assert (
        plan.annotations == {}
        and "kubectl annotate node eu-1 " + INTERNAL + "=-" in text
        and "clustermesh_force_internal_ip" in text
    )
    plan = planned(found, force_internal_ip=True)
    assert plan.annotations == {"eu": {"eu-1": {INTERNAL: "-"}}} and not plan.plan.warnings
    # Kilo then announces no internal address; the annotation stays desired
    found["eu"][0]["annotations"].update({G + "internal-ip": "", INTERNAL: "-"})
    assert planned(found, force_internal_ip=True).annotations == plan.annotations and not planned(found).plan.warnings
    found["eu"][0]["annotations"] = dict(nodes()["eu"][0]["annotations"], **{G + "internal-ip": "192.168.20.1/24"})
    assert not planned(found).plan.warnings


def test_only_notes_that_this_fabric_wrote_are_taken_back() -> None:
    def noted(manager: str) -> dict[str, t.Any]:
        owned = {"f:metadata": {"f:annotations": {"f:" + KEEPALIVE: {}}}}
        return {
            "metadata": {
                "annotations": {KEEPALIVE: "25"},
                "managedFields": [{"manager": manager, "operation": "Update", "fieldsV1": owned}],
            }
        }

    objects = {
        "a": noted(SETTINGS.manager),
        "b": noted("kubectl"),
        "c": {"metadata": {"annotations": {KEEPALIVE: "25"}}},
    }
    assert stale_annotations(objects, SETTINGS.manager, {}) == {"a": {KEEPALIVE: ""}}
    assert stale_annotations(objects, SETTINGS.manager, {"a": {KEEPALIVE: "25"}}) == {}


# --- Kilo's own endpoint --------------------------------------------------------------------------------------------------------


def internal_only(endpoint: str = "") -> dict[str, list[dict[str, t.Any]]]:
    found = nodes()
    for number, one in enumerate(found["us"], 1):
        one["addresses"] = one["addresses"][:1]
        one["annotations"][G + "endpoint"] = endpoint and endpoint % number
    return found


def endpoint_of(plan: t.Any) -> t.Any:
    return next(
        (write.manifest["spec"]["endpoint"] for write in plan.writes["eu"] if write.name == "m--us--us-1"), None
    )


def test_kilos_own_endpoint_is_the_last_source() -> None:
    found = internal_only("203.0.113.%d:4500")
    assert endpoint_of(planned(found)) == {"dnsOrIP": {"ip": "203.0.113.1"}, "port": 4500}
    assert endpoint_of(planned(found, kilo_endpoints="never")) is None
    found["us"][0]["addresses"].append({"type": "ExternalIP", "address": "203.0.113.99"})
    assert endpoint_of(planned(found))["dnsOrIP"] == {"ip": "203.0.113.99"}


def test_private_endpoints_of_kilo_count_on_request_only() -> None:
    found = internal_only("192.168.30.%d:51820")
    assert endpoint_of(planned(found)) is None
    plan = planned(found, kilo_endpoints="any")
    assert endpoint_of(plan)["dnsOrIP"] == {"ip": "192.168.30.1"} and not plan.isolated
    assert not [
        r
        for w in plan.writes["eu"]
        if w.name == "m--us--us-1"
        for r in w.manifest["spec"]["allowedIPs"]
        if r.startswith("192.168.30.1/")
    ]
    for bad in ("", "junk", "10.30.1.1", 5):
        assert (
            with_kilo_endpoint(parse_node({"name": "n", "annotations": {G + "endpoint": bad}}), "any").reached_at == ""
        )


def test_a_cluster_that_nobody_can_reach_fails_the_run_and_reports_what_to_write() -> None:
    plan = planned(internal_only("192.168.30.%d:51820"))
    message = plan.isolated["us"]
    assert reasons(plan) == {("us/us-1", "NodeNoEndpoint"), ("us/us-2", "NodeNoEndpoint")} and set(plan.isolated) == {
        "us"
    }
    for part in (
        "2 nodes of cluster us",
        "kubectl annotate node us-1 " + G + "clustermesh-endpoint=ADDRESS:51820",
        "clustermesh_kilo_endpoints to any",
        "192.168.30.1:51820",
        "clustermesh_endpoint_policy to roam",
    ):
        assert part in message
    assert "clustermesh_kilo_endpoints" not in planned(internal_only()).isolated["us"]
    conditions = {
        row["type"]: row
        for row in report(MESHES, gathered(nodes(), empty(), {}), SETTINGS, plan)["meshes"]["m"]["conditions"]
    }
    assert conditions["Ready"]["status"] == "False" and "us (NodeNoEndpoint)" in conditions["Ready"]["message"]
    assert conditions["Reachable"]["status"] == "True"
    assert not planned(internal_only(), live(planned(nodes()))).isolated  # what they have stays
    assert not planned(internal_only(), None, mesh(endpoint_policy="roam")).isolated


def test_a_report_is_not_ready_alongside_peers_that_differ() -> None:
    peers = live(planned(nodes()))
    peers["us"][0]["spec"] = dict(peers["us"][0]["spec"], publicKey=key_of("other"))
    del peers["eu"][0]

    def ready(listed: t.Any) -> tuple[str, str]:
        report_of = report(MESHES, gathered(nodes(), listed, {}), SETTINGS, planned(nodes(), listed))
        return next(
            (row["status"], row["message"]) for row in report_of["meshes"]["m"]["conditions"] if row["type"] == "Ready"
        )

    assert ready(peers) == ("False", "Peers that differ: 2")
    assert ready(live(planned(nodes())))[0] == "True"
