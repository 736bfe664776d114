# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tables of semaphore 4.3, 4.4 and 4.7, row by row, without a cluster."""

from __future__ import annotations

import copy

import pytest
from ansible.errors import AnsibleFilterError
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.multicluster.network.plugins.filter.mirror_name import mirror_name
from ansible_collections.multicluster.network.plugins.module_utils._services import endpoints, global_slices, mirror_services, slices, sweeps

NS = "sys-semaphore"
LABELS = {"mirrored-svc": "true", "mirror-svc-prefix-sync": "aws"}
KEY = ("sys-log", "fluentd")
NAME = "aws-sys-log-73736d-fluentd"


def remote(**spec):
    given_spec = dict({"clusterIP": "10.3.88.18", "ports": [{"name": "http", "port": 8888, "targetPort": "http", "nodePort": 30080}]}, **spec)
    return {"metadata": {"namespace": "sys-log", "name": "fluentd", "labels": {"team": "x"}, "annotations": {"lb": "public"}}, "spec": given_spec}


def local(labels=None, **spec):
    shape = dict({"clusterIP": "10.5.184.192", "type": "ClusterIP", "ports": [{"name": "http", "port": 8888, "targetPort": "http"}]}, **spec)
    return {"metadata": {"namespace": NS, "name": NAME, "labels": LABELS if labels is None else labels}, "spec": shape}


def reconcile(source, here, **more):
    return mirror_services.reconcile_service("aws", NS, KEY, source, here, **more)


def test_created():
    done = reconcile(remote(type="LoadBalancer", externalIPs=["10.5.0.1"], loadBalancerIP="x", selector={"a": "b"}, healthCheckNodePort=1,
                            externalTrafficPolicy="Local", ipFamilies=["IPv4"], publishNotReadyAddresses=True), None)  # fmt: skip
    assert done == ("create", {
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": NAME, "namespace": NS, "labels": LABELS},
        "spec": {"ports": [{"name": "http", "port": 8888, "targetPort": "http"}]},
    }, None)  # fmt: skip


AFFINITY = {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}}}


@pytest.mark.parametrize(("source", "here", "action"), [
    (remote(), local(), "none"),
    (remote(), local({}), "none"),
    (remote(ports=[{"port": 1}]), local(), "update"),
    (remote(**AFFINITY), local(), "update"),
    (remote(), local(**AFFINITY), "update"),
    (remote(), local(selector={"a": "b"}), "update"),
    (remote(clusterIP="None"), local(), "recreate"),
    (remote(), local(clusterIP="None"), "recreate"),
    (remote(clusterIP="None"), local(clusterIP="None"), "none"),
    (remote(type="ExternalName", externalName="x"), None, "skip"),
    (remote(ports=[{"port": 1}]), local({"team": "blue"}), "conflict"),
    (remote(ports=[{"port": 1}]), local({}), "conflict"),
    (None, local(), "delete"),
    (None, local({"team": "blue"}), "none"),
    (None, local(dict(LABELS, **{"mirror-svc-prefix-sync": "other"})), "none"),
    (None, None, "none"),
])  # fmt: skip
def test_rows_of_the_table(source, here, action):
    before = copy.deepcopy((source, here))
    done = reconcile(source, here)
    assert done.action == action
    assert (source, here) == before, "what is given is not changed"
    if action in ("conflict", "none"):
        assert done.result == here


def test_what_stays_as_it_was_found():
    done = reconcile(remote(ports=[{"port": 1}]), local(dict(LABELS, mine="yes"), selector={"a": "b"}))
    assert done.result["spec"] == {"clusterIP": "10.5.184.192", "type": "ClusterIP", "ports": [{"port": 1}]}
    assert done.result["metadata"]["labels"] == dict(LABELS, mine="yes")


def test_affinity_can_be_switched_off():
    assert reconcile(remote(**AFFINITY), local(), session_affinity=False).action == "none"


