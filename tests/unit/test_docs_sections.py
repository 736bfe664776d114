# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The index of the documentation as antsibull-docs writes it, and with sections for the sidebar."""

from __future__ import annotations

import importlib.util
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
INDEX = """\
.. _plugins_in_multicluster.network:

Multicluster.Network
====================

.. toctree::
    :maxdepth: 1

.. _changelog_section_for_multicluster.network:

Changelog
---------

.. toctree::
    :maxdepth: 1

    changelog

Start here
----------

.. toctree::
    :maxdepth: 1

    docsite/guide_start

Role Index
----------

These are the roles:

* one

.. toctree::
    :maxdepth: 1
    :hidden:

    mesh_role
"""


def load():
    spec = importlib.util.spec_from_file_location("sections", ROOT / "tests" / "docs" / "sections.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_list_of_pages_has_its_caption_and_the_changelog_is_last():
    text = load().with_sections(INDEX)
    captions = [line.split(": ")[1] for line in text.splitlines() if ":caption:" in line]
    assert captions == ["Start here", "Roles", "Changelog"]
    assert "Multicluster.Network" not in text and text.count(".. toctree::") == 3
    assert text.index("changelog\n") > text.index("mesh_role")
    for page in ("docsite/guide_start", "mesh_role", "    changelog"):
        assert text.count(page + "\n") == 1
