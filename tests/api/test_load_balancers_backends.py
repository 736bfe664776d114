# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What MetalLB and kube-vip are given, over a real API server with MetalLB's own schemas."""

from __future__ import annotations

import base64
import contextlib
import copy
import json
import pathlib
import time

import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._flows.access import cluster_objects, cluster_token
from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers import (
    converge as load_balancers,
)
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import Conflict
from ansible_collections.multicluster.network.plugins.module_utils._plan.access_manifests import access_manifests

CRDS = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "crds" / "metallb.yml"
SPACE, METALLB = "lb-backend", "metallb-system"
SERVICES = f"/api/v1/namespaces/{SPACE}/services"
CONFIG = f"/api/v1/namespaces/{METALLB}/configmaps"
GROUP = "/apis/metallb.io/{0}/namespaces/" + METALLB + "/{1}"
POOLS, ADVERTISEMENTS = GROUP.format("v1beta1", "ipaddresspools"), GROUP.format("v1beta1", "bgpadvertisements")
PEERS = GROUP.format("v1beta2", "bgppeers")
LAYER2 = GROUP.format("v1beta1", "l2advertisements")
SECRETS = f"/api/v1/namespaces/{METALLB}/secrets"
USERS = """# the user's own
bgp-communities:
  no-advertise: 65535:65282
bfd-profiles:
- {name: fast, receive-interval: 100}
peers:
# the core router
- peer-address: 10.0.0.254
  peer-asn: 64999
  my-asn: 64998
  ebgp-multihop: true
  keepalive-time: 5s
address-pools:
- name: own          # layer 2
  protocol: layer2
  addresses: ["192.168.1.240-192.168.1.250"]
- name: borders
  protocol: bgp
  addresses:
  - 198.51.100.0/28
  bgp-advertisements:
  - {aggregation-length: 32, localpref: 100, communities: [no-advertise]}
  future-key: {stays: true}
"""
BGP = [
    {
        "name": "lb-%d" % number,
        "source_ip": "10.66.0.%d" % number,
        "peers": ["169.254.255.1", "169.254.255.2"],
        "password": "Secret-pass-%d" % number,
    }
    for number in (1, 2)
]


def put(client, path, body):
    with contextlib.suppress(Conflict):
        client.create(path, body, "kubectl")


def clear(client, path):
    for item in client.list(path).items:
        client.delete(path + "/" + item["metadata"]["name"])


def specs(client, path):
    return {item["metadata"]["name"]: item["spec"] for item in client.list(path).items}


def service(client, name, address=None):
    spec = {"type": "LoadBalancer", "ports": [{"port": 80, "protocol": "TCP"}], "selector": {"app": name}}
    if address:
        spec["loadBalancerIP"] = address
    client.create(
        SERVICES, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}, "kubectl"
    )


def node(client, name):
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name}, "annotations": {"example.com/own": "stays"}}
    put(client, "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": meta})


