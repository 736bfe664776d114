# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an account that may not list everything is notified of leftovers: a role that an unseen binding may use is not among them."""

from __future__ import annotations

import types

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.upstream import inspection
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import Forbidden, ListIncomplete

OPERATOR = {
    "kind": "Deployment",
    "metadata": {"name": "operator", "namespace": "kilo"},
    "spec": {
        "template": {
            "metadata": {"labels": {"app": "operator"}},
            "spec": {
                "serviceAccountName": "operator",
                "containers": [{"name": "one", "image": "kilo-clustermesh-operator"}],
            },
        }
    },
}
ACCOUNT = {"kind": "ServiceAccount", "namespace": "kilo", "name": "operator"}
OBJECTS = {
    "deployments": [OPERATOR],
    "clusterrolebindings": [
        {"metadata": {"name": "owned"}, "roleRef": {"kind": "ClusterRole", "name": "shared"}, "subjects": [ACCOUNT]}
    ],
    "rolebindings": [
        {
            "metadata": {"name": "theirs", "namespace": "shop"},
            "roleRef": {"kind": "ClusterRole", "name": "shared"},
            "subjects": [dict(ACCOUNT, namespace="shop")],
        }
    ],
    "clusterroles": [{"metadata": {"name": "shared"}}],
    "services": [{"metadata": {"name": "hook", "namespace": "kilo"}, "spec": {"selector": {"app": "operator"}}}],
}


class Server:
    """An API server that refuses to list one kind."""

    def __init__(self, refused):
        self.refused = refused

    def list(self, path, **dummy):
        plural = path.rpartition("/")[2]
        if plural == self.refused:
            raise ListIncomplete(Forbidden("eu", "list " + plural, "no"))
        return types.SimpleNamespace(items=OBJECTS.get(plural, []))

    def find(self, dummy):
        return None

    def serves(self, *dummy):
        return False

    def resource(self, *dummy):
        return None


def left(refused):
    clusters = types.SimpleNamespace(fail=None)
    found = inspection._gather("eu", Server(refused), clusters, False)  # pylint: disable=protected-access
    return {f"{one.kind} {one.name}" for one in found.left}, [(error.operation, error.cause) for error in found.unread]


def test_what_all_of_it_shows():
    assert left("") == (
        {"Deployment operator", "ServiceAccount operator", "ClusterRoleBinding owned", "Service hook"},
        [],
    )


@pytest.mark.parametrize("refused", ["clusterrolebindings", "rolebindings", "clusterroles", "roles"])
def test_rights_are_reported_where_all_of_them_are_seen(refused):
    assert left(refused) == (
        {"Deployment operator", "ServiceAccount operator", "Service hook"},
        [("list " + refused, "forbidden")],
    )


def test_the_rest_is_reported():
    assert left("leases")[0] == left("")[0] and left("leases")[1] == [("list leases", "forbidden")]
    assert left("services")[0] == left("")[0] - {"Service hook"}
