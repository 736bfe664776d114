# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guide's page of playbooks and variables has what the playbooks and the table have."""

from __future__ import annotations

import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", name="generator")
def load_generator():
    spec = importlib.util.spec_from_file_location("playbooks_page", ROOT / "tests" / "docs" / "playbooks_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_in_step(generator):
    assert generator.PAGE.read_text("utf-8") == generator.page(), "run: tests/run playbooks_page"


def test_every_playbook_states_what_it_does(generator):
    for name in generator.playbooks():
        assert generator.about(name), name


def test_site_reads_what_its_parts_read(generator):
    assert {
        "multicluster_serial",
        "multicluster_capabilities",
        "multicluster_mesh",
        "multicluster_lock",
    } <= generator.variables("site")
    assert "awx_load_url" in generator.variables("awx.load") and "awx_load_url" not in generator.variables("site")


def test_the_top_has_at_most_twenty_playbooks(generator):
    """People's ones; the others are in folders."""
    assert len(list(generator.BOOKS.glob("*.yml"))) <= 20


def test_no_folder_has_the_name_of_a_playbook(generator):
    """Ansible takes the folder for the playbook then, and runs neither."""
    names = generator.playbooks()
    folders = {path.name for path in generator.BOOKS.iterdir() if path.is_dir()}
    assert not folders & set(names) and {"awx.load", "slices.plan", "kilo.migrate"} <= set(names)
