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
from mcnlab import node_init, snapshot  # pylint: disable=wrong-import-position


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
        pytest.skip("needs root")


@pytest.mark.parametrize("name", node_init.OWNED_FOLDERS)
def test_a_hidden_owned_folder_is_no_difference_but_one_with_content_is(trees, name):
    upper, lower = trees
    assert snapshot.changed_files(upper, lower) == {}
    (lower / name).mkdir()
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
    settings = {"name": "aws-node-1", "machine_id": "0" * 32, "addresses": ["192.0.2.1"], "light": False}
    (tmp_path / "etc").mkdir()
    for name in node_init.OWNED_FOLDERS:
        (tmp_path / name / "mesh").mkdir(parents=True)
        (tmp_path / name / "mesh/dataplane.json").write_text("{}")
    node_init.identify(tmp_path, settings)
    assert [path.name for path in (tmp_path / "var/lib").iterdir()] == []
