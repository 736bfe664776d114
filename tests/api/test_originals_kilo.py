# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Peers of Kilo's cluster-mesh operator: taken over, changed in every way, given back, and a fleet of which it keeps one cluster.

The operator itself is not run anywhere here. What it writes is computed below from its specification (docs/specs, kilo 7 and 10), by itself and without
our planner, and sent as it sends it: created and updated by the field manager ``manager``.
"""

from __future__ import annotations

import copy

from ansible_collections.multicluster.network.plugins.module_utils._flows.clustermesh import converge as clustermesh
from test_clustermesh import (
    PEERS,
    annotate,
    entry,
    key_of,
    marks,
    mesh,
    node,
    operator_peer,
    peers_of,
    put_nodes,
    request_for,
    servers,
    writes,
)

__all__ = ["mesh", "servers"]
MANAGER, US, NODES = "manager", "multicluster.network/t", "/api/v1/nodes"


def host(address):
    return address + ("/128" if ":" in address else "/32")


class Operator:
    """One cluster mesh of typed ranges, folded anchors, endpoints of ExternalIPs: the Peers of every source in every target."""

    def __init__(self, servers, targets=None):
        self.servers, self.targets = servers, targets or list(servers)

    def desired(self, source):
        """{name: spec} of a source's Peers."""
        found = {}
        for number, obj in enumerate(
            sorted(self.servers[source].client().list(NODES).items, key=lambda obj: obj["metadata"]["name"])
        ):
            said = {key.partition("/")[2]: value for key, value in obj["metadata"]["annotations"].items()}
            addresses = obj["status"]["addresses"]
            allowed = [obj["spec"]["podCIDRs"][0], host(said["wireguard-ip"].partition("/")[0])]
            allowed += [host(one["address"]) for one in addresses if one["type"] == "InternalIP"]
            allowed += [entry(source)["serviceCIDR"]] if number == 0 else []
            endpoint = (
                said.get("clustermesh-endpoint")
                or next(one["address"] for one in addresses if one["type"] == "ExternalIP") + ":51820"
            )
            address, dummy, port = endpoint.rpartition(":")
            found[f"prod--{source}--{obj['metadata']['name']}"] = {
                "allowedIPs": allowed,
                "publicKey": said["key"],
                "endpoint": {"dnsOrIP": {"ip": address}, "port": int(port)},
            }
        return found

    def differences(self):
        """What it would write: (target, name, spec, or None for a Peer that goes)."""
        found = []
        for target in self.targets:
            there = peers_of(self.servers[target])
            for source in self.servers:
                if source == target:
                    continue
                desired = self.desired(source)
                mine = {
                    name
                    for name, peer in there.items()
                    if peer["metadata"].get("labels", {}).get("kilo-clustermesh.io/source-cluster") == source
                }
                found += [(target, name, None) for name in sorted(mine - set(desired))]
                found += [
                    (target, name, spec)
                    for name, spec in sorted(desired.items())
                    if name not in there or there[name]["spec"] != spec
                ]
        return found

    def run(self):
        """One pass of it."""
        for target, name, spec in self.differences():
            client, source = self.servers[target].client(), name.split("--")[1]
            if spec is None:
                client.delete(PEERS + "/" + name)
            elif name in peers_of(self.servers[target]):
                client.merge_patch(PEERS + "/" + name, {"spec": spec}, MANAGER)
            else:
                client.create(PEERS, operator_peer(name, "prod", source, spec), MANAGER)


def records(servers):
    return {
        row["manager"]
        for one in servers.values()
        for peer in peers_of(one).values()
        for row in peer["metadata"].get("managedFields") or ()
    }


def quiet(servers, **more):
    before = marks(servers)
    result = clustermesh.run(request_for(servers, **more))
    assert not result["changed"] and writes(servers, before) == {} and not result["failures"], result["diff"]
    return result


def specs(servers):
    return {name: {peer: found["spec"] for peer, found in peers_of(one).items()} for name, one in servers.items()}


