# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mistakes that would take the last endpoint of a Service, or all addresses of a set: the run stops before its first write, with the class by name."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.reconciler.control_loop import ControlLoop
from ansible_collections.multicluster.network.plugins.module_utils._flows.reconciler.metrics import Metrics
from ansible_collections.multicluster.network.plugins.module_utils._flows.services import network_sets
from ansible_collections.multicluster.network.plugins.module_utils._io.structured_log import Log
from ansible_collections.multicluster.network.plugins.module_utils._services.losses import PairsLost
from mcs_clusters import pair  # pylint: disable=unused-import
from mirror_clusters import (  # pylint: disable=unused-import
    DEFINITION,
    FLUENTD,
    PODS,
    SHARED,
    endpoints,
    fluentd,
    other,
    piece,
    service,
    two,
)
from set_kinds import path_of, pod, remove, serve, withdraw
from test_reconciler import quiet, until

__all__ = ["fluentd", "other", "pair", "two"]
LIMIT = {"max_lost_pairs": 0}
GRANTS = DEFINITION["clusters"]
SET, SETS = path_of("calico", "gcp-shop-app"), path_of("calico")


@pytest.fixture
def kinds(fluentd):
    """The example's Service in aws, sets of Calico there, and a pod in gcp of which there is one."""
    serve(fluentd.clients["aws"], "calico")
    pod(fluentd.clients["gcp"], "shop", "only", "app", "10.4.1.3")
    yield fluentd
    remove(fluentd.clients["gcp"], "shop", "only")
    withdraw(fluentd.clients["aws"], "calico")


def take_label(two):
    """From the Service and from what its cluster makes for it."""
    two.put("aws", service("sys-log", "fluentd", labels={}), endpoints("sys-log", "fluentd", *PODS, labels={}))


def writes(two, mark):
    return [row for rows in two.writes(mark).values() for row in rows if "/leases/" not in row[1]]


def held_events(two, cluster):
    rows = two.clients[cluster].list("/api/v1/namespaces/kube-system/events").items
    return [row for row in rows if row["reason"] == "PairsLost"]


def sets(two, **more):
    clusters = [one.access(name) for name, one in two.servers.items()]
    request = {"fabric": "t", "clusters": clusters, "grants": GRANTS, "timeout": 20, "targets": ["aws"], **LIMIT}
    return network_sets.run(dict(request, **more))


def test_a_narrowed_grant_stops_sets_and_mirrors(kinds):
    sets(kinds)
    narrow = dict(GRANTS, gcp=dict(GRANTS["gcp"], pod_cidrs=["10.4.64.0/24"]))
    with pytest.raises(PairsLost, match=r"set_refused/gcp/aws.*outside_grant"):
        sets(kinds, grants=narrow)
    kinds.run(**LIMIT)
    definition = {"clusters": dict(DEFINITION["clusters"], aws=dict(GRANTS["aws"], pod_cidrs=["10.2.64.0/24"]))}
    with pytest.raises(PairsLost, match=r"service_refused/gcp/aws.*outside_grant"):
        kinds.run(definition=definition, **LIMIT)
    result = kinds.run(definition=definition, max_lost_pairs=-1)
    assert result["reachability"]["lost"] == 1 and not result["reachability"]["stops"]


def test_what_is_gone_or_chosen_by_its_owner_is_no_loss(fluentd):
    fluentd.put("aws", service("shop", "web"), endpoints("shop", "web", "10.2.9.9"))
    fluentd.run(**LIMIT)
    chosen = service("shop", "web")
    chosen["metadata"]["annotations"] = {"mirror.semaphore.uw.io/clusters": "elsewhere"}
    fluentd.put("aws", chosen)
    assert fluentd.run(honour_annotations=["clusters"], **LIMIT)["reachability"]["lost"] == 0
    fluentd.put("aws", endpoints("sys-log", "fluentd"))
    assert fluentd.run(**LIMIT)["reachability"]["lost"] == 0, "it has no pod any more"
    fluentd.put("aws", endpoints("sys-log", "fluentd", *PODS))
    fluentd.run(**LIMIT)
    fluentd.drop("aws", "Service", "sys-log", "fluentd")
    assert fluentd.run(**LIMIT)["reachability"]["lost"] == 0


