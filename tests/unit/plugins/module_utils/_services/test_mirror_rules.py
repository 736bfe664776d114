# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tables of semaphore 4.3, 4.4 and 4.7, row by row, without a cluster."""

from __future__ import annotations

import copy

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.multicluster.network.plugins.filter.mirror_name import mirror_name
from ansible_collections.multicluster.network.plugins.module_utils._services import endpoints, global_services, slices
from ansible_collections.multicluster.network.plugins.module_utils._services.claims import Guard
from ansible_collections.multicluster.network.plugins.module_utils._services.exports import (
    Exports,
    Listed,
    Options,
    read_exports,
)
from ansible_collections.multicluster.network.plugins.module_utils._services.mirror_plan import plan_cluster
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from ansible_collections.multicluster.network.plugins.module_utils._values.selectors import parse_selector
from hypothesis import given, strategies as st

NS = "sys-semaphore"
LABELS = {"mirrored-svc": "true", "mirror-svc-prefix-sync": "aws"}
MANAGER = "multicluster.network/t"
EVERYTHING = parse_selector("")
NAME = "aws-sys-log-73736d-fluentd"


def remote(**spec):
    given_spec = dict(
        {"clusterIP": "10.3.88.18", "ports": [{"name": "http", "port": 8888, "targetPort": "http", "nodePort": 30080}]},
        **spec,
    )
    return {
        "metadata": {
            "namespace": "sys-log",
            "name": "fluentd",
            "labels": {"team": "x"},
            "annotations": {"lb": "public"},
        },
        "spec": given_spec,
    }


def local(labels=None, **spec):
    shape = dict(
        {
            "clusterIP": "10.5.184.192",
            "type": "ClusterIP",
            "ports": [{"name": "http", "port": 8888, "targetPort": "http", "protocol": "TCP"}],
        },
        **spec,
    )
    return {"metadata": {"namespace": NS, "name": NAME, "labels": LABELS if labels is None else labels}, "spec": shape}


def planned(source, here, session_affinity=True, prefix="aws"):
    """(actions, reasons, the manifest that is written) of a run over one Service and what there is under its name."""
    given_options = Options(
        NS, EVERYTHING, None, None, {"aws": prefix, "gcp": "gcp"}, {}, session_affinity=session_affinity, max_deletes=-1
    )
    objects = [] if here is None else [copy.deepcopy(here)]
    for obj in objects:
        if obj["metadata"]["labels"] == LABELS or "mine" in obj["metadata"]["labels"]:
            owned = {"f:metadata": {"f:labels": {"f:mirrored-svc": {}}}, "f:spec": {"f:ports": {}}}
            obj["metadata"]["managedFields"] = [{"manager": MANAGER, "operation": "Apply", "fieldsV1": owned}]
    listed = Listed([] if source is None else [source], [], [], "endpoints", None)
    exports = {"aws": read_exports("aws", listed, given_options, Guard({})), "gcp": Exports({}, {}, [], {}, [])}
    plan, writes = plan_cluster("gcp", Listed(objects, [], [], "endpoints", None), exports, [], given_options, MANAGER)
    words = [refusal.reason for refusal in plan.refused + exports["aws"].refused]
    return [write.change.action for write in writes], words, writes[-1].manifest if writes else None


def test_created():
    actions, words, made = planned(
        remote(
            type="LoadBalancer",
            externalIPs=["10.5.0.1"],
            loadBalancerIP="x",
            selector={"a": "b"},
            healthCheckNodePort=1,
            externalTrafficPolicy="Local",
            ipFamilies=["IPv4"],
            publishNotReadyAddresses=True,
        ),
        None,
    )
    assert (actions, words) == (["create"], []) and made == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAME, "namespace": NS, "labels": LABELS},
        "spec": {"ports": [{"name": "http", "port": 8888, "targetPort": "http", "protocol": "TCP"}]},
    }


AFFINITY = {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}}}


@pytest.mark.parametrize(
    ("source", "here", "actions", "words"),
    [
        (remote(), local(), [], []),
        (remote(), local({}), [], ["adoptable"]),
        (remote(ports=[{"port": 1}]), local(), ["update"], []),
        (remote(ports=[{"port": 1}]), local(dict(LABELS, mine="yes")), ["update"], []),
        (remote(**AFFINITY), local(), ["update"], []),
        (remote(), local(**AFFINITY), ["update"], []),
        (remote(), local(selector={"a": "b"}), ["update"], []),  # its address stays
        (remote(clusterIP="None"), local(), ["delete", "create"], []),
        (remote(), local(clusterIP="None"), ["delete", "create"], []),
        (remote(clusterIP="None"), local(clusterIP="None"), [], []),
        (remote(type="ExternalName", externalName="x"), None, [], ["unsupported_type"]),
        (remote(type="ExternalName", externalName="x"), local(), [], ["unsupported_type"]),  # what exists stays
        (
            remote(type="ExternalName", externalName="x", ports=None),
            local(ports=[{"port": 1}]),
            [],
            ["unsupported_type"],
        ),
        (remote(ports=[{"port": 1}]), local({"team": "blue"}), [], ["not_ours"]),
        (remote(ports=[{"port": 1}]), local({}), [], ["adoptable"]),
        (None, local(), ["delete"], []),
        (None, local({"team": "blue"}), [], []),
        (None, local({}), [], []),
        (None, None, [], []),
    ],
)
def test_rows_of_the_table(source, here, actions, words):
    before = copy.deepcopy((source, here))
    assert planned(source, here)[:2] == (actions, words)
    assert (source, here) == before, "what is given is not changed"


