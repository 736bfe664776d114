# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pod ranges of nodes, from objects that real CNIs wrote (tests/fixtures/cni) and from hostile ones."""

from __future__ import annotations

import copy
import ipaddress
import json
import pathlib

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric import pod_range_readers, pod_ranges
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.pod_range_readers import Objects
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.pod_ranges import NodeRanges
from ansible_collections.multicluster.network.plugins.module_utils._values.prefix_sets import PrefixSet
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, strategies as st

FIXTURES = pathlib.Path(__file__).parents[4] / "fixtures" / "cni"
WIDE = ["10.0.0.0/8", "192.168.0.0/16"]


def recorded(name, *kinds):
    document = json.loads((FIXTURES / (name + ".json")).read_text())
    items = document.get("items", [document])
    return [item for item in items if item["kind"] in kinds]


def calico(name):
    return Objects(affinities=recorded(name, "BlockAffinity"), blocks=recorded(name, "IPAMBlock"))


def nodes(*names, **cidrs):
    given = {
        **dict.fromkeys(names, ["10.244.0.0/24"]),
        **{key.replace("_", "-"): value for key, value in cidrs.items()},
    }
    return {name: {"name": name, "podCIDRs": value, "annotations": {}} for name, value in given.items()}


CAL = nodes("cal-node-1", "cal-node-2")


def read(asked, own, objects, granted=(), **more):
    return pod_ranges.read_ranges("cal", asked, own, objects, PrefixSet.of_texts(granted or WIDE), **more)


def texts(found):
    return {
        name: (list(map(str, one.networks)), list(map(str, one.borrowed)))
        for name, one in found.nodes.items()
        if isinstance(one, NodeRanges)
    }


# --- Calico -------------------------------------------------------------------------------------------------------


def test_a_node_without_a_pod_has_its_block_already():
    found = read("auto", CAL, calico("ipam-0-tunnel-only"))
    assert (found.source, found.refused, found.notes, found.failure) == ("calico", [], [], None)
    assert texts(found) == {
        "cal-node-1": (["192.168.185.64/26"], []),
        "cal-node-2": (["192.168.194.128/26"], []),
    }


def test_70_allocations_take_a_second_block():
    found = texts(read("auto", CAL, calico("ipam-2-70-allocations")))
    assert found["cal-node-1"] == (["192.168.185.64/26", "192.168.185.128/26"], [])


def test_a_borrowed_address_is_inside_the_block_of_another_node():
    found = read("calico", CAL, calico("ipam-3-borrowed"))
    assert found.refused == []
    assert texts(found) == {
        "cal-node-1": (["10.251.0.0/26", "192.168.185.64/26", "192.168.185.128/26"], []),
        # the block of ghost-1, which is no node any more, is nobody's
        "cal-node-2": (["192.168.194.128/26"], ["10.251.0.1/32", "10.251.0.2/32"]),
    }


@pytest.mark.parametrize("step", json.loads((FIXTURES / "calico-run.json").read_text()), ids=lambda step: step["step"])
def test_each_step_of_a_run_of_calico(step):
    """What tests/cni/test_calico.py saw, with the owners of addresses that it worked out by itself."""
    kinds = {kind: [item for item in step["items"] if item["kind"] == kind] for kind in ("BlockAffinity", "IPAMBlock")}
    found = read("auto", nodes(*step["nodes"]), Objects(affinities=kinds["BlockAffinity"], blocks=kinds["IPAMBlock"]))
    assert (found.source, found.refused, found.notes, found.failure) == ("calico", [], [], None)

    def joined(rows):
        return list(map(str, ipaddress.collapse_addresses(map(ipaddress.ip_network, rows))))

    assert {node: joined(networks + borrowed) for node, (networks, borrowed) in texts(found).items()} == {
        node: joined(rows) for node, rows in step["ranges"].items()
    }


