# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two clusters with the same ranges: whatever one writes of the other's pods is their exported address, and nothing else is (translation 4).

Every writer is here, so that none can go round the one place where addresses are translated: mirrors in both forms, global Services, imports, network sets,
Calico's pools. What a hostile member announces is judged by what its pods can really have.
"""

from __future__ import annotations

import json

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.mesh import mesh_plan
from ansible_collections.multicluster.network.plugins.module_utils._flows.services import (
    mirror as service_mirror,
    network_sets,
    service_imports,
)
from ansible_collections.multicluster.network.plugins.module_utils._services.mcs.names import VERSIONS
from api_server import slices_version
from mcs_clusters import ends_of, gone
from mirror_clusters import LABEL, SHARED, Two, endpoints, namespace, other, piece, service  # noqa: F401 pylint: disable=unused-import
from set_kinds import path_of, pod, remove, serve, withdraw

SEEN = {"aws": "10.201.", "gcp": "10.202."}
CLUSTERS = {
    name: {
        "pod_cidrs": ["10.244.0.0/16"],
        "service_cidrs": ["10.96.0.0/12"],
        "node_cidrs": [nodes],
        "exported_pod_cidrs": {"10.244.0.0/16": SEEN[name] + "0.0/16"},
    }
    for name, nodes in (("aws", "10.66.23.0/24"), ("gcp", "10.22.22.0/24"))
}
#: A pod in each, with the same address.
POD = "10.244.1.5"
SPACE = "equal"


@pytest.fixture(name="pair", scope="module")
def pair_fixture(server, other):  # noqa: F811
    found = Two(server, other)
    for name, client in found.clients.items():
        serve(client, "calico")
        found.put(name, namespace(SPACE))
        pod(client, SPACE, "web", "web", POD)
        found.put(
            name,
            service(SPACE, "mirrored"),
            endpoints(SPACE, "mirrored", POD),
            piece(SPACE, "mirrored", "-" + name, POD, labels=LABEL),
            service(SPACE, "global", labels=SHARED),
            piece(SPACE, "global", "-" + name, POD),
        )
    yield found
    for client in found.clients.values():
        withdraw(client, "calico")
        remove(client, SPACE, "web")
        clear(client)


def clear(client):
    """Everything that was put into the two namespaces, and the API of imports: the next file has the same servers, and nothing there ends a namespace."""
    kinds = [
        ("v1", "Pod"),
        ("v1", "Service"),
        ("v1", "Endpoints"),
        ("v1", "ConfigMap"),
        (slices_version(), "EndpointSlice"),
    ]
    for api_version, kind in [*kinds, (VERSIONS[0], "ServiceExport"), (VERSIONS[0], "ServiceImport")]:
        resource = client.resource(api_version, kind)
        for obj in client.list(resource.path()).items if resource else ():
            meta = obj["metadata"]
            if meta["namespace"] in (SPACE, "sys-semaphore") and meta["name"] != "kube-root-ca.crt":
                client.delete(resource.path(meta["namespace"], meta["name"]))
    gone(client)


def request(pair, **more):
    access = [server.access(name) for name, server in sorted(pair.servers.items())]
    return dict({"fabric": "t", "clusters": access, "definition": {"clusters": CLUSTERS}, "timeout": 20}, **more)


def mirrors(form):
    return {
        "mirror_namespace": "sys-semaphore",
        "create_namespace": True,
        "mirror_selector": "mirror.semaphore.uw.io/mirror-service=true",
        "global_selector": "mirror.semaphore.uw.io/global-service=true",
        "mirror_as": form,
    }


def written(pair, local, path, keep):
    """What objects of a cluster hold as text, without what the cluster's users put there."""
    rows = pair.clients[local].list(path).items
    return json.dumps([{key: row.get(key) for key in ("spec", "subsets", "endpoints")} for row in rows if keep(row)])


def check(text, local, remote, own=False):
    """Of the other cluster's pod there is its exported address; its own address is there where the cluster's own pod is."""
    assert f'"{SEEN[remote]}1.5' in text, text
    assert (f'"{POD}' in text) == own, text
    assert SEEN[local] not in text, "a cluster sees its own pods as they are"


