# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The control plane's address: who is asked, who wins, what is written; and the Service alongside it."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers import (
    control_plane as cp,
    control_plane as ext,
)
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.control_plane import (
    FailureRecord,
    Hysteresis,
    may_move,
)
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.reservations import (
    Assignment,
    Reservation,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, settings, strategies as st

EIP = "192.0.2.9"
RULES = cp.Rules("tag", node_port=6443)


def node(name, number, **more):
    addresses = (("Hostname", name), ("InternalIP", f"10.0.0.{number}"))
    return cp.Node(name, {cp.LABELS[0]: ""}, "packet://dev-" + name, addresses, **more)


A, B, C = node("a", 1), node("b", 2), node("c", 3)
HOLDING = A._replace(addresses=A.addresses + (("ExternalIP", EIP),))


def held(device="", assigned=True, **more):
    assignments = (Assignment("as1", EIP, device),) if assigned else ()
    return Reservation("r1", EIP, tags=("tag",), assignments=assignments, **more)


def drive(reservations, nodes, healthy=(), rules=RULES, event=cp.Event()):
    asked = []
    run = cp.decide(reservations, nodes, rules, event)
    try:
        url = next(run)
        while True:
            asked.append(url)
            url = run.send(200 if any(text in url for text in healthy) else 403)
    except StopIteration as stop:
        return stop.value, asked


def reason_of(*arguments, **named):
    with pytest.raises(ValueRefused) as raised:
        drive(*arguments, **named)
    return raised.value.reason


def test_the_holder_has_the_assigned_address_of_a_block():
    other = "192.0.2.10"
    block = held()._replace(cidr=31, assignments=(Assignment("as1", other),))
    holding = A._replace(addresses=A.addresses + (("ExternalIP", other),))
    decision, _asked = drive([block], [holding, B], healthy=["10.0.0.2"])
    assert (decision.holder, decision.winner, decision.unassign) == ("a", "b", "as1")


def test_silence_and_refusals():
    assert drive([], [], rules=cp.Rules("")) == (cp.Decision(), [])
    assert reason_of([], [A]) == "eip_not_found"
    assert reason_of([held(), held()._replace(id="r2")], [A]) == "claimed_twice"
    first = RULES._replace(on_duplicate="first")
    assert drive([held(), held()._replace(id="r2")], [HOLDING], (EIP,), first)[0].healthy
    assert reason_of([held()._replace(assignments=(Assignment("1"), Assignment("2")))], [A]) == "multiple_assignments"
    assert reason_of([held()], [A], rules=cp.Rules("tag")) == "port_unknown"
    assert reason_of([held()], [HOLDING, B]) == "no_candidate"
    assert reason_of([held()._replace(address="")], [A]) == "eip_not_found"


def test_health_and_the_order_of_candidates():
    assert drive([held()], [HOLDING, B], (EIP,)) == (cp.Decision(EIP, "a", True), ["https://192.0.2.9:6443/healthz"])
    decision, asked = drive([held()], [C, HOLDING, B], ("10.0.0.3",))
    assert (decision.unassign, decision.device, decision.winner) == ("as1", "dev-c", "c")
    assert [url.split("/")[2] for url in asked] == ["192.0.2.9:6443", "10.0.0.2:6443", "10.0.0.3:6443"]
    own, _asked = drive([held()], [HOLDING, B], ("10.0.0.1",))
    assert own == cp.Decision(EIP, "a", False) and not own.moves
    free, asked = drive([held(assigned=False)], [A, B], ("10.0.0.1",))
    assert (free.unassign, free.device, len(asked)) == ("", "dev-a", 1)
    by_device, _asked = drive([held("dev-b")], [A, B], ("10.0.0.2",))
    assert by_device.holder == "b" and not by_device.moves
    assert reason_of([held()], [HOLDING, B._replace(provider_id="aws://x")], ("10.0.0.2",)) == "no_candidate"


def test_host_probe_and_ports():
    rules = RULES._replace(host_probe=True, eip_port=443)
    public = HOLDING._replace(addresses=HOLDING.addresses + (("ExternalIP", "192.0.2.77"),))
    assert drive([held()], [public], ("192.0.2.77",), rules)[1] == ["https://192.0.2.77:6443/healthz"]
    assert drive([held()], [HOLDING], (EIP,), rules)[1] == ["https://192.0.2.9:443/healthz"]
    assert cp.health_url("2001:db8::1", 6443) == "https://[2001:db8::1]:6443/healthz"


def test_cordoned_deleted_and_drained():
    assert drive([held()], [HOLDING, B._replace(deleting=True), C], ("10.0.0",))[0].winner == "c"
    assert drive([held()], [HOLDING, B._replace(unschedulable=True), C], ("10.0.0",))[0].winner == "c"
    every = [HOLDING._replace(unschedulable=True), B._replace(unschedulable=True)]
    assert drive([held()], every, ("10.0.0",))[0].winner == "b"
    leaving = cp.Event(cp.UPDATE, "a", True)
    assert drive([held()], [HOLDING, B], (EIP, "10.0.0"), event=leaving)[0].winner == "b"
    assert not drive([held()], [HOLDING], (EIP, "10.0.0"), event=leaving)[0].moves
    gone = cp.Event(cp.REMOVE, "a", gone=HOLDING)
    assert drive([held()], [B, C], ("10.0.0",), event=gone)[0].winner == "b"
    for event in (cp.Event(cp.REMOVE, "b", gone=B), cp.Event(cp.UPDATE, "b", True)):
        assert drive([held()], [HOLDING, C], event=event) == (cp.Decision(EIP, "a"), [])


def test_a_node_cannot_make_us_ask_elsewhere():
    liar = B._replace(
        addresses=(
            ("InternalIP", "169.254.169.254"),
            ("InternalIP", "127.0.0.1"),
            ("InternalDNS", "evil.example"),
            ("InternalIP", "x"),
        )
    )
    with pytest.raises(ValueRefused, match="no_candidate"):
        drive([held()], [HOLDING, liar])
    assert cp.node_of(
        {"metadata": {"name": "a"}, "spec": {}, "status": {"addresses": [{"type": "InternalIP", "address": "x"}, None]}}
    ).addresses


@settings(max_examples=80, deadline=None)
@given(st.permutations([HOLDING, B, C]), st.sets(st.sampled_from(["10.0.0.1", "10.0.0.2", "10.0.0.3"])))
def test_whoever_wins_is_healthy_whatever_the_order(nodes, healthy):
    try:
        decision, _asked = drive([held()], nodes, tuple(healthy))
    except ValueRefused as refused:
        assert refused.reason == "no_candidate" and not healthy
        return
    expected = sorted(healthy, key=lambda text: (text == "10.0.0.1", text))[0]
    assert decision.winner == {"10.0.0.1": "", "10.0.0.2": "b", "10.0.0.3": "c"}[expected]


def test_patience():
    calm = Hysteresis(3, 60)
    record = FailureRecord()
    moves = []
    for now, healthy in enumerate([False, False, True, False, False, False]):
        if not healthy and may_move(record, calm, now):
            moves.append(now)
        record = FailureRecord(0 if healthy else record.failures + 1)
    assert moves == [5]
    assert not may_move(FailureRecord(9, 100.0), calm, 130.0) and may_move(FailureRecord(9, 100.0), calm, 160.0)
    assert may_move(FailureRecord(9, 100.0), calm, 1.0)
    assert may_move(FailureRecord(), Hysteresis(1, 0), 0.0)


PORTS = [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}]


