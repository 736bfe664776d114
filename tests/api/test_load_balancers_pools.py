# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Named pools, asking and sharing, and addresses of both families, over a real API server that has both."""

from __future__ import annotations

import json
import pathlib
import time

import api_server
import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers import (
    converge as load_balancers,
)

CRDS = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "crds" / "metallb.yml"
SPACES = {"lb-one": {"env": "prod"}, "lb-two": {"env": "dev"}, "metallb-system": {}}
CONFIGMAPS = "/api/v1/namespaces/kube-system/configmaps"
POOLS = [
    {
        "name": "public",
        "addresses": ["203.0.113.0/29", "2001:db8:5::/125"],
        "avoid_buggy_ips": True,
        "max_per_namespace": 3,
    },
    {
        "name": "prod",
        "addresses": ["198.51.100.0/30"],
        "namespace_selector": "env=prod",
        "auto_assign": False,
        "reserved": ["198.51.100.3"],
    },
]
BACKENDS = ["empty://", "kube-vip://", "metallb:///metallb-system?crdConfiguration=true"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    gates = ["--feature-gates", "IPv6DualStack=true"] if api_server.slices_version().endswith("v1beta1") else []
    one = api_server.ApiServer(tmp_path_factory.mktemp("apiserver-pools"), "10.6.0.0/16,fd03:3::/112", gates)
    try:
        one.start()
        client = one.client()
        for name, labels in SPACES.items():
            client.create(
                "/api/v1/namespaces",
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}},
                "kubectl",
            )
        for body in yaml.safe_load(CRDS.read_text("utf-8"))["items"]:
            client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body, "kubectl")
        deadline = time.monotonic() + 60
        while client.resource("metallb.io/v1beta2", "BGPPeer", refresh=True) is None:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield one
    finally:
        one.stop()


def path(key):
    namespace, dummy, name = key.partition("/")
    return f"/api/v1/namespaces/{namespace}/services{'/' + name if name else ''}"


@pytest.fixture
def api(server):
    client = server.client()
    yield client
    for item in client.list("/api/v1/services").items:
        if item["metadata"]["namespace"] in SPACES:
            client.delete(path("{namespace}/{name}".format(**item["metadata"])))
    client.delete(CONFIGMAPS + "/metal-ccm-static-pool")
    for plural in ("ipaddresspools", "bgpadvertisements"):
        for item in client.list("/apis/metallb.io/v1beta1/namespaces/metallb-system/" + plural).items:
            client.delete(f"/apis/metallb.io/v1beta1/namespaces/metallb-system/{plural}/{item['metadata']['name']}")


