# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses of Services from a pool, over a real API server. Its audit log shows what was really written (decision 44)."""

from __future__ import annotations

import base64
import contextlib
import json

import pytest
from ansible_collections.multicluster.network.plugins.filter.cloud_config import cloud_config
from ansible_collections.multicluster.network.plugins.module_utils._flows.access import cluster_objects
from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers import (
    converge as load_balancers,
    read as load_balancers_read,
)

NAMESPACE = "lb-test"
SERVICES = f"/api/v1/namespaces/{NAMESPACE}/services"
LEDGER = "/api/v1/namespaces/kube-system/configmaps/metal-ccm-static-pool"

FAMILIES = {"both": ["IPv4", "IPv6"], "six": ["IPv6"], "six-first": ["IPv6", "IPv4"], "third": ["IPv6"]}


def make_service(client, name, address=None, kind="LoadBalancer", port=80, **annotations):
    spec = {"type": kind, "ports": [{"port": port, "protocol": "TCP"}], "selector": {"app": name}}
    if address:
        spec["loadBalancerIP"] = address
    meta = {
        "name": name,
        "annotations": {key.replace("__", "/").replace("_", "."): value for key, value in annotations.items()},
    }
    return client.create(SERVICES, {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}, "kubectl")


def get(client, name):
    return client.get(SERVICES + "/" + name)


def ledger(client):
    found = client.list(
        "/api/v1/namespaces/kube-system/configmaps", field_selector="metadata.name=metal-ccm-static-pool"
    ).items
    return {key: json.loads(text) for item in found for key, text in (item.get("data") or {}).items()}


@pytest.fixture
def api(server):
    client = server.client()
    with contextlib.suppress(Exception):  # it is there from the test before
        client.create(
            "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, "kubectl"
        )
    yield client
    for item in client.list(SERVICES).items:
        client.delete(SERVICES + "/" + item["metadata"]["name"])
    client.delete(LEDGER)
    for item in client.list("/api/v1/nodes").items:
        client.delete("/api/v1/nodes/" + item["metadata"]["name"])


def request_for(server, more=None, **settings):
    given = dict(
        {"cluster": "aws", "load_balancer": "empty://", "pool": ["203.0.113.0/29"], "gc_orphans": True}, **settings
    )
    return dict({"fabric": "t", "clusters": [server.access()], "settings": [given], "timeout": 20}, **(more or {}))


def row_of(result, name):
    return next(
        item for item in result["load_balancers"]["aws"]["services"] if item["service"] == NAMESPACE + "/" + name
    )


def reasons(result):
    return {(entry["object"], entry["reason"]) for entry in result["refused"]}


def test_an_address_of_the_pool_and_back(server, api):
    make_service(api, "web")
    make_service(api, "db")
    make_service(api, "inside", kind="ClusterIP")
    mark = server.mark()
    result = load_balancers.run(request_for(server), check=True)
    assert server.writes(mark) == [] and not result["failures"] and not result["refused"]
    assert result["load_balancers"]["aws"]["services"][0]["address"] == "203.0.113.0"
    assert result["plan"]["create"] == 2 and "203.0.113.1" in result["diff"]["after"]

    result = load_balancers.run(request_for(server))
    assert not result["failures"] and not result["refused"]
    assert {name: get(api, name)["spec"].get("loadBalancerIP") for name in ("web", "db", "inside")} == {
        "db": "203.0.113.0",
        "web": "203.0.113.1",
        "inside": None,
    }
    assert [row["ip"] for row in get(api, "web")["status"]["loadBalancer"]["ingress"]] == ["203.0.113.1"]
    assert row_of(result, "web")["ready"] and row_of(result, "web")["state"] == "Mapped"
    assert result["load_balancers"]["aws"]["announce"] == ["203.0.113.0/32", "203.0.113.1/32"]
    assert ledger(api)["203.0.113.1"]["service"] == NAMESPACE + "/web"

    mark = server.mark()
    result = load_balancers.run(request_for(server))
    assert not result["changed"] and server.writes(mark) == [] and row_of(result, "db")["ready"]
    assert result["stats"]["requests"]["aws"] == {"get": 1, "list": 3}

    api.delete(SERVICES + "/db")
    result = load_balancers.run(request_for(server))
    assert [change["kind"] for change in result["plan"]["changes"]] == ["Reservation"] and list(ledger(api)) == [
        "203.0.113.1"
    ]
    assert result["load_balancers"]["aws"]["announce"] == ["203.0.113.1/32"]

    result = load_balancers.run(request_for(server, {"state": "absent"}))
    assert result["changed"] and ledger(api) == {} and "loadBalancerIP" not in get(api, "web")["spec"]
    assert not get(api, "web")["status"]["loadBalancer"]
    mark = server.mark()
    result = load_balancers.run(request_for(server, {"state": "absent"}))
    assert not result["changed"] and server.writes(mark) == []


