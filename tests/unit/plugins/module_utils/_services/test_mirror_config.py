# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Prefixes and zones of the service mirror: what of them cannot be."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._services import mirror_config


@pytest.mark.parametrize(
    "prefixes, words",
    [
        (["c2", "c3", ""], []),
        (["gl"], ["reserved_service_prefix"]),
        (["cluster-A"], ["service_prefix_invalid"]),
        (["1c"], ["service_prefix_invalid"]),
        (["c2", "c3", "c2"], ["duplicate_service_prefix"]),
        (["gl", "gl"], ["reserved_service_prefix", "reserved_service_prefix", "duplicate_service_prefix"]),
    ],
)
def test_prefixes(prefixes: t.List[str], words: t.List[str]) -> None:
    assert [problem.reason for problem in mirror_config.prefix_problems([{"servicePrefix": prefix} for prefix in prefixes])] == words


def test_zones() -> None:
    assert not list(mirror_config.zone_problems(["z"] * 8))
    assert [problem.reason for problem in mirror_config.zone_problems(["z"] * 9)] == ["too_many_zones"]
