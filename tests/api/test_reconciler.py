# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The reconciler's own process over two real API servers: what it writes for a change, and that it asks for nothing else."""

from __future__ import annotations

import time

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.reconciler.control_loop import ControlLoop
from ansible_collections.multicluster.network.plugins.module_utils._flows.reconciler.metrics import Metrics
from ansible_collections.multicluster.network.plugins.module_utils._io.structured_log import Log
from mirror_clusters import (  # pylint: disable=unused-import
    FLUENTD,
    NAMESPACE,
    PODS,
    endpoints,
    fluentd,
    other,
    service,
    two,
)

__all__ = ["fluentd", "other", "two"]


def until(what, seconds=120.0):
    """Wait for something to be true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"it did not happen within {seconds} s")


@pytest.fixture
def kept(fluentd):
    lines = []
    control_loop = ControlLoop({"service_mirror": fluentd.request(mirror_as="endpoints")}, Log(lines.append), Metrics())
    control_loop.lines, control_loop.two = lines, fluentd
    control_loop.start()
    until(lambda: control_loop.settled)
    yield control_loop
    control_loop.stop()


def quiet(control_loop):
    """Nothing waits."""
    until(lambda: all(worker.look()["length"] == 0 for worker in control_loop.workers))


def test_deletions_above_the_budget_wait_and_are_named(kept):
    two = kept.two
    for number in range(9):
        two.put("aws", service("sys-log", f"s{number}"), endpoints("sys-log", f"s{number}", PODS[number % 3]))
    until(lambda: len(two.names("gcp", "Service")) == 10)
    for number in range(9):
        two.drop("aws", "Service", "sys-log", f"s{number}")
    until(lambda: any("delete_budget" in line for line in kept.lines))
    quiet(kept)
    assert len(two.names("gcp", "Service")) >= 5, "one by one they would all have gone"


def test_a_change_is_written_and_nothing_else_is_asked(kept):
    two = kept.two
    assert two.names("gcp", "Service") == [FLUENTD]
    quiet(kept)
    time.sleep(0.5)
    mark = two.mark()
    two.put("aws", endpoints("sys-log", "fluentd", "10.2.3.77", *PODS[1:]))
    until(lambda: "10.2.3.77" in str(two.get("gcp", "Endpoints", FLUENTD)["subsets"]))
    quiet(kept)
    asked = [row for row in two.asked(mark)["gcp"] if row[0] not in ("get", "watch") and "/leases/" not in row[1]]
    assert [row[0] for row in asked] == ["patch"], asked
    assert [row for row in two.writes(mark)["aws"] if "/leases/" not in row[1]][1:] == [], (
        "the test's own write, and none of the service"
    )


def test_new_services_relabelled_ones_and_deleted_ones(kept):
    two = kept.two
    two.put("aws", service("sys-log", "second"), endpoints("sys-log", "second", PODS[0]))
    until(lambda: "aws-sys-log-73736d-second" in two.names("gcp", "Endpoints"))
    two.put("aws", service("sys-log", "second", labels={"mirror.semaphore.uw.io/mirror-service": "no"}))
    until(lambda: two.names("gcp", "Service") == [FLUENTD])
    two.drop("gcp", "Service", NAMESPACE, FLUENTD)
    until(lambda: two.names("gcp", "Service") == [FLUENTD])
    until(lambda: two.names("gcp", "Endpoints") == [FLUENTD])


def test_the_end_is_what_a_run_from_scratch_gives(kept):
    two = kept.two
    for number in range(30):
        two.put("aws", service("sys-log", f"s{number}"), endpoints("sys-log", f"s{number}", PODS[number % 3]))
    for number in range(0, 30, 6):
        two.drop("aws", "Service", "sys-log", f"s{number}")
    until(lambda: len(two.names("gcp", "Service")) == 26)
    quiet(kept)
    result = two.run(mirror_as="endpoints", check=True)
    assert (result["plan"]["changes"], result["failures"]) == ([], [])
