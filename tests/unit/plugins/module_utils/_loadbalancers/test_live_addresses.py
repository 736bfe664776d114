# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses that are in use, wherever they are, are not changed by anything but the wish to renumber."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers import (
    address_claims as live,
    reservations,
    service_plan,
    services,
)
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.address_claims import (
    AddressRules,
    check_address_claims,
)
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.cost_plan import cost_plan
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.pools import parse_pool
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, settings, strategies as st

OWNER = reservations.Owner("metal-ccm", "uid-1")
RULES = AddressRules(OWNER)
POOL = parse_pool(["192.0.2.0/28"])
CONTEXT = service_plan.Context(OWNER, None, pool=POOL, gc_orphans=True, release_unrecorded=True, reports_status=True)
METALLB, CILIUM = "metallb.io/loadBalancerIPs", "lbipam.cilium.io/ips"


def service(name="web", **more):
    return services.Service("default", name, **more)


def reserved(name="web", address="192.0.2.1"):
    return reservations.Reservation(
        "r-" + address, address, tags=tuple(reservations.service_tags(OWNER, "default", name))
    )


def settled(one, held=(), adopt=False, rules=RULES):
    return live.settle([one], list(held), live.Settling(rules, POOL, adopt))[0]


def steps(one, held=(), adopt=False, context=CONTEXT):
    outcome = service_plan.outcome_of(settled(one, held, adopt), list(held), context)
    return [(action.action, str(action.address)) for action in outcome.actions]


def refused(one, held=(), adopt=False):
    with pytest.raises(ValueRefused) as raised:
        steps(one, held, adopt)
    return raised.value


def test_an_address_of_the_status_alone_is_left_where_nobody_adopts():
    mine = refused(service(ingress=("192.0.2.5",)))
    assert mine.reason == "adoptable" and "load_balancers_adopt: true" in mine.message and "192.0.2.5" in mine.message
    other = refused(service(ingress=("198.51.100.5",)), adopt=True)
    assert other.reason == "outside_grant" and "load_balancers_renumber: [198.51.100.5/32]" in other.message
    # also where another one is reserved for it, and where a name or two addresses are there
    assert "192.0.2.1 is reserved for it" in refused(service(ingress=("198.51.100.5",)), [reserved()]).message
    assert "load_balancers_renumber: true" in refused(service(hosts=("lb.example.org",))).message
    assert refused(service(ingress=("192.0.2.5", "2001:db8::5")), adopt=True).reason == "outside_grant"
    assert refused(service(address="192.0.2.5", hosts=("lb.example.org",)), adopt=True).reason == "outside_grant"


def test_adoption_writes_the_same_address_down():
    assert steps(service(ingress=("192.0.2.5",)), adopt=True) == [
        ("set_service_ip", "192.0.2.5"),
        ("map", "192.0.2.5/32"),
    ]
    # MetalLB drops the address of a Service that has both, and another one's annotation names it already
    for name in (METALLB, CILIUM):
        assert steps(service(ingress=("192.0.2.5",), annotations={name: "192.0.2.5"}), adopt=True) == [
            ("map", "192.0.2.5/32")
        ]
    # the reserved one, and what we had reported ourselves, need no adoption
    assert steps(service(ingress=("192.0.2.1",)), [reserved()]) == [
        ("set_service_ip", "192.0.2.1"),
        ("map", "192.0.2.1/32"),
    ]
    assert steps(service(ingress=("192.0.2.5",), reported=True)) == [
        ("set_service_ip", "192.0.2.5"),
        ("map", "192.0.2.5/32"),
    ]
    two = [reserved(), reserved(address="192.0.2.2")]
    assert steps(service(ingress=("192.0.2.2",)), two)[0] == ("set_service_ip", "192.0.2.2")


def test_an_own_report_of_another_services_address_is_stale():
    stale = service("old", ingress=("192.0.2.1",), reported=True)
    assert [step[0] for step in steps(stale, [reserved()])][:2] == ["reserve", "set_service_ip"]
    shared = stale._replace(annotations={"metallb.io/allow-shared-ip": "k"})
    assert steps(shared, [reserved()]) == [("set_service_ip", "192.0.2.1"), ("map", "192.0.2.1/32")]


def test_what_others_reported_is_not_overwritten():
    alongside = service(address="198.51.100.7", ingress=("203.0.113.9",))
    outcome = service_plan.outcome_of(alongside, [], CONTEXT)
    assert [action.action for action in outcome.actions] == ["map"] and "203.0.113.9" in outcome.notes[0]
    assert [step[0] for step in steps(alongside._replace(reported=True))] == ["map", "report"]
    assert [step[0] for step in steps(alongside, [reserved(address="203.0.113.9")])] == [
        "map",
        "report",
    ]  # we had reported it
    # one of two addresses is no reason to drop the other
    assert [step[0] for step in steps(service(address="192.0.2.5", ingress=("192.0.2.5", "2001:db8::5")))] == ["map"]