def test_claims_of_service_authors(server, api):
    make_service(api, "web")
    load_balancers.run(request_for(server))
    make_service(api, "thief", "203.0.113.0")
    make_service(api, "by-annotation", metallb_io__loadBalancerIPs="203.0.113.0")
    make_service(api, "metadata", "169.254.169.254")
    make_service(api, "own", "203.0.113.1")
    make_service(api, "plain")
    result = load_balancers.run(request_for(server))
    assert reasons(result) == {
        ("service aws/lb-test/thief", "claimed_twice"),
        ("service aws/lb-test/metadata", "special_address"),
        ("service aws/lb-test/by-annotation", "claimed_twice"),
    }
    # an address that its owner wrote is in use, although it is in the pool and nobody reserved it
    assert (
        get(api, "plain")["spec"]["loadBalancerIP"] == "203.0.113.2"
        and "loadBalancerIP" not in get(api, "by-annotation")["spec"]
    )
    assert (
        get(api, "own")["spec"]["loadBalancerIP"] == "203.0.113.1"
        and get(api, "web")["spec"]["loadBalancerIP"] == "203.0.113.0"
    )
    assert "203.0.113.1" not in ledger(api)


def report(client, name, *ingress):
    """As another controller does."""
    client.merge_patch(
        SERVICES + "/" + name + "/status", {"status": {"loadBalancer": {"ingress": list(ingress)}}}, "other-controller"
    )


def test_an_address_in_use_stays_whoever_wrote_it(server, api):
    make_service(api, "web")
    load_balancers.run(request_for(server))
    api.merge_patch(SERVICES + "/web", {"spec": {"loadBalancerIP": "203.0.113.5"}}, "kubectl-edit")
    result = load_balancers.run(request_for(server))
    assert get(api, "web")["spec"]["loadBalancerIP"] == "203.0.113.5"
    assert any("which stays" in text for text in result["warnings"]) and "203.0.113.0" in ledger(api)
    # also when its owner takes it out of the field: it is announced and reported, so it is in use
    api.merge_patch(SERVICES + "/web", {"spec": {"loadBalancerIP": None}}, "kubectl-edit")
    result = load_balancers.run(request_for(server))
    assert get(api, "web")["spec"]["loadBalancerIP"] == "203.0.113.5" and result["load_balancers"]["aws"][
        "announce"
    ] == ["203.0.113.5/32"]
    load_balancers.run(request_for(server, {"renumber": ["203.0.113.5/32"]}))
    assert get(api, "web")["spec"]["loadBalancerIP"] == "203.0.113.0"
    assert [row["ip"] for row in get(api, "web")["status"]["loadBalancer"]["ingress"]] == ["203.0.113.0"]
    mark = server.mark()
    assert (
        not load_balancers.run(request_for(server, {"renumber": ["203.0.113.0/24"]}))["changed"]
        and server.writes(mark) == []
    )


