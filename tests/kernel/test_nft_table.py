# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tables of nftables on a real kernel, the nft program as the witness."""

from __future__ import annotations

import copy
import ipaddress
import json
import os
import pathlib
import select
import subprocess
import sys

import pytest
from conftest import MODULE_UTILS, flow_environment

#: What a host of the example prints, to the letter.
PRINTED = pathlib.Path(__file__).with_name("talos_kubespan.nft").read_text("utf-8")
SEED_PRINTED = "".join(
    line for line in PRINTED.splitlines(keepends=True) if 'oifname "lo"' not in line and "tcp option" not in line
).replace(
    "{ 2001:db8:9::13 }",
    "{ 2001:db8:9::13,\n\t\t\t     fd7a:6197:edb7:2302:42:acff:fe14:d,\n\t\t\t     fd7a:6197:edb7:2302:5054:ff:feaa:2 }",
)
ELEMENTS = ["10.20.0.13", "10.244.2.0/23", "192.0.2.12", "2001:db8:9::13"]
ULAS = ["fd7a:6197:edb7:2302:42:acff:fe14:d", "fd7a:6197:edb7:2302:5054:ff:feaa:2"]

#: KubeSpan's table through the flow, as statements: changes to it are given as Python that is run before.
STRUCTURED = f"""
import importlib, json, sys
ask = json.load(sys.stdin)
load = lambda name: importlib.import_module({MODULE_UTILS!r} + name)
flow, nft = load("_flows.node.nft_table"), load("_linux.nftables.table")
kubespan_nft, generations = load("_mesh.kubespan.nft"), load("_mesh.kubespan.generations")
ranges, addresses = load("_values.prefix_sets"), load("_values.addresses")
members = ranges.PrefixSet.of(addresses.parse_network(text if "/" in text else text + ("/128" if ":" in text else "/32")) for text in ask["elements"])
table = kubespan_nft.table(generations.make_layout(**ask.get("layout", {{}})), ask.get("mtu", 1420), generations.generation(ask.get("generation", "current")))
for item in table["sets"]:
    item.update(elements=members.spans(item["version"]), external=bool(ask.get("external")))
exec(ask.get("change", ""))
desired = dict(ask.get("desired", {{}}), table=table)
desired.setdefault("owner", "multicluster.network/demo")
actual = flow.gather(desired)
planned = flow.plan(desired, actual)
exec(ask.get("meanwhile", ""))
answer = dict(planned.result(), diff=planned.diff(), steps=[step["op"] for step in planned.steps], error=None)
try:
    answer["written"] = 0 if ask.get("check") else flow.apply(desired, actual, planned)["netlink_writes"]
except Exception as error:
    answer["error"] = "{{0}}: {{1}}".format(type(error).__name__, error)
print(json.dumps(answer))
"""


def structured(node, killed=False, **ask):
    ask.setdefault("elements", ELEMENTS)
    done = subprocess.run(
        node.command(sys.executable, "-B", "-c", STRUCTURED),
        input=json.dumps(ask),
        capture_output=True,
        text=True,
        check=False,
        env=flow_environment(),
    )
    assert done.returncode == 0, done.stderr
    return None if killed else json.loads(done.stdout)


def ruleset(node):
    return node.run("nft", "list", "ruleset")


def same(listing, desired):
    """Newer releases of nft print the TCP flags in another way, and sets with more on a line."""
    return [
        " ".join(text.replace("tcp flags & (syn | rst) == syn", "tcp flags syn / syn,rst").split())
        for text in (listing, desired)
    ]


