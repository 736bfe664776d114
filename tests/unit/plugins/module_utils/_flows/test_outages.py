# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Since when a source is not reachable."""

from __future__ import annotations

from ansible_collections.multicluster.network.plugins.module_utils._flows.runs.outages import (
    judge,
    outage_record,
    read_record,
)


def test_grace_runs_from_the_first_failure():
    counts, since = judge({}, {"aws"}, {"gcp"}, 100, 60)
    assert (counts, since) == (set(), {"aws": 100})
    assert judge(since, {"aws"}, {"gcp"}, 159, 60) == (set(), {"aws": 100})
    assert judge(since, {"aws"}, {"gcp"}, 160, 60) == ({"aws"}, {"aws": 100})
    assert judge(since, set(), {"aws", "gcp"}, 170, 60) == (set(), {})
    assert judge(since, set(), {"gcp"}, 170, 60) == (set(), {"aws": 100}), "a run without aws forgets nothing"


def test_a_clock_that_was_ahead_starts_anew():
    assert judge({"aws": 10_000}, {"aws"}, set(), 100, 60) == (set(), {"aws": 100})


def test_the_record_is_read_strictly():
    record = outage_record("service-mirror-outages-t", "ns", {"aws": 7, "b": 8})
    assert read_record(record) == {"aws": 7, "b": 8}
    assert read_record({"data": {"a": "x", "b": "-1", "c": 5, "d": "9" * 20, "e": "1"}}) == {"e": 1}
    assert read_record(None) == read_record({"data": "x"}) == {}
