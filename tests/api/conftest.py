# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The API server of the tests of this folder."""

from __future__ import annotations

import typing as t

import pytest
from api_server import ApiServer
from tenant_servers import lab, tenant, tenant_sides  # pylint: disable=unused-import

__all__ = ["lab", "tenant", "tenant_sides"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "takes_long: runs in `tests/run api_long`; `make test` has a shorter one")


@pytest.fixture(scope="session")
def server(tmp_path_factory: t.Any) -> t.Iterator[ApiServer]:
    """One API server for the whole session; tests use objects of their own names."""
    one = ApiServer(tmp_path_factory.mktemp("apiserver"))
    try:
        one.start()
        yield one
    finally:
        one.stop()
