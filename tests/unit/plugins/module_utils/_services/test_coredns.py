# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rewriting: our rules, our evaluation of them, and RE2 as the independent judge of both."""

from __future__ import annotations

import json
import pathlib

import pytest
import re2
from ansible_collections.multicluster.network.plugins.module_utils._services import (
    coredns_corefile as corefile,
    coredns_rules as rules,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import assume, given, strategies as st

HOSTILE = json.loads(
    (pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "hostile" / "dns_names.json").read_text("utf-8")
)
RULES = rules.rewrite_rules(HOSTILE["clusters"], "sys-semaphore")
#: The seed's own rule, as its readers have it in their Corefiles.
SEED = rules.Rule(
    "cluster.aws",
    r"([\w-]*\.)?([\w-]*)\.([\w-]*)\.svc\.cluster\.(aws|gcp)",
    "{1}{4}-{3}-73736d-{2}.sys-semaphore.svc.cluster.local",
    r"([\w-]*\.)?(aws|gcp)-([\w-]*)-73736d-([\w-]*)\.sys-semaphore\.svc\.cluster\.local",
    "{1}{4}.{3}.svc.cluster.{2}",
)


def judged(pattern, template, name):
    """What CoreDNS does with a pattern, done by RE2 and by its own way to fill the template."""
    found = re2.search(pattern, rules.absolute(name))
    if found is None:
        return None
    text = template
    for number, value in enumerate((found.group(0),) + found.groups()):
        text = text.replace(f"{{{number}}}", value or "")
    return rules.absolute(text)


@pytest.mark.parametrize("case", HOSTILE["cases"], ids=lambda case: ascii(case["query"]))
def test_names(case):
    found = rules.rewrite_name(RULES, case["query"])
    assert (found.name, found.rcode) == (case["name"], case.get("rcode"))
    if found.name is not None:
        assert found.answer == rules.absolute(case["query"])


LABELS = st.sampled_from(
    [
        "a",
        "aws",
        "aws-2",
        "2-web",
        "svc",
        "cluster",
        "73736d",
        "x-73736d-y",
        "_http",
        "_tcp",
        "web-0",
        "local",
        "-",
        "*",
        "",
    ]
)
NAMES = st.lists(LABELS, max_size=7).map(".".join) | st.text("aws-2.svclutr_73dg*{}1\\|()", max_size=60)
QUERIES = st.tuples(
    NAMES, st.sampled_from(["", ".svc.cluster.aws", ".svc.cluster.aws-2", ".svc.cluster.gcp.", ".svc.cluster.local"])
).map("".join)


@given(QUERIES)
def test_re2_agrees_with_our_evaluation(query):
    for rule in [*RULES, SEED]:
        for pattern, template in ((rule.name_regex, rule.name_to), (rule.answer_regex, rule.answer_to)):
            assert rules.substitute(pattern, template, query) == judged(pattern, template, query)


DNS_LABEL = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
CLUSTER = st.from_regex(r"[a-z]([a-z0-9-]{0,6}[a-z0-9])?", fullmatch=True).filter(
    lambda name: name not in ("local", "global", "gl")
)


@given(st.lists(CLUSTER, min_size=1, max_size=4, unique=True), DNS_LABEL, DNS_LABEL, DNS_LABEL, st.data())
def test_every_name_goes_to_its_own_cluster_and_comes_back(clusters, service, namespace, mirrors, data):
    assume("73736d" not in service)
    owned = rules.rewrite_rules(clusters, mirrors, global_zone=True)
    cluster = data.draw(st.sampled_from(clusters))
    leading = data.draw(st.sampled_from(["", "pod-0.", "_http._tcp."]))
    query = f"{leading}{service}.{namespace}.svc.cluster.{cluster}."
    found = rules.rewrite_name(owned, query)
    assert found.name == f"{leading}{cluster}-{namespace}-73736d-{service}.{mirrors}.svc.cluster.local."
    assert found.answer == query
    # exactly one rule knows it, and RE2 agrees
    assert [
        judged(rule.name_regex, rule.name_to, query) for rule in owned if judged(rule.name_regex, rule.name_to, query)
    ] == [found.name]


@given(st.lists(CLUSTER, min_size=1, max_size=4, unique=True), QUERIES)
def test_no_zone_answers_for_another(clusters, query):
    for rule in rules.rewrite_rules(clusters, "sys-semaphore", global_zone=True):
        found = rules.substitute(rule.name_regex, rule.name_to, query)
        if found is not None:
            assert rules.absolute(query).endswith("." + rule.zone + ".")
            assert found.endswith(".sys-semaphore.svc.cluster.local.")
        back = rules.substitute(rule.answer_regex, rule.answer_to, query)
        assert back is None or back.endswith("." + rule.zone + ".")


def test_what_the_seed_gets_right_stays_right():
    two = rules.rewrite_rules(["aws", "gcp"], "sys-semaphore")
    for query in (
        "fluentd.sys-log.svc.cluster.aws",
        "x.fluentd.sys-log.svc.cluster.gcp",
        "c.a-73736d-b.svc.cluster.aws",
        "my_svc.ns.svc.cluster.aws",
    ):
        assert rules.rewrite_name(two, query)[:2] == rules.rewrite_name([SEED], query)[:2]


def test_rules_that_coredns_would_not_load():
    for rule in RULES:
        assert rules.rule_problem(rule.name_regex, rule.name_to) is None
        assert rules.rule_problem(rule.answer_regex, rule.answer_to) is None
    assert rules.rule_problem(SEED.name_regex, SEED.name_to) is None
    assert rules.rule_problem(SEED.name_regex.replace("(aws|gcp)", "aws"), SEED.name_to)
    assert rules.rule_problem("(", "x")


def test_a_prefix_of_its_own_and_global_services():
    owned = rules.rewrite_rules(["aws"], "m", True, {"aws": "a-1"}, "k8s.example")
    assert rules.rewrite_name(owned, "s.n.svc.cluster.aws").name == "a-1-n-73736d-s.m.svc.k8s.example."
    assert rules.rewrite_name(owned, "s.n.svc.cluster.global").name == "gl-n-73736d-s.m.svc.k8s.example."
    assert rules.answer_name(owned, "x.gl-n-73736d-s.m.svc.k8s.example.") == "x.s.n.svc.cluster.global."
    assert rules.answer_name(owned, "10.3.4.5") == "10.3.4.5"


# --- Corefiles ---------------------------------------------------------------------------------------------------

GCP = corefile.Options("gcp", ("aws",), "sys-semaphore")


def test_the_whole_corefile_has_the_seeds_blocks():
    blocks = corefile.whole_corefile(GCP)
    assert [(block.zones, [plugin.name for plugin in block.plugins]) for block in blocks] == [
        (("cluster.aws",), ["errors", "rewrite", "kubernetes", "forward", "cache", "loop", "reload", "loadbalance"]),
        (
            (".:53",),
            ["errors", "health", "kubernetes", "prometheus", "forward", "cache", "loop", "reload", "loadbalance"],
        ),
    ]
    text = corefile.corefile_text(blocks)
    assert (
        "    kubernetes cluster.local cluster.gcp in-addr.arpa ip6.arpa {\n        pods insecure\n        endpoint_pod_names\n"
        in text
    )
    assert "upstream" not in text and text.count("health") == 1
    assert [block.zones for block in corefile.whole_corefile(GCP._replace(global_zone=True))] == [
        ("cluster.aws",),
        ("cluster.global",),
        (".:53",),
    ]


def test_owned_blocks_share_one_watch_and_serve_the_own_zone_apart():
    blocks = corefile.owned_blocks(GCP._replace(remotes=("aws", "azure"), global_zone=True))
    assert [block.zones for block in blocks] == [("cluster.azure", "cluster.aws", "cluster.global"), ("cluster.gcp",)]
    names = [plugin.name for block in blocks for plugin in block.plugins]
    assert not {"health", "ready", "prometheus"} & set(names), "they open ports, and the user's block has them"
    assert corefile.owned_blocks(GCP._replace(remotes=())) == corefile.owned_blocks(GCP)[1:]
    assert corefile.owned_blocks(GCP._replace(local=None)) == corefile.owned_blocks(GCP)[:1]


@pytest.mark.parametrize(
    "version,upstream,value,ready",
    [
        ("1.4.0", True, False, False),
        ("1.6.9", True, False, True),
        ("1.7.0", False, False, True),
        ("1.8.0", False, False, True),
        ("v1.8.4-eksbuild.1", False, True, True),
        (None, False, True, True),
    ],
)
def test_options_fit_the_version(version, upstream, value, ready):
    text = corefile.corefile_text(
        corefile.whole_corefile(GCP._replace(ready=True, version=corefile.parse_version(version)))
    )
    assert ("\n        upstream\n" in text, "answer value" in text, "\n    ready\n" in text) == (upstream, value, ready)


@pytest.mark.parametrize("text", ["latest", "1", "1.x", "1.8.4.", "1.8.4\n", "1.8.٤", 1.8])
def test_versions_that_are_none(text):
    with pytest.raises(ValueRefused):
        corefile.parse_version(text)


def test_a_cluster_is_not_its_own_remote():
    with pytest.raises(ValueRefused) as raised:
        corefile.rules_of(GCP._replace(remotes=("gcp",)))
    assert raised.value.reason == "remote_is_local"
    for name in ("global", "local"):
        with pytest.raises(ValueRefused):
            corefile.rules_of(GCP._replace(local=name))
