# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page of clusters without a mesh, from real API servers: numbers, drift with its owner, hostile text, a server that is gone."""

from __future__ import annotations

import json
import pathlib
import sys

from ansible_collections.multicluster.network.plugins.module_utils._flows.reports import (
    preflight as fabric_preflight,
    status as fabric_status,
)
from mirror_clusters import (  # pylint: disable=unused-import
    BASE,
    DEFINITION,
    FLUENTD,
    NAMESPACE,
    PODS,
    dead,
    fluentd,
    other,
    two,
)

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "unit"))

import status_schema  # pylint: disable=wrong-import-position

__all__ = ["fluentd", "other", "two"]

SCRIPT = "<script>alert(1)</script>"


def look(two, folder, check=False, change=None, **plans):
    request = {
        "fabric": "t",
        "clusters": two.request()["clusters"],
        "timeout": 5,
        "plans": plans,
        "page": str(folder / "p.html"),
        "document": str(folder / "p.json"),
        "metrics": str(folder / "p.prom"),
    }
    return fabric_status.run(change(request) if change else request, check)


def document(folder):
    found = json.loads((folder / "p.json").read_text())
    assert status_schema.problems(found) == []
    return found


def test_what_is_there_is_shown_and_nothing_is_written(fluentd, tmp_path):
    two = fluentd
    two.run(mirror_as="endpoints")
    mark = two.mark()
    assert look(two, tmp_path, check=True)["files"] and not (tmp_path / "p.html").exists()
    result = look(two, tmp_path)
    assert two.writes(mark) == {"aws": [], "gcp": []} and not result["changed"] and result["failures"] == []
    row = document(tmp_path)["services"]
    assert [
        (one["cluster"], one["namespace"], one["name"], one["source"], one["endpoints"], one["ready"]) for one in row
    ] == [("gcp", NAMESPACE, FLUENTD, "aws", len(PODS), len(PODS))]
    assert row[0]["cluster_ip"] == two.get("gcp", "Service", FLUENTD)["spec"]["clusterIP"]
    line = f'multicluster_service_endpoints{{cluster="gcp",namespace="{NAMESPACE}",name="{FLUENTD}",source="aws"}} 3'
    assert line in (tmp_path / "p.prom").read_text().splitlines()


def test_an_edit_of_others_and_a_deletion_have_their_owners(fluentd, tmp_path):
    two = fluentd
    two.run(mirror_as="endpoints")
    look(two, tmp_path, services=two.run(check=True, mirror_as="endpoints"))
    assert document(tmp_path)["drift"] == []
    path = BASE + NAMESPACE + "/services/" + FLUENTD
    edit = {"spec": {"ports": [{"name": "script", "port": 9999}]}, "metadata": {"annotations": {"note": SCRIPT}}}
    two.clients["gcp"].merge_patch(path, edit, "intruder" + SCRIPT)
    two.drop("gcp", "Endpoints", NAMESPACE, FLUENTD)
    result = look(two, tmp_path, services=two.run(check=True, mirror_as="endpoints"))
    rows = {row["kind"]: row for row in result["drift"]}
    assert rows["Service"]["owner"] == "intruder" + SCRIPT and rows["Service"]["since"].endswith("Z")
    assert (rows["Endpoints"]["difference"], rows["Endpoints"]["owner"]) == ("missing", "nobody")
    assert result["since_last_run"]["new"] == 2 and rows["Service"]["last_good"]
    assert SCRIPT not in (tmp_path / "p.html").read_text()
    two.run(mirror_as="endpoints")
    result = look(two, tmp_path, services=two.run(check=True, mirror_as="endpoints"))
    assert result["drift"] == [] and result["since_last_run"]["gone"] == 2


def test_a_server_that_is_gone_is_named_and_the_other_one_shown(fluentd, tmp_path):
    fluentd.run(mirror_as="endpoints")
    result = look(fluentd, tmp_path, change=dead)
    assert {row["cluster"] for row in result["failures"]} == {"aws"} and result["verdict"] == "broken"
    assert {row["name"]: row["reachable"] for row in document(tmp_path)["clusters"]} == {"aws": False, "gcp": True}
    assert len(document(tmp_path)["services"]) == 1


def test_preflight_finds_a_missing_namespace_of_mirrors(two):
    """Before the run that would find it minutes later, with the variable that the user sets."""
    request = {"fabric": "t", "definition": DEFINITION, "clusters": two.request()["clusters"], "timeout": 20}
    given = {"namespace": "nobody-made-it", "create_namespace": False, "destinations": []}
    mark = two.mark()
    rows = fabric_preflight.run(dict(request, services=given))["findings"]
    found = [(row["level"], row["where"]) for row in rows if row["reason"] == "mirror_namespace_missing"]
    assert found == [("error", "aws"), ("error", "gcp")] and "service_mirror_create_namespace" in rows[0]["message"]
    for fine in (dict(given, create_namespace=True), dict(given, namespace="default"), None):
        assert fabric_preflight.run(dict(request, services=fine))["ok"]
    rows = fabric_preflight.run(dict(request, services=dict(given, destinations=["gcp"])))["findings"]
    assert [row["where"] for row in rows if row["level"] == "error"] == ["gcp"]
    assert two.writes(mark) == {"aws": [], "gcp": []}


def test_preflight_asks_both_and_writes_nothing(two):
    mark = two.mark()
    request = {
        "fabric": "t",
        "clusters": two.request()["clusters"],
        "definition": DEFINITION,
        "timeout": 5,
        "nodes": {},
    }
    assert fabric_preflight.run(request)["ok"] and two.writes(mark) == {"aws": [], "gcp": []}
    # addresses that nobody would announce are found before there are any
    settings = [
        {"cluster": "aws", "load_balancer": "empty://", "bgp_speakers": []},
        {"cluster": "gcp", "load_balancer": "empty://", "bgp_speakers": ["n"]},
    ]
    found = fabric_preflight.run(dict(request, load_balancers=settings))
    assert found["ok"] and [(row["where"], row["reason"]) for row in found["findings"]] == [("aws", "unannounced")]
    assert "bgp_speaker_neighbors" in found["lines"][0]
    found = fabric_preflight.run(dead(request))
    assert not found["ok"] and [row["where"] for row in found["findings"]] == ["aws"]
