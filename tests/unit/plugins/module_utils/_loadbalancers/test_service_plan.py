# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Services and their addresses: what is ordered, kept and given back."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers import (
    cost_plan,
    reservations,
    service_plan,
    services,
)
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.service_plan import Places
from ansible_collections.multicluster.network.plugins.module_utils._plan.plan import Pending
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, settings, strategies as st

OWNER = reservations.Owner("metal-ccm", "uid-1")
CONTEXT = service_plan.Context(OWNER, Places("da"), backend="metallb", gc_orphans=True)


def service(name="web", address="", **more):
    return services.Service("default", name, address=address, **more)


def reserved(name="web", address="192.0.2.1", ident=None, owner=OWNER, **more):
    tags = tuple(reservations.service_tags(owner, "default", name))
    return reservations.Reservation(ident or "r-" + name, address, tags=tags, **more)


def names(outcome):
    return [(action.action, str(action.address or action.id)) for action in outcome.actions]


def test_an_order_is_shown_with_what_follows():
    outcome = service_plan.outcome_of(service(), [], CONTEXT)
    assert [action.action for action in outcome.actions] == ["reserve", "set_service_ip", "map"]
    assert isinstance(outcome.actions[1].address, Pending) and outcome.actions[0].request["metro"] == "da"
    again = service_plan.outcome_of(service(), [reserved()], CONTEXT)
    assert names(again) == [("set_service_ip", "192.0.2.1"), ("map", "192.0.2.1/32")]


def test_pending_denied_and_duplicates():
    assert service_plan.outcome_of(service(), [reserved(address="", state="pending")], CONTEXT) == service_plan.Outcome(
        [], "Requested"
    )
    with pytest.raises(ValueRefused, match="denied"):
        service_plan.outcome_of(service(), [reserved(address="", state="denied")], CONTEXT)
    two = [reserved(), reserved(address="192.0.2.2", ident="spoof")]
    with pytest.raises(ValueRefused, match="r-web.*spoof") as raised:
        service_plan.outcome_of(service(), two, CONTEXT)
    assert raised.value.reason == "claimed_twice"
    assert names(service_plan.outcome_of(service(address="192.0.2.2"), two, CONTEXT)) == [("map", "192.0.2.2/32")]
    recorded = CONTEXT._replace(recorded=frozenset(["r-web"]))
    assert names(service_plan.outcome_of(service(), two[::-1], recorded))[0] == ("set_service_ip", "192.0.2.1")
    assert reservations.reservation_of(two, OWNER, "default", "web", on_duplicate="first").id == "r-web"


def test_an_address_in_use_stays_whoever_wrote_it():
    held = [reserved()]
    for has in (service(address="198.51.100.7"), service(address="198.51.100.7", set_by_us=True)):
        kept = service_plan.outcome_of(has, held, CONTEXT)
        assert names(kept) == [("map", "198.51.100.7/32")]
        assert "192.0.2.1" in kept.notes[0] and "load_balancers_renumber: [198.51.100.7/32]" in kept.notes[0]
    annotated = service(annotations={"metallb.io/loadBalancerIPs": "2001:db8::7,192.0.2.9"}, set_by_us=True)
    assert names(service_plan.outcome_of(annotated, held, CONTEXT)) == [("map", "2001:db8::7/128")]


def test_who_counts():
    for one in (
        services.Service("kube-system", "packet-ccm-kubernetes-external"),
        service(load_balancer_class="other/one"),
        service(annotations={"metal.equinix.com/loadbalancer-managed": "False"}),
        service(type="ClusterIP"),
    ):
        assert service_plan.outcome_of(one, [], CONTEXT) == service_plan.Outcome([])
    assert services.counts(service(load_balancer_class="mine"), "mine")
    obj = {
        "metadata": {"namespace": "default", "name": "web"},
        "spec": {"type": "LoadBalancer", "loadBalancerIP": "192.0.2.1"},
        "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}, {"hostname": "x"}]}},
    }
    assert services.service_of(obj) == service(address="192.0.2.1", ingress=("192.0.2.1",), hosts=("x",))


