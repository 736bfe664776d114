# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each capability with each mode of the mesh: it comes, changes, a node loses its power, the cluster that has it leaves and comes back, it goes.

Three clusters; ``aws`` has what is mirrored, exported and announced. Snapshots of all nodes and clusters are compared. Capabilities of API servers with one
another: tests/api/test_pairs.py.
"""

from __future__ import annotations

import pathlib
import time

import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._status.results import CAPABILITIES
from bgp_lab import NODES, ROUTER, Router
from service_lab import LABEL, client

TOPOLOGY = str(pathlib.Path(__file__).with_name("three_with_a_pair.json"))
PROXIES = True
COREFILE = ".:53 {\n    errors\n    kubernetes cluster.local in-addr.arpa ip6.arpa\n    forward . /etc/resolv.conf\n    reload\n}\n"
BGP_POOL, LAYER2_POOL = "203.0.113.0/29", "10.66.23.200-10.66.23.210"
SPEAKERS = {
    "bgp_speaker_asn": 65000,
    "bgp_speaker_install": False,
    "bgp_speaker_hold_time": 9,
    "bgp_speaker_neighbors": [{"address": ROUTER, "asn": 65530}],
}
SEGMENT = {"layer2_speaker_segment": "rack1", "layer2_speaker_install": False}
NAMES = ["coredns_rewrite"]
MODES = {
    "semaphore": {},
    "kubespan": {
        "multicluster_mesh": "kubespan",
        "mesh_id": "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=",
        "mesh_secret": "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=",
    },
}
#: name -> (capabilities, variables of the nodes of aws, pool of addresses)
SETS = {
    "mirrors": (["service_mirror", *NAMES], {}, None),
    "imports": (["mcs", *NAMES], {}, None),
    "bgp": (["load_balancers", "service_mirror"], SPEAKERS, BGP_POOL),
    "layer2": (["load_balancers", "mcs"], SEGMENT, LAYER2_POOL),
}
CELLS = [(mode, name) for mode in MODES for name in SETS]
SERVICES, ENDS = "/api/v1/namespaces/shop/services", "/api/v1/namespaces/shop/endpoints"
EXPORTS = "/apis/multicluster.x-k8s.io/v1beta1/namespaces/shop/serviceexports"


class Cell:
    """One cell of the matrix: an inventory of its own over the lab's."""

    def __init__(self, fabric, folder, mode, name):
        self.fabric, self.name, self.is_done = fabric, name, False
        self.capabilities, self.speakers, self.pool = SETS[name]
        (folder / "hosts.yml").symlink_to(fabric.inventory)
        clusters = {one: {} for one in fabric.clusters}
        if self.pool:
            clusters["aws"]["load_balancers_settings"] = {"load_balancer": "empty://", "pool": [self.pool]}
        given = {
            "multicluster_capabilities": self.capabilities,
            "service_mirror_create_namespace": True,
            "mcs_install_crds": True,
            "coredns_rewrite_version": "1.12.2",
            "coredns_rewrite_clusterset_domain": "",
            **MODES[mode],
        }
        hosts = {node: {"layer2_speaker_address": [NODES[node]]} for node in NODES} if name == "layer2" else {}
        groups = {"clusters": {"hosts": clusters}, "aws_nodes": {"vars": self.speakers, "hosts": hosts}}
        (folder / "more.yml").write_text(yaml.safe_dump({"all": {"vars": given, "children": groups}}))
        self.inventory = folder

    def play(self, book, *arguments, **variables):
        return self.fabric.play(book, *arguments, inventory=self.inventory, variables=variables)

    def site(self):
        run = self.play("site").ok()
        assert "all green" in run.out, run.out[-5000:]
        return run

    def unchanged(self):
        with self.fabric.witness() as writes:
            assert not self.play("site").ok().changed
        assert not writes, writes

    def make_service(self, name):
        """A Service of aws that this cell's capabilities carry."""
        api = client(self.fabric, "aws")
        spec = {"ports": [{"name": "http", "port": 80, "targetPort": 8080}]}
        if self.pool:
            spec["type"] = "LoadBalancer"
        body = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "labels": {LABEL: "true"}},
            "spec": spec,
        }
        api.create(SERVICES, body, "test")
        rows = [{"ip": "10.2.3.10", "nodeName": "aws-node-1"}, {"ip": "10.2.4.10", "nodeName": "aws-node-2"}]
        ports = [{"name": "http", "port": 8080, "protocol": "TCP"}]
        ends = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name, "labels": {LABEL: "true"}}}
        api.create(ENDS, dict(ends, subsets=[{"addresses": rows, "ports": ports}]), "test")
        if "mcs" in self.capabilities:
            kind = {"apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceExport", "metadata": {"name": name}}
            api.create(EXPORTS, kind, "test")

    def address(self, name):
        return client(self.fabric, "aws").get(f"{SERVICES}/{name}")["spec"].get("loadBalancerIP")

    def carried(self):
        """What other clusters have of aws' Services, and what is announced, by names and addresses."""
        found = {}
        for cluster in ("abc", "gcp"):
            api = client(self.fabric, cluster)
            for kind in ("services", "endpoints"):
                for one in api.list("/api/v1/" + kind).items:
                    meta = one["metadata"]
                    if meta.get("namespace") in ("sys-semaphore", "shop"):
                        found[cluster, kind, meta["name"]] = [
                            sorted(row["ip"] for row in part.get("addresses") or ())
                            for part in one.get("subsets") or ()
                        ]
            maps = api.find("/api/v1/namespaces/kube-system/configmaps/coredns") or {}
            found[cluster, "names"] = "cluster.aws" in (maps.get("data") or {}).get("Corefile", "")
        return found

    def announcers(self, router, address):
        """The nodes that an address leads to, from outside."""
        if self.name == "bgp":
            return router.via(address)
        return {node for node in NODES if self.has(node, address)}

    def has(self, node, address):
        done = self.fabric.lab("exec", node, "--", "ip", "-j", "-4", "address", "show", check=False)
        return f'"{address}"' in done.stdout if done.returncode == 0 else False


