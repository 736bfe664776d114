# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whole plans of a cluster, in every back end: no live address changes unless renumber asks for it."""

from __future__ import annotations

import json
import pathlib

import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers.run import parse_run_options
from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers.service_addresses import (
    ServiceAddressReconciler,
)
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Listing, Resource
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers import reservations
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.setup import parse_setup, parse_setups
from hypothesis import given, settings, strategies as st

HOSTILE = json.loads(
    (pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "hostile" / "load_balancers.json").read_text("utf-8")
)
MANAGER = "multicluster.network/t"
BALANCERS = [
    "empty://",
    "kube-vip://",
    "metallb:///metallb-system/config",
    "metallb:///metallb-system?crdConfiguration=true",
]
ANNOTATION = "metallb.io/loadBalancerIPs"
LABEL = {"cloud-provider": "equinix-metal"}
PLURALS = {
    "IPAddressPool": "ipaddresspools",
    "BGPAdvertisement": "bgpadvertisements",
    "BGPPeer": "bgppeers",
    "Secret": "secrets",
    "L2Advertisement": "l2advertisements",
}


class Cluster:
    """Answers reads out of what a test gives; any write is an error."""

    cluster = "aws"

    def __init__(self, services, ledger, pools):
        rows = [
            {"name": name, "protocol": "bgp", "auto-assign": False, "addresses": [address + "/32"]}
            for name, address in pools.items()
        ]
        config = {
            "metadata": {"name": "config", "resourceVersion": "1"},
            "data": {"config": yaml.safe_dump({"address-pools": rows})},
        }
        made = {name: dict(LABEL, **{"service-" + name.split("/")[1]: "namespace-default"}) for name in pools}
        self.lists = {
            "/api/v1/services": services,
            "/api/v1/nodes": [],
            "/api/v1/namespaces/kube-system/configmaps": [
                {"metadata": {"name": "metal-ccm-static-pool", "resourceVersion": "1"}, "data": ledger}
            ],
            "/api/v1/namespaces/metallb-system/configmaps": [config],
            "/apis/metallb.io/v1beta1/namespaces/metallb-system/ipaddresspools": [
                {
                    "metadata": {
                        "name": name.replace("/", "."),
                        "resourceVersion": "1",
                        "labels": made[name],
                        "managedFields": [{"manager": MANAGER}],
                    },
                    "spec": {"addresses": [address + "/32"], "autoAssign": False},
                }
                for name, address in pools.items()
            ],
        }

    def get(self, path):
        assert path == "/api/v1/namespaces/kube-system"
        return {"metadata": {"uid": "uid-1"}}

    def list(self, path, label_selector=None, field_selector=None):
        return Listing(json.loads(json.dumps(self.lists.get(path, []))), "1")

    def list_served(self, path, label_selector=None, field_selector=None):
        return self.list(path).items

    def resource(self, version, kind):
        return Resource(version, kind, PLURALS[kind], True, frozenset(["get", "list", "patch", "create", "delete"]))

    def serves(self, version, kind):
        return True


def service(name, address, annotation, ingress, host, owned, reported):
    status = [{"ip": one} for one in ingress] + ([{"hostname": "lb.example.org"}] if host else [])
    fields = [
        ({"f:spec": {"f:loadBalancerIP": {}}}, owned and address),
        ({"f:status": {"f:loadBalancer": {"f:ingress": {}}}}, reported and ingress),
    ]
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "resourceVersion": "1",
            "annotations": {ANNOTATION: annotation} if annotation else {},
            "managedFields": [
                {"manager": MANAGER, "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": tree}
                for tree, counts in fields
                if counts
            ],
        },
        "spec": dict({"type": "LoadBalancer"}, **({"loadBalancerIP": address} if address else {})),
        "status": {"loadBalancer": {"ingress": status} if status else {}},
    }


def entry(name, address):
    tags = reservations.service_tags(reservations.Owner("metal-ccm", "uid-1"), "default", name)
    return json.dumps({"id": address, "address": address, "cidr": 32, "tags": tags, "service": "default/" + name})


