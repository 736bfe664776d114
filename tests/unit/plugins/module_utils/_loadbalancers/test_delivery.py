# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which node announces which address: what the cluster has of nodes and Services, and what a node's own ports answer."""

from __future__ import annotations

import contextlib
import socket
import threading

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._linux.daemons.health_ports import ask
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.bgp.routes import (
    EXCLUDE_LABEL,
    all_left_out,
    left_out,
    routes_of,
)
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.delivery import (
    SILENCE_SECONDS,
    Desired,
    heard,
    judge,
    parse_routes,
    trusted,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, strategies as st

LOCAL = Desired("203.0.113.1/32", (31234,))
ANY = Desired("203.0.113.2/32")
PROXY = 10256
NOW = 1764000000.0


def service(policy="Local", port=31234):
    return {"spec": {"externalTrafficPolicy": policy, "healthCheckNodePort": port}}


def node(ready="True", since="2025-11-24T15:00:00Z", labels=None, cordoned=False):
    conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": since}] if ready else []
    return {
        "metadata": {"labels": labels},
        "spec": {"unschedulable": True} if cordoned else {},
        "status": {"conditions": conditions},
    }


def test_only_services_of_the_policy_local_have_a_condition():
    objects = {
        "a/local": service(),
        "a/any": service("Cluster"),
        "a/old": service("Local", 0),
        "a/odd": service("Local", "31234"),
    }
    found = routes_of({key: (f"203.0.113.{number}/32",) for number, key in enumerate(objects)}, objects)
    assert [(row.services, row.health_ports) for row in found] == [
        (("a/local",), (31234,)),
        (("a/any",), ()),
        (("a/old",), ()),
        (("a/odd",), ()),
    ]


def test_who_shares_an_address_shares_its_conditions():
    found = routes_of(
        {"a/x": ("203.0.113.1/32",), "a/y": ("2001:db8::1/128", "203.0.113.1/32"), "a/z": ("203.0.113.1/32",)},
        {"a/x": service(port=31001), "a/y": service("Cluster"), "a/z": service(port=31000)},
    )
    assert [row.shown() for row in found] == [
        {"network": "2001:db8::1/128", "services": ["a/y"], "health_ports": []},
        {"network": "203.0.113.1/32", "services": ["a/x", "a/y", "a/z"], "health_ports": [31000, 31001]},
    ]


def test_nodes_that_are_left_out():
    nodes = {
        "a": node(),
        "b": node(labels={EXCLUDE_LABEL: ""}),
        "c": node(cordoned=True),
        "d": node("Unknown"),
        "e": node("False", "2025-11-24T15:59:59Z"),
    }
    assert left_out(nodes, False, 60, NOW) == {"b": "excluded", "d": "not_ready"}
    assert left_out(nodes, True, 60, NOW) == {"b": "excluded", "c": "cordoned", "d": "not_ready"}
    assert left_out(nodes, True, 0, NOW) == {"b": "excluded", "c": "cordoned"}
    # when nobody is ready it is the control plane that does not hear them
    assert left_out({"d": node("Unknown"), "b": nodes["b"]}, True, 60, NOW) == {"b": "excluded"}
    assert left_out({"d": node("Unknown", "nonsense"), "a": node()}, True, 60, NOW) == {}
    assert left_out({"d": node(""), "a": node()}, True, 60, NOW) == {}


def said(**answers):
    return {int(port[1:]): status for port, status in answers.items()}


def test_a_port_that_answers_no_counts_at_once_and_silence_after_a_while():
    memory = heard({}, said(p31234=200), 100.0)
    assert judge([LOCAL, ANY], memory, 0, False, 100.0) == (["203.0.113.1/32", "203.0.113.2/32"], {}, "")
    gone = heard(memory, said(p31234=503), 100.5)
    assert judge([LOCAL, ANY], gone, 0, False, 100.5)[0] == ["203.0.113.2/32"]
    unreachable = heard(memory, said(p31234=None), 101.0)
    assert judge([LOCAL], unreachable, 0, False, 100.0 + SILENCE_SECONDS)[0] == ["203.0.113.1/32"]
    announced, withheld, stopped = judge([LOCAL], unreachable, 0, False, 100.1 + SILENCE_SECONDS)
    assert announced == [] and "31234" in withheld["203.0.113.1/32"] and not stopped
    # silence after a no stays a no, and a port that never said anything is one, too
    assert (
        judge([LOCAL], heard(gone, said(p31234=None), 101.0), 0, False, 101.0)[0]
        == []
        == judge([LOCAL], {}, 0, False, 0.0)[0]
    )


def test_kube_proxy_counts_for_everything_once_it_has_answered():
    assert judge([ANY], {}, PROXY, False, 0.0)[0] == ["203.0.113.2/32"]
    assert judge([ANY], {}, PROXY, True, 0.0)[0] == []
    assert judge([ANY], heard({}, {PROXY: 503}, 0.0), PROXY, True, 0.0)[0] == []
    assert str(PROXY) in judge([ANY], heard({}, {PROXY: 503}, 0.0), PROXY, True, 0.0).stopped
    assert judge([ANY, LOCAL], heard({}, {PROXY: 200, 31234: 503}, 0.0), PROXY, True, 0.0)[0] == ["203.0.113.2/32"]


def test_a_follower_that_begins_believes_what_is_announced():
    memory = trusted({}, [LOCAL], PROXY, 50.0)
    assert judge([LOCAL], heard(memory, {31234: None, PROXY: None}, 50.5), PROXY, True, 50.5)[0] == ["203.0.113.1/32"]
    assert judge([LOCAL], heard(memory, {31234: 503, PROXY: 200}, 50.5), PROXY, True, 50.5)[0] == []


@given(st.lists(st.sampled_from([200, 503, None]), max_size=30), st.booleans())
def test_never_announced_after_a_no_until_a_yes(statuses, known):
    memory, last = {}, None
    for number, status in enumerate(statuses):
        memory = heard(memory, {31234: status, PROXY: 200}, number * 0.5)
        last = status if status is not None else last
        assert (judge([LOCAL], memory, PROXY, known, number * 0.5)[0] != []) <= (last == 200)


def test_routes_of_one_network_are_one():
    found = parse_routes(
        ["203.0.113.2"],
        [{"network": "203.0.113.1", "health_ports": [2, 1]}, {"network": "203.0.113.1/32", "health_ports": [3]}],
    )
    assert found == (Desired("203.0.113.1/32", (1, 2, 3)), Desired("203.0.113.2/32"))
    for wrong in (
        {"network": "0.0.0.0/0"},
        {"network": "203.0.113.1", "health_ports": [0]},
        {"network": "203.0.113.1", "health_ports": [65536]},
    ):
        with pytest.raises(ValueRefused):
            parse_routes([], [wrong])


@contextlib.contextmanager
def listener(*answers):
    """A port that gives one of these answers to each who asks, and then holds the line."""
    server, held = socket.create_server(("127.0.0.1", 0)), []

    def serve():
        for answer in answers:
            link, unused = server.accept()
            held.append(link)
            link.recv(1024)
            link.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        thread.join(10)
        for link in held:
            link.close()
        server.close()


def test_statuses_are_read_and_whatever_else_is_none():
    with (
        listener(b"HTTP/1.1 200 OK\r\n\r\n") as good,
        listener(b"HTTP/1.0 503 Service Unavailable\r\n") as bad,
        listener(b"HTT") as slow,
        listener(b"SSH-2.0-OpenSSH_9.2 200 \r\n" * 9) as other,
        socket.create_server(("127.0.0.1", 0)) as free,
    ):
        closed = free.getsockname()[1]
        free.close()
        ports = {"good": good, "bad": bad, "slow": slow, "other": other, "closed": closed}
        found = ask([("127.0.0.1", port) for port in ports.values()], 1.0)
    assert {name: found[("127.0.0.1", port)] for name, port in ports.items()} == {
        "good": 200,
        "bad": 503,
        "slow": None,
        "other": None,
        "closed": None,
    }


def test_nobody_is_left():
    assert (
        all_left_out(["a", "b"], {"a": "cordoned", "c": "excluded"})
        == ""
        == all_left_out(None, {"a": "cordoned"})
        == all_left_out([], {})
    )
    assert "a (cordoned), b (excluded)" in all_left_out(["b", "a"], {"a": "cordoned", "b": "excluded"})