@pytest.fixture(scope="module")
def kinds(server):
    client = server.client()
    for name in (SPACE, METALLB):
        put(client, "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for body in yaml.safe_load(CRDS.read_text("utf-8"))["items"]:
        put(client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
    deadline = time.monotonic() + 120
    while (
        client.resource("metallb.io/v1beta2", "BGPPeer", refresh=True) is None
        or client.resource("metallb.io/v1beta1", "L2Advertisement") is None
    ):
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.fixture
def api(server, kinds):
    client = server.client()
    for number in (1, 2):
        node(client, "lb-%d" % number)
    yield client
    for path in (SERVICES, POOLS, ADVERTISEMENTS, LAYER2, PEERS, "/api/v1/nodes"):
        clear(client, path)
    for path, name in ((CONFIG, "config"), ("/api/v1/namespaces/kube-system/configmaps", "metal-ccm-static-pool")):
        client.delete(path + "/" + name)
    for item in client.list(SECRETS, label_selector="cloud-provider=equinix-metal").items:
        client.delete(SECRETS + "/" + item["metadata"]["name"])


def request_for(server, more=None, **settings):
    given = dict(
        {
            "cluster": "aws",
            "load_balancer": "metallb:///metallb-system?crdConfiguration=true",
            "pool": ["203.0.113.0/29"],
            "bgp_nodes": copy.deepcopy(BGP),
            "gc_orphans": True,
        },
        **settings,
    )
    return dict({"fabric": "t", "clusters": [server.access()], "settings": [given], "timeout": 20}, **(more or {}))


def run(server, more=None, **settings):
    result = load_balancers.run(request_for(server, more, **settings))
    assert not result["failures"], result["failures"]
    assert "Secret-pass" not in json.dumps(result)
    return result


def twice(server, **settings):
    mark = server.mark()
    result = run(server, **settings)
    assert not result["changed"], result["diff"]
    assert server.writes(mark) == []


def test_custom_resources(server, api):
    api.create(
        POOLS,
        {
            "apiVersion": "metallb.io/v1beta1",
            "kind": "IPAddressPool",
            "metadata": {"name": "own"},
            "spec": {"addresses": ["198.51.100.0/28"]},
        },
        "kubectl",
    )
    service(api, "web")
    service(api, "db")
    result = run(server)
    assert not result["refused"]
    assert specs(api, POOLS) == {
        "own": {"addresses": ["198.51.100.0/28"]},
        "lb-backend.db": {"addresses": ["203.0.113.0/32"], "autoAssign": False},
        "lb-backend.web": {"addresses": ["203.0.113.1/32"], "autoAssign": False},
    }
    assert {name: sorted(spec["ipAddressPools"]) for name, spec in specs(api, ADVERTISEMENTS).items()} == {
        "equinix-metal-bgp-adv": ["lb-backend.db", "lb-backend.web"]
    }
    assert specs(api, PEERS)["lb-1-1"] == {
        "myASN": 65000,
        "peerASN": 65530,
        "peerAddress": "169.254.255.2",
        "peerPort": 179,
        "sourceAddress": "10.66.0.1",
        "passwordSecret": {"name": "bgp-password-lb-1-1", "namespace": METALLB},
        "nodeSelectors": [{"matchLabels": {"kubernetes.io/hostname": "lb-1"}}],
    }
    secret = api.get(SECRETS + "/bgp-password-lb-2-0")
    assert (
        secret["type"] == "kubernetes.io/basic-auth"
        and base64.b64decode(secret["data"]["password"]) == b"Secret-pass-2"
    )
    assert result["load_balancers"]["aws"]["announce"] == []  # MetalLB's business
    twice(server)

    # a password that changes, a node that goes, a Service that goes: in place, and nothing of the user's
    given = copy.deepcopy(BGP[:1])
    given[0]["peer_asn"] = 65531
    api.delete(SERVICES + "/db")
    api.delete("/api/v1/nodes/lb-2")
    result = run(server, bgp_nodes=given)
    assert sorted(specs(api, PEERS)) == ["lb-1-0", "lb-1-1"] and specs(api, PEERS)["lb-1-0"]["peerASN"] == 65531
    assert sorted(specs(api, POOLS)) == ["lb-backend.web", "own"]
    assert specs(api, ADVERTISEMENTS)["equinix-metal-bgp-adv"]["ipAddressPools"] == ["lb-backend.web"]
    twice(server, bgp_nodes=given)

    run(server, {"state": "absent"})
    assert list(specs(api, POOLS)) == ["own"] and specs(api, PEERS) == {} and specs(api, ADVERTISEMENTS) == {}
    assert api.list(SECRETS, label_selector="cloud-provider=equinix-metal").items == []
    assert api.get("/api/v1/nodes/lb-1")["metadata"]["annotations"] == {"example.com/own": "stays"}


def test_objects_of_others_under_our_names(server, api):
    body = {
        "apiVersion": "metallb.io/v1beta1",
        "kind": "IPAddressPool",
        "metadata": {"name": "lb-backend.web"},
        "spec": {"addresses": ["198.51.100.0/28"]},
    }
    api.create(POOLS, body, "kubectl")
    old = {
        "apiVersion": "metallb.io/v1beta2",
        "kind": "BGPPeer",
        "metadata": {"name": "lb-1-0", "labels": {"cloud-provider": "equinix-metal"}},
        "spec": {"myASN": 1, "peerASN": 2, "peerAddress": "10.0.0.1"},
    }
    api.create(PEERS, old, "cloud-provider-equinix-metal")
    service(api, "web")
    service(api, "good")
    result = run(server)
    assert ("service lb-backend/web", "conflict") in {(one["object"], one["reason"]) for one in result["refused"]}
    assert ("BGPPeer aws/metallb-system/lb-1-0", "adoptable") in {
        (one["object"], one["reason"]) for one in result["refused"]
    }
    assert specs(api, POOLS)["lb-backend.web"]["addresses"] == ["198.51.100.0/28"] and "lb-backend.good" in specs(
        api, POOLS
    )
    assert specs(api, PEERS)["lb-1-0"]["myASN"] == 1
    run(server, {"adopt": True})
    assert specs(api, PEERS)["lb-1-0"]["myASN"] == 65000


def owners_of(client, path):
    return {
        entry["manager"]
        for item in client.list(path).items
        for entry in item["metadata"]["managedFields"]
        if "f:spec" in entry["fieldsV1"]
    }


def test_what_was_taken_over_as_it_was_stays_taken_over(server, api):
    """Objects of upstream that are as desired: adopted once, they are owned, and the next run without it has nothing to refuse."""
    service(api, "web")
    service(api, "db")
    run(server)
    for path in (POOLS, ADVERTISEMENTS, PEERS):
        for item in api.list(path).items:
            body = {key: value for key, value in item.items() if key not in ("metadata", "status")}
            labels = item["metadata"].get("labels")
            api.delete(path + "/" + item["metadata"]["name"])
            kind = {POOLS: "IPAddressPool", ADVERTISEMENTS: "BGPAdvertisement", PEERS: "BGPPeer"}[path]
            version = "metallb.io/v1beta2" if path == PEERS else "metallb.io/v1beta1"
            meta = {
                "name": item["metadata"]["name"],
                "labels": labels,
                "annotations": item["metadata"].get("annotations"),
            }
            api.create(path, dict(body, apiVersion=version, kind=kind, metadata=meta), "cloud-provider-equinix-metal")
    before = {path: specs(api, path) for path in (POOLS, ADVERTISEMENTS, PEERS)}
    twice(server)
    assert owners_of(api, PEERS) == {"cloud-provider-equinix-metal"}, "without adopt nothing is written into them"
    checked = load_balancers.run(request_for(server, {"adopt": True}), check=True)
    adopted = run(server, {"adopt": True})
    assert adopted["plan"]["update"] == checked["plan"]["update"] == sum(len(found) for found in before.values())
    assert {path: specs(api, path) for path in before} == before
    assert {path: owners_of(api, path) for path in before} == {path: {"multicluster.network/t"} for path in before}
    twice(server)
    api.delete(SERVICES + "/db")
    result = run(server)
    assert not result["refused"] and "lb-backend.db" not in specs(api, POOLS)


ORIGINAL = """peers:
- my-asn: 65000
  peer-asn: 65530
  peer-address: 169.254.255.1
  node-selectors:
  - match-labels: {kubernetes.io/hostname: lb-1}
address-pools:
- {protocol: bgp, name: lb-backend/old, addresses: [203.0.113.6/32], auto-assign: false}
"""
CCM = "cloud-provider-equinix-metal"
D = "metal.equinix.com/"
#: As upstream writes them: the names with numbers, and the private network.
THEIRS = {
    D + f"bgp-peers-{number}-{name}": value
    for number, router in enumerate(("169.254.255.1", "169.254.255.2"))
    for name, value in (("node-asn", "65000"), ("peer-asn", "65530"), ("peer-ip", router), ("src-ip", "10.66.0.1"))
}


def test_nothing_is_written_into_what_the_original_has(server, api):
    """Nodes and the ConfigMap, as with custom resources: without adopt they stay to the byte, with it they are solely owned, and stay so."""
    for name, address in (("old", "203.0.113.6"), ("web", None)):
        service(api, name, address)
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "config"},
        "data": {"config": ORIGINAL, "other": "x"},
    }
    api.create(CONFIG, body, CCM)
    api.merge_patch("/api/v1/nodes/lb-1", {"metadata": {"annotations": THEIRS}}, CCM)
    paths = (CONFIG + "/config", "/api/v1/nodes/lb-1")
    before, mark = [api.get(path) for path in paths], server.mark()
    given = [dict(one, password=None) for one in BGP]
    settings = dict(load_balancer="metallb:///metallb-system", bgp_nodes=given)
    for dummy in range(2):
        result = run(server, **settings)
        found = {(one["object"], one["reason"]) for one in result["refused"]}
        assert {("aws/lb-1", "adoptable"), ("ConfigMap aws/metallb-system/config", "adoptable")} <= found, found
        assert [api.get(path) for path in paths] == before
    assert not [write for write in server.writes(mark) if "nodes/lb-1" in write[1] or "configmaps/config" in write[1]]
    assert D + "node-asn" in api.get("/api/v1/nodes/lb-2")["metadata"]["annotations"], "that node is nobody's"
    # what is announced by upstream is not given back under it
    api.delete(SERVICES + "/old")
    assert "203.0.113.6" not in run(server, **settings)["load_balancers"]["aws"]["releases"]

    request = request_for(server, {"adopt": True}, **settings)
    checked = load_balancers.run(request, check=True)
    assert [api.get(path) for path in paths] == before
    result = run(server, {"adopt": True}, **settings)
    assert result["plan"] == checked["plan"] and not result["refused"]
    node, config = (api.get(path) for path in (paths[1], paths[0]))
    assert (
        node["metadata"]["annotations"][D + "node-asn"] == "65000"
        and node["metadata"]["annotations"]["example.com/own"] == "stays"
    )
    records = {entry["manager"]: json.dumps(entry["fieldsV1"]) for entry in node["metadata"]["managedFields"]}
    assert D not in "".join(text for name, text in records.items() if name != "multicluster.network/t")
    assert "example.com/own" not in records["multicluster.network/t"]
    assert (
        "lb-backend/web" in config["data"]["config"]
        and "lb-backend/old" not in config["data"]["config"]
        and config["data"]["other"] == "x"
    )
    twice(server, **settings)
    # a user's edit of the text does not give it back to anybody
    text = config["data"]["config"] + "bfd-profiles:\n- {name: fast}\n"
    api.merge_patch(CONFIG + "/config", {"data": {"config": text}}, "kubectl-edit")
    service(api, "late")
    result = run(server, **settings)
    assert not result["refused"] and "lb-backend/late" in api.get(CONFIG + "/config")["data"]["config"]


