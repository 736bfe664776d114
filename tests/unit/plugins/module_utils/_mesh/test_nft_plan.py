# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tables of nftables: what is desired is read strictly, and the steps of one transaction lead there from anywhere."""

from __future__ import annotations

import copy
import json
import pathlib

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._dataplane import nft_plan, nft_spec
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan import nft as kubespan_nft
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, strategies as st

HOSTILE = json.loads((pathlib.Path(__file__).parents[4] / "fixtures" / "hostile" / "nft_rules.json").read_text("utf-8"))
OWNER = "multicluster.network/demo"


class Kernel:
    """A table as the kernel would keep it; it refuses what the kernel refuses."""

    def __init__(self):
        self.table = None

    def apply(self, steps):
        for step in steps:
            getattr(self, step["op"])(step)

    def apply_all(self, plan):
        for steps in plan.transactions():
            self.apply(steps)

    def new_table(self, step):
        assert self.table is None
        self.table = {"family": "inet", "name": "t", "owner": step["owner"], "sets": [], "chains": []}

    def delete_table(self, _step):
        self.table = None

    def _find(self, part, name):
        return next(item for item in self.table[part] if item["name"] == name)

    def flush_chain(self, step):
        self._find("chains", step["chain"])["rules"] = []

    def delete_chain(self, step):
        chain = self._find("chains", step["chain"])
        assert not chain["rules"]
        self.table["chains"].remove(chain)

    def delete_set(self, step):
        used = [item.get("set") for chain in self.table["chains"] for rule in chain["rules"] for item in rule]
        assert step["set"] not in used, "the set is busy"
        self.table["sets"].remove(self._find("sets", step["set"]))

    def new_set(self, step):
        assert step["set"]["name"] not in [item["name"] for item in self.table["sets"]]
        self.table["sets"].append(dict(step["set"], elements=[]))

    def new_chain(self, step):
        assert step["chain"]["name"] not in [item["name"] for item in self.table["chains"]]
        self.table["chains"].append(dict(step["chain"], device=None, owner=step["owner"], rules=[]))

    def set_policy(self, step):
        self._find("chains", step["chain"]["name"])["policy"] = step["chain"]["policy"]

    def delete_elements(self, step):
        item = self._find("sets", step["set"]["name"])
        assert set(step["spans"]) <= set(item["elements"])
        item["elements"] = [span for span in item["elements"] if span not in step["spans"]]

    def add_elements(self, step):
        item = self._find("sets", step["set"]["name"])
        item["elements"] = sorted(item["elements"] + list(step["spans"]))
        ends = [end for span in item["elements"] for end in span]
        assert ends == sorted(ends) and len(set(item["elements"])) == len(item["elements"]), "they overlap"

    def add_rule(self, step):
        for item in step["rule"]:
            if item.get("match") == "daddr":
                self._find("sets", item["set"])
        self._find("chains", step["chain"])["rules"].append(step["rule"])


spans = st.lists(st.integers(0, 30), max_size=6, unique=True).map(
    lambda numbers: tuple((a, b) for a, b in zip(*[iter(sorted(numbers))] * 2))
)
sets = st.lists(
    st.builds(
        lambda name, kind, flags, elements, external: {
            "name": name,
            "type": kind,
            "flags": flags,
            "elements": elements,
            "external": external,
        },
        st.sampled_from(["s4", "s6"]),
        st.sampled_from(["ipv4_addr", "ipv6_addr"]),
        st.sampled_from([["interval"]]),
        spans,
        st.booleans(),
    ),
    max_size=2,
    unique_by=lambda item: item["name"],
)


@st.composite
def tables(draw):
    members = draw(sets)
    rule = st.one_of(
        st.sampled_from([[{"verdict": "accept"}], [{"match": "oifname", "value": "lo"}, {"verdict": "accept"}]]),
        st.sampled_from([item["name"] for item in members] or ["none"]).map(
            lambda name: [{"match": "daddr", "family": 4, "set": name}] if members else []
        ),
    )
    chains = st.builds(
        lambda name, hook, priority, policy, rules: {
            "name": name,
            "type": "filter" if hook else None,
            "hook": hook,
            "priority": priority if hook else 0,
            "policy": policy if hook else None,
            "rules": rules,
        },
        st.sampled_from(["one", "two", "three"]),
        st.sampled_from([None, "input", "output"]),
        st.integers(0, 1),
        st.sampled_from(["accept", "drop"]),
        st.lists(rule, max_size=3),
    )
    return {
        "family": "inet",
        "name": "t",
        "sets": members,
        "chains": draw(st.lists(chains, max_size=3, unique_by=lambda chain: chain["name"])),
    }