def without(one, texts, held=(), pool=POOL, backend="", annotation=False):
    return live.give_up(
        [one], list(held), RULES._replace(backend=backend), pool, live.parse_renumber(texts), annotation
    )[0]


def test_what_is_given_up():
    old = service(address="147.75.10.1", ingress=("147.75.10.1",))
    assert without(old, ["147.75.0.0/16"]) == service()
    assert without(service(ingress=("147.75.10.1",)), ["147.75.0.0/16"]) == service()
    assert without(old, []) == old == without(old, ["False"]) == without(old, ["198.51.100.0/24"])
    # true is everything that is neither reserved for the Service nor of the pool
    for kept in (service(address="192.0.2.5"), service(ingress=("192.0.2.5",))):
        assert without(kept, ["True"]) == kept
    assert without(old, ["true"]) == service() and without(service(hosts=("x",)), ["true"]) == service()
    own = [reserved(address="147.75.10.1")]
    assert without(old, ["true"], own) == old == without(old, ["147.75.0.0/16"], own)
    # of annotations only those that we write
    named = service(annotations={METALLB: "147.75.10.1", "x": "y"})
    assert without(named, ["true"], backend="metallb") == named
    assert without(named, ["true"], backend="metallb", annotation=True) == service(annotations={"x": "y"})
    left = service(type="ClusterIP", address="147.75.10.1")
    assert without(left, ["true"]) == left
    with pytest.raises(ValueRefused):
        live.parse_renumber(["everything"])


ADDRESSES = st.sampled_from(
    [f"192.0.2.{number}" for number in range(1, 8)] + ["198.51.100.7", "147.75.10.1", "2001:db8::5"]
)
NAMES = st.sampled_from(["a", "b", "c", "d"])
SERVICES = st.builds(
    lambda name, address, annotations, ingress, hosts, owned, reported: services.Service(
        "default",
        name,
        address=address,
        annotations=annotations,
        ingress=tuple(ingress),
        hosts=tuple(hosts),
        set_by_us=owned,
        reported=reported,
    ),
    NAMES,
    st.one_of(st.just(""), ADDRESSES),
    st.dictionaries(st.sampled_from([METALLB, CILIUM, "kube-vip.io/loadbalancerIPs"]), ADDRESSES, max_size=1),
    st.lists(ADDRESSES, max_size=2, unique=True),
    st.lists(st.just("lb.example.org"), max_size=1),
    st.booleans(),
    st.booleans(),
)
RESERVED = st.lists(st.builds(reserved, NAMES, ADDRESSES), max_size=5, unique_by=lambda item: item.address)


@settings(max_examples=600, deadline=None)
@given(
    st.lists(SERVICES, max_size=4, unique_by=lambda item: item.name),
    RESERVED,
    st.sampled_from(["", "metallb", "kube-vip"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["refuse", "first"]),
    st.booleans(),
    st.sampled_from(["delete", "retain"]),
    st.booleans(),
)
def test_no_option_but_renumber_changes_an_address_in_use(
    rows, held, backend, adopt, has_pool, duplicates, reports, reclaim, sweep
):
    context = CONTEXT._replace(
        backend=backend,
        on_duplicate=duplicates,
        reports_status=reports,
        reclaim_policy=reclaim,
        gc_orphans=sweep,
        pool=POOL if has_pool else parse_pool([]),
    )
    rules = RULES._replace(backend=backend)
    known = live.settle(rows, held, live.Settling(rules, context.pool, adopt))
    kept, dummy = check_address_claims(known, held, rules)
    plan = cost_plan(kept, held, context._replace(gc_orphans=False))
    by_key = {row.key: row for row in rows}
    mapped = plan.networks
    for key, outcome in plan.outcomes.items():
        before = by_key[key]
        in_use = (
            [services.address_of(before, backend)]
            if services.address_of(before, backend)
            else list(before.ingress + before.hosts)
        )
        theirs = {item.address for item in reservations.matches_of(held, OWNER, "default", before.name)}
        stale = before.reported and not set(before.ingress) & theirs
        for action in outcome.actions:
            if in_use and not stale and action.action in (service_plan.SET_ADDRESS, service_plan.REPORT):
                assert str(action.address) in in_use
            if action.action == service_plan.REPORT:
                assert before.reported or not before.ingress or set(before.ingress) & theirs
            assert not (action.action == service_plan.RESERVE and in_use and not stale)
        if key in mapped and in_use and not stale:
            assert [network.split("/")[0] in in_use for network in mapped[key]] == [True]
    assert all(
        row == before._replace(live=row.live) or (before.reported and row == before._replace(ingress=()))
        for row, before in zip(known, rows)
    )
    used = {text for row in known for text in (row.address, services.annotated_address(row, backend), *row.ingress)} - {
        ""
    }
    swept = service_plan.orphans(known, held, context)  # what was refused is in use all the same
    assert not used & {
        str(action.address).partition("/")[0]
        for action in swept.actions
        if action.action in (service_plan.RELEASE, service_plan.UNMAP)
    }
