# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node's speaker is given: the same request gives the same state, and no secret is shown."""

from __future__ import annotations

import errno
import json
import os
import pathlib
import socket

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.speakers.bgp import (
    follow as speaker_follow,
    speaker as bgp_speaker,
)
from ansible_collections.multicluster.network.plugins.module_utils._linux.daemons import bird, command, frr
from ansible_collections.multicluster.network.plugins.module_utils._linux.files import FileState
from ansible_collections.multicluster.network.plugins.module_utils._linux.host import lock
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.bgp.speaker import Neighbour
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

SECRET = "a-password-of-a-session"
ROUTER = {
    "address": "10.66.23.1",
    "asn": 65530,
    "password": None,
    "password_file": None,
    "multihop": 0,
    "ttl_security": 0,
    "bfd": False,
}
REQUEST = {
    "asn": 65000,
    "source_ip": "10.66.23.31",
    "neighbors": [ROUTER],
    "prefixes": ["203.0.113.9"],
    "node_health_port": 10256,
    "routes": [{"network": "203.0.113.1/32", "health_ports": [31234], "services": ["default/web"]}],
}


@pytest.fixture
def node(monkeypatch, tmp_path):
    """A node with both daemons installed that runs neither, every path of the collection in a folder of the test."""
    for name in ("STATE", "STATUS", "KEPT"):
        monkeypatch.setattr(speaker_follow, name, str(tmp_path / name.lower()))
        monkeypatch.setattr(bgp_speaker, name, str(tmp_path / name.lower()))
    for name in ("CODE", "UNIT", "FOLLOWER_UNIT", "FORMER", "UNFINISHED"):
        monkeypatch.setattr(bgp_speaker, name, str(tmp_path / name.lower()))
    monkeypatch.setattr(bgp_speaker, "UNOWNED", ())
    monkeypatch.setattr(lock, "FOLDER", str(tmp_path.parent / (tmp_path.name + "-lock")))
    for module in (frr, bird):
        monkeypatch.setattr(module, "programs", lambda: ("/bin/false", "/bin/false"))
    for daemon in speaker_follow.DAEMONS.values():
        monkeypatch.setattr(daemon, "group", lambda: 0)
        monkeypatch.setattr(daemon, "check_config", lambda text, secrets: None)
        monkeypatch.setattr(daemon, "sessions", dict)
    monkeypatch.setattr(command, "systemctl", lambda *words: False)
    return tmp_path


def test_a_password_may_be_in_a_file_of_the_node(tmp_path):
    (tmp_path / "secret").write_text(SECRET + "\n")
    given = bgp_speaker._given(dict(REQUEST, neighbors=[dict(ROUTER, password_file=str(tmp_path / "secret"))]))
    assert given["neighbors"][0]["password"] == SECRET and "password_file" not in given["neighbors"][0]
    with pytest.raises(ValueRefused) as caught:
        bgp_speaker._given(dict(REQUEST, neighbors=[dict(ROUTER, password_file=str(tmp_path / "none"))]))
    assert caught.value.reason == "bad_setting" and "bgp_speaker_neighbors" in caught.value.message


def test_what_the_follower_reads_is_what_was_asked():
    state = speaker_follow.parse_state(json.dumps(bgp_speaker._given(REQUEST)))
    assert [(route.network, route.health_ports) for route in state.routes] == [
        ("203.0.113.1/32", (31234,)),
        ("203.0.113.9/32", ()),
    ]
    assert state.node_port == 10256 and state.conditional == {"203.0.113.1/32"} and state.daemon == "frr"
    assert (
        speaker_follow.parse_state(json.dumps(bgp_speaker._given(dict(REQUEST, routes=REQUEST["routes"] * 2)))).routes
        == state.routes
    )
    for text in ("{}", "[]", '{"version": 2}', json.dumps(dict(bgp_speaker._given(REQUEST), daemon="quagga"))):
        with pytest.raises(ValueError, match="no state"):
            speaker_follow.parse_state(text)


