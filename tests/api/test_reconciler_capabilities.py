# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Load balancers, network sets and names of services, kept by the reconciler's process over real API servers."""

from __future__ import annotations

import contextlib

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers import (
    converge as load_balancers,
)
from ansible_collections.multicluster.network.plugins.module_utils._flows.reconciler.control_loop import ControlLoop
from ansible_collections.multicluster.network.plugins.module_utils._flows.reconciler.metrics import Metrics
from ansible_collections.multicluster.network.plugins.module_utils._flows.services import network_sets
from ansible_collections.multicluster.network.plugins.module_utils._io.structured_log import Log
from set_kinds import pod, remove
from test_coredns import COREFILE, config  # pylint: disable=unused-import
from test_load_balancers import SERVICES, api, get, ledger, make_service, request_for  # pylint: disable=unused-import
from test_network_sets import GRANTS, NETS, SEED, SETS, aws, gcp  # pylint: disable=unused-import
from test_reconciler import quiet, until

__all__ = ["api", "aws", "config", "gcp"]


@contextlib.contextmanager
def kept(**requests):
    """The process over these requests, by capability; ``books`` are the playbooks that it asks for, ``reported`` what nodes got."""
    lines, books, reported = [], [], []
    control_loop = ControlLoop(
        requests,
        Log(lines.append),
        Metrics(),
        playbook=books.append,
        speak=lambda orders: reported.append(orders) is None,
    )
    control_loop.lines, control_loop.books, control_loop.reported = lines, books, reported
    control_loop.start()
    try:
        try:
            until(lambda: control_loop.settled)
        except AssertionError:
            raise AssertionError("\n".join(lines)) from None
        quiet(control_loop)
        yield control_loop
    finally:
        control_loop.stop()


def reported(control_loop):
    """The networks that nodes of the only cluster got last."""
    orders = [order for call in control_loop.reported for order in call.values()]
    return [route["network"] for route in orders[-1]["routes"]] if orders else []


def besides_leases(rows):
    return [row[:2] for row in rows if "/leases" not in row[1] and row[0] not in ("watch", "get", "list")]


def test_a_service_gets_its_address_and_nodes_hear_of_it(server, api):
    make_service(api, "first")
    with kept(load_balancers=request_for(server)) as control_loop:
        until(lambda: get(api, "first")["spec"].get("loadBalancerIP") == "203.0.113.0")
        until(lambda: control_loop.books == ["load_balancers"])
        quiet(control_loop)
        assert control_loop.books == ["load_balancers"] and control_loop.reported == [], (
            "what was announced before is the playbook's matter"
        )
        make_service(api, "web")
        make_service(api, "inside", kind="ClusterIP")
        until(
            lambda: (
                get(api, "web")["spec"].get("loadBalancerIP") == "203.0.113.1"
                and get(api, "web")["status"]["loadBalancer"]
            )
        )
        until(lambda: reported(control_loop) == ["203.0.113.0/32", "203.0.113.1/32"])
        quiet(control_loop)
        assert control_loop.books == ["load_balancers"] and "loadBalancerIP" not in get(api, "inside")["spec"], (
            "no play of its own for an event"
        )

        api.delete(SERVICES + "/web")
        until(lambda: reported(control_loop) == ["203.0.113.0/32"] and len(control_loop.books) > 1)
        quiet(control_loop)
        assert set(control_loop.books) == {"load_balancers"} and "203.0.113.1" in ledger(api), (
            "released by the play, after nodes stopped announcing"
        )
        mark = server.mark()
        api.merge_patch(SERVICES + "/inside", {"metadata": {"labels": {"a": "b"}}}, "kubectl")
        quiet(control_loop)
        assert besides_leases(server.writes(mark)) == [("patch", SERVICES + "/inside")], (
            "the test's own write, and none of the service"
        )
        assert not any("event=failed" in line for line in control_loop.lines), control_loop.lines
    rest = load_balancers.run(request_for(server), check=True)
    assert [change["kind"] for change in rest["plan"]["changes"]] == ["Reservation"], "what is left is the release"


def test_a_pod_enters_and_leaves_a_set(aws, gcp):
    request = {"fabric": "t", "clusters": [aws.access("aws"), gcp.access("gcp")], "grants": GRANTS, "timeout": 20}
    with kept(network_sets=request) as control_loop:
        until(lambda: aws.client().list(SETS).items)
        assert aws.client().get(SEED)["spec"] == {"nets": NETS}
        mark = aws.mark()
        pod(gcp.client(), "sys-log", "forwarder-new", "forwarder", "10.4.9.9")
        until(lambda: "10.4.9.9/32" in aws.client().get(SEED)["spec"]["nets"])
        remove(gcp.client(), "sys-log", "forwarder-new")
        until(lambda: aws.client().get(SEED)["spec"] == {"nets": NETS})
        quiet(control_loop)
        assert besides_leases(aws.writes(mark)) == [("patch", SEED)] * 2
        mark = aws.mark()
        aws.client().merge_patch(SEED, {"spec": {"nets": ["10.4.200.200/32"]}}, "somebody")
        until(
            lambda: (
                any("event=failed" in line or "event=refused" in line for line in control_loop.lines)
                or aws.client().get(SEED)["spec"] == {"nets": NETS}
            )
        )
    result = network_sets.run(request, check=True)
    assert result["counts"]["gcp"] == {"sets": 1, "addresses": 6}


def test_names_are_set_and_a_second_process_changes_nothing(server, config):
    request = {
        "fabric": "t",
        "clusters": [server.access("gcp")],
        "members": ["aws", "gcp"],
        "mirror_namespace": "sys-semaphore",
        "namespace": "kube-system",
        "name": "coredns",
        "key": "Corefile",
        "timeout": 20,
    }
    with kept(coredns_rewrite=request):
        until(lambda: config().endswith("# END multicluster.network/t\n" + COREFILE))
    mark = server.mark()
    with kept(coredns_rewrite=request):
        pass
    assert besides_leases(server.writes(mark)) == []


@pytest.mark.parametrize("broken", ["network_sets", "load_balancers"])
def test_settings_that_make_no_sense_fail_by_name_and_alone(server, api, broken):
    sets = {"fabric": "t", "clusters": [server.access()], "grants": {"aws": GRANTS["aws"]}, "timeout": 20}
    requests = {"load_balancers": request_for(server), "network_sets": sets}
    if broken == "network_sets":
        requests["network_sets"]["grants"] = {"aws": {"pod_cidrs": ["nowhere"]}}
    else:
        requests["load_balancers"]["settings"][0]["pool"] = ["nowhere"]
    lines = []
    control_loop = ControlLoop(requests, Log(lines.append), Metrics())
    control_loop.start()
    try:
        make_service(api, "web")
        until(lambda: any(f"part={broken} event=failed" in line for line in lines))
        if broken == "network_sets":
            until(lambda: get(api, "web")["spec"].get("loadBalancerIP"))
    finally:
        control_loop.stop()
