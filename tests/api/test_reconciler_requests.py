# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a Service that goes costs while the reconciler follows the cluster: only what changed is asked for, of the API server as of the provider."""

from __future__ import annotations

import time

import pytest
from equinix_cloud import CONFIGMAPS, double, request_for  # pylint: disable=unused-import
from test_load_balancers_backends import CONFIG, METALLB, POOLS, USERS, clear, kinds, specs  # pylint: disable=unused-import
from test_load_balancers_equinix import SERVICES, address_of, api, more_nodes, service  # pylint: disable=unused-import
from test_reconciler import quiet, until
from test_reconciler_capabilities import kept

__all__ = ["api", "double", "kinds"]
#: Requests of the API server, and calls of the provider.
MOST = 8, 8
BACKENDS = ["kube-vip://", "metallb:///metallb-system", "metallb:///metallb-system?crdConfiguration=true"]


@pytest.fixture
def cluster(api, kinds):
    api.create(
        CONFIG,
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "config"}, "data": {"config": USERS}},
        "kubectl",
    )
    yield api
    clear(api, SERVICES)
    for path in ("ipaddresspools", "bgpadvertisements"):
        clear(api, POOLS.replace("ipaddresspools", path))
    clear(api, POOLS.replace("v1beta1", "v1beta2").replace("ipaddresspools", "bgppeers"))
    clear(api, f"/api/v1/namespaces/{METALLB}/secrets")
    api.delete(CONFIG + "/config")


def announced(client, mode):
    """What the back end has, as text."""
    return str(specs(client, POOLS)) + client.get(CONFIG + "/config")["data"]["config"]


class Asked:
    """The requests of everybody but the test, without the reconciler's own Lease, which it renews whatever happens."""

    def __init__(self, server, double):
        self.server, self.double, self.mark, self.calls = server, double, server.mark(), len(double.calls())

    def requests(self):
        return [
            row[:2]
            for row in self.server.audit(self.mark)
            if "/leases/multicluster-reconciler-" not in row[1] and row[0] != "watch"
        ]

    def of_provider(self):
        return self.double.calls()[self.calls :]


@pytest.mark.parametrize("mode", BACKENDS)
def test_a_service_that_goes(server, double, cluster, mode):
    """It is taken from the back end, its address goes back to the provider, and no playbook is asked for that would read everything again."""
    double.ask("/options", max_prefix=100)
    more_nodes(double, cluster, 4, 10)
    for number in range(20):
        service(cluster, "web-%d" % number)
    with kept(load_balancers=request_for(server, double, load_balancer=mode)) as control_loop:
        until(lambda: all(address_of(cluster, "web-%d" % number) for number in range(20)), 60)
        quiet(control_loop)
        address = address_of(cluster, "web-7")
        assert mode == BACKENDS[0] or address in announced(cluster, mode)
        books, asked = list(control_loop.books), Asked(server, double)
        cluster.delete(SERVICES + "/web-7")
        until(lambda: address not in str(double.held()))
        quiet(control_loop)
        time.sleep(1.0)
        quiet(control_loop)
        requests, calls = asked.requests()[1:], asked.of_provider()
        assert control_loop.books == books and len(requests) <= MOST[0] and len(calls) <= MOST[1], (
            requests,
            calls,
            control_loop.books,
        )
        print(f"{mode}: {len(requests)} requests of Kubernetes, {len(calls)} calls of the provider")
        assert address not in announced(cluster, mode)
        assert (
            address not in str(cluster.get(CONFIGMAPS + "/metal-ccm-reservations")["data"]) and len(double.held()) == 19
        )


def test_services_that_go_one_after_the_other_are_counted_together(server, double, cluster):
    """A namespace that is deleted loses its Services one by one, and the budget stops what it counts together: no address is released then."""
    double.ask("/options", max_prefix=100)
    for number in range(12):
        service(cluster, "web-%d" % number)
    with kept(load_balancers=request_for(server, double)) as control_loop:
        until(lambda: all(address_of(cluster, "web-%d" % number) for number in range(12)), 60)
        quiet(control_loop)
        for number in range(8):
            cluster.delete(SERVICES + "/web-%d" % number)
        until(lambda: any("delete_budget" in line for line in control_loop.lines))
        quiet(control_loop)
        assert len(double.held()) == 12, control_loop.lines
