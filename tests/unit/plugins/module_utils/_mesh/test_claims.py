# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hostile claims are refused with the right reason while everybody else stays in the mesh."""

from __future__ import annotations

import ipaddress
import json
import pathlib
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.claims import (
    Claim,
    check_claims,
    label_of,
    read_claim,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.semaphore.peers import pod_cidrs_of
from ansible_collections.multicluster.network.plugins.module_utils._plan.plan import Pending, Refusal
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, strategies as st

FIXTURE = pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "hostile" / "mesh_claims.json"
TABLE = json.loads(FIXTURE.read_text("utf-8"))
GRANTS, GOOD = TABLE["grants"], TABLE["good_claims"]
ANY_RANGE = ipaddress.ip_network("192.0.2.0/24")


def expand(value: t.Any) -> t.Any:
    if isinstance(value, dict) and "repeat" in value:
        return [value["repeat"]] * value["times"] if value.get("list") else value["repeat"] * value["times"]
    if isinstance(value, dict):
        return {key: expand(item) for key, item in value.items()}
    return [expand(item) for item in value] if isinstance(value, list) else value


def read(row: t.Any) -> Claim:
    """A claim from what an API server has of a node, as the plan of the mesh reads it."""
    said = row if isinstance(row, dict) else {}
    names = said.get("cluster"), said.get("node")
    read_claim(*names, Pending("any"), None, [ANY_RANGE])  # the owner comes first: everything else is said of that node
    ranges = pod_cidrs_of({"podCIDRs": said.get("allowed_ips")})
    return read_claim(*names, said.get("public_key"), said.get("endpoint"), ranges)


def check(
    rows: t.Iterable[t.Any], grants: t.Any = GRANTS, *more: t.Any, **options: t.Any
) -> tuple[list[Claim], list[Refusal]]:
    """Both stages: what cannot be read is refused as what does not hold is."""
    claims: list[Claim] = []
    refused: list[Refusal] = []
    for row in rows:
        try:
            claims.append(row if isinstance(row, Claim) else read(row))
        except ValueRefused as error:
            label = label_of(*((row.get("cluster"), row.get("node")) if isinstance(row, dict) else (None, None)))
            refused.append(Refusal(label, error.reason, f"{label}: {error.message}"))
    kept, refusals = check_claims(claims, grants, *more, **options)
    return kept, refused + refusals


def claim(node: str, key: t.Any, *ranges: str, cluster: str = "gcp", endpoint: t.Any = None) -> dict[str, t.Any]:
    return {"cluster": cluster, "node": node, "public_key": key, "endpoint": endpoint, "allowed_ips": list(ranges)}


def test_good_claims_pass() -> None:
    assert check(GOOD, own_keys=TABLE["own_keys"]) == (GOOD_CLAIMS, [])
    assert [one.peer.to_json() for one in GOOD_CLAIMS] == [
        {
            "public_key": row["public_key"],
            "endpoint": row["endpoint"],
            "allowed_ips": row["allowed_ips"],
            "node": row["node"],
            "persistent_keepalive": 0,
            "preshared_key": None,
        }
        for row in GOOD
    ]


@pytest.mark.parametrize("row", TABLE["rows"], ids=lambda row: row["id"])
@pytest.mark.parametrize("position", ["first", "last"])
def test_hostile_row(row: dict[str, t.Any], position: str) -> None:
    evil = expand(row["claim"])
    evil = dict(TABLE["evil_claim"], **evil) if isinstance(evil, dict) else evil
    claims = [evil] + GOOD if position == "first" else GOOD + [evil]
    kept, refusals = check(claims, GRANTS, row.get("holders"), TABLE["own_keys"])
    assert kept == GOOD_CLAIMS
    assert [(refusal.object, refusal.reason) for refusal in refusals] == [
        (row.get("object", "gcp/zz-evil"), row["word"])
    ]
    assert refusals[0].message.startswith(refusals[0].object + ": ")
    assert refusals[0].message.isprintable() and len(refusals[0].message) < 800


def test_outside_grant_names_the_value_and_the_variable() -> None:
    _kept, refusals = check([claim("x", Pending("key"), "10.9.0.0/24")], GRANTS)
    assert "'10.9.0.0/24'" in refusals[0].message
    assert "pod_cidrs of clusters/gcp" in refusals[0].message
    assert "10.4.0.0/16" in refusals[0].message


def test_first_by_name_keeps_a_range_whatever_the_order() -> None:
    rows = [claim("b", Pending("b"), "10.4.1.0/24"), claim("a", Pending("a"), "10.4.0.0/23")]
    for claims in (rows, rows[::-1]):
        kept, refusals = check(claims, GRANTS)
        assert [row.node for row in kept] == ["a"]
        assert [(refusal.object, refusal.reason) for refusal in refusals] == [("gcp/b", "claimed_twice")]


def test_a_refused_node_holds_nothing() -> None:
    # a loses its key to the live holder; its range is free for c, which claims it as well.
    key = GOOD[0]["public_key"]
    claims = [claim("a", key, "10.4.1.0/24"), claim("b", key, "10.4.2.0/24"), claim("c", Pending("c"), "10.4.1.0/24")]
    kept, refusals = check(claims, GRANTS, {"gcp": {key: ["10.4.2.0/24"]}})
    assert [row.node for row in kept] == ["b", "c"]
    assert [refusal.object for refusal in refusals] == ["gcp/a"]


def test_a_stolen_key_does_not_make_the_thief_the_holder() -> None:
    key = GOOD[0]["public_key"]
    claims = [claim("aaa", key, "10.4.9.0/24"), claim("gcp-1", key, "10.4.7.0/24")]
    kept, _refusals = check(claims, GRANTS, {"gcp": {key: ["10.4.7.0/24"]}})
    assert [row.node for row in kept] == ["gcp-1"]


def test_nested_ranges_of_one_node_are_no_conflict_and_still_guarded() -> None:
    claims = [claim("a", Pending("a"), "10.4.1.0/24", "10.4.0.0/16"), claim("b", Pending("b"), "10.4.200.0/24")]
    kept, refusals = check(claims, GRANTS)
    assert [row.node for row in kept] == ["a"] and refusals[0].object == "gcp/b"


def test_ranges_of_other_capabilities() -> None:
    claims = [claim("a", Pending("a"), "10.254.0.9/32", cluster="aws")]
    assert check(claims, GRANTS)[1][0].reason == "outside_grant"
    assert check(claims, GRANTS, ranges=("pod_cidrs", "wireguard_cidrs"))[0] == [read(one) for one in claims]


def test_adjacent_grants_count_together() -> None:
    grants = {"gcp": {"pod_cidrs": ["10.4.0.0/17", "10.4.128.0/17"]}}
    assert check([claim("a", Pending("a"), "10.4.0.0/16")], grants)[1] == []


GOOD_CLAIMS = [read(row) for row in GOOD]

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.fixed_dictionaries(
    {
        "cluster": st.sampled_from(["aws", "gcp", "merit"]) | ANYTHING,
        "node": st.sampled_from(["a", "b", "c"]) | ANYTHING,
        "public_key": st.sampled_from([row["public_key"] for row in GOOD])
        | st.builds(Pending, st.text(max_size=3))
        | ANYTHING,
        "endpoint": st.sampled_from(["10.22.22.1:1", "10.4.0.1:1", "x.example:1"]) | ANYTHING,
        "allowed_ips": st.lists(
            st.sampled_from(["10.4.1.0/24", "10.4.0.0/22", "10.6.0.0/16", "::/0"]) | ANYTHING, max_size=3
        )
        | ANYTHING,
    }
)


@given(st.lists(FIELDS | ANYTHING, max_size=8))
def test_never_raises_and_loses_nothing(claims: list[t.Any]) -> None:
    kept, refusals = check(claims, GRANTS)
    assert len(kept) + len(refusals) == len(claims)
    keys = [row.peer.public_key for row in kept if isinstance(row.peer.public_key, str)]
    assert len(keys) == len(set(keys))
    assert check(kept) == (kept, [])
