# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The install line of the README and of the guide, run as it is: after a pull it installs the new files, of the same version too."""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import shutil
import subprocess

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", ROOT / "docs" / "docsite" / "rst" / "guide_start.rst")
INSTALLED = pathlib.Path("ansible_collections") / "multicluster" / "network"


def lines():
    """The install line of each page."""
    return {
        path.name: re.findall(r"\$ (ansible-galaxy collection install [^#\n]*)", path.read_text("utf-8"))
        for path in PAGES
    }


def test_both_pages_have_the_same_line():
    found = lines()
    assert len({tuple(part.strip() for part in rows) for rows in found.values()}) == 1 and all(
        len(rows) == 1 for rows in found.values()
    ), found


@pytest.fixture(scope="module", name="clone")
def a_small_clone(tmp_path_factory):
    """What a collection needs to be one, with one plugin: enough to be installed, in seconds."""
    clone = tmp_path_factory.mktemp("clone")
    for name in ("galaxy.yml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, clone)
    (clone / "meta").mkdir()
    shutil.copy(ROOT / "meta" / "runtime.yml", clone / "meta")
    (clone / "plugins" / "filter").mkdir(parents=True)
    return clone


def test_a_pull_is_installed_over_the_same_version(clone, tmp_path):
    (line,) = lines()["README.md"]
    plugin, target = (
        clone / "plugins" / "filter" / "mirror_name.py",
        tmp_path / INSTALLED / "plugins" / "filter" / "mirror_name.py",
    )
    for content in ("# before the pull\n", "# after it\n"):
        plugin.write_text(content)
        done = subprocess.run(
            [*shlex.split(line), "--offline", "-p", str(tmp_path)],
            cwd=clone,
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            env=dict(os.environ, ANSIBLE_COLLECTIONS_PATH=str(tmp_path), HOME=str(tmp_path)),
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert target.read_text() == content


def test_a_release_writes_the_file_that_readers_open():
    """antsibull-changelog counts from the folder changelogs."""
    template = yaml.safe_load((ROOT / "changelogs" / "config.yaml").read_text())["changelog_filename_template"]
    assert (ROOT / "changelogs" / template).resolve() == ROOT / "CHANGELOG.rst"
