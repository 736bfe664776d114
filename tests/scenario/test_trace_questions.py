# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ten thousand random questions to a lab in which nothing is broken, with every capability on that such a fabric can have. Part of tests/run trace.

What the answer has to be follows from the question alone: who listens on which port, and which Service has it. MCN_TRACE_TUPLES sets how many they
are, MCN_SEED repeats them.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import time

import felix_double as felix
import pytest
import trace_breaks as lab
from service_lab import client, until
from trace_lab import ENDS, populate, reported, served, trace

TUPLES, BATCH, SEED = int(os.environ.get("MCN_TRACE_TUPLES", "10000")), 1000, int(os.environ.get("MCN_SEED", "20"))
#: Seconds that they may take together.
PROXIES = True
MOST = 600
BALANCER = "{'load_balancer': 'empty://', 'pool': ['203.0.113.0/29'], 'announced_by': 'other'}"
ALL = {
    "multicluster_capabilities": ["service_mirror", "mcs", "coredns_rewrite", "network_sets", "load_balancers"],
    "service_mirror_create_namespace": True,
    "service_mirror_as": "endpoints",
    "mcs_install_crds": True,
    "coredns_rewrite_version": "1.12.2",
    "load_balancers_settings": "{{ {'gcp': " + BALANCER + "}[inventory_hostname] | default({}) }}",
}
BALANCED = []
#: The one Service of the lab, by its names.
NAMES = [
    lab.SERVICE,
    "gcp/sys-log/serviceimport/fluentd",
    "fluentd.sys-log.svc.cluster.gcp",
    "fluentd.sys-log.svc.clusterset.local",
]


@pytest.fixture(scope="module", autouse=True)
def ready(fabric):
    for cluster in fabric.clusters:
        api = client(fabric, cluster)
        felix.define(api, "globalnetworksets", "GlobalNetworkSet", "Cluster")
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "coredns"},
            "data": {"Corefile": lab.COREFILE},
        }
        until(lambda api=api: api.get("/api/v1/namespaces/kube-system"))
        api.create("/api/v1/namespaces/kube-system/configmaps", body, "kubeadm")
    fabric.kubectl("aws", "create", "namespace", "sys-log")
    populate(fabric, type="LoadBalancer")
    fabric.play("site", variables=ALL).ok()
    export = {
        "apiVersion": "multicluster.x-k8s.io/v1alpha1",
        "kind": "ServiceExport",
        "metadata": {"name": "fluentd", "namespace": "sys-log"},
    }
    client(fabric, "gcp").create(
        "/apis/multicluster.x-k8s.io/v1alpha1/namespaces/sys-log/serviceexports", export, "test"
    )
    lab.set_label(fabric, "web")
    fabric.play("site", variables=ALL).ok()
    BALANCED.append(
        client(fabric, "gcp").get("/api/v1/namespaces/sys-log/services/fluentd")["status"]["loadBalancer"]["ingress"][
            0
        ]["ip"]
    )
    with contextlib.ExitStack() as stack:
        for pod in ENDS.values():
            stack.enter_context(served(fabric, pod))
        yield


def random_question(generator):
    """Any pod to any other, or to the Service by one of its names."""
    source = generator.choice(sorted(ENDS))
    kind = generator.choice(["pod", "pod", "pod", "service", "service", "balanced"])
    if kind == "pod":
        target = generator.choice([name for name in sorted(ENDS) if name != source])
        port = generator.choice([None, lab.PORT, lab.PORT, lab.CLOSED, generator.randrange(1, 60000)])
        protocol = "udp" if port not in (None, lab.PORT) and generator.random() < 0.3 else None
        return {"source": source, "target": target, "port": port, "protocol": protocol}
    if kind == "balanced":
        return {
            "source": generator.choice([name for name in sorted(ENDS) if name.startswith("gcp/")]),
            "target": BALANCED[0],
            "port": lab.PORT,
        }
    return {
        "source": source,
        "target": generator.choice(NAMES),
        "port": generator.choice([None, lab.PORT, lab.PORT, 80, generator.randrange(1, 60000)]),
    }


def right(question):
    """(verdict, cause) of a question."""
    if question["target"] in ENDS:
        return ("arrives", "") if question["port"] in (None, lab.PORT) else ("does not arrive", "port_closed")
    return ("arrives", "") if question["port"] in (None, lab.PORT) else ("does not arrive", "port_not_in_service")


def test_random_questions_have_the_answers_that_they_should(fabric, capsys):
    generator, counted, began = random.Random(SEED), {}, time.monotonic()
    for start in range(0, TUPLES, BATCH):
        asked = [random_question(generator) for dummy in range(min(BATCH, TUPLES - start))]
        dummy, document = trace(fabric, trace_questions=asked, trace_lifetime=120)
        early = {row["question"]: row["cause"] for row in document["findings"] if "question" in row}
        followed = [question for number, question in enumerate(asked) if number not in early]
        assert len(followed) == len(document["flows"]), reported(document)
        wrong = [(asked[number], cause) for number, cause in early.items() if right(asked[number])[1] != cause]
        wrong += [
            (question, row)
            for question, row in zip(followed, document["flows"])
            if right(question) != (row["verdict"], row["cause"])
        ]
        assert not wrong, f"{len(wrong)} of {len(asked)}: {json.dumps(wrong[:5])}"
        for question in asked:
            counted[right(question)] = counted.get(right(question), 0) + 1
        fabric.ran(f"{sum(counted.values())} questions in {time.monotonic() - began:.0f} s")
    took = time.monotonic() - began
    with capsys.disabled():
        print(f"\n{sum(counted.values())} random questions, expected = observed in all, in {took:.0f} s: {counted}")
    assert sum(counted.values()) == TUPLES and len(counted) == 3 and took < MOST
