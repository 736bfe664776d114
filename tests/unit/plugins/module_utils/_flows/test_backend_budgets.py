# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What MetalLB announces does not vanish because of one wrong range: refused Services and nodes count as deletions, and the way out is named."""

from __future__ import annotations

import typing as t

import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers import backends
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Resource
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.bgp.values import NodeBgp
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.metallb.config import (
    Config,
    managed_text,
)
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.metallb.resources import Resources
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.setup import Setup, parse_setup
from ansible_collections.multicluster.network.plugins.module_utils._plan.plan import Refusal

MANAGER = "multicluster.network/t"
BALANCERS = ["metallb:///metallb-system/config", "metallb:///metallb-system?crdConfiguration=true"]
NODES = [
    NodeBgp(f"n{number}", f"10.66.0.{number}", 65000, 65530, ("169.254.255.1", "169.254.255.2")) for number in (1, 2, 3)
]
SERVICES = {("default", name): (f"192.0.2.{number}/32",) for number, name in enumerate("abc")}


class Kinds:
    """The kinds of MetalLB; nothing else is asked."""

    def resource(self, version: str, kind: str) -> Resource | None:
        """Of those that we write."""
        return (
            None
            if kind == "L2Advertisement"
            else Resource(
                version, kind, kind.lower() + "s", True, frozenset(["get", "list", "patch", "create", "delete"])
            )
        )


def found(setup: Setup) -> backends.BackendState:
    """A back end with three Services and the six peers of three nodes."""
    if setup.balancer.mode == "crd":
        resources = Resources([], setup.resource_options)
        resources.sync_services(SERVICES, NODES)
        resources.sync_nodes(NODES)
        return backends.BackendState(setup.balancer, None, tuple(resources.objects.values()))
    config = Config({}, setup.config_options)
    config.sync_services({key: networks[0] for key, networks in SERVICES.items()}, NODES)
    config.sync_nodes(NODES)
    meta = {
        "resourceVersion": "1",
        "annotations": {setup.scheme.domain + "/managed-peers": managed_text(config.managed)},
    }
    return backends.BackendState(
        setup.balancer, {"metadata": meta, "data": {"config": yaml.safe_dump(config.document)}}
    )


def plan(balancer: str, services: t.Any, nodes: t.Any, refused: t.Any, **more: t.Any) -> t.Any:
    """(the plan; its text, in which a peer or a pool that went is missing)."""
    setup = parse_setup({"cluster": "aws", "load_balancer": balancer}, {}, None)
    reserved = frozenset(networks[0] for networks in SERVICES.values())
    request = backends.BackendRequest(
        "sync", services, nodes, frozenset(node.name for node in NODES), True, reserved, refused=tuple(refused), **more
    )
    return backends.plan_backend(t.cast(t.Any, Kinds()), setup, found(setup), request, MANAGER)


def gone(reported: t.Any) -> tuple[int, int]:
    """How many peers and pools the writes take away."""
    peers = pools = 0
    for put in reported.puts:
        if put.change.kind == "ConfigMap":
            sides = [side["config"] for side in (put.change.before, put.change.after) if "config" in side]
            if sides:
                peers = len(sides[0]["peers"]) - len(sides[1].get("peers") or ())
                pools = len(sides[0]["address-pools"]) - len(sides[1].get("address-pools") or ())
        elif put.change.action == "delete":
            peers, pools = peers + (put.change.kind == "BGPPeer"), pools + (put.change.kind == "IPAddressPool")
    return peers, pools


def refusals(kind: str, names: t.Iterable[str]) -> list[Refusal]:
    return [
        Refusal(f"{kind} aws/{name}", "outside_grant", "a range of the inventory does not have it") for name in names
    ]


@pytest.mark.parametrize("balancer", BALANCERS)
def test_a_wrong_grant_takes_no_cluster_off_its_routers(balancer: str) -> None:
    reported = plan(balancer, SERVICES, [], refusals("node", ["n1", "n2", "n3"]))
    assert gone(reported) == (0, 0) and [(row.object, row.reason) for row in reported.refused] == [
        ("aws", "delete_budget")
    ]
    message = reported.refused[0].message
    assert (
        "3 nodes were refused, the first is aws/n1 [outside_grant]. Correct the grant of cluster aws" in message
        and "confirm_empty" not in message
    )
    # said nevertheless, it would still be the wrong thing: the cluster is not empty
    reported = plan(balancer, SERVICES, [], refusals("node", ["n1", "n2", "n3"]), confirmed=True)
    assert gone(reported) == (0, 0) and "is in confirm_empty and is not empty" in reported.refused[0].message
    assert gone(plan(balancer, SERVICES, [], refusals("node", ["n1", "n2", "n3"]), confirmed=True, max_deletes=6)) == (
        6,
        0,
    )


@pytest.mark.parametrize("balancer", BALANCERS)
def test_a_refused_node_loses_its_peers_and_the_run_reports_it(balancer: str) -> None:
    reported = plan(balancer, SERVICES, NODES[1:], refusals("node", ["n1"]))
    assert (
        gone(reported) == (2, 0)
        and not reported.refused
        and reported.notes == ["node n1 is without its BGP peers: it is refused"]
    )
    reported = plan(balancer, SERVICES, NODES[1:], ())
    assert gone(reported) == (2, 0) and not reported.refused and not reported.notes


@pytest.mark.parametrize("balancer", BALANCERS)
def test_nobody_announces_any_more(balancer: str) -> None:
    reported = plan(balancer, SERVICES, [], ())
    assert (
        gone(reported) == (0, 0)
        and "wants no BGP peer any more while we own 6" in reported.refused[0].message
        and "confirm_empty" in reported.refused[0].message
    )
    assert gone(plan(balancer, SERVICES, [], (), confirmed=True)) == (6, 0)


@pytest.mark.parametrize("balancer", BALANCERS)
def test_refused_services_are_no_empty_cluster(balancer: str) -> None:
    names = ["default/a", "default/b", "default/c"]
    reported = plan(balancer, {}, NODES, refusals("service", names))
    assert gone(reported) == (0, 0) and [row.reason for row in reported.refused] == ["delete_budget"]
    assert (
        "3 Services were refused, the first is aws/default/a [outside_grant]. Correct the grant"
        in reported.refused[0].message
    )
    assert "confirm_empty" not in reported.refused[0].message
    assert gone(plan(balancer, {}, NODES, refusals("service", names), confirmed=True)) == (0, 0)
    reported = plan(balancer, {key: SERVICES[key] for key in list(SERVICES)[1:]}, NODES, refusals("service", names[:1]))
    assert (
        gone(reported) == (0, 1)
        and not reported.refused
        and reported.notes == ["Service default/a is no longer announced: it is refused"]
    )
    # who is gone and not refused is confirmed as ever
    reported = plan(balancer, {}, NODES, ())
    assert gone(reported) == (0, 0) and "Name aws in confirm_empty" in reported.refused[0].message
    assert gone(plan(balancer, {}, NODES, (), confirmed=True)) == (0, 3)
