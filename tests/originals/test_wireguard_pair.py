# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real semaphore-wireguard on a node of each of two clusters: taken over, changed, released, started again; and alongside the collection.

The flows that the playbooks call, without the playbooks: test_wireguard.py and test_mixed_wireguard.py have these, over a whole lab.
"""

from __future__ import annotations

import pytest
from recorded import keep
from wireguard_pair import KEYS, NAME, OTHER, US, Pair


@pytest.fixture
def pair(request, original, server, second, tmp_path):
    made = Pair({"aws": server, "gcp": second}, original(NAME), tmp_path, getattr(request, "param", ("aws", "gcp")))
    yield made
    made.close()


def test_taken_over_changed_and_given_back(pair, recording, capsys):
    for name in pair.nodes:
        pair.start(name)
    pair.until(
        "the upstream programs have joined", lambda: all(pair.notes(name) for name in pair.nodes) and pair.joined()
    )
    begun = {name: [dict(pair.node_object(name), apiVersion="v1", kind="Node")] for name in pair.nodes}
    for name in pair.nodes:
        pair.stop(name)
    before = {name: pair.wire(name) for name in pair.nodes}
    notes, files = ({name: what(name) for name in pair.nodes} for what in (pair.notes, pair.files))

    # without being asked: nothing
    marks = {name: server.mark() for name, server in pair.servers.items()}
    found = pair.converge()
    assert all(
        {row["reason"] for row in found[name]["refused"]} == {"adoptable"} and not found[name]["changed"]
        for name in pair.nodes
    ), found
    assert {name: pair.wire(name) for name in pair.nodes} == before and {
        name: pair.files(name) for name in pair.nodes
    } == files
    assert all(server.writes(marks[name]) == [] for name, server in pair.servers.items())

    # taken: the wire is what it was, the marks and the annotations are solely owned
    with pair.echoes() as echoes:
        found = pair.converge(adopt=True)
    assert all(found[name]["refused"] == [] for name in pair.nodes), found
    configured = [f"taking over: {echoes.sent} echoes sent, {echoes.lost} lost"]
    assert echoes.sent > 300 and echoes.lost == 0
    assert {name: pair.wire(name, marks=False) for name in pair.nodes} == {
        name: one[:4] + one[5:] for name, one in before.items()
    }
    assert {name: pair.notes(name) for name in pair.nodes} == notes and all(
        pair.on_record(name) == {US} for name in pair.nodes
    )
    unchanged(pair)

    changes(pair)

    before = {name: pair.wire(name, marks=False) for name in pair.nodes}
    notes = {name: pair.notes(name) for name in pair.nodes}
    with pair.echoes() as echoes:
        pair.release()
    configured.append(f"releasing: {echoes.sent} echoes sent, {echoes.lost} lost")
    assert echoes.lost == 0
    after = {name: pair.wire(name) for name in pair.nodes}
    for name, one in after.items():
        assert one[4] is None and one[:4] + one[5:] == before[name] and pair.files(name) == files[name]
        assert pair.notes(name) == notes[name] and US not in pair.on_record(name)

    with pair.echoes() as echoes:
        for name in pair.nodes:
            pair.start(name)
        pair.until(
            "the upstream programs are back",
            lambda: all("starting node watcher" in (pair.folder / name / "log").read_text() for name in pair.nodes),
        )
        pair.until("they have joined", pair.joined)
    configured.append(f"upstream again: {echoes.sent} echoes sent, {echoes.lost} lost")
    assert (
        {name: pair.wire(name) for name in pair.nodes} == after
        and {name: pair.notes(name) for name in pair.nodes} == notes
        and echoes.lost == 0
    )
    with capsys.disabled():
        print("\n" + "; ".join(configured))
    returned = {name: [dict(pair.node_object(name), apiVersion="v1", kind="Node")] for name in pair.nodes}
    if recording:
        keep(NAME, {"begun": begun, "returned": returned})


def unchanged(pair):
    """A second run writes nothing, on nodes and in clusters."""
    marks = {name: server.mark() for name, server in pair.servers.items()}
    before = {name: pair.wire(name) for name in pair.managed}
    found = pair.converge()
    assert not any(found[name]["changed"] or found[name]["refused"] for name in pair.managed), found
    assert {name: pair.wire(name) for name in pair.managed} == before
    assert all(server.writes(marks[name]) == [] for name, server in pair.servers.items())


def changes(pair):
    """A key, a node and its allowed IPs."""
    old = pair.key("gcp")
    pair.nodes["gcp"].run("rm", KEYS + "/wireguard.aws.key")
    pair.converge()
    pair.converge()
    assert pair.key("gcp") != old and pair.joined() and old not in pair.peers("aws")
    unchanged(pair)
    # the node goes, and comes with another range
    pair.unregister("gcp")
    mine = pair.managed
    pair.managed = ("aws",)
    pair.converge(confirm_empty=["gcp"])  # it was the only one, which somebody has to confirm
    assert pair.peers("aws") == {}
    pair.managed = mine
    pair.register("gcp", "10.4.9.0/24")
    pair.converge()
    pair.converge()
    assert pair.peers("aws") == {pair.key("gcp"): ["10.4.9.0/24"]}
    pair.unregister("gcp")
    pair.register("gcp")
    pair.converge()
    pair.converge()
    assert pair.peers("aws") == {pair.key("gcp"): ["10.4.7.0/24"]}
    pair.until("pods answer", pair.joined)
    unchanged(pair)


@pytest.mark.parametrize("pair", [("aws",)], indirect=True)
def test_alongside_the_original(pair):
    """aws by us, gcp by upstream: both follow, and nothing of gcp is written."""
    pair.start("gcp")
    pair.until("upstream has announced itself", lambda: pair.notes("gcp"))
    mark = pair.servers["gcp"].mark()
    pair.converge()
    pair.converge()
    pair.until("both have joined", pair.joined)
    unchanged(pair)
    # a key on our side: theirs follow at once
    old = pair.key("aws")
    pair.nodes["aws"].run("rm", KEYS + "/wireguard.gcp.key")
    pair.converge()
    assert pair.key("aws") != old
    pair.until("upstream follows", pair.joined)
    # a key on their side: known with the next run
    old = pair.key("gcp")
    pair.nodes["gcp"].run("rm", KEYS + "/wireguard.aws.key")
    pair.restart("gcp")
    pair.until(
        "it has announced a new key",
        lambda: old not in pair.notes("gcp").values() and pair.key("gcp") in pair.notes("gcp").values(),
    )
    pair.converge()
    pair.until("both have joined again", pair.joined)
    # our Node goes and comes: theirs follow
    pair.unregister("aws")
    pair.until("upstream has no peer", lambda: pair.peers("gcp") == {})
    pair.register("aws")
    pair.converge()
    pair.converge()
    pair.until("both have joined once more", pair.joined)
    assert pair.servers["gcp"].writes(mark) == [], "our account wrote in the neighbour"
    # its API server away: what there is stays
    before, real = pair.wire("aws"), pair.servers["gcp"]
    pair.servers["gcp"] = Away(real)
    found = pair.converge()
    assert not found["aws"]["changed"] and pair.wire("aws") == before and pair.answers()
    pair.servers["gcp"] = real
    unchanged(pair)
    # we leave: our annotations go, theirs stay; upstream forgets us at its next start
    notes = pair.notes("gcp")
    pair.leave("aws")
    assert pair.notes("aws") == {} and pair.notes("gcp") == notes
    pair.restart("gcp")
    pair.until("upstream has forgotten us", lambda: pair.peers("gcp") == {})
    assert real.writes(mark) == [] and OTHER["aws"] == "gcp"


class Away:
    """An API server that does not answer."""

    def __init__(self, real):
        self.real = real

    def access(self, name):
        return dict(self.real.access(name), api_url="https://127.0.0.1:1")

    def __getattr__(self, name):
        return getattr(self.real, name)
