# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Key files: the decision, and what a text is worth (semaphore 3.3)."""

from __future__ import annotations

import base64

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.key_plan import (
    parse_key_desired,
    plan_key,
)
from ansible_collections.multicluster.network.plugins.module_utils._plan.plan import Pending
from ansible_collections.multicluster.network.plugins.module_utils._values.keys import decode_key_text
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

KEY = base64.b64encode(bytes(range(32))).decode()


@pytest.mark.parametrize("file", [KEY, KEY + "\n", KEY + "\r\n"])
def test_a_line_end_is_tolerated(file):
    assert decode_key_text(file) == bytes(range(32))


@pytest.mark.parametrize(
    "file",
    [KEY + "\r", KEY + "\n\n", " " + KEY, "", "unreadable", "c2hvcnQ=", KEY[:-1], base64.b64encode(bytes(32)).decode()],
)
def test_what_is_no_key(file):
    with pytest.raises(ValueRefused):
        decode_key_text(file)


def test_an_error_never_quotes_the_file():
    with pytest.raises(ValueRefused) as error:
        decode_key_text(KEY + "x")
    assert KEY[:8] not in str(error.value)


STATE = {"state": "key", "public_key": KEY, "mode": "0600", "message": None}


@pytest.mark.parametrize(
    "desired, found, work, action",
    [
        ({}, STATE, None, None),
        ({}, dict(STATE, mode="0644"), "ensure", "update"),
        ({}, dict(STATE, state="absent", public_key=None, mode=None), "ensure", "create"),
        ({"rotate_from": KEY}, STATE, "rotate", "update"),
        ({"rotate_from": base64.b64encode(b"x" * 32).decode()}, STATE, None, None),
        ({"state": "absent"}, STATE, "remove", "delete"),
        ({"state": "absent"}, dict(STATE, state="absent"), None, None),
    ],
)
def test_plan_key(desired, found, work, action):
    plan = plan_key(parse_key_desired(dict(desired, path="/k")), found)
    assert plan.work == work
    assert [change.action for change in plan.changes] == ([action] if action else [])
    if action == "create":
        assert isinstance(plan.public_key, Pending)


@pytest.mark.parametrize("state", ["present", "absent"])
def test_what_is_no_key_is_left_alone(state):
    found = {"state": "unusable", "public_key": None, "mode": None, "message": "it is a symbolic link"}
    plan = plan_key(parse_key_desired({"path": "/etc/passwd", "state": state}), found)
    assert plan.work is None and not plan.changed
    assert [refusal.reason for refusal in plan.refused] == ["bad_private_key"]
