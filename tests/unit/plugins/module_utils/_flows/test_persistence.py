# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stays on a node: written in one step, spare files of killed writers found but never read."""

from __future__ import annotations

import json
import pathlib

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.node_spec import NodeState
from ansible_collections.multicluster.network.plugins.module_utils._flows.node import dataplane, persistence
from ansible_collections.multicluster.network.plugins.module_utils._linux import files
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

STATE = NodeState.of_json(
    {
        "fabric": "f",
        "format": 1,
        "devices": [{"name": "wireguard.gcp", "private_key_file": "/k", "peers": []}],
        "key_files": [],
    }
)


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A host's folders; systemd gets no call."""
    for name in ("STATE_ROOT", "CODE_ROOT", "UNIT_ROOT"):
        monkeypatch.setattr(persistence, name, str(tmp_path / name.lower()))
    monkeypatch.setattr(persistence, "WANTS_FOLDER", str(tmp_path / "unit_root" / "multi-user.target.wants"))
    monkeypatch.setattr(
        persistence.link_managers,
        "paths",
        lambda name: [str(tmp_path / (name + ending)) for ending in (".network", ".1.conf", ".2.conf")],
    )
    monkeypatch.setattr(persistence.link_managers, "NETWORKD", str(tmp_path / "nowhere"))
    monkeypatch.setattr(persistence.link_managers, "NETWORK_MANAGER", str(tmp_path / "nowhere"))
    reported = []
    monkeypatch.setattr(persistence.systemd, "reload_units", lambda: reported.append("reload"))
    monkeypatch.setattr(persistence.systemd, "retire", reported.append)
    return tmp_path, reported


def converge(state, others=()):
    desired = persistence.desired_files("f", state)
    todo = persistence.plan(desired, persistence.gather("f", desired, others))
    if todo.changed:
        persistence.apply("f", desired, todo)
    return todo


def test_a_state_of_a_later_release_is_refused(host):
    """Taken for none it would be written anew, and what only that release made would be forgotten."""
    converge(STATE)
    path = pathlib.Path(persistence.state_path("f"))
    path.write_text(json.dumps(dict(STATE.to_json(), format=2)))
    with pytest.raises(ValueRefused, match="written by a later release: its format is 2, this one reads 1") as found:
        persistence.load_state("f")
    assert found.value.reason == "state_of_later_release" and str(path) in found.value.message
    for text in (
        {"format": 2},
        {"format": 2, "fabric": "g"},
        {"format": "2", "fabric": "f"},
        {"format": True, "fabric": "f"},
    ):
        path.write_text(json.dumps(text))
        assert persistence.load_state("f") is None


def test_a_former_release_reads_what_it_knows(host):
    """Tables that decide before routes have a key of their own: releases before them refused a state with one among its tables."""
    early, late = {"name": "a-nat", "before_routes": True}, {"name": "b"}
    state = STATE._replace(tables=(early, late))
    kept = state.to_json()
    assert kept["tables"] == [late] and kept["address_tables"] == [early]
    assert NodeState.of_json(kept).tables == (late, early)
    assert NodeState.of_json(dict(kept, tables=[late, early], address_tables=[])).tables == (late, early)


def test_create_again_change_remove(host):
    tmp_path, reported = host
    assert len(converge(STATE).of("create")) == 4
    assert persistence.load_state("f") == STATE
    assert not converge(STATE).changed and reported == ["reload"]
    changed = converge(STATE._replace(key_files=("/k",)))
    assert [change.id for change in changed.changes] == [persistence.state_path("f")]
    assert len(converge(None).of("delete")) == 4
    assert reported[-2:] == ["multicluster-network-f.service", "reload"]
    assert not [path for path in tmp_path.rglob("*") if path.is_file() or path.is_symlink()]
    assert not converge(None).changed


