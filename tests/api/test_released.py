# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The way back to upstream, for each back end of load balancers: everything stays to the byte, none of it is owned, and adopt takes it again."""

from __future__ import annotations

import copy
import json

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers import (
    ccm_nodes,
    converge as load_balancers,
)
from ansible_collections.multicluster.network.plugins.module_utils._flows.tenants import released as tenants_released
from ansible_collections.multicluster.network.plugins.module_utils._tenants.options import APINET, ONMETAL
from equinix_cloud import CONFIGMAPS, double, request_for as metal_request
from test_control_plane_equinix import EXTERNAL, LEDGER, plane
from test_load_balancers_backends import (
    ADVERTISEMENTS,
    BGP,
    CONFIG,
    PEERS,
    POOLS,
    SECRETS,
    SERVICES,
    USERS,
    api as metallb_api,
    kinds,
    request_for,
    run,
    service,
    twice,
)
from test_load_balancers_equinix import (
    SERVICES as METAL_SERVICES,
    api as metal_api,
    run as run_metal,
    service as metal_service,
    tags_of,
)

__all__ = ["double", "kinds", "metal_api", "metallb_api", "plane"]
FINALIZER = "service.kubernetes.io/load-balancer-cleanup"
RELEASED = {"state": "released"}
NODES = "/api/v1/nodes"
CRDS, TEXT = "metallb:///metallb-system?crdConfiguration=true", "metallb:///metallb-system"


def content(client, paths):
    """All objects at the paths without what a server notes of writes."""
    found = {}
    for path in paths:
        for item in client.list(path).items:
            meta = {
                key: value for key, value in item["metadata"].items() if key not in ("managedFields", "resourceVersion")
            }
            found[path, meta["name"]] = dict(item, metadata=meta)
    return json.loads(json.dumps(sorted(found.items())))


def owned(client, paths):
    """What is on record as a fabric's."""
    return [
        (item["metadata"]["name"], entry["manager"])
        for path in paths
        for item in client.list(path).items
        for entry in item["metadata"].get("managedFields") or ()
        if entry["manager"].startswith("multicluster.network/")
    ]


BACK_ENDS = {
    "configmap": ({"load_balancer": TEXT}, (SERVICES, NODES, CONFIG)),
    "custom resources": ({"load_balancer": CRDS}, (SERVICES, NODES, POOLS, ADVERTISEMENTS, PEERS, SECRETS)),
    "kube-vip": ({"load_balancer": "kube-vip://"}, (SERVICES, NODES)),
    "kube-vip by annotation": ({"load_balancer": "kube-vip://", "service_ip_field": "annotation"}, (SERVICES, NODES)),
    "nothing": ({"load_balancer": "empty://"}, (SERVICES, NODES)),
}


@pytest.mark.parametrize("name", BACK_ENDS)
def test_all_of_it_stays_and_is_nobodys(server, metallb_api, name):
    client, (settings, paths) = metallb_api, BACK_ENDS[name]
    if name == "configmap":
        settings = dict(settings, bgp_nodes=[dict(one, password=None) for one in BGP])
        client.create(
            CONFIG,
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "config"}, "data": {"config": USERS}},
            "kubectl",
        )
    for one in ("web", "db"):
        service(client, one)
    client.merge_patch(
        NODES + "/lb-1",
        {"metadata": {"annotations": {"multicluster.network/of-another-capability": "x"}}},
        "multicluster.network/t",
    )
    run(server, **settings)
    twice(server, **settings)
    assert owned(client, paths)
    before = content(client, paths)

    mark = server.mark()
    checked = load_balancers.run(request_for(server, RELEASED, **settings), check=True)
    assert checked["changed"] and server.writes(mark) == []
    result = run(server, RELEASED, **settings)
    assert result["plan"] == checked["plan"] and not result["refused"]
    after = content(client, paths)
    for rows in (before, after):  # which of the peers are owned only we have read
        for dummy, obj in rows:
            (obj["metadata"].get("annotations") or {}).pop("metal.equinix.com/managed-peers", None)
            if not obj["metadata"].get("annotations"):
                obj["metadata"].pop("annotations", None)
    assert after == before
    assert owned(client, paths) == [("lb-1", "multicluster.network/t")], (
        "what another capability wrote on a Node stays owned"
    )
    assert client.list(CONFIGMAPS, field_selector="metadata.name=metal-ccm-static-pool").items == []
    mark = server.mark()
    assert not run(server, RELEASED, **settings)["changed"] and server.writes(mark) == []

    # none of it is written by a run that does not adopt
    before, mark = content(client, paths), server.mark()
    run(server, **dict(settings, bgp_nodes=[dict(BGP[0], password=None, peer_asn=65539)]))
    assert content(client, paths) == before, server.writes(mark)
    # and with adopt all of it is owned again, for good
    run(server, {"adopt": True}, **settings)
    twice(server, **settings)