def shape(table):
    return {
        "sets": sorted((item["name"], item["type"], tuple(item["elements"])) for item in table["sets"]),
        "chains": sorted(
            (
                chain["name"],
                str(chain["type"]),
                str(chain["hook"]),
                chain["priority"],
                str(chain["policy"]),
                json.dumps(chain["rules"]),
            )
            for chain in table["chains"]
        ),
    }


@given(tables(), tables())
def test_one_transaction_leads_from_any_table_to_any_other(first, second):
    kernel = Kernel()
    for desired in (first, second):
        before = {item["name"]: item for item in kernel.table["sets"]} if kernel.table else {}
        plan = nft_plan.plan_table(desired, copy.deepcopy(kernel.table), OWNER)
        assert not plan.refused and bool(plan.steps) == plan.changed
        kernel.apply_all(plan)
        goal = copy.deepcopy(desired)
        for item in goal["sets"]:  # what somebody else keeps stays as it was, while the set is the same
            old = before.get(item["name"])
            if item["external"] and old and old["type"] == item["type"]:
                item["elements"] = old["elements"]
        assert shape(kernel.table) == shape(goal)
        again = nft_plan.plan_table(desired, copy.deepcopy(kernel.table), OWNER)
        assert (
            not again.steps and not again.changes and again.unchanged == len(desired["sets"]) + len(desired["chains"])
        )
        assert not any(step["op"] in ("new_table", "delete_table") for step in again.steps)
    gone = nft_plan.plan_absent("inet", "t", kernel.table, OWNER)
    kernel.apply_all(gone)
    assert kernel.table is None and not nft_plan.plan_absent("inet", "t", None, OWNER).changed


def moments(before, after):
    """What packets meet while a transaction commits: rules of either side, each with sets on their way to the other.

    A kernel with the known flaw finds an address only where no start or end that comes or goes is between it and the
    start of the range that holds it.
    """

    def finds(elements, changed, address):
        edges = {edge for first, last in changed for edge in (first, last + 1)}
        return any(
            first <= address <= last and not any(first < edge <= address for edge in edges) for first, last in elements
        )

    old, new = ({item["name"]: set(item["elements"]) for item in table["sets"]} for table in (before, after))
    kept = old.keys() & new.keys()
    changed = {name: old[name] ^ new[name] for name in kept}
    for table, sides in ((before, (old, new)), (after, (new,))):
        for elements in sides:
            for seen in (changed, {}):
                for chain in table["chains"]:

                    def reaches(address, chain=chain, elements=elements, seen=seen):
                        asked = [item["set"] for rule in chain["rules"] for item in rule if "set" in item]
                        return any(finds(elements.get(name, ()), seen.get(name, ()), address) for name in asked)

                    yield reaches


def marking(elements, extra):
    rules = [
        [{"match": "daddr", "family": 4, "set": "s4"}, {"verdict": "accept"}],
        *([[{"verdict": "accept"}]] if extra else []),
    ]
    chain = {"name": "one", "type": "filter", "hook": "output", "priority": 0, "policy": "accept", "rules": rules}
    members = {"name": "s4", "type": "ipv4_addr", "flags": ["interval"], "elements": elements, "external": False}
    return {"family": "inet", "name": "t", "sets": [members], "chains": [chain]}


def missed(first, second, leftover, transactions):
    """Addresses of both states that some moment between them does not find; and the table at the end."""
    kernel = Kernel()
    kernel.apply_all(nft_plan.plan_table(first, None, OWNER))
    if leftover:  # a run was killed after its first transaction, and another change is desired now
        kernel.apply(nft_plan.plan_table(leftover, copy.deepcopy(kernel.table), OWNER).before)
    plan = nft_plan.plan_table(second, copy.deepcopy(kernel.table), OWNER)
    both = {
        address
        for address in range(40)
        if all(any(a <= address <= b for a, b in table["sets"][0]["elements"]) for table in (first, second))
    }
    found = set()
    for steps in transactions(plan):
        before = copy.deepcopy(kernel.table)
        kernel.apply(steps)
        found |= {address for reaches in moments(before, kernel.table) for address in both if not reaches(address)}
    assert shape(kernel.table) == shape(second)
    return found


