# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a cluster that does not have the kinds of tenants is reported as: one line for each group of kinds, with the variables."""

from __future__ import annotations

import types

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.tenants.store import ApiStore, gather
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import NotFound, Unreachable
from ansible_collections.multicluster.network.plugins.module_utils._tenants.options import APINET, SOURCE, parse_options


class Server:
    """An API server that answers every list in one way."""

    def __init__(self, cluster, kind):
        self.cluster, self._kind = cluster, kind

    def list(self, path):
        raise self._kind(self.cluster, "list " + path, "HTTP 404: no reason given")


def failures(kind):
    clusters = types.SimpleNamespace(timeout=30.0, failures=[])
    stores = {side: ApiStore(Server(side, kind), "manager") for side in (SOURCE, APINET)}
    view = gather(clusters, stores, parse_options({"apinet_namespace": "apinet-system"}))
    return clusters.failures, view


def test_kinds_that_are_not_served_are_one_line_for_each_group():
    rows, unused = failures(NotFound)
    assert len(rows) == len({(row["cluster"], row["operation"]) for row in rows}) == 3, rows
    assert {row["cluster"] for row in rows} == {SOURCE, APINET} and {row["reason"] for row in rows} == {"not_found"}
    for row in rows:
        assert (
            "does not serve " in row["message"]
            and "tenants_install_crds" in row["message"]
            and "tenants_profile" in row["message"]
        )
    (reported,) = [row["message"] for row in rows if "networking" in row["operation"]]
    assert all(kind in reported for kind in ("Network", "VirtualIP", "NATGateway"))


@pytest.mark.parametrize("kind", [Unreachable])
def test_other_failures_are_reported_by_kind(kind):
    rows, unused = failures(kind)
    assert len(rows) > 3 and {row["reason"] for row in rows} == {"unreachable"}