def test_the_finalizer_both_ways_and_reservations_given_back(server, double, metal_api):
    """The cloud controller's finalizer stays while a Service lives, goes when the owned Service has given its address back, and is there again for upstream."""
    client = metal_api
    metal_service(client, "web", "203.0.113.66")
    metal_service(client, "old", "203.0.113.67")
    for name, address in (("web", "203.0.113.66"), ("old", "203.0.113.67")):
        double.ask("/reservations", tags=tags_of(client, name), address=address, id="of-" + name)
        client.merge_patch(
            METAL_SERVICES + "/" + name, {"metadata": {"finalizers": [FINALIZER]}}, "cloud-provider-equinix-metal"
        )
    run_metal(server, double, {"adopt": True})
    run_metal(server, double)
    assert client.get(METAL_SERVICES + "/web")["metadata"]["finalizers"] == [FINALIZER]
    client.request_deletion(METAL_SERVICES + "/old")
    run_metal(server, double)
    assert [item["metadata"]["name"] for item in client.list(METAL_SERVICES).items] == ["web"], "nothing holds it back"
    assert [row["id"] for row in double.held()] == ["of-web"]
    metal_service(client, "new")
    run_metal(server, double)
    held = double.held()
    assert len(held) == 2 and not client.get(METAL_SERVICES + "/new")["metadata"].get("finalizers")

    calls = len(double.calls())
    result = run_metal(server, double, RELEASED)
    assert not result["failures"] and not result["refused"]
    assert double.held() == held and not [call for call in double.calls()[calls:] if not call.startswith("GET ")]
    for name in ("web", "new"):
        found = client.get(METAL_SERVICES + "/" + name)
        assert found["metadata"]["finalizers"] == [FINALIZER] and found["spec"]["loadBalancerIP"]
    assert client.list(CONFIGMAPS, field_selector="metadata.name=metal-ccm-reservations").items == []
    assert owned(client, (METAL_SERVICES, NODES)) == []
    mark = server.mark()
    assert not run_metal(server, double, RELEASED)["changed"] and server.writes(mark) == []
    # a Service that goes now is upstream's business
    client.request_deletion(METAL_SERVICES + "/new")
    run_metal(server, double)
    assert client.get(METAL_SERVICES + "/new")["metadata"]["deletionTimestamp"] and len(double.held()) == 2
    client.merge_patch(METAL_SERVICES + "/new", {"metadata": {"finalizers": None}}, "cloud-provider-equinix-metal")
    client.merge_patch(METAL_SERVICES + "/web", {"metadata": {"finalizers": None}}, "cloud-provider-equinix-metal")


def test_nodes_of_a_provider(server, double, metal_api):
    ask = metal_request(server, double)
    ccm_nodes.run(ask)
    assert owned(metal_api, (NODES,))
    before = content(metal_api, (NODES,))
    checked = ccm_nodes.run(dict(ask, **RELEASED), check=True)
    result = ccm_nodes.run(dict(ask, **RELEASED))
    assert result["plan"] == checked["plan"] and result["plan"]["update"] == 3 and not result["failures"]
    assert owned(metal_api, (NODES,)) == [] and content(metal_api, (NODES,)) == before
    mark = server.mark()
    assert (
        not ccm_nodes.run(dict(ask, **RELEASED))["changed"]
        and not ccm_nodes.run(ask)["changed"]
        and server.writes(mark) == []
    )


