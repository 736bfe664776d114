# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What others announce through a discovery service, and what a node makes of it: hostile records, stolen ids, records that expire, two fabrics.

Most of it is part of tests/run discovery alone, with the double and with a service of others.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from conftest import SLOW, flow_environment
from test_kubespan import MESH, PODS, ULA
from test_kubespan_discovery import (  # pylint: disable=unused-import
    FOLDER,
    MEMBER,
    PROGRAM,
    joined_fixture,
    service_state,
)

__all__ = ["joined_fixture"]
pytestmark = pytest.mark.this_machine("the packages of gRPC")
UTILS = "ansible_collections.multicluster.network.plugins.module_utils"

#: Announces each of the rows that it reads: {id, affiliate, secret in hex, raw in hex, lifetime}.
ANNOUNCE = f"""
import json, os, sys
from {UTILS}._linux.host.discovery_service import Service
from {UTILS}._mesh.kubespan import sealing
from {UTILS}._mesh.kubespan.endpoints import parse_addr_port
ask = json.load(sys.stdin)
service = Service(ask["url"], ask["mesh_id"])
for row in ask["rows"]:
    secret = bytes.fromhex(row["secret"]) if row.get("secret") else bytes(range(1, 33))
    data = bytes.fromhex(row["raw"]) if row.get("raw") else sealing.seal_affiliate(secret, row["affiliate"], os.urandom(12))
    ends = [sealing.seal_endpoint(secret, parse_addr_port(text)) for text in row.get("affiliate", {{}}).get("endpoints", ())]
    service.announce(row["id"], data, ends, row.get("lifetime", 1800))
"""


def announce(joined, rows):
    """From a place of its own in the network, by somebody who has the secret, or has none."""
    asked = {"url": "http://127.0.0.1:3000", "mesh_id": MESH["mesh_id"], "rows": rows}
    words = joined.nodes["s"].command(sys.executable, "-c", ANNOUNCE)
    subprocess.run(words, input=json.dumps(asked), check=True, text=True, capture_output=True, env=flow_environment())


def key_of(number):
    """A public key of nobody."""
    import base64

    return base64.b64encode(bytes([number, *range(2, 33)])).decode("ascii")


def affiliate(number, node_id, **change):
    """One that holds, unless a change makes it another."""
    made = {
        "node_id": node_id,
        "nodename": node_id,
        "hostname": node_id,
        "machine_type": "worker",
        "operating_system": "Talos (v1.14.0)",
        "public_key": key_of(number),
        "kubespan_address": f"fd7a:6197:edb7:2302:5054:ff:feab:{number:x}",
        "addresses": [f"192.0.2.{number}"],
        "additional_addresses": [f"10.244.{number}.0/24"],
        "endpoints": [f"192.0.2.{number}:51820"],
    }
    return dict(made, **change)


#: What is announced -> the reason for which it is refused; kept: whether it is a peer all the same, without what was refused.
EVIL = {
    "everything": ({"additional_addresses": ["0.0.0.0/0", "::/0"]}, "outside_grant", False),
    "services": ({"additional_addresses": ["10.96.0.0/12"]}, "outside_grant", False),
    "otherpods": ({"additional_addresses": ["10.244.100.128/25"]}, "claimed_twice", False),
    "hostpods": ({"additional_addresses": [PODS["a"] + ".0/24"]}, "claimed_twice", False),
    "hostula": ({"kubespan_address": ULA["a"]}, "claimed_twice", False),
    "otherkey": ({"public_key": key_of(100)}, "claimed_twice", False),
    "weakkey": ({"public_key": "A" * 43 + "="}, "weak_key", False),
    "othermesh": ({"kubespan_address": "fd00::1"}, "outside_grant", False),
    "template": ({"nodename": "{{ lookup('pipe', 'id') }}"}, "name_invalid", False),
    "line": ({"hostname": "a\nfailed=0"}, "name_invalid", False),
    "apiserver": ({"addresses": ["203.0.113.5"]}, "outside_grant", True),
    "metadata": ({"endpoints": ["169.254.169.254:80"]}, "endpoint_special", True),
    "inside": ({"endpoints": ["10.244.100.5:51820"]}, "endpoint_in_overlay", True),
}


