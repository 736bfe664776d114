# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scenarios run playbooks over a lab of their own: real API servers, real kernel, what a user would type."""

from __future__ import annotations

import os

import pytest
from harness import Fabric


def pytest_addoption(parser):
    parser.addoption("--keep-lab", action="store_true", help="leave the lab running after the tests")


@pytest.fixture(scope="module")
def fabric(request):
    """A lab of two clusters that the tests of one file share, in their order in the file.

    MCN_LAB_PREFIX keeps the labs of two runs apart on one machine.
    """
    name = os.environ.get("MCN_LAB_PREFIX", "sc-") + request.module.__name__.replace("test_", "").replace("_", "-")[:8]
    made = Fabric(name, topology=getattr(request.module, "TOPOLOGY", "two"))
    made.lab("down")
    kind = getattr(request.module, "PODS", None)
    made.lab("up", "--topology", made.topology, *(["--pods", kind] if kind else []))
    if getattr(request.module, "PROXIES", False):
        made.start_proxies()
    made.ran("lab up")
    yield made
    if not request.config.getoption("--keep-lab"):
        made.lab("down")