def test_adoption_of_annotations_that_are_as_desired_stays(server, api):
    """Nothing differs: the first run with adopt writes only their owner, and a later change needs it no more."""
    desired = {
        D + "node-asn": "65000",
        D + "peer-asns": "65530",
        D + "peer-ips": "169.254.255.1,169.254.255.2",
        D + "src-ip": "10.66.0.1",
    }
    api.merge_patch("/api/v1/nodes/lb-1", {"metadata": {"annotations": desired}}, CCM)
    settings = dict(
        load_balancer="kube-vip://",
        annotation_scheme="legacy",
        annotation_legacy_singular=False,
        bgp_nodes=[dict(BGP[0], password=None)],
    )
    assert not run(server, **settings)["refused"]
    result = run(server, {"adopt": True}, **settings)
    assert [change["id"] for change in result["plan"]["changes"]] == ["aws/lb-1"]
    annotations = api.get("/api/v1/nodes/lb-1")["metadata"]["annotations"]
    assert {key: value for key, value in annotations.items() if key.startswith(D)} == desired
    assert not run(server, {"adopt": True}, **settings)["changed"]
    settings["bgp_nodes"] = [dict(settings["bgp_nodes"][0], peer_asn=65531)]
    assert not run(server, **settings)["refused"]
    assert api.get("/api/v1/nodes/lb-1")["metadata"]["annotations"][D + "peer-asns"] == "65531"