def test_releasing_needs_a_record():
    held = [reserved()]
    outcome = service_plan.removal_of(service(address="192.0.2.1"), held, CONTEXT)
    assert names(outcome) == [("unmap", "192.0.2.1/32")] and "release_unrecorded" in outcome.notes[0]
    recorded = CONTEXT._replace(recorded=frozenset(["r-web"]))
    assert [step[0] for step in names(service_plan.removal_of(service(), held, recorded))] == ["unmap", "release"]
    kept = service(annotations={"metal.equinix.com/eip-reclaim": "retain"})
    assert [step[0] for step in names(service_plan.removal_of(kept, held, recorded))] == ["unmap"]
    assert names(service_plan.removal_of(service(), [], recorded)) == []


def test_a_service_that_is_gone_has_its_last_state_in_our_record():
    held, gone = [reserved()], service(type="")
    recorded = CONTEXT._replace(recorded=frozenset(["r-web"]), gc_orphans=True)
    for context, steps in (
        (recorded, ["unmap", "release"]),
        (recorded._replace(retained=frozenset(["r-web"])), ["unmap"]),
    ):
        assert [step[0] for step in names(service_plan.removal_of(gone, held, context))] == steps
        assert bool(service_plan.orphans([service("other")], held, context).actions) == (steps[-1] == "release")
        # one that exists is its own record
        assert [step[0] for step in names(service_plan.removal_of(service(), held, context))] == ["unmap", "release"]
        former = service(type="ClusterIP", address="192.0.2.1")
        assert [step[0] for step in names(service_plan.orphans([former], held, context))] == [
            "unmap",
            "release",
            "clear_service_ip",
        ]


def test_what_was_left_alone_is_left_alone_when_it_goes():
    free = CONTEXT._replace(release_unrecorded=True)
    for one in (
        services.Service("kube-system", "metal-ccm-kubernetes-external", address="192.0.2.1"),
        service(address="192.0.2.1", load_balancer_class="other/one"),
        service(address="192.0.2.1", annotations={"metal.equinix.com/loadbalancer-managed": "false"}),
    ):
        outcome = service_plan.removal_of(one, [reserved()], free)
        assert outcome.actions == [] and "left alone" in outcome.notes[0]
    former = service(address="192.0.2.1", type="ClusterIP")
    assert [step[0] for step in names(service_plan.removal_of(former, [reserved()], free))] == ["unmap", "release"]


def test_any_address_of_a_reserved_block_has_its_length():
    held = [reserved(address="192.0.2.0", cidr=31)]
    assert names(service_plan.outcome_of(service(address="192.0.2.0"), held, CONTEXT)) == [("map", "192.0.2.0/31")]
    assert names(service_plan.outcome_of(service(address="192.0.2.1"), held, CONTEXT)) == [("map", "192.0.2.1/31")]
    assert names(service_plan.outcome_of(service(address="192.0.2.2"), held, CONTEXT)) == [("map", "192.0.2.2/32")]
    assert names(service_plan.outcome_of(service(address="2001:db8::1"), held, CONTEXT)) == [("map", "2001:db8::1/128")]


def test_orphans_and_what_protects_an_address():
    free = CONTEXT._replace(release_unrecorded=True)
    held = [reserved()]
    other = service("other")
    assert [step[0] for step in names(service_plan.orphans([other], held, free))] == ["unmap", "release"]
    former = service(type="ClusterIP", address="192.0.2.1")
    assert [step[0] for step in names(service_plan.orphans([former], held, free))] == [
        "unmap",
        "release",
        "clear_service_ip",
    ]
    for services_, context in (
        (None, free),
        ([], free),
        ([other], free._replace(gc_orphans=False)),
        ([other], free._replace(owner=OWNER._replace(cluster_uid=""))),
        ([other], free._replace(reclaim_policy="retain")),
        ([other], CONTEXT),
        ([service()], free),
        ([service("other", "192.0.2.1")], free),
        ([service(annotations={"metal.equinix.com/loadbalancer-managed": "false"})], free),
        ([other, service(type="ClusterIP", annotations={"metal.equinix.com/eip-reclaim": "retain"})], free),
    ):
        assert not service_plan.orphans(services_, held, context).actions
    assert service_plan.orphans([], held, free, confirm_empty=True).actions
    tagged = [held[0]._replace(tags=held[0].tags + ("cp",))]
    assert not service_plan.orphans([other], tagged, free._replace(control_plane_tag="cp")).actions
    for tags in (held[0].tags[:2], held[0].tags[1:], held[0].tags[:2] + ("cluster=uid-2",)):
        assert not service_plan.orphans([other], [held[0]._replace(tags=tags)], free).actions