ADDRESSES = st.sampled_from([f"192.0.2.{number}" for number in range(6)] + ["198.51.100.7", "147.75.10.1"])
NAMES = st.sampled_from(["a", "b", "c"])
SERVICES = st.lists(
    st.builds(
        service,
        NAMES,
        st.one_of(st.none(), ADDRESSES),
        st.one_of(st.none(), ADDRESSES),
        st.lists(ADDRESSES, max_size=2, unique=True),
        st.booleans(),
        st.booleans(),
        st.booleans(),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda item: item["metadata"]["name"],
)


def plan(balancer, services, held, pools, request=None, **more):
    given = dict(
        {"cluster": "aws", "load_balancer": balancer, "pool": ["192.0.2.0/29"], "gc_orphans": True, "bgp_nodes": []},
        **more,
    )
    ledger = {address: entry(name, address) for address, name in held.items()}
    return report_of(Cluster(services, ledger, pools), parse_setup(given, {}, None), request or {})


def report_of(cluster, setup, request):
    one = ServiceAddressReconciler(cluster, setup, parse_run_options(request, "aws"), MANAGER)
    one.gather()
    return one.plan()


def ingress_of(one):
    return [row.get("ip") or row["hostname"] for row in one["status"]["loadBalancer"].get("ingress") or ()]


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(BALANCERS),
    SERVICES,
    st.dictionaries(ADDRESSES, NAMES, max_size=3),
    st.dictionaries(NAMES.map("default/{0}".format), ADDRESSES, max_size=2),
    st.fixed_dictionaries(
        {},
        optional={
            "adopt": st.booleans(),
            "confirm_empty": st.just(["aws"]),
            "max_deletes": st.sampled_from([-1, 0, 1]),
            "release": st.booleans(),
            "renumber": st.just([]),
            "fail_on_refused": st.booleans(),
        },
    ),
    st.fixed_dictionaries(
        {},
        optional={
            "service_ip_field": st.sampled_from(["spec", "annotation"]),
            "reclaim_policy": st.sampled_from(["delete", "retain"]),
            "release_unrecorded": st.booleans(),
            "gc_orphans": st.booleans(),
            "max_prefixes": st.integers(0, 4),
            "on_duplicate_reservation": st.sampled_from(["first", "refuse"]),
        },
    ),
)
def test_no_plan_changes_a_live_address(balancer, services, held, pools, request, more):
    report = plan(balancer, services, held, pools, request, **more)
    known = {"aws/default/" + one["metadata"]["name"]: one for one in services}
    metallb = balancer.startswith("metallb")
    used = set()
    for key, one in known.items():
        named = (
            one["spec"].get("loadBalancerIP") or (metallb and one["metadata"]["annotations"].get(ANNOTATION)) or None
        )
        reserved = {address for address, name in held.items() if "aws/default/" + name == key}
        others = set(held) - reserved
        # an own report of an address that is another Service's by now is stale
        stale = not named and set(ingress_of(one)) & others and (one["metadata"]["managedFields"] or pools)
        live = [named] if named else ingress_of(one)
        used |= set() if stale else set(live)
        for change in report.plan.changes:
            if change.id != key or stale:
                continue
            if change.kind == "Service" and live:
                assert change.after["address"] in live, change
            if change.kind == "Service status" and ingress_of(one):
                assert {row["ip"] for row in change.after["ingress"]} <= set(live), change
            assert not (
                change.kind == "Reservation" and change.action == "create" and live and not change.after.get("adopted")
            ), change
    gone = {
        change.before["address"]
        for change in report.plan.changes
        if change.kind == "Reservation" and change.action == "delete"
    }
    assert not gone & used


@pytest.mark.parametrize("balancer", BALANCERS[2:])
def test_what_our_own_entry_in_metallb_serves_stays_without_any_record(balancer):
    """The field was emptied and the record is lost: MetalLB still serves the address, out of an owned pool."""
    report = plan(
        balancer, [service("a", None, None, ["192.0.2.3"], False, False, False)], {}, {"default/a": "192.0.2.3"}
    )
    assert not report.plan.refused
    assert [
        (change.kind, change.after)
        for change in report.plan.changes
        if change.kind in ("Service", "IPAddressPool", "ConfigMap")
    ] == [("Service", {"address": "192.0.2.3"})]
    other = plan(balancer, [service("a", None, None, ["192.0.2.3"], False, False, False)], {}, {})
    assert [refusal.reason for refusal in other.plan.refused] == ["adoptable"] and not other.plan.changes


