# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The outside witness of the tests reads an audit log while an API server writes it."""

from __future__ import annotations

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "api"))
from api_server import ApiServer  # pylint: disable=wrong-import-position


def line(user, path):
    return (
        json.dumps(
            {
                "verb": "get",
                "requestURI": path + "?limit=1",
                "responseStatus": {"code": 200},
                "user": {"username": user},
            }
        )
        + "\n"
    )


def test_half_a_line_is_read_when_it_is_whole(tmp_path):
    server = ApiServer(tmp_path)
    assert server.audit(0) == []
    half = line("tester", "/b")
    with server.audit_file.open("w", encoding="utf-8") as log:
        log.write(line("tester", "/a") + line("another", "/x") + half[:20])
        log.flush()
        assert server.audit(0) == [("get", "/a", 200)]
        log.write(half[20:])
        log.flush()
        mark = server.mark()
        assert server.audit(0) == [("get", "/a", 200), ("get", "/b", 200)] and server.audit(0, "another") == [
            ("get", "/x", 200)
        ]
        assert server.audit(mark) == []
        log.write(line("tester", "/c"))
        log.flush()
    assert server.audit(mark) == [("get", "/c", 200)]
