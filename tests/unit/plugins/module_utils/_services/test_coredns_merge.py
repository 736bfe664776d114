# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Merging into another owner's Corefile: whatever it holds, it comes out byte for byte."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._services import coredns_merge as merging
from ansible_collections.multicluster.network.plugins.module_utils._services.coredns_corefile import (
    Options,
    owned_blocks,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import example, given, strategies as st

BLOCKS = owned_blocks(Options("gcp", ("aws",), "sys-semaphore", True))
OTHER = owned_blocks(Options("gcp", ("azure",), "sys-semaphore"))

USERS = [
    "",
    ".:53 {\n    reload\n}\n",
    ".:53 {\n    reload\n}",
    "\r\n.:53 {\r\n    reload\r\n}\r\n",
    "# { a comment\n(snippet) {\n    errors\n}\n. {\n    import snippet\n    reload\n    hosts {\n        192.0.2.1 x\n        fallthrough\n    }\n}\n",
    "import /etc/coredns/custom/*.server\n.:53 {\n    import /etc/coredns/custom/*.override\n    reload\n}\n",
    "a.example, b.example,\nc.example:53 {\n    whoami\n}\n",
    '. {\n    template IN A {\n        answer "{{ .Name }} 60 IN A 192.0.2.1"\n    }\n}\n',
    '. {\n    log . "a \\" } {" {\n        class denial\n    }\n}\n',
    "dns://.:53 {\n    reload\n}\ntls://example.org {\n    whoami\n}\n",
    "# BEGIN multicluster.network/other\ncluster.far {\n    whoami\n}\n# END multicluster.network/other\n",
]


@pytest.mark.parametrize("text", USERS, ids=range(len(USERS)))
def test_in_again_changed_and_out(text):
    merged = merging.merge(text, "t", BLOCKS)
    assert merged.endswith(text) and merging.merge(merged, "t", BLOCKS) == merged
    assert merging.merge(merging.merge(merged, "t", OTHER), "t", BLOCKS) == merged
    assert merging.merge(merged, "t", []) == text == merging.merge(text, "t", [])


TOKENS = st.sampled_from(
    [
        "{",
        "}",
        "\n",
        " ",
        ".",
        ".:53",
        "cluster.aws",
        "cluster.az",
        "errors",
        "#",
        '"',
        "\\",
        ",",
        "(s)",
        "import",
        "# BEGIN multicluster.network/t",
        "# END multicluster.network/t",
        "\r\n",
        "é",
    ]
)


@given(st.lists(TOKENS, max_size=25).map("".join) | st.text(max_size=60))
@example(". {\n}\n")
def test_any_text_is_either_refused_or_comes_out_unchanged(text):
    try:
        merged = merging.merge(text, "t", BLOCKS)
    except ValueRefused as error:
        assert error.reason in ("corefile_broken", "not_ours")
        return
    if merging.split(text, "t").section is None:
        assert merged.endswith(text)
        assert merging.merge(merged, "t", []) == text
    assert merging.merge(merged, "t", BLOCKS) == merged


@pytest.mark.parametrize(
    "text,reason",
    [
        ("cluster.aws {\n}\n", "not_ours"),
        ("CLUSTER.AWS.:53 {\n}\n", "not_ours"),
        ("dns://cluster.gcp {\n}\n", "not_ours"),
        (".:53, cluster.global {\n}\n", "not_ours"),
        (". {\n", "corefile_broken"),
        (". {\n}\n}\n", "corefile_broken"),
        (". {\n    errors {\n}\n", "corefile_broken"),
        ("errors\n", "corefile_broken"),
        ('. {\n    errors "\n}\n', "corefile_broken"),
        ("# BEGIN multicluster.network/t\n. {\n}\n", "corefile_broken"),
        ("# END multicluster.network/t\n# BEGIN multicluster.network/t\n. {\n}\n", "corefile_broken"),
        ("#" * (merging.LONGEST + 1), "corefile_broken"),
    ],
)
def test_what_cannot_be_merged(text, reason):
    with pytest.raises(ValueRefused) as raised:
        merging.merge(text, "t", BLOCKS)
    assert raised.value.reason == reason


def test_another_port_is_another_zone():
    assert merging.merge("cluster.aws:5353 {\n}\n", "t", BLOCKS)
    assert [merging.root_ports(text, "t") for text in (". {\n}\n", "x .:1053 {\n}\n", "x {\n}\n")] == [
        ("53",),
        ("1053",),
        (),
    ]


def test_a_corefile_without_reload_is_reported():
    assert merging.warnings(merging.merge(". {\n}\n", "t", BLOCKS), "t")
    # a single cluster in the place of the alternation: the fourth group is gone, and CoreDNS stays down at its next start
    rule = r"rewrite {\n name regex ([\w-]*\.)?([\w-]*)\.([\w-]*)\.svc\.aws {1}{4}-{3}-{2}.svc.local\n answer name (a)-b c.{1}\n}"
    found = merging.warnings(merging.merge(". {\n reload\n " + rule.replace(r"\n", "\n") + "\n}\n", "t", BLOCKS), "t")
    assert len(found) == 1 and "uses 4 groups, the pattern has 3" in found[0]
    broken = ". {\n reload\n rewrite stop name regex ( x\n rewrite name exact ( x\n}\n"
    assert ["does not compile" in text for text in merging.warnings(merging.merge(broken, "t", BLOCKS), "t")] == [True]
    assert not merging.warnings(merging.merge(". {\n    reload\n}\n", "t", BLOCKS), "t")


@pytest.mark.parametrize("fabric", ["", "a\nb", "a\u2028b", "é", " x"])
def test_fabrics_that_no_comment_can_hold(fabric):
    with pytest.raises(ValueRefused):
        merging.markers(fabric)


ZONE = owned_blocks(Options("gcp", ("aws",), "sys-semaphore", multicluster="clusterset.local"))


@given(
    st.sampled_from(USERS)
    | st.lists(TOKENS | st.sampled_from(["multicluster", "kubernetes", "clusterset.local"]), max_size=25).map("".join)
)
def test_the_zone_of_imports_comes_and_goes_byte_for_byte(text):
    try:
        merged = merging.merge(text, "t", ZONE)
    except ValueRefused:
        return
    theirs = merging.multicluster_elsewhere(text, "t", "clusterset.local")
    assert (
        merging.has_multicluster(merged, "t")
        and merging.multicluster_elsewhere(merged, "t", "clusterset.local") == theirs
    )
    without = merging.merge(merged, "t", BLOCKS)
    assert not merging.has_multicluster(without, "t") and merging.merge(without, "t", ZONE) == merged
    if merging.split(text, "t").section is None:
        assert without.endswith(text) and merging.merge(merged, "t", []) == text


@pytest.mark.parametrize(
    "text,line",
    [
        (
            ". {\n kubernetes cluster.local clusterset.local {\n  multicluster clusterset.local\n }\n}\n",
            "multicluster clusterset.local",
        ),
        (
            ". {\n kubernetes cluster.local x Clusterset.Local. {\n  multicluster x Clusterset.Local.\n }\n}\n",
            "multicluster x Clusterset.Local.",
        ),
        (
            "(s) {\n multicluster clusterset.local {\n  kubeconfig a\n }\n}\n. {\n import s\n}\n",
            "multicluster clusterset.local {",
        ),
        (
            ". {\n kubernetes cluster.local {\n  # multicluster clusterset.local\n  multicluster other.local\n }\n}\n",
            None,
        ),
        ('. {\n log . "multicluster clusterset.local"\n errors\n}\n', None),
        ("", None),
    ],
)
def test_imports_that_somebody_else_answers(text, line):
    assert merging.multicluster_elsewhere(text, "t", "clusterset.local") == line
    assert merging.multicluster_elsewhere(merging.merge(text, "t", ZONE), "t", "clusterset.local") == line


@pytest.mark.parametrize(
    "text,address",
    [
        ("ClusterSet.local. {\n}\n", "ClusterSet.local."),
        (".:1053 {\n}\nclusterset.local:1053 {\n}\n", "clusterset.local:1053"),
        (".:1053 {\n}\nclusterset.local {\n}\n", None),
        ("x.clusterset.local {\n}\n", None),
    ],
)
def test_a_zone_that_is_somebody_elses(text, address):
    assert merging.serves_zone(text, "t", "clusterset.local") == address
