# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""network_sets between two real API servers. The audit logs say what was really read and written (decision 44)."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.runs import outages
from ansible_collections.multicluster.network.plugins.module_utils._flows.services import network_sets
from ansible_collections.multicluster.network.plugins.module_utils._plan.objects import field_manager
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from set_kinds import LABEL, namespace, path_of, pod, remove, serve, withdraw

GRANTS = {
    "aws": {"pod_cidrs": ["10.2.0.0/16", "fd00:2::/48"], "node_cidrs": "10.66.23.0/24"},
    "gcp": {"pod_cidrs": ["10.4.0.0/16", "fd00:4::/48"]},
}
FORWARDERS = {
    "forwarder-4jdm6": "10.4.1.3",
    "forwarder-6ztl4": "10.4.0.13",
    "forwarder-klxdc": "10.4.4.2",
    "forwarder-m9k27": "10.4.5.2",
    "forwarder-n6nsn": "10.4.3.3",
    "forwarder-n8vnj": "10.4.2.4",
}
NETS = ["10.4.0.13/32", "10.4.1.3/32", "10.4.2.4/32", "10.4.3.3/32", "10.4.4.2/32", "10.4.5.2/32"]
SETS = path_of("calico")
SEED = path_of("calico", "gcp-sys-log-forwarder")


@pytest.fixture(scope="module")
def gcp(server, tmp_path_factory):
    one = type(server)(tmp_path_factory.mktemp("gcp"))
    try:
        one.start()
        namespace(one.client(), "sys-log")
        for name, address in FORWARDERS.items():
            pod(one.client(), "sys-log", name, "forwarder", address)
        yield one
    finally:
        one.stop()


@pytest.fixture
def aws(server):
    serve(server.client(), "calico")
    yield server
    withdraw(server.client(), "calico")


def run(aws, gcp, check=False, **more):
    clusters = [aws.access("aws"), gcp.access("gcp")]
    return network_sets.run(
        dict({"fabric": "t", "clusters": clusters, "grants": GRANTS, "timeout": 20}, **more), check=check
    )


def names(server, kind="calico"):
    return sorted(item["metadata"]["name"] for item in server.client().list(path_of(kind)).items)


def refusals(result):
    return sorted((entry["object"], entry["reason"]) for entry in result["refused"])


#: gcp has no kind for sets here, which is a refusal of its own.
NO_SETS_IN_GCP = [("gcp", "kind_not_served")]


def test_the_seeds_forwarders(aws, gcp):
    mark = aws.mark()
    planned = run(aws, gcp, check=True)
    assert planned["plan"]["create"] == 1 and "10.4.5.2/32" in planned["diff"]["after"] and not aws.writes(mark)
    result = run(aws, gcp)
    assert result["changed"] and not result["failures"] and refusals(result) == NO_SETS_IN_GCP
    assert result["counts"] == {"aws": {"sets": 0, "addresses": 0}, "gcp": {"sets": 1, "addresses": 6}}
    assert [entry[:2] for entry in aws.writes(mark)] == [("create", SETS)]
    made = aws.client().get(SEED)
    assert made["spec"] == {"nets": NETS}
    assert made["metadata"]["labels"] == {
        "managed-by": "semaphore-policy",
        LABEL: "forwarder",
        "policy.semaphore.uw.io/namespace": "sys-log",
        "policy.semaphore.uw.io/cluster": "gcp",
    }

    # nothing changed: one LIST a kind and cluster, and nothing else (decision 47)
    mark, other = aws.mark(), gcp.mark()
    again = run(aws, gcp, target="crd.projectcalico.org/v1")
    assert not again["changed"] and again["plan"]["unchanged"] == 1
    assert aws.audit(mark) == [("list", SETS, 200), ("list", "/api/v1/pods", 200)]
    assert gcp.audit(other) == [("list", SETS, 404), ("list", "/api/v1/pods", 200)]
    # several pods of one set come and go: one write
    for number in range(20):
        pod(gcp.client(), "sys-log", f"more-{number}", "forwarder", f"10.4.9.{number}")
    remove(gcp.client(), "sys-log", "forwarder-4jdm6")
    mark = aws.mark()
    assert run(aws, gcp)["plan"]["update"] == 1 and len(aws.writes(mark)) == 1
    nets = aws.client().get(SEED)["spec"]["nets"]
    assert len(nets) == 25 and "10.4.1.3/32" not in nets and "10.4.9.19/32" in nets
    for number in range(20):
        remove(gcp.client(), "sys-log", f"more-{number}")
    pod(gcp.client(), "sys-log", "forwarder-4jdm6", "forwarder", "10.4.1.3")
    assert run(aws, gcp)["plan"]["update"] == 1 and aws.client().get(SEED)["spec"]["nets"] == NETS


