# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""MetalLB's configuration: the owned part changes, everybody else's comes out byte for byte."""

from __future__ import annotations

import copy

import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers import yaml_edit
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.bgp.values import NodeBgp
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.metallb import (
    config as mc,
    resources as metallb_names,
    resources as mr,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, settings, strategies as st

N1 = NodeBgp("n1", "10.0.0.1", 65000, 65530, ("169.254.255.1", "169.254.255.2"))
N2 = N1._replace(name="n2", source_ip="10.0.0.2")
WEB, API = ("default", "web"), ("default", "api")
LISTS = (mc.PEERS, mc.POOLS)
USERS = """# my network
peers:   # routers of the house
  - peer-address: 192.0.2.1   # top of rack
    my-asn: 64512
    peer-asn: 0xFC01
    hold-time: "30s"
    ebgp-multihop: yes

  # the other one
  - {peer-address: 192.0.2.2, my-asn: 64512, peer-asn: 64513, bfd-profile: fast}
bgp-communities:
    no-adv: 65535:65282
address-pools:
- name: lan
  protocol: layer2
  addresses:
  - 192.168.1.240/28
# keep this
bfd-profiles:
- name: fast
  receive-interval: 380
"""


def run(text, options, *steps):
    config = mc.Config(yaml_edit.parse_document(text), options)
    for step in steps:
        step(config)
    return yaml_edit.edit(text, config.document, LISTS)


def both(config):
    config.sync_nodes([N1, N2])
    config.sync_services({WEB: "147.75.10.1/32", API: "147.75.10.2/32"}, [N1, N2])


def none(config):
    config.sync_services({})
    config.sync_nodes([], cluster_nodes=[])


@pytest.mark.parametrize("tracking", [mc.NODE, mc.SERVICE])
@pytest.mark.parametrize(
    "text",
    [
        USERS,
        USERS.replace("\n", "\r\n"),
        USERS.rstrip("\n"),
        "# nothing\n",
        "a: 1",
        "peers:\n",
        "peers: []  # mine\nx: {}\n",
    ],
)
def test_owned_in_changed_and_out(text, tracking):
    options = mc.Options(tracking)
    written = run(text, options, both)
    document = yaml.safe_load(written)
    assert [pool["name"] for pool in document["address-pools"][-2:]] == ["default/api", "default/web"]
    assert len([peer for peer in document["peers"] if peer["peer-address"].startswith("169.")]) == 4
    kept = set(text.splitlines()) - {"peers: []  # mine", "peers:"}
    assert kept <= set(written.splitlines())
    assert run(written, options, both) == written
    moved = run(written, options, lambda config: config.sync_nodes([N1._replace(local_asn=65001), N2]))
    assert set(moved.splitlines()) - set(written.splitlines()) == {
        "  - my-asn: 65001" if "  - peer-address" in text else "- my-asn: 65001"
    }
    removed = run(written, options, none)
    assert yaml_edit._same(yaml.safe_load(removed), yaml.safe_load(text) or {}) and kept <= set(removed.splitlines())
    if text.startswith("# my network") and text.endswith("\n"):
        assert removed == text


FLOW = [
    "{}",
    "",
    "null",
    "{peers: []}",
    '{"address-pools": [{"name": "u", "protocol": "bgp", "addresses": ["198.51.100.0/24"]}]}',
    "---\na: 1\n",
    "peers:\n  []\n",
]


@pytest.mark.parametrize("text", FLOW)
def test_texts_that_are_not_lines(text):
    written = run(text, mc.Options(), both)
    assert run(written, mc.Options(), both) == written
    assert yaml_edit._same(yaml.safe_load(run(written, mc.Options(), none)), yaml.safe_load(text) or {})


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\na: 2\n",
        "peers: {}\n",
        "- 1\n",
        "x\n",
        "peers: [1]\n",
        "a: [",
        "a: &a [*a]\n",
        "? [a]\n: 1\n",
        "a: !!python/object:os.system {}\n",
        "a: 1\n---\nb: 2\n",
        "a: \x00\n",
        "x" * (yaml_edit.LONGEST + 1),
        "{" * 3000,
        "a: 0b\n<<: 1\n",
        "a: &a [1,1,1,1,1,1,1,1,1,1]\n"
        + "".join("{1}: &{1} [{0}]\n".format(",".join(["*" + p] * 10), n) for p, n in zip("abcdef", "bcdefg")),
    ],
)
def test_what_cannot_be_read(text):
    with pytest.raises(ValueRefused) as raised:
        mc.Config(yaml_edit.parse_document(text))
    assert raised.value.reason == "config_parse"


