# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Annotations by which owners of Services choose: what narrows, what is refused, and that nobody is heard who was not asked."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._services.endpoints import Endpoint, Group
from ansible_collections.multicluster.network.plugins.module_utils._services.service_annotations import (
    chosen_clusters,
    chosen_name,
    copied_metadata,
    narrowed,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

PORTS = [{"name": "http", "port": 80}, {"name": "ftp", "port": 21}]
GROUPS = [
    Group(
        None,
        tuple({"name": port["name"], "port": port["port"] + 8000} for port in PORTS),
        (Endpoint(("10.2.0.1",), {}),),
    )
]
CHOICES = ("ports", "clusters", "exported-name")


def service(**choices):
    annotations = {"mirror.semaphore.uw.io/" + key.replace("_", "-"): value for key, value in choices.items()}
    return {"metadata": {"name": "web", "namespace": "shop", "annotations": annotations}, "spec": {"ports": PORTS}}


@pytest.mark.parametrize(
    "text,kept", [("http", ["http"]), ("21", ["ftp"]), (" http ,21,", ["http", "ftp"]), ("80,http", ["http"])]
)
def test_ports_by_name_or_number(text, kept):
    made, groups = narrowed(service(ports=text), GROUPS, CHOICES)
    assert [port["name"] for port in made["spec"]["ports"]] == kept
    assert [[port["name"] for port in group.ports] for group in groups] == [kept] and groups[0].endpoints == GROUPS[
        0
    ].endpoints


@pytest.mark.parametrize("text", ["", ",", "https", "http,https", "8080", "http ftp", "*", "http\x00"])
def test_ports_that_are_not_there_are_refused(text):
    with pytest.raises(ValueRefused) as raised:
        narrowed(service(ports=text), GROUPS, CHOICES)
    assert raised.value.reason == "ports_invalid"


def test_a_port_without_a_name():
    made = dict(service(ports="80"), spec={"ports": [{"port": 80}]})
    groups = [Group(None, ({"port": 8080},), ())]
    assert narrowed(made, groups, CHOICES) == (dict(made, spec={"ports": [{"port": 80}]}), groups)


def test_nobody_is_heard_who_was_not_asked():
    made = service(clusters="gcp", exported_name="x", ports="nothing")
    assert narrowed(made, GROUPS, ["clusters"]) == (made, GROUPS)
    assert chosen_name(made, ["ports"]) is None and chosen_clusters(made, []) is None
    assert chosen_name(made, CHOICES) == "x" and chosen_clusters(made, CHOICES) == {"gcp"}
    assert chosen_clusters(service(clusters=" , "), CHOICES) == frozenset()


@pytest.mark.parametrize("annotations", [None, [], "x", {"mirror.semaphore.uw.io/clusters": 7}])
def test_annotations_that_are_none(annotations):
    made = service()
    made["metadata"]["annotations"] = annotations
    assert chosen_clusters(made, CHOICES) is None and copied_metadata(
        made, ["a"], ["mirror.semaphore.uw.io/clusters"]
    ) == ({}, {})
