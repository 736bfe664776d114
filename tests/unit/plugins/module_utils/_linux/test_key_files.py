# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Key files on a real file system."""

from __future__ import annotations

import base64
import os
import pathlib
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
    assert stat.S_IMODE(pathlib.Path(path).stat().st_mode) == 0o600
    assert stat.S_IMODE(pathlib.Path(path).parent.stat().st_mode) == 0o755
    text = pathlib.Path(path).read_text(encoding="ascii")
    assert len(text) == 44 and not text.endswith("\n")
    raw = base64.b64decode(text)
    assert raw[0] & 7 == 0 and raw[31] & 0xC0 == 0x40
    inode = pathlib.Path(path).stat().st_ino
    assert key.ensure() == public and pathlib.Path(path).stat().st_ino == inode
    assert list(pathlib.Path(path).parent.iterdir()) == [pathlib.Path(path)]


def test_newline_is_tolerated_and_a_loose_mode_fixed(path):
    pathlib.Path(path).parent.mkdir(parents=True)
    with pathlib.Path(path).open("w", encoding="ascii") as file:
        file.write(KEY + "\n")
    pathlib.Path(path).chmod(0o644)
    result = wireguard_key.run({"path": path}, check=True)
    assert result["changed"] and stat.S_IMODE(pathlib.Path(path).stat().st_mode) == 0o644
    result = wireguard_key.run({"path": path}, check=False)
    assert result["changed"] and stat.S_IMODE(pathlib.Path(path).stat().st_mode) == 0o600
    assert pathlib.Path(path).read_text(encoding="ascii") == KEY + "\n"
    assert not wireguard_key.run({"path": path}, check=False)["changed"]


@pytest.mark.parametrize("content", ["", "c2hvcnQ=", KEY + "\n\n", "x" * 10000, base64.b64encode(bytes(32)).decode()])
def test_what_is_no_key_is_never_overwritten(path, content):
    pathlib.Path(path).parent.mkdir(parents=True)
    with pathlib.Path(path).open("w", encoding="ascii") as file:
        file.write(content)
    for action in (KeyFile(path).ensure, KeyFile(path).rotate, KeyFile(path).private_key):
        with pytest.raises(LinuxError) as error:
            action()
        assert not content or content[:8] not in error.value.message
    for state in ("present", "absent"):
        result = wireguard_key.run({"path": path, "state": state}, check=False)
        assert not result["changed"] and result["refused"][0]["reason"] == "bad_private_key"
    assert pathlib.Path(path).read_text(encoding="ascii") == content


def test_links_and_other_things_are_refused(path, tmp_path):
    pathlib.Path(path).parent.mkdir(parents=True)
    target = tmp_path / "target"
    target.write_text(KEY)
    pathlib.Path(path).symlink_to(str(target))
    assert KeyFile(path).state()["state"] == "unusable"
    with pytest.raises(LinuxError, match="symbolic link"):
        KeyFile(path).ensure()
    pathlib.Path(path).unlink()
    os.mkfifo(path)
    assert KeyFile(path).state()["state"] == "unusable"


def test_a_folder_that_others_may_write_into_is_refused(path):
    pathlib.Path(path).parent.mkdir(parents=True)
    pathlib.Path(path).parent.chmod(0o777)
    with pytest.raises(LinuxError, match="other users"):
        KeyFile(path).ensure()
    assert list(pathlib.Path(path).parent.iterdir()) == []


def test_a_key_that_appeared_meanwhile_is_not_replaced(path):
    pathlib.Path(path).parent.mkdir(0o755, parents=True)
    with pathlib.Path(path).open("w", encoding="ascii") as file:
        file.write(KEY)
    with pytest.raises(LinuxError, match="File exists"):
        write_new(path, "other", replace=False)
    assert list(pathlib.Path(path).parent.iterdir()) == [pathlib.Path(path)]


def test_whole_life_in_the_flow(path):
    desired = {"path": path}
    planned = wireguard_key.run(desired, check=True)
    assert planned["changed"] and set(planned["public_key"]) == {"__pending__"} and not pathlib.Path(path).exists()
    made = wireguard_key.run(desired, check=False)
    assert made["changed"] and len(made["public_key"]) == 44
    private = pathlib.Path(path).read_text(encoding="ascii")
    assert private not in str(made)
    assert not wireguard_key.run(desired, check=False)["changed"]
    desired["rotate_from"] = made["public_key"]
    rotated = wireguard_key.run(desired, check=False)
    assert rotated["changed"] and rotated["public_key"] != made["public_key"]
    again = wireguard_key.run(desired, check=False)
    assert not again["changed"] and again["public_key"] == rotated["public_key"]
    assert wireguard_key.run({"path": path, "state": "absent"}, check=False)["changed"]
    assert not wireguard_key.run({"path": path, "state": "absent"}, check=False)["changed"]
