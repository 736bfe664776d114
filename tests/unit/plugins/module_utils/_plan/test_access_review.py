# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an access lacks, from the API server's answer. A real one is asked in tests/api/test_mcs_access.py."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._plan.access_manifests import CAPABILITIES
from ansible_collections.multicluster.network.plugins.module_utils._plan.access_review import missing
from hypothesis import given, strategies as st

ALL = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}


def answer(rules, incomplete=False):
    return {"status": {"resourceRules": rules, "nonResourceRules": [], "incomplete": incomplete}}


def test_what_the_capability_has_is_enough_and_nothing_of_it_is_too_much():
    rules = [dict(rule) for rule in CAPABILITIES["mcs"]]
    assert missing("mcs", answer(rules)) == missing("mcs", answer([ALL])) == []
    for number, rule in enumerate(rules):
        if "resourceNames" in rule:
            continue  # a right for one name is not in question
        for part in ("resources", "verbs"):
            for gone in rule[part]:
                less = copy.deepcopy(rules)
                less[number][part].remove(gone)
                said = " ".join(missing("mcs", answer(less)))
                assert gone in said, (rule, gone)


@pytest.mark.parametrize(
    "rules, lacks",
    [
        ([], 9),
        ([dict(ALL, resourceNames=["x"])], 9),  # one name is not all
        ([{"apiGroups": ["multicluster.x-k8s.io"], "resources": ["*"], "verbs": ["*"]}], 5),
        ([dict(ALL, resources=["*/status"])], 7),
        ([dict(ALL, verbs=["get", "list"])], 5),
    ],
)
def test_wildcards_and_names(rules, lacks):
    assert len(missing("mcs", answer(rules))) == lacks


def test_what_the_server_does_not_know_is_no_lack():
    assert (
        missing("mcs", answer([], incomplete=True))
        == missing("mcs", {})
        == missing("mcs", {"status": {"resourceRules": None}})
        == []
    )


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=4),
    lambda one: (
        st.lists(one, max_size=3)
        | st.dictionaries(st.sampled_from(["apiGroups", "resources", "verbs", "resourceNames"]), one, max_size=4)
    ),
    max_leaves=10,
)


@given(JSON)
def test_no_answer_breaks_it(given_one):
    missing("mcs", {"status": {"resourceRules": given_one}})
    missing("mcs", {"status": {"resourceRules": [given_one]}})
    missing("mcs", {"status": given_one})


def test_the_rights_of_a_trace_only_read():
    rules = [dict(rule) for rule in CAPABILITIES["trace"]]
    assert missing("trace", answer(rules)) == [] and {verb for rule in rules for verb in rule["verbs"]} == {
        "get",
        "list",
    }
    assert missing("trace", answer([dict(rule) for rule in CAPABILITIES["mesh"]]))[:2] == ["list pods", "list services"]
