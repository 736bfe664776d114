# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What guide_trust.rst promises, sentence by sentence: each has a test of its name, here or in test_trust_servers.py, and its inputs as a fixture."""

from __future__ import annotations

import ast
import contextlib
import copy
import json
import pathlib
import re
import sys
import typing as t

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
HERE = pathlib.Path(__file__).resolve()
GUIDE = TESTS.parent / "docs" / "docsite" / "rst" / "guide_trust.rst"
HOSTILE = TESTS / "fixtures" / "hostile"
for _folder in (
    TESTS / "unit" / "plugins" / "module_utils" / "_kubernetes",
    TESTS / "unit" / "plugins" / "module_utils",
    TESTS / "browser",
):
    sys.path.insert(0, str(_folder))

import fabrics
from ansible_collections.multicluster.network.plugins.action.run_outcome import run_outcome
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.node_spec import (
    NodeDevice,
    NodeState,
    parse_node_device,
)
from ansible_collections.multicluster.network.plugins.module_utils._flows.access.node_pods import Proof
from ansible_collections.multicluster.network.plugins.module_utils._flows.node import contests
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.clusters import Clusters
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers import reservations, service_plan
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.address_claims import (
    AddressRules,
    check_address_claims,
)
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.ledger import Entry, believed
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.pools import Reserved, parse_pool
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.reservations import check_uids
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.service_plan import Places
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.services import Service
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.setup import parse_setups
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.claims import open_claims, read_claim
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.inventory import load_fabric
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.node_listing import read_listing
from ansible_collections.multicluster.network.plugins.module_utils._mesh.semaphore.peers import pod_cidrs_of
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology import semaphore as semaphore_topology
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.node_hosts import Names, node_hosts
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._plan.node_pod_edits import edit_of
from ansible_collections.multicluster.network.plugins.module_utils._plan.node_pod_manifests import node_pod_manifests
from ansible_collections.multicluster.network.plugins.module_utils._plan.outcome import refused_lines
from ansible_collections.multicluster.network.plugins.module_utils._services import (
    coredns_rules,
    mirror_services,
    names,
)
from ansible_collections.multicluster.network.plugins.module_utils._services.claims import Guard, check_groups
from ansible_collections.multicluster.network.plugins.module_utils._services.endpoints import Endpoint, Group
from ansible_collections.multicluster.network.plugins.module_utils._services.network_sets.members import (
    check_members,
    members_of,
    name_sets,
)
from ansible_collections.multicluster.network.plugins.module_utils._status import model, page
from ansible_collections.multicluster.network.plugins.module_utils._tenants.store import key_of
from ansible_collections.multicluster.network.plugins.module_utils._values.held_addresses import held_for_others
from ansible_collections.multicluster.network.plugins.module_utils._values.prefix_sets import PrefixSet
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused


def fixture(name: str) -> t.Any:
    return json.loads((HOSTILE / name).read_text("utf-8"))


# --- the guide itself ---------------------------------------------------------------------------------------------


def promised() -> list[tuple[str, str]]:
    """(slug, first words) of every row of the table, as the comment behind it lists them."""
    text = GUIDE.read_text("utf-8")
    block = re.search(r"^\.\. The tests of these rows, in their order\.\n((?:   .*\n|\n)+)", text, re.MULTILINE)
    assert block
    return [tuple(line.strip().split(": ", 1)) for line in block.group(1).splitlines() if line.strip()]  # type: ignore[misc]


def rows_of_the_table() -> list[str]:
    """The left column of every row; a line with nothing there goes on with the row above."""
    text = GUIDE.read_text("utf-8").split("Handling of hostile input\n", 1)[1]
    rule, _head, body = re.split(r"^=+  =+$", text, maxsplit=3, flags=re.MULTILINE)[:3]
    width = len(re.search(r"^=+", text[len(rule) :]).group())  # type: ignore[union-attr]
    return [line[:width].strip() for line in body.strip("\n").splitlines() if line[:width].strip()]