def test_cost_plan_and_the_limit():
    all_services = [service(name) for name in ("c", "b", "a")] + [service("byo", "198.51.100.7"), service("bad", "x")]
    held = [reserved("a"), reserved("gone", "192.0.2.9")]
    context = CONTEXT._replace(max_prefixes=5, release_unrecorded=True)
    plan = cost_plan.cost_plan(all_services, held, context)
    assert [order.service for order in plan.orders] == ["default/b"]
    assert [(row[0], row[1]) for row in plan.refused] == [("default/bad", "bad_address"), ("default/c", "prefix_limit")]
    assert (plan.before, plan.after, plan.limit) == (4, 5, 5)
    assert plan.networks == {"default/a": ("192.0.2.1/32",), "default/byo": ("198.51.100.7/32",)}
    assert not cost_plan.cost_plan([], held, context).orders


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.sampled_from(["a", "b", "c", "d"]), unique=True),
    st.lists(st.sampled_from(["a", "b", "c", "d"]), unique=True),
    st.integers(0, 5),
)
def test_never_over_the_limit_and_settled_after_one_run(desired, held_names, limit):
    held = [reserved(name, f"192.0.2.{ord(name)}") for name in held_names]
    context = CONTEXT._replace(max_prefixes=limit, release_unrecorded=True)
    plan = cost_plan.cost_plan([service(name) for name in desired], held, context)
    assert len(held) + len(plan.orders) <= max(limit, len(held))
    swept = service_plan.orphans([service(name) for name in desired], held, context).actions
    released = {action.id for action in swept if action.action == service_plan.RELEASE}
    assert released == ({"r-" + name for name in set(held_names) - set(desired)} if desired else set())
    held = [item for item in held if item.id not in released]
    held += [reserved(order.service.split("/")[1], f"203.0.113.{n}") for n, order in enumerate(plan.orders)]
    addresses = {name: reservations.matches_of(held, OWNER, "default", name) for name in desired}
    settled = [service(name, rows[0].address) for name, rows in addresses.items() if rows]
    again = cost_plan.cost_plan(settled, held, context)
    assert not again.orders and not again.refused


def test_states_and_garbage():
    assert services.states("192.0.2.1", reserved(), ["192.0.2.1/32"]).state == "Mapped"
    assert services.states("", reserved(address="", state="pending"), []).state == "Requested"
    assert not services.states("", None, []).ready
    rows = [
        reserved(),
        reserved("b", assignments=(reservations.Assignment("a1"),)),
        reserved("c", owner=OWNER._replace(cluster_uid="x")),
    ]
    assert reservations.sweep(rows, OWNER) == (["r-web"], ["r-c"], ["r-b"])
    assert reservations.sweep(rows, OWNER, force=True).release == ["r-web", "r-b"]
    with pytest.raises(ValueRefused, match="missing_cluster_uid"):
        reservations.sweep([], OWNER._replace(cluster_uid=""))


def test_services_of_ipv6():
    """A pool of one's own has them; what a provider would hand out is not known, so it is not asked."""
    six = service("six", version=6)
    order = service_plan.outcome_of(six, [], CONTEXT._replace(places=None)).actions[0]
    assert order.action == service_plan.RESERVE and order.request["version"] == 6
    with pytest.raises(ValueRefused) as raised:
        service_plan.outcome_of(six, [], CONTEXT)
    assert raised.value.reason == "quota"
    assert "version" not in service_plan.outcome_of(six._replace(version=4), [], CONTEXT).actions[0].request
