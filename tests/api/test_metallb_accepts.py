# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What we write for MetalLB, read by MetalLB's own parsers: 0.11 for its ConfigMap, 0.13 and 0.16 for its custom resources."""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import os
import pathlib
import random
import subprocess

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers import yaml_edit
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.bgp.values import NodeBgp
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.metallb import (
    config as metallb_config,
)
from test_load_balancers_backends import (
    ADVERTISEMENTS,
    BGP,
    CONFIG,
    METALLB,
    PEERS,
    POOLS,
    SECRETS,
    api,
    kinds,
    run,
    service,
)

__all__ = ["api", "kinds"]
SOURCES = pathlib.Path(__file__).resolve().parents[1] / "metallb"
#: A configuration of people's own, with every key that MetalLB 0.11 has and we do not write.
USERS = """# the house's own
bgp-communities: {no-advertise: 65535:65282}
peers:
- peer-address: 10.0.0.254   # the core router
  peer-asn: 64999
  my-asn: 64998
  peer-port: 1179
  hold-time: 30s
  router-id: 10.0.0.1
  source-address: 10.0.0.2
  node-selectors:
  - match-expressions:
    - {key: rack, operator: In, values: [a, b]}
address-pools:
- name: own
  protocol: layer2
  addresses: ["192.168.1.240-192.168.1.250"]
- name: borders
  protocol: bgp
  avoid-buggy-ips: true
  addresses: [198.51.100.0/28]
  bgp-advertisements:
  - {aggregation-length: 32, localpref: 100, communities: [no-advertise]}
"""
N1 = NodeBgp("n1", "10.0.0.1", 65000, 65530, ("169.254.255.1", "169.254.255.2"), "Secret-pass-1")
N2 = N1._replace(name="n2", source_ip="10.0.0.2")
KEYS = [("default", name) for name in ("a", "b", "c")]
NETWORKS = ["203.0.113.1/32", "203.0.113.2/32"]


def program(release):
    parts = [path.read_bytes() for name in ("go.mod", "main.go") for path in sorted(SOURCES.glob("*/" + name))]
    key = hashlib.sha256(b"".join(parts)).hexdigest()[:12]
    path = (
        pathlib.Path(os.environ.get("MCN_CACHE", "/var/cache/multicluster-network"))
        / ("metallb-" + key)
        / ("accepts-" + release)
    )
    if not path.exists():
        pytest.skip("MetalLB's parsers are not here; tests/metallb/build makes them")
    return str(path)