def sentences() -> list[str]:
    """The slugs of the sentences alongside the table."""
    return re.findall(r"^ *\.\. test: ([a-z0-9-]+)$", GUIDE.read_text("utf-8"), re.MULTILINE)


def functions() -> dict[str, ast.FunctionDef]:
    """The tests of the rows, and those of the sentences alongside them."""
    texts = [path.read_text("utf-8") for path in HERE.parent.glob("test_trust*.py")]
    return {node.name: node for text in texts for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}


def test_every_row_of_the_guide_has_its_name() -> None:
    assert rows_of_the_table() == [words for _slug, words in promised()]
    assert len({slug for slug, _words in promised()}) == len(promised()) >= 18
    assert len(sentences()) == len(set(sentences())) >= 5


@pytest.mark.parametrize("slug", [slug for slug, _words in promised()])
def test_every_row_has_a_test_and_a_fixture(slug: str) -> None:
    found = functions().get("test_" + slug.replace("-", "_"))
    assert found is not None, f"write test_{slug.replace('-', '_')}"
    files = [
        node.args[0].value
        for node in ast.walk(found)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "fixture"
        and isinstance(node.args[0], ast.Constant)
    ]
    assert files and all((HOSTILE / name).is_file() for name in files), slug


@pytest.mark.parametrize("slug", sentences())
def test_every_marked_sentence_has_a_test(slug: str) -> None:
    assert "test_" + slug.replace("-", "_") in functions()


def test_every_fixture_is_used_by_a_test() -> None:
    said = "".join(path.read_text("utf-8") for path in TESTS.rglob("test_*.py"))
    assert not [path.name for path in HOSTILE.iterdir() if path.name not in said]


# --- a node's name ------------------------------------------------------------------------------------------------


def test_names_of_the_inventory() -> None:
    """The plugin itself, in an inventory with these hosts and groups, is in tests/unit/plugins/inventory; a play over it in tests/api."""
    table = fixture("inventory_names.json")
    groups = table["inventory"]["all"]["children"]
    reserved = dict.fromkeys([*groups, "all", "ungrouped", "localhost", "127.0.0.1", "declared", "aws", "gcp"], "taken")
    taken = {
        host: {group["vars"]["multicluster_cluster"]} if "vars" in group else set()
        for group in groups.values()
        for host in group["hosts"]
    }
    nodes = [
        {"metadata": {"name": row["node"]}, "status": {"addresses": [{"type": "InternalIP", "address": "10.66.23.9"}]}}
        for row in table["rows"]
    ]
    listings = {"aws": read_listing("aws", {"nodes": nodes})}
    for naming, column in (("plain", "reason"), ("prefixed", "prefixed")):
        found = node_hosts(listings, {"aws": ["10.66.23.0/24"]}, names=Names(reserved, taken), node_names=naming)
        assert {row.object: row.reason for row in found.refused} == {
            "aws/" + row["node"]: row[column] for row in table["rows"] if row[column]
        }
        assert "aws" in found.hosts and "node-1" in [host.node_name for host in found.hosts["aws"]]


# --- a node's claims ----------------------------------------------------------------------------------------------

MESH = fixture("mesh_claims.json")


def _expanded(value: t.Any) -> t.Any:
    if isinstance(value, dict) and "repeat" in value:
        return [value["repeat"]] * value["times"] if value.get("list") else value["repeat"] * value["times"]
    return {key: _expanded(item) for key, item in value.items()} if isinstance(value, dict) else value


def _claim(row: t.Mapping[str, t.Any]) -> t.Any:
    ranges = pod_cidrs_of({"podCIDRs": row["allowed_ips"]})
    return read_claim(row["cluster"], row["node"], row["public_key"], row["endpoint"], ranges)


