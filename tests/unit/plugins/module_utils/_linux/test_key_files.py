# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Key files on a real file system."""

from __future__ import annotations

import base64
import os
import stat

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.node import wireguard_key
from ansible_collections.multicluster.network.plugins.module_utils._linux.errors import LinuxError
from ansible_collections.multicluster.network.plugins.module_utils._linux.wireguard.keys import KeyFile, write_new

KEY = base64.b64encode(bytes(range(32))).decode()


@pytest.fixture(name="path")
def path_fixture(tmp_path):
    return str(tmp_path / "keys" / "wireguard.gcp.key")


def test_made_once_with_tight_modes_and_kept(path):
    key = KeyFile(path)
    public = key.ensure()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o755
    text = open(path, encoding="ascii").read()
    assert len(text) == 44 and not text.endswith("\n")
    raw = base64.b64decode(text)
    assert raw[0] & 7 == 0 and raw[31] & 0xC0 == 0x40
    inode = os.stat(path).st_ino
    assert key.ensure() == public and os.stat(path).st_ino == inode
    assert os.listdir(os.path.dirname(path)) == ["wireguard.gcp.key"]


def test_newline_is_tolerated_and_a_loose_mode_mended(path):
    os.makedirs(os.path.dirname(path))
    with open(path, "w", encoding="ascii") as file:
        file.write(KEY + "\n")
    os.chmod(path, 0o644)
    result = wireguard_key.run({"path": path}, check=True)
    assert result["changed"] and stat.S_IMODE(os.stat(path).st_mode) == 0o644
    result = wireguard_key.run({"path": path}, check=False)
    assert result["changed"] and stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert open(path, encoding="ascii").read() == KEY + "\n"
    assert not wireguard_key.run({"path": path}, check=False)["changed"]


@pytest.mark.parametrize("content", ["", "c2hvcnQ=", KEY + "\n\n", "x" * 10000, base64.b64encode(bytes(32)).decode()])
def test_what_is_no_key_is_never_overwritten(path, content):
    os.makedirs(os.path.dirname(path))
    with open(path, "w", encoding="ascii") as file:
        file.write(content)
    for action in (KeyFile(path).ensure, KeyFile(path).rotate, KeyFile(path).private_key):
        with pytest.raises(LinuxError) as error:
            action()
        assert not content or content[:8] not in error.value.message
    for state in ("present", "absent"):
        result = wireguard_key.run({"path": path, "state": state}, check=False)
        assert not result["changed"] and result["refused"][0]["reason"] == "bad_private_key"
    assert open(path, encoding="ascii").read() == content


def test_links_and_other_things_are_refused(path, tmp_path):
    os.makedirs(os.path.dirname(path))
    target = tmp_path / "target"
    target.write_text(KEY)
    os.symlink(str(target), path)
    assert KeyFile(path).state()["state"] == "unusable"
    with pytest.raises(LinuxError, match="symbolic link"):
        KeyFile(path).ensure()
    os.unlink(path)
    os.mkfifo(path)
    assert KeyFile(path).state()["state"] == "unusable"


def test_a_folder_that_others_may_write_into_is_refused(path):
    os.makedirs(os.path.dirname(path))
    os.chmod(os.path.dirname(path), 0o777)
    with pytest.raises(LinuxError, match="other users"):
        KeyFile(path).ensure()
    assert os.listdir(os.path.dirname(path)) == []


def test_a_key_that_appeared_meanwhile_is_not_replaced(path):
    os.makedirs(os.path.dirname(path), 0o755)
    with open(path, "w", encoding="ascii") as file:
        file.write(KEY)
    with pytest.raises(LinuxError, match="File exists"):
        write_new(path, "other", replace=False)
    assert os.listdir(os.path.dirname(path)) == ["wireguard.gcp.key"]


def test_whole_life_in_the_flow(path):
    wanted = {"path": path}
    planned = wireguard_key.run(wanted, check=True)
    assert planned["changed"] and set(planned["public_key"]) == {"__pending__"} and not os.path.exists(path)
    made = wireguard_key.run(wanted, check=False)
    assert made["changed"] and len(made["public_key"]) == 44
    private = open(path, encoding="ascii").read()
    assert private not in str(made)
    assert not wireguard_key.run(wanted, check=False)["changed"]
    wanted["rotate_from"] = made["public_key"]
    rotated = wireguard_key.run(wanted, check=False)
    assert rotated["changed"] and rotated["public_key"] != made["public_key"]
    again = wireguard_key.run(wanted, check=False)
    assert not again["changed"] and again["public_key"] == rotated["public_key"]
    assert wireguard_key.run({"path": path, "state": "absent"}, check=False)["changed"]
    assert not wireguard_key.run({"path": path, "state": "absent"}, check=False)["changed"]