@pytest.mark.parametrize("daemon", ["frr", "bird"])
def test_a_check_shows_the_conditions_and_no_secret(node, daemon):
    request = dict(REQUEST, daemon=daemon, neighbors=[dict(ROUTER, password=SECRET)])
    result = bgp_speaker.run(request, check=True)
    text = json.dumps(result)
    assert SECRET not in text and "203.0.113.1/32 while port 31234" in text and result["plan"]["create"] == 4
    assert list(node.iterdir()) == []


def test_a_former_release_leaves_no_file(node):
    (node / "former").write_text("! an older configuration\n")
    plan = bgp_speaker.run(REQUEST, check=True)["plan"]
    assert plan["delete"] == 1 and (node / "former").exists()


def test_absent_takes_everything(node, monkeypatch):
    for name in ("state", "code", "unit", "follower_unit", "former", "kept", "status"):
        (node / name).write_text("x")
    monkeypatch.setattr(bgp_speaker.systemd, "retire", lambda unit: None)
    monkeypatch.setattr(bgp_speaker.systemd, "reload_units", lambda: False)
    monkeypatch.setattr(frr, "forget_everything", lambda: None)
    assert bgp_speaker.run({"state": "absent"}, check=True)["plan"]["delete"] == 5
    assert len(list(node.iterdir())) == 7
    bgp_speaker.run({"state": "absent"})
    assert not node.exists() or list(node.iterdir()) == []


class Killed(BaseException):
    """As SIGKILL: no code of the collection catches it."""


@pytest.fixture
def booted(node, monkeypatch):
    """The same node, with an init that starts what it is asked to; gives the commands."""
    words = []
    monkeypatch.setattr(command, "systemctl", lambda *command: words.append(command) or True)
    monkeypatch.setattr(bgp_speaker.systemd, "running", lambda: True)
    monkeypatch.setattr(bgp_speaker.systemd, "reload_units", lambda: True)
    monkeypatch.setattr(bgp_speaker, "_wait_until_followed", lambda state, seconds: None)
    monkeypatch.setattr(bgp_speaker, "_wait_for", lambda stood, seconds: None)
    return words


@pytest.mark.parametrize("where", ["_start", "_wait_until_followed"])
def test_what_a_killed_run_wrote_is_started_by_the_next_one(node, booted, monkeypatch, where):
    """Its files are as the next run wants them, and what runs is of before."""
    real = getattr(bgp_speaker, where)
    bgp_speaker.run(REQUEST)
    (node / "code").write_text("of a former release")

    def killed(*words):
        raise Killed()

    monkeypatch.setattr(bgp_speaker, where, killed)
    with pytest.raises(Killed):
        bgp_speaker.run(REQUEST)
    monkeypatch.setattr(bgp_speaker, where, real)
    monkeypatch.setattr(bgp_speaker, "_wait_until_followed", lambda state, seconds: None)
    assert bgp_speaker.run(REQUEST, check=True)["plan"]["update"] == 1
    # a node call that only changes routes leaves the rest to a whole run
    assert bgp_speaker.run({"routes_only": True, "routes": [{"network": "203.0.113.7/32"}]})["plan"]["update"] == 1
    booted.clear()
    assert bgp_speaker.run(REQUEST)["plan"]["update"] >= 1 and ("restart", bgp_speaker.FOLLOWER) in booted
    booted.clear()
    assert bgp_speaker.run(REQUEST)["plan"]["changes"] == [] and not any(words[0] == "restart" for words in booted)


def test_a_full_disk_is_said_and_what_stood_is_put_back(node, booted, monkeypatch):
    bgp_speaker.run(REQUEST)
    before, real = (node / "state").read_bytes(), bgp_speaker.files.write_state

    def full(path, state):
        if path == str(node / "state") and state.content != before:
            raise OSError(errno.ENOSPC, "No space left on device", path)
        real(path, state)

    monkeypatch.setattr(bgp_speaker.files, "write_state", full)
    with pytest.raises(bgp_speaker.RolledBack, match="No space left on device") as caught:
        bgp_speaker.run(dict(REQUEST, med=7))
    assert caught.value.result["refused"][0]["reason"] == "speaker_failed" and (node / "state").read_bytes() == before


