# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Events of Services: each thing once, counted when it comes back, never a flood."""

from __future__ import annotations

import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers import service_events as events
from hypothesis import given, strategies as st

TIME = "2026-01-01T00:{0:02d}:{1:02d}Z"


def notice(name: str = "web", text: str = "x", reason: str = "claimed_twice") -> events.Notice:
    return events.refused("shop", name, "uid-" + name, reason, text)


class Store:
    """The Events of a cluster; each run is a second later."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, t.Any]] = {}
        self.clock = 0

    def run(self, *rows: events.Notice) -> int:
        self.clock += 1
        writings = events.plan_events(rows, list(self.objects.values()), TIME.format(self.clock // 60, self.clock % 60))
        for one in writings:
            assert (one.notice.event in self.objects) != one.is_new
            self.objects.setdefault(one.notice.event, {}).update(one.body)
        return len(writings)

    def counts(self) -> dict[str, int]:
        return {one["message"]: one["count"] for one in self.objects.values()}


def test_the_same_again_is_no_event_and_what_comes_back_is_counted() -> None:
    store = Store()
    given_now = events.Notice(
        "shop",
        "web",
        "uid-web",
        events.NORMAL,
        events.GIVEN,
        events.given_text([("192.0.2.1", "public"), ("2001:db8::1", "")]),
    )
    assert [store.run(notice()) for dummy in range(3)] == [1, 0, 0]
    assert store.run(given_now) == 1 and store.run(notice()) == 1 and store.run(notice()) == 0
    assert store.counts() == {"claimed_twice: x": 2, "It has 192.0.2.1 of the pool public and 2001:db8::1": 1}
    (first,) = [one for one in store.objects.values() if one["count"] == 2]
    assert (
        first["firstTimestamp"] == TIME.format(0, 1)
        and first["lastTimestamp"] == TIME.format(0, 5)
        and first["source"] == {"component": events.COMPONENT}
    )
    assert first["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Service",
        "namespace": "shop",
        "name": "web",
        "uid": "uid-web",
    }


def test_a_service_of_the_same_name_that_is_made_anew_is_reported_anew() -> None:
    store = Store()
    assert store.run(notice()) == 1 and store.run(notice()._replace(uid="another")) == 1


def test_words_and_bounds() -> None:
    assert notice(reason="quota").reason == events.EXHAUSTED and notice().reason == events.REFUSED
    assert len(notice(text="y" * 5000).message) == events.LONGEST
    assert len(events.plan_events([notice(f"s{number}") for number in range(500)], [], TIME)) == events.MOST


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz")), max_size=30))
def test_as_many_are_counted_as_times_something_else_was_reported(rows: list[tuple[str, str]]) -> None:
    store = Store()
    last: dict[str, str] = {}
    desired: dict[str, int] = {}
    for name, text in rows:
        changed = last.get(name) != text
        assert store.run(notice(name, name + text)) == int(changed)
        last[name] = text
        desired["claimed_twice: " + name + text] = desired.get("claimed_twice: " + name + text, 0) + changed
    assert store.counts() == desired