def test_a_label_edit_moves_the_pod_and_hostile_pods_are_refused(aws, gcp):
    client = gcp.client()
    run(aws, gcp)
    namespace(client, "web")
    pod(client, "web", "a", "old", "10.4.7.7", more=("fd00:4::7",))
    pod(client, "web", "host", "old", "10.22.22.27", host=True)
    pod(client, "web", "done", "old", "10.4.7.8", phase="Succeeded")
    pod(client, "web", "metadata", "old", "169.254.169.254")
    pod(client, "web", "theirs", "old", "10.2.3.19")
    pod(client, "web", "upper", "Old_One", "10.4.7.9")
    namespace(client, "a-b")
    namespace(client, "a")
    pod(client, "a-b", "one", "c", "10.4.8.1")
    pod(client, "a", "two", "b-c", "10.4.8.2")
    result = run(aws, gcp)
    assert refusals(result) == sorted(
        NO_SETS_IN_GCP
        + [
            ("gcp/web/theirs", "outside_grant"),
            ("gcp/web/metadata", "special_address"),
            ("gcp/web/Old_One", "name_invalid"),
            ("gcp/a-b/c", "claimed_twice"),
        ]
    )
    assert names(aws) == ["gcp-a-b-c", "gcp-sys-log-forwarder", "gcp-web-old"]
    assert aws.client().get(path_of("calico", "gcp-web-old"))["spec"]["nets"] == ["10.4.7.7/32", "fd00:4::7/128"]
    assert aws.client().get(path_of("calico", "gcp-a-b-c"))["spec"]["nets"] == ["10.4.8.2/32"]

    client.merge_patch("/api/v1/namespaces/web/pods/a", {"metadata": {"labels": {LABEL: "new"}}}, "tests")
    mark = aws.mark()
    result = run(aws, gcp)
    assert (result["plan"]["create"], result["plan"]["delete"]) == (1, 1) and len(aws.writes(mark)) == 2
    assert names(aws) == ["gcp-a-b-c", "gcp-sys-log-forwarder", "gcp-web-new"]
    for space, one in (
        ("web", "a"),
        ("web", "host"),
        ("web", "done"),
        ("web", "metadata"),
        ("web", "theirs"),
        ("web", "upper"),
        ("a-b", "one"),
        ("a", "two"),
    ):
        remove(client, space, one)
    assert run(aws, gcp)["plan"]["delete"] == 2 and names(aws) == ["gcp-sys-log-forwarder"]


def test_unowned_sets_stay_and_upstream_ones_are_adopted_on_request(aws, gcp):
    client = aws.client()
    body = {"apiVersion": "crd.projectcalico.org/v1", "kind": "GlobalNetworkSet", "spec": {"nets": ["192.0.2.0/24"]}}
    client.create(SETS, dict(body, metadata={"name": "gcp-sys-log-forwarder", "labels": {"team": "blue"}}), "kubectl")
    client.create(SETS, dict(body, metadata={"name": "hand-made", "labels": {"role": "db"}}), "kubectl")
    mark = aws.mark()
    for adopt in (False, True):
        result = run(aws, gcp, adopt=adopt)
        assert ("GlobalNetworkSet aws/gcp-sys-log-forwarder", "not_ours") in refusals(result) and not result["changed"]
    assert aws.writes(mark) == []
    client.delete(SEED)

    labels = {
        "managed-by": "semaphore-policy",
        LABEL: "forwarder",
        "policy.semaphore.uw.io/namespace": "sys-log",
        "policy.semaphore.uw.io/cluster": "gcp",
    }
    client.create(SETS, dict(body, metadata={"name": "gcp-sys-log-forwarder", "labels": labels}), "semaphore-policy")
    stale = dict(labels, **{LABEL: "gone"})
    client.create(SETS, dict(body, metadata={"name": "gcp-sys-log-gone", "labels": stale}), "semaphore-policy")
    assert ("GlobalNetworkSet aws/gcp-sys-log-forwarder", "adoptable") in refusals(run(aws, gcp))
    assert run(aws, gcp, check=True, adopt=True)["plan"]["update"] == 1
    assert run(aws, gcp, adopt=True)["plan"]["delete"] == 1
    assert client.get(SEED)["spec"]["nets"] == NETS and names(aws) == ["gcp-sys-log-forwarder", "hand-made"]
    assert not run(aws, gcp)["changed"]

    # somebody opens an owned set: the next run closes it
    client.merge_patch(SEED, {"spec": {"nets": ["0.0.0.0/0"]}}, "kubectl-edit")
    assert run(aws, gcp)["plan"]["update"] == 1 and client.get(SEED)["spec"]["nets"] == NETS
    assert client.get(path_of("calico", "hand-made"))["spec"] == {"nets": ["192.0.2.0/24"]}