@pytest.mark.takes_long
def test_hostile_records_are_refused_by_name_and_the_rest_of_the_mesh_goes_on(joined, wait_for):
    """All at once, with one that holds, through the service: by the play, and by the watcher when they come later."""
    joined.serve()
    joined.run("a")
    rows = [{"id": "0good", "affiliate": affiliate(100, "0good")}]
    rows += [
        {"id": name, "affiliate": affiliate(101 + number, name, **change)}
        for number, (name, (change, dummy, dummy_kept)) in enumerate(sorted(EVIL.items()))
    ]
    rows += [
        {"id": "noise", "raw": "ff" * 200},
        {"id": "othersecret", "affiliate": affiliate(140, "othersecret"), "secret": "22" * 32},
        {"id": "liar", "affiliate": affiliate(141, "0good")},
    ]
    announce(joined, rows[:1])  # who was there first holds
    first = joined.run("a")
    assert first["kubespan"]["peers"] == 1 and not first["refused"], first["refused"]
    announce(joined, rows[1:])
    found = joined.run("a")
    reasons = {row["object"].partition("/")[2]: row["reason"] for row in found["refused"]}
    expected = {name: reason for name, (dummy, reason, dummy_kept) in EVIL.items()}
    assert reasons == dict(expected, noise="sealed_otherwise", othersecret="sealed_otherwise", liar="bad_record"), (
        reasons
    )
    kept = {name for name, (dummy, dummy_reason, stays) in EVIL.items() if stays}
    assert found["kubespan"]["peers"] == 1 + len(kept)
    allowed = dict(
        line.split("\t") for line in joined.nodes["a"].run("wg", "show", "kubespan", "allowed-ips").splitlines()
    )
    assert set(allowed[key_of(100)].split()) == {
        "10.244.100.0/24",
        "192.0.2.100/32",
        "fd7a:6197:edb7:2302:5054:ff:feab:64/128",
    }
    assert "0.0.0.0/0" not in " ".join(allowed.values()) and "203.0.113.5" not in " ".join(allowed.values())
    for row in found["refused"]:
        assert row["message"].isprintable() and "\n" not in row["message"]
    joined.watch("a")
    assert wait_for(lambda: service_state(joined.shown("a")) == "connected", 30 * SLOW)
    again = [row["reason"] for row in joined.shown("a")["discovery"]["refused"]]
    assert set(again) == set(reasons.values()) and len(joined.peers("a")) == 1 + len(kept)


@pytest.mark.takes_long
def test_a_record_that_expires_takes_its_peer_along(joined, wait_for):
    """By the service's own clock. A real one removes what is over once in a minute."""
    joined.serve()
    joined.run("a")
    joined.watch("a")
    assert wait_for(lambda: service_state(joined.shown("a")) == "connected", 30 * SLOW)
    announce(
        joined,
        [
            {"id": "short", "affiliate": affiliate(100, "short"), "lifetime": 5},
            {"id": "long", "affiliate": affiliate(101, "long")},
        ],
    )
    assert wait_for(lambda: {key_of(100), key_of(101)} <= set(joined.peers("a")), 20 * SLOW)
    assert wait_for(lambda: key_of(100) not in joined.peers("a"), 150 * SLOW)
    assert joined.peers("a") == [key_of(101)]


