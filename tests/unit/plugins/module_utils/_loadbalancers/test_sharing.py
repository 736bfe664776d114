# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who may share an address: alongside the rules of MetalLB and Cilium, written down here as those two have them."""

from __future__ import annotations

from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers import reservations, sharing
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.address_claims import (
    AddressRules,
    check_address_claims,
)
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.cost_plan import cost_plan
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.named_pools import (
    Grants,
    parse_named_pools,
)
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.service_plan import RESERVE, Context
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.services import Service
from hypothesis import given, settings, strategies as st

OWNER = reservations.Owner("metal-ccm", "uid-1")
GRANTS = Grants(parse_named_pools(["192.0.2.0/28"], None))
CONTEXT = Context(OWNER, None, reports_status=True, grants=GRANTS)
KEYS = st.sampled_from([{}, {"app": "a"}, {"app": "b"}])
ANNOTATIONS = st.fixed_dictionaries(
    {},
    optional={
        "metallb.io/allow-shared-ip": st.sampled_from(["k", "l", ""]),
        "metallb.universe.tf/allow-shared-ip": st.sampled_from(["k", "l"]),
        "lbipam.cilium.io/sharing-key": st.sampled_from(["k", "m"]),
        "io.cilium/lb-ipam-sharing-key": st.sampled_from(["k"]),
        "lbipam.cilium.io/sharing-cross-namespace": st.sampled_from(["one", "two", "*", "three, one", ""]),
    },
)
SERVICES = st.builds(
    lambda namespace, name, notes, ports, local, selector: Service(
        namespace, name, annotations=notes, ports=frozenset(ports), local=local, selector=selector
    ),
    st.sampled_from(["one", "two"]),
    st.sampled_from("abcd"),
    ANNOTATIONS,
    st.sets(st.tuples(st.sampled_from(["TCP", "UDP"]), st.sampled_from([80, 443])), min_size=1),
    st.booleans(),
    KEYS,
)


def metallb(one: Service, other: Service) -> bool:
    """sharingOK and portsInUse of its allocator: key, back end (the selector of a Local Service, else nothing), ports."""
    keys = [
        item.annotations.get("metallb.io/allow-shared-ip")
        or item.annotations.get("metallb.universe.tf/allow-shared-ip")
        or ""
        for item in (one, other)
    ]
    ends = [str(sorted(item.selector.items())) if item.local else "" for item in (one, other)]
    return keys[0] != "" and keys[0] == keys[1] and ends[0] == ends[1] and not one.ports & other.ports


def cilium(one: Service, other: Service) -> bool:
    """isCompatible of its LB-IPAM."""
    keys = [
        item.annotations.get("lbipam.cilium.io/sharing-key")
        or item.annotations.get("io.cilium/lb-ipam-sharing-key")
        or ""
        for item in (one, other)
    ]
    if not keys[0] or keys[0] != keys[1]:
        return False
    for here, there in ((one, other), (other, one)):
        named = here.annotations.get("lbipam.cilium.io/sharing-cross-namespace", "").replace(" ", "").split(",")
        if here.namespace != there.namespace and there.namespace not in named and "*" not in named:
            return False
    if one.ports & other.ports or one.local != other.local:
        return False
    return not one.local or bool(one.selector and other.selector and one.selector == other.selector)


@settings(max_examples=500, deadline=None)
@given(st.lists(SERVICES, min_size=1, max_size=6), SERVICES)
def test_a_newcomer_is_refused_where_one_of_those_that_share_refuses_him(
    those: list[Service], newcomer: Service
) -> None:
    assert bool(sharing.Sharing(those).refuses(newcomer)) == any(sharing.why_not(newcomer, one) for one in those)


@settings(max_examples=500, deadline=None)
@given(SERVICES, SERVICES)
def test_the_rules_are_those_of_both(one: Service, other: Service) -> None:
    why = sharing.why_not(one, other)
    assert bool(why) == bool(sharing.why_not(*reversed((one, other))))
    # with Local and no selector at all MetalLB sees the same back end in both
    assert (not why) == (metallb(one, other) or cilium(one, other))


@settings(max_examples=200, deadline=None)
@given(st.lists(SERVICES, max_size=6, unique_by=lambda item: item.key))
def test_who_ends_up_with_one_address_may_share_it(services: list[Service]) -> None:
    """Whole rounds of plans: everybody has one, nobody has one with somebody who does not agree, and the next plan changes nothing."""
    held: list[reservations.Reservation] = []
    known = list(services)
    for dummy in range(len(services) + 1):
        plan = cost_plan(known, held, CONTEXT)
        for order in plan.orders:
            address = f"192.0.2.{len(held)}"
            held.append(reservations.Reservation(address, address, tags=tuple(order.request["tags"])))
        if not plan.orders:
            break
    assert not plan.refused and not any(
        action.action == RESERVE for outcome in plan.outcomes.values() for action in outcome.actions
    )
    given_out = {key: networks[0].partition("/")[0] for key, networks in plan.networks.items()}
    assert set(given_out) == {item.key for item in services}
    users: dict[str, list[Service]] = {}
    for item in services:
        users.setdefault(given_out[item.key], []).append(item)
    for rows in users.values():
        assert all(not sharing.why_not(one, other) for one in rows for other in rows if one is not other)
    written = [item._replace(address=given_out[item.key], ingress=(given_out[item.key],)) for item in services]
    recorded = {
        item.address: next(
            one.key for one in services if reservations.service_tag(one.namespace, one.name) in item.tags
        )
        for item in held
    }
    kept, refused = check_address_claims(written, held, AddressRules(OWNER, recorded=recorded))
    assert (
        not refused
        and {key: networks[0].partition("/")[0] for key, networks in cost_plan(kept, held, CONTEXT).networks.items()}
        == given_out
    )