@given(spans, spans, spans, st.booleans(), st.booleans())
def test_an_address_that_stays_is_found_at_every_moment(first, second, third, extra, killed):
    tables = marking(first, False), marking(second, extra), marking(third, False)
    assert not missed(tables[0], tables[1], tables[2] if killed else None, lambda plan: plan.transactions())


def test_the_model_of_moments_sees_what_one_transaction_misses():
    tables = marking([(10, 20)], False), marking([(12, 20)], False)
    assert missed(*tables, None, lambda plan: [plan.steps]) == set(range(12, 21))
    assert not nft_plan.plan_table(tables[0], None, OWNER).before


def unmarked(first, second, transactions):
    """Moments at which a packet passes a hook without the rule that both tables have; and the table at the end.

    A transaction gives every chain its new rules at once, but a packet passes one chain after the other: those before that
    moment with the old rules, the others with the new ones. A chain that comes or goes is passed all the while, without rules.
    """
    kernel = Kernel()
    kernel.apply_all(nft_plan.plan_table(first, None, OWNER))
    plan = nft_plan.plan_table(second, copy.deepcopy(kernel.table), OWNER)
    missing = []
    for number, steps in enumerate(transactions(plan)):
        before = copy.deepcopy(kernel.table)
        kernel.apply(steps)
        # a chain that is made anew at another place is another one: both are passed
        rules = [
            {(chain["priority"], chain["name"]): chain["rules"] for chain in table["chains"]}
            for table in (before, kernel.table)
        ]
        order = sorted({*rules[0], *rules[1]})
        for moment in range(len(order) + 1):
            met = [rule for index, place in enumerate(order) for rule in rules[index >= moment].get(place, ())]
            if not any("daddr" in str(rule) for rule in met):
                missing.append((number, moment))
    assert shape(kernel.table) == shape(second)
    return missing


def moved(priority, elements=((10, 20),), extra=False):
    table = marking(elements, extra)
    table["chains"][0]["priority"] = priority
    return table


@given(st.integers(-2, 2), st.integers(-2, 2), spans, spans, st.booleans())
def test_a_packet_under_way_finds_the_rule_of_a_chain_that_moves(first, second, old, new, extra):
    assert not unmarked(moved(first, old), moved(second, new, extra), lambda plan: plan.transactions())


def test_the_model_of_places_sees_what_one_transaction_misses():
    assert unmarked(moved(0), moved(-5), lambda plan: [plan.steps]) and not unmarked(
        moved(0), moved(5), lambda plan: [plan.steps]
    )


def test_a_substitute_that_was_left_over_goes_and_does_not_hinder_the_next():
    kernel = Kernel()
    kernel.apply_all(nft_plan.plan_table(moved(0), None, OWNER))
    for priority in (1, 2):  # killed after the first of three transactions, twice
        kernel.apply(nft_plan.plan_table(moved(priority), copy.deepcopy(kernel.table), OWNER).before)
    assert sorted(chain["name"] for chain in kernel.table["chains"]) == ["one", "one_stays", "one_stays_stays"]
    kernel.apply_all(nft_plan.plan_table(moved(3), copy.deepcopy(kernel.table), OWNER))
    assert shape(kernel.table) == shape(moved(3))


@pytest.mark.parametrize("change", ["unknown", "set", "empty", "hookless"])
def test_a_chain_that_cannot_be_copied_moves_in_one_transaction(change):
    actual, desired = ({**moved(priority), "owner": OWNER} for priority in (0, -5))
    chain = actual["chains"][0]
    if change == "unknown":
        chain["rules"] = [[{"unknown": "counter", "data": "00"}]]
    elif change == "set":
        desired["sets"][0]["type"] = "ipv6_addr"
    elif change == "empty":
        chain["rules"] = []
    else:
        chain.update(type=None, hook=None)
    plan = nft_plan.plan_table(desired, actual, OWNER)
    assert plan.changed and not plan.before and not plan.after


def test_ranges_that_only_come_or_go_need_one_transaction():
    kernel = Kernel()
    kernel.apply_all(nft_plan.plan_table(marking([(1, 2), (8, 9)], False), None, OWNER))
    plan = nft_plan.plan_table(marking([(5, 6), (8, 9)], False), kernel.table, OWNER)
    assert [step["op"] for steps in plan.transactions() for step in steps] == ["delete_elements", "add_elements"]