@pytest.mark.parametrize(
    "mode, most",
    [("metallb:///metallb-system", (5, 10, 12)), ("metallb:///metallb-system?crdConfiguration=true", (9, 15, 17))],
)
def test_requests_of_a_change(server, api, mode, most):
    """An unchanged run, a Service that goes, one that comes: by the server's own log, with discovery."""
    api.create(
        CONFIG,
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "config"}, "data": {"config": USERS}},
        "kubectl",
    )
    settings = {"load_balancer": mode, "bgp_nodes": [dict(one, password=None) for one in BGP]}
    for number in range(5):
        service(api, f"s{number}")
    run(server, **settings)
    found = []
    for change in (lambda: None, lambda: api.delete(SERVICES + "/s3"), lambda: service(api, "late")):
        change()
        mark = server.mark()
        result = run(server, **settings)
        found.append(len(server.audit(mark)))
        assert found[-1] == sum(result["stats"]["requests"]["aws"].values()) and result["changed"] == (len(found) > 1)
    assert all(one <= bound for one, bound in zip(found, most)), found


def test_an_address_stays_reserved_while_a_pool_of_another_owner_has_it(server, api):
    service(api, "web")
    service(api, "db")
    run(server)
    pool = next(item for item in api.list(POOLS).items if item["metadata"]["name"] == "lb-backend.db")
    api.delete(POOLS + "/lb-backend.db")
    meta = {
        "name": "lb-backend.db",
        "labels": pool["metadata"]["labels"],
        "annotations": pool["metadata"].get("annotations"),
    }
    body = {"apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool", "metadata": meta, "spec": pool["spec"]}
    api.create(POOLS, body, "cloud-provider-equinix-metal")
    api.delete(SERVICES + "/db")
    result = run(server)
    assert ("IPAddressPool aws/metallb-system/lb-backend.db", "adoptable") in {
        (one["object"], one["reason"]) for one in result["refused"]
    }
    assert result["load_balancers"]["aws"]["releases"] == [] and "lb-backend.db" in specs(api, POOLS)
    result = run(server, {"adopt": True})
    assert "lb-backend.db" not in specs(api, POOLS) and result["load_balancers"]["aws"]["releases"]


