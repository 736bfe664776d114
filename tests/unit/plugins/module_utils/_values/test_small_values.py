# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keys, names, numbers, JSON and selectors."""

from __future__ import annotations

import base64
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._values import selectors
from ansible_collections.multicluster.network.plugins.module_utils._values.keys import (
    fingerprint,
    is_weak,
    key_bytes,
    parse_key,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from ansible_collections.multicluster.network.plugins.module_utils._values.text import (
    check_interface_name,
    field,
    parse_cluster_name,
    parse_decimal,
    parse_json,
    parse_object,
    parse_port,
    parse_subdomain,
)
from hypothesis import given, strategies as st

ANY = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()


def reason_of(function: t.Callable[..., t.Any], *arguments: t.Any) -> str | None:
    try:
        function(*arguments)
    except ValueRefused as error:
        return error.reason
    return None


@given(st.binary(min_size=32, max_size=32))
def test_keys_round_trip(raw: bytes) -> None:
    text = base64.b64encode(raw).decode()
    assert key_bytes(parse_key(text)) == raw


@given(st.binary(max_size=40) | st.text(max_size=60))
def test_only_canonical_keys(data: t.Any) -> None:
    text = base64.b64encode(data).decode() if isinstance(data, bytes) else data
    try:
        raw = base64.b64decode(text, validate=True)
        good = len(raw) == 32 and base64.b64encode(raw).decode() == text
    except ValueError:
        good = False
    assert (reason_of(parse_key, text) is None) == good


@pytest.mark.parametrize("top_bit", [0, 0x80])
@pytest.mark.parametrize("start", [0, 1, 0xEC, 0xED, 0xEE])
def test_weak_keys(start: int, top_bit: int) -> None:
    middle = 0 if start < 2 else 0xFF
    raw = bytes([start] + [middle] * 30 + [(middle & 0x7F) | top_bit])
    assert is_weak(base64.b64encode(raw).decode())
    assert not is_weak(base64.b64encode(bytes([9] + [0] * 31)).decode())


def test_fingerprints_tell_apart_and_tell_nothing() -> None:
    first, second = fingerprint("secret"), fingerprint("secret2")
    assert first != second and first == fingerprint("secret") and "secret" not in first and len(first) == 19


@pytest.mark.parametrize("name", ["a", "gcp", "a-1", "a" * 63])
def test_cluster_names(name: str) -> None:
    assert parse_cluster_name(name) == name


@pytest.mark.parametrize("name", ["", "A", "1a", "-a", "a-", "a_b", "a.b", "a b", "a" * 64, "\u00e9", "a\n", None, 7])
def test_bad_cluster_names(name: t.Any) -> None:
    assert reason_of(parse_cluster_name, name) == "cluster_name_not_dns_label"


@pytest.mark.parametrize("name", ["", "a..b", ".a", "a.", "A", "a" * 64, "a." * 127 + "a", "a/b", "a\n", None])
def test_bad_subdomains(name: t.Any) -> None:
    assert reason_of(parse_subdomain, name) == "name_invalid"


@pytest.mark.parametrize(
    "name, expected",
    [
        ("wireguard.gcp", None),
        ("a" * 15, None),
        ("", "device_name_too_long"),
        ("a" * 16, "device_name_too_long"),
        ("\u00e9" * 8, "device_name_too_long"),
        ("aaaaaaaaaaaaaaaaa /", "device_name_too_long"),
        ("a /", "device_name_has_space"),
        ("a/:", "device_name_has_slash"),
        ("a:b", "device_name_invalid_char"),
        ("a\tb", "device_name_invalid_char"),
        ("a\nb", "device_name_invalid_char"),
        ("a\u00a0b", "device_name_invalid_char"),
        (".", "device_name_invalid_char"),
        ("..", "device_name_invalid_char"),
        ("\ud800", "device_name_invalid_char"),
        (None, "device_name_invalid_char"),
    ],
)
def test_interface_names(name: t.Any, expected: str | None) -> None:
    if name == "\ud800":
        assert reason_of(check_interface_name, name) in (None, expected)
    else:
        assert reason_of(check_interface_name, name) == expected


@given(st.integers(0, 10**19 - 1))
def test_decimals(number: int) -> None:
    assert parse_decimal(str(number)) == parse_decimal(number) == number
    assert (reason_of(parse_port, number) is None) == (1 <= number <= 65535)


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "+1", "-1", "01", "1_0", "1.0", "1e3", "\u0661", "0x1", "1" * 20, -1, True, None, 1.0]
)
def test_bad_decimals(text: t.Any) -> None:
    assert reason_of(parse_decimal, text) == "bad_number"


@given(ANY)
def test_parsers_refuse_and_never_break(value: t.Any) -> None:
    for parse in (parse_key, parse_cluster_name, parse_subdomain, check_interface_name, parse_decimal):
        reason_of(parse, value)
    reason_of(parse_json, value)
    reason_of(selectors.parse_selector, value)


@pytest.mark.parametrize(
    "text", ["", "{", "{} x", "NaN", '{"a": Infinity}', "{'a': 1}", "\ufeff{}", "[" * 100000, None, b"{}"]
)
def test_bad_json(text: t.Any) -> None:
    assert reason_of(parse_json, text) == "bad_json"


def test_objects_and_their_keys() -> None:
    values = parse_object('{"Name": "a", "NAME": "b", "n": null}')
    assert (field(values, "Name"), field(values, "name"), field(values, "N"), field(values, "absent")) == (
        "a",
        "b",
        None,
        None,
    )
    assert parse_object("null") == {} and field({"\u212a": 1}, "k") is None
    for wrong in ("[]", "1", '"x"', "false", "0", '""'):
        assert reason_of(parse_object, wrong) == "bad_json"


@pytest.mark.parametrize(
    "text, labels, expected",
    [
        ("", {}, True),
        ("a", {"a": ""}, True),
        ("a", {}, False),
        ("!a", {}, True),
        ("! a", {"a": "1"}, False),
        ("a=b", {"a": "b"}, True),
        ("a == b", {"a": "b"}, True),
        ("a!=b", {}, True),
        ("a!=b", {"a": "b"}, False),
        ("a=", {"a": ""}, True),
        ("a in (x, y)", {"a": "y"}, True),
        ("a in (x,)", {"a": ""}, True),
        ("a notin (x,y)", {}, True),
        ("a notin (x,y)", {"a": "x"}, False),
        ("a>3", {"a": "4"}, True),
        ("a<3", {"a": "4"}, False),
        ("a>3", {"a": "x"}, False),
        ("x.io/a=b,!c , d", {"x.io/a": "b", "d": "1"}, True),
        ("in", {"in": "1"}, True),
    ],
)
def test_selectors(text: str, labels: dict[str, str], expected: bool) -> None:
    assert selectors.matches(selectors.parse_selector(text), labels) is expected


@pytest.mark.parametrize(
    "text",
    [
        ",",
        "a,",
        ",a",
        "a=b=c",
        "a b",
        "=b",
        "a in x",
        "a in (x",
        "a in x)",
        "!",
        "a!b",
        "-a",
        "a=-",
        "a/b/c",
        "/a",
        "A/a",
        "a>x",
        "a=b c",
    ],
)
def test_bad_selectors(text: str) -> None:
    assert reason_of(selectors.parse_selector, text, "routing_label_syntax") == "routing_label_syntax"