@pytest.fixture(scope="module")
def router(fabric):
    """What every cell finds: a router, a Corefile in each cluster, and a namespace of shops."""
    for cluster in fabric.clusters:
        api = client(fabric, cluster)
        api.create(
            "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}, "test"
        )
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "coredns"},
            "data": {"Corefile": COREFILE},
        }
        api.create("/api/v1/namespaces/kube-system/configmaps", body, "test")
    made = Router(fabric)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def cell(fabric, router, tmp_path, request):
    made = Cell(fabric, tmp_path, *request.param)
    made.definitions = client(fabric, "aws").find(DEFINITION) is not None
    yield made
    if not made.is_done:  # what a test that failed leaves is none of the next one's
        fabric.lab("node-rebuild", "aws-node-2")
        made.play("teardown", node_dataplane_remove_keys=True)
    for name in ("web", "late"):
        for path in (SERVICES, ENDS, *([EXPORTS] if client(fabric, "aws").find(DEFINITION) else [])):
            if client(fabric, "aws").find(f"{path}/{name}"):
                client(fabric, "aws").delete(f"{path}/{name}")


DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/serviceexports.multicluster.x-k8s.io"


def until(condition, what, within=90.0):
    end = time.monotonic() + within
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.3)


def without_marks(snapshots):
    """Snapshots without what kube-proxy writes by itself."""
    return {
        name: {part: row for part, row in body.items() if part not in ("nft", "iptables")}
        for name, body in snapshots.items()
    }


