# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hostile announcements are refused with the right reason while everybody else stays in the mesh."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.node.contests import settle_affiliates
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.identity import mesh_subnet
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.peers import Mesh
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.kubespan_claims import (
    check_affiliates,
)
from ansible_collections.multicluster.network.plugins.module_utils._plan.plan import Pending
from hypothesis import given, settings, strategies as st

FIXTURE = pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "hostile" / "kubespan_affiliates.json"
TABLE = json.loads(FIXTURE.read_text("utf-8"))
GRANTS, GOOD, EVIL, SUBNET = TABLE["grants"], TABLE["good"], TABLE["evil"], mesh_subnet(TABLE["mesh_id"])


class Decided(t.NamedTuple):
    affiliates: list[t.Any]
    refused: list[t.Any]


def check(affiliates: t.Sequence[t.Any], peers: t.Sequence[t.Any] = ()) -> Decided:
    """The stage, and what a node with these confirmed peers makes of it."""
    found = check_affiliates(affiliates, GRANTS, SUBNET, TABLE["own_keys"])
    given = {"affiliates": found.affiliates, "contested": found.contested, "disputed": found.disputed}
    kept, refused = settle_affiliates(given, {}, {"peers": peers}, "kubespan", ["/key"])
    order = [(one.get("cluster"), one.get("node")) if isinstance(one, dict) else None for one in affiliates]
    kept.sort(key=lambda one: order.index((one["cluster"], one["node"])))
    kept = [{key: one[key] for key in one if key not in ("by_rank", "addresses_by_rank")} for one in kept]
    return Decided(kept, [*found.refused, *refused])


def expand(value: t.Any) -> t.Any:
    if isinstance(value, dict) and "repeat" in value:
        return [value["repeat"]] * value["times"]
    return {key: expand(item) for key, item in value.items()} if isinstance(value, dict) else value


def test_good_ones_pass() -> None:
    assert check([*GOOD, EVIL]) == ([*GOOD, EVIL], [])


@pytest.mark.parametrize("row", TABLE["rows"], ids=lambda row: row["id"])
@pytest.mark.parametrize("position", ["first", "last"])
def test_hostile_row(row: dict[str, t.Any], position: str) -> None:
    evil = dict(EVIL, **expand(row["claim"]))
    kept, refused = check([evil, *GOOD] if position == "first" else [*GOOD, evil])
    assert [one for one in kept if one["node"] != "zz-evil"] == GOOD
    assert [(item.object, item.reason) for item in refused] == [(row.get("object", "gcp/zz-evil"), row["word"])]
    assert refused[0].message.isprintable() and len(refused[0].message) < 800
    left = [one for one in kept if one["node"] == "zz-evil"]
    if row.get("drops"):
        assert left == []
    else:
        assert len(left) == 1
        for name, items in row["missing"].items():
            assert left[0][name] == list(dict.fromkeys(text for text in evil[name] if text not in items))
    # and whatever is left makes peers that take nothing from the good ones
    specs = Mesh(kept).specs(None)
    alone = Mesh(GOOD).specs(None)
    assert not specs.ignored and not specs.overlaps
    assert all(specs.peers[key] == peer for key, peer in alone.peers.items())


def test_no_key_is_no_peer_and_no_news() -> None:
    assert check([dict(EVIL, public_key=""), *GOOD]) == (GOOD, [])
    kept, refused = check([dict(EVIL, public_key=Pending("key of zz-evil")), *GOOD])
    assert len(kept) == 3 and refused == []


@pytest.mark.parametrize(
    "junk",
    [
        None,
        7,
        "x",
        [],
        {"public_key": EVIL["public_key"]},
        {"public_key": 7, "kubespan_address": "fd7a:6197:edb7:2302::1"},
    ],
)
def test_records_that_are_none(junk: t.Any) -> None:
    kept, refused = check([junk, *GOOD])
    assert kept == GOOD and len(refused) == 1


def test_who_keeps_a_shared_address() -> None:
    first = dict(EVIL, node="gcp-0", addresses=["10.22.22.11"])
    by_name = check([*GOOD, first])
    assert by_name.affiliates[1]["addresses"] == [] and by_name.refused[0].object == "gcp/gcp-1"
    live = check(
        [*GOOD, first],
        [
            {
                "public_key": GOOD[1]["public_key"],
                "allowed_ips": ["10.22.22.11/32", "broken"],
                "cluster": "gcp",
                "node": "gcp-1",
            }
        ],
    )
    assert live.affiliates[:2] == GOOD and [item.object for item in live.refused] == ["gcp/gcp-0"]
    declared = check([GOOD[0], dict(GOOD[1], declared=True), first])
    assert declared.affiliates[1]["addresses"] == ["10.22.22.11"] and [item.object for item in declared.refused] == [
        "gcp/gcp-0"
    ]


def test_the_inventorys_own_node_keeps_its_ula_over_a_stale_record() -> None:
    stale = dict(GOOD[1], node="gcp-0", node_id="0old", public_key=EVIL["public_key"], additional_addresses=[])
    kept, refused = check([stale, GOOD[0], dict(GOOD[1], declared=True)])
    assert [one["node"] for one in kept] == ["aws-1", "gcp-1"]
    assert ("gcp/gcp-0", "claimed_twice") in [(item.object, item.reason) for item in refused]


def test_its_own_ula_among_its_addresses_is_harmless() -> None:
    own = dict(GOOD[1], addresses=[GOOD[1]["kubespan_address"], "10.22.22.11"])
    assert check([GOOD[0], own]) == (GOOD, [])


def test_service_networks_may_be_granted() -> None:
    seed = dict(EVIL, additional_addresses=["10.4.66.1/24", "10.5.0.1/32"])
    found = check_affiliates([seed], GRANTS, SUBNET, ranges=("pod_cidrs", "service_cidrs"))
    assert len(found.affiliates) == 1 and found.refused == []


VALUE = (
    st.none()
    | st.integers()
    | st.text(max_size=12)
    | st.sampled_from(["10.4.1.0/24", "0.0.0.0/0", "10.22.22.11", "fd7a:6197:edb7:2302::b1"])
)


@settings(deadline=None, max_examples=60)
@given(
    st.dictionaries(
        st.sampled_from([*EVIL, "exclude_advertised_networks"]), VALUE | st.lists(VALUE, max_size=4), max_size=5
    )
)
def test_nothing_breaks_the_stage_or_displaces_the_declared(claim: dict[str, t.Any]) -> None:
    good = [dict(one, declared=True) for one in GOOD]
    kept, dummy = check([dict(EVIL, **claim), *good])
    names = [one for one in kept if one.get("declared")]
    assert names == good
