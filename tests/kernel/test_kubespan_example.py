# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The worked example of kubespan 20, through the flow that the play runs: what the tools print on node alpha, to the letter."""

from __future__ import annotations

import pathlib

import pytest
from test_kubespan import MESH

PRINTED = pathlib.Path(__file__).with_name("talos_kubespan.nft").read_text("utf-8")
RULE = "32500:\tfrom all fwmark 0x40/0x60 lookup 180 proto static"
BETA, GAMMA = "83/SBv4fNR1O0TsSG4Wzo3dXmLAQbYOc13H8cHlSnxs=", "TG9yVFi34isQO2aGdCKIVQTMbwk1rqUdaYkFqqe0+m8="


def announced(ident, name, key, address, addresses, pods, *endpoints):
    return {
        "node_id": ident,
        "cluster": "c",
        "node": name,
        "nodename": name,
        "public_key": key,
        "kubespan_address": address,
        "addresses": addresses,
        "additional_addresses": [pods],
        "endpoints": list(endpoints),
    }


AFFILIATES = [
    announced(
        "5beta", "beta", BETA, "fd7a:6197:edb7:2302:5054:ff:feaa:2", ["192.0.2.12"], "10.244.2.0/24", "192.0.2.12:51820"
    ),
    announced(
        "9gamma",
        "gamma",
        GAMMA,
        "fd7a:6197:edb7:2302:42:acff:fe14:d",
        ["10.20.0.13", "2001:db8:9::13"],
        "10.244.3.0/24",
        "10.20.0.13:51820",
        "[2001:db8:9::13]:51820",
        "198.51.100.77:51999",
    ),
]


def lines(text):
    return [line.rstrip() for line in text.splitlines() if line.strip()]


@pytest.fixture(name="alpha")
def alpha_fixture(node, implementation):
    for folder in ("/var/lib", "/usr/local/lib", "/etc/systemd/system"):
        node.run("mount", "-t", "tmpfs", "tmpfs", folder)
    node.run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "other")
    node.run("ip", "address", "add", "192.0.2.11/24", "dev", "eth0")
    for end in ("eth0", "other"):
        node.run("ip", "link", "set", end, "up")
    node.run("ip", "route", "add", "default", "via", "192.0.2.1")

    def converge(**change):
        given = dict(
            MESH,
            cluster="c",
            node_name="alpha",
            mac="52:54:00:aa:00:01",
            affiliates=AFFILIATES,
            complete=True,
            cluster_networks=["10.244.0.0/16"],
            pod_cidrs=["10.244.1.0/24"],
            config={"advertiseKubernetesNetworks": True},
            implementation=implementation,
            watcher=False,
        )
        desired = {
            "fabric": "mesh",
            "persist": True,
            "max_deletes": None,
            "devices": [],
            "kubespan": dict(given, **change),
        }
        return node.flow("dataplane", desired, False)

    node.converge = converge
    return node


def test_what_the_tools_print(alpha):
    made = alpha.converge()
    assert not made["refused"] and made["kubespan"]["peers"] == 2, made
    assert alpha.run("nft", "list", "ruleset") == PRINTED
    # on a host of its own there is nothing else, so whole listings are compared
    assert lines(alpha.run("ip", "rule")) == [
        "0:\tfrom all lookup local",
        RULE,
        "32766:\tfrom all lookup main",
        "32767:\tfrom all lookup default",
    ]
    assert lines(alpha.run("ip", "-6", "rule")) == ["0:\tfrom all lookup local", RULE, "32766:\tfrom all lookup main"]
    assert lines(alpha.run("ip", "route", "show", "table", "180")) == [
        "default dev kubespan proto static metric 1 mtu 1420",
        "unreachable default proto static metric 4278198272",
    ]
    assert lines(alpha.run("ip", "-6", "route", "show", "table", "180")) == [
        "default dev kubespan proto static metric 1 mtu 1420 pref medium",
        "unreachable default dev lo proto static metric 4278198272 pref medium",
    ]
    shown = alpha.run("ip", "address", "show", "kubespan")
    assert (
        "inet6 fd7a:6197:edb7:2302:5054:ff:feaa:1/64 scope global" in shown
        and "mtu 1420" in shown
        and "inet " not in shown
    )
    rows = [line.split("\t") for line in alpha.run("wg", "show", "kubespan", "dump").splitlines()]
    assert rows[0][2:] == ["51820", "0x20"]
    peers = {row[0]: (sorted(row[3].split(",")), row[2], row[7]) for row in rows[1:]}
    assert peers == {
        BETA: (["10.244.2.0/24", "192.0.2.12/32", "fd7a:6197:edb7:2302:5054:ff:feaa:2/128"], "192.0.2.12:51820", "25"),
        GAMMA: (
            ["10.20.0.13/32", "10.244.3.0/24", "2001:db8:9::13/128", "fd7a:6197:edb7:2302:42:acff:fe14:d/128"],
            "10.20.0.13:51820",
            "25",
        ),
    }
    for mark, way in (
        ("0x40", "kubespan table 180"),
        ("0xf40", "kubespan table 180"),
        ("0x4040", "kubespan table 180"),
        ("0x10040", "kubespan table 180"),
        ("0", "eth0"),
        ("0x20", "eth0"),
        ("0x60", "eth0"),
    ):
        assert " dev " + way in alpha.run("ip", "route", "get", "10.244.3.9", "mark", mark), mark
    assert "dev lo" in alpha.run("ip", "route", "get", "192.0.2.11", "mark", "0x40")


def test_the_table_of_routes_without_failing_closed(alpha):
    alpha.converge(fail_closed=False)
    assert lines(alpha.run("ip", "route", "show", "table", "180")) == [
        "default dev kubespan proto static metric 1 mtu 1420"
    ]
    assert lines(alpha.run("ip", "-6", "route", "show", "table", "180")) == [
        "default dev kubespan proto static metric 1 mtu 1420 pref medium"
    ]


def test_what_the_first_release_prints(alpha):
    """Sets with the addresses of the mesh, no clamp, no exception of lo."""
    alpha.converge(generation="v1.3", fail_closed=False)
    text = alpha.run("nft", "list", "ruleset")
    assert "maxseg" not in text and "oifname" not in text
    assert "fd7a:6197:edb7:2302:42:acff:fe14:d,\n\t\t\t     fd7a:6197:edb7:2302:5054:ff:feaa:2 }" in text
