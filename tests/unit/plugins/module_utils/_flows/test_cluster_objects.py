# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Manifests that the module makes itself: accounts of capabilities, and Secrets of kubeconfigs that lie on its host."""

from __future__ import annotations

import base64

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.access.cluster_objects import made_here
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

DEFAULTS = {"namespace": "kilo-system", "name": "{cluster}-kubeconfig", "key": "kubeconfig"}


def secrets(folder, *clusters, check=False, **request):
    given = dict(DEFAULTS, clusters=list(clusters), path=str(folder / "{cluster}"))
    return made_here(dict(request, kubeconfig_secrets=given), check)


def test_secrets_hold_the_files_byte_for_byte(tmp_path):
    (tmp_path / "us").write_bytes(b"text\n")
    (found,) = secrets(tmp_path, "us")
    assert found["metadata"] == {"name": "us-kubeconfig", "namespace": "kilo-system"} and found["kind"] == "Secret"
    assert base64.b64decode(found["data"]["kubeconfig"]) == b"text\n"


def test_a_file_that_is_missing_is_named_but_not_awaited_in_check_mode(tmp_path):
    (tmp_path / "us").write_bytes(b"text")
    with pytest.raises(ValueRefused, match="kubeconfig_missing.*/eu"):
        secrets(tmp_path, "us", "eu")
    assert [row["metadata"]["name"] for row in secrets(tmp_path, "us", "eu", check=True)] == ["us-kubeconfig"]
    gone = secrets(tmp_path, "us", "eu", state="absent")
    assert [row["data"] for row in gone] == [
        {"kubeconfig": ""},
        {"kubeconfig": ""},
    ]  # enough to remove them, whatever is left of files


def test_accounts():
    access = {
        "capabilities": ["mesh_read"],
        "namespace": "owned",
        "prefix": "p",
        "extra_rules": [],
        "target_namespace": "t",
    }
    made = made_here({"access": access}, False)
    assert [row["kind"] for row in made] == ["ServiceAccount", "ClusterRole", "ClusterRoleBinding"] and made[0][
        "metadata"
    ]["namespace"] == "owned"
    with pytest.raises(ValueRefused, match="capability_unknown"):
        made_here({"access": dict(access, capabilities=["everything"])}, False)
    assert made_here({}, False) == []