def test_what_others_label_as_the_cloud_controllers_is_not_deleted(server, api):
    """Somebody who may patch a pool, and not delete it, labels it as one of a Service that is not there; adoption does not delete it for him."""
    body = {
        "apiVersion": "metallb.io/v1beta1",
        "kind": "IPAddressPool",
        "metadata": {
            "name": "production",
            "labels": {"cloud-provider": "equinix-metal", "service-gone": "namespace-lb-backend"},
        },
        "spec": {"addresses": ["198.51.100.0/28"], "autoAssign": False},
    }
    api.create(POOLS, body, "kubectl")
    service(api, "web")
    result = run(server, {"adopt": True})
    assert "production" in specs(api, POOLS) and "lb-backend.web" in specs(api, POOLS)
    assert "IPAddressPool aws/metallb-system/production" in {one["object"] for one in result["refused"]}


def test_one_peer_for_each_router(server, api):
    service(api, "web")
    plain = [dict(one, password=None) for one in BGP]
    run(server, bgp_nodes=plain, metallb_peer_mode="frr")
    assert sorted(specs(api, PEERS)) == ["169.254.255.1", "169.254.255.2"]
    spec = specs(api, PEERS)["169.254.255.1"]
    assert "sourceAddress" not in spec and [
        one["matchLabels"]["kubernetes.io/hostname"] for one in spec["nodeSelectors"]
    ] == ["lb-1", "lb-2"]
    twice(server, bgp_nodes=plain, metallb_peer_mode="frr")


def config(client):
    return client.get(CONFIG + "/config")


