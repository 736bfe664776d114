# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Members that only a discovery service knows, as the verdict and the status have them."""

from __future__ import annotations

from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._status import mesh_verdict
from ansible_collections.multicluster.network.plugins.module_utils._status.node_rows import peer_names

KEY = "CvQ6mT6y+Q7KxcZDGrj2C51PMVG0dGomuLq+aH7CTR8="


def mesh(**more):
    node = {"cluster": "talos", "node_name": "edge-1", "pod_cidrs": []}
    return {"mode": "kubespan", "nodes": {"edge-1": node}, "clusters": {}, "kubespan": {"affiliates": [], **more}}


def row(age=5, **discovery):
    peer = {"device": "kubespan", "public_key": KEY, "handshake_age": age, "endpoint": "192.0.2.11:51820"}
    probe = {"pings": [], "peers": [peer], "paths": {"asked": 1}, "units": [], "errors": []}
    found = {"state": "connected", "reason": "", "message": "", "labels": {KEY: "worker-1"}, **discovery}
    return {"edge-1": {"drift": {"plan": {"changes": []}}, "probe": dict(probe, discovery=found)}}


def verdict(found, **more):
    known = more or {"members": {"talos": {}}}
    return mesh_verdict.of_host(MeshPlan.from_json(mesh(**known)), "edge-1", found, False, set())


def test_handshakes_of_members_are_the_proof():
    assert verdict(row()) == mesh_verdict.Verdict()
    (text,) = verdict(row(age=None)).broken
    assert text.startswith("edge-1: no handshake with discovery/worker-1")
    (text,) = verdict(row(age=9999)).broken
    assert "last handshake with discovery/worker-1 is 9999 s old" in text


def test_without_a_service_in_the_plan_they_prove_nothing():
    assert "no peer is planned" in " ".join(verdict(row(), members={}).unproven)


def test_a_service_that_is_away_is_not_proven_and_a_wrong_secret_is_broken():
    away = verdict(row(state="away", reason="service_away", message="the discovery service https://a is not reached"))
    assert not away.broken and len(away.unproven) == 1 and "[service_away]; its peers stay" in away.unproven[0]
    wrong = verdict(row(state="wrong_secret", reason="wrong_secret", message="no record can be opened"))
    assert len(wrong.broken) == 1 and not wrong.unproven and "[wrong_secret]" in wrong.broken[0]


def test_the_status_has_their_names():
    node = {"devices": [], "discovery": {"labels": {KEY: "worker-1"}}}
    assert peer_names(MeshPlan.from_json(mesh()), {"edge-1": node, "other": None}) == {KEY: ("discovery", "worker-1")}