def record_of(client):
    return {
        entry["manager"] for entry in client.get(SEED)["metadata"]["managedFields"] if "f:spec" in entry["fieldsV1"]
    }


def test_an_adopted_set_is_solely_owned_and_half_adopted_ones_are_healed(aws, gcp):
    client = aws.client()
    labels = {
        "managed-by": "semaphore-policy",
        LABEL: "forwarder",
        "policy.semaphore.uw.io/namespace": "sys-log",
        "policy.semaphore.uw.io/cluster": "gcp",
    }
    body = {
        "apiVersion": "crd.projectcalico.org/v1",
        "kind": "GlobalNetworkSet",
        "spec": {"nets": NETS},
        "metadata": {"name": "gcp-sys-log-forwarder", "labels": labels},
    }
    client.create(SETS, body, "semaphore-policy")
    mark = aws.mark()
    assert not run(aws, gcp)["changed"] and aws.writes(mark) == [], "without adopt nothing is written into it"
    assert run(aws, gcp, check=True, adopt=True)["plan"]["update"] == 1
    assert run(aws, gcp, adopt=True)["plan"]["update"] == 1 and record_of(client) == {"multicluster.network/t"}
    mark = aws.mark()
    assert not run(aws, gcp)["changed"] and not run(aws, gcp, adopt=True)["changed"] and aws.writes(mark) == []

    client.apply(SEED, body, "semaphore-policy")
    assert len(record_of(client)) == 2
    assert run(aws, gcp)["plan"]["update"] == 1 and record_of(client) == {"multicluster.network/t"}
    mark = aws.mark()
    assert not run(aws, gcp)["changed"] and aws.writes(mark) == []

    for edit in ({"nets": NETS + ["0.0.0.0/0"]}, {"nets": []}, {"nets": None}):
        client.merge_patch(SEED, {"spec": edit}, "kubectl-edit")
        assert run(aws, gcp)["plan"]["update"] == 1 and client.get(SEED)["spec"] == {"nets": NETS}
        assert record_of(client) == {"multicluster.network/t"}
    mark = aws.mark()
    assert not run(aws, gcp)["changed"] and aws.writes(mark) == []


def test_nothing_is_deleted_on_a_list_that_failed_or_came_empty(aws, gcp):
    run(aws, gcp)
    mark = aws.mark()
    dead = {"name": "gcp", "api_url": "https://127.0.0.1:1", "token": "x"}
    reader = gcp.access("gcp", token="no-token-of-anybody")
    for access in (dead, reader):
        result = network_sets.run(
            {"fabric": "t", "clusters": [aws.access("aws"), access], "grants": GRANTS, "timeout": 5}
        )
        assert (
            not result["changed"]
            and {f["cluster"] for f in result["failures"]} == {"gcp"}
            and "gcp" not in result["counts"]
        )
    for name in FORWARDERS:
        gcp.client().merge_patch(
            "/api/v1/namespaces/sys-log/pods/" + name, {"metadata": {"labels": {LABEL: None}}}, "tests"
        )
    result = run(aws, gcp)
    assert refusals(result) == sorted(NO_SETS_IN_GCP + [("aws/gcp", "delete_budget")]) and aws.writes(mark) == []
    assert "confirm_empty" in next(
        entry["message"] for entry in result["refused"] if entry["reason"] == "delete_budget"
    )
    assert run(aws, gcp, confirm_empty=["gcp"])["plan"]["delete"] == 1 and names(aws) == []
    for name in FORWARDERS:
        gcp.client().merge_patch(
            "/api/v1/namespaces/sys-log/pods/" + name, {"metadata": {"labels": {LABEL: "forwarder"}}}, "tests"
        )


def test_sets_of_a_source_that_does_not_answer(aws, gcp, monkeypatch):
    run(aws, gcp)
    dead = {
        "fabric": "t",
        "grants": GRANTS,
        "timeout": 5,
        "on_unreachable": "empty",
        "clusters": [aws.access("aws"), {"name": "gcp", "api_url": "https://127.0.0.1:1", "token": "x"}],
    }
    mark = aws.mark()
    refused = dict(dead, clusters=[aws.access("aws"), gcp.access("gcp", token="no-token-of-anybody")])
    for request in (dict(dead, on_unreachable="keep"), refused):
        assert not network_sets.run(request)["changed"] and aws.writes(mark) == []
    assert network_sets.run(dead, check=True)["plan"]["update"] == 1 and aws.writes(mark) == []
    assert network_sets.run(dead)["plan"]["update"] == 1 and aws.client().get(SEED)["spec"]["nets"] == []
    assert not network_sets.run(dead)["changed"]
    assert (
        run(aws, gcp, on_unreachable="empty")["plan"]["update"] == 1 and aws.client().get(SEED)["spec"]["nets"] == NETS
    )

    now = [2000000000]
    monkeypatch.setattr(outages.time, "time", lambda: now[0])
    record = "/api/v1/namespaces/kube-system/configmaps/network-sets-outages-t"
    dead["unreachable_grace"] = 300
    assert network_sets.run(dead)["plan"]["create"] == 1 and aws.client().get(record)["data"] == {"gcp": "2000000000"}
    now[0] += 299
    assert not network_sets.run(dead)["changed"] and aws.client().get(SEED)["spec"]["nets"] == NETS
    now[0] += 1
    assert network_sets.run(dead)["plan"]["update"] == 1 and aws.client().get(SEED)["spec"]["nets"] == []
    result = run(aws, gcp, on_unreachable="empty", unreachable_grace=300)
    assert (result["plan"]["update"], result["plan"]["delete"]) == (1, 1) and aws.client().get(SEED)["spec"][
        "nets"
    ] == NETS


