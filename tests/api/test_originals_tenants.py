# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A tenant as apinetlet wrote it: taken over, changed in every way, given back, and what upstream applies then changes nothing."""

from __future__ import annotations

from recorded_tenant import Recorded
from tenants_life import live, put_nodes

PREFIXES = ["198.18.0.0/16"]


def test_taken_over_changed_and_given_back(lab):
    put_nodes(lab)
    live(lab, Recorded(lab, "apinetlet", PREFIXES))
