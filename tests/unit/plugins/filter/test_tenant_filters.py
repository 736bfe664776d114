# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filters of tenant networks."""

from __future__ import annotations

import importlib
import re
import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from hypothesis import given, strategies as st

SOURCE = {"kind": "VirtualIP", "metadata": {"namespace": "team-a", "name": "vip-1", "uid": "u-1"}}
PART = st.text(st.characters(blacklist_characters="/", blacklist_categories=("Cs",)))


def use(name: str, *arguments: t.Any, **options: t.Any) -> t.Any:
    module = importlib.import_module("ansible_collections.multicluster.network.plugins.filter." + name)
    return module.FilterModule().filters()[name](*arguments, **options)


@pytest.mark.parametrize(
    "name, arguments, expected",
    [
        (
            "apinet_provider_id_parse",
            ("onmetal-api-net://ns/n/node-a/u",),
            {"namespace": "ns", "name": "n", "node": "node-a", "uid": "u"},
        ),
        (
            "apinet_provider_id_parse",
            ("ns/n/4711/u", "network"),
            {"namespace": "ns", "name": "n", "id": "4711", "uid": "u"},
        ),
        (
            "apinet_provider_id_parse",
            ("ironcore-net://ns/n/a/u", "network_interface", "ironcore"),
            {"namespace": "ns", "name": "n", "node": "a", "uid": "u"},
        ),
        (
            "apinet_provider_id_format",
            ({"namespace": "ns", "name": "n", "id": "4711", "uid": "u"},),
            "onmetal-api-net://ns/n/4711/u",
        ),
        ("apinet_provider_id_format", ({"node": "a"}, "ironcore"), "ironcore-net:////a/"),
        ("apinet_twin_name", (SOURCE,), "u-1"),
        (
            "apinet_link_labels",
            (SOURCE,),
            {
                "apinetlet.api.onmetal.de/virtualip-name": "vip-1",
                "apinetlet.api.onmetal.de/virtualip-uid": "u-1",
                "apinetlet.api.onmetal.de/virtualip-namespace": "team-a",
            },
        ),
        ("apinet_state", ("Ready",), "Available"),
        ("apinet_state", ("Error",), "Error"),
        ("apinet_state", (None,), "Pending"),
        ("apinet_state", ("else",), "Pending"),
    ],
)
def test_answers(name: str, arguments: t.Any, expected: t.Any) -> None:
    assert use(name, *arguments) == expected


@pytest.mark.parametrize(
    "name, arguments, reason",
    [
        ("apinet_provider_id_parse", ("a/b/c",), "segment_count"),
        ("apinet_provider_id_parse", (None,), "segment_count"),
        ("apinet_provider_id_parse", ("a/b/C/d",), "invalid_node"),
        ("apinet_provider_id_parse", ("a/b/c/d", "disk"), "kind"),
        ("apinet_provider_id_format", ("a/b/c/d",), "dictionary"),
        ("apinet_twin_name", ({},), "uid"),
        ("apinet_twin_name", (None,), "uid"),
        ("apinet_link_labels", ({"kind": "Pod"},), "Network"),
        ("apinet_link_labels", (SOURCE, None, "other"), "profile"),
    ],
)
def test_refusals_say_why(name: str, arguments: t.Any, reason: str) -> None:
    with pytest.raises(AnsibleFilterError, match=reason):
        use(name, *arguments)


@given(PART, PART, st.from_regex(re.compile(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", re.ASCII), fullmatch=True), PART)
def test_what_is_formatted_can_be_parsed(namespace: str, name: str, node: str, uid: str) -> None:
    parts = {"namespace": namespace, "name": name, "node": node, "uid": uid}
    assert use("apinet_provider_id_parse", use("apinet_provider_id_format", parts)) == parts


@given(st.one_of(st.text(), st.none(), st.integers(), st.lists(st.text())))
def test_any_input_is_parsed_or_refused(text: t.Any) -> None:
    for kind in ("network", "network_interface"):
        try:
            assert len(use("apinet_provider_id_parse", text, kind)) == 4
        except AnsibleFilterError as error:
            assert "[segment_count]" in str(error) or "[invalid_node]" in str(error)