class Monitor:
    """What `nft monitor` reports while something runs."""

    def __init__(self, node):
        self.node = node

    def __enter__(self):
        self.process = subprocess.Popen(
            self.node.command("stdbuf", "-oL", "nft", "monitor"), stdout=subprocess.PIPE, bufsize=0
        )
        while True:  # it listens when it reports something
            self.node.run("nft", "add table ip witness; delete table ip witness")
            if self._until("delete table ip witness"):
                return self

    def _until(self, last):
        lines = []
        while select.select([self.process.stdout], [], [], 0.5 if last.startswith("delete") else 20)[0]:
            lines.append(
                self.process.stdout.readline().decode().strip()
            )  # unbuffered: what select does not see is not there
            if lines[-1] == last:
                break
        self.lines = [
            line
            for line in lines
            if line and not line.startswith(("#", "add table ip witness", "delete table ip witness"))
        ]
        return bool(lines)

    def __exit__(self, *_error):
        self.node.run("nft", "add table ip the_end")
        self._until("add table ip the_end")
        self.lines = [line for line in self.lines if "the_end" not in line]
        self.node.run("nft", "delete table ip the_end")
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.mark.other_kernel
def test_the_table_prints_to_the_letter_and_the_second_run_writes_nothing(node):
    made = structured(node)
    assert made["plan"]["create"] == 5 and made["error"] is None and made["written"] == 16
    left, right = same(ruleset(node), PRINTED)
    assert left == right
    with Monitor(node) as monitor:
        again = structured(node)
    assert monitor.lines == [] and not again["changed"] and again["plan"]["unchanged"] == 4 and again["written"] == 0
    assert "multicluster.network/demo" in made["diff"]["after"]


def test_the_old_generation_prints_to_the_letter(node):
    structured(node, generation="v1.3", elements=ELEMENTS + ULAS)
    left, right = same(ruleset(node), SEED_PRINTED)
    assert left == right


@pytest.mark.skipif(
    "1.0.6" not in subprocess.run(["nft", "--version"], capture_output=True, text=True, check=False).stdout,
    reason="its spelling",
)
def test_every_blank_and_line_of_it(node):
    structured(node)
    assert ruleset(node) == PRINTED
    structured(node, desired={"state": "absent"})
    structured(node, generation="v1.3", elements=ELEMENTS + ULAS)
    assert ruleset(node) == SEED_PRINTED


def test_what_nft_wrote_is_understood(node):
    node.run("nft", "-f", "-", stdin=PRINTED)
    refused = structured(node)
    assert not refused["changed"] and [entry["reason"] for entry in refused["refused"]] == ["adoptable"]
    adopted = structured(node, desired={"adopt": True})
    assert [
        line for line in adopted["steps"] if "table" in line or "set" in line
    ] == []  # nothing but its chains is made anew
    assert adopted["plan"]["update"] == 2 and same(ruleset(node), PRINTED)[0] == same(ruleset(node), PRINTED)[1]
    assert not structured(node)["changed"]
    assert structured(node, desired={"state": "absent"})["plan"]["delete"] == 1 and ruleset(node) == ""


def test_an_unowned_table_stays(node):
    node.run("nft", "-f", "-", stdin=PRINTED + "add chain inet talos_kubespan theirs\n")
    before = ruleset(node)
    for desired in ({}, {"adopt": False}, {"state": "absent"}, {"owner": "multicluster.network"}):
        refused = structured(node, desired=desired)
        assert not refused["changed"] and [entry["reason"] for entry in refused["refused"]] == ["not_ours"]
    assert ruleset(node) == before
    node.run("nft", "delete table inet talos_kubespan")
    structured(node, desired={"owner": "multicluster.network/other"})
    refused = structured(node, desired={"adopt": True})
    assert [entry["reason"] for entry in refused["refused"]] == [
        "not_ours"
    ] and "multicluster.network/other" in refused["refused"][0]["message"]


@pytest.mark.other_kernel
def test_changes_touch_what_differs(node):
    structured(node)
    assert structured(node, elements=ELEMENTS[1:] + ["10.20.0.0/24"])["steps"] == ["delete_elements", "add_elements"]
    wider = structured(node, elements=["0.0.0.0/0", "::/0"])
    assert wider["error"] is None and "0.0.0.0/0" in ruleset(node)
    assert structured(node, elements=["0.0.0.0/0", "::/0"])["steps"] == []
    assert structured(node, elements=[])["steps"] == ["delete_elements", "delete_elements"]
    edges = ["0.0.0.0", "255.255.255.255", "128.0.0.0/1", "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"]
    structured(node, elements=edges)
    assert structured(node, elements=edges)["steps"] == [] and not structured(node)["error"]
    clamped = structured(node, mtu=1400)
    assert clamped["steps"] == ["flush_chain"] + ["add_rule"] * 6 and clamped["plan"]["update"] == 1
    assert "maxseg size set 1348" in ruleset(node) and "maxseg size set 1328" in ruleset(node)
    older = structured(node, generation="v1.3")
    assert older["steps"] == ["flush_chain"] + ["add_rule"] * 3