@given(tables())
def test_a_table_that_was_taken_over_is_owned_by_its_chains(desired):
    kernel = Kernel()
    kernel.apply_all(nft_plan.plan_table(desired, None, OWNER))
    kernel.table["owner"] = None
    for chain in kernel.table["chains"]:
        chain["owner"] = None
    refused = nft_plan.plan_table(desired, kernel.table, OWNER)
    assert refused.unowned and [entry.reason for entry in refused.refused] == ["adoptable"] and not refused.steps
    assert [entry.reason for entry in nft_plan.plan_absent("inet", "t", kernel.table, OWNER).refused] == ["not_ours"]
    plan = nft_plan.plan_table(desired, kernel.table, OWNER, adopt=True)
    kernel.apply_all(plan)
    if desired["chains"]:
        assert nft_plan.owned(kernel.table, OWNER) and not nft_plan.plan_table(desired, kernel.table, OWNER).changed


def test_a_diff_shows_a_hundred_elements_and_counts_the_rest():
    desired = dict(kubespan_nft.table(), chains=[])
    desired["sets"][0]["elements"] = tuple((number * 2, number * 2) for number in range(1000))
    plan = nft_plan.plan_table(desired, None, OWNER)
    assert "and 900 more" in plan.diff()["after"] and "elements: 1000" in plan.diff()["after"]


@pytest.mark.parametrize("text", HOSTILE["rules"])
def test_hostile_rules(text):
    with pytest.raises(ValueRefused) as refused:
        nft_spec.parse_table({"name": "t", "chains": [{"name": "c", "rules": ["accept", text]}]})
    assert refused.value.reason == "bad_rule" and "chains[0].rules[1]" in refused.value.message


@pytest.mark.parametrize("name", HOSTILE["names"])
def test_hostile_names(name):
    for raw in (
        {"name": name},
        {"name": "t", "chains": [{"name": name}]},
        {"name": "t", "sets": [{"name": name, "type": "ipv4_addr"}]},
    ):
        with pytest.raises(ValueRefused) as refused:
            nft_spec.parse_table(raw)
        assert refused.value.reason == "bad_name"


@pytest.mark.parametrize("kind, text", [(kind, text) for kind, texts in HOSTILE["elements"].items() for text in texts])
def test_hostile_elements(kind, text):
    good = {"ipv4_addr": "10.0.0.1", "ipv6_addr": "fd00::1", "inet_service": 80}[kind]
    parsed = nft_spec.parse_table({"name": "t", "sets": [{"name": "s", "type": kind, "elements": [text, good]}]})
    assert [entry.reason for entry in parsed["refused"]] == ["bad_element"] and len(
        parsed["table"]["sets"][0]["elements"]
    ) == 1


@pytest.mark.parametrize("value", HOSTILE["priorities"])
def test_hostile_priorities(value):
    with pytest.raises(ValueRefused) as refused:
        nft_spec.parse_priority(value)
    assert refused.value.reason == "bad_chain"


@pytest.mark.parametrize(
    "value, number", [("filter", 0), ("mangle - 5", -155), ("srcnat+1", 101), (-300, -300), ("12", 12), ("raw", -300)]
)
def test_priorities(value, number):
    assert nft_spec.parse_priority(value) == number


@pytest.mark.parametrize(
    "raw, reason",
    [
        ({"name": "t", "family": "netdev"}, "bad_name"),
        ({"name": "t", "owner": "a/b"}, "bad_name"),
        ({"name": "t", "chains": [{"name": "c"}, {"name": "c"}]}, "bad_name"),
        ({"name": "t", "chains": [{"name": "c", "policy": "drop"}]}, "bad_chain"),
        ({"name": "t", "chains": [{"name": "c", "hook": "ingress"}]}, "bad_chain"),
        ({"name": "t", "chains": [{"name": "c", "hook": "input", "policy": "queue"}]}, "bad_chain"),
        ({"name": "t", "sets": [{"name": "s", "type": "mark"}]}, "bad_set"),
    ],
)
def test_tables_that_nobody_meant(raw, reason):
    with pytest.raises(ValueRefused) as refused:
        nft_spec.parse_table(raw)
    assert refused.value.reason == reason