def test_a_node_call_changes_routes_and_nothing_else(node):
    """A play's request after it finds only its own routes to change back, so nothing else was touched."""
    routes = [{"network": "203.0.113.2/32", "health_ports": []}]
    with pytest.raises(ValueRefused) as caught:
        bgp_speaker.run({"routes_only": True, "routes": routes})
    assert caught.value.reason == "no_speaker"
    with pytest.raises(ValueRefused, match="asn and neighbors"):
        bgp_speaker.run({"routes": routes})
    whole = dict(REQUEST, med=50, neighbors=[dict(ROUTER, password=SECRET)])
    bgp_speaker.run(whole)
    before = json.loads((node / "state").read_text())
    assert (
        bgp_speaker.run({"routes_only": True, "routes": REQUEST["routes"], "prefixes": REQUEST["prefixes"]})["plan"][
            "changes"
        ]
        == []
    )
    shown = bgp_speaker.run({"routes_only": True, "routes": routes}, check=True)
    assert (
        json.loads((node / "state").read_text()) == before
        and shown["plan"]["update"] == 1
        and SECRET not in json.dumps(shown)
    )
    assert bgp_speaker.run({"routes_only": True, "routes": routes})["plan"]["update"] == 1
    after = json.loads((node / "state").read_text())
    assert after == dict(before, routes=[{"network": "203.0.113.2/32", "health_ports": []}])
    assert bgp_speaker.run(whole)["plan"]["update"] == 1 and json.loads((node / "state").read_text()) == before


def test_files_of_other_owners_count_nothing(node):
    assert bgp_speaker._shown(bgp_speaker.STATE, FileState("file", 0o600, b"{}")) == {"lines": []}
    (node / "status").write_text("nonsense")
    assert speaker_follow.read_status() == {} and speaker_follow.load_state() is None


def test_another_program_with_a_session_to_the_router_is_found():
    """A router keeps one session of an address: an own one would end the one of a load balancer that is still at work, or not come up."""
    with socket.socket() as router, socket.socket() as rival, pytest.MonkeyPatch.context() as patch:
        router.bind(("127.0.0.2", 0))
        router.listen()
        rival.bind(("127.0.0.3", 0))
        rival.connect(router.getsockname())
        patch.setattr(bgp_speaker, "PORT", router.getsockname()[1])
        text = bgp_speaker._rivals([Neighbour("127.0.0.2", 65530)], "127.0.0.3")["127.0.0.2"]
        assert (
            "has a session with 127.0.0.2 from 127.0.0.3" in text
            and str(os.getpid()) in text
            and "bgp_speaker_source_ip" in text
        )
        # from another address both exist alongside each other
        assert bgp_speaker._rivals([Neighbour("127.0.0.2", 65530, source="127.0.0.4")], "127.0.0.3") == {}
        assert bgp_speaker._rivals([Neighbour("127.0.0.9", 65530)], "127.0.0.3") == {}


def test_a_rival_stops_the_first_start_and_is_reported_later(node, monkeypatch):
    monkeypatch.setattr(bgp_speaker, "_rivals", lambda neighbours, source: {ROUTER["address"]: f"a rival of {source}"})
    with pytest.raises(ValueRefused) as caught:
        bgp_speaker.run(REQUEST, check=True)
    assert (caught.value.reason, caught.value.message) == ("conflict", "a rival of 10.66.23.31")
    assert not bgp_speaker.run(dict(REQUEST, alongside_frr=True), check=True)["warnings"]
    pathlib.Path(bgp_speaker.STATE).write_text(json.dumps(bgp_speaker._given(REQUEST)))
    assert bgp_speaker.run(REQUEST, check=True)["warnings"] == ["a rival of 10.66.23.31"]
    # whoever has a session alongside an owned one that exists is no rival
    monkeypatch.setattr(command, "systemctl", lambda *words: True)
    monkeypatch.setattr(bgp_speaker, "_sessions", lambda: {ROUTER["address"]: True})
    assert not bgp_speaker.run(REQUEST, check=True)["warnings"]