def test_affinity_can_be_switched_off():
    assert (
        planned(remote(**AFFINITY), local())[0] == ["update"]
        and planned(remote(**AFFINITY), local(), session_affinity=False)[0] == []
    )


def test_names_that_cannot_be():
    long = remote()
    long["metadata"] = {"namespace": "n" * 30, "name": "s" * 30}
    assert planned(long, None)[:2] == ([], ["name_too_long"])
    assert planned(remote(), None, prefix="1")[:2] == ([], ["name_invalid"])
    assert mirror_name("fluentd", "sys-log", "aws") == NAME
    for bad in (("fluentd", "sys-log", "1aws"), ("f" * 60, "sys-log", "aws"), (1, "sys-log", "aws")):
        with pytest.raises(AnsibleFilterError, match="mirror_name: "):
            mirror_name(*bad)


SUBSETS = [
    {
        "addresses": [
            {
                "ip": "10.2.0.1",
                "nodeName": "n",
                "hostname": "h",
                "targetRef": {"kind": "Pod", "name": "p", "uid": "u"},
                "evil": 1,
            }
        ],
        "notReadyAddresses": [{"ip": "10.2.0.2"}],
        "ports": [{"port": 1, "name": "b"}, {"port": 2, "name": "a"}],
    }
]


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
    desired = {"subsets": [turned[1], dict(turned[0], ports=turned[0]["ports"][::-1])]}
    assert endpoints.aligned(desired, {"subsets": turned})["subsets"] == turned
    assert endpoints.aligned(desired, {"subsets": turned[:1]}) is desired


ADDRESSES = st.lists(st.integers(1, 6).map("10.2.0.{0}".format), max_size=5, unique=True)


@given(ADDRESSES, ADDRESSES)
def test_not_ready_and_empty_are_final(ready, waiting):
    subset = {
        "addresses": [{"ip": ip} for ip in ready],
        "notReadyAddresses": [{"ip": ip} for ip in waiting if ip not in ready],
        "ports": [{"port": 1}],
    }
    obj = {"metadata": {"name": "x", "namespace": NS, "labels": LABELS}, "subsets": [subset]}
    once = endpoints.not_ready(obj, False)
    assert endpoints.not_ready(once, False) == once and not any(subset.get("addresses") for subset in once["subsets"])
    assert endpoints.not_ready(obj, True)["subsets"] == []


def test_a_slice_that_is_stopped():
    one = {"addresses": ["10.2.0.1"], "conditions": {"serving": True, "terminating": True}}
    obj = {"metadata": {"name": "x"}, "addressType": "IPv4", "ports": [], "endpoints": [one]}
    assert endpoints.not_ready(obj, False)["endpoints"][0]["conditions"] == {
        "ready": False,
        "serving": False,
        "terminating": True,
    }
    assert endpoints.not_ready(obj, True)["endpoints"] == []


PIECE = {
    "metadata": {"name": "my-svc-1", "namespace": "ex", "labels": {"kubernetes.io/service-name": "my-svc"}},
    "addressType": "IPv4",
    "endpoints": [{"addresses": ["10.2.0.1"], "zone": "z9", "hints": {"forZones": [{"name": "evil"}]}}],
    "ports": [{"port": 1}],
}


def copied(source=None, local_cluster=False, zones=("z1",), opted_in=False):
    source = source or PIECE
    return global_services.global_slice(source, endpoints.from_slice(source), "aws", local_cluster, zones, opted_in, NS)


def test_slices_of_global_services():
    assert copied()["endpoints"] == [{"addresses": ["10.2.0.1"], "zone": "z9"}]
    assert copied(opted_in=True)["endpoints"][0] == {
        "addresses": ["10.2.0.1"],
        "zone": "remote",
        "hints": {"forZones": [{"name": "remote"}]},
    }
    assert copied(opted_in=True, local_cluster=True)["endpoints"][0]["hints"] == {"forZones": [{"name": "z1"}]}
    nameless = dict(PIECE, metadata={"name": "x", "namespace": "ex"})
    for reason, more in (
        ("too_many_zones", {"zones": ["z"] * 9}),
        ("missing_service_name_label", {"source": nameless}),
        ("unsupported_type", {"source": dict(PIECE, addressType="FQDN")}),
    ):
        with pytest.raises(ValueRefused) as raised:
            copied(**more)
        assert raised.value.reason == reason


def test_a_full_slice_stays_when_an_endpoint_comes():
    """The one that is too many gets a slice of its own, wherever its address sorts: one write, not two."""
    texts = [f"10.2.{high}.{low}" for high in range(1, 11) for low in range(1, 101)]
    ports = [{"name": "http", "port": 8080, "protocol": "TCP"}]

    def made(addresses, current=()):
        obj = {
            "metadata": {},
            "addressType": "IPv4",
            "ports": ports,
            "endpoints": [{"addresses": [text]} for text in addresses],
        }
        return slices.mirror_slices(
            "web", "mirrors", "aws", [endpoints.from_slice(obj)], "discovery.k8s.io/v1", current
        )

    full = made(texts)
    assert [len(one["endpoints"]) for one in full] == [1000]
    more = made(["10.2.0.1", *texts], full)
    assert more[0] == full[0] and [one["addresses"] for one in more[1]["endpoints"]] == [["10.2.0.1"]]
