# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One lab for all tests of the Multi-Cluster Services API with real pods."""

from __future__ import annotations

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "scenario"))

from plane import Plane


def pytest_addoption(parser):
    parser.addoption("--keep-lab", action="store_true", help="leave the lab running after the tests")


@pytest.fixture(scope="session")
def plane(request):
    made = Plane(os.environ.get("MCN_LAB_PREFIX", "") + "mcs")
    made.lab("down")
    try:
        made.begin()
        yield made
    finally:
        made.rest()
        if not request.config.getoption("--keep-lab"):
            made.lab("down")
