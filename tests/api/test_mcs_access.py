# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The account of the Multi-Cluster Services API can do what its module does and no more, and preflight reports what another lacks."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.access import cluster_objects, cluster_token
from ansible_collections.multicluster.network.plugins.module_utils._flows.reports import preflight
from ansible_collections.multicluster.network.plugins.module_utils._flows.services import service_imports
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.access import parse_access
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Client
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import Forbidden, ListIncomplete
from ansible_collections.multicluster.network.plugins.module_utils._plan.access_manifests import access_manifests
from mcs_clusters import DEFINITION, VERSIONS, other, pair  # pylint: disable=unused-import

__all__ = ["other", "pair"]
WEB = ("shop", "web")
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"


@pytest.fixture
def accounts(pair, tmp_path):
    """{capability: entries of both clusters}, each with an account of its own."""
    admins = [pair.servers[name].access(name) for name in ("aws", "gcp")]
    made = {
        "fabric": "t",
        "clusters": admins,
        "objects": access_manifests(["mcs", "mcs_crds", "mcs_read", "service_mirror_read"]),
    }
    assert not cluster_objects.run(made)["failures"]
    found = {}
    for capability in ("mcs", "mcs_crds", "mcs_read", "service_mirror_read"):
        account = "multicluster-" + capability.replace("_", "-")
        request = {
            "fabric": "t",
            "clusters": admins,
            "service_account": account,
            "namespace": "kube-system",
            "path": str(tmp_path / ("{cluster}-" + capability)),
            "expires": 3600,
            "renew_before": 60,
            "state": "present",
        }
        assert not cluster_token.run(request)["failures"]
        found[capability] = [
            {"name": name, "kubeconfig": str(tmp_path / (name + "-" + capability))} for name in ("aws", "gcp")
        ]
    yield found
    cluster_objects.run(dict(made, state="absent"))


def test_the_account_suffices_and_reaches_no_further(pair, accounts):
    pair.export("aws", WEB, "10.2.3.1")
    pair.export("gcp", WEB, "10.4.3.1")
    request = dict(pair.request(clusters=accounts["mcs"], install_crds=False), stale_after=60)
    result = service_imports.run(request)
    assert (
        result["changed"]
        and (result["failures"], result["refused"]) == ([], [])
        and result["imports"] == {"aws": 1, "gcp": 1}
    )
    assert not service_imports.run(request)["changed"] and pair.said("gcp", WEB)["Ready"] == ("True", "Exported")
    pair.unexport("aws", WEB)
    result = service_imports.run(request)
    assert result["changed"] and result["failures"] == []
    result = service_imports.run(dict(request, state="absent"))
    assert result["plan"]["delete"] and result["failures"] == [] and pair.imported("gcp", WEB) is None
    for entry in accounts["mcs"]:
        client = Client(parse_access(entry))
        with pytest.raises(ListIncomplete) as error:
            client.list("/api/v1/secrets")
        assert error.value.cause == "forbidden"
        export = f"/apis/{VERSIONS[0]}/namespaces/shop/serviceexports/web"
        for path in (export, "/api/v1/namespaces/shop", CRDS + "serviceimports.multicluster.x-k8s.io"):
            with pytest.raises(Forbidden):
                client.delete(path)