def _refused(rows: t.Iterable[t.Any], words: t.Collection[str]) -> int:
    count = 0
    for row in rows:
        if row["word"] not in words or row.get("holders"):
            continue
        evil = _expanded(row["claim"])
        good = list(map(_claim, MESH["good_claims"]))
        kept, contested, refused = open_claims(
            [_claim(dict(MESH["evil_claim"], **evil)), *good], MESH["grants"], MESH["own_keys"]
        )
        assert kept == good and not contested
        assert [refusal.reason for refusal in refused] == [row["word"]], row["id"]
        count += 1
    return count


def test_ranges_outside() -> None:
    assert _refused(fixture("mesh_claims.json")["rows"], ["outside_grant"]) > 10


def test_own_and_weak_keys() -> None:
    assert _refused(fixture("mesh_claims.json")["rows"], ["own_key", "weak_key"]) > 5


def test_special_endpoints() -> None:
    assert _refused(fixture("mesh_claims.json")["rows"], ["endpoint_in_overlay", "endpoint_special"]) > 10


def _fabric() -> t.Any:
    made, findings = load_fabric(
        {
            "name": "demo",
            "clusters": {
                "aws": {"pod_cidrs": ["10.2.0.0/16"], "wireguard_port": 51821},
                "gcp": {"pod_cidrs": ["10.4.0.0/16"], "wireguard_port": 51822},
                "merit": {"pod_cidrs": ["10.6.0.0/16"], "wireguard_port": 51823},
            },
            "nodes": {"aws-1": {"multicluster_cluster": "aws"}},
        }
    )
    assert not [finding for finding in findings if finding.level == "error"]
    return made


def _key(number: int) -> str:
    return __import__("base64").b64encode(bytes([number]) * 32).decode()


def _listings(**changes: t.Any) -> dict[str, t.Any]:
    """Three clusters with nodes that announce themselves to aws; changes: of annotations by node."""
    found: dict[str, t.Any] = {
        "aws": {"nodes": [{"metadata": {"name": "aws-1"}, "spec": {"podCIDRs": ["10.2.1.0/24"]}}]}
    }
    found["aws"]["nodes"][0]["status"] = {"addresses": [{"type": "InternalIP", "address": "10.66.0.1"}]}
    for index, cluster in enumerate(("gcp", "merit")):
        rows = []
        for number in (1, 2):
            name = f"{cluster}_{number}"
            notes = {"pubKey": _key(10 * index + number), "endpoint": f"198.51.100.{10 * index + number}:51820"}
            notes.update(changes.get(name, {}))
            rows.append(
                {
                    "metadata": {
                        "name": name.replace("_", "-"),
                        "annotations": {"aws.wireguard.semaphore.uw.io/" + key: value for key, value in notes.items()},
                    },
                    "spec": {"podCIDRs": [f"10.{4 + 2 * index}.{number}.0/24"]},
                }
            )
        found[cluster] = {"nodes": rows}
    return found


def _peers(listings: t.Any, state: t.Any = None) -> tuple[set[str], list[t.Any]]:
    topology = semaphore_topology.plan_semaphore_mesh(_fabric(), listings).to_json()
    devices, turned_away = contests.settle_peers(_devices(topology), state, lambda name: {})
    refused = [*topology["refused"], *(row._asdict() for row in turned_away)]
    return {str(peer.node) for device in devices for peer in device.peers}, refused


def _devices(topology: t.Any) -> t.Sequence[NodeDevice]:
    return [
        parse_node_device(row, "demo")
        for row in semaphore_topology.node_part(MeshPlan.from_json(topology), "aws-1")["devices"]
    ]


def _state() -> NodeState:
    return NodeState("demo", tuple(_devices(semaphore_topology.plan_semaphore_mesh(_fabric(), _listings()).to_json())))


ALL = {"gcp-1", "gcp-2", "merit-1", "merit-2"}