def test_an_address_that_is_in_the_status_only(server, api):
    """MetalLB and Cilium give addresses so. Adopted where that is asked for and the pool has it, else left; in every back end."""
    live = {"pool": "203.0.113.3", "elsewhere": "198.51.100.9", "shared-1": "203.0.113.6", "shared-2": "203.0.113.6"}
    for name, address in live.items():
        make_service(
            api,
            name,
            **({"metallb_io__allow-shared-ip": "k", "port": int(name[-1])} if name.startswith("shared") else {}),
        )
        report(api, name, {"ip": address})
    make_service(api, "two")
    report(api, "two", {"ip": "203.0.113.4"}, {"ip": "2001:db8::4"})
    make_service(api, "named")
    report(api, "named", {"hostname": "lb.example.org"})
    before = {name: get(api, name) for name in (*live, "two", "named")}
    for balancer in ("empty://", "kube-vip://", "metallb:///lb-test/config"):
        for check in (True, False):
            mark = server.mark()
            result = load_balancers.run(request_for(server, load_balancer=balancer), check=check)
            assert (
                {name: get(api, name) for name in before} == before
                and server.writes(mark) == []
                and not result["changed"]
            )
            assert reasons(result) == {
                ("service aws/lb-test/" + name, reason)
                for name, reason in (
                    ("pool", "adoptable"),
                    ("shared-1", "adoptable"),
                    ("shared-2", "adoptable"),
                    ("elsewhere", "outside_grant"),
                    ("two", "outside_grant"),
                    ("named", "outside_grant"),
                )
            }
            assert result["load_balancers"]["aws"]["announce"] == []
    result = load_balancers.run(request_for(server, {"adopt": True}))
    assert reasons(result) == {
        ("service aws/lb-test/" + name, "outside_grant") for name in ("elsewhere", "two", "named")
    }
    for name, address in live.items():
        desired = None if name == "elsewhere" else address
        assert (
            get(api, name)["spec"].get("loadBalancerIP") == desired
            and get(api, name)["status"] == before[name]["status"]
        )
    assert get(api, "two") == before["two"] and get(api, "named") == before["named"]
    assert {entry["service"]: entry["address"] for entry in ledger(api).values()} == {
        "lb-test/pool": "203.0.113.3",
        "lb-test/shared-1": "203.0.113.6",
    }
    assert result["load_balancers"]["aws"]["announce"] == ["203.0.113.3/32", "203.0.113.6/32"]
    mark = server.mark()
    assert not load_balancers.run(request_for(server))["changed"] and server.writes(mark) == []
    # and only the wish to renumber gives one up
    result = load_balancers.run(request_for(server, {"renumber": ["True"]}))
    assert reasons(result) == {("service aws/lb-test/two", "adoptable")}  # it holds an address of the pool, which stays
    assert (
        get(api, "elsewhere")["spec"]["loadBalancerIP"] == "203.0.113.0"
        and get(api, "pool")["spec"]["loadBalancerIP"] == "203.0.113.3"
    )
    assert [row["ip"] for row in get(api, "elsewhere")["status"]["loadBalancer"]["ingress"]] == ["203.0.113.0"]


def test_an_address_that_no_router_receives(server, api):
    make_service(api, "web")
    for check in (True, False):
        result = load_balancers.run(request_for(server, bgp_speakers=[]), check=check)
        (row,) = result["load_balancers"]["aws"]["unannounced"]
        assert (row["service"], row["address"]) == ("lb-test/web", "203.0.113.0") and "bgp_speaker_neighbors" in row[
            "reason"
        ]
        assert any(text.startswith("aws: nobody announces 203.0.113.0 (lb-test/web): ") for text in result["warnings"])
    for more in ({"bgp_speakers": ["n1"]}, {"bgp_speakers": [], "announced_by": "other"}, {"bgp_speakers": None}):
        result = load_balancers.run(request_for(server, **more))
        assert result["load_balancers"]["aws"]["unannounced"] == [] and not [
            text for text in result["warnings"] if "nobody announces" in text
        ]
    # what kube-vip serves it reports
    result = load_balancers.run(request_for(server, load_balancer="kube-vip://"))
    assert result["load_balancers"]["aws"]["unannounced"] == []
    report(api, "web")
    (row,) = load_balancers.run(request_for(server, load_balancer="kube-vip://"))["load_balancers"]["aws"][
        "unannounced"
    ]
    assert "is kube-vip running" in row["reason"]


def test_the_pool_ends_and_the_others_go_on(server, api):
    for name in ("a", "b", "c"):
        make_service(api, name)
    result = load_balancers.run(request_for(server, pool=["203.0.113.0/31"]))
    assert reasons(result) == {("service aws/lb-test/c", "quota")} and len(ledger(api)) == 2
    mark = server.mark()
    for check in (True, False):
        result = load_balancers.run(request_for(server, pool=["203.0.113.0/31"]), check=check)
        assert not result["changed"] and result["refused"] and server.writes(mark) == []
    result = load_balancers.run(request_for(server, pool=["203.0.113.0/31", "198.51.100.1-198.51.100.9"]))
    assert not result["refused"] and get(api, "c")["spec"]["loadBalancerIP"] == "198.51.100.1"