def test_a_block_that_moved_is_its_new_nodes_and_joins_nothing_of_the_old():
    found = texts(read("auto", CAL, calico("ipam-9-block-moved")))
    assert "10.251.0.64/26" in found["cal-node-2"][0] and "10.251.0.64/26" not in found["cal-node-1"][0]
    assert found["cal-node-2"][1] == ["10.251.0.1/32", "10.251.0.2/31"]


def test_no_tunnel_is_a_pod():
    objects = calico("ipam-10-borrowed-vxlan")
    found = texts(read("auto", CAL, objects))
    assert found["cal-node-2"][1] == ["10.251.0.1/32", "10.251.0.2/31", "10.252.0.1/32"]
    moved = copy.deepcopy(objects)
    for block in moved.blocks:
        for row in block["spec"]["attributes"]:
            if (row.get("secondary") or {}).get("type") == "vxlanTunnelAddress":
                row["secondary"]["node"] = "cal-node-2" if row["secondary"]["node"] == "cal-node-1" else "cal-node-1"
    assert texts(read("auto", CAL, moved)) == found


def test_both_api_groups_say_the_same():
    found = texts(read("auto", nodes("gcp-node-1", "gcp-node-2"), calico("ipam-v3-crds")))
    assert found == {"gcp-node-1": (["10.9.0.144/28"], []), "gcp-node-2": (["10.9.0.240/28"], [])}


@pytest.mark.parametrize("changed", [{"state": "pending"}, {"state": "pendingDeletion"}, {"deleted": "true"}, {"deleted": True}])  # fmt: skip
def test_what_is_on_its_way_is_no_range_yet_and_its_pods_keep_their_addresses(changed):
    objects = calico("ipam-2-70-allocations")
    first = next(item for item in objects.affinities if item["spec"]["cidr"] == "192.168.185.128/26")
    first["spec"].update(changed)
    found = read("auto", CAL, objects)
    own, borrowed = texts(found)["cal-node-1"]
    assert own == ["192.168.185.64/26"] and found.refused == []
    held = [ipaddress.ip_network(text) for text in borrowed]
    block = next(item["spec"] for item in objects.blocks if item["spec"]["cidr"] == "192.168.185.128/26")
    assert sum(network.num_addresses for network in held) == len(
        [one for one in block["allocations"] if one is not None]
    )


def test_a_block_knows_of_a_move_that_an_older_list_of_affinities_does_not():
    objects = calico("ipam-9-block-moved")
    for affinity in objects.affinities:
        if affinity["spec"]["cidr"] == "10.251.0.64/26":
            affinity["spec"]["node"] = "cal-node-1"
    found = read("auto", CAL, objects)
    assert "10.251.0.64/26" in texts(found)["cal-node-2"][0] and found.refused == []


def test_two_affinities_for_one_block_and_no_block_are_refused_by_name_and_the_rest_goes_on():
    objects = calico("ipam-0-tunnel-only")
    twin = copy.deepcopy(objects.affinities[0])
    twin["spec"]["node"] = "cal-node-2"
    found = read("auto", CAL, Objects([*objects.affinities, twin], []))
    assert [(row.object, row.reason) for row in found.refused] == [("cal/cal-node-2", "claimed_twice")]
    assert "192.168.185.64/26" in found.refused[0].message and "of cal-node-1" in found.refused[0].message
    assert isinstance(found.nodes["cal-node-1"], ValueRefused) and texts(found) == {
        "cal-node-2": (["192.168.194.128/26"], [])
    }


def affinity(node, cidr, **more):
    spec = {"cidr": cidr, "node": node, "state": "confirmed", "deleted": "false", **more}
    return {"metadata": {"name": f"{node}-{cidr}".replace("/", "-")}, "spec": spec}


