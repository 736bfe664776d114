# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random changes of one fabric after another: real packets before, during and after each run agree with what check mode shows of pairs and gaps.

Each case begins with what the one before it left. Settings: what_if_lab.
"""

from __future__ import annotations

import pytest
from what_if_lab import CASES, FIRST, Case, agrees, changing


@pytest.fixture(scope="module")
def cases(fabric):
    with changing(fabric) as made:
        yield made


@pytest.mark.parametrize("number", range(FIRST, FIRST + CASES))
def test_packets_agree_with_what_was_said(cases, number, tmp_path):
    agrees(cases, Case(number, cases.state, cases.nodes, cases.addresses), tmp_path)
