# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real Kilo agent on every node of a lab, given by its path in KG; kgctl alongside it is used where KGCTL names one."""

from __future__ import annotations

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "scenario"))

from agents import KiloFabric


@pytest.fixture(scope="session")
def programs():
    """(kg, kgctl or None). Without the agent there is nothing to run, and nothing that looks like a pass."""
    given = os.environ.get("KG", "")
    assert given and os.access(given, os.X_OK), f"KG must name the program kg of Kilo, built elsewhere; it is {given!r}"
    return pathlib.Path(given).resolve(), pathlib.Path(os.environ["KGCTL"]).resolve() if os.environ.get(
        "KGCTL"
    ) else None


@pytest.fixture(scope="module", params=["full", "location"])
def fabric(request, programs):
    """Two clusters with nodes that run the agent with one granularity; the node eu-0 has none yet."""
    made = KiloFabric(os.environ.get("MCN_LAB_PREFIX", "") + "kilo-" + request.param, request.param, programs)
    made.lab("down")
    made.lab("up", "--topology", made.topology)
    try:
        made.begin()
        yield made
    finally:
        made.keep_logs()
        made.lab("down")