def test_elements_become_ranges():
    raw = {
        "name": "s",
        "type": "ipv4_addr",
        "elements": ["10.0.0.0/25", "10.0.0.128-10.0.0.255", "10.0.0.3", "10.9.9.9"],
    }
    hosts = {"name": "h", "type": "inet_service", "interval": False, "elements": ["80", 443, "80", "1-2"]}
    parsed = nft_spec.parse_table({"name": "t", "sets": [raw, hosts]})
    assert parsed["table"]["sets"][0]["elements"] == ((0x0A000000, 0x0A0000FF), (0x0A090909, 0x0A090909))
    assert parsed["table"]["sets"][1]["elements"] == ((80, 80), (443, 443)) and len(parsed["refused"]) == 1
    assert nft_spec.check_rule("  tcp   dport 80\taccept".replace("\t", " ")) == "tcp dport 80 accept"
    assert nft_spec.check_rule('log prefix "a;  b # c \\"') == 'log prefix "a;  b # c \\"'


MAPPED = "ip saddr map { 10.2.0.0/16 : 10.201.0.0/16 }"


def of_text(*rules, priority=99, sets=()):
    """A table with rules in nft's own text; for a table as read, nft has listed them."""
    form = {"name": "one", "type": "nat", "hook": "postrouting", "priority": priority, "policy": "accept"}
    chain = dict(form, rules=list(rules), code=list(rules), texts=list(rules), device=None, owner=OWNER)
    return {"family": "inet", "name": "t", "owner": OWNER, "sets": list(sets), "chains": [chain]}


def substitute_rules(actual, desired):
    """The rules of the substitute that the first transaction makes; None where there is none. It is gone at the end."""
    plan = nft_plan.plan_table(desired, actual, OWNER)
    assert plan.changed
    made = [step["chain"] for step in plan.before if step["op"] == "new_chain"]
    names = [chain["name"] for chain in made]
    assert [(step["op"], step["chain"]) for step in plan.after] == [
        (operation, name) for name in names for operation in ("flush_chain", "delete_chain")
    ]
    if not made:
        return None
    assert made == [{**{key: desired["chains"][0][key] for key in made[0]}, "name": "one_stays"}]
    return [step["rule"] for step in plan.before if step["op"] == "add_rule"]


def test_a_rule_with_a_set_of_its_own_has_a_substitute_while_its_chain_is_filled_anew():
    """The kernel takes the elements of a former map away from packets that still walk the former rules, and fills new sets after the rules."""
    translating = f"snat ip prefix to {MAPPED}"
    assert substitute_rules(of_text(translating, "counter"), of_text(translating)) == [translating]
    assert substitute_rules(of_text(f"ip saddr v{MAPPED[9:]}"), of_text("accept")) == ["accept"]
    assert substitute_rules(of_text("masquerade"), of_text(translating)) == [translating]
    dropping = "ip saddr { 10.2.0.0/16 } drop"
    assert substitute_rules(of_text(dropping, "counter"), of_text(dropping)) == [dropping]
    assert substitute_rules(of_text("masquerade"), of_text("accept")) is None, (
        "a packet finds the one rule or the other"
    )


def test_a_device_may_be_named_as_a_statement():
    translating = f'oifname {{ "wireguard.log" }} snat ip prefix to {MAPPED}'
    assert substitute_rules(of_text(translating, "counter"), of_text(translating)) == [translating]


def test_a_chain_of_text_that_moves_has_a_substitute_at_its_new_place():
    assert substitute_rules(of_text("masquerade"), of_text("masquerade", priority=90)) == ["masquerade"]


@pytest.mark.parametrize("statement", ["counter", "limit rate 5/second", "log", "meta mark set 5", "jump other"])
def test_rules_that_would_do_something_twice_have_no_substitute(statement):
    translating = f"{statement} snat ip prefix to {MAPPED}"
    assert substitute_rules(of_text(f"snat ip prefix to {MAPPED}"), of_text(translating)) is None


def test_rules_that_ask_a_set_which_is_not_there_yet_have_no_substitute():
    members = {"name": "s", "type": "ipv4_addr", "flags": ["interval"], "elements": [], "external": False}
    translating = f"ip daddr @s snat ip prefix to {MAPPED}"
    assert substitute_rules(of_text(f"snat ip prefix to {MAPPED}"), of_text(translating, sets=[members])) is None
    assert substitute_rules(
        of_text(f"snat ip prefix to {MAPPED}", sets=[members]), of_text(translating, sets=[members])
    ) == [translating]