def test_taken_twice() -> None:
    """A key of a node of one cluster that another announces; the cases of all kinds are in test_node_contests."""
    assert fixture("stolen_identities.json")["semaphore"]
    assert _peers(_listings(), _state()) == (ALL, [])
    for victim, thief in (("merit-1", "gcp_1"), ("gcp-1", "merit_1")):
        key = _key(11 if victim == "merit-1" else 1)
        kept, refused = _peers(_listings(**{thief: {"pubKey": key}}), _state())
        assert kept == ALL - {thief.replace("_", "-")} and [row["reason"] for row in refused] == ["claimed_twice"]
        assert refused[0]["object"].endswith("/" + thief.replace("_", "-")) and refused[0]["message"].endswith(
            f"/{victim}, which keeps it"
        )


def test_endpoints_outside_the_nodes() -> None:
    table = fixture("endpoints_outside.json")
    clusters = {
        "aws": {"pod_cidrs": ["10.2.0.0/16"], "wireguard_port": 51821},
        "gcp": {"pod_cidrs": ["10.4.0.0/16"], "wireguard_port": 51822},
    }
    clusters["gcp"]["node_cidrs"] = table["node_cidrs"]
    made, dummy = load_fabric(
        {"name": "demo", "clusters": clusters, "nodes": {"aws-1": {"multicluster_cluster": "aws"}}}
    )
    for endpoint in table["rows"]:
        listings = {name: rows for name, rows in _listings(gcp_1={"endpoint": endpoint}).items() if name != "merit"}
        topology = semaphore_topology.plan_semaphore_mesh(made, listings).to_json()
        assert {peer["node"] for peer in topology["clusters"]["aws"]["remotes"]["gcp"]["peers"]} == {"gcp-2"}, endpoint
        assert [row["reason"] for row in topology["refused"] if row["object"] == "gcp/gcp-1"] == ["outside_grant"], (
            endpoint
        )


def test_handed_out_addresses() -> None:
    table = fixture("handed_out_addresses.json")
    pools = PrefixSet.of_texts(table["pools"])
    for row in table["rows"]:
        assert set(held_for_others([*table["own"], row], pools)) == {row["address"]}, row
    assert held_for_others(table["own"], pools) == {}


def test_one_broken_annotation() -> None:
    for row in fixture("broken_annotations.json")["rows"]:
        kept, refused = _peers(_listings(gcp_1={row["annotation"]: row["value"]}), _state())
        assert kept == ALL - {"gcp-1"}, row
        assert [item["reason"] for item in refused] == ([row["word"]] if row["word"] else []), row
        assert all(item["message"].isascii() and item["message"].isprintable() for item in refused)


# --- Services, names, policies --------------------------------------------------------------------------------------


def test_special_service_endpoints() -> None:
    table = fixture("service_endpoints.json")
    guard = Guard(table["grants"], table["servers"], table["own_servers"])
    for row in table["rows"]:
        source = row.get("source", "aws")
        good = table["good"] if source == "aws" else []
        group = Group(
            None,
            ({"name": "http", "port": 80, "protocol": "TCP"},),
            tuple(Endpoint((ip,), {"ready": True}) for ip in (row["address"], *good)),
        )
        groups, refused = check_groups([group], source, source + "/shop/web", guard)
        assert [ip for one in groups for endpoint in one.endpoints for ip in endpoint.addresses] == good
        assert [item.reason for item in refused] == [row["word"]] and row["word"] in (
            "special_address",
            "outside_grant",
            "bad_address",
        ), row


def test_host_network_endpoints() -> None:
    table = fixture("host_network_endpoints.json")
    for allowed in (False, True):
        guard = Guard(table["grants"], allow_host_network=allowed)
        for row in table["rows"]:
            bad = Endpoint((row["address"],), {"ready": True})
            group = Group(
                None,
                ({"name": "http", "port": 80, "protocol": "TCP"},),
                (bad, *(Endpoint((ip,), {"ready": True}) for ip in table["good"])),
            )
            groups, refused = check_groups([group], "aws", "aws/shop/web", guard)
            written = [ip for one in groups for endpoint in one.endpoints for ip in endpoint.addresses]
            accepted = allowed and row["word"] == "host_network_in_clear"
            assert written == [row["address"]] * accepted + table["good"], row
            assert [item.reason for item in refused] == [row["word"]] * (not accepted), row
            kinds = "pod and node ranges" if allowed else "pod ranges that"
            assert (
                accepted
                or row["word"] != "outside_grant"
                or row["address"].startswith("10.22")
                or kinds in refused[0].message
            )


