# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hostile neighbours, providers and authors: refused by name, while the rest goes on."""

from __future__ import annotations

import json
import pathlib

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers import (
    address_claims,
    equinix_records,
    named_pools,
    reservations,
    service_plan,
    sharing,
)
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.bgp import values as bgp_claims
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.bgp.values import NodeBgp
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.service_plan import Places
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.services import Service
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.setup import parse_setups
from ansible_collections.multicluster.network.plugins.module_utils._values.addresses import parse_network
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

HOSTILE = json.loads(
    (pathlib.Path(__file__).resolve().parents[4] / "fixtures/hostile/load_balancers.json").read_text("utf-8")
)
OWNER = reservations.Owner("metal-ccm", HOSTILE["cluster_uid"])
GOOD = Service(**HOSTILE["good"])
RULES = address_claims.AddressRules(
    OWNER, "metallb", control_plane_tag=HOSTILE["control_plane_tag"], recorded=HOSTILE["recorded"]
)


def why(row):
    return row["why"]


def reservation(row):
    owner = OWNER._replace(
        cluster_uid=row.get("cluster", OWNER.cluster_uid), identity=row.get("identity", OWNER.identity)
    )
    tags = (
        row["tags"] if "tags" in row else reservations.service_tags(owner, *row.get("for", "default/good").split("/"))
    )
    return reservations.Reservation(row["id"], row["address"], tags=tuple(tags))


HELD = [reservation(row) for row in HOSTILE["reservations"]]


@pytest.mark.parametrize("row", HOSTILE["services"], ids=why)
def test_authors(row):
    thief = Service(**row["service"])
    for services in ([thief, GOOD], [GOOD, thief]):
        kept, refused = address_claims.check_address_claims(services, HELD, RULES)
        assert kept == [GOOD] and [(item.object, item.reason) for item in refused] == [
            ("service " + thief.key, row["word"])
        ]
        assert len(refused[0].message) < 400 and "\n" not in refused[0].message


def test_honest_neighbours():
    key = {"metallb.io/allow-shared-ip": "dns"}
    holder, other = GOOD._replace(annotations=key), Service("dns", "udp", address="192.0.2.1", annotations=key)
    mine = Service("default", "own", address="198.51.100.7")
    late = Service("a", "late", address="198.51.100.7")
    live = mine._replace(ingress=("198.51.100.7",))
    recorded = Service("default", "recorded", address="192.0.2.50")
    assert address_claims.check_address_claims([holder, other, mine, recorded], HELD, RULES) == (
        [holder, other, mine, recorded],
        [],
    )
    assert address_claims.check_address_claims([late, live], HELD, RULES)[0] == [live]
    assert address_claims.check_address_claims([live._replace(ingress=()), late], HELD, RULES)[0] == [late]
    gone = Service("default", "theirs", type="ClusterIP", address="192.0.2.2")
    assert address_claims.check_address_claims([gone], HELD, RULES) == ([gone], [])


def crowd(count, **more):
    """Services of one author that share one address, each with a port of its own."""
    key = {"metallb.io/allow-shared-ip": "k"}
    return [
        Service(
            "evil",
            f"s{number:05}",
            address="192.0.2.200",
            annotations=dict(key, **more.get("annotations", {})),
            ports=frozenset([("TCP", number + 1)]),
            **{name: value for name, value in more.items() if name != "annotations"},
        )
        for number in range(count)
    ]


def questions(monkeypatch, services):
    """How many pairs of Services are compared, and what is refused."""
    asked, real = [], sharing.why_not
    monkeypatch.setattr(sharing, "why_not", lambda one, other: asked.append(1) or real(one, other))
    refused = address_claims.check_address_claims(services, [], RULES)[1]
    monkeypatch.setattr(sharing, "why_not", real)
    return len(asked), refused


def test_a_crowd_that_shares_an_address_costs_what_each_of_it_costs(monkeypatch):
    assert questions(monkeypatch, crowd(600))[0] <= 600 and questions(monkeypatch, crowd(600))[1] == []
    many_keys = [
        service._replace(annotations=dict(service.annotations, **{"lbipam.cilium.io/sharing-key": service.name}))
        for service in crowd(600)
    ]
    asked, refused = questions(monkeypatch, many_keys)
    assert asked <= 600 * sharing.MOST_KINDS and len(refused) == 600 - sharing.MOST_KINDS


def test_no_crowd_of_local_services_makes_nodes_ask_thousands_of_ports():
    services = crowd(sharing.MOST_LOCAL + 3, local=True, selector={"app": "x"})
    kept, refused = address_claims.check_address_claims(services, [], RULES)
    assert kept == services[: sharing.MOST_LOCAL] and {item.reason for item in refused} == {"claimed_twice"}
    assert all(str(sharing.MOST_LOCAL) in item.message and "externalTrafficPolicy" in item.message for item in refused)