@pytest.mark.parametrize("form", ["endpoints", "slices"])
def test_mirrors_and_global_services(pair, form):
    result = service_mirror.run(request(pair, **mirrors(form)))
    assert not result["refused"] and not result["failures"], result
    for local, remote in (("aws", "gcp"), ("gcp", "aws")):
        slices = f"/apis/{slices_version()}/namespaces/sys-semaphore/endpointslices"
        path = "/api/v1/namespaces/sys-semaphore/endpoints" if form == "endpoints" else slices
        check(written(pair, local, path, lambda row: "-mirrored" in row["metadata"]["name"]), local, remote)
        check(written(pair, local, slices, lambda row: "gl-" in row["metadata"]["name"]), local, remote, own=True)
    assert not service_mirror.run(request(pair, **mirrors(form)))["changed"], "an unchanged run writes nothing"
    service_mirror.run(request(pair, state="absent", **mirrors(form)))


def test_imports(pair):
    service_imports.run(request(pair, install_crds=True))
    for name in pair.servers:
        pair.put(name, service(SPACE, "exported", labels={}), ends_of(SPACE, "exported", POD))
        meta = {"name": "exported", "namespace": SPACE}
        pair.put(name, {"apiVersion": VERSIONS[0], "kind": "ServiceExport", "metadata": meta})
    result = service_imports.run(request(pair))
    assert not result["refused"] and not result["failures"], result
    for local, remote in (("aws", "gcp"), ("gcp", "aws")):
        path = f"/apis/{slices_version()}/namespaces/{SPACE}/endpointslices"
        made = written(
            pair,
            local,
            path,
            lambda row: "multicluster.kubernetes.io/service-name" in (row["metadata"].get("labels") or {}),
        )
        check(made, local, remote, own=True)
    assert not service_imports.run(request(pair))["changed"]
    service_imports.run(request(pair, state="absent"))


def test_network_sets(pair):
    given = request(pair, grants=CLUSTERS)
    result = network_sets.run(given)
    assert not result["refused"] and not result["failures"], result
    for local, remote in (("aws", "gcp"), ("gcp", "aws")):
        check(written(pair, local, path_of("calico"), lambda row: True), local, remote)
    assert not network_sets.run(given)["changed"]
    network_sets.run(dict(given, state="absent"))


def test_the_pools_of_calico_and_the_routes(pair):
    clusters = {name: dict(one, calico_ippools="always") for name, one in CLUSTERS.items()}
    result = mesh_plan.run(request(pair, definition={"clusters": clusters, "nodes": {}}))
    for local, remote in (("aws", "gcp"), ("gcp", "aws")):
        part = result["mesh"]["clusters"][local]["remotes"][remote]
        assert [route["dst"] for route in part["routes"]] == [SEEN[remote] + "0.0/16"]
        pools = result["mesh"]["ip_pools"][local]
        assert [pool["spec"]["cidr"] for pool in pools] == [SEEN[remote] + "0.0/16"]


HOSTILE = {
    "inside another's exported range": SEEN["aws"] + "1.5",
    "inside its own exported range": SEEN["gcp"] + "1.5",
    "inside the Services of both": "10.96.0.10",
    "a node of another": "10.66.23.31",
}


@pytest.mark.parametrize("address", HOSTILE.values(), ids=HOSTILE)
def test_a_member_may_claim_what_its_pods_really_have_and_nothing_else(pair, address):
    pair.put("gcp", endpoints(SPACE, "mirrored", POD, address))
    try:
        result = service_mirror.run(request(pair, **mirrors("endpoints")))
        assert ("gcp/equal/mirrored", "outside_grant") in {(row["object"], row["reason"]) for row in result["refused"]}
        text = written(
            pair,
            "aws",
            "/api/v1/namespaces/sys-semaphore/endpoints",
            lambda row: "-mirrored" in row["metadata"]["name"],
        )
        check(text, "aws", "gcp")
        assert f'"{address}"' not in text or address == SEEN["gcp"] + "1.5", "the last is what its real pod is seen as"
    finally:
        pair.put("gcp", endpoints(SPACE, "mirrored", POD))
        service_mirror.run(request(pair, state="absent", **mirrors("endpoints")))
