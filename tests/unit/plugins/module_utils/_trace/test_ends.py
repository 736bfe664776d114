# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a user may write for the two ends."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._trace import ends
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, strategies as st

LABEL = st.from_regex(r"\A[a-z]([a-z0-9-]{0,20}[a-z0-9])?\Z")
PORT = st.integers(1, 65535)


@pytest.mark.parametrize(
    ("text", "kind", "shown"),
    [
        ("any", "any", "any"),
        ("aws/node-1", "node", "aws/node-1"),
        ("gcp/sys-log/fluentd", "object", "gcp/sys-log/fluentd"),
        ("gcp/sys-log/svc/fluentd", "service", "gcp/sys-log/service/fluentd"),
        ("gcp/sys-log/Pod/fluentd-0", "pod", "gcp/sys-log/pod/fluentd-0"),
        ("gcp/sys-log/serviceimport/fluentd", "serviceimport", "gcp/sys-log/serviceimport/fluentd"),
        ("10.4.7.18", "address", "10.4.7.18"),
        ("10.4.7.18:80", "address", "10.4.7.18:80"),
        ("fd00::7", "address", "fd00::7"),
        ("[fd00::7]:80", "address", "[fd00::7]:80"),
        ("Fluentd.sys-log.svc.cluster.gcp", "name", "fluentd.sys-log.svc.cluster.gcp"),
        ("fluentd.sys-log.svc.clusterset.local.:8888", "name", "fluentd.sys-log.svc.clusterset.local.:8888"),
        ("fluentd", "name", "fluentd"),
    ],
)
def test_ends_are_what_they_say(text: str, kind: str, shown: str) -> None:
    found = ends.parse_end(text, "trace_to")
    assert (found.kind, str(found)) == (kind, shown)
    assert ends.parse_end(shown, "trace_to") == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        None,
        7,
        "a" * 301,
        "/",
        "aws/",
        "/x",
        "a/b/c/d/e",
        "aws/default/door/x",
        "aws/Default/x",
        "aws/../x",
        "10.4.7",
        "10.4.7.300",
        "10.4.7.18:0",
        "10.4.7.18:65536",
        "10.4.7.18:http",
        "fd00::7:80:",
        "a..b",
        "-",
        "x y",
        "x;reboot",
        "$(id)",
        "{{ x }}",
        "<b>",
        "x\ny",
        "aws/ns/x\n",
        "\u0660.1.1.1",
        "\u212a8s",
    ],
)
def test_what_is_no_end_is_refused_by_the_variables_name(text: t.Any) -> None:
    with pytest.raises(ValueRefused) as caught:
        ends.parse_end(text, "trace_to")
    assert (
        caught.value.reason == "trace_end_invalid"
        and "trace_to" in caught.value.message
        and "\n" not in caught.value.message
    )


@pytest.mark.parametrize(
    "text", ["10.2.3.4", "web.default", "aws/default/service/web", "aws/default/serviceimport/web"]
)
def test_packets_are_sent_from_pods_and_nodes_alone(text: str) -> None:
    with pytest.raises(ValueRefused, match="trace_from"):
        ends.parse_end(text, "trace_from")
    assert ends.parse_end("aws/default/web", "trace_from").kind == "pod"


@given(st.text(max_size=40))
def test_any_text_is_an_end_or_refused(text: str) -> None:
    try:
        found = ends.parse_end(text, "trace_to")
    except ValueRefused as error:
        assert error.reason == "trace_end_invalid"
        return
    assert str(found).isascii() and ends.parse_end(str(found), "trace_to") == found


@given(LABEL, LABEL, LABEL, st.sampled_from(["", "pod", "service", "serviceimport"]))
def test_objects_come_back_as_they_were(cluster: str, namespace: str, name: str, kind: str) -> None:
    text = "/".join(part for part in (cluster, namespace, kind, name) if part)
    found = ends.parse_end(text, "trace_to")
    assert (found.cluster, found.namespace, found.name, found.kind) == (cluster, namespace, name, kind or "object")


@given(st.ip_addresses(), st.one_of(st.none(), PORT))
def test_addresses_come_back_as_they_were(address: t.Any, port: int | None) -> None:
    found = ends.parse_end(str(ends.End("address", address=address, port=port)), "trace_to")
    assert (found.kind, found.address, found.port) == ("address", address, port)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, (None, "icmp", 0, False)),
        ({"port": 80}, (80, "tcp", 0, False)),
        ({"port": "80", "protocol": "udp", "family": "4"}, (80, "udp", 4, True)),
        ({"family": 6}, (None, "icmp", 6, False)),
        ({"protocol": "icmp", "family": "any"}, (None, "icmp", 0, True)),
    ],
)
def test_a_question_has_its_defaults(more: t.Mapping[str, t.Any], expected: t.Any) -> None:
    found = ends.parse_question("any", "any", **more)
    assert (found.port, found.protocol, found.family, found.given) == expected


@pytest.mark.parametrize(
    ("target", "more", "reason"),
    [
        ("10.4.7.18:80", {"port": 81}, "trace_port_twice"),
        ("any", {"port": 80, "protocol": "icmp"}, "trace_protocol_invalid"),
        ("any", {"protocol": "sctp", "port": 1}, "trace_protocol_invalid"),
        ("aws/node-1", {"protocol": "tcp"}, "trace_port_missing"),
        ("any", {"family": "5"}, "trace_family_invalid"),
        ("10.4.7.18", {"family": "6"}, "trace_family_invalid"),
        ("any", {"port": 70000}, "port_out_of_range"),
    ],
)
def test_what_does_not_fit_together_is_refused(target: str, more: t.Mapping[str, t.Any], reason: str) -> None:
    with pytest.raises(ValueRefused) as caught:
        ends.parse_question("any", target, **more)
    assert caught.value.reason == reason