def test_steering_services() -> None:
    table = fixture("steering_services.json")
    honest = {"metadata": {"namespace": "shop", "name": "web"}, "spec": table["good"]}
    desired = mirror_services.mirror_service("gcp", "sys-semaphore", honest)
    for row in table["rows"]:
        evil = copy.deepcopy(honest)
        evil["metadata"].update(row.get("metadata", {}))
        evil["spec"].update(row.get("spec", {}))
        evil["spec"]["ports"][0].update(row.get("ports", {}))
        made = mirror_services.mirror_service("gcp", "sys-semaphore", evil)
        assert made == desired, row


def test_mirrors_of_one_name() -> None:
    for one, two in fixture("mirrors_of_one_name.json")["pairs"]:
        found = names.collisions(
            (names.mirror_name(*source).name, tuple(source)) for source in (one, two, ["aws", "x", "y"])
        )
        (pair,) = found.values()
        assert sorted(pair) == sorted([tuple(one), tuple(two)])
        for live in pair:
            assert names.name_holder(pair, [live]) == live


def test_names_with_expressions() -> None:
    table = fixture("dns_names.json")
    rules = coredns_rules.rewrite_rules(table["clusters"], "sys-semaphore")
    for case in table["cases"]:
        found = coredns_rules.rewrite_name(rules, case["query"])
        assert (found.name, found.rcode) == (case["name"], case.get("rcode")), case


def test_short_prefixes() -> None:
    table = fixture("network_sets.json")
    members, unreadable = members_of("gcp", [case["pod"] for case in table["cases"]], now=1_700_000_000.0)
    kept, beyond = check_members("gcp", members, table["grants"])
    named, _clashes = name_sets(kept)
    assert {one.name: list(one.nets) for one in named} == table["admitted"] and unreadable and beyond


# --- what people see, tenants, providers ----------------------------------------------------------------------------


def test_templates_shells_and_html() -> None:
    for text in fixture("status_page.json"):
        facts = fabrics.facts({"aws": 1, "gcp": 1})
        facts["refused"] = [{"where": text, "object": text, "reason": text, "message": text}]
        facts["fabric"] = text
        shown = page.render(model.build(facts))
        assert shown.count("<script") == 1 and "onerror=" not in re.sub(r"&[a-z#0-9]+;[^<]*", "", shown)
        # and at the end of a run nothing that a refusal quotes is a template
        assert all(
            "{{" not in line and "{%" not in line
            for line in refused_lines([{"object": text, "reason": "x", "message": text}], {})
        )


def test_provider_ids_of_others() -> None:
    from _tenants import test_claims as tenants

    cases = [case for case in fixture("tenants.json")["cases"] if "provider" in case["why"]]
    assert cases
    for case in cases:
        world = tenants.honest()
        for given in case["objects"]:
            obj = tenants.evil(given)
            world.source._put(key_of(obj), obj)
        for _turn in range(3):
            result = world.sync()
        assert {refusal.reason for refusal in result.refused} == ({case["word"]} if case["word"] else set()), case[
            "why"
        ]
        assert tenants.seen(world) == tenants.REFERENCE


def test_strange_objects() -> None:
    for row in fixture("forms_of_answers.json")["objects"]:
        seen = Clusters([])
        seen.clients = t.cast(t.Any, {"evil": row["object"], "good": {"metadata": {"uid": "u"}}})
        assert seen.read("look", lambda name, client: client["metadata"].get("uid")) == {"good": "u"}
        assert [(one["cluster"], one["reason"]) for one in seen.failures] == [("evil", "bad_answer")]


