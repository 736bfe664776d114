# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node of a segment is given, by a play and by a node call."""

from __future__ import annotations

import json
import types

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.speakers.layer2 import follow, speaker
from ansible_collections.multicluster.network.plugins.module_utils._linux.daemons import command, keepalived
from ansible_collections.multicluster.network.plugins.module_utils._linux.host import lock
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

NODES = [{"name": "n1", "addresses": ["10.9.0.11"]}, {"name": "n2", "addresses": ["10.9.0.12"]}]
ONE, TWO = ({"network": f"10.9.0.{number}/32", "group": number, "health_ports": []} for number in (201, 202))
BEYOND = {"network": "192.0.2.1/32", "group": 3, "health_ports": []}
REQUEST = {
    "node": "n1",
    "nodes": NODES,
    "routes": [ONE],
    "node_health_port": 10256,
    "advert_interval": 0.3,
    "networks": ["192.0.2.0/24"],
    "left_out": "",
}


@pytest.fixture
def node(monkeypatch, tmp_path):
    """A node with keepalived installed and not started, every path of the collection in a folder of the test."""
    for name in ("STATE", "STATUS", "KEPT"):
        monkeypatch.setattr(follow, name, str(tmp_path / name.lower()))
        monkeypatch.setattr(speaker, name, str(tmp_path / name.lower()))
    for name in ("CODE", "UNIT", "FOLLOWER_UNIT", "UNFINISHED"):
        monkeypatch.setattr(speaker, name, str(tmp_path / name.lower()))
    for name in ("CONFIG", "LOADED"):
        monkeypatch.setattr(keepalived, name, str(tmp_path / name.lower()))
    monkeypatch.setattr(speaker, "UNOWNED", (str(tmp_path / "none"), str(tmp_path / "none")))
    monkeypatch.setattr(lock, "FOLDER", str(tmp_path.parent / (tmp_path.name + "-lock")))
    monkeypatch.setattr(keepalived, "program", lambda: "/bin/false")
    monkeypatch.setattr(keepalived, "check_config", lambda text: None)
    monkeypatch.setattr(command, "systemctl", lambda *words: False)
    links = [types.SimpleNamespace(name="up0", addresses=[types.SimpleNamespace(text="10.9.0.11/24")])]
    for module in (speaker, follow):
        monkeypatch.setattr(module, "read_links", lambda: links)
    return tmp_path


def state(node):
    return json.loads((node / "state").read_text())


def changed(result):
    return [change["id"].rsplit("/", 1)[-1] for change in result["plan"]["changes"]]


def test_a_node_call_changes_what_is_held_and_nothing_else(node):
    """A play's request after it finds only its own routes to change back, so nothing else was touched."""
    news = {"routes_only": True, "nodes": NODES, "routes": [ONE, TWO, BEYOND], "left_out": ""}
    with pytest.raises(ValueRefused) as caught:
        speaker.run(news)
    assert caught.value.reason == "no_speaker"
    with pytest.raises(ValueRefused, match="node and nodes"):
        speaker.run({"routes": [ONE]})
    assert sorted(changed(speaker.run(REQUEST))) == ["code", "config", "follower_unit", "state", "unit"]
    before, config = state(node), (node / "config").read_text()
    assert changed(speaker.run(dict(news, routes=[ONE]))) == []
    assert sorted(changed(speaker.run(news, check=True))) == ["config", "state"] and state(node) == before
    assert sorted(changed(speaker.run(news))) == ["config", "state"]
    assert state(node) == dict(before, routes=sorted([ONE, TWO, BEYOND], key=lambda row: row["network"]))
    assert "10.9.0.202" in (node / "config").read_text() and "192.0.2.1" in (node / "config").read_text()
    assert (
        sorted(changed(speaker.run(REQUEST))) == ["config", "state"]
        and state(node) == before
        and (node / "config").read_text() == config
    )


def test_a_node_call_reports_who_is_left_out_and_who_replaces(node):
    speaker.run(REQUEST)
    before = state(node)
    speaker.run({"routes_only": True, "nodes": NODES, "routes": [ONE], "left_out": "cordoned"})
    assert state(node) == dict(before, left_out="cordoned")
    more = [*NODES, {"name": "n3", "addresses": ["10.9.0.13"]}]
    speaker.run({"routes_only": True, "nodes": more, "routes": [ONE], "left_out": None})
    assert state(node) == dict(before, nodes=more) and "10.9.0.13" in (node / "config").read_text()


@pytest.mark.parametrize(
    ("news", "reason"),
    [
        ({"nodes": []}, "unknown_node"),
        ({"nodes": [NODES[1]]}, "unknown_node"),
        ({"routes": [dict(ONE, group=0)]}, "quota"),
        ({"routes": [ONE, dict(TWO, group=201, health_ports=[31000])]}, "conflict"),
    ],
)
def test_a_node_call_that_makes_no_sense_changes_nothing(node, news, reason):
    speaker.run(REQUEST)
    before = state(node), (node / "config").read_text()
    with pytest.raises(ValueRefused) as caught:
        speaker.run(dict({"routes_only": True, "nodes": NODES, "routes": [ONE], "left_out": ""}, **news))
    assert caught.value.reason == reason and (state(node), (node / "config").read_text()) == before


@pytest.mark.parametrize("text", ["", "{", "{}", '{"version": 1}', '{"version": 2, "networks": []}', "former"])
def test_a_node_call_does_not_build_on_a_state_of_another_owner_or_of_a_release_before(node, text):
    speaker.run(REQUEST)
    if text == "former":
        text = json.dumps({name: value for name, value in state(node).items() if name != "networks"})
    (node / "state").write_text(text)
    with pytest.raises((ValueRefused, ValueError, KeyError)):
        speaker.run({"routes_only": True, "nodes": NODES, "routes": [ONE, TWO], "left_out": ""})
    assert (node / "state").read_text() == text
