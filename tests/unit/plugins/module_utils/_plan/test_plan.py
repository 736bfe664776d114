# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans, their texts, deferred values and budgets."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._plan.budget import (
    allowed_deletes,
    check_budget,
    why_refused,
)
from ansible_collections.multicluster.network.plugins.module_utils._plan.plan import (
    SHOWN_CHANGES,
    Pending,
    Plan,
    Refusal,
    from_wire,
    is_pending,
    reconcile,
    render,
    to_wire,
)
from hypothesis import given, strategies as st

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10) | st.builds(Pending, st.text(max_size=5)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=10,
)
STATES = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 3))


@given(PLAIN)
def test_deferred_values_travel_as_json(value: t.Any) -> None:
    wire = json.loads(json.dumps(to_wire(value)))
    if "__pending__" not in json.dumps(value, default=lambda item: "x"):
        assert from_wire(wire) == value
        assert is_pending(value) == ("__pending__" in json.dumps(wire))


@given(PLAIN)
def test_rendered_lines_are_printable(value: t.Any) -> None:
    assert all(line.isprintable() for line in render(value))
    assert render(value) == render(value)


@given(STATES, STATES)
def test_reconcile_reaches_the_desired_state(desired: dict[str, int], actual: dict[str, int]) -> None:
    plan = reconcile("thing", desired, actual)
    state = dict(actual)
    for change in plan.changes:
        if change.action == "delete":
            del state[change.id]
        else:
            state[change.id] = change.after
    assert state == desired
    assert plan.changed == (state != actual)
    assert reconcile("thing", desired, state).changes == []
    actions = [change.action for change in plan.changes]
    assert "delete" not in actions[: len([a for a in actions if a != "delete"])]


def test_results_and_diffs() -> None:
    plan = Plan()
    plan.create("peer", "b", {"key": Pending("key of x"), "n": 1})
    plan.update("peer", "a", {"n": 1, "same": 2}, {"n": 2, "same": 2})
    plan.delete("route", "10.0.0.0/8", {"dev": "x"})
    plan.refuse("gcp/x", "bad_public_key", "no key")
    result = plan.result()
    assert result["changed"] and result["plan"]["create"] == result["plan"]["update"] == result["plan"]["delete"] == 1
    assert result["plan"]["changes"][1] == {"action": "update", "kind": "peer", "id": "a", "fields": ["n"]}
    assert result["refused"] == [{"object": "gcp/x", "reason": "bad_public_key", "message": "no key"}]
    diff = plan.diff()
    assert "known after apply" in diff["after"] and diff["before"].startswith("peer a\n  n: 1\n")
    json.dumps(result)
    assert plan.extend(Plan()) is plan and not Plan().changed


def test_results_show_a_bounded_part_and_count_all() -> None:
    plan = Plan()
    for number in range(SHOWN_CHANGES + 50):
        plan.create("peer", str(number), {})
    result = plan.result()["plan"]
    assert len(result["changes"]) == SHOWN_CHANGES and result["create"] == SHOWN_CHANGES + 50


@pytest.mark.parametrize(
    "owned, deletes, remaining, most, confirmed, refused",
    [
        (10, 0, 10, None, False, False),
        (10, 5, 5, None, False, False),
        (10, 6, 4, None, False, True),
        (100, 20, 80, None, False, False),
        (100, 21, 79, None, False, True),
        (100, 21, 79, 21, False, False),
        (100, 99, 1, -1, False, False),
        (3, 3, 0, None, False, True),
        (3, 3, 0, None, True, False),
        (3, 3, 0, -1, False, False),
        (3, 1, 2, 0, False, True),
        (3, 0, 3, 0, False, False),
        (3, 3, 0, 0, True, True),
        (1, 1, 0, 0, False, True),
    ],
)
def test_budget(owned: int, deletes: int, remaining: int, most: int | None, confirmed: bool, refused: bool) -> None:
    found = check_budget("gcp", "peers", owned, deletes, remaining, most, confirmed)
    assert (found is not None) == refused
    assert found is None or found.reason == "delete_budget"


def test_a_source_that_a_range_refuses_is_not_confirmed_empty_and_one_of_liars_is() -> None:
    """One wrong range refuses all alike. Nodes that are refused for what they say may go where that was confirmed."""
    grant = [Refusal(f"gcp/n{number}", "outside_grant", "m") for number in range(3)]
    liars = [Refusal("gcp/l1", "claimed_twice", "m"), Refusal("gcp/l2", "weak_key", "m")]
    for rows, deletes in (
        (grant, False),
        (grant[:1], False),
        (grant + liars, False),
        (liars, True),
        (grant[:1] + liars, True),
        (grant[:2] + liars, True),
    ):
        why = why_refused(rows)
        assert ("Correct the grant of cluster gcp" in why) is not deletes
        assert (check_budget("gcp", "peers", 3, 3, 0, None, True, why) is None) is deletes
    refusal = check_budget("gcp", "peers", 3, 3, 0, None, False, why_refused(liars))
    assert refusal is not None and "confirm_empty" not in refusal.message


def test_allowed_deletes() -> None:
    assert [allowed_deletes(n) for n in (0, 10, 25, 26, 1000)] == [5, 5, 5, 5, 200]
    assert allowed_deletes(10, -1) == 10 and allowed_deletes(10, 3) == 3 and allowed_deletes(10, 0) == 0


def test_the_first_lines_of_a_diff_are_the_packets_way_and_not_its_files():
    """A screen shows twenty lines of a host: peers and routes have to be among them (G57)."""
    plan = Plan()
    for kind in ("file", "key", "folder", "unit", "route", "peer", "link"):
        plan.create(kind, "x", {"a": 1})
    assert [line.split()[0] for line in plan.diff()["after"].splitlines() if line.endswith(" x")] == [
        "link",
        "peer",
        "route",
        "file",
        "folder",
        "key",
        "unit",
    ]