TOKENS = st.sampled_from(
    ["peers:", "address-pools:", "- ", "\n", "  ", "a: 1", "[]", "{}", "#", "name: x", ": ", '"', "|", "&a", "*a", "x"]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(TOKENS, max_size=14).map("".join) | st.text(max_size=30))
def test_any_text_is_refused_or_means_what_was_desired(text):
    try:
        before = yaml_edit.parse_document(text)
        config = mc.Config(before)
    except ValueRefused as error:
        assert error.reason == "config_parse"
        return
    assert yaml_edit.edit(text, config.document, LISTS) == text
    both(config)
    try:
        written = yaml_edit.edit(text, config.document, LISTS)
    except ValueRefused as error:
        assert error.reason == "config_parse"
        return
    assert yaml_edit._same(yaml_edit.parse_document(written), config.document)


ITEMS = st.lists(st.fixed_dictionaries({"peer-address": st.sampled_from("abcd"), "n": st.integers(0, 2)}), max_size=4)


@settings(max_examples=60, deadline=None)
@given(ITEMS, ITEMS, st.sampled_from([0, 2]))
def test_any_change_of_items_keeps_the_lines_of_the_others(old, new, indent):
    rows = ["# head", "peers:" + ("" if old else " []")]
    for item in old:
        rows += [" " * indent + f"- peer-address: {item['peer-address']}", " " * indent + f"  n: {item['n']} # kept"]
    text = "\n".join(rows + ["# tail", "other: 1 # last", ""])
    written = yaml_edit.edit(text, {"peers": new, "other": 1}, ("peers",))
    assert yaml.safe_load(written)["peers"] == new
    assert {"# head", "# tail", "other: 1 # last"} <= set(written.splitlines())
    if new[: len(old)] == old:
        assert written.count("# kept") == len(old)


def test_unowned_things_stay():
    user = {
        "my-asn": 1,
        "peer-asn": 2,
        "peer-address": "192.0.2.1",
        "node-selectors": [{"match-labels": {"kubernetes.io/hostname": "n1"}}],
        "x": {"y": [1]},
    }
    half = {
        "peer-address": "192.0.2.3",
        "node-selectors": [
            {"match-labels": {"kubernetes.io/hostname": "n9"}},
            {"match-labels": {"nomatch.metal.equinix.com/service-name": "web"}},
        ],
    }
    document = {
        "peers": [user, half],
        "address-pools": [
            {"name": "a/b", "protocol": "bgp", "addresses": ["10.9.0.0/24"]},
            {"name": "default/old", "protocol": "bgp", "auto-assign": False, "addresses": ["10.8.0.1/32"]},
        ],
    }
    before = copy.deepcopy(document)
    config = mc.Config(document)
    both(config)
    assert document == before and config.document["peers"][:2] == [user, half]
    assert [pool["name"] for pool in config.document["address-pools"]] == ["a/b", "default/api", "default/web"]
    inside = mc.Config(document)
    inside.add_service(WEB, "10.9.0.7/32")
    assert inside.document == before and inside.notes