@pytest.mark.other_kernel
def test_ranges_that_move_are_guarded_and_a_guard_that_was_left_over_goes(node):
    structured(node)
    before = ruleset(node)
    wider = ELEMENTS[:1] + ["10.244.0.0/14"] + ELEMENTS[2:]
    with Monitor(node) as monitor:
        moved = structured(node, elements=wider)
    assert (
        moved["error"] is None
        and moved["plan"]["update"] == 1
        and "_kept" not in ruleset(node)
        and "10.244.0.0/14" in ruleset(node)
    )
    kept = monitor.lines.index("add element inet talos_kubespan kubespan_targets_ipv4_kept { 10.244.2.0/23 }")
    marked = [
        index
        for index, line in enumerate(monitor.lines)
        if "@kubespan_targets_ipv4_kept" in line and "meta mark set" in line
    ]
    assert (
        len(marked) == 2
        and kept < min(marked)
        and monitor.lines[-1] == "delete set inet talos_kubespan kubespan_targets_ipv4_kept"
    )
    # killed after the first of three transactions, at which nothing but the guard was made
    killed = structured(
        node, meanwhile="nft.apply_steps('inet', 'talos_kubespan', planned.before); sys.exit(0)", killed=True
    )
    assert killed is None and "kubespan_targets_ipv4_kept" in ruleset(node) and "10.244.0.0/14" in ruleset(node)
    # the next wish moves other ranges, with a guard of its own
    assert structured(node, elements=wider[:-3] + ["10.244.0.0/13"] + wider[-2:])[
        "error"
    ] is None and "_kept" not in ruleset(node)
    assert (
        structured(
            node, meanwhile="nft.apply_steps('inet', 'talos_kubespan', planned.before); sys.exit(0)", killed=True
        )
        is None
    )
    healed = structured(node)
    assert healed["error"] is None and ruleset(node) == before and not structured(node)["changed"]


@pytest.mark.other_kernel
def test_a_chain_that_moves_has_a_substitute_and_one_that_was_left_over_goes(node):
    moving = "for chain in table['chains']: chain['priority'] = {0}"
    structured(node)
    before = ruleset(node)
    earlier = structured(node, change=moving.format(-5))
    assert (
        earlier["error"] is None
        and earlier["plan"]["update"] == 2
        and "_stays" not in ruleset(node)
        and "priority filter - 5" in ruleset(node)
    )
    for transactions in ("[planned.before]", "[planned.before, planned.steps]"):
        killing = f"[nft.apply_steps('inet', 'talos_kubespan', steps) for steps in {transactions}]; sys.exit(0)"
        assert structured(node, meanwhile=killing, killed=True) is None and "chain kubespan_outgoing_stays" in ruleset(
            node
        )
    healed = structured(node)
    assert healed["error"] is None and ruleset(node) == before and not structured(node)["changed"]


def test_repairs(node):
    structured(node)
    table = "inet talos_kubespan"
    for words in (
        "flush chain {0} kubespan_outgoing",
        "flush set {0} kubespan_targets_ipv4",
        "add chain {0} more {{ counter; }}",
        "add element {0} kubespan_targets_ipv4 {{ 10.99.0.0/16 }}",
        "add rule {0} kubespan_prerouting counter",
        "add chain {0} a; add rule {0} a jump b",
        "insert rule {0} kubespan_prerouting tcp dport {{ 1, 2 }} drop",
        "delete table {0}",
        "add set {0} more {{ type ipv4_addr; }}",
        "add chain {0} kubespan_prerouting {{ policy drop; }}",
        "add map {0} m {{ type ipv4_addr : verdict; }}",
        "flush chain {0} kubespan_prerouting; delete chain {0} kubespan_prerouting; "
        "add chain {0} kubespan_prerouting {{ type filter hook prerouting priority 5; }}",
        "flush table {0}; delete set {0} kubespan_targets_ipv4; add set {0} kubespan_targets_ipv4 {{ type ipv4_addr; flags interval, timeout; }}",
    ):
        words = words.format(table)
        if "jump b" in words:
            words = words.replace("; add rule", "; add chain inet talos_kubespan b; add rule")
        if "more { counter; }" in words:
            words = f"add chain {table} more; add rule {table} more counter"
        node.run("nft", words)
        healed = structured(node)
        assert healed["changed"] and healed["error"] is None, words
        left, right = same(ruleset(node), PRINTED)
        assert sorted(left.split()) == sorted(right.split()), words  # a chain that was made anew is at another place
        assert not structured(node)["changed"], words