def test_pools_on_the_segment(server, api):
    """By an owned L2Advertisement, with a node selector and interfaces; the user's own stays."""
    theirs = {
        "apiVersion": "metallb.io/v1beta1",
        "kind": "L2Advertisement",
        "metadata": {"name": "own"},
        "spec": {"ipAddressPools": ["own"]},
    }
    api.create(LAYER2, theirs, "kubectl")
    service(api, "web")
    how = {
        "metallb_advertise": "layer2",
        "metallb_layer2": {"interfaces": ["eth1"], "node_selectors": [{"rack": "1"}]},
        "bgp_nodes": [],
    }
    result = run(server, **how)
    assert not result["refused"] and result["load_balancers"]["aws"]["unannounced"] == []
    owned = {
        "ipAddressPools": ["lb-backend.web"],
        "interfaces": ["eth1"],
        "nodeSelectors": [{"matchLabels": {"rack": "1"}}],
    }
    assert (
        specs(api, LAYER2) == {"own": theirs["spec"], "multicluster-network-layer2": owned}
        and specs(api, ADVERTISEMENTS) == {}
    )
    twice(server, **how)
    run(server, metallb_advertise="both")
    assert specs(api, LAYER2)["multicluster-network-layer2"] == {"ipAddressPools": ["lb-backend.web"]}
    assert [spec["ipAddressPools"] for spec in specs(api, ADVERTISEMENTS).values()] == [["lb-backend.web"]]
    run(server, metallb_advertise="bgp")
    assert set(specs(api, LAYER2)) == {"own"} and len(specs(api, ADVERTISEMENTS)) == 1
    run(server, **how)
    run(server, {"state": "absent"}, **how)
    assert set(specs(api, LAYER2)) == {"own"} and specs(api, POOLS) == specs(api, ADVERTISEMENTS) == {}


def test_groups_of_a_segment_are_recorded(server, api):
    """A Local Service has a group of its own, by the record; the others share some by a hash. Without a segment there are none."""
    nodes = [{"name": f"lb-{number}", "segment": "rack1", "addresses": [f"10.66.0.{number}"]} for number in (1, 2)]
    how = {"load_balancer": "empty://", "bgp_nodes": [], "bgp_speakers": ["lb-1", "lb-2"], "layer2_nodes": nodes}
    for name, policy in (("any", "Cluster"), ("local", "Local"), ("other", "Local")):
        spec = {
            "type": "LoadBalancer",
            "ports": [{"port": 80, "protocol": "TCP"}],
            "selector": {"app": name},
            "externalTrafficPolicy": policy,
        }
        api.create(
            SERVICES, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}, "kubectl"
        )

    def groups(**more):
        found = run(server, **dict(how, **more))["load_balancers"]["aws"]
        rows = {route["services"][0].partition("/")[2]: route for route in found["routes"]}
        assert all(bool(row["health_ports"]) == (row["group"] > 64) for row in rows.values())
        return {name: row["group"] for name, row in rows.items()}, found["segments"]

    def recorded():
        data = api.get("/api/v1/namespaces/kube-system/configmaps/metal-ccm-static-pool")["data"]
        rows = [json.loads(text) for text in data.values()]
        return {row["service"].partition("/")[2]: row["group"] for row in rows if "group" in row}

    first, segments = groups()
    assert segments == {"rack1": [{"name": row["name"], "addresses": row["addresses"]} for row in nodes]}
    assert set(first) == {"any", "local", "other"} and recorded() == {name: first[name] for name in ("local", "other")}
    twice(server, **how)
    # a number that is taken away moves only who had it
    moved, unused = groups(layer2_reserved_vrids=[first["local"]])
    assert moved["local"] != first["local"] and moved["other"] == first["other"] and moved["any"] == first["any"]
    api.merge_patch(SERVICES + "/other", {"spec": {"externalTrafficPolicy": "Cluster"}}, "kubectl")
    assert groups()[0]["other"] <= 64 and set(recorded()) == {"local"}
    # all are reserved: the Service is refused by name, and what needs no group of its own goes on
    result = run(server, **dict(how, layer2_reserved_vrids=list(range(65, 256))))
    assert [(row["object"], row["reason"]) for row in result["refused"]] == [
        ("service aws/" + SPACE + "/local", "quota")
    ]
    assert run(server, **{**how, "layer2_nodes": []})["load_balancers"]["aws"]["segments"] == {} and recorded() == {}