@pytest.mark.takes_long
def test_packages_that_a_host_lacks_are_named_and_nothing_is_written(joined, tmp_path, monkeypatch):
    """Of a host that has a discovery service; all others need none of them."""
    for name in ("grpc", "cryptography"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('none here')", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    asked = {"flow": UTILS + "._flows.node.dataplane", "arguments": [joined.wants["a"], False]}
    answer = joined.nodes["a"]._fresh_answer(asked)  # pylint: disable=protected-access  # a warm process has them already
    text = json.dumps(answer)
    assert "the discovery service needs python3-grpcio, python3-cryptography" in text, text[:2000]
    assert "apt install python3-grpcio python3-cryptography" in text and "pip install grpcio cryptography" in text
    assert "kubespan" not in joined.nodes["a"].run("ip", "-br", "link")
    plain = {name: value for name, value in joined.wants["a"]["kubespan"].items() if name != "discovery"}
    asked["arguments"] = [dict(joined.wants["a"], kubespan=plain), False]
    answer = joined.nodes["a"]._fresh_answer(asked)  # pylint: disable=protected-access
    assert "result" in answer, json.dumps(answer)[:2000]


#: Of a second mesh on the same hosts.
LAYOUT = {
    "device": "kubespan2",
    "port": 51821,
    "table_name": "talos_second",
    "mark_from_wireguard": 0x200,
    "mark_to_wireguard": 0x400,
    "route_table": 181,
    "rule_priority": 32600,
}


@pytest.mark.takes_long
def test_two_fabrics_on_one_host_have_a_service_each(joined, wait_for):
    """Each fabric's members come from its own service alone, and each has its watcher; neither mesh touches the other."""
    joined.serve()
    second = {name: json.loads(json.dumps(dict(joined.wants[name], fabric="second"))) for name in "ab"}
    for number, name in enumerate("ab"):
        url = f"http://198.51.100.{4 * number + 1}:3001"
        second[name]["kubespan"].update(
            mesh_id="another mesh",
            mesh_secret="AgIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=",
            layout=LAYOUT,
            pod_cidrs=[],
            config={},
            exclude_addresses=["198.51.100.0/24", "fd00::/8"],
            discovery=dict(joined.settings, url=url, pod_cidrs=[], node_cidrs=[]),
        )
    other = joined.serve(3001)
    for wants in (joined.wants, second):
        for name in "ab":
            found = joined.nodes[name].flow("dataplane", wants[name], False)
            assert {row["reason"] for row in found["refused"]} <= {"outside_grant"}, found["refused"]
    for name in "ab":
        joined.watch(name)
        joined.watch(name, fabric="second")

    def members(name, fabric):
        path = f"/var/lib/multicluster-network/{fabric}/kubespan-members.json"
        return set(json.loads(joined.nodes[name].run("cat", path))["members"])

    def peers(name, device):
        return joined.nodes[name].run("wg", "show", device, "peers").split()

    assert wait_for(
        lambda: all(peers(name, device) for name in "ab" for device in ("kubespan", "kubespan2")), 60 * SLOW
    ), {
        (name, fabric): (joined.shown(name, fabric), joined.nodes[name].run("wg"))
        for name in "ab"
        for fabric in ("mesh", "second")
    }
    for name in "ab":
        assert len(members(name, "mesh")) == len(members(name, "second")) == 1
        assert not members(name, "mesh") & members(name, "second")
        assert not set(peers(name, "kubespan")) & set(peers(name, "kubespan2"))
    text = joined.nodes["b"].run("ip", "-j", "address", "show", "kubespan2")
    there = next(row["local"] for row in json.loads(text)[0]["addr_info"] if not row["local"].startswith("fe80"))
    text = joined.nodes["a"].run("ip", "-j", "address", "show", "kubespan2")
    here = next(row["local"] for row in json.loads(text)[0]["addr_info"] if not row["local"].startswith("fe80"))
    assert wait_for(lambda: joined.ping(there, here) and joined.ping(ULA["b"], ULA["a"]), 30 * SLOW)
    # the one service goes away: the other fabric does not notice
    joined.stop(other)
    assert wait_for(lambda: service_state(joined.shown("a", "second")) == "away", 60 * SLOW)
    assert wait_for(lambda: service_state(joined.shown("a")) == "connected", 10 * SLOW)
    assert peers("a", "kubespan2") and joined.ping(ULA["b"], ULA["a"])


def test_a_stolen_id_and_records_that_expired_are_announced_again(joined, wait_for):
    """Somebody with the secret announces this node's id; then the service's clock jumps, as if an hour had passed; a real one loses its memory."""
    service = joined.serve()
    joined.run("a")
    joined.run("b")
    for name in "ab":
        joined.watch(name)
    assert wait_for(lambda: joined.peers("a") and joined.peers("b"), 40 * SLOW)
    ident = json.loads(joined.nodes["b"].run("cat", FOLDER + "/kubespan-identity.json"))["node_id"]
    mine = joined.peers("a")
    question = {
        "url": "http://127.0.0.1:3000",
        "mesh_id": MESH["mesh_id"],
        "affiliate": {"node_id": ident, "public_key": "PLPNBddmTgHJhtw0vxltq1ZBdPP9RNOEUd5JjJZzBRY=", "endpoints": []},
    }
    thief = joined.nodes["s"].command(sys.executable, "-c", MEMBER)
    subprocess.run(
        thief, input=json.dumps(question), check=True, text=True, capture_output=True, env=flow_environment()
    )

    def reasons():
        return {row["reason"] for row in (joined.shown("b").get("discovery") or {}).get("refused", ())}

    assert wait_for(lambda: "own_id" in reasons(), 20 * SLOW)
    assert wait_for(lambda: not reasons() and joined.peers("a") == mine, 60 * SLOW), (
        reasons(),
        joined.peers("a"),
        mine,
    )
    if PROGRAM:
        joined.stop(service)
        assert wait_for(lambda: service_state(joined.shown("a")) == "away", 60 * SLOW)
        joined.serve()
    else:
        joined.order(skew=3600)
        assert wait_for(lambda: not joined.peers("a") or not joined.peers("b"), 40 * SLOW)
    assert wait_for(lambda: joined.peers("a") == mine and joined.peers("b"), 90 * SLOW)
    assert wait_for(lambda: service_state(joined.shown("b")) == "connected", 90 * SLOW)