def test_names_that_cannot_be():
    long = {"metadata": {"namespace": "n" * 30, "name": "s" * 30}, "spec": {"ports": [{"port": 1}]}}
    assert mirror_services.reconcile_service("aws", NS, ("n" * 30, "s" * 30), long, None).reason == "name_too_long"
    assert endpoints.reconcile_endpoints("1", NS, KEY, {"metadata": {}}, None).reason == "name_invalid"
    assert mirror_name("fluentd", "sys-log", "aws") == NAME
    for bad in (("fluentd", "sys-log", "1aws"), ("f" * 60, "sys-log", "aws"), (1, "sys-log", "aws")):
        with pytest.raises(AnsibleFilterError, match="mirror_name: "):
            mirror_name(*bad)


SUBSETS = [{"addresses": [{"ip": "10.2.0.1", "nodeName": "n", "hostname": "h", "targetRef": {"kind": "Pod", "name": "p", "uid": "u"}, "evil": 1}],
            "notReadyAddresses": [{"ip": "10.2.0.2"}], "ports": [{"port": 1, "name": "b"}, {"port": 2, "name": "a"}]}]  # fmt: skip


def test_endpoints_field_by_field():
    safe = endpoints.to_subsets(endpoints.from_endpoints({"subsets": SUBSETS}))
    assert safe[0]["addresses"] == [{"ip": "10.2.0.1", "hostname": "h", "targetRef": {"kind": "Pod", "name": "p"}}]
    assert safe[0]["ports"] == [{"port": 1, "name": "b"}, {"port": 2, "name": "a"}]
    everything = endpoints.to_subsets(endpoints.from_endpoints({"subsets": SUBSETS}, endpoints.ALL))
    assert everything[0]["addresses"][0]["nodeName"] == "n" and everything[0]["addresses"][0]["targetRef"]["uid"] == "u"
    assert "evil" not in everything[0]["addresses"][0]


def test_the_servers_order_is_no_difference():
    first = {"addresses": [{"ip": "10.2.0.2"}], "ports": [{"port": 2, "name": "a"}, {"port": 1, "name": "b"}]}
    turned = [first, {"addresses": [{"ip": "10.2.0.1"}], "ports": [{"port": 1}]}]
    wanted = {"subsets": [turned[1], dict(turned[0], ports=turned[0]["ports"][::-1])]}
    assert endpoints.aligned(wanted, {"subsets": turned})["subsets"] == turned
    assert endpoints.aligned(wanted, {"subsets": turned[:1]}) is wanted


ADDRESSES = st.lists(st.integers(1, 6).map("10.2.0.{0}".format), max_size=5, unique=True)


@given(ADDRESSES, ADDRESSES)
def test_not_ready_and_empty_are_final(ready, waiting):
    subset = {"addresses": [{"ip": ip} for ip in ready], "notReadyAddresses": [{"ip": ip} for ip in waiting if ip not in ready], "ports": [{"port": 1}]}
    obj = {"metadata": {"name": "x", "namespace": NS, "labels": LABELS}, "subsets": [subset]}
    once = endpoints.not_ready(obj, False)
    assert endpoints.not_ready(once, False) == once and not any(subset.get("addresses") for subset in once["subsets"])
    assert endpoints.not_ready(obj, True)["subsets"] == []


def test_a_slice_that_is_stopped():
    one = {"addresses": ["10.2.0.1"], "conditions": {"serving": True, "terminating": True}}
    obj = {"metadata": {"name": "x"}, "addressType": "IPv4", "ports": [], "endpoints": [one]}
    assert endpoints.not_ready(obj, False)["endpoints"][0]["conditions"] == {"ready": False, "serving": False, "terminating": True}
    assert endpoints.not_ready(obj, True)["endpoints"] == []