def read(release, text, *words):
    done = subprocess.run(
        [program(release), *words], input=text, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def accepted(text):
    """What MetalLB 0.11 reads in a text."""
    answer = read("0.11", text)
    assert "error" not in answer, f"{answer['error']}\n{text}"
    return answer


def written(text, options, *steps):
    config = metallb_config.Config(yaml_edit.parse_document(text), options)
    for step in steps:
        step(config)
    return yaml_edit.edit(text, config.document, (metallb_config.PEERS, metallb_config.POOLS))


OPTIONS = [
    metallb_config.Options(*row)
    for row in itertools.product(
        (metallb_config.NODE, metallb_config.SERVICE),
        (None, True, False),
        (metallb_config.WITHHOLD, metallb_config.PLAIN),
    )
]


def test_the_parser_is_strict():
    assert (
        "not found"
        in read("0.11", "peers:\n- {my-asn: 1, peer-asn: 2, peer-address: 10.0.0.1, ebgp-multihop: true}\n")["error"]
    )
    pool = "- {name: %s, protocol: bgp, addresses: [203.0.113.0/28]}\n"
    assert "overlaps" in read("0.11", "address-pools:\n" + pool % "a" + pool % "b")["error"]
    for release in ("0.13", "0.16"):
        peer = {
            "apiVersion": "metallb.io/v1beta2",
            "kind": "BGPPeer",
            "metadata": {"name": "a"},
            "spec": {"my-asn": 65000},
        }
        assert "unknown field" in read(release, json.dumps([peer]), "native")["error"]


@pytest.mark.parametrize("text", ["", USERS, "{}", "peers: []\naddress-pools: []\n"])
@pytest.mark.parametrize("options", OPTIONS)
def test_configurations(text, options):
    before = accepted(text)
    full = written(
        text,
        options,
        lambda config: config.sync_nodes([N1, N2]),
        lambda config: config.sync_services(
            {KEYS[0]: NETWORKS[0], KEYS[1]: NETWORKS[1], KEYS[2]: NETWORKS[1]}, [N1, N2]
        ),
    )
    found = accepted(full)
    owned = {name: pool for name, pool in found["pools"].items() if name not in before["pools"]}
    # nothing of it is assigned by MetalLB itself, and every pool has MetalLB's own advertisement of single addresses
    assert owned == {
        name: {"protocol": "bgp", "auto_assign": False, "addresses": [network], "advertisements": 1}
        for name, network in (("default/a", NETWORKS[0]), ("default/b,default/c", NETWORKS[1]))
    }
    assert {name: found["pools"][name] for name in before["pools"]} == before["pools"]
    assert [peer for peer in found["peers"] if peer in before["peers"]] == before["peers"]
    mine = [peer for peer in found["peers"] if peer not in before["peers"]]
    assert {(peer["selectors"][0], peer["address"]) for peer in mine} == {
        ("kubernetes.io/hostname=" + name, router) for name in ("n1", "n2") for router in N1.peers
    } and len(mine) == 4
    assert {peer["source"] for peer in mine} == ({"10.0.0.1", "10.0.0.2"} if options.writes_source else {""})
    assert {peer["password"] for peer in mine} == {options.passwords == metallb_config.PLAIN}
    gone = written(
        full, options, lambda config: config.sync_services({}), lambda config: config.sync_nodes([], cluster_nodes=[])
    )
    assert accepted(gone) == before


@pytest.mark.parametrize("seed", range(12))
def test_any_order_of_changes(seed):
    """Services and nodes that come, go, share and change: MetalLB reads the configuration after each of them."""
    chance = random.Random(seed)
    options, text = chance.choice(OPTIONS), chance.choice([USERS, ""])
    nodes = [N1, N2]
    for unused in range(12):
        what, key, network = chance.randrange(5), chance.choice(KEYS), chance.choice(NETWORKS)

        def step(config, what=what, key=key, network=network):
            if what == 0:
                config.add_service(key, network, nodes)
            elif what == 1:
                config.remove_service(key, network)
            elif what == 2:
                config.sync_nodes(chance.sample(nodes, chance.randrange(3)))
            elif what == 3:
                config.remove_node(chance.choice(nodes).name)
            else:
                config.sync_services({one: chance.choice(NETWORKS) for one in KEYS if chance.random() < 0.6}, nodes)

        text = written(text, options, step)
        accepted(text)


def objects(client):
    """All that MetalLB would list."""
    found = []
    for path, version, kind in (
        (POOLS, "metallb.io/v1beta1", "IPAddressPool"),
        (ADVERTISEMENTS, "metallb.io/v1beta1", "BGPAdvertisement"),
        (PEERS, "metallb.io/v1beta2", "BGPPeer"),
        (SECRETS, "v1", "Secret"),
        ("/api/v1/nodes", "v1", "Node"),
    ):
        found += [dict(item, apiVersion=version, kind=kind) for item in client.list(path).items]
    return json.dumps(
        [item for item in found if item["kind"] != "Secret" or item["type"] == "kubernetes.io/basic-auth"]
    )


@pytest.mark.parametrize("tracking", ["node", "service"])
def test_custom_resources(server, api, tracking):
    for name in ("web", "db"):
        service(api, name)
    service(api, "own", "203.0.113.7")
    run(server, metallb_peer_tracking=tracking)
    for release in ("0.13", "0.16"):
        answer = read(release, objects(api), "native")
        assert "error" not in answer, answer
        assert sorted(answer["pools"]) == ["lb-backend.db", "lb-backend.own", "lb-backend.web"]
        assert all(pool["advertisements"] == 1 and pool["auto_assign"] is False for pool in answer["pools"].values())
        assert len(answer["peers"]) == 4 and all(peer["password"] and peer["source"] for peer in answer["peers"])
    # peers of different nodes towards one router: frr takes them from 0.16 on, before it the peer mode frr is needed
    assert "duplicate" in read("0.13", objects(api), "frr")["error"]
    for implementation in ("frr", "frr-k8s"):
        assert "error" not in read("0.16", objects(api), implementation)


def test_one_peer_for_each_router(server, api):
    service(api, "web")
    plain = [dict(one, password=None) for one in copy.deepcopy(BGP)]
    run(server, bgp_nodes=plain, metallb_peer_mode="frr")
    for release, implementation in (("0.13", "frr"), ("0.16", "frr"), ("0.16", "frr-k8s")):
        answer = read(release, objects(api), implementation)
        assert "error" not in answer and len(answer["peers"]) == 2, answer
        assert {tuple(peer["selectors"]) for peer in answer["peers"]} == {
            ("kubernetes.io/hostname=lb-1", "kubernetes.io/hostname=lb-2")
        }


def test_what_the_module_leaves_in_the_configmap(server, api):
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "config", "namespace": METALLB},
        "data": {"config": USERS},
    }
    api.create(CONFIG, body, "kubectl")
    for name in ("web", "db"):
        service(api, name)
    for tracking in ("node", "service"):
        run(server, load_balancer="metallb://metallb-system:config", metallb_peer_tracking=tracking)
        answer = accepted(api.get(CONFIG + "/config")["data"]["config"])
        assert {"own", "borders", "lb-backend/web", "lb-backend/db"} == set(answer["pools"]) and len(
            answer["peers"]
        ) == 5
