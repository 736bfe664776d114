# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names of mirrors, and who keeps a shared one."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._services import names
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, strategies as st

PREFIX = st.from_regex(r"\A[a-z]([a-z0-9-]{0,20}[a-z0-9])?\Z")
LABEL = st.from_regex(r"\A[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?\Z")


@pytest.mark.parametrize(
    ("prefix", "namespace", "name", "expected", "reason"),
    [
        ("aws", "sys-log", "fluentd", "aws-sys-log-73736d-fluentd", None),
        ("cluster-1", "kube-system", "coredns", "cluster-1-kube-system-73736d-coredns", None),
        ("aws", "n" * 20, "s" * 31, "aws-" + "n" * 20 + "-73736d-" + "s" * 31, None),
        ("aws", "n" * 20, "s" * 32, "aws-" + "n" * 20 + "-73736d-" + "s" * 32, "name_too_long"),
        ("aws", "default", "1web", "aws-default-73736d-1web", None),
        ("gl", "2shop", "1", "gl-2shop-73736d-1", None),
        ("1aws", "default", "web", "1aws-default-73736d-web", "name_invalid"),
        ("aws", "default", "Web", "aws-default-73736d-Web", "name_invalid"),
        ("aws", "default", "*", "aws-default-73736d-*", "name_invalid"),
        ("aws", "a.b", "web", "aws-a.b-73736d-web", "name_invalid"),
        ("aws", "default", "web\n", "aws-default-73736d-web\n", "name_invalid"),
        ("aws", "default", "", "aws-default-73736d-", "name_invalid"),
    ],
)
def test_mirror_names(prefix, namespace, name, expected, reason):
    made = names.mirror_name(prefix, namespace, name)
    assert (made.name, made.reason) == (expected, reason)
    if reason:
        with pytest.raises(ValueRefused, match=reason):
            made.checked()
    else:
        assert made.checked() == expected


@pytest.mark.parametrize(
    "text, valid",
    [
        ("aws-default-73736d-1web", True),
        ("a" * 63, True),
        ("a" * 64, False),
        ("1a", False),
        ("-a", False),
        ("A", False),
        ("a.b", False),
        ("", False),
    ],
)
def test_built_texts_by_themselves(text, valid):
    assert names.is_service_name(text) == valid and names.may_name_service(text) == (valid or text == "1a")
    assert names.is_object_name(text) == (text not in ("", "-a", "A"))
    assert not names.is_object_name("a" * 254)


def test_global_names():
    assert names.separator("ssm") == names.SEPARATOR
    assert names.global_name("n" * 26, "s" * 26).valid and not names.global_name("n" * 26, "s" * 27).valid
    assert names.global_slice_name("s" * 250).valid and names.global_slice_name("s" * 251).reason == "name_too_long"
    assert names.global_slice_name("a.b-c").valid and names.global_slice_name("-a").reason == "name_invalid"


@given(PREFIX, LABEL, LABEL)
def test_a_valid_name_is_what_every_api_server_takes(prefix, namespace, name):
    made = names.mirror_name(prefix, namespace, name)
    assert made.valid == (len(made.name) <= 63)
    assert made.name[0].isalpha()  # releases before 1.36 want that, and a Service's own name no longer has it


def test_collisions_are_found_and_settled():
    sources = [
        ("aws", "2-web", "api"),
        ("aws-2", "web", "api"),
        ("aws", "a-73736d-b", "c"),
        ("aws", "a", "b-73736d-c"),
        ("aws", "x", "y"),
    ]
    found = names.collisions((names.mirror_name(*source).name, source) for source in sources)
    assert found == {
        "aws-2-web-73736d-api": [("aws", "2-web", "api"), ("aws-2", "web", "api")],
        "aws-a-73736d-b-73736d-c": [("aws", "a", "b-73736d-c"), ("aws", "a-73736d-b", "c")],
    }
    pair = found["aws-2-web-73736d-api"]
    assert names.name_holder(pair, []) == pair[0]
    assert names.name_holder(pair, pair[1:]) == pair[1]
    assert names.collisions([("a", 1), ("a", 1)]) == {}


@pytest.mark.parametrize(
    "prefixes, reason",
    [
        (["c2", "c3", ""], None),
        (["gl"], "reserved_service_prefix"),
        (["cluster-A"], "service_prefix_invalid"),
        (["1c"], "service_prefix_invalid"),
        (["c2", "c3", "c2"], "duplicate_service_prefix"),
        (["", ""], None),
    ],
)
def test_prefixes(prefixes, reason):
    try:
        names.check_prefixes(prefixes)
    except ValueRefused as error:
        assert error.reason == reason
    else:
        assert reason is None