def test_a_wide_range_pushes_nobody_out():
    rows = [
        affinity("a", "10.1.0.0/26"),
        affinity("b", "10.1.0.64/26"),
        affinity("c", "10.0.0.0/8"),
        affinity("c", "192.168.0.0/26"),
    ]
    found = read("auto", nodes("a", "b", "c"), Objects(rows, []))
    assert texts(found) == {"a": (["10.1.0.0/26"], []), "b": (["10.1.0.64/26"], []), "c": (["192.168.0.0/26"], [])}
    assert [(row.object, row.reason) for row in found.refused] == [("cal/c", "claimed_twice")]


def test_neighbouring_blocks_are_joined():
    found = read("auto", nodes("a"), Objects([affinity("a", "10.1.0.0/26"), affinity("a", "10.1.0.64/26")], []))
    assert texts(found) == {"a": (["10.1.0.0/25"], [])}


def test_a_range_outside_the_grant_is_refused_by_name_with_the_variable():
    found = read("auto", CAL, calico("ipam-3-borrowed"), ["192.168.0.0/16"])
    assert texts(found)["cal-node-1"] == (["192.168.185.64/26", "192.168.185.128/26"], [])
    assert {(row.object, row.reason) for row in found.refused} == {
        ("cal/cal-node-1", "outside_grant"),
        ("cal/cal-node-2", "outside_grant"),
    }
    assert "10.251.0.0/26 (BlockAffinity 'cal-node-1-10-251-0-0-26')" in found.refused[0].message
    assert "pod_cidrs of clusters/cal would grant it" in found.refused[0].message
    nothing = read("auto", CAL, calico("ipam-0-tunnel-only"), ["10.244.0.0/16"])
    assert {one.reason for one in nothing.nodes.values()} == {"outside_grant"}, (
        "a node without any range that holds is no empty one"
    )


@pytest.mark.parametrize("cidr", [7, None, "x", "10.0.0.0/33", "10.1.0.5/26"])
def test_what_is_no_range_is_refused_by_name(cidr):
    found = read("calico", nodes("a", "b"), Objects([affinity("a", cidr), affinity("b", "10.1.0.0/26")], []))
    assert isinstance(found.nodes["a"], ValueRefused) and found.nodes["a"].reason == "bad_pod_cidr"
    assert texts(found) == {"b": (["10.1.0.0/26"], [])}


def test_more_ranges_than_a_node_may_have_are_left_out_and_counted():
    rows = [affinity("a", f"10.{number // 64}.{number % 64 * 2}.0/26") for number in range(300)]
    found = read("auto", nodes("a"), Objects(rows, []))
    assert len(found.nodes["a"].networks) == 256 and "44 ranges more than 256" in found.refused[0].message


def test_a_second_family_that_the_inventory_leaves_out_is_no_fault():
    rows = [affinity("a", "10.1.0.0/26"), affinity("a", "fd00:1::/122")]
    found = read("auto", nodes("a"), Objects(rows, []), ["10.0.0.0/8"], versions={4})
    assert texts(found) == {"a": (["10.1.0.0/26"], [])} and found.refused == []


# --- Cilium, OVN-Kubernetes, Pods ---------------------------------------------------------------------------------


def test_cilium_in_both_modes():
    own = nodes("gcp-node-1", "gcp-node-2")
    pool = read("auto", own, Objects(cilium_nodes=recorded("ciliumnodes-cluster-pool", "CiliumNode")))
    assert pool.source == "cilium" and texts(pool) == {
        "gcp-node-1": (["10.0.0.0/24"], []),
        "gcp-node-2": (["10.0.1.0/24"], []),
    }
    many = read("cilium", own, Objects(cilium_nodes=recorded("ciliumnodes-multi-pool", "CiliumNode")))
    assert texts(many) == {"gcp-node-1": (["10.11.0.0/26"], []), "gcp-node-2": (["10.11.0.64/26"], [])}


