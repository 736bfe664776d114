# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network plugins of Kubernetes, given by the folder in CNI; each file by its own name. One that is missing is reported and not passed."""

from __future__ import annotations

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "scenario"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lab"))

from cni_fabric import CniFabric

MISSING = {}
#: The exit code where nothing failed and a program was not there; tests/run counts on it.
NOT_RUN = 77


def pytest_addoption(parser):
    parser.addoption("--keep-lab", action="store_true", help="leave the lab running after the tests")


@pytest.fixture(scope="module")
def fabric(request):
    """The lab of one file: clusters in which pods have no network yet. NEEDS: files of the folder CNI."""
    given = os.environ.get("CNI", "")
    assert given and pathlib.Path(given).is_dir(), (
        f"CNI must name the folder of the programs, built elsewhere; it is {given!r}"
    )
    folder = pathlib.Path(given).resolve()
    missing = [name for name in request.module.NEEDS if not (folder / name).exists()]
    if missing:
        for name in missing:
            MISSING.setdefault(f"{name} is missing", set()).add(request.module.__name__)
        pytest.skip(f"NOT RUN: {', '.join(missing)} not in {given}")
    name = (
        os.environ.get("MCN_LAB_PREFIX", "")
        + "cni-"
        + request.module.__name__.replace("test_", "").replace("_", "-")[:10]
    )
    made = CniFabric(name, folder, request.module.TOPOLOGY)
    made.lab("down")
    try:
        made.begin()
        yield made
    finally:
        if not request.config.getoption("--keep-lab"):
            made.end()
            made.lab("down")


def not_run(what, module, reason):
    """Count a test as not run, with the reason; the run ends as where a program is missing."""
    MISSING.setdefault(f"{what}: {reason}", set()).add(module)
    pytest.skip(f"NOT RUN: {what}: {reason}")


def pytest_sessionfinish(session, exitstatus):
    """What was asked for and not run is no success: 77, as test programs report it."""
    if exitstatus == pytest.ExitCode.OK and MISSING:
        session.exitstatus = NOT_RUN


def pytest_terminal_summary(terminalreporter):
    for name, modules in sorted(MISSING.items()):
        terminalreporter.write_line(f"!!! NOT RUN: {name}, for {', '.join(sorted(modules))}", red=True)
