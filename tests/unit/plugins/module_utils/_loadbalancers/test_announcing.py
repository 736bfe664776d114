# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses that no router receives are named, with what to set."""

from __future__ import annotations

from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers import services
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.services import Row


def test_who_would_announce():
    assert "bgp_speaker_neighbors" in services.silence("empty", "bgp_speaker", [], "")
    assert services.silence("empty", "other", [], "") == "" == services.silence("empty", "bgp_speaker", ["n1"], "")
    assert services.silence("empty", "", None, "") == ""  # nobody said which nodes speak
    assert (
        services.silence("metallb", "bgp_speaker", [], "no peer") == "no peer"
        and services.silence("kube-vip", "", [], "") == ""
    )


def test_a_back_end_that_does_not_run():
    assert "no Deployment or DaemonSet" in services.missing_backend("metallb", ["registry.k8s.io/coredns:1.11"])
    assert (
        services.missing_backend("metallb", ["x/coredns", "quay.io/metallb/speaker:v0.14.8"])
        == ""
        == services.missing_backend("empty", ["x"])
    )
    assert services.missing_backend("kube-vip", ["ghcr.io/kube-vip/kube-vip:v0.8"]) == ""
    assert services.missing_backend("kube-vip", []) == ""  # nobody may look


def test_which_addresses_and_why():
    rows = [
        Row("default/a", "192.0.2.1", True, True),
        Row("default/b", "192.0.2.2", True),
        Row("default/c", ""),
        Row("default/d", "192.0.2.4"),
    ]
    assert [row["service"] for row in services.unannounced(rows, "empty", "no router")] == [
        "default/a",
        "default/b",
        "default/d",
    ]
    assert services.unannounced(rows, "empty", "") == []
    # MetalLB and kube-vip report what they serve; what this run has just written they cannot have reported yet
    # a family that no router receives is reported, whatever else is well
    six = [services.Row("default/six", "2001:db8::1"), services.Row("default/four", "203.0.113.1")]
    assert [(row["service"], "IPv6" in row["reason"]) for row in services.unannounced(six, "empty", "", {4})] == [
        ("default/six", True)
    ]
    assert [(row["service"], "IPv4:" in row["reason"]) for row in services.unannounced(six, "empty", "", {6})] == [
        ("default/four", True)
    ]
    assert services.unannounced(six, "empty", "", {4, 6}) == services.unannounced(six, "empty", "", None) == []
    found = services.unannounced(rows, "metallb", "")
    assert [row["address"] for row in found] == ["192.0.2.2"] and "is MetalLB running" in found[0]["reason"]
    assert "kube-vip" in services.unannounced(rows, "kube-vip", "")[0]["reason"]


def test_the_sentence_stays_within_a_line_or_two():
    rows = [{"service": f"default/s{number}", "address": f"192.0.2.{number}", "reason": "why"} for number in range(9)]
    text, other = services.sentences("aws", rows + [{"service": "x/y", "address": "192.0.2.77", "reason": "zzz"}])
    assert (
        text.startswith("aws: nobody announces 192.0.2.0 (default/s0), ")
        and text.endswith("and 4 more: why")
        and "x/y" in other
    )
    assert services.sentences("aws", []) == []