def test_pools_of_others() -> None:
    table = fixture("load_balancers.json")
    others = {"victim": parse_pool(table["pools"]["victim"])}
    owner = reservations.Owner("metal-ccm", table["cluster_uid"])
    good = Service(**table["good"])
    seen = 0
    for row in table["pools_of_others"]:
        if row.get("address"):
            evil = Service("evil", "a", address=row["address"])
            kept, refused = check_address_claims([evil, good], [], AddressRules(owner, others=others))
            assert kept == [good] and [one.reason for one in refused] == [row["word"]]
            seen += 1
        if row.get("record"):
            entry = Entry("192.0.2.5", "192.0.2.5", 32, ())._replace(**row["record"])
            believed_, left_out = believed({"x": entry, "good": Entry("good", "192.0.2.1", 32, ())}, others)
            assert [one.cidr for one in believed_.values()] == [32] * (1 if row["word"] else 2)
            assert [error.reason for unused, error in left_out] == ([row["word"]] if row["word"] else [])
            seen += 1
    assert seen > 4


def test_addresses_of_something_else() -> None:
    table = fixture("load_balancers.json")
    reserved = Reserved(parse_pool(["192.0.2.0/29"]), table["reserved_ranges"])
    rules = AddressRules(reservations.Owner("metal-ccm", table["cluster_uid"]), reserved=reserved)
    good = Service(**table["good"])
    for row in table["addresses_of_something_else"]:
        kept, refused = check_address_claims([Service("evil", "a", address=row["address"]), good], [], rules)
        assert kept == [good] and [one.reason for one in refused] == ["outside_grant"], row["why"]
        believed_, left_out = believed(
            {"x": Entry("x", row["address"], 32, ()), "good": Entry("good", "192.0.2.1", 32, ())}, {}, reserved
        )
        assert list(believed_) == ["good"] and [error.reason for unused, error in left_out] == ["outside_grant"], row[
            "why"
        ]


def test_uids_of_others() -> None:
    rows = fixture("load_balancers.json")["cluster_uids"]
    for row in rows:
        refused = check_uids(row["answers"], row.get("pinned", {}))
        assert {name: error.reason for name, error in refused.items()} == row["refused"] and "good" not in refused, row[
            "why"
        ]
    assert any(len(row["refused"]) == 2 for row in rows) and any(row.get("unproven") for row in rows)


def test_settings_that_lead_elsewhere() -> None:
    for row in fixture("load_balancers.json")["secrets_with_settings"]:
        entry = {"cluster": "evil", "provider": "equinix_metal", "load_balancer": "kube-vip://", **row["inventory"]}
        good = dict(entry, cluster="good", api_key="t", project_id="p")
        texts = {"evil": row.get("text", json.dumps(row.get("secret")))}
        found, refused = parse_setups([entry, good], row.get("environment", {}), texts, ["evil"])
        assert [error.reason for error in refused.values()] == (
            [row["word"]] if row["word"] else []
        ) and "good" in found, row["why"]


def test_reservations_tagged_as_ours() -> None:
    table = fixture("load_balancers.json")
    owner = reservations.Owner("metal-ccm", table["cluster_uid"])
    good = Service(**table["good"])

    def reservation(row: t.Any) -> t.Any:
        mine = owner._replace(
            cluster_uid=row.get("cluster", owner.cluster_uid), identity=row.get("identity", owner.identity)
        )
        tags = (
            row["tags"]
            if "tags" in row
            else reservations.service_tags(mine, *row.get("for", "default/good").split("/"))
        )
        return reservations.Reservation(row["id"], row["address"], tags=tuple(tags))

    for row in table["spoofed_tags"]:
        held = [reservation(item) for item in row["reservations"]]
        context = service_plan.Context(owner, Places("da"))
        with pytest.raises(ValueRefused) as refused:
            service_plan.outcome_of(good._replace(address=""), held, context)
        assert (
            refused.value.reason == "claimed_twice"
            and "good" in refused.value.message
            and "spoof" in refused.value.message
        )
        known = context._replace(recorded=frozenset(["good"]))
        assert service_plan.outcome_of(good._replace(address=""), held, known).actions[0].address == "192.0.2.1"