PIECE = {"metadata": {"name": "my-svc-1", "namespace": "ex", "labels": {"kubernetes.io/service-name": "my-svc"}}, "addressType": "IPv4",
         "endpoints": [{"addresses": ["10.2.0.1"], "zone": "z9", "hints": {"forZones": [{"name": "evil"}]}}], "ports": [{"port": 1}]}  # fmt: skip


def copied(source=None, here=None, local_cluster=False, zones=("z1",), opted_in=False, **more):
    return global_slices.reconcile_slice(PIECE if source is None else source, here, "aws", local_cluster, zones, opted_in, NS, **more)


def test_slices_of_global_services():
    done = copied()
    assert done.action == "create" and done.result["endpoints"] == [{"addresses": ["10.2.0.1"], "zone": "z9"}]
    assert copied(here=done.result).action == "none"
    assert copied(here=done.result, opted_in=True).action == "update"
    assert copied(opted_in=True).result["endpoints"][0] == {"addresses": ["10.2.0.1"], "zone": "remote", "hints": {"forZones": [{"name": "remote"}]}}
    assert copied(opted_in=True, local_cluster=True).result["endpoints"][0]["hints"] == {"forZones": [{"name": "z1"}]}
    assert copied(here=copied(opted_in=True).result).action == "update", "hints go when nobody asks for them"
    assert copied(here=dict(done.result, addressType="IPv6")).action == "recreate"
    foreign = dict(done.result, metadata=dict(done.result["metadata"], labels={}))
    assert copied(here=foreign).action == "conflict" and copied(here=foreign, adopt=True).action == "update"
    assert copied(zones=["z"] * 9).action == "config_error"
    assert copied(source=dict(PIECE, metadata={"name": "x", "namespace": "ex"})).reason == "missing_service_name_label"
    assert copied(source=dict(PIECE, addressType="FQDN")).reason == "unsupported_type"
    assert global_slices.reconcile_slice(None, done.result, "aws", False, (), False, NS).action == "delete"
    assert global_slices.reconcile_slice(None, foreign, "aws", False, (), False, NS).action == "none"


def test_sweeps():
    mirrors = {NAME: LABELS, "aws-x-73736d-y": LABELS, "half": {"mirrored-svc": "true"}, "other": dict(LABELS, **{"mirror-svc-prefix-sync": "b"})}
    assert sweeps.stale_mirrors("aws", [KEY], mirrors) == ["aws-x-73736d-y"]
    assert sweeps.stale_mirrors("aws", None, mirrors) == sweeps.stale_mirrors("aws", [], mirrors, sweep=False) == []
    shared = {"gl-a-73736d-b": {"global-svc": "true"}, "mine": {}}
    assert sweeps.stale_global_services([], shared) == ["gl-a-73736d-b"] and sweeps.stale_global_services(None, shared) == []
    copies = {"gl-x": {"mirrored-endpoint-slice": "true", "mirror-endpointslice-sync-name": "aws"}, "gl-y": {"mirrored-endpoint-slice": "true"}}
    assert sweeps.stale_slices("aws", [], copies) == ["gl-x"] and sweeps.stale_slices("aws", ["x"], copies) == []


def test_a_full_slice_stays_when_an_endpoint_comes():
    """The one that is too many gets a slice of its own, wherever its address sorts: one write, not two."""
    texts = ["10.2.{0}.{1}".format(high, low) for high in range(1, 11) for low in range(1, 101)]
    ports = [{"name": "http", "port": 8080, "protocol": "TCP"}]

    def made(addresses, current=()):
        obj = {"metadata": {}, "addressType": "IPv4", "ports": ports, "endpoints": [{"addresses": [text]} for text in addresses]}
        return slices.mirror_slices("web", "mirrors", "aws", [endpoints.from_slice(obj)], "discovery.k8s.io/v1", current)

    full = made(texts)
    assert [len(one["endpoints"]) for one in full] == [1000]
    more = made(["10.2.0.1", *texts], full)
    assert more[0] == full[0] and [one["addresses"] for one in more[1]["endpoints"]] == [["10.2.0.1"]]