def test_elements_of_somebody_else(node):
    structured(node, external=True)
    node.run("nft", "add element inet talos_kubespan kubespan_targets_ipv4 { 10.99.0.0/16 }")
    assert structured(node, external=True, elements=[])["steps"] == []
    assert structured(node, external=True, mtu=1300)["steps"] == ["flush_chain"] + ["add_rule"] * 6
    assert "10.99.0.0/16" in ruleset(node)
    managed = structured(node, mtu=1300)
    assert managed["steps"] == ["delete_elements"] and "10.99.0.0/16" not in ruleset(node)


@pytest.mark.other_kernel
def test_somebody_was_faster(node):
    structured(node)
    other = "import subprocess; subprocess.run(['nft', 'add table ip other; delete table ip other'], check=True)\n"
    low = "try:\n    nft.apply_steps('inet', 'talos_kubespan', planned.steps, actual['table']['generation'])\n"
    low += "except nft.GenerationChanged:\n    assert nft.read_table('inet', 'talos_kubespan')['sets'][0]['elements']\nelse:\n    raise AssertionError"
    late = structured(node, elements=[], meanwhile=other + low)  # nothing of it was written; the flow then reads again
    assert late["error"] is None and late["written"] == 2 and "elements" not in ruleset(node)
    mine = "subprocess.run(['nft', 'add element inet talos_kubespan kubespan_targets_ipv4 { 10.0.0.0/8 }'], check=True)"
    assert structured(node, meanwhile="import subprocess; " + mine)["error"] is None and not structured(node)["changed"]
    theirs = "subprocess.run(['nft', 'delete table inet talos_kubespan; add table inet talos_kubespan'], check=True)"
    stolen = structured(node, elements=[], meanwhile="import subprocess; " + theirs)
    assert "somebody else made a table of this name meanwhile" in stolen["error"] and "chain" not in ruleset(node)


@pytest.mark.other_kernel
def test_a_batch_is_taken_whole_or_not_at_all_and_the_error_names_the_object(node):
    structured(node)
    before = ruleset(node)
    bad = (
        "table['chains'][1]['rules'].append([{'match': 'daddr', 'family': 4, 'set': 'nowhere'}, {'verdict': 'accept'}])"
    )
    failed = structured(node, elements=[], change=bad)
    assert failed["error"] == (
        "LinuxError: failed to set rule in chain kubespan_outgoing of nftables table inet talos_kubespan: No such file or directory"
    )
    assert ruleset(node) == before
    clash = "planned.steps[:] = [{'op': 'add_elements', 'set': {'name': 'kubespan_targets_ipv4', 'type': 'ipv4_addr', 'flags': ['interval']}, "
    clash += "'spans': [(0x0A140000, 0x0A14FFFF)]}]"
    failed = structured(node, elements=[], meanwhile=clash)
    assert "elements of set kubespan_targets_ipv4" in failed["error"] and ruleset(node) == before


def test_many_elements_in_one_transaction(node):
    many = [str(ipaddress.ip_address(0x0B000000 + 2 * index)) for index in range(20000)]
    many += [str(ipaddress.ip_address((0xFD00 << 112) + 2 * index)) for index in range(5000)]
    made = structured(node, elements=many)
    assert made["error"] is None and made["plan"]["create"] == 5
    assert structured(node, elements=many)["steps"] == []
    listing = json.loads(node.run("nft", "-j", "list", "table", "inet", "talos_kubespan"))["nftables"]
    assert sorted(len(item["set"]["elem"]) for item in listing if "set" in item) == [5000, 20000]
    assert structured(node, elements=many[1:])["steps"] == ["delete_elements"]


# --- rules as text -------------------------------------------------------------------------------------------------