def test_the_configmap_keeps_what_the_user_wrote(server, api):
    setting = {"load_balancer": "metallb://metallb-system:config"}
    service(api, "web")
    result = run(server, **setting)
    assert any("does not exist" in text for text in result["warnings"])
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "config"},
        "data": {"config": USERS, "other": "stays"},
    }
    api.create(CONFIG, body, "kubectl")
    run(server, **setting)
    text = config(api)["data"]["config"]
    assert config(api)["data"]["other"] == "stays" and "Secret-pass" not in text
    assert all(line in text.splitlines() for line in USERS.splitlines())
    document, users = yaml.safe_load(text), yaml.safe_load(USERS)
    assert document["peers"][0] == users["peers"][0] and document["address-pools"][:2] == users["address-pools"]
    assert document["address-pools"][2] == {
        "name": "lb-backend/web",
        "protocol": "bgp",
        "addresses": ["203.0.113.0/32"],
        "auto-assign": False,
    }
    assert [(peer["peer-address"], peer["node-selectors"]) for peer in document["peers"][1:]] == [
        (router, [{"match-labels": {"kubernetes.io/hostname": name}}])
        for name in ("lb-1", "lb-2")
        for router in ("169.254.255.1", "169.254.255.2")
    ]
    known = {"peer-address", "peer-asn", "my-asn", "node-selectors"}  # what every release of MetalLB reads
    assert all(set(peer) <= known for peer in document["peers"][1:])
    twice(server, **setting)

    run(server, bgp_nodes=BGP[:1], **setting)
    assert len(yaml.safe_load(config(api)["data"]["config"])["peers"]) == 3
    api.delete(SERVICES + "/web")
    result = run(server, **setting)
    assert ("aws", "delete_budget") in {(one["object"], one["reason"]) for one in result["refused"]}
    run(server, {"confirm_empty": ["aws"]}, bgp_nodes=[], **setting)
    run(server, {"state": "absent"}, **setting)
    assert config(api)["data"]["config"] == USERS and "annotations" not in config(api)["metadata"]


def test_a_configuration_that_cannot_be_read_is_left_alone(server, api):
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "config"},
        "data": {"config": "peers: {a: [}\npassword: hunter2-hunter2"},
    }
    api.create(CONFIG, body, "kubectl")
    service(api, "web")
    result = run(server, load_balancer="metallb://")
    assert ("ConfigMap aws/metallb-system/config", "config_parse") in {
        (one["object"], one["reason"]) for one in result["refused"]
    }
    assert "hunter2" not in json.dumps(result) and config(api)["data"] == body["data"]
    assert api.get(SERVICES + "/web")["spec"]["loadBalancerIP"] == "203.0.113.0"  # the rest goes on


def test_annotations_for_kube_vip(server, api):
    setting = {"load_balancer": "kube-vip://"}
    service(api, "web")
    run(server, **setting)
    found = api.get("/api/v1/nodes/lb-1")["metadata"]["annotations"]
    own = {key.partition("/")[2]: value for key, value in found.items() if key.startswith("metal.equinix.com/")}
    assert own == {
        "node-asn": "65000",
        "peer-asns": "65530",
        "peer-ips": "169.254.255.1,169.254.255.2",
        "src-ip": "10.66.0.1",
        "bgp-peers-0-node-asn": "65000",
        "bgp-peers-0-peer-asn": "65530",
        "bgp-peers-0-peer-ip": "169.254.255.1",
        "bgp-peers-0-src-ip": "10.66.0.1",
        "bgp-peers-1-node-asn": "65000",
        "bgp-peers-1-peer-asn": "65530",
        "bgp-peers-1-peer-ip": "169.254.255.2",
        "bgp-peers-1-src-ip": "10.66.0.1",
    }
    twice(server, **setting)
    # one router less: its numbers go; a node without facts keeps what it has
    run(server, bgp_nodes=[dict(BGP[0], peers=["169.254.255.1"])], **setting)
    found = api.get("/api/v1/nodes/lb-1")["metadata"]["annotations"]
    assert not [key for key in found if "bgp-peers-1" in key] and found["example.com/own"] == "stays"
    assert "metal.equinix.com/bgp-peers-1-peer-ip" in api.get("/api/v1/nodes/lb-2")["metadata"]["annotations"]
    # publishing a password must be asked for, and its value is never shown
    result = run(server, publish_bgp_password=True, **setting)
    found = api.get("/api/v1/nodes/lb-2")["metadata"]["annotations"]
    assert base64.b64decode(found["metal.equinix.com/bgp-peers-0-bgp-pass"]) == b"Secret-pass-2"
    assert found["metal.equinix.com/bgp-peers-0-bgp-pass"] not in json.dumps(result)
    run(server, **setting)
    assert "metal.equinix.com/bgp-peers-0-bgp-pass" not in api.get("/api/v1/nodes/lb-2")["metadata"]["annotations"]
    run(server, {"state": "absent"}, **setting)
    assert api.get("/api/v1/nodes/lb-2")["metadata"]["annotations"] == {"example.com/own": "stays"}


