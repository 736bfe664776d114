# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The accounts of the service mirror can do what its module does, and write nowhere but in their namespace (decision 7)."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.access import cluster_objects, cluster_token
from ansible_collections.multicluster.network.plugins.module_utils._flows.services import mirror as service_mirror
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.access import parse_access
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Client
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import Forbidden, ListIncomplete
from ansible_collections.multicluster.network.plugins.module_utils._plan.access_manifests import access_manifests
from mirror_clusters import NAMESPACE, Two, endpoints, namespace, other, piece, service, two  # pylint: disable=unused-import

__all__ = ["other", "two"]


def test_accounts_suffice_and_reach_no_further(two: Two, tmp_path):
    for name in ("aws", "gcp"):
        two.put(name, namespace(NAMESPACE))
    admins = [two.servers[name].access(name) for name in ("aws", "gcp")]
    made = {"fabric": "t", "clusters": admins, "objects": access_manifests(["service_mirror", "service_mirror_read"])}
    assert not cluster_objects.run(made)["failures"]
    entries = []
    for admin, capability in zip(admins, ("service-mirror-read", "service-mirror")):
        path = str(tmp_path / admin["name"])
        request = {
            "fabric": "t",
            "clusters": [admin],
            "service_account": "multicluster-" + capability,
            "namespace": "kube-system",
            "path": path,
            "expires": 3600,
            "renew_before": 60,
            "state": "present",
        }
        assert not cluster_token.run(request)["failures"]
        entries.append({"name": admin["name"], "kubeconfig": path})
    two.put("aws", service("shop", "web"), endpoints("shop", "web", "10.2.3.4"), piece("shop", "web", "-a", "10.2.3.4"))
    try:
        for form in ("endpoints", "slices"):
            request = two.request(
                clusters=entries,
                destinations=["gcp"],
                create_namespace=False,
                mirror_as=form,
                max_deletes=-1,
                on_unreachable="empty",
                unreachable_grace=60,
            )
            result = service_mirror.run(request)
            assert result["changed"] and result["failures"] == [] and not service_mirror.run(request)["changed"]
        result = service_mirror.run(
            dict(request, destinations=["aws"], sources=["gcp"], mirror_as="endpoints", state="present")
        )
        assert not result["changed"]
        result = service_mirror.run(dict(request, state="absent"))
        assert result["plan"]["delete"] >= 1 and two.names("gcp", "Service") == []
        reader, writer = (Client(parse_access(entry)) for entry in entries)
        for client in (reader, writer):
            with pytest.raises(ListIncomplete) as error:
                client.list("/api/v1/secrets")
            assert error.value.cause == "forbidden"
            for place in ("shop", "default"):
                with pytest.raises(Forbidden):
                    client.delete(f"/api/v1/namespaces/{place}/services/web")
    finally:
        cluster_objects.run(dict(made, state="absent"))