def test_services_of_ipv6(server, api, monkeypatch):
    """This API server has no IPv6 to give Services, so its statement about their families is made up; the rest is not."""
    known = load_balancers_read.service_of
    monkeypatch.setattr(
        load_balancers_read,
        "service_of",
        lambda obj: (
            known(dict(obj, spec=dict(obj["spec"], ipFamilies=FAMILIES[obj["metadata"]["name"]])))
            if obj["metadata"]["name"] in FAMILIES
            else known(obj)
        ),
    )
    for name in FAMILIES:
        make_service(api, name)
    pool = ["203.0.113.0/29", "2001:db8:5::10-2001:db8:5::11"]
    result = load_balancers.run(request_for(server, pool=pool))
    assert reasons(result) == {("service aws/lb-test/third", "quota")}
    found = {name: get(api, name)["spec"].get("loadBalancerIP") for name in FAMILIES}
    assert found == {"both": "203.0.113.0", "six": "2001:db8:5::10", "six-first": "2001:db8:5::11", "third": None}
    assert "2001:db8:5::10/128" in result["load_balancers"]["aws"]["announce"]
    # who wants one of both families gets the second after everybody has a first
    assert [row["ip"] for row in get(api, "six-first")["status"]["loadBalancer"]["ingress"]] == [
        "2001:db8:5::11",
        "203.0.113.1",
    ]
    assert row_of(result, "six-first")["addresses"] == ["2001:db8:5::11", "203.0.113.1"] and row_of(result, "both")[
        "addresses"
    ] == ["203.0.113.0"]
    assert any("goes without an IPv6 address" in text for text in result["warnings"])
    mark = server.mark()
    result = load_balancers.run(request_for(server, pool=pool))
    assert not result["changed"], str(result["plan"]["changes"]) + str(result["diff"])
    assert server.writes(mark) == []
    api.delete(SERVICES + "/six")
    load_balancers.run(
        request_for(server, pool=pool)
    )  # the pass that gives an address back may be the one after which it is free
    load_balancers.run(request_for(server, pool=pool))
    assert get(api, "third")["spec"]["loadBalancerIP"] == "2001:db8:5::10"


def test_the_prefix_limit_holds_before_any_call(server, api):
    for name in ("a", "b", "c"):
        make_service(api, name)
    result = load_balancers.run(request_for(server, max_prefixes=2))
    assert reasons(result) == {("service aws/lb-test/c", "prefix_limit")} and len(ledger(api)) == 2
    assert result["load_balancers"]["aws"]["cost"]["limit"] == 2


def test_what_is_kept_and_what_is_swept(server, api):
    make_service(api, "kept", **{"metal_equinix_com__eip-reclaim": "retain"})
    for name in ("a", "b"):
        make_service(api, name)
    load_balancers.run(request_for(server))
    api.delete(SERVICES + "/a")
    result = load_balancers.run(request_for(server, gc_orphans=False))
    assert not result["changed"] and len(ledger(api)) == 3  # nobody asked for the sweep
    result = load_balancers.run(request_for(server, reclaim_policy="retain"))
    assert not result["changed"] and len(ledger(api)) == 3
    # a Service that is no load balancer any more loses the address that we set
    api.merge_patch(SERVICES + "/b", {"spec": {"type": "ClusterIP", "ports": [{"port": 80}]}}, "kubectl")
    result = load_balancers.run(request_for(server))
    assert sorted(entry["service"] for entry in ledger(api).values()) == ["lb-test/kept"]
    assert not get(api, "b")["spec"].get("loadBalancerIP")
    # nothing is left: an empty list of Services needs a confirmation
    api.delete(SERVICES + "/kept")
    api.delete(SERVICES + "/b")
    assert not load_balancers.run(request_for(server))["changed"]


def test_an_address_that_its_service_wants_kept_outlives_it(server, api):
    make_service(api, "kept", **{"metal_equinix_com__eip-reclaim": "retain"})
    for name in ("a", "b"):
        make_service(api, name)
    load_balancers.run(request_for(server))
    address = get(api, "kept")["spec"]["loadBalancerIP"]
    api.delete(SERVICES + "/kept")
    api.delete(SERVICES + "/a")
    result = load_balancers.run(request_for(server))
    assert result["changed"] and sorted(entry["service"] for entry in ledger(api).values()) == [
        "lb-test/b",
        "lb-test/kept",
    ]
    mark = server.mark()
    assert not load_balancers.run(request_for(server))["changed"] and server.writes(mark) == []
    assert not load_balancers.run(request_for(server, {"mode": "remove", "services": ["lb-test/kept"]}))["changed"]
    # its next Service gets it again, and without the annotation it is given back
    make_service(api, "kept")
    result = load_balancers.run(request_for(server), check=True)
    assert [change["fields"] for change in result["plan"]["changes"] if change["kind"] == "Reservation"] == [["retain"]]
    load_balancers.run(request_for(server))
    assert get(api, "kept")["spec"]["loadBalancerIP"] == address
    api.delete(SERVICES + "/kept")
    load_balancers.run(request_for(server))
    assert [entry["service"] for entry in ledger(api).values()] == ["lb-test/b"]