def test_a_cilium_node_with_a_taken_range_has_none_which_is_no_fault_and_is_reported():
    cilium = recorded("ciliumnodes-cluster-pool", "CiliumNode") + recorded("ciliumnode-clash", "CiliumNode")
    found = read("auto", nodes("gcp-node-1", "gcp-node-2", "clash"), Objects(cilium_nodes=cilium))
    assert texts(found)["clash"] == ([], []) and found.refused == []
    (note,) = found.notes
    assert "CiliumNodes give no range to clash" in note


def test_ovn_is_a_note_of_the_node():
    own = nodes(a=None, b=None, c=None)
    own["a"]["annotations"] = {pod_range_readers.OVN_NOTE: '{"default": ["10.128.0.0/23", "fd01::/64"]}'}
    own["b"]["annotations"] = {pod_range_readers.OVN_NOTE: '{"default": "10.128.2.0/23", "blue": "10.9.0.0/24"}'}
    own["c"]["annotations"] = {pod_range_readers.OVN_NOTE: "{"}
    found = read("auto", own, Objects(), ["10.0.0.0/8", "fd01::/48"])
    assert found.source == "ovn" and texts(found) == {
        "a": (["10.128.0.0/23", "fd01::/64"], []),
        "b": (["10.128.2.0/23"], []),
    }
    assert found.nodes["c"].reason == "bad_pod_cidr"


def pod(name, node, *addresses, phase="Running", host=False):
    status = {"phase": phase, "podIPs": [{"ip": address} for address in addresses]}
    return {
        "metadata": {"namespace": "shop", "name": name},
        "spec": {"nodeName": node, "hostNetwork": host},
        "status": status,
    }


def test_pods_are_read_where_nothing_else_has_it():
    own = nodes(a=None, b=None)
    pods = [
        pod("1", "a", "10.1.0.4"),
        pod("2", "a", "10.1.0.6"),
        pod("3", "b", "10.1.0.8"),
        pod("4", "a", "10.1.0.10"),
        pod("5", "a", "10.9.9.9", phase="Failed"),
        pod("6", "b", "10.66.0.1", host=True),
        pod("7", "gone", "10.1.0.5"),
        pod("8", "b"),
    ]
    assert pod_ranges.wants_pods("auto", own, Objects()) and not pod_ranges.wants_pods("auto", nodes("a"), Objects())
    found = read("auto", own, Objects(pods=pods))
    assert found.source == "pods" and texts(found) == {
        "a": (["10.1.0.4/30", "10.1.0.10/32"], []),
        "b": (["10.1.0.8/32"], []),
    }


def test_one_address_of_pods_of_two_nodes_is_refused_for_both():
    found = read(
        "pods",
        nodes("a", "b"),
        Objects(pods=[pod("1", "a", "10.1.0.4"), pod("2", "b", "10.1.0.4"), pod("3", "b", "10.1.0.6")]),
    )
    assert found.nodes["a"].reason == "claimed_twice" and texts(found) == {"b": (["10.1.0.6/32"], [])}


SOME = st.lists(st.tuples(st.integers(0, 255), st.sampled_from("abc")), max_size=60, unique_by=lambda row: row[0])


@given(SOME)
def test_prefixes_of_pods_hold_every_pod_of_the_node_and_none_of_another(rows):
    pods = [pod(str(number), node, f"10.1.0.{number}") for number, node in rows]
    found = read("pods", nodes("a", "b", "c"), Objects(pods=pods), ["10.1.0.0/24"])
    if found.failure:
        assert not rows
        return
    sets = {name: PrefixSet.of(one.networks) for name, one in found.nodes.items()}
    for number, node in rows:
        address = ipaddress.ip_address(f"10.1.0.{number}")
        assert {name for name, one in sets.items() if address in one} == {node}
    for one, other in [("a", "b"), ("a", "c"), ("b", "c")]:
        assert not sets[one] & sets[other]
    # no smaller number would do: whatever holds two of them holds an address of another node too
    for name, ranges in found.nodes.items():
        for first, second in zip(ranges.networks, ranges.networks[1:]):
            low, high = int(first.network_address), int(second.broadcast_address)
            bits = (low ^ high).bit_length()
            around = ipaddress.ip_network((low >> bits << bits, 32 - bits))
            assert any(ipaddress.ip_address(f"10.1.0.{number}") in around for number, node in rows if node != name)


