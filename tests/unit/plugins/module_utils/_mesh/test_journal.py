# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Journals and states as a full disk, a power cut or a hostile hand leaves them: refused by name, never a traceback."""

from __future__ import annotations

import copy
import json
import pathlib

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.journal import (
    is_plain_path,
    is_state,
    parse_journal,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, strategies as st

CODE = "/usr/local/lib/multicluster-network/mesh"
FOUND = json.loads((pathlib.Path(__file__).parents[4] / "fixtures" / "hostile" / "journals.json").read_text())
GOOD = FOUND["good"]
STATE = {
    "fabric": "mesh",
    "format": 1,
    "key_files": ["/var/lib/wg/key"],
    "devices": [{"name": "wireguard.b", "private_key_file": "/var/lib/wg/key", "peers": [{"public_key": "k"}]}],
}
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


def places(value, path=()):
    """Every place in a tree."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in inner:
        yield from places(entry, (*path, key))


def changed(value, path, entry):
    if not path:
        return entry
    made = copy.deepcopy(value)
    place = made
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = entry
    return made


def test_a_journal_of_format_1_is_read():
    assert parse_journal(GOOD, "mesh", CODE) == GOOD
    former = {key: value for key, value in GOOD.items() if key not in ("armed_at", "tables", "leaving")}
    assert parse_journal(former, "mesh", CODE) == former
    assert parse_journal(dict(GOOD, code=CODE + "/dataplane-0123456789ab.pyz"), "mesh", CODE)["code"]


@pytest.mark.parametrize("row", FOUND["journals"], ids=lambda row: row["name"])
def test_a_journal_that_is_none_is_refused_by_name(row):
    try:
        content = json.loads(row["text"])
    except (ValueError, RecursionError):
        assert row["says"] == "not JSON"
        return
    with pytest.raises(ValueRefused, match="journal_invalid") as refused:
        parse_journal(content, "mesh", CODE)
    assert row["says"] in str(refused.value)


@given(st.data())
def test_whatever_one_part_of_a_journal_is_it_is_read_or_refused(data):
    path = data.draw(st.sampled_from(sorted(places(GOOD), key=repr)))
    made = changed(GOOD, path, data.draw(anything))
    try:
        assert parse_journal(made, "mesh", CODE) is made
    except ValueRefused as refused:
        assert refused.reason == "journal_invalid" and "PRIVATE" not in refused.message and len(refused.message) < 1000


@given(anything)
def test_whatever_else_is_no_journal(content):
    with pytest.raises(ValueRefused):
        parse_journal(content, "mesh", CODE)


def test_a_secret_is_never_in_the_reason():
    device = copy.deepcopy(GOOD["devices"]["wireguard.b"])
    device["secrets"]["private_key"] = "PRIVATE KEY\n"
    with pytest.raises(ValueRefused) as refused:
        parse_journal(dict(GOOD, devices={"wireguard.b": device}), "mesh", CODE)
    assert "PRIVATE" not in str(refused.value)


@given(st.data())
def test_whatever_one_part_of_a_state_is_it_is_a_state_or_none(data):
    path = data.draw(st.sampled_from(sorted(places(STATE), key=repr)))
    assert is_state(changed(STATE, path, data.draw(anything)), "mesh") in (True, False)


def test_states_of_format_1_are_read_and_others_are_none():
    assert is_state(STATE, "mesh") and not is_state(STATE, "other") and not is_state(dict(STATE, format=2), "mesh")
    assert not is_state(dict(STATE, devices=5), "mesh") and not is_state(dict(STATE, key_files=["../x"]), "mesh")
    assert not is_state(dict(STATE, kubespan={"peers": None}), "mesh") and not is_state(dict(STATE, tables={}), "mesh")


@pytest.mark.parametrize(
    "path, plain",
    [("/a/b", True), ("/a//b", True), ("/a/../b", False), ("a", False), ("/a/", False), ("/", False), (None, False)],
)
def test_a_path_without_a_way_up(path, plain):
    assert is_plain_path(path) is plain