def test_peers_in_place():
    config = mc.Config({}, mc.Options(passwords=mc.PLAIN))
    config.sync_nodes([N1._replace(password="Abcdef1234")])
    config.document["peers"][0]["hold-time"] = "9s"
    config.sync_nodes([N1._replace(local_asn=65001)])
    first = config.document["peers"][0]
    assert (
        len(config.document["peers"]) == 2
        and first["hold-time"] == "9s"
        and first["my-asn"] == 65001
        and "password" not in first
    )
    config.sync_nodes([N1._replace(peers=("169.254.255.2",))])
    assert [peer["peer-address"] for peer in config.document["peers"]] == ["169.254.255.2"]
    assert mc.parse_managed(mc.managed_text(config.managed)) == {("n1", "169.254.255.2")}
    assert mc.parse_managed("x,=,a=,=b,n=1") == {("n", "1")} and mc.parse_managed(None) == set()
    withheld = mc.Config({})
    withheld.sync_nodes([N1._replace(password="Abcdef1234")])
    assert "Abcdef1234" not in str(withheld.document) and withheld.notes


def test_shared_addresses_and_moves():
    config = mc.Config({})
    config.add_service(WEB, "147.75.10.9/32")
    config.add_service(API, "147.75.10.9/32")
    assert [pool["name"] for pool in config.document["address-pools"]] == ["default/api,default/web"]
    config.add_service(WEB, "147.75.10.8/32")
    assert sorted(pool["name"] for pool in config.document["address-pools"]) == ["default/api", "default/web"]
    config.remove_service(API)
    config.remove_service(WEB)
    assert config.document["address-pools"] == []
    old = {"address-pools": [{"protocol": "bgp", "name": "web", "addresses": ["147.75.10.1/32"], "auto-assign": False}]}
    for reserved, left in ((["147.75.10.1/32"], 0), ([], 1)):
        bare = mc.Config(old)
        bare.remove_service(WEB, "147.75.10.1/32", reserved)
        assert len(bare.document["address-pools"]) == left
        taken = mc.Config(old)
        taken.sync_services({WEB: "147.75.10.1/32"}, reserved=reserved)
        assert [pool["name"] for pool in taken.document["address-pools"]] == ["web" if left else "default/web"]


@pytest.mark.parametrize("tracking", [mc.NODE, mc.SERVICE])
@pytest.mark.parametrize("peers", [mr.NATIVE, mr.FRR, mr.NONE])
def test_resources_come_settle_and_go(tracking, peers):
    options = mr.Options(tracking=tracking, peers=peers)
    unowned = {"kind": "IPAddressPool", "metadata": {"name": "lan"}, "spec": {"addresses": ["10.0.0.1-10.0.0.9"]}}
    made = mr.Resources([unowned], options)
    rows = [N1._replace(password="Abcdef1234"), N2._replace(password="Abcdef1234")]

    def converge(resources):
        assert resources.sync_services({WEB: ["147.75.10.1/32"], API: ["147.75.10.1/32"]}, rows) == {}
        resources.sync_nodes(rows)

    converge(made)
    again = mr.Resources(made.objects.values(), options)
    converge(again)
    assert (
        again.objects == made.objects
        and len([kind for kind, _n in made.objects if kind == "BGPPeer"]) == {"native": 4, "frr": 2, "none": 0}[peers]
    )
    assert not any("Abcdef1234" in str(obj) for obj in made.objects.values())
    made.sync_services({})
    made.sync_nodes([])
    assert list(made.objects.values()) == [unowned]


