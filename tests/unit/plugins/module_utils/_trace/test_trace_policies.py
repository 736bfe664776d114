# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Calico's policies say of a source in another cluster, by the sets that they name; what is not understood lets everybody in."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.filter.policy_selector import policy_selector
from ansible_collections.multicluster.network.plugins.module_utils._trace.policies import Calico, lacks_set
from hypothesis import given, settings, strategies as st

ADDRESS = (4, 0x0A02030A)  # 10.2.3.10
LABELS = {"app": "fluentd"}
SOURCE = policy_selector("web", "aws", "default")
NAMES = {
    "policy.semaphore.uw.io/name": "web",
    "policy.semaphore.uw.io/namespace": "default",
    "policy.semaphore.uw.io/cluster": "aws",
}


def policy(source, namespace="sys-log", selector="app == 'fluentd'", action="Allow", **more):
    spec = {
        "selector": selector,
        "types": ["Ingress"],
        "ingress": [dict({"action": action}, **({} if source is None else {"source": source}))],
        **more,
    }
    return {"metadata": {"name": "one", "namespace": namespace}, "spec": spec}


def net_set(*nets, labels=None, name="aws-default-web"):
    return {"metadata": {"name": name, "labels": NAMES if labels is None else labels}, "spec": {"nets": list(nets)}}


def ask(policies, sets=(), source=None):
    return lacks_set(Calico(tuple(policies), tuple(sets)), "sys-log", LABELS, ADDRESS, source)


def test_a_set_that_lacks_the_source_is_named():
    assert ask([policy(SOURCE)], [net_set("10.2.3.11/32")]) == (
        "Calico's policy sys-log/one selects it and lets 10.2.3.10 in by no rule; the sets that it names are aws-default-web"
    )


def test_a_set_that_is_not_there():
    assert ask([policy(SOURCE)]).endswith("the sets that it names are not there")


@pytest.mark.parametrize(
    "policies, sets",
    [
        ([], []),
        ([policy(SOURCE)], [net_set("10.2.3.11/32", "10.2.3.10/32")]),
        ([policy(SOURCE)], [net_set("10.2.3.11/32"), net_set("10.2.0.0/16", name="other")]),
        ([policy(SOURCE, selector="app == 'other'")], []),
        ([policy(SOURCE, selector="has(app)")], []),
        ([policy(SOURCE, namespace="default")], []),
        ([policy(SOURCE), policy(None)], []),
        ([policy({"selector": "has(app)", "namespaceSelector": "global()"})], []),
        ([policy({"notNets": ["10.0.0.0/8"]})], []),
        ([policy({"nets": ["10.2.0.0/16"]})], []),
        ([policy(SOURCE, types=["Egress"])], []),
        ([policy(SOURCE)], [{"metadata": {"name": "odd", "labels": NAMES}, "spec": {"nets": "10.0.0.0/8"}}]),
    ],
)
def test_who_is_let_in_or_of_whom_nobody_can_tell(policies, sets):
    assert ask(policies, sets) is None


@pytest.mark.parametrize(
    "source",
    [
        {"nets": ["10.3.0.0/16"]},
        {"selector": SOURCE["selector"]},  # without global() a namespaced policy sees no global set
        {"selector": SOURCE["selector"], "namespaceSelector": "global()", "nets": ["10.3.0.0/16"]},
    ],
)
def test_who_is_let_in_by_nothing(source):
    assert ask([policy(source)], [net_set("10.2.3.10/32")]) is not None


def test_what_denies_lets_nobody_in():
    assert ask([policy(None, action="Deny")]) is not None


def test_a_global_policy_sees_the_sets_without_a_selector():
    plain = {"selector": SOURCE["selector"]}
    assert ask([policy(plain, namespace=None)], [net_set("10.2.3.10/32")]) is None
    assert "policy one selects" in ask([policy(plain, namespace=None)], [net_set("10.2.3.11/32")])


def test_a_source_of_the_same_cluster_is_not_judged():
    assert ask([policy(SOURCE)], source=("default", {})) is None


WORDS, FIELDS = (
    ["global()", "all()", "app == 'fluentd'", "10.0.0.0/8", "Ingress", "Deny"],
    ["selector", "namespaceSelector", "nets", "action", "source"],
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=3),
    max_leaves=6,
)
POLICY = st.fixed_dictionaries(
    {
        "metadata": st.sampled_from([{}, None, {"namespace": "sys-log"}]),
        "spec": JSON
        | st.fixed_dictionaries(
            {},
            optional={
                name: JSON | st.lists(JSON, max_size=2)
                for name in ("selector", "types", "ingress", "namespaceSelector")
            },
        ),
    }
)
SET = st.fixed_dictionaries(
    {
        "metadata": JSON | st.just({"labels": NAMES}),
        "spec": JSON | st.fixed_dictionaries({"nets": JSON | st.lists(JSON, max_size=2)}),
    }
)


@settings(max_examples=500, deadline=None)
@given(st.lists(POLICY | st.just(policy(SOURCE)), max_size=2), st.lists(SET, max_size=2))
def test_whatever_a_cluster_has(policies, sets):
    found = ask(policies, sets)
    assert found is None or all(" " <= char <= "~" for char in found)
