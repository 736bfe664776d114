# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clusters by a variable of their hosts."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.multicluster.network.plugins.filter.clusters_with import clusters_with

HOSTS = {"aws": {"clustermesh_management": {}}, "gcp": {}, "other": {"clustermesh_management": {}}}


def test_only_hosts_of_the_group_count():
    assert clusters_with(HOSTS, "clustermesh_management", {"clusters": ["gcp", "aws"]}) == ["aws"]
    assert clusters_with(HOSTS, "clustermesh_management", {"mine": ["other"]}, "mine") == ["other"]
    assert clusters_with(HOSTS, "clustermesh_management", {}) == []


def test_clusters_that_are_no_hosts():
    entries = {"aws": {"clustermesh_management": {}}, "gcp": {}}
    hosts = {"node": {"multicluster_fabric_clusters": entries}}
    assert clusters_with(hosts, "clustermesh_management", {"all": ["node"]}) == ["aws"]


def test_another_input():
    with pytest.raises(AnsibleFilterError, match="hostvars"):
        clusters_with(None, "x", {})
