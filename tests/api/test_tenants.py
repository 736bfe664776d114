# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tenant mapping over two real API servers. The audit logs say what was really written (decision 44)."""

from __future__ import annotations

import pathlib
import sys

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.tenants.store import ApiStore
from ansible_collections.multicluster.network.plugins.module_utils._tenants.options import APINET, SOURCE
from tenant_servers import NAMESPACE, TEAM, source

UNIT = pathlib.Path(__file__).resolve().parents[1] / "unit" / "plugins" / "module_utils" / "_tenants"
sys.path.insert(0, str(UNIT))
from store_contract import CONTRACT, MANAGER  # pylint: disable=wrong-import-position,import-error

sys.path.remove(str(UNIT))


@pytest.mark.parametrize("rule", CONTRACT, ids=lambda rule: rule.__name__)
def test_the_contract_of_the_stores(lab, rule):
    rule(ApiStore(lab.clients[APINET], MANAGER), NAMESPACE)


def test_a_network_gets_its_twin_its_id_and_its_state(lab):
    made = lab.create(SOURCE, source("Network", "net-1", {}))
    ident = made["metadata"]["uid"]
    mark = lab.mark()
    shown = lab.sync(check=True)
    assert shown["changed"] and "apinet.api.onmetal.de/network" in shown["diff"]["after"]
    assert lab.writes(mark) == {SOURCE: [], APINET: []}

    result = lab.sync()
    assert (result["failures"], result["refused"]) == ([], [])
    assert [row["reasons"][0]["reason"] for row in result["pending"]] == ["id_not_allocated"]
    twin = lab.get(APINET, "Network", NAMESPACE, ident)
    assert twin["metadata"]["labels"]["apinetlet.api.onmetal.de/network-name"] == "net-1"
    assert [entry["manager"] for entry in twin["metadata"]["managedFields"]] == ["multicluster.network/t"]
    waiting = lab.get(SOURCE, "Network", TEAM, "net-1")
    assert waiting["status"]["state"] == "Pending" and "providerID" not in waiting["spec"]

    lab.patch(APINET, "Network", NAMESPACE, ident, {"spec": {"id": "4711"}})
    result = lab.sync()
    assert result["settled"] and not result["pending"]
    found = lab.get(SOURCE, "Network", TEAM, "net-1")
    provider = f"onmetal-api-net://{NAMESPACE}/{ident}/4711/{twin['metadata']['uid']}"
    assert (found["spec"]["providerID"], found["status"]["state"]) == (provider, "Available")

    mark = lab.mark()
    assert not lab.sync()["changed"]
    assert lab.writes(mark) == {SOURCE: [], APINET: []}
    lab.delete(SOURCE, "Network", TEAM, "net-1")
    assert lab.get(SOURCE, "Network", TEAM, "net-1")["metadata"]["finalizers"] == ["apinet.api.onmetal.de/network"]
    assert lab.sync()["settled"] and lab.left() == []
