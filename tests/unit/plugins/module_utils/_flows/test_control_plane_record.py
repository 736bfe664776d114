# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster's own record of the control plane's address: it cannot have the controller move another address."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers import control_plane_address
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Listing
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.reservations import Reservation

HOSTILE = json.loads(
    (pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "hostile" / "load_balancers.json").read_text("utf-8")
)
TAG = "control-plane"
NODE = {
    "metadata": {"name": "cp-1", "labels": {"node-role.kubernetes.io/control-plane": ""}},
    "status": {"addresses": [{"type": "InternalIP", "address": "10.66.0.1"}]},
}


class Cluster:
    """Answers reads; any write is an error."""

    cluster = "aws"
    stats: t.ClassVar[dict[str, int]] = {}

    def __init__(self, record: t.Any) -> None:
        self.ledger = {"x": json.dumps(dict({"id": record["address"], "tags": [TAG]}, **record))}

    def get(self, path: str) -> t.Any:
        assert path == "/api/v1/namespaces/default/services/kubernetes"
        return {"spec": {"ports": [{"port": 443, "targetPort": 6443}]}}

    def list(self, path: str, **more: t.Any) -> Listing:
        found: list[t.Any] = [NODE] if path == "/api/v1/nodes" else []
        if path.endswith("/configmaps"):
            found = [{"metadata": {"name": "metal-ccm-static-pool", "resourceVersion": "1"}, "data": self.ledger}]
        return Listing(found, "1")


def plan(record: t.Any, address: str | None, monkeypatch: t.Any) -> t.Any:
    client = Cluster(record)
    monkeypatch.setattr(
        control_plane_address.Reconcile, "gather", lambda self: self.__dict__.update(client=client, nodes=[NODE])
    )
    monkeypatch.setattr(control_plane_address, "HealthProbe", Probe)
    reserved = dict(HOSTILE["reserved_ranges"], **{"node_cidrs of cluster aws": ["10.66.0.0/24"]})
    own = {"cluster": "aws", "eip_tag": TAG, "reserved_ranges": reserved}
    settings = [own, *({"cluster": name, "pool": pool} for name, pool in HOSTILE["pools"].items() if name != "aws")]
    entries = [{"name": str(row["cluster"])} for row in settings]
    request = {
        "fabric": "t",
        "settings": settings,
        "clusters": entries,
        "address": address,
        "external_service": False,
        "probe_ca": "-",
    }
    return control_plane_address.run(request, check=True)


class Probe:
    """Every server is well but the one at the address."""

    count = 0

    def __init__(self, *unused: t.Any) -> None:
        pass

    def __call__(self, url: str) -> int:
        return 200 if "10.66.0.1" in url else 0


@pytest.mark.parametrize("row", HOSTILE["control_plane_records"], ids=lambda row: row["why"])
def test_a_record_does_not_make_another_address_the_control_planes(row: t.Any, monkeypatch: t.Any) -> None:
    result = plan({"address": row["address"]}, row["inventory"], monkeypatch)
    moved = [change["id"] for change in result["plan"]["changes"]]
    if row["word"] is None:
        assert moved == ["aws/" + row["address"]] and not result["failures"]
        return
    assert moved == []
    (failure,) = result["failures"]
    assert failure["reason"] == row["word"] and row["address"] in failure["message"]


def test_a_record_that_changes_meanwhile_moves_nothing(monkeypatch: t.Any) -> None:
    """Its address went between reading and moving: the next pass looks again, and the run goes on."""
    client = Cluster({"address": "10.66.0.100"})
    monkeypatch.setattr(
        control_plane_address.Reconcile, "gather", lambda self: self.__dict__.update(client=client, nodes=[NODE])
    )
    settings = {"cluster": "aws", "eip_tag": TAG}
    request = {"settings": [settings], "clusters": [{"name": "aws"}]}
    setup = control_plane_address.read_setups(request)[0]["aws"]
    one = control_plane_address.Reconcile(
        {"name": "aws"}, setup, control_plane_address.parse_run_options(request), "multicluster.network/t", False
    )
    one.gather()
    state, provider = one._provider()
    (one.eip,) = provider.list_addresses()
    assert isinstance(one.eip, Reservation) and one._still(state, provider)
    client.ledger = Cluster({"address": "10.66.0.101"}).ledger
    assert not one._still(state, provider)


@pytest.mark.parametrize("spec", [[1], "text", {"ports": [7]}, {"ports": 7}], ids=str)
def test_a_strange_service_fails_its_cluster_alone(spec: t.Any, monkeypatch: t.Any) -> None:
    monkeypatch.setattr(Cluster, "get", lambda self, path: {"spec": spec})
    result = plan({"address": "10.66.0.100"}, None, monkeypatch)
    assert [(row["cluster"], row["reason"]) for row in result["failures"]] == [("aws", "bad_answer")] and not result[
        "plan"
    ]["changes"]