def settle(servers, operator):
    """A run that changes something and refuses nothing; what exists then is what the operator would have made of it."""
    result = clustermesh.run(request_for(servers))
    assert result["changed"] and not result["refused"] and not result["failures"], result
    assert operator.differences() == []
    assert records(servers) == {US}
    quiet(servers)


def test_taken_over_changed_and_given_back(mesh):
    operator = Operator(mesh)
    operator.run()
    before = specs(mesh)
    assert sum(map(len, before.values())) == 12 and records(mesh) == {MANAGER}
    quiet(mesh)
    mark = marks(mesh)
    planned = clustermesh.run(request_for(mesh, adopt=True), check=True)
    assert planned["plan"]["update"] == 12 and writes(mesh, mark) == {}
    assert clustermesh.run(request_for(mesh, adopt=True))["plan"] == planned["plan"]
    assert specs(mesh) == before and records(mesh) == {US}, "nothing but who is on record"
    quiet(mesh)

    annotate(mesh["eu"], "eu-1", key=key_of("rotated"))
    settle(mesh, operator)
    annotate(mesh["eu"], "eu-2", **{"clustermesh-endpoint": "203.0.113.9:51999"})
    settle(mesh, operator)
    annotate(mesh["eu"], "eu-2", **{"clustermesh-endpoint": None})
    settle(mesh, operator)
    external = [row for row in node("us", 1)["status"]["addresses"] if row["type"] == "ExternalIP"]
    mesh["us"].client().merge_patch(NODES + "/us-1/status", {"status": {"addresses": external}}, "kubelet")
    settle(mesh, operator)
    assert "192.168.30.1/32" not in str(specs(mesh)), "an allowed IP that goes"
    put_nodes(mesh["ap"].client(), [node("ap", 3)])
    settle(mesh, operator)
    mesh["ap"].client().delete(NODES + "/ap-1")
    settle(mesh, operator)

    before = specs(mesh)
    assert clustermesh.run(request_for(mesh, state="released"))["changed"]
    assert specs(mesh) == before and US not in records(mesh)
    quiet(mesh, state="released")
    assert operator.differences() == [], "the operator, started again, finds its own"
    annotate(mesh["eu"], "eu-1", key=key_of("once more"))
    before = specs(mesh)
    result = clustermesh.run(request_for(mesh))
    assert {row["reason"] for row in result["refused"]} == {"adoptable"} and specs(mesh) == before
    operator.run()
    assert operator.differences() == [] and specs(mesh) != before


def test_a_fleet_of_which_the_operator_keeps_one_cluster(mesh):
    """It writes the Peers of ap, we those of eu and us: both follow, and neither touches what is the other's."""
    operator = Operator(mesh, targets=["ap"])
    operator.run()
    mine = {"targets": ["eu", "us"]}
    clustermesh.run(request_for(mesh, **mine))
    theirs = copy.deepcopy(peers_of(mesh["ap"]))
    assert records({"ap": mesh["ap"]}) == {MANAGER} and records({name: mesh[name] for name in ("eu", "us")}) == {US}
    quiet(mesh, **mine)

    def both():
        mark = mesh["ap"].mark()
        result = clustermesh.run(request_for(mesh, **mine))
        assert result["failures"] == result["refused"] == []
        assert mesh["ap"].writes(mark) == [] and peers_of(mesh["ap"]) == theirs, "what the operator keeps is left alone"
        operator.run()
        assert Operator(mesh).differences() == []
        theirs.clear()
        theirs.update(peers_of(mesh["ap"]))
        quiet(mesh, **mine)

    annotate(mesh["ap"], "ap-1", key=key_of("theirs rotated"))
    both()
    annotate(mesh["eu"], "eu-1", key=key_of("owned rotated"))
    both()
    put_nodes(mesh["us"].client(), [node("us", 3)])
    both()
    mesh["us"].client().delete(NODES + "/us-3")
    both()
