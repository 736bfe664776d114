# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""`validate` refuses by name what would leave hosts of one KubeSpan mesh without each other: no discovery service, none that is one, or several."""

from __future__ import annotations

import pytest
from inventories import validate, write

HOSTS = """
all:
  vars:
    multicluster_mesh: kubespan
    mesh_id: q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=
    mesh_secret: AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=
    kubespan_registries: [REGISTRIES]
  children:
    clusters:
      hosts:
        talos: {pod_cidrs: [10.8.0.0/16], service_cidrs: [10.9.0.0/16], node_cidrs: [10.67.1.0/24], wireguard_port: 1}
        other: {pod_cidrs: [10.18.0.0/16], service_cidrs: [10.19.0.0/16], node_cidrs: [10.67.2.0/24], wireguard_port: 2}
    edge:
      vars: {multicluster_cluster: talos}
      hosts:
        edge-1: {FIRST}
        edge-2: {SECOND}
"""


def found(folder, first, second, registries="inventory, discovery"):
    """({reason: (level, where, message)}, warnings) that `validate` has of the service."""
    text = HOSTS.replace("REGISTRIES", registries).replace("FIRST", first).replace("SECOND", second)
    write(folder, {"hosts.yml": text})
    wrong, warnings, _mesh = validate([folder / "hosts.yml"])
    rows = {
        row["reason"]: (row["level"], row["where"], row["message"]) for row in wrong if "discovery" in row["variable"]
    }
    return rows, [text for text in warnings if "kubespan_discovery_url" in text]


def url(text):
    return f"kubespan_discovery_url: {text}"


def test_hosts_of_one_mesh_with_different_services_are_refused_by_name(tmp_path):
    rows, _warnings = found(tmp_path, url('"https://discovery.talos.dev/"'), url('"https://discovery.example.org"'))
    level, where, message = rows.pop("services_differ")
    assert not rows and level == "error" and "edge" in where
    assert "https://discovery.example.org:443: edge-2; https://discovery.talos.dev:443: edge-1" in message
    assert "write one kubespan_discovery_url for all of them" in message


def test_one_service_written_in_two_ways_is_one(tmp_path):
    assert found(tmp_path, url('"https://discovery.talos.dev/"'), url('"https://discovery.talos.dev:443"')) == ({}, [])


def test_hosts_that_meet_by_annotations_are_warned(tmp_path):
    registries = "annotations, inventory, discovery"
    rows, warnings = found(tmp_path, url('"https://a.example.org"'), url('"https://b.example.org"'), registries)
    assert not rows and len(warnings) == 1 and "finds those members alone" in warnings[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "kubespan_discovery_url is not set"),
        (url("discovery.talos.dev"), "it is https://"),
        (url('["https://a.example.org", "https://b.example.org"]'), "is a list, and a host asks one service"),
        (url('"htps://discovery.talos.dev"'), "it is https://"),
    ],
)
def test_a_host_without_a_service_that_is_one_is_refused_before_any_node_is_asked(tmp_path, text, words):
    rows, _warnings = found(tmp_path, text, url('"https://discovery.talos.dev/"'))
    level, where, message = rows.pop("bad_url")
    assert not rows and level == "error" and "edge-1" in where and words in message, message


def test_a_mesh_without_a_discovery_service_needs_no_url(tmp_path):
    assert found(tmp_path, url("nonsense"), "", "annotations, inventory") == ({}, [])