def test_edited_pods() -> None:
    """Each change is refused by its name in test_node_pod_choice; here all of them, and a pod as the role writes it."""
    spec = node_pod_manifests("demo", "x:1")[1]["spec"]["template"]["spec"]
    assert not edit_of(spec, "demo", "x:1") and "node_access_image" in edit_of(spec, "demo", "x:2")
    for row in fixture("node_pods.json")["rows"]:
        inner: t.Any = copy.deepcopy(spec)
        whole = inner
        for step in row["path"][:-1]:
            inner = inner[step]
        if row["do"] == "append":
            inner[row["path"][-1]].append(row["value"])
        elif row["do"] == "remove":
            del inner[row["path"][-1]]
        else:
            inner[row["path"][-1]] = row["value"]
        assert row["named"] in edit_of(whole, "demo"), row


def test_other_pods() -> None:
    """The shell line that refuses is run in test_node_pod_manifests, servers that lie in test_node_pod (connection)."""
    kept: list[bytes] = []
    for text in fixture("node_pods.json")["outputs"]:
        proof = Proof(kept.append)
        with contextlib.suppress(ValueError):
            proof(text.encode("ascii"))
        assert not proof.given() and not kept
    proof = Proof(kept.append)
    proof(b"multicluster node")
    assert not proof.given()
    proof(b" pod\nout")
    assert proof.given() and kept == [b"out"]


def test_lookalikes() -> None:
    """Every parser has this in test_lookalikes; here a host name and a key that a node announces."""
    rows = [row for row in fixture("broken_annotations.json")["rows"] if not row["value"].isascii()]
    assert len(rows) >= 3
    for row in rows:
        assert "gcp-1" not in _peers(_listings(gcp_1={row["annotation"]: row["value"]}))[0]


def test_who_holds_a_thing_keeps_it() -> None:
    state = _state()
    listings = _listings(gcp_1={"pubKey": _key(11)})
    assert _peers(listings, state)[0] == ALL - {"gcp-1"}
    # a holder in a cluster that cannot be read keeps it as well, one in a cluster that claims it no longer does not
    away = dict(listings, merit={"error": {"reason": "unreachable", "message": "no answer"}})
    assert _peers(away, state)[0] == {"gcp-2"}
    gone = copy.deepcopy(listings)
    gone["merit"]["nodes"] = gone["merit"]["nodes"][1:]
    assert _peers(gone, state)[0] == {"gcp-1", "gcp-2", "merit-2"}


def test_the_run_says_at_its_end_who_was_refused() -> None:
    _kept, refused = _peers(_listings(gcp_1={"pubKey": _key(11)}), _state())
    by_host = {f"aws-{number}": refused for number in range(1, 6)}
    (line,) = refused_lines([], by_host)
    assert (
        line.startswith("refused: gcp/gcp-1: key ")
        and "held by merit/merit-1" in line
        and line.endswith("(refused by aws-1, aws-2, aws-3 and 2 more)")
    )
    assert len(refused_lines([{"object": str(n), "reason": "x", "message": "m"} for n in range(1000)], {})) == 40
    hostvars = {
        "gcp": {},
        "merit": {},
        "aws": {"run.mesh_plan": {"refused_before": ["refused: gcp/x: y [z]"]}},
        **{host: {"multicluster_cluster": "aws", "run.node_dataplane": {"refused": refused}} for host in by_host},
    }
    shown = run_outcome(hostvars, {"clusters": ["aws", "gcp", "merit"]}, ["mesh"], list(hostvars), list(hostvars))
    assert shown["ok"] and shown["text"][-2:] == [line, "fixed in this run: refused: gcp/x: y [z]"]