# --- which source -------------------------------------------------------------------------------------------------


def test_node_is_as_it_was_and_no_object_changes_it():
    found = read("node", CAL, calico("ipam-0-tunnel-only"))
    assert (found.source, found.nodes, found.notes, found.failure) == ("node", {}, [], None)


def test_a_network_plugin_without_ranges_of_its_own_leaves_it_to_the_nodes():
    assert read("auto", CAL, Objects()).source == "node"
    assert read("auto", CAL, Objects(affinities=[], blocks=[], cilium_nodes=[])).source == "node"
    ghosts = [item for item in recorded("ipam-3-borrowed", "BlockAffinity") if item["spec"]["node"] == "ghost-1"]
    assert read("auto", CAL, Objects(affinities=ghosts, blocks=[])).source == "node"


def test_a_pool_without_a_block_is_reported_and_peers_keep_their_ranges():
    pool = {"metadata": {"name": "default-ipv4-ippool"}, "spec": {"cidr": "192.168.0.0/16", "disabled": False}}
    found = read("auto", CAL, Objects(affinities=[], blocks=[], pools=[pool]))
    (note,) = found.notes
    assert found.source == "node" and found.unsure and "default-ipv4-ippool" in note and "set pod_ranges" in note
    assert read("node", CAL, Objects(affinities=[], blocks=[], pools=[pool])).notes == []
    other = [
        dict(pool, spec=dict(pool["spec"], disabled=True)),
        dict(pool, spec=dict(pool["spec"], allowedUses=["Tunnel"])),
    ]
    assert read("auto", CAL, Objects(affinities=[], blocks=[], pools=[*other, {"spec": {"cidr": 7}}])).notes == []


def test_ranges_of_the_inventory_are_the_source_of_their_cluster():
    declared = {"cal-node-1": ["192.168.4.0/24"], "gone": ["192.168.5.0/24"]}
    found = read("inventory", CAL, calico("ipam-0-tunnel-only")._replace(declared=declared))
    assert (found.source, found.failure, found.refused) == ("inventory", None, [])
    assert texts(found) == {"cal-node-1": (["192.168.4.0/24"], []), "cal-node-2": ([], [])}
    assert "node_pod_cidrs of hosts give no range to cal-node-2" in found.notes[0]


def test_what_may_not_be_listed_leaves_auto_with_the_nodes_and_names_the_way_out():
    found = read("auto", CAL, Objects(affinities=[], forbidden={"calico": "ipamblocks.crd.projectcalico.org"}))
    assert (found.source, found.failure) == ("node", None)
    (note,) = found.notes
    assert (
        "may not list ipamblocks.crd.projectcalico.org" in note
        and "cluster_access_capability: mesh" in note
        and "pod_ranges: node" in note
    )


@pytest.mark.parametrize("asked, objects, text", [
    ("calico", Objects(forbidden={"calico": "blockaffinities.crd.projectcalico.org"}), "cluster_access_capability: mesh"),
    ("calico", Objects(), "its API server has no BlockAffinities"),
    ("cilium", Objects(), "its API server has no CiliumNodes"),
    ("pods", Objects(forbidden={"pods": "pods"}), "cluster_access_capability: mesh_pods"),
    ("calico", Objects(affinities=[], blocks=[]), "give no node a range"),
    ("ovn", Objects(), "give no node a range"),
])  # fmt: skip
def test_a_source_that_was_asked_for_and_is_incomplete_changes_nothing(asked, objects, text):
    found = read(asked, CAL, objects)
    assert found.failure and text in found.failure and "clusters/cal" in found.failure and found.nodes == {}


