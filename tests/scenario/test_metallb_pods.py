# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MetalLB's own controller as a Deployment of real pods: what it makes of the pools that we write. The tests build on each other, in order.

Its manifests are those of its own module, without the speaker; MCN_METALLB=0.16 takes another release (tests/metallb/build-controller).
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess

import pytest
import yaml
from harness import REPO
from service_lab import client
from test_pods import PODS, apply, eventually, newest, pods, ready, run, service, shell, workload

__all__ = ["PODS", "newest"]
SPACE = "metallb-system"
GROUP = "/apis/metallb.io/v1beta1/namespaces/" + SPACE
POOL_KIND = {"apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool"}
POOL = "203.0.113.0/29"
#: Services by name and what the plan reserves for each: the lowest free address of the pool, in the order of their names.
PLAN = {"api": "203.0.113.0", "web": "203.0.113.1"}
LATE = {"late": "203.0.113.2"}
STATE = {}


def manifests():
    """(image, objects): MetalLB's own, in its order, but for its speaker."""
    module = pathlib.Path(STATE["module"])
    documents = yaml.safe_load_all(
        (module / "config" / "manifests" / "metallb-native.yaml").read_text(encoding="utf-8")
    )
    found = [one for one in documents if one and "speaker" not in one["metadata"]["name"]]
    (deployment,) = [one for one in found if one["kind"] == "Deployment"]
    assert not [one for one in found if one["kind"] == "DaemonSet"]
    return deployment["spec"]["template"]["spec"]["containers"][0]["image"], found


def own_pool(name, cidr):
    """A pool that somebody else has written, from which MetalLB hands out nothing by itself."""
    return {
        **POOL_KIND,
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {"addresses": [cidr], "autoAssign": False},
    }


