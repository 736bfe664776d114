# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading clusters for the page: what an access may not list is said, and the rest is shown."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.reports import status as fabric_status
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Listing
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import KubeError


class Client:
    """An API server with one Node and one mirror; some paths are forbidden."""

    def __init__(self, *forbidden, status=403):
        self.forbidden, self.status = forbidden, status

    def server_version(self):
        return 1, 31

    def serves(self, version, kind):
        return version == "discovery.k8s.io/v1"

    def resource(self, version, kind):
        return None

    def sample(self, path, most, field_selector=None):
        return self.list(path).items[:most], True

    def list(self, path, label_selector=None):
        if any(part in path for part in self.forbidden):
            raise KubeError("aws", "list " + path, "no", status=self.status)
        found = {
            "/api/v1/nodes": [{"metadata": {"name": "n"}}],
            "/api/v1/services": [
                {"metadata": {"name": "m", "namespace": "s", "labels": {"mirrored-svc": "true"}}, "spec": {}}
            ],
        }
        return Listing(found.get(path, []), "1")


def test_what_may_not_be_listed_is_missing_and_named():
    read, dummy = fabric_status._cluster(Client("endpoint", "configmaps"), [])
    assert sorted(set(read["denied"])) == ["configmaps", "endpoints", "endpointslices"]
    assert len(read["nodes"]) == len(read["services"]) == 1
    rows = fabric_status._denied({"aws": read["denied"]})
    assert [(row["where"], row["object"], row["reason"]) for row in rows] == [
        ("aws", "list " + kind, "forbidden") for kind in ("configmaps", "endpoints", "endpointslices")
    ]


def test_nobody_is_blamed_for_what_could_not_be_looked_up():
    asked = [("Service", "aws/s/m"), ("Service", "aws/s/gone"), ("node", "aws/n")]
    assert set(fabric_status._cluster(Client(), asked)[1]) == set(asked)
    found = fabric_status._cluster(Client("services"), asked)[1]
    assert set(found) == {("node", "aws/n")}


def test_any_other_error_is_the_clusters():
    with pytest.raises(KubeError):
        fabric_status._cluster(Client("nodes", status=500), [])