def test_the_external_service():
    made = ext.external_service("metal-ccm", EIP, PORTS, load_balancer_class="owned")
    assert (
        made["spec"]["ports"][0]["port"] == 6443
        and made["spec"]["loadBalancerClass"] == "owned"
        and "selector" not in made["spec"]
    )
    assert set(made["metadata"]["annotations"]) == set(ext.POOL_ANNOTATIONS)
    stored = {
        "metadata": {"annotations": {"a/b": "c"}, "uid": "u"},
        "spec": {"clusterIP": "10.3.0.9", "selector": {"x": "y"}, "ports": [dict(PORTS[0], nodePort=30443)]},
    }
    kept = ext.external_service("metal-ccm", EIP, PORTS, 443, stored)
    assert (
        kept["spec"]["clusterIP"] == "10.3.0.9"
        and kept["spec"]["ports"][0]["nodePort"] == 30443
        and kept["spec"]["ports"][0]["port"] == 443
    )
    assert (
        kept["metadata"]["annotations"]["a/b"] == "c" and "selector" not in kept["spec"] and stored["spec"]["selector"]
    )
    assert ext.external_service("metal-ccm", EIP, PORTS, 443, kept) == kept
    for ports, reason in (([], "no_ports"), ([{"port": 443, "targetPort": "https"}], "port_unknown")):
        with pytest.raises(ValueRefused, match=reason):
            ext.external_service("metal-ccm", EIP, ports)


def test_its_endpoints():
    assert (
        ext.uses_slices((1, 33))
        and not ext.uses_slices((1, 32))
        and ext.uses_slices((1, 20), "slices")
        and not ext.uses_slices((1, 40), "endpoints")
    )
    found = ext.endpoints(
        "metal-ccm", {"subsets": [{"addresses": [{"ip": "10.0.0.1", "nodeName": "n"}], "ports": [{"port": 6443}]}]}
    )
    assert found["subsets"] == [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 6443}]}]
    rows = [
        {
            "metadata": {"name": name, "namespace": "default", "labels": {"kubernetes.io/service-name": service}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.1"], "targetRef": {}}],
            "ports": [],
        }
        for name, service in (("k", "kubernetes"), ("w", "web"))
    ]
    (made,) = ext.endpoint_slices("metal-ccm", rows)
    assert (
        made["endpoints"] == [{"addresses": ["10.0.0.1"]}]
        and made["metadata"]["name"] == "metal-ccm-kubernetes-external"
    )


@pytest.mark.parametrize(
    ("status", "same"),
    [
        (None, False),
        ({}, False),
        ({"loadBalancer": {"ingress": []}}, False),
        ({"loadBalancer": {"ingress": [{"ip": "203.0.113.9"}]}}, True),
        ({"loadBalancer": {"ingress": [{"ip": "203.0.113.9", "ipMode": "VIP"}]}, "conditions": []}, True),
        ({"loadBalancer": {"ingress": [{"ip": "203.0.113.9"}, {"ip": "203.0.113.8"}]}}, False),
        ({"loadBalancer": {"ingress": [{"hostname": "x"}]}}, False),
        ({"loadBalancer": {"ingress": ["203.0.113.9"]}}, False),
    ],
)
def test_a_status_that_has_it_already(status, same):
    assert ext.reports({"status": status}, "203.0.113.9") is same