def test_cilium_comes_before_calico_and_nothing_is_mixed():
    cilium = [{"metadata": {"name": "cal-node-1"}, "spec": {"ipam": {"podCIDRs": ["10.0.3.0/24"]}}}]
    found = read("auto", CAL, calico("ipam-0-tunnel-only")._replace(cilium_nodes=cilium))
    assert found.source == "cilium" and texts(found) == {"cal-node-1": (["10.0.3.0/24"], []), "cal-node-2": ([], [])}


# --- whatever a cluster writes ------------------------------------------------------------------------------------

ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 5)
    | st.sampled_from(["10.1.0.0/26", "a", "host:a", "confirmed", "10.1.0.3", "x"])
    | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["secondary", "node", "type", "cidrs", "allocated", "podCIDRs", "pools", "ip", "pool", "handle_id"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)
FIELDS = [
    "cidr",
    "node",
    "state",
    "deleted",
    "type",
    "affinity",
    "allocations",
    "attributes",
    "ipam",
    "nodeName",
    "hostNetwork",
]
OBJECTS = st.lists(
    st.fixed_dictionaries(
        {
            "metadata": st.fixed_dictionaries({"name": st.sampled_from(["a", "b"]) | st.text(min_size=1, max_size=4)}),
            "spec": st.none() | st.dictionaries(st.sampled_from(FIELDS), ANYTHING, max_size=5),
            "status": st.none() | st.dictionaries(st.sampled_from(["podIPs", "podIP", "phase"]), ANYTHING, max_size=3),
        }
    ),
    max_size=4,
)


@given(OBJECTS, OBJECTS, OBJECTS, OBJECTS, st.sampled_from(pod_ranges.SOURCES))
def test_whatever_a_cluster_writes_is_read_or_refused(affinities, blocks, cilium, pods, asked):
    own = nodes("a", "b")
    found = read(asked, own, Objects(affinities, blocks, cilium, pods))
    for name, one in found.nodes.items():
        assert name in own
        if isinstance(one, NodeRanges):
            assert all(PrefixSet.of_texts(WIDE).covers(network) for network in (*one.networks, *one.borrowed))
    assert all(row.message.isprintable() for row in found.refused)
    assert all(note.isprintable() for note in found.notes)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 63), st.integers(24, 28)), max_size=24))
def test_no_two_nodes_keep_a_range_that_overlaps(rows):
    given_rows = [
        affinity(node, str(ipaddress.ip_network(f"10.1.{place // 8}.{place % 8 * 32}/{length}", strict=False)))
        for node, place, length in rows
    ]
    found = read("auto", nodes("a", "b", "c"), Objects(given_rows, []))
    sets = [PrefixSet.of(one.networks) for one in found.nodes.values() if isinstance(one, NodeRanges)]
    assert not any(one & other for place, one in enumerate(sets) for other in sets[place + 1 :])
    for row in given_rows:  # what nobody contests stays
        mine = ipaddress.ip_network(row["spec"]["cidr"])
        if not any(
            mine.overlaps(ipaddress.ip_network(other["spec"]["cidr"]))
            for other in given_rows
            if other["spec"]["node"] != row["spec"]["node"]
        ):
            assert PrefixSet.of(found.nodes[row["spec"]["node"]].networks).covers(mine)


def test_each_source_has_a_sentence():
    shown = {name: {"source": name, "notes": []} for name in (*pod_ranges.SOURCES, pod_range_readers.INVENTORY)}
    lines = pod_ranges.source_lines(dict(shown, strange={"source": "other"}, none=None))
    assert len(lines) == len(shown) and "pod ranges of cilium: CiliumNodes (pod_ranges: cilium)" in lines
    assert any("the first run that asks it" in line and "pod_ranges: auto" in line for line in lines)
