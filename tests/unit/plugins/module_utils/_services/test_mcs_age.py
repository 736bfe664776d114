# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The age of an export is its cluster's claim: a time that no server can have given makes no member the oldest of all."""

from __future__ import annotations

import json
import pathlib

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._services.mcs.exports import _since

HOSTILE = json.loads(
    (pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "hostile" / "export_times.json").read_text("utf-8")
)


@pytest.mark.parametrize("stamp", HOSTILE["never"], ids=str)
def test_a_time_that_cannot_be_is_the_youngest(stamp):
    assert _since(stamp) > "2100"


@pytest.mark.parametrize("stamp", HOSTILE["possible"])
def test_a_time_that_can_be_is_kept(stamp):
    assert _since(stamp) == stamp
