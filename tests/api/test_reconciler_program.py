# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reconciler as a service runs it: its own process, settings from an inventory, two real API servers."""

from __future__ import annotations

import signal
import time

import pytest
from mirror_clusters import FLUENTD, PODS, endpoints, fluentd, other, service, two  # pylint: disable=unused-import
from reconciler_process import Service
from test_reconciler import until

__all__ = ["fluentd", "other", "two"]
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/multicluster-reconciler-t"


@pytest.fixture
def kept(fluentd, tmp_path):
    one = Service(fluentd.servers, tmp_path).start()
    one.two = fluentd
    one.reported("READY=1")
    yield one
    if one.process.poll() is None:
        one.end()


def holders(two):
    return {name: client.get(LEASE)["spec"]["holderIdentity"].split(" ")[2] for name, client in two.clients.items()}


def test_the_life_of_a_service(kept):
    two = kept.two
    until(lambda: two.names("gcp", "Service") == [FLUENTD])
    assert set(holders(two).values()) == {str(kept.process.pid)}
    kept.reported("WATCHDOG=1")
    until(lambda: kept.page("/readyz") == (200, "ok\n"))
    assert kept.page("/healthz") == (200, "ok\n") and kept.page("/nothing")[0] == 404
    for number in range(77, 87):
        two.put("aws", endpoints("sys-log", "fluentd", f"10.2.3.{number}", *PODS[1:]))
        until(lambda number=number: f"10.2.3.{number}" in str(two.get("gcp", "Endpoints", FLUENTD)["subsets"]))
        # a plan that was under way when the change came may have taken it, and then no reaction is counted
        if 'reaction_seconds_count{capability="service_mirror"} ' in kept.page("/metrics")[1]:
            break
        time.sleep(1)
    else:
        raise AssertionError(kept.page("/metrics")[1])
    text = kept.page("/metrics")[1]
    for row in (
        "queue_length",
        "oldest_event_seconds",
        "whole_plan_age_seconds",
        'requests_total{cluster="gcp",code="200",verb="apply"}',
        'leader{cluster="aws"} 1',
        "watch_silent_seconds",
        "settings_current 1",
    ):
        assert "multicluster_reconciler_" + row in text, text
    assert "object=gcp/sys-semaphore/" + FLUENTD in kept.lines()
    assert kept.end() == 0
    assert all(
        client.list(LEASE.rpartition("/")[0], field_selector="metadata.name=multicluster-reconciler-t").items == []
        for client in two.clients.values()
    )
    assert two.servers["aws"].access()["token"] not in kept.lines()


@pytest.mark.takes_long
def test_the_inventory_is_read_again_and_a_broken_one_is_not_used(kept):
    two = kept.two
    until(lambda: two.names("gcp", "Service") == [FLUENTD])
    kept.write(service_mirror_prefixes={"aws": "amazon"})
    moved = FLUENTD.replace("aws-", "amazon-", 1)
    until(lambda: two.names("gcp", "Service") == [moved], 60)

    good = kept.inventory.read_text("utf-8")
    kept.inventory.write_text("all: {children: [", "utf-8")
    until(lambda: "event=kept" in kept.lines(), 60)
    until(lambda: "the inventory cannot be used" in kept.page("/readyz")[1])
    assert "settings_current 0" in kept.page("/metrics")[1]
    two.put("aws", service("sys-log", "second"), endpoints("sys-log", "second", PODS[0]))
    until(lambda: len(two.names("gcp", "Service")) == 2)

    kept.inventory.write_text("all: {hosts: {}}", "utf-8")
    until(lambda: "the inventory has no cluster" in kept.page("/readyz")[1], 60)
    assert len(two.names("gcp", "Service")) == 2

    kept.inventory.write_text(good, "utf-8")
    until(lambda: kept.page("/readyz") == (200, "ok\n"), 60)
    kept.process.send_signal(signal.SIGHUP)
    until(lambda: "event=unchanged" in kept.lines(), 60)

    kept.write(multicluster_capabilities=[])
    until(lambda: 'event=used capabilities=""' in kept.lines(), 60)
    assert len(two.names("gcp", "Service")) == 2, "what it kept stays"


def test_of_two_one_leads_and_the_other_takes_over(kept, tmp_path):
    two = kept.two
    until(lambda: two.names("gcp", "Service") == [FLUENTD])
    second = Service(two.servers, tmp_path, "two").start()
    try:
        second.reported("READY=1")
        until(lambda: second.lines().count("event=waits") == 2)
        two.put("aws", endpoints("sys-log", "fluentd", "10.2.3.77"))
        until(lambda: "10.2.3.77" in str(two.get("gcp", "Endpoints", FLUENTD)["subsets"]))
        assert "event=wrote" not in second.lines()
        kept.end(signal.SIGKILL)
        two.put("aws", endpoints("sys-log", "fluentd", "10.2.3.78"))
        until(lambda: "10.2.3.78" in str(two.get("gcp", "Endpoints", FLUENTD)["subsets"]))
        assert set(holders(two).values()) == {str(second.process.pid)}
    finally:
        second.end()


def test_a_play_that_writes_the_same_is_waited_for(kept):
    two = kept.two
    until(lambda: two.names("gcp", "Service") == [FLUENTD])
    path = LEASE.rpartition("/")[0]
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "multicluster-run-t", "namespace": "kube-system"},
        "spec": {"holderIdentity": "ops@there site.yml x", "leaseDurationSeconds": 30},
    }
    for client in two.clients.values():
        client.create(path, lease, "somebody")
    try:
        numbers = iter(range(100, 200))
        until(
            lambda: (
                "part=lock event=waits" in kept.lines()
                or two.put("aws", endpoints("sys-log", "fluentd", f"10.2.3.{next(numbers)}"))
            )
        )
        two.put("aws", endpoints("sys-log", "fluentd", "10.2.3.99"))
        until(lambda: 'queue_length{capability="service_mirror"} 0' not in kept.page("/metrics")[1])
        assert "waits_for_play 1" in kept.page("/metrics")[1] and kept.page("/readyz")[0] == 200
        assert "10.2.3.99" not in str(two.get("gcp", "Endpoints", FLUENTD)["subsets"])
    finally:
        for client in two.clients.values():
            client.delete(path + "/multicluster-run-t")
    until(lambda: "10.2.3.99" in str(two.get("gcp", "Endpoints", FLUENTD)["subsets"]))


@pytest.mark.parametrize(
    "more, expected", [({"listen": "nowhere"}, "reconciler_listen"), ({"command": ["false"]}, "ended with 1")]
)
def test_what_cannot_start_reports_why(two, tmp_path, more, expected):
    one = Service(two.servers, tmp_path).start(**more)
    assert one.process.wait(60) == 1
    assert expected in one.lines()
    one.notified.close()