def test_the_last_address_waits_for_a_variable_and_the_run_names_it(server, api):
    make_service(api, "web")
    load_balancers.run(request_for(server))
    api.delete(SERVICES + "/web")
    line = "load_balancers_confirm_empty: [aws]"
    for check, release in ((True, True), (False, False), (False, True)):
        result = load_balancers.run(request_for(server, {"release": release}), check=check)
        assert (
            not result["changed"]
            and result["load_balancers"]["aws"]["kept"] == ["203.0.113.0"]
            and reasons(result) == {("aws", "delete_budget")}
        )
        assert line in result["refused"][0]["message"]
        assert release == any(
            line in text for text in result["warnings"]
        )  # reported once, by the tasks that would release it
    result = load_balancers.run(request_for(server, {"max_deletes": 0}))
    assert result["load_balancers"]["aws"]["kept"] == [] and "max_deletes is 0" in result["refused"][0]["message"]
    result = load_balancers.run(request_for(server, {"confirm_empty": ["aws"]}))
    assert result["load_balancers"]["aws"]["releases"] == ["203.0.113.0"] and ledger(api) == {}


def test_events_concern_the_named_services_only(server, api):
    for name in ("a", "b"):
        make_service(api, name)
    load_balancers.run(request_for(server, {"mode": "add", "services": ["lb-test/b"]}))
    assert "loadBalancerIP" not in get(api, "a")["spec"] and get(api, "b")["spec"]["loadBalancerIP"] == "203.0.113.0"
    load_balancers.run(request_for(server))
    api.delete(SERVICES + "/b")
    make_service(api, "c")
    result = load_balancers.run(request_for(server, {"mode": "add", "services": ["lb-test/c"]}))
    assert result["load_balancers"]["aws"]["announce"] == [
        "203.0.113.1/32",
        "203.0.113.2/32",
    ]  # of all, not of the named ones only
    api.delete(SERVICES + "/c")
    result = load_balancers.run(request_for(server, {"mode": "remove", "services": ["lb-test/b", "lb-test/c"]}))
    assert result["plan"]["delete"] == 2 and [entry["service"] for entry in ledger(api).values()] == ["lb-test/a"]
    assert result["load_balancers"]["aws"]["announce"] == ["203.0.113.1/32"]


def test_a_damaged_record_stops_the_cluster(server, api):
    make_service(api, "web")
    load_balancers.run(request_for(server))
    api.merge_patch(LEDGER, {"data": {"203.0.113.0": "no JSON"}}, "somebody")
    make_service(api, "other")
    mark = server.mark()
    result = load_balancers.run(request_for(server))
    assert [(one["cluster"], one["reason"]) for one in result["failures"]] == [
        ("aws", "config_parse")
    ] and server.writes(mark) == []


def test_a_list_that_fails_changes_nothing(server, api, monkeypatch):
    make_service(api, "web")
    load_balancers.run(request_for(server))
    given = request_for(server)
    given["clusters"] = [dict(given["clusters"][0], api_url="https://127.0.0.1:1")]
    result = load_balancers.run(dict(given, timeout=3))
    assert result["failures"] and not result["changed"] and len(ledger(api)) == 1


def test_another_run_at_work_is_waited_for(server, api):
    make_service(api, "web")
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": load_balancers.LEASE, "namespace": "kube-system"},
        "spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 15},
    }
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    api.create(path, lease, "test")
    try:
        result = load_balancers.run(request_for(server, {"lock_wait": 0.1}))
        assert [one["reason"] for one in result["failures"]] == ["lease_held"] and ledger(api) == {}
    finally:
        api.delete(path + "/" + load_balancers.LEASE)


