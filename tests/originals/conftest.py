# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of others, given by the folder in ORIGINALS; each by its own name. One that is missing is said and not passed."""

from __future__ import annotations

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "scenario"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lab"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "api"))

from api_server import ApiServer
from program import USER

MISSING = {}
#: The exit code where nothing failed and a program was not there; tests/run counts on it.
NOT_RUN = 77


def pytest_configure(config):
    config.addinivalue_line("markers", "kernel_wireguard: of the nodes of tests/kernel")


@pytest.fixture(scope="session")
def original():
    """find(NAME) -> the path of a program; where it is not there the test is counted as not run."""
    given = os.environ.get("ORIGINALS", "")
    assert given and pathlib.Path(given).is_dir(), (
        f"ORIGINALS must name the folder of the programs, built elsewhere; it is {given!r}"
    )

    def find(name):
        path = pathlib.Path(given).resolve() / name
        if not os.access(path, os.X_OK):
            test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
            MISSING.setdefault(name, set()).add(test)
            pytest.skip(f"NOT RUN: the program {name} is not in {given}")
        return path

    return find


def pytest_sessionfinish(session, exitstatus):
    """What was asked for and not run is no success: 77, as test programs say it."""
    if exitstatus == pytest.ExitCode.OK and MISSING:
        session.exitstatus = NOT_RUN


def pytest_terminal_summary(terminalreporter):
    for name, tests in sorted(MISSING.items()):
        terminalreporter.write_line(f"!!! NOT RUN: {name} is missing; {len(tests)} tests of it were not run", red=True)


@pytest.fixture(scope="session")
def recording():
    """Whether what the programs write is to be kept for the tests that run without them."""
    return bool(os.environ.get("RECORD"))


def started(tmp_path_factory, name, **more):
    one = ApiServer(tmp_path_factory.mktemp("apiserver-" + name), users=[USER], **more)
    one.start()
    return one


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A real API server in which a program of others has an account of its own, as tests/api has one without."""
    one = started(tmp_path_factory, "aws")
    yield one
    one.stop()


@pytest.fixture(scope="session")
def second(tmp_path_factory):
    """Another one."""
    one = started(tmp_path_factory, "gcp")
    yield one
    one.stop()
