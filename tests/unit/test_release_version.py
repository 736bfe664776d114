# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Versions of the collection: what is one, which comes next, and what has to agree."""

from __future__ import annotations

import importlib.util
import pathlib
import re

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("release_version", ROOT / "tests" / "release" / "version.py")
version = importlib.util.module_from_spec(spec)
spec.loader.exec_module(version)


@pytest.fixture(name="clone")
def a_clone(tmp_path):
    def make(galaxy, image=None, agent="1.0.0"):
        (tmp_path / "galaxy.yml").write_text(f"namespace: a\nversion: {galaxy}\n")
        (tmp_path / "execution-environment.yml").write_text(f"src: multicluster-network-{image or galaxy}.tar.gz\n")
        for path in version.AGENTS:
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(f'USER_AGENT = "multicluster.network/{agent} (Ansible collection)"\n')
        return tmp_path

    return make


@pytest.mark.parametrize(
    ("one", "count", "next_one"),
    [
        ("1.0.0-dev.0", 1200, "1.0.0-dev.1200"),
        ("1.1.0-dev.1200", 1200, "1.1.0-dev.1201"),
        ("1.1.0-dev.9", 0, "1.1.0-dev.10"),
    ],
)
def test_the_next_version_is_a_later_one(one, count, next_one):
    assert version.following(one, count) == next_one


@pytest.mark.parametrize("one", ["1.0.0", "1.0", "", "1.0.0-rc.1", "01.0.0-dev.1", "1.0.0-dev.01"])
def test_what_is_no_development_version_has_no_next_one(one):
    with pytest.raises(ValueError, match="by hand"):
        version.following(one, 5)


def test_a_release_has_the_version_that_its_development_versions_lead_to():
    assert version.released("1.0.0-dev.1415", "1.0.0") == "1.0.0"
    for old, new in (("1.0.0-dev.1415", "1.1.0"), ("1.0.0-dev.1415", ""), ("1.0.0", "1.0.0"), ("", "1.0.0")):
        with pytest.raises(ValueError, match="no development version of"):
            version.released(old, new)


def test_a_version_that_all_files_agree_with_is_right(clone):
    assert version.wrong(clone("1.0.0-dev.1200"), 1300) == []
    assert version.wrong(clone("1.0.0"), 5000) == []


def test_a_clone_that_is_far_behind_is_refused_with_the_command(clone):
    assert version.wrong(clone("1.0.0-dev.1200"), 1301) == [
        "galaxy.yml: 1.0.0-dev.1200 is 101 commits behind: tests/run version"
    ]
    assert version.wrong(clone("1.0.0-dev.1200"), None) == []


def test_each_file_that_disagrees_is_named(clone):
    found = version.wrong(clone("1.1.0-dev.3", image="1.1.0-dev.2"), 3)
    assert [sentence.split(":")[0].split(" ")[0] for sentence in found] == [
        "execution-environment.yml",
        *version.AGENTS,
    ]
    assert version.wrong(clone("latest"), 3) == ["galaxy.yml: the version latest is neither X.Y.Z nor X.Y.Z-dev.N"]


def test_every_plugin_came_with_this_version_or_an_earlier_one():
    """No plugin names a version that is still to come."""
    core = version.current(ROOT).split("-")[0]
    later = [
        f"{path.relative_to(ROOT)}: {found}"
        for folder in ("plugins", "roles")
        for path in sorted((ROOT / folder).rglob("*.*"))
        if path.suffix in (".py", ".yml")
        for found in re.findall(r"version_added: (\S+)", path.read_text("utf-8"))
        if [int(part) for part in found.split(".")] > [int(part) for part in core.split(".")]
    ]
    assert not later


def test_the_first_release_has_no_fixes_of_what_nobody_had():
    """Sections that compare with a release; from the first one on, fragments may have all."""
    if (ROOT / "changelogs" / "changelog.yaml").exists():
        return
    compared = ("bugfixes", "breaking_changes", "deprecated_features", "removed_features", "security_fixes")
    fragments = sorted((ROOT / "changelogs" / "fragments").glob("*.yml"))
    assert fragments
    assert {
        path.name: name for path in fragments for name in compared if name in yaml.safe_load(path.read_text("utf-8"))
    } == {}