def test_the_many_addresses_of_one_author_are_counted_once(monkeypatch):
    rows = [{"name": "public", "addresses": ["10.0.0.0/16"], "max_per_namespace": 5000}]
    pools = named_pools.Grants(named_pools.parse_named_pools((), rows), {}, True)
    parsed, real = [], named_pools.parse_address
    monkeypatch.setattr(named_pools, "parse_address", lambda *words: parsed.append(1) or real(*words))
    held = named_pools.Held({})
    for number in range(400):
        held.add(named_pools.allocate(pools, named_pools.Wish("evil", str(number)), held), f"evil/{number}")
    assert len(parsed) < 400 * 3


@pytest.mark.parametrize("row", HOSTILE["spoofed_tags"], ids=why)
def test_spoofed_tags(row):
    held = [reservation(item) for item in row["reservations"]]
    context = service_plan.Context(OWNER, Places("da"), gc_orphans=True)
    fresh = GOOD._replace(address="")
    with pytest.raises(ValueRefused) as raised:
        service_plan.outcome_of(fresh, held, context)
    assert raised.value.reason == row["word"] and "good" in raised.value.message and "spoof" in raised.value.message
    assert [action.action for action in service_plan.outcome_of(GOOD, held, context).actions] == ["map"]
    known = context._replace(recorded=frozenset(["good"]))
    assert service_plan.outcome_of(fresh, held, known).actions[0].address == "192.0.2.1"
    other = Service("default", "other")
    assert [
        action.id for action in service_plan.orphans([other], held, known).actions if action.action == "release"
    ] == ["good"]


@pytest.mark.parametrize("row", HOSTILE["bgp"], ids=why)
def test_providers(row):
    grants = {
        key: frozenset(value) if key.endswith("asns") else tuple(map(parse_network, value))
        for key, value in HOSTILE["bgp_grants"].items()
    }
    good = NodeBgp(**dict(HOSTILE["bgp_good"], peers=tuple(HOSTILE["bgp_good"]["peers"])))
    given = dict(row["node"])
    if "password_times" in given:
        given["password"] = "x" * given.pop("password_times")
    bad = good._replace(
        **dict({"name": "bad", "source_ip": "10.66.1.2"}, **dict(given, peers=tuple(given.get("peers", good.peers))))
    )
    kept, refused = bgp_claims.check_bgp_claims([bad, good], bgp_claims.BgpGrants(**grants))
    assert kept == [good] and [(item.object, item.reason) for item in refused] == [("node " + bad.name, row["word"])]
    assert bad.password not in refused[0].message or not bad.password


def test_a_provider_cannot_raise_the_limit():
    limits = [
        bgp_claims.prefix_limit(*pair) for pair in ((10, 1000), (10, 5), (None, 7), (7, None), (None, None), (7, -1))
    ]
    assert limits == [10, 5, 7, 7, None, 7]


@pytest.mark.parametrize("row", HOSTILE["records"], ids=why)
def test_records(row):
    kept, notes = equinix_records.reservations([row["record"], {"id": "good", "address": "192.0.2.9", "tags": ["a"]}])
    assert [item.id for item in kept] == ["good"] and len(notes) == 1


@pytest.mark.parametrize("row", HOSTILE["cluster_uids"], ids=why)
def test_clusters_that_say_the_uid_of_another(row):
    pinned = row.get("pinned", {})
    refused = reservations.check_uids(row["answers"], pinned)
    assert {name: error.reason for name, error in refused.items()} == row["refused"]
    assert all("load_balancers_settings" in error.message and len(error.message) < 400 for error in refused.values())
    open_ones = [name for name in row["answers"] if name not in refused]
    unproven = {name: reservations.unproven(name, row.get("silent", ()), pinned) for name in open_ones}
    assert [name for name in open_ones if unproven[name]] == row.get("unproven", []) and "good" in open_ones
    assert all(
        error.reason == "source_incomplete" and "victim" in error.message for error in unproven.values() if error
    )


@pytest.mark.parametrize("row", HOSTILE["secrets_with_settings"], ids=why)
def test_settings_that_a_cluster_keeps_itself(row):
    """They never send the inventory's token elsewhere, and what is wrong with them leaves that cluster alone out."""
    text = row.get("text", json.dumps(row.get("secret")))
    entries = [
        {"cluster": name, "provider": "equinix_metal", "load_balancer": "kube-vip://", **given}
        for name, given in (("evil", row["inventory"]), ("good", {"api_key": "t", "project_id": "p"}))
    ]
    found, refused = parse_setups(entries, row.get("environment", {}), {"evil": text}, ["evil"])
    assert {name: error.reason for name, error in refused.items()} == ({"evil": row["word"]} if row["word"] else {})
    assert sorted(found) == (["good"] if row["word"] else ["evil", "good"])
    assert not any("evil.example.net" in str(setup.settings.values["base_url"]) for setup in found.values())