@pytest.mark.parametrize("balancer", BALANCERS)
@pytest.mark.parametrize("row", HOSTILE["addresses_of_something_else"], ids=lambda row: row["why"])
@pytest.mark.parametrize("where", ["field", "annotation", "status", "record", "control plane's record"])
def test_nobody_gets_what_is_for_something_else(balancer, row, where):
    """A node's, a router's, a pod's address: whatever a Service or a record states, nobody announces it, and the others go on."""
    address, metallb = row["address"], balancer.startswith("metallb")
    evil = service(
        "evil",
        address if where == "field" or where == "annotation" and not metallb else None,
        address if where == "annotation" else None,
        [address] if where == "status" else [],
        False,
        False,
        where == "status",
    )
    good = service("good", None, None, [], False, False, False)
    ledger = {"192.0.2.1": entry("good", "192.0.2.1")}
    if where.endswith("record"):
        ledger[address] = entry("evil", address)
    if where.startswith("control"):
        ledger[address] = json.dumps(
            dict(json.loads(ledger[address]), tags=[*json.loads(ledger[address])["tags"], "cp"])
        )
    given = {
        "cluster": "aws",
        "load_balancer": balancer,
        "pool": ["192.0.2.0/29"],
        "bgp_nodes": [],
        "reserved_ranges": HOSTILE["reserved_ranges"],
        "eip_tag": "cp",
    }
    for request in ({}, {"adopt": True}):
        report = report_of(Cluster([evil, good], ledger, {}), parse_setup(given, {}, None), request)
        what = "reservation aws/" + address if where.endswith("record") else "service aws/default/evil"
        assert [(one.object, one.reason) for one in report.plan.refused] == [(what, "outside_grant")]
        assert address in report.plan.refused[0].message and "load_balancers_settings" in report.plan.refused[0].message
        reported = json.dumps(
            [[change.kind, change.after] for change in report.plan.changes], default=str
        ) + json.dumps(report.shown["announce"])
        assert address not in reported and "192.0.2.1" in reported


def test_a_cluster_with_refused_services_is_not_one_to_confirm_as_empty():
    """What is left over stays, and what is to be fixed is named; the line for confirm_empty would give the addresses back alongside the mistake."""
    row = HOSTILE["addresses_of_something_else"][0]
    refused = service("evil", row["address"], None, [], False, False, False)
    report = plan("empty://", [refused], {"192.0.2.1": "gone"}, {}, reserved_ranges=HOSTILE["reserved_ranges"])
    (reported,) = [one for one in report.plan.refused if one.reason == "delete_budget"]
    assert (
        "192.0.2.1 stay" in reported.message
        and "service aws/default/evil [outside_grant]" in reported.message
        and "confirm_empty" not in reported.message
    )
    assert report.shown["kept"] == ["192.0.2.1"] and not report.plan.changes
    (reported,) = plan("empty://", [dict(refused, spec={"type": "ClusterIP"})], {"192.0.2.1": "gone"}, {}).plan.refused
    assert "load_balancers_confirm_empty: [aws]" in reported.message


def test_a_pool_does_not_hand_out_what_the_inventory_names_as_a_hosts():
    services = [service(f"a{number}", None, None, [], False, False, False) for number in range(8)]
    report = plan("empty://", services, {}, {}, reserved_ranges=HOSTILE["reserved_ranges"])
    assert report.shown["announce"] == [f"192.0.2.{number}/32" for number in (0, 1, 2, 3, 4, 5, 7)]
    assert [one.reason for one in report.plan.refused] == ["quota"]


@pytest.mark.parametrize("balancer", BALANCERS)
@pytest.mark.parametrize("row", HOSTILE["pools_of_others"], ids=lambda row: row["why"])
def test_nobody_gets_what_the_pool_of_another_cluster_has(balancer, row):
    """Whatever a cluster's Services and records say: only single addresses, and none of another cluster's pool."""
    if row.get("annotation") and not balancer.startswith("metallb"):
        balancer = BALANCERS[2]
    ingress = [row["ingress"]] if row.get("ingress") else []
    evil = service("evil", row.get("address"), row.get("annotation"), ingress, False, False, bool(ingress))
    good = service("good", None, None, [], False, False, False)
    ledger = {"192.0.2.1": entry("good", "192.0.2.1")}
    if row.get("record"):
        ledger["192.0.2.5"] = json.dumps(dict(json.loads(entry("evil", row["record"]["address"])), **row["record"]))
    rows = [
        {"cluster": name, "load_balancer": balancer, "pool": pool, "bgp_nodes": []}
        for name, pool in HOSTILE["pools"].items()
    ]
    setups = parse_setups(rows, {}, {})[0]
    for request in ({}, {"adopt": True}):
        report = report_of(Cluster([evil, good], ledger, {}), setups["aws"], request)
        what = "reservation aws/203.0.113.1" if row.get("record") else "service aws/default/evil"
        assert [(one.object, one.reason) for one in report.plan.refused] == (
            [(what, row["word"])] if row["word"] else []
        )
        assert all("is of the pool of cluster victim" in one.message for one in report.plan.refused)
        reported = json.dumps(
            [change.after for change in report.plan.changes if change.kind != "Reservation"], default=str
        )
        assert (
            "203.0.113" not in reported and "/24" not in reported and '/1"' not in reported and "192.0.2.1" in reported
        )
        if balancer.startswith("empty"):
            # a Service with a record that is not believed gets an address of its own cluster's pool
            fresh = ["192.0.2.0/32"] if row.get("record") and row["word"] else []
            assert report.shown["announce"] == [*fresh, "192.0.2.1/32", *([] if row["word"] else ["192.0.2.5/32"])]