def test_resources_refuse_what_is_not_owned():
    taken = [{"kind": "IPAddressPool", "metadata": {"name": "default.web"}, "spec": {"addresses": ["10.0.0.0/24"]}}]
    made = mr.Resources(taken, mr.Options())
    refused = made.sync_services({WEB: ["147.75.10.1/32"], API: ["147.75.10.2/32"]})
    assert (
        refused[WEB].reason == "conflict"
        and ("IPAddressPool", "default.api") in made.objects
        and made.objects["IPAddressPool", "default.web"] == taken[0]
    )
    inside = mr.Resources(taken, mr.Options())
    inside.add_service(API, ["10.0.0.7/32"])
    assert list(inside.objects.values()) == taken and inside.notes
    shared = mr.Resources([], mr.Options(peers=mr.FRR))
    shared.add_nodes([N1])
    shared.add_nodes([N2])
    assert len(shared.objects["BGPPeer", "169.254.255.1"]["spec"]["nodeSelectors"]) == 2
    with pytest.raises(ValueRefused, match="asn_mismatch"):
        shared.add_nodes([N1._replace(name="n3", local_asn=1)])
    shared.remove_node("n1")
    assert shared.objects["BGPPeer", "169.254.255.1"]["spec"]["nodeSelectors"] == [
        {"matchLabels": {"kubernetes.io/hostname": "n2"}}
    ]


def test_names_that_are_long_or_meet():
    long = ("n" * 63, "s" * 63)
    found = metallb_names.pool_names(long)
    assert found.hashed and len(found.label_key) <= 63 and len(found.label_value) <= 63
    made = mr.Resources([], mr.Options())
    for key in (long, ("a", "web"), ("b", "web")):
        made.add_service(key, ["147.75.10.1/32"])
    (pool,) = [name for kind, name in made.objects if kind == "IPAddressPool"]
    assert made._users(pool) == {long, ("a", "web"), ("b", "web")}
    for key in (("a", "web"), long, ("b", "web")):
        made.remove_service(key)
    assert made.objects == {}


LAYER2 = mr.Layer2(("eth0",), ({"matchLabels": {"rack": "1"}},))


def advertisements(resources):
    return {
        kind: obj["spec"] for (kind, unused), obj in resources.objects.items() if kind in (mr.ADVERTISEMENT, mr.LAYER2)
    }


def test_pools_are_advertised_on_the_segment():
    services = {WEB: ("192.0.2.1/32",), API: ("192.0.2.2/32",)}
    made = mr.Resources([], mr.Options(layer2=LAYER2, by_bgp=False))
    assert not made.sync_services(services)
    desired = {
        "ipAddressPools": ["default.api", "default.web"],
        "interfaces": ["eth0"],
        "nodeSelectors": [{"matchLabels": {"rack": "1"}}],
    }
    assert advertisements(made) == {mr.LAYER2: desired}
    # the same again, in both ways, and back to BGP: what nobody asks for any more goes
    again = mr.Resources(made.objects.values(), mr.Options(layer2=LAYER2, by_bgp=False))
    again.sync_services(services)
    assert again.objects == made.objects
    both_ways = mr.Resources(made.objects.values(), mr.Options(layer2=mr.Layer2()))
    both_ways.sync_services(services)
    names = {"ipAddressPools": ["default.api", "default.web"]}
    assert advertisements(both_ways) == {mr.LAYER2: names, mr.ADVERTISEMENT: names}
    back = mr.Resources(both_ways.objects.values(), mr.Options())
    back.sync_services(services)
    assert advertisements(back) == {mr.ADVERTISEMENT: names}
    # one that names no pool would announce all of them
    both_ways.sync_services({})
    assert not both_ways.objects


def test_an_l2advertisement_of_the_users_stays():
    theirs = {
        "kind": mr.LAYER2,
        "apiVersion": mr.VERSIONS[mr.LAYER2],
        "metadata": {"name": LAYER2.name},
        "spec": {"ipAddressPools": ["mine"]},
    }
    made = mr.Resources([theirs], mr.Options(layer2=LAYER2, by_bgp=False))
    assert made.sync_services({WEB: ("192.0.2.1/32",)})[WEB].reason == "conflict" and list(made.objects.values()) == [
        theirs
    ]
    alongside = mr.Resources([theirs], mr.Options())
    alongside.sync_services({WEB: ("192.0.2.1/32",)})
    alongside.sync_services({})
    assert list(alongside.objects.values()) == [theirs]