def test_a_wrong_setting_of_one_cluster_leaves_the_others_their_addresses(server, api):
    """Pools that meet, text that is no load balancer, a file that is not there, no access: each fails its own cluster."""
    make_service(api, "web")
    request = request_for(server)
    wrong = {
        "one": {"pool": ["198.51.100.0/29"]},
        "two": {"pool": ["198.51.100.4"]},
        "typo": {"load_balancer": "metalb:///x"},
        "file": {"config_file": "/nowhere/cloud-sa.json"},
        "nobody": {},
        "noted": {"wrong": "load_balancers_settings of noted: fix this"},
    }
    request["settings"] += [
        dict({"cluster": name, "load_balancer": "empty://"}, **given) for name, given in wrong.items()
    ]
    request["clusters"] += [dict(server.access(), name=name) for name in wrong if name != "nobody"]
    result = load_balancers.run(request)
    assert get(api, "web")["spec"]["loadBalancerIP"] == "203.0.113.0" and list(result["load_balancers"]) == ["aws"]
    rows = {row["cluster"]: (row["reason"], row["message"]) for row in result["failures"]}
    assert {name: reason for name, (reason, message) in rows.items()} == {
        "one": "claimed_twice",
        "two": "claimed_twice",
        "typo": "bad_choice",
        "file": "config_parse",
        "nobody": "unknown_cluster",
        "noted": "bad_setting",
    }
    assert (
        "198.51.100.4" in rows["one"][1]
        and "load_balancers_settings of typo" in rows["typo"][1]
        and "fix this" in rows["noted"][1]
    )


def test_moving_here_from_another_controller(server, api):
    """Addresses of the customer's own prefix are adopted, those of the provider that ends are replaced; the rest stays."""
    make_service(api, "own", "203.0.113.3")
    make_service(api, "theirs", "147.75.10.1")
    make_service(api, "fixed", "198.51.100.7")
    result = load_balancers.run(request_for(server, {"adopt": True, "renumber": ["147.75.0.0/16"]}), check=True)
    table = {change["id"] for change in result["plan"]["changes"] if change["kind"] == "Service"}
    assert (
        table == {"aws/lb-test/theirs"}
        and "147.75.10.1" in result["diff"]["before"]
        and "203.0.113.0" in result["diff"]["after"]
    )
    load_balancers.run(request_for(server, {"adopt": True, "renumber": ["147.75.0.0/16"]}))
    assert {name: get(api, name)["spec"]["loadBalancerIP"] for name in ("own", "theirs", "fixed")} == {
        "own": "203.0.113.3",
        "theirs": "203.0.113.0",
        "fixed": "198.51.100.7",
    }
    assert {entry["service"] for entry in ledger(api).values()} == {"lb-test/own", "lb-test/theirs"}
    mark = server.mark()
    assert not load_balancers.run(request_for(server))["changed"] and server.writes(mark) == []


def test_settings_out_of_the_upstream_secret(server, api):
    make_service(api, "web")
    text = cloud_config({"loadbalancer": "empty://", "local_asn": 64512})
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "metal-cloud-config", "namespace": "kube-system"},
        "data": {"cloud-sa.json": base64.b64encode(text.encode()).decode()},
    }
    secrets = "/api/v1/namespaces/kube-system/secrets"
    written = cluster_objects.run({"fabric": "t", "clusters": [server.access()], "objects": [secret]})
    assert written["changed"] and not written["failures"] and secret["data"]["cloud-sa.json"] not in json.dumps(written)
    try:
        load_balancers.run(request_for(server, load_balancer=None, config_secret="metal-cloud-config"))
        assert get(api, "web")["spec"]["loadBalancerIP"] == "203.0.113.0"
        # a cluster without its Secret fails alone
        request = request_for(server, load_balancer=None, config_secret="no-such-secret")
        request["clusters"].append(dict(server.access(), name="gcp"))
        request["settings"].append(dict(request_for(server)["settings"][0], cluster="gcp", pool=["198.51.100.0/29"]))
        result = load_balancers.run(request, check=True)
        assert [(row["cluster"], row["reason"]) for row in result["failures"]] == [("aws", "config_parse")]
        assert "could not be read" in result["failures"][0]["message"] and list(result["load_balancers"]) == ["gcp"]
    finally:
        api.delete(secrets + "/metal-cloud-config")


def test_switched_off_means_nothing_at_all(server, api):
    make_service(api, "web")
    (failure,) = load_balancers.run(request_for(server, load_balancer="metallb-system:config"))["failures"]
    assert failure["reason"] == "bad_choice" and "names no load balancer" in failure["message"]
    result = load_balancers.run(request_for(server, load_balancer=""))
    assert not result["changed"] and not result["failures"]
    assert result["stats"]["requests"]["aws"] == {}