def test_a_global_service_is_lost_with_its_only_exporting_cluster(two):
    more = dict(LIMIT, global_selector="mirror.semaphore.uw.io/global-service=true")
    two.put("aws", service("shop", "cart", labels=SHARED), piece("shop", "cart", "-a", "10.2.5.1"))
    two.put("gcp", service("shop", "cart", labels=SHARED), piece("shop", "cart", "-g", "10.4.5.1"))
    two.run(**more)
    two.put("gcp", service("shop", "cart", labels={}), piece("shop", "cart", "-g", "10.4.5.1", labels={}))
    assert two.run(confirm_empty=["gcp"], **more)["reachability"]["lost"] == 0, "the other cluster still answers"
    two.put("aws", service("shop", "cart", labels={}), piece("shop", "cart", "-a", "10.2.5.1", labels={}))
    with pytest.raises(PairsLost, match="service_unlabelled/aws/aws"):
        two.run(**more)


def test_the_reconciler_keeps_the_limit_and_the_rest_goes_on(fluentd):
    lines, metrics = [], Metrics()
    request = fluentd.request(mirror_as="endpoints", confirm_empty=["aws"], **LIMIT)
    control_loop = ControlLoop({"service_mirror": request}, Log(lines.append), metrics)
    control_loop.start()
    try:
        until(lambda: control_loop.settled)
        take_label(fluentd)
        until(lambda: any("service_unlabelled/gcp/aws" in line for line in lines))
        fluentd.put("aws", service("shop", "web"), endpoints("shop", "web", "10.2.9.9"))
        until(lambda: "aws-shop-73736d-web" in fluentd.names("gcp", "Service"))
        quiet(control_loop)
        assert FLUENTD in fluentd.names("gcp", "Service")
        held = 'multicluster_reconciler_lost_pairs_held{capability="service_mirror"} 1'
        assert held in metrics.text(control_loop.gauges())
        assert any("service_unlabelled/gcp/aws" in text for text in control_loop.held())
        # the label of the Service goes before that of its endpoints: a plan between the two holds another class
        (event,) = [one for one in held_events(fluentd, "gcp") if "service_unlabelled/gcp/aws" in one["message"]]
        assert (event["type"], event["involvedObject"]["name"]) == ("Warning", "multicluster-reconciler-t")
        assert "service_mirror_confirm_lost: [service_unlabelled/gcp/aws]" in event["message"], event
        assert held_events(fluentd, "aws") == []
        fluentd.put("aws", service("sys-log", "fluentd"), endpoints("sys-log", "fluentd", *PODS))
        until(lambda: held not in metrics.text(control_loop.gauges()))
        assert not list(control_loop.held())
    finally:
        control_loop.stop()


def test_an_export_that_the_inventory_refuses_any_more_stops_the_run(pair):
    pair.export("aws", ("shop", "web"), "10.2.9.9")
    pair.run(**LIMIT)
    definition = {"clusters": dict(DEFINITION["clusters"], aws=dict(GRANTS["aws"], mcs_namespaces=["sys-log"]))}
    mark = pair.mark()
    with pytest.raises(PairsLost, match=r"export_refused/aws/aws.*export_refused/gcp/aws"):
        pair.run(definition=definition, **LIMIT)
    assert writes(pair, mark) == []
    result = pair.run(definition=definition, confirm_lost=["export_refused/aws/aws", "export_refused/gcp/aws"], **LIMIT)
    assert result["reachability"]["lost"] == 2 and result["imports"] == {"aws": 0, "gcp": 0}
