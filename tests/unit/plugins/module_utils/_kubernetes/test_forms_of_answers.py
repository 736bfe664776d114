# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An object without what every object has is a failure of its cluster; the others go on."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers.read import read_state
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Listing
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.clusters import Clusters, contained
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.setup import parse_setup
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

FORMS = json.loads(
    (pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "hostile" / "forms_of_answers.json").read_text("utf-8")
)


class Server:
    """Answers every read with one form, and lists with nothing."""

    def __init__(self, cluster: str, answer: t.Any) -> None:
        self.cluster, self.answer = cluster, answer

    def get(self, path: str) -> t.Any:
        return self.answer

    def list(self, path: str, **more: t.Any) -> Listing:
        return Listing([], "1")


@pytest.mark.parametrize(
    "late",
    [ValueError("'' is no object name"), OverflowError("inf"), UnicodeEncodeError("utf-8", "\ud800", 0, 1, "no")],
    ids=repr,
)
def test_what_is_found_out_late_fails_its_cluster_alone_and_a_refusal_keeps_its_reason(late: Exception) -> None:
    clusters = Clusters([])
    clusters.clients = t.cast(t.Any, {"evil": 1, "good": 2})

    def work(name: str, unused: t.Any) -> str:
        if name == "evil":
            raise late
        return name

    assert clusters.write("look", ["evil", "good"], work) == {"good": "good"}
    assert [(one["cluster"], one["reason"]) for one in clusters.failures] == [
        ("evil", "bad_answer")
    ] and clusters.failures[0]["message"].isprintable()
    with pytest.raises(ValueRefused):
        contained("evil", "look", _refuse)


def _refuse() -> None:
    raise ValueRefused("bad_cidr", "no")


@pytest.mark.parametrize("row", FORMS["objects"], ids=lambda row: row["why"])
@pytest.mark.parametrize("way", ["read", "write"])
def test_one_cluster_with_a_strange_object_does_not_stop_the_others(row: t.Any, way: str) -> None:
    clusters = Clusters([])
    clusters.clients = t.cast(
        t.Any, {"evil": Server("evil", row["object"]), "good": Server("good", {"metadata": {"uid": "u"}})}
    )
    setups = {name: parse_setup({"cluster": name, "load_balancer": "empty://"}, {}, None) for name in clusters.clients}

    def work(name: str, client: t.Any) -> str:
        return read_state(client, setups[name]).uid

    found = clusters.read("look", work) if way == "read" else clusters.write("look", ["evil", "good"], work)
    assert found == {"good": "u"}
    (failure,) = clusters.failures
    assert (
        failure["cluster"] == "evil"
        and failure["reason"] == "bad_answer"
        and failure["message"].isprintable()
        and len(failure["message"]) < 400
    )
    assert "read.py" in failure["message"]