def make(client, key, annotations=None, port=80, **spec):
    namespace, dummy, name = key.partition("/")
    body = dict(
        {"type": "LoadBalancer", "ports": [{"port": port, "protocol": "TCP"}], "selector": {"app": name}}, **spec
    )
    meta = {"name": name, "annotations": annotations or {}}
    client.create(path(namespace), {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": body}, "kubectl")


def run(server, check=False, more=None, **settings):
    given = dict({"cluster": "aws", "load_balancer": "empty://", "pools": POOLS, "gc_orphans": True}, **settings)
    return load_balancers.run(
        dict({"fabric": "t", "clusters": [server.access()], "settings": [given], "timeout": 60}, **(more or {})),
        check=check,
    )


def field(client, key):
    return client.get(path(key))["spec"].get("loadBalancerIP")


def ingress(client, key):
    return [row["ip"] for row in client.get(path(key))["status"]["loadBalancer"].get("ingress") or ()]


def ledger(client):
    found = client.list(CONFIGMAPS, field_selector="metadata.name=metal-ccm-static-pool").items
    return {row["address"]: row for item in found for row in map(json.loads, (item.get("data") or {}).values())}


def refusals(result):
    return {(row["object"].partition("/")[2], row["reason"]) for row in result["refused"]}


def unchanged(server, **settings):
    mark = server.mark()
    result = run(server, **settings)
    return not result["changed"] and server.writes(mark) == [] and result


@pytest.mark.parametrize("balancer", BACKENDS)
def test_asking_by_the_annotations_of_every_controller(server, api, balancer):
    asked = {
        "lb-one/metallb": ({"metallb.io/address-pool": "prod"}, "198.51.100.0"),
        "lb-one/old": ({"metallb.universe.tf/address-pool": "prod"}, "198.51.100.2"),
        "lb-one/cilium": ({"lbipam.cilium.io/ips": "198.51.100.1"}, "198.51.100.1"),
        "lb-two/vip": ({"kube-vip.io/loadbalancerIPs": "203.0.113.5"}, "203.0.113.5"),
        "lb-two/ips": ({"metallb.io/loadBalancerIPs": "203.0.113.6"}, "203.0.113.6"),
        "lb-two/any": ({}, "203.0.113.1"),
    }
    for key, (said, dummy) in asked.items():
        make(api, key, said)
    hostile = {
        "lb-two/pool": ({"metallb.io/address-pool": "prod"}, "outside_grant"),
        "lb-two/theirs": ({"lbipam.cilium.io/ips": "198.51.100.2"}, "outside_grant"),
        "lb-one/kept": ({"metallb.io/loadBalancerIPs": "198.51.100.3"}, "outside_grant"),
        "lb-one/none": ({"kube-vip.io/loadbalancerIPs": "10.1.1.1"}, "outside_grant"),
        "lb-one/buggy": ({"lbipam.cilium.io/ips": "203.0.113.0"}, "outside_grant"),
        "lb-one/bad": ({"lbipam.cilium.io/ips": "x" * 2000}, "bad_address"),
        "lb-two/thief": ({"lbipam.cilium.io/ips": "203.0.113.6"}, "claimed_twice"),
        "lb-two/four": ({}, "quota"),
    }
    for key, (said, dummy) in hostile.items():
        make(api, key, said)
    for check in (True, False):
        result = run(server, check, load_balancer=balancer)
        assert refusals(result) == {(key, reason) for key, (dummy, reason) in hostile.items()}, result["refused"]
    shown = {row["service"]: row["address"] for row in result["load_balancers"]["aws"]["services"]}
    assert {key: shown[key] for key in asked} == {key: address for key, (dummy, address) in asked.items()}
    assert any(
        text.endswith("(max_per_namespace of pools in load_balancers_settings)")
        for row in result["refused"]
        for text in [row["message"]]
    )
    assert unchanged(server, load_balancer=balancer)
    rows = {
        (row["pool"], row["family"]): (row["total"], row["used"], row["free"])
        for row in result["load_balancers"]["aws"]["pools"]
    }
    assert rows == {("public", 4): (7, 3, 4), ("public", 6): (8, 0, 8), ("prod", 4): (3, 3, 0)}
    assert any("takes the last IPv4 address of the pool prod, 3 in all" in text for text in result["warnings"])
    result = run(server, more={"state": "absent"}, load_balancer=balancer)
    assert ledger(api) == {} and not any(field(api, key) for key in asked)
    assert balancer != "empty://" or not any(ingress(api, key) for key in asked)


def test_no_change_of_the_pools_changes_an_address_in_use(server, api):
    for key in ("lb-one/a", "lb-one/b", "lb-two/c"):
        make(api, key)
    run(server, pool=["192.0.2.0/28"], pools=None)
    before = {key: ingress(api, key) for key in ("lb-one/a", "lb-one/b", "lb-two/c")}
    assert before == {"lb-one/a": ["192.0.2.0"], "lb-one/b": ["192.0.2.1"], "lb-two/c": ["192.0.2.2"]}
    for pools in (
        [{"name": "net", "addresses": ["192.0.2.0/28"]}],
        [
            {
                "name": "net",
                "addresses": ["192.0.2.0/28"],
                "reserved": ["192.0.2.0/29"],
                "avoid_buggy_ips": True,
                "max_per_namespace": 0,
            }
        ],
        [{"name": "net", "addresses": ["192.0.2.0/28"], "namespaces": ["nobody"], "auto_assign": False}],
        POOLS,
    ):
        result = unchanged(server, pools=pools)
        assert result and not result["refused"], pools
        assert set(result["load_balancers"]["aws"]["announce"]) == {
            address + "/32" for rows in before.values() for address in rows
        }
    # also without the record: an address in the Service and its status is in use
    api.delete(CONFIGMAPS + "/metal-ccm-static-pool")
    make(api, "lb-two/new")
    result = run(server)
    assert (
        not result["refused"]
        and {key: ingress(api, key) for key in before} == before
        and ingress(api, "lb-two/new") == ["203.0.113.1"]
    )


@pytest.mark.parametrize("balancer", BACKENDS)
def test_services_that_share_an_address(server, api, balancer):
    for number, key in enumerate(("lb-one/a", "lb-one/b", "lb-one/c")):
        make(api, key, {"metallb.io/allow-shared-ip": "k"}, port=80 + number)
    make(api, "lb-one/same-port", {"metallb.io/allow-shared-ip": "k"}, port=81)
    run(server, load_balancer=balancer)
    assert {key: field(api, key) for key in ("lb-one/a", "lb-one/b", "lb-one/c", "lb-one/same-port")} == {
        "lb-one/a": "203.0.113.1",
        "lb-one/b": "203.0.113.1",
        "lb-one/c": "203.0.113.1",
        "lb-one/same-port": "203.0.113.2",
    }
    assert unchanged(server, load_balancer=balancer)
    assert ledger(api)["203.0.113.1"]["sharers"] == ["lb-one/b", "lb-one/c"]
    # the holder goes: the address is those of the others, and nobody else's
    api.delete(path("lb-one/a"))
    make(api, "lb-two/thief", {"metallb.io/loadBalancerIPs": "203.0.113.1"})
    result = run(server, load_balancer=balancer)
    assert (
        refusals(result) == {("lb-two/thief", "claimed_twice")} and ledger(api)["203.0.113.1"]["service"] == "lb-one/b"
    )
    assert unchanged(server, load_balancer=balancer)
    api.delete(path("lb-two/thief"))
    for key in ("lb-one/b", "lb-one/c"):
        api.delete(path(key))
    run(server, load_balancer=balancer)
    assert list(ledger(api)) == ["203.0.113.2"]


def test_sharing_across_namespaces_is_by_the_request_of_both(server, api):
    key, across = "lbipam.cilium.io/sharing-key", "lbipam.cilium.io/sharing-cross-namespace"
    make(api, "lb-one/a", {key: "k", across: "lb-two"}, port=80)
    make(api, "lb-two/quiet", {key: "k"}, port=81)
    make(api, "lb-two/spoken", {key: "k", across: "*"}, port=82)
    make(api, "lb-two/local", {key: "k", across: "*"}, port=83, externalTrafficPolicy="Local")
    run(server)
    assert {name: ingress(api, "lb-" + name) for name in ("one/a", "two/quiet", "two/spoken", "two/local")} == {
        "one/a": ["203.0.113.1"],
        "two/quiet": ["203.0.113.3"],
        "two/spoken": ["203.0.113.1"],
        "two/local": ["203.0.113.2"],
    }
    assert unchanged(server)


@pytest.mark.parametrize("balancer", BACKENDS)
def test_an_address_of_each_family(server, api, balancer):
    both = {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"]}
    make(api, "lb-one/both", **both)
    make(api, "lb-one/prefers", ipFamilyPolicy="PreferDualStack", ipFamilies=["IPv4", "IPv6"])
    make(api, "lb-one/four", ipFamilies=["IPv4"])
    make(api, "lb-two/six", ipFamilies=["IPv6"])
    planned = run(server, True, load_balancer=balancer)
    result = run(server, load_balancer=balancer)
    desired = {
        "lb-one/both": ["2001:db8:5::", "203.0.113.1"],
        "lb-one/four": ["203.0.113.2"],
        "lb-one/prefers": ["203.0.113.3", "2001:db8:5::2"],
        "lb-two/six": ["2001:db8:5::1"],
    }
    for one in (planned, result):
        assert (
            not one["refused"]
            and {row["service"]: row["addresses"] for row in one["load_balancers"]["aws"]["services"]} == desired
        )
    assert unchanged(server, load_balancer=balancer)
    if balancer == "empty://":
        assert {key: ingress(api, key) for key in desired} == desired
        assert {text for text in result["load_balancers"]["aws"]["announce"] if ":" in text} == {
            "2001:db8:5::/128",
            "2001:db8:5::1/128",
            "2001:db8:5::2/128",
        }
        assert field(api, "lb-one/both") == "2001:db8:5::"
    else:
        name = "kube-vip.io/loadbalancerIPs" if balancer.startswith("kube") else "metallb.io/loadBalancerIPs"
        shown = api.get(path("lb-one/both"))
        assert (
            shown["metadata"]["annotations"] == {name: "2001:db8:5::,203.0.113.1"}
            and "loadBalancerIP" not in shown["spec"]
        )
        assert field(api, "lb-one/four") == "203.0.113.2"
    if balancer.startswith("metallb"):
        listed = api.list("/apis/metallb.io/v1beta1/namespaces/metallb-system/ipaddresspools").items
        made = {item["metadata"]["name"]: item["spec"]["addresses"] for item in listed}
        assert made["lb-one.both"] == ["2001:db8:5::/128", "203.0.113.1/32"]
    result = run(server, more={"state": "absent"}, load_balancer=balancer)
    assert (
        not result["refused"]
        and ledger(api) == {}
        and not field(api, "lb-one/both")
        and not api.get(path("lb-one/both"))["metadata"].get("annotations")
    )
    assert not ingress(api, "lb-one/both")


@pytest.mark.parametrize("balancer", BACKENDS)
def test_a_second_family_comes_and_goes_and_the_first_stays(server, api, balancer):
    make(api, "lb-one/web", ipFamilies=["IPv4"])
    run(server, load_balancer=balancer)
    api.merge_patch(path("lb-one/web"), {"spec": {"ipFamilyPolicy": "PreferDualStack"}}, "kubectl")
    result = run(server, load_balancer=balancer)
    assert result["load_balancers"]["aws"]["services"][0]["addresses"] == ["203.0.113.1", "2001:db8:5::"]
    assert sorted(ledger(api)) == ["2001:db8:5::", "203.0.113.1"] and unchanged(server, load_balancer=balancer)
    # without any IPv6 address left it keeps what it has; who requires both is refused and the others go on
    small = [dict(POOLS[0], addresses=["203.0.113.0/29", "2001:db8:5::"])]
    make(api, "lb-two/web", ipFamilyPolicy="PreferDualStack")
    make(api, "lb-two/needs", ipFamilyPolicy="RequireDualStack")
    result = run(server, load_balancer=balancer, pools=small)
    assert refusals(result) == {("lb-two/needs", "quota")}
    rows = {row["service"]: row["addresses"] for row in result["load_balancers"]["aws"]["services"]}
    assert rows["lb-one/web"] == ["203.0.113.1", "2001:db8:5::"] and rows["lb-two/web"] == ["203.0.113.3"]
    assert any("lb-two/web: it goes without an IPv6 address" in text for text in result["warnings"])


FINALIZER = "service.kubernetes.io/load-balancer-cleanup"


@pytest.mark.parametrize("balancer", BACKENDS)
def test_a_service_that_a_cloud_controller_served_can_be_deleted(server, api, balancer):
    for name in ("moved", "stays", "kept"):
        make(api, "lb-one/" + name)
        api.merge_patch(
            path("lb-one/" + name),
            {"metadata": {"finalizers": [FINALIZER, "example.com/own"][: 1 if name != "kept" else 2]}},
            "cloud-controller",
        )
    api.merge_patch(
        path("lb-one/kept"), {"metadata": {"annotations": {"metal.equinix.com/eip-reclaim": "retain"}}}, "kubectl"
    )
    make(api, "lb-two/theirs", loadBalancerClass="example.com/other") if not api_server.slices_version().endswith(
        "v1beta1"
    ) else make(api, "lb-two/theirs", {"metal.equinix.com/loadbalancer-managed": "false"})
    api.merge_patch(path("lb-two/theirs"), {"metadata": {"finalizers": [FINALIZER]}}, "cloud-controller")
    run(server, load_balancer=balancer)
    assert unchanged(server, load_balancer=balancer)
    for key in ("lb-one/moved", "lb-one/kept", "lb-two/theirs"):
        api.request_deletion(path(key))
    assert api.get(path("lb-one/moved"))["metadata"]["deletionTimestamp"]
    # first nobody announces it any more, then it is given back, and then the Service may go
    result = run(server, more={"release": False}, load_balancer=balancer)
    assert result["load_balancers"]["aws"]["releases"] == ["203.0.113.2"] and api.get(path("lb-one/moved"))["metadata"][
        "finalizers"
    ] == [FINALIZER]
    assert "203.0.113.2/32" not in result["load_balancers"]["aws"]["announce"]
    result = run(server, load_balancer=balancer)
    assert not result["failures"] and not result["refused"]
    left = {
        one["metadata"]["name"]: one["metadata"].get("finalizers")
        for one in api.list("/api/v1/services").items
        if one["metadata"]["namespace"] in SPACES
    }
    assert left == {"stays": [FINALIZER], "kept": ["example.com/own"], "theirs": [FINALIZER]}
    assert sorted(row["service"] for row in ledger(api).values()) == ["lb-one/kept", "lb-one/stays"]
    assert unchanged(server, load_balancer=balancer)
    run(server, more={"state": "absent"}, load_balancer=balancer)
    assert not api.get(path("lb-one/stays"))["metadata"].get("finalizers") and api.get(path("lb-two/theirs"))[
        "metadata"
    ]["finalizers"] == [FINALIZER]
    for key in ("lb-one/kept", "lb-two/theirs"):
        api.merge_patch(path(key), {"metadata": {"finalizers": None}}, "kubectl")


def test_a_change_reads_again_what_may_have_changed(server, api):
    """Of one Service that goes or comes nothing is read twice but our record, unless somebody else was at work."""
    for number in range(5):
        make(api, f"lb-one/s{number}", ipFamilyPolicy="SingleStack")
    pools = [dict(POOLS[0], max_per_namespace=None)]
    result = run(server, pools=pools)
    assert sum(result["stats"]["requests"]["aws"].values()) <= 8 + 2 * 5  # and two writes for each Service
    api.delete(path("lb-one/s3"))
    result = run(server, pools=pools)
    assert result["changed"] and sum(result["stats"]["requests"]["aws"].values()) <= 8, result["stats"]
    make(api, "lb-one/s3")
    result = run(server, pools=pools)
    assert result["changed"] and sum(result["stats"]["requests"]["aws"].values()) <= 8 + 2, result["stats"]
    assert unchanged(server, pools=pools)


def test_what_changed_between_the_plan_and_the_lease_is_read(server, api, monkeypatch):
    for number in range(3):
        make(api, f"lb-one/s{number}")
    run(server)
    api.delete(path("lb-one/s0"))
    take = load_balancers._take

    def late(lease, wait):
        """Another run comes between: it gives the address that is free now to somebody else."""
        monkeypatch.setattr(load_balancers, "_take", take)
        make(api, "lb-two/other")
        assert not run(server)["failures"]
        make(api, "lb-two/later")
        return take(lease, wait)

    monkeypatch.setattr(load_balancers, "_take", late)
    result = run(server)
    assert not result["failures"] and ledger(api)["203.0.113.4"]["service"] == "lb-two/other"
    assert ingress(api, "lb-two/later") == ["203.0.113.1"], "the run that came late saw the record of the other one"
    assert unchanged(server)


def reported(client, key):
    """(type, reason, message, count) of the Events of a Service."""
    namespace, dummy, name = key.partition("/")
    listed = client.list(f"/api/v1/namespaces/{namespace}/events", field_selector="source=multicluster.network").items
    return sorted(
        (one["type"], one["reason"], one["message"], one["count"])
        for one in listed
        if one["involvedObject"]["name"] == name
    )


def test_services_are_reported_and_nobody_is_notified_twice(server, api):
    more = {"events": True}
    for key in ("lb-one/noted", "lb-two/other"):
        make(api, key)
    make(api, "lb-two/refused", {"lbipam.cilium.io/ips": "198.51.100.0"})
    mark = server.mark()
    assert run(server, True, more)["refused"] and server.writes(mark) == []
    result = run(server, more=more)
    assert result["load_balancers"]["aws"]["events"] == 3
    assert reported(api, "lb-one/noted") == [
        ("Normal", "EnsuredLoadBalancer", "It has 203.0.113.1 of the pool public", 1)
    ]
    ((kind, reason, message, count),) = reported(api, "lb-two/refused")
    assert (kind, reason, count) == ("Warning", "SyncLoadBalancerFailed", 1) and message.startswith(
        "outside_grant: lb-two/refused asks for 198.51.100.0"
    )
    mark = server.mark()
    for dummy in range(2):
        result = run(server, more=more)
        assert not result["changed"] and result["refused"] and server.writes(mark) == []
    # the pool ends, and goes on; the same again is counted
    make(api, "lb-two/late")
    small = [dict(POOLS[0], addresses=["203.0.113.1-203.0.113.2"])]
    for pools in (small, small, POOLS):
        time.sleep(1.1)  # Events have whole seconds
        run(server, more=more, pools=pools)
    assert [row[:2] for row in reported(api, "lb-two/late")] == [
        ("Normal", "EnsuredLoadBalancer"),
        ("Warning", "AllocationFailed"),
    ]
    api.merge_patch(path("lb-two/late"), {"spec": {"loadBalancerIP": "203.0.113.1"}}, "kubectl")
    for pools in (POOLS, POOLS):
        run(server, more=more, pools=pools)
    ((message, count),) = [row[2:] for row in reported(api, "lb-two/late") if row[1] == "SyncLoadBalancerFailed"]
    assert message.startswith("claimed_twice: 203.0.113.1 belongs to 'lb-one/noted'") and count == 1
