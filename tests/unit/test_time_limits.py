# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A limit of 0 is no missing limit: every flow reports it."""

from __future__ import annotations

import pathlib
import re

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.clusters import seconds_of
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

PLUGINS = pathlib.Path(__file__).resolve().parents[2] / "plugins"
FLOWS = sorted((PLUGINS / "module_utils" / "_flows").rglob("*.py"))


@pytest.mark.parametrize("given", [0, 0.0, -1, "0", float("nan")])
def test_no_time_is_refused(given):
    with pytest.raises(ValueRefused, match="the option timeout is .* above 0"):
        seconds_of({"timeout": given})


def test_a_limit_that_nobody_wrote_is_the_default():
    assert seconds_of({}) == seconds_of({"timeout": None}) == 120.0 and seconds_of({"timeout": 0.5}) == 0.5
    assert seconds_of({}, "probe_timeout", 5.0) == 5.0


def test_no_flow_replaces_a_limit_of_nothing():
    found = [path.name for path in FLOWS if re.search(r'get\("(probe_)?timeout"\) or', path.read_text("utf-8"))]
    assert not found, "use seconds_of"
