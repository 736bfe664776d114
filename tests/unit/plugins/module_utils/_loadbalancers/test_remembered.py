# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.bgp import remembered
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.bgp.values import NodeBgp
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.ledger import (
    Entry,
    ledger_data,
    ordered,
    ordering,
    parse_ledger,
)
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.reservations import Reservation
from hypothesis import given, strategies as st

FACTS = NodeBgp("n", "10.66.1.5", 65000, 65530, ("169.254.255.1", "169.254.255.2"), "Secret", True)
ROW = remembered.neighbours("session", FACTS)
ADDRESSES = [{"address": "198.51.100.1", "public": True}, {"address": "10.66.1.5", "public": False}]

rows = st.builds(
    remembered.Neighbours,
    st.text(max_size=9),
    st.text(max_size=9),
    st.integers(1, 2**32 - 1),
    st.integers(1, 2**32 - 1),
    st.lists(st.text(max_size=9), max_size=3).map(tuple),
    st.booleans(),
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=7),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=9), rows, max_size=4))
def test_there_and_back(found):
    assert remembered.parse_remembered(remembered.remembered_text(found)) == found


@given(st.dictionaries(st.text(max_size=9), anything, max_size=4).map(json.dumps) | st.text(max_size=40) | anything)
def test_what_anybody_wrote_there_ends_no_run(text):
    for row in remembered.parse_remembered(text).values():
        assert 0 < row.local_asn < 2**32 and all(isinstance(peer, str) for peer in row.peers)


def test_no_password_is_kept_and_the_facts_come_back_with_the_one_that_counts():
    assert "Secret" not in remembered.remembered_text({"d": ROW})
    assert ROW.facts("n", "Secret") == FACTS


def test_what_it_depends_on():
    assert remembered.still_true(ROW, "session", 65000, ADDRESSES)
    for session, asn, addresses in (
        ("", 65000, ADDRESSES),
        ("other", 65000, ADDRESSES),
        ("session", 65001, ADDRESSES),
        ("session", 65000, ADDRESSES[:1]),
        ("session", 65000, [{"address": "10.66.1.5", "public": True}]),
    ):
        assert not remembered.still_true(ROW, session, asn, addresses)
    assert not remembered.still_true(ROW._replace(session=""), "", 65000, ADDRESSES)


def test_more_than_fits_is_not_kept():
    assert remembered.remembered_text({"device-%05d" % number: ROW for number in range(5000)}) == ""
    assert remembered.remembered_text({}) == ""


def test_all_have_their_turn():
    devices = ["d%02d" % number for number in range(11)]
    seen = [remembered.asked_again(devices, 30.0 * step) for step in range(11)]
    assert all(len(found) == remembered.AGAIN for found in seen) and set().union(*seen[:6]) == set(devices)
    assert remembered.asked_again([], 5.0) == frozenset() and remembered.asked_again(["a"], 5.0) == {"a"}


def test_orders_that_were_begun():
    tags = ("usage=metal-ccm-auto", "service=x", "cluster=u")
    begun = ordering(tags, "a/web", "now")
    assert (
        parse_ledger(ledger_data({begun.id: begun})) == {begun.id: begun}
        and begun.id != ordering(tags, "a/b", "now").id
    )
    known = Entry("r0", "203.0.113.1", 32, tags, "a/web")
    ledger = {begun.id: begun, "r0": known}
    mine, other = Reservation("r1", "203.0.113.2", 32, (*tags, "more")), Reservation("r2", "203.0.113.3", 32, tags[:2])
    assert ordered(ledger, [known.reservation(), other]) == []
    ((ident, entry),) = ordered(ledger, [known.reservation(), mine, other])
    assert ident == begun.id and (entry.id, entry.address, entry.service, entry.tags) == (
        "r1",
        "203.0.113.2",
        "a/web",
        mine.tags,
    )
    assert ordered(ledger, [mine, mine._replace(id="r3")]) == []  # which of the two it is, nobody can say
