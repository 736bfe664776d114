# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What waits to be planned: what collects, what comes again, and that one broken key keeps no other waiting."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._plan.work_queue import WorkQueue
from hypothesis import given, strategies as st


def queue():
    return WorkQueue(window=1, longest=5, first=2, last=60)


def test_keys_collect_until_it_is_quiet_but_not_for_ever():
    one = queue()
    assert one.wait(0) is None and one.take(0) is None and len(one) == 0 and one.oldest() is None
    one.add("a", 0)
    one.add("b", 0.9)
    assert one.wait(1.5) == pytest.approx(0.4) and one.take(1.5) is None and one.oldest() == 0
    assert one.take(1.9) == (frozenset("ab"), 0)
    for tick in range(60):
        one.add("a", 10 + tick / 10)
    assert one.wait(14) == pytest.approx(1) and one.take(15).keys == frozenset("a")


def test_a_broken_key_comes_again_alone_and_later_each_time():
    one, now = queue(), 0.0
    one.add("broken", now)
    one.take(1)
    for pause in (2, 4, 8, 16, 32, 60, 60):
        assert one.failed("broken", now) == pause
        one.add("good", now)
        assert one.take(now + 1).keys == frozenset(("good",))
        one.done("good")
        now += pause
        assert one.take(now - 0.1) is None and one.take(now).keys == frozenset(("broken",))
    one.failed("broken", now)
    one.add("broken", now)  # an event of it: at once, and still alone
    one.add("good", now)
    assert [one.take(now + 1).keys, one.take(now + 1).keys] == [frozenset(("good",)), frozenset(("broken",))]
    one.done("broken")
    one.failed("broken", now, after=90)
    assert one.wait(now) == 90


def test_what_is_not_done_is_as_old_as_its_first_news():
    one = queue()
    one.add("broken", 0)
    one.take(1)
    assert one.oldest() == 0, "it is at work"
    one.failed("broken", 1)
    one.add("good", 4)
    assert one.take(3).keys == frozenset(("broken",)) and one.oldest() == 0
    one.failed("broken", 3)
    assert one.take(5).keys == frozenset(("good",))
    one.done("good")
    assert one.oldest() == 0 and one.take(7).keys == frozenset(("broken",))
    one.add("broken", 8)
    one.done("broken")  # what it was notified of before
    assert one.oldest() == 8
    one.take(9)
    one.done("broken")
    assert one.oldest() is None


def test_what_may_wait_waits_and_is_not_forgotten():
    one = queue()
    one.add("", 0, not_before=8)
    one.add("", 1, not_before=9)
    assert one.wait(0) == 8 and one.take(7.9) is None and one.take(8).keys == frozenset(("",))


def test_what_is_postponed_is_due_then_and_only_then():
    one = queue()
    one.add("", 0)
    one.add("a", 0)
    one.postpone("", 3)
    assert one.take(1).keys == frozenset("a") and one.take(2.9) is None
    one.postpone("", 4)
    assert one.take(3.5) is None and one.take(4).keys == frozenset(("",)) and len(one) == 0
    one.add("", 5)
    one.postpone("", 9)
    assert one.wait(5) == 4


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 3), st.booleans()), max_size=40))
def test_no_key_is_lost(steps):
    one, now, open_keys = queue(), 0.0, set()
    for key, pause, well in steps:
        now += pause
        one.add(key, now)
        open_keys.add(key)
        due = one.take(now)
        for taken in due.keys if due else ():
            if well:
                one.done(taken)
                open_keys.discard(taken)
            else:
                one.failed(taken, now)
    while one.wait(now) is not None:
        now += one.wait(now)
        for taken in one.take(now).keys:
            one.done(taken)
            open_keys.discard(taken)
    assert not open_keys and len(one) == 0