GUARD = {
    "name": "guard",
    "sets": [
        {"name": "admins", "type": "ipv4_addr", "elements": ["10.0.0.0/8", "11.0.0.1", "11.0.0.2-11.0.0.3"]},
        {"name": "ports", "type": "inet_service", "interval": False, "elements": ["22", "443"]},
        {"name": "six", "type": "ipv6_addr", "elements": ["fd00::/8"], "elements_owner": "external"},
    ],
    "chains": [
        {
            "name": "guard_in",
            "hook": "input",
            "priority": "filter - 5",
            "rules": [
                "ct state established,related accept",
                "ip saddr @admins tcp dport @ports accept",
                'tcp dport { 22, 80, 8000-9000 } limit rate 10/second log prefix "x; y" jump sub',
                "ip6 saddr @six counter",
                'iifname { "a*", "lo" } tcp dport vmap { 22 : accept, 23 : drop } comment "as it is # said"',
            ],
        },
        {"name": "sub", "rules": ["iifname lo return", "ip6 saddr fe80::/10 reject"]},
    ],
}


def guard(node, check=False, **change):
    return node.flow("nft_table", dict(copy.deepcopy(GUARD), **change), check)


def test_rules_as_text_whole_life(node):
    assert guard(node, check=True)["plan"]["create"] == 6 and ruleset(node) == ""
    made = guard(node)
    assert made["plan"]["create"] == 6 and not made["warnings"] and not made["refused"]
    assert [(item["name"], item["elements"]) for item in made["table"]["sets"]] == [
        ("admins", 2),
        ("ports", 2),
        ("six", None),
    ]
    with Monitor(node) as monitor:
        again = guard(node)
    assert monitor.lines == [] and not again["changed"] and again["stats"]["netlink_writes"] == 0
    other = copy.deepcopy(GUARD["chains"])
    other[0].update(priority="-5", policy="accept", type="filter")
    other[0]["rules"][0] = "ct state { related, established } accept"
    other[0]["rules"][3] = "meta nfproto ipv6 ip6 saddr @six counter packets 5 bytes 7"
    reworded = guard(node, chains=other)
    assert [change["id"] for change in reworded["plan"]["changes"]] in ([], ["inet guard guard_in"])
    other[0]["policy"] = "drop"
    other[0]["rules"] = other[0]["rules"][:2]
    changed = guard(node, chains=other, sets=GUARD["sets"][:2] + [dict(GUARD["sets"][2], name="new")])
    assert (
        changed["plan"]["update"] == 1
        and changed["plan"]["create"] == 1
        and changed["plan"]["delete"] == 1
        and not changed["warnings"]
    )
    assert "policy drop" in ruleset(node) and "set six" not in ruleset(node)
    assert guard(node, state="absent")["plan"]["delete"] == 1 and ruleset(node) == ""
    assert not guard(node, state="absent")["changed"]


def test_elements_alone_do_not_go_through_nft(node):
    guard(node)
    sets = copy.deepcopy(GUARD["sets"])
    sets[0]["elements"] = ["10.0.0.0/9"]
    sets[1]["elements"] = ["22", "8443"]
    changed = guard(node, sets=sets)
    assert changed["stats"]["netlink_writes"] == 4 and not changed["warnings"] and changed["plan"]["update"] == 2
    assert "elements = { 22, 8443 }" in ruleset(node) and "10.0.0.0/9" in ruleset(node)


def test_a_rule_changed_by_hand_is_found(node):
    guard(node)
    before = ruleset(node)
    node.run("nft", "flush chain inet guard sub; add rule inet guard sub accept")
    healed = guard(node)
    assert [change["id"] for change in healed["plan"]["changes"]] == ["inet guard sub"] and ruleset(node) == before
    assert "- accept" in healed["diff"]["before"]


def test_a_rule_that_nft_does_not_take_is_named_before_anything_is_written(node, flow_failed):
    for check in (True, False):
        with pytest.raises(flow_failed, match=r"failed to check chains\[0\].rules\[1\] of chain c: "):
            node.flow(
                "nft_table",
                {"name": "t", "chains": [{"name": "c", "hook": "input", "rules": ["accept", "no such thing"]}]},
                check,
            )
    assert ruleset(node) == ""