def test_a_cluster_that_is_only_read(pair, accounts):
    """Its account may not write, and none is tried: it gets neither imports nor conditions, and nothing waits for it. What it exports arrives elsewhere."""
    pair.export("aws", WEB, "10.2.3.1")
    pair.export("gcp", WEB, "10.4.3.1")
    request = pair.request(
        clusters=[accounts["mcs"][0], accounts["mcs_read"][1]], install_crds=False, destinations=["aws"]
    )
    mark = pair.mark()
    planned = service_imports.run(request, check=True)
    assert planned["changed"] and pair.writes(mark) == {"aws": [], "gcp": []}
    result = service_imports.run(request)
    assert result["changed"] and (result["failures"], result["refused"]) == ([], []) and result["imports"] == {"aws": 1}
    assert set(pair.slices("aws", WEB)) == {"aws", "gcp"} and pair.imported("gcp", WEB) is None
    assert (
        pair.said("aws", WEB)["Ready"] == ("True", "Exported")
        and pair.asked(mark)["gcp"]
        and pair.writes(mark)["gcp"] == []
    )
    assert not service_imports.run(request)["changed"]
    # a caller that leads a part of the clusters leaves the others to others, who write there: that is waited for
    mark = pair.mark()
    service_imports.run(
        dict(pair.request(clusters=accounts["mcs"], install_crds=False), destinations=["aws"], kept=["aws", "gcp"])
    )
    assert pair.said("aws", WEB)["Ready"][0] == "False" and pair.writes(mark)["gcp"] == []
    service_imports.run(request)
    with pytest.raises(ValueError, match="mcs_destinations"):
        service_imports.run(dict(request, destinations=["asw"]))
    mark = pair.mark()
    result = service_imports.run(dict(request, state="absent"))
    assert result["failures"] == [] and pair.imported("aws", WEB) is None and set(result["sources"]) == {"aws"}
    assert pair.asked(mark)["gcp"] == [], "what is only read has no owned object, so nothing of it is asked for"


def without_the_api(server):
    """The definitions are taken away."""
    for kind in ("serviceexports", "serviceimports"):
        server.client().delete(CRDS + kind + ".multicluster.x-k8s.io")
    while any(
        server.client().serves(version, kind) for version in VERSIONS for kind in ("ServiceExport", "ServiceImport")
    ):
        pass


def test_the_other_account_installs_the_definitions(pair, accounts):
    for server in pair.servers.values():
        without_the_api(server)
    result = service_imports.run(pair.request(clusters=accounts["mcs"]))
    assert [row["reason"] for row in result["failures"]] == ["forbidden", "forbidden"]
    result = service_imports.run(pair.request(clusters=accounts["mcs_crds"]))
    assert result["failures"] == [] and result["plan"]["create"] == 4
    assert not service_imports.run(pair.request(clusters=accounts["mcs_crds"]))["changed"]


def look(clusters, install_crds=False, destinations=()):
    """Findings about the API before a first run."""
    definition = dict(copy.deepcopy(DEFINITION), nodes={})
    request = {
        "fabric": "t",
        "definition": definition,
        "clusters": clusters,
        "timeout": 20,
        "imports": {"install_crds": install_crds, "destinations": list(destinations)},
    }
    return [
        (row["where"], row["reason"], row["message"])
        for row in preflight.run(request)["findings"]
        if row["reason"] in ("forbidden", "kind_not_served")
    ]


def test_preflight_names_what_an_access_lacks(pair, accounts):
    mark = pair.mark()
    assert look(accounts["mcs"]) == [] and look(accounts["mcs_crds"], True) == []
    mixed = [accounts["mcs"][0], accounts["mcs_read"][1]]
    assert look(mixed, destinations=["aws"]) == [] and [row[:2] for row in look(mixed)] == [("gcp", "forbidden")]
    found = look(accounts["service_mirror_read"])
    assert [row[:2] for row in found] == [("aws", "forbidden"), ("gcp", "forbidden")]
    message = found[0][2]
    assert (
        "get,list serviceexports.multicluster.x-k8s.io" in message
        and "create,patch,delete services;" in message
        and "capability: mcs" in message
    )
    assert "endpoints;" not in message and "get,list services" not in message  # which it has
    assert "mcs_crds" in look(accounts["service_mirror_read"], True)[0][2]
    assert pair.writes(mark) == {"aws": [], "gcp": []}


def test_preflight_reports_where_the_api_is_missing(server):
    without_the_api(server)
    entry = [server.access("gcp")]
    found = look(entry)
    assert [row[:2] for row in found] == [("gcp", "kind_not_served")] and "mcs_install_crds: true" in found[0][2]
    assert look(entry, True) == []