def asked(fabric, pool):
    """(accepted, what was said): the answer of MetalLB's webhook to a pool; nothing is stored."""
    file = fabric.state / "asked.json"
    file.write_text(json.dumps(pool), encoding="utf-8")
    program = pathlib.Path((fabric.state / "kubernetes").read_text().strip()) / "kubectl"
    words = [
        str(program),
        "--kubeconfig",
        str(fabric.state / "aws" / "kubeconfig"),
        "create",
        "--dry-run=server",
        "-f",
        str(file),
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode == 0, done.stdout + done.stderr


def controller(fabric):
    """The name of its pod, once it runs and its webhook answers."""
    fabric.kubectl("aws", "rollout", "status", "-n", SPACE, "deployment/controller", "--timeout=300s")
    eventually(lambda: asked(fabric, own_pool("asked", "198.51.100.64/28")), lambda answer: answer[0], within=300)
    items = json.loads(fabric.kubectl("aws", "get", "pods", "-n", SPACE, "-l", "component=controller", "-o", "json"))[
        "items"
    ]
    (found,) = [item for item in items if "deletionTimestamp" not in item["metadata"]]
    return found["metadata"]["name"]


def balanced(fabric, name):
    """A Service: (the address in its spec, those of its status)."""
    found = client(fabric, "aws").get("/api/v1/namespaces/default/services/" + name)
    return found["spec"].get("loadBalancerIP"), [
        row.get("ip") for row in found["status"]["loadBalancer"].get("ingress") or ()
    ]


def given(fabric, plan):
    """Wait until MetalLB's controller has written into the status of every Service exactly what the plan has."""
    for name, address in plan.items():
        eventually(
            lambda name=name: balanced(fabric, name), lambda found, address=address: found == (address, [address])
        )


def versions(fabric):
    """Everything that a run could write in aws, by its version."""
    api, found = client(fabric, "aws"), {}
    for path in (
        GROUP + "/ipaddresspools",
        GROUP + "/bgpadvertisements",
        "/api/v1/namespaces/default/services",
        "/api/v1/namespaces/kube-system/configmaps",
    ):
        for item in api.list(path).items:
            found[path, item["metadata"]["name"]] = item["metadata"]["resourceVersion"]
    return found


def specs(fabric, plural):
    return {item["metadata"]["name"]: item["spec"] for item in client(fabric, "aws").list(GROUP + "/" + plural).items}


def owned(writes):
    """What a witness saw that is not of the clusters' own programs, MetalLB's or kubelets': all that a playbook writes is lab-admin's."""
    return [line for line in writes if " by lab-admin" in line]


def play(fabric, *arguments, **variables):
    return fabric.play("load_balancers", *arguments, inventory=STATE["inventory"], variables=variables)


@pytest.fixture(scope="module", autouse=True)
def surroundings(fabric, tmp_path_factory):
    """MetalLB in aws, with its program as the image of its manifest, two Services, and what the inventory has of all that."""
    words = [str(REPO / "tests" / "metallb" / "build-controller"), os.environ.get("MCN_METALLB", "0.13")]
    program, STATE["module"] = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    STATE["image"], objects = manifests()
    fabric.lab("image", STATE["image"], program)
    apply(fabric, "aws", *objects)
    fabric.ran("MetalLB's controller: " + controller(fabric))
    apply(fabric, "aws", own_pool("own", "198.51.100.0/28"), shell())
    for name in PLAN:
        apply(fabric, "aws", workload("Deployment", name, name, replicas=1), service(name, type="LoadBalancer"))
    fabric.kubectl("aws", "wait", "--for=condition=Ready", "pod/shell", "--timeout=300s")
    folder = tmp_path_factory.mktemp("inventory")
    (folder / "hosts.yml").symlink_to(fabric.inventory)
    settings = {"provider": "static", "load_balancer": f"metallb:///{SPACE}?crdConfiguration=true", "pool": [POOL]}
    (folder / "more.yml").write_text(
        yaml.safe_dump({"all": {"children": {"clusters": {"hosts": {"aws": {"load_balancers_settings": settings}}}}}})
    )
    STATE["inventory"] = folder


def test_the_controller_is_a_deployment_and_its_webhook_judges(fabric):
    """The image is the one of MetalLB's manifest, and the API server asks the pod before it stores a pool."""
    deployment = json.loads(fabric.kubectl("aws", "get", "-n", SPACE, "deployment", "controller", "-o", "json"))
    release = pathlib.Path(STATE["module"]).name.rpartition("@")[2]
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "quay.io/metallb/controller:" + release
    assert deployment["status"]["readyReplicas"] == 1
    assert fabric.kubectl("aws", "get", "-n", SPACE, "daemonsets", "-o", "name") == "", "there is no speaker"
    accepted, said = asked(fabric, own_pool("overlapping", "198.51.100.0/29"))
    assert not accepted and "webhook" in said and "overlaps" in said, said


def test_a_service_gets_from_metallb_exactly_the_address_of_our_plan(fabric):
    for name in PLAN:
        assert balanced(fabric, name) == (None, []), "nobody has given it an address yet"
    planned = play(fabric, "--check", "--diff").ok()
    assert all(address in planned.out for address in PLAN.values())
    assert specs(fabric, "ipaddresspools").keys() == {"own"}
    with fabric.witness() as writes:
        play(fabric).ok()
    created = [line for line in owned(writes) if " create " in line and "/ipaddresspools?" in line]
    assert len(created) == len(PLAN), "the witness of the second run sees what the first one writes"
    written = {name: spec["addresses"] for name, spec in specs(fabric, "ipaddresspools").items() if name != "own"}
    assert written == {"default." + name: [address + "/32"] for name, address in PLAN.items()}
    given(fabric, PLAN)
    said = fabric.kubectl("aws", "logs", "-n", SPACE, "deployment/controller")
    assert all('"event":"ipAllocated"' in said and address in said for address in PLAN.values()), (
        "the controller reports it"
    )


def test_the_address_reaches_the_pods_of_the_service(fabric):
    """kube-proxy takes the address from the status that the controller wrote: asked from a pod of the cluster."""
    for name, address in PLAN.items():
        ready(fabric, "aws", "deployment/" + name)
        url = "http://" + address
        eventually(
            lambda url=url: run(fabric, "curl", "-s", "-m", "5", url, check=False),
            lambda text, name=name: text.endswith("has " + name + "\n"),
        )


def test_a_second_run_writes_nothing(fabric):
    before = versions(fabric)
    with fabric.witness() as writes:
        again = play(fabric).ok()
    assert not again.changed and versions(fabric) == before
    assert owned(writes) == []


def test_the_address_stays_when_the_controllers_pod_is_deleted(fabric):
    before, first = versions(fabric), controller(fabric)
    fabric.kubectl("aws", "delete", "pod", "-n", SPACE, first)
    assert controller(fabric) != first
    assert not play(fabric).ok().changed
    given(fabric, PLAN)
    apply(fabric, "aws", service("late", type="LoadBalancer"))
    play(fabric).ok()
    given(fabric, {**PLAN, **LATE})  # the new pod works, and has gone over all Services
    now = versions(fabric)
    for name in PLAN:
        for key in (("/api/v1/namespaces/default/services", name), (GROUP + "/ipaddresspools", "default." + name)):
            assert now[key] == before[key], f"nobody wrote to {key} meanwhile"


def test_absent_takes_our_objects_away_and_nobody_elses(fabric):
    """MetalLB may keep the addresses in the status until its controller starts again (0.13 does): without our pools it gives them to nobody."""
    assert play(fabric, load_balancers_state="absent").ok().changed
    assert {name: spec["addresses"] for name, spec in specs(fabric, "ipaddresspools").items()} == {
        "own": ["198.51.100.0/28"]
    }
    assert specs(fabric, "bgpadvertisements") == {}
    for name in (*PLAN, *LATE):
        assert balanced(fabric, name)[0] is None
    rows = (
        client(fabric, "aws")
        .list("/api/v1/namespaces/kube-system/configmaps", field_selector="metadata.name=metal-ccm-static-pool")
        .items
    )
    assert [key for row in rows for key in row.get("data") or {}] == []
    assert not play(fabric, load_balancers_state="absent").ok().changed
    fabric.kubectl("aws", "delete", "pod", "-n", SPACE, controller(fabric))
    controller(fabric)
    for name in (*PLAN, *LATE):
        eventually(lambda name=name: balanced(fabric, name), lambda found: found == (None, []))


def test_a_network_policy_changes_no_packet_here(fabric):
    """A NetworkPolicy that selects pods is a statement only in this lab (its CNI enforces none): the packets of the mesh still pass."""
    apply(fabric, "gcp", workload("Deployment", "web", "theirs", replicas=1))
    ready(fabric, "gcp", "deployment/web")
    (theirs,) = pods(fabric, "gcp", "web")
    url = f"http://{theirs['status']['podIP']}:8080"
    fabric.play("mesh").ok()
    eventually(
        lambda: run(fabric, "curl", "-s", "-m", "5", url, check=False), lambda text: text.endswith("has theirs\n")
    )
    spec = {"podSelector": {"matchLabels": {"app": "web"}}, "policyTypes": ["Ingress"], "ingress": []}
    apply(
        fabric,
        "gcp",
        {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "nobody"}, "spec": spec},
    )
    assert (
        json.loads(fabric.kubectl("gcp", "get", "networkpolicy", "nobody", "-o", "json"))["spec"]["podSelector"]
        == spec["podSelector"]
    )
    for unused in range(5):
        assert run(fabric, "curl", "-s", "-m", "5", url).endswith("has theirs\n"), (
            "where a CNI enforces it, nobody would get an answer"
        )