def test_elements_that_are_none_are_refused_and_the_rest_goes_on(node):
    sets = [
        {
            "name": "s",
            "type": "ipv4_addr",
            "elements": ["10.0.0.1", "010.0.0.2", "fd00::1", "10.0.0.9-10.0.0.3", "x", "10.0.0.0/33"],
        }
    ]
    result = node.flow("nft_table", {"name": "t", "sets": sets}, False)
    assert [entry["reason"] for entry in result["refused"]] == ["bad_element"] * 5 and "10.0.0.1 }" in ruleset(node)


#: Datagrams of many connections, each the first of its own; prints how many.
CONNECTING = """
import select, socket, sys
count = 0
while not count or count % 200 or not select.select([sys.stdin], [], [], 0)[0]:
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.bind(("10.2.0.5", 0))
    try:
        one.sendto(b"x", ("10.9.0.2", 4000 + count % 20000))
    except PermissionError:  # a rule drops it
        pass
    one.close()
    count += 1
print(count)
"""
#: Of these, one in fifty let a connection out untranslated, and one in five a packet that is to be dropped, before there were substitutes.
CHANGES = int(50 / float(os.environ.get("MCN_SLOW", "1")))
#: The rule that holds for each packet, and one that comes and goes after it.
RULES = {
    "nat": ["oifname va snat ip prefix to ip saddr map { 10.2.0.0/16 : 10.201.0.0/16 }", "oifname vb accept"],
    "filter": ["oifname va ip saddr { 10.2.0.0/16, 10.77.0.0/16 } drop", "oifname vb accept"],
}
CHANGING = f"""
import importlib, json, sys
ask = json.load(sys.stdin)
flow = importlib.import_module({MODULE_UTILS!r} + "_flows.node.nft_table")
for number in range(ask["changes"]):
    chain = {{"name": "post", "type": ask["kind"], "hook": "postrouting", "priority": 90 - (number % 9 if ask["moved"] else 0)}}
    rules = {RULES!r}[ask["kind"]][: 1 + number % 2]
    assert flow.run({{"name": "changing", "chains": [dict(chain, rules=rules)]}}, False)["changed"] or not number
"""
WITNESS = """
table inet witness { chain out { type filter hook postrouting priority 150; oifname va ip saddr 10.2.0.0/16 counter; }; }
"""


@pytest.mark.other_kernel
@pytest.mark.parametrize("moved", [False, True], ids=["filled anew", "made anew"])
@pytest.mark.parametrize("kind", RULES)
def test_no_packet_leaves_untranslated_or_undropped_while_rules_change(new_node, kind, moved):
    """Elements of a rule's own set or map go and come at other moments than the rule itself."""
    node, other = new_node(), new_node()
    node.run("ip", "link", "add", "va", "type", "veth", "peer", "name", "vb", "netns", str(other.pid))
    for one, device, address in ((node, "va", "10.9.0.1/24"), (other, "vb", "10.9.0.2/24")):
        one.run("ip", "link", "set", device, "up")
        one.run("ip", "address", "add", address, "dev", device)
    node.run("ip", "address", "add", "10.2.0.5/32", "dev", "lo")
    other.run("ip", "route", "add", "10.0.0.0/8", "via", "10.9.0.1")
    node.run("nft", "-f", "-", stdin=WITNESS)

    words, pipe = [sys.executable, "-c", CONNECTING], subprocess.PIPE
    sender = None
    try:
        for changes in (1, CHANGES):
            given = json.dumps({"changes": changes, "kind": kind, "moved": moved})
            asked = [sys.executable, "-B", "-c", CHANGING]
            subprocess.run(node.command(*asked), input=given, text=True, check=True, env=flow_environment())
            sender = sender or subprocess.Popen(node.command(*words), stdin=pipe, stdout=pipe, text=True)
    finally:
        sent = int(sender.communicate("end\n")[0]) if sender else 0
    listed = json.loads(node.run("nft", "-j", "list", "table", "inet", "witness"))["nftables"]
    counter = next(
        item["counter"] for row in listed if "rule" in row for item in row["rule"]["expr"] if "counter" in item
    )
    print(f"{CHANGES} changes, {sent} connections, {counter['packets']} as they should not be")
    assert counter["packets"] == 0 and sent > CHANGES
    assert "post_stays" not in ruleset(node)
