# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is not needed any more once the place of an original is taken: only what is theirs alone, and no name of theirs becomes a command."""

from __future__ import annotations

import json
import pathlib
import re
import shlex

import yaml
from ansible_collections.multicluster.network.plugins.module_utils._upstream.leftovers import (
    MOST_LINES,
    leftovers,
    lines,
)
from hypothesis import given, strategies as st

TESTS = pathlib.Path(__file__).resolve().parents[4]
CONFIGURED = yaml.safe_load((TESTS / "originals" / "settings.yml").read_text("utf-8"))
HOSTILE = json.loads((TESTS / "fixtures" / "hostile" / "leftovers.json").read_text("utf-8"))


def workload(name, image="semaphore-wireguard", kind="Deployment", namespace="kube-system", **spec):
    spec.setdefault("containers", [{"name": "one", "image": image}])
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"template": {"spec": spec}},
    }


def named(found):
    return {(one.kind, one.name) for one in found}


def test_what_upstream_programs_of_a_cluster_leave():
    found = leftovers("aws", CONFIGURED["aws"])
    assert {
        ("DaemonSet", "semaphore-wireguard"),
        ("ConfigMap", "semaphore-wireguard-config"),
        ("Secret", "semaphore-wireguard-token-gcp"),
        ("Deployment", "semaphore-service-mirror"),
        ("ConfigMap", "semaphore-service-mirror-config"),
    } <= named(found)
    (one,) = [row for row in found if row.kind == "Secret" and row.name == "semaphore-wireguard-token-gcp"]
    assert (
        one.program == "semaphore-wireguard"
        and one.command == "kubectl --namespace kube-system delete secret semaphore-wireguard-token-gcp"
    )
    assert (
        "not needed once taken over: Secret kube-system/semaphore-wireguard-token-gcp of semaphore-wireguard in cluster aws; "
        + one.command
        in lines(found)
    )


def test_what_another_workload_uses_as_well_is_not_theirs():
    env = [{"name": "x", "valueFrom": {"secretKeyRef": {"name": "shared", "key": "k"}}}]
    mine = [{"name": "one", "image": "semaphore-policy", "env": env, "envFrom": [{"configMapRef": {"name": "own"}}]}]
    original = workload(
        "policy",
        containers=mine,
        serviceAccountName="policy",
        volumes=[{"projected": {"sources": [{"configMap": {"name": "seen"}}]}}],
    )
    assert named(leftovers("aws", [original])) == {
        ("Deployment", "policy"),
        ("ServiceAccount", "policy"),
        ("Secret", "shared"),
        ("ConfigMap", "own"),
        ("ConfigMap", "seen"),
    }
    user = workload(
        "shop",
        image="shop",
        volumes=[{"secret": {"secretName": "shared"}}],
        serviceAccountName="policy",
        initContainers=[{"name": "first", "envFrom": [{"configMapRef": {"name": "own"}}]}],
    )
    assert named(leftovers("aws", [original, user])) == {("Deployment", "policy"), ("ConfigMap", "seen")}
    # of the same name elsewhere it is another one
    assert len(leftovers("aws", [original, dict(user, metadata={"name": "shop", "namespace": "shop"})])) == 5
    # its pods have a container of another owner
    assert leftovers("aws", [workload("both", containers=[*mine, {"name": "two", "image": "shop"}])]) == []


def test_what_goes_on_running_or_is_read_at_each_run_stays():
    """Kilo's agents; the controller's Secret, from which runs take settings and token; what every namespace has."""
    assert (
        leftovers("aws", [workload("kilo", image="kilo", kind="DaemonSet", volumes=[{"configMap": {"name": "kilo"}}])])
        == []
    )
    volumes = [{"name": "cloud", "secret": {"secretName": "metal-cloud-config"}}]
    found = leftovers(
        "aws", [workload("ccm", image="cloud-provider-equinix-metal", volumes=volumes, serviceAccountName="default")]
    )
    assert named(found) == {("Deployment", "ccm")}


def test_no_name_becomes_a_command_or_a_line_of_its_own():
    objects = [
        workload(name, volumes=[{"secret": {"secretName": name}}], namespace=space)
        for name in HOSTILE["names"]
        for space in ("kube-system", name)
    ]
    found = leftovers("aws", objects)
    assert found
    for row in found:
        assert row.command == "" or re.fullmatch(
            r"kubectl --namespace [a-z./][\w./-]* delete [a-z]+ [\w./][\w./-]*", row.command
        ), row
    for line in lines(found):
        assert line.isprintable() and line.isascii() and "{{" not in line and "$(" not in line and "rm -rf" not in line


def test_odd_forms_are_read_as_nothing():
    for spec in HOSTILE["odd_specs"]:
        found = leftovers("aws", [{"kind": "Deployment", "metadata": {"name": "one"}, "spec": spec}])
        assert {row.kind for row in found} <= {"Deployment"}
    assert leftovers("aws", [None, 7, [], {"kind": "Deployment", "metadata": []}]) == []


def test_thousands_are_counted():
    found = leftovers("aws", [workload("w%d" % number) for number in range(HOSTILE["thousands"])])
    assert len(found) == HOSTILE["thousands"] and len(lines(found)) == MOST_LINES + 1
    assert lines(found)[-1] == "not needed once taken over: %d more" % (HOSTILE["thousands"] - MOST_LINES)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                (
                    "name",
                    "containers",
                    "image",
                    "env",
                    "envFrom",
                    "valueFrom",
                    "volumes",
                    "secret",
                    "configMap",
                    "spec",
                    "template",
                    "secretName",
                )
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(st.text(max_size=40), st.text(max_size=40), _JSON)
def test_any_object_gives_lines_and_commands_of_three_words(name, namespace, more):
    obj = workload(name, namespace=namespace)
    obj["spec"]["template"]["spec"].update(more if isinstance(more, dict) else {"volumes": more})
    found = leftovers("aws", [obj])
    for row in found:
        words = shlex.split(row.command)
        assert words == [] or words == ["kubectl", "--namespace", row.namespace, "delete", row.kind.lower(), row.name]
    assert all(line.isprintable() for line in lines(found))
    assert leftovers("aws", [obj]) == found