def test_code_of_an_earlier_release_goes(host):
    converge(STATE)
    old = host[0] / "code_root" / "f" / "dataplane-000000000000.pyz"
    old.write_bytes(b"old")
    assert [change.id for change in converge(STATE).of("delete")] == [str(old)]
    assert not old.exists()


def test_spares_of_killed_writers_go_and_no_secret_is_shown(host):
    tmp_path = host[0]
    converge(STATE)
    keys = tmp_path / "keys"
    keys.mkdir()
    (keys / ".wireguard.gcp.key.0011").write_text("cHJpdmF0ZQ==")
    (keys / ".other.key.0011").write_text("unowned")
    spare = tmp_path / "unit_root" / ".multicluster-network-f.service.x1"
    spare.write_text("half")
    todo = converge(STATE, [str(keys / "wireguard.gcp.key")])
    assert sorted(change.id for change in todo.changes) == sorted([str(keys / ".wireguard.gcp.key.0011"), str(spare)])
    assert "cHJpdmF0ZQ" not in str(todo.diff()) + str(todo.result())
    assert (keys / ".other.key.0011").exists() and not spare.exists()


def test_a_state_of_another_fabric_or_no_state_is_none(host):
    assert persistence.load_state("f") is None
    for content in (b"", b"{", b"[]", b'{"fabric": "g"}', b"\xff"):
        files.write_state(persistence.state_path("f"), files.FileState("file", 0o600, content))
        assert persistence.load_state("f") is None


def test_in_a_node_pod_a_link_takes_the_place_of_units(host, monkeypatch):
    """All of it is in the one folder that outlives the container."""
    tmp_path, reported = host
    monkeypatch.setenv("MULTICLUSTER_NODE_POD", "f")
    todo = converge(STATE)
    link = tmp_path / "state_root" / "f" / "agent"
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file() or path.is_symlink()}
    code = link.readlink()
    assert found == {"state_root/f/agent", "state_root/f/dataplane.json", str(code.relative_to(tmp_path))}
    assert code.parent == tmp_path / "state_root" / "f" / "code" and code.stat().st_mode & 0o777 == 0o755
    assert len(todo.of("create")) == 3 and not converge(STATE).changed
    assert persistence.unit_files("f") == [str(link)]
    assert len(converge(None).of("delete")) == 3
    assert not [path for path in tmp_path.rglob("*") if path.is_file() or path.is_symlink()]


def test_a_host_that_is_reached_otherwise_from_now_on_loses_the_link(host, monkeypatch):
    monkeypatch.setenv("MULTICLUSTER_NODE_POD", "f")
    converge(STATE)
    monkeypatch.delenv("MULTICLUSTER_NODE_POD")
    todo = converge(STATE)
    gone = [change.id.rpartition("/")[2] for change in todo.of("delete")]
    assert "agent" in gone and len(gone) == 2
    assert not converge(STATE).changed


def test_units_of_an_earlier_run_over_ssh_are_seen_from_a_node_pod(host, tmp_path, monkeypatch):
    """Their program would apply the mesh at boot as the pod does; the pod cannot end them."""
    monkeypatch.setattr(persistence, "HOST_ROOT", str(tmp_path / "host"))
    unit = tmp_path / "host" / persistence.UNIT_ROOT.lstrip("/") / persistence.watch_name("f")
    unit.parent.mkdir(parents=True)
    unit.write_text("[Unit]\n", encoding="ascii")
    assert persistence.units_of_the_host("f") == []
    monkeypatch.setenv("MULTICLUSTER_NODE_POD", "f")
    assert persistence.units_of_the_host("f") == [f"{persistence.UNIT_ROOT}/{persistence.watch_name('f')}"]
    assert persistence.units_of_the_host("g") == []
    wish = {"fabric": "f", "devices": [], "owner": "f"}
    monkeypatch.setattr(dataplane, "NodeDataplane", None)  # nothing is read after that, so nothing written
    [refused] = dataplane.run(wish, check=True)["refused"]
    assert refused["reason"] == "two_inits" and "nothing was written" in refused["message"]