def test_more_deletions_than_allowed_stop_before_the_first(aws, gcp):
    client = gcp.client()
    for number in range(8):
        pod(client, "sys-log", f"p{number}", f"s{number}", f"10.4.6.{number}")
    assert run(aws, gcp)["plan"]["create"] == 9
    for number in range(8):
        remove(client, "sys-log", f"p{number}")
    mark = aws.mark()
    assert ("aws/gcp", "delete_budget") in refusals(run(aws, gcp)) and aws.writes(mark) == []
    assert run(aws, gcp, max_deletes=8)["plan"]["delete"] == 8

    # gcp leaves the inventory: its sets stay, are named, and go on request
    alone = {"fabric": "t", "clusters": [aws.access("aws")], "grants": {"aws": GRANTS["aws"]}, "timeout": 20}
    result = network_sets.run(alone)
    assert not result["changed"] and "gcp" in result["warnings"][0]
    gone = dict(alone, state="absent", sources=["gcp"])
    assert network_sets.run(gone, check=True)["plan"]["delete"] == 1
    assert network_sets.run(gone)["plan"]["delete"] == 1 and names(aws) == []
    assert not network_sets.run(gone)["changed"]


def test_released_sets_stay_as_they_are_and_are_no_longer_owned(aws, gcp):
    run(aws, gcp)
    before = aws.client().get(SEED)
    assert run(aws, gcp, state="released", check=True)["plan"]["update"] == 1
    mark = aws.mark()
    assert run(aws, gcp, state="released")["plan"]["update"] == 1 and aws.writes(mark) == [("patch", SEED, 200)]
    after = aws.client().get(SEED)
    assert (after["spec"], after["metadata"]["labels"]) == (before["spec"], before["metadata"]["labels"])
    assert not run(aws, gcp, state="released")["changed"]
    assert not run(aws, gcp, state="absent")["changed"] and names(aws) == ["gcp-sys-log-forwarder"]
    assert run(aws, gcp, state="absent", adopt=True, sources=["gcp"])["plan"]["delete"] == 1


@pytest.mark.parametrize("kind,target", [("calico_v3", "auto"), ("cilium", "auto"), ("cilium", "cilium")])
def test_other_targets(server, gcp, kind, target):
    client = server.client()
    serve(client, kind)
    try:
        assert run(server, gcp, target=target)["plan"]["create"] == 1
        made = client.get(path_of(kind, "gcp-sys-log-forwarder"))
        assert list(made["spec"].values()) == [NETS]
        mark = server.mark()
        assert not run(server, gcp, target=target)["changed"] and server.writes(mark) == []
        assert run(server, gcp, target=target, state="absent")["plan"]["delete"] == 1 and names(server, kind) == []
    finally:
        withdraw(client, kind)


def test_options_that_make_no_sense():
    request = {
        "fabric": "t",
        "clusters": [{"name": "aws", "api_url": "https://127.0.0.1:1", "token": "x"}],
        "timeout": 1,
    }
    for more, reason in (
        ({"grants": {"aws": {"pod_cidrs": ["10.0.0.0/33"]}}}, "pod_subnet_invalid"),
        ({"grants": {"aws": {}}}, "pod_subnet_missing"),
        ({"grants": {"aws": {"pod_cidrs": "10.2.0.0/16"}, "b": {"pod_cidrs": "10.2.3.0/24"}}}, "pod_subnet_overlap"),
        ({"grants": {"A_": {"pod_cidrs": "10.2.0.0/16"}}}, "cluster_name_not_dns_label"),
        ({"sources": ["gcp"]}, "unknown_cluster"),
        ({"targets": ["gcp"]}, "unknown_cluster"),
    ):
        with pytest.raises(ValueRefused) as raised:
            network_sets.run(dict(request, **more))
        assert raised.value.reason == reason
    assert field_manager("t") == "multicluster.network/t"