def test_the_control_plane(plane):
    """Service and endpoints of upstream: nothing is written without adopt, they are solely owned with it, and upstream's when released."""
    source = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "kubernetes"},
        "subsets": [
            {"addresses": [{"ip": "10.66.1.5"}], "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}]}
        ],
    }
    plane.client.create("/api/v1/namespaces/default/endpoints", source, "apiserver")
    more = {"external_service": True, "endpoints_as": "endpoints"}
    plane.run(more=more)
    paths = (EXTERNAL, EXTERNAL.replace("/services/", "/endpoints/"))
    objects = [plane.client.get(path) for path in paths]

    def contents():
        return [{key: value for key, value in plane.client.get(path).items() if key != "metadata"} for path in paths]

    def managers():
        return {entry["manager"] for path in paths for entry in plane.client.get(path)["metadata"]["managedFields"]}

    before, mark = contents(), plane.server.mark()
    planned = plane.run(check=True, more=RELEASED)
    assert plane.server.writes(mark) == [] and planned["plan"]["update"] == 3
    assert plane.run(more=RELEASED)["plan"] == planned["plan"]
    assert contents() == before and not {name for name in managers() if name.startswith("multicluster.network/")}
    assert plane.client.list(CONFIGMAPS, field_selector="metadata.name=" + LEDGER.rpartition("/")[2]).items == []
    mark = plane.server.mark()
    assert not plane.run(more=RELEASED)["changed"] and plane.server.writes(mark) == []

    # upstream changed something since: without adopt that stays
    changed = copy.deepcopy(objects[1]["subsets"])
    changed[0]["addresses"] = [{"ip": "10.66.2.5"}]
    plane.client.merge_patch(paths[1], {"subsets": changed}, "cloud-provider-equinix-metal")
    mark = plane.server.mark()
    result = plane.run(more=more)
    assert [row["reason"] for row in result["refused"]] == ["adoptable"] and "control_plane_address_adopt" in result[
        "refused"
    ][0]["message"]
    assert not [write for write in plane.server.writes(mark) if "kubernetes-external" in str(write)]
    adopted = plane.run(more=dict(more, adopt=True))
    assert adopted["plan"]["update"] == 2 and contents() == before
    mark = plane.server.mark()
    assert not plane.run(more=more)["changed"] and plane.server.writes(mark) == []
    assert plane.run(more={"state": "absent"})["plan"]["delete"] == 2


TWINS = ("Network", "IP", "LoadBalancer", "LoadBalancerRouting", "NATGateway", "NATGatewayAutoscaler")


def test_twins_of_tenants(tenant):
    """They are on record as upstream's own: what it applies changes nothing, and a run without adopt leaves them alone."""
    client, paths = tenant.clients[APINET], [tenant.path(APINET, kind) for kind in TWINS]

    def rows():
        return [
            (path.rpartition("/")[2], entry["manager"], json.dumps(entry["fieldsV1"]))
            for path in paths
            for item in client.list(path).items
            for entry in item["metadata"]["managedFields"]
            if entry["operation"] == "Apply"
        ]

    def appliers():
        return {row[1] for row in rows()}

    tenant.settle()
    assert appliers() == {"multicluster.network/t"}
    before, mark = content(client, paths), tenant.mark()
    planned = tenants_released.run(tenant.request(), check=True)
    assert tenant.writes(mark) == {"source": [], APINET: []}
    result = tenants_released.run(tenant.request())
    assert result["plan"] == planned["plan"] and result["plan"]["update"] >= len(TWINS) and not result["failures"]
    assert content(client, paths) == before and appliers() == {ONMETAL.field_manager}
    mark = tenant.mark()
    assert not tenants_released.run(tenant.request())["changed"] and tenant.writes(mark)[APINET] == []
    tenant.sync(use_original_manager=True)
    assert content(client, paths) == before, "what upstream applies is there"
    vip = tenant.list("source", "VirtualIP")[0]["metadata"]["name"]
    tenant.clients["source"].request_deletion(tenant.path("source", "VirtualIP", "team-a", vip))
    assert "adoptable" in {row["reason"] for row in tenant.sync()["refused"]} and content(client, paths) == before
    tenant.sync(adopt=True)
    assert not [row for row in tenant.list("source", "VirtualIP") if row["metadata"]["name"] == vip]
    # owner references are everybody's
    assert [
        row
        for row in rows()
        if row[1] != "multicluster.network/t"
        and set(json.loads(row[2])["f:metadata"]) | set(json.loads(row[2])) != {"f:metadata", "f:ownerReferences"}
    ] == []
