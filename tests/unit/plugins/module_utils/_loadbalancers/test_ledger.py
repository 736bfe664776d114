# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record of addresses when two programs write it at once."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.ledger import (
    Entry,
    ledger_data,
    merged,
    parse_ledger,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, settings, strategies as st


def entry(ident, device="", address=None, retain=False):
    return Entry(
        ident,
        "203.0.113." + ident if address is None else address,
        32,
        ("a", "b"),
        "default/web",
        device,
        retain=retain,
    )


def ledger(*entries):
    return {one.id: one for one in entries}


OLD, NEW = entry("1"), entry("1", "d")


@pytest.mark.parametrize(
    ("before", "mine", "theirs", "found"),
    [
        ((), (OLD,), (), (OLD,)),
        ((OLD,), (), (OLD,), ()),
        ((OLD,), (NEW,), (OLD, entry("2")), (NEW, entry("2"))),
        ((OLD,), (OLD,), (NEW,), (NEW,)),
        ((OLD,), (OLD, entry("2")), (), (entry("2"),)),
        ((OLD,), (), (), ()),
        ((OLD,), (NEW,), (NEW,), (NEW,)),
        ((OLD,), (NEW,), (entry("1", "e"),), "conflict"),
        ((OLD,), (NEW,), (), "conflict"),
        ((OLD,), (), (NEW,), "conflict"),
        ((), (OLD,), (entry("2", address="203.0.113.1"),), "claimed_twice"),
        ((), (entry("1", address=""),), (entry("2", address=""),), (entry("1", address=""), entry("2", address=""))),
    ],
)
def test_both_changes_are_kept_or_refused(before, mine, theirs, found):
    try:
        assert merged(ledger(*before), ledger(*mine), ledger(*theirs)) == ledger(*found)
    except ValueRefused as error:
        assert error.reason == found


ENTRIES = st.builds(entry, st.sampled_from("123456"), st.sampled_from(["", "d", "e"]), retain=st.booleans())
LEDGERS = st.lists(ENTRIES, max_size=6).map(lambda rows: ledger(*rows))


@settings(max_examples=100, deadline=None)
@given(LEDGERS, LEDGERS, LEDGERS)
def test_nobody_loses_what_he_wrote(before, mine, theirs):
    assert parse_ledger(ledger_data(mine)) == mine
    assert merged(before, mine, before) == mine and merged(before, before, theirs) == theirs
    try:
        found = merged(before, mine, theirs)
    except ValueRefused:
        return
    for ident in {**before, **mine, **theirs}:
        changed = [side.get(ident) for side in (mine, theirs) if side.get(ident) != before.get(ident)]
        assert found.get(ident) == (changed[0] if changed else before.get(ident))
