# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every document that a test here makes of facts is held against the schema."""

from __future__ import annotations

import pathlib
import sys

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._status import model

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))

import status_schema  # pylint: disable=wrong-import-position


@pytest.fixture(autouse=True)
def documents_follow_the_schema(monkeypatch):
    build = model.build

    def checked(facts):
        document = build(facts)
        assert status_schema.problems(document) == []
        return document

    monkeypatch.setattr(model, "build", checked)
