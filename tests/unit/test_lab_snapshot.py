# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a snapshot of a lab's node reports of its files, and what it leaves out because the machine below it changed."""

from __future__ import annotations

import os
import pathlib
import stat
import sys

import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "tests" / "lab"))
from ansible_collections.multicluster.network.plugins.module_utils._flows.node.persistence import STATE_ROOT
from ansible_collections.multicluster.network.plugins.module_utils._flows.speakers.bgp import follow as bgp_follow
from ansible_collections.multicluster.network.plugins.module_utils._flows.speakers.layer2 import follow as layer2_follow
from ansible_collections.multicluster.network.plugins.module_utils._plan.node_pod_manifests import FOLDERS
from mcnlab import node_init, snapshot  # pylint: disable=wrong-import-position

#: As the collection names them.
OWNED = sorted(
    {name.lstrip("/") for name in (STATE_ROOT, *FOLDERS.values())}
    | {kept.rpartition("/")[0].lstrip("/") for kept in (bgp_follow.KEPT, layer2_follow.KEPT)}
    | {"usr/local/lib/multicluster-network"}
)


@pytest.fixture(name="trees")
def upper_and_lower(tmp_path):
    upper, lower = tmp_path / "upper", tmp_path / "lower"
    for tree in (upper, lower):
        for name in ("etc", "var/lib", "usr/local"):
            (tree / name).mkdir(parents=True)
    return upper, lower


def whiteout(path):
    try:
        os.mknod(path, stat.S_IFCHR, os.makedev(0, 0))
    except PermissionError:
        pytest.skip("NOT RUN: only root makes the whiteout of an overlay")


@pytest.mark.parametrize("name", OWNED)
def test_a_hidden_owned_folder_is_no_difference_but_one_with_content_is(trees, name):
    upper, lower = trees
    assert snapshot.changed_files(upper, lower) == {}
    (lower / name).mkdir(parents=True)
    (upper / name).parent.mkdir(parents=True, exist_ok=True)
    whiteout(upper / name)
    assert snapshot.changed_files(upper, lower) == {}
    (upper / name).unlink()
    (upper / name).mkdir()
    (upper / name / "key").write_text("secret")
    assert list(snapshot.changed_files(upper, lower)) == [f"/{name}/key"]
    (lower / name).rmdir()
    assert list(snapshot.changed_files(upper, lower)) == [f"/{name}", f"/{name}/key"]


def test_any_other_file_that_a_node_removed_is_deleted(trees):
    upper, lower = trees
    (lower / "var/lib/cni").mkdir()
    whiteout(upper / "var/lib/cni")
    assert snapshot.changed_files(upper, lower) == {"/var/lib/cni": "deleted"}


def test_a_node_begins_without_the_owned_folders_of_the_machine(tmp_path):
    for name in (*OWNED, "var/lib/multicluster-network-lab-1"):
        (tmp_path / name / "mesh").mkdir(parents=True)
        (tmp_path / name / "mesh/dataplane.json").write_text("{}")
    node_init.hide_owned_folders(tmp_path)
    assert [path.name for path in (tmp_path / "var/lib").iterdir()] == ["multicluster-network-lab-1"], (
        "a lab's own folder"
    )
    assert not list((tmp_path / "usr/local/lib").iterdir())