def test_facts_outside_the_grants_are_refused_by_node(server, api):
    service(api, "web")
    nodes = [BGP[0], dict(BGP[1], peers=["198.51.100.66"])]
    result = run(
        server,
        bgp_nodes=nodes,
        bgp_grants={"peers": ["169.254.255.0/24"], "sources": ["10.66.0.0/16"], "local_asns": [65000]},
    )
    assert {(one["object"], one["reason"]) for one in result["refused"]} == {("node aws/lb-2", "outside_grant")}
    assert sorted(specs(api, PEERS)) == ["lb-1-0", "lb-1-1"]


@pytest.mark.parametrize(
    ("capability", "setting"),
    [
        ("load_balancers", "empty://"),
        ("load_balancers_metallb", "metallb://"),
        ("load_balancers_metallb", "metallb:///metallb-system?crdConfiguration=true"),
    ],
)
def test_the_accounts_suffice(server, api, tmp_path, capability, setting):
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "config"}, "data": {"config": USERS}}
    api.create(CONFIG, body, "kubectl")
    objects = access_manifests([capability], target_namespace="kube-system")
    made = {"fabric": "t", "clusters": [server.access()], "objects": objects}
    assert not cluster_objects.run(made)["failures"]
    try:
        request = {
            "fabric": "t",
            "clusters": [server.access()],
            "service_account": "multicluster-" + capability.replace("_", "-"),
            "namespace": "kube-system",
            "path": str(tmp_path / "access"),
            "expires": 3600,
            "renew_before": 60,
            "state": "present",
        }
        assert not cluster_token.run(request)["failures"]
        service(api, "web")
        more = {"clusters": [{"name": "aws", "kubeconfig": str(tmp_path / "access")}]}
        plain = [dict(one, password=None) for one in BGP]
        assert run(server, more, load_balancer=setting, bgp_nodes=plain)["changed"]
        assert not run(server, more, load_balancer=setting, bgp_nodes=plain)["changed"]
        run(server, dict(more, state="absent"), load_balancer=setting, bgp_nodes=plain)
        assert config(api)["data"]["config"] == USERS and not api.get(SERVICES + "/web")["spec"].get("loadBalancerIP")
    finally:
        cluster_objects.run(dict(made, state="absent"))


def test_addresses_that_metallb_does_not_announce(server, api):
    service(api, "web")
    result = load_balancers.run(request_for(server, bgp_nodes=[]))
    (row,) = result["load_balancers"]["aws"]["unannounced"]
    assert row["service"] == SPACE + "/web" and "MetalLB has no BGP peer in the namespace " + METALLB in row["reason"]
    # the user's own peer, or layer 2, announces it; whether MetalLB has taken it the status shows
    put(
        api,
        PEERS,
        {
            "apiVersion": "metallb.io/v1beta2",
            "kind": "BGPPeer",
            "metadata": {"name": "users"},
            "spec": {"myASN": 1, "peerASN": 2, "peerAddress": "10.0.0.1"},
        },
    )
    (row,) = load_balancers.run(request_for(server, bgp_nodes=[]))["load_balancers"]["aws"]["unannounced"]
    assert "is MetalLB running" in row["reason"]
    status = {"status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.0"}]}}}
    api.merge_patch(SERVICES + "/web/status", status, "metallb-controller")
    assert load_balancers.run(request_for(server, bgp_nodes=[]))["load_balancers"]["aws"]["unannounced"] == []
    result = load_balancers.run(request_for(server, load_balancer=f"metallb:///{METALLB}/no-such-config", bgp_nodes=[]))
    (row,) = result["load_balancers"]["aws"]["unannounced"]
    assert "does not exist" in row["reason"]