@pytest.mark.parametrize("cell", CELLS, ids="-".join, indirect=True)
def test_it_comes_changes_leaves_and_goes(fabric, router, cell):
    nodes = fabric.snapshot(*fabric.nodes)
    empty = cell.carried()
    if "mcs" in cell.capabilities and not cell.definitions:
        cell.play("site").ok()  # brings the definitions, which stay
    cell.make_service("web")

    cell.site()
    come = cell.carried()
    assert come != empty or cell.pool, "the others have something of it"
    address = cell.address("web") if cell.pool else None
    if cell.pool:
        until(lambda: cell.announcers(router, address), f"nobody announces {address}")
    if cell.name == "layer2":
        time.sleep(10)  # who came up first holds an address until the one that is to have it is up, too
    cell.unchanged()

    # a change
    cell.make_service("late")
    cell.site()
    changed = cell.carried()
    given = {cell.address(name) for name in ("web", "late")}
    assert changed != come or given - {address, None}, changed

    # a node without power: the others' packets notice nothing, and its addresses lead to the one that is left
    fabric.all_reach()
    with fabric.pinging("gcp-node-1-pod-1", "10.2.3.10", inside="pod-exec") as echoes:
        fabric.lab("node-stop", "aws-node-2")
        if cell.pool:
            until(lambda: cell.announcers(router, address) == {"aws-node-1"}, f"{address} does not move")
        time.sleep(4)
    assert echoes.sent and echoes.lost == 0, echoes
    run = cell.play("site")
    assert run.rc != 0 and "aws-node-2" in run.out, "what is without power is named"
    fabric.lab("node-rebuild", "aws-node-2")
    cell.site()
    fabric.all_reach()
    assert cell.carried() == changed

    # the cluster leaves, and the others' packets notice nothing
    with fabric.witness() as writes:
        cell.play("leave", "--check", "--diff", "-e", "cluster=aws").ok()
    assert not writes, writes
    with fabric.pinging("gcp-node-1-pod-1", "10.6.1.10", inside="pod-exec") as echoes:
        cell.play("leave", "-e", "cluster=aws").ok()
    assert echoes.sent and echoes.lost == 0, echoes
    left = cell.carried()
    assert not [key for key in left if "aws" in str(key[2:])] and left["gcp", "names"] is False, left
    if cell.pool:
        until(lambda: not cell.announcers(router, address), f"{address} is still announced")
    for node in NODES:
        assert not fabric.wireguard(node), node
        units = fabric.sh(node, "sh", "-c", "ls /etc/systemd/system")
        assert "multicluster" not in units, units

    # and comes back
    cell.site()
    fabric.all_reach()
    assert cell.carried() == changed
    if cell.pool:
        again = {cell.address(name) for name in ("web", "late")}
        assert again == given, "reservations were taken back, and the same addresses are given again"
        for one in again:
            until(lambda one=one: cell.announcers(router, one), f"nobody announces {one} again")

    # and all of it goes
    cell.play("teardown", node_dataplane_remove_keys=True).ok()
    assert {key: row for key, row in cell.carried().items() if "names" in key} == {
        key: row for key, row in empty.items() if "names" in key
    }
    assert set(cell.carried()) == set(empty)
    after = fabric.snapshot(*fabric.nodes)
    for name, body in without_marks(nodes).items():
        assert without_marks(after)[name] == body, name
    if cell.pool:
        assert not cell.announcers(router, address)
    cell.is_done = True


def test_the_mode_changes_in_one_run_each_way(fabric, router, tmp_path):
    """A device of the former mode gives up the port that one of the new mode needs, and its annotations go."""
    nodes = fabric.snapshot(*fabric.nodes)
    for number, mode in enumerate(("semaphore", "kubespan", "semaphore")):
        (tmp_path / str(number)).mkdir()
        one = Cell(fabric, tmp_path / str(number), mode, "mirrors")
        one.site()
        fabric.all_reach()
        devices = {name.partition(".")[0] for node in fabric.nodes for name in fabric.wireguard(node)}
        assert devices == {"kubespan" if mode == "kubespan" else "wireguard"}
        one.unchanged()
    one.play("teardown", node_dataplane_remove_keys=True).ok()
    assert without_marks(fabric.snapshot(*fabric.nodes)) == without_marks(nodes)


def test_every_capability_has_a_row_or_a_reason():
    """One that comes fails here until it is in the matrix, or is tested elsewhere."""
    elsewhere = {
        "network_sets": "no packets and no nodes: tests/api/test_pairs.py",
        "tenants": "no nodes: tests/api/test_tenants_flow.py",
        "clustermesh": "a mesh of its own, by Kilo's agents: tests/kilo",
    }
    tested = {name for capabilities, dummy, unused in SETS.values() for name in capabilities}
    assert tested | set(elsewhere) == set(CAPABILITIES) and not tested & set(elsewhere)
