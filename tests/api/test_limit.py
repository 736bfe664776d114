# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""``--limit`` limits (decision 68): no playbook writes an API server that the limit does not name. The audit logs say what was written.

Every playbook, over two real API servers that have something to write for every capability. What a run without the limit writes is asserted
too, so that an idle playbook proves nothing. MCN_FULL=1 runs those that only read as well.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import uuid

import pytest
import yaml
from mcs_clusters import other, pair  # pylint: disable=unused-import
from mirror_clusters import endpoints, service
from set_kinds import LABEL as SET, serve, withdraw
from test_mcs_playbooks import fabric  # pylint: disable=unused-import

__all__ = ["fabric", "other", "pair"]
PLAYBOOKS = pathlib.Path(__file__).resolve().parents[2] / "playbooks"
WEB = ("shop", "web")
CAPABILITIES = ["service_mirror", "mcs", "coredns_rewrite", "network_sets", "load_balancers"]
#: Where a cluster holds what capabilities write.
KINDS = (
    "/api/v1/services",
    "/api/v1/endpoints",
    "/apis/discovery.k8s.io/v1beta1/endpointslices",
    "/apis/discovery.k8s.io/v1/endpointslices",
    "/apis/multicluster.x-k8s.io/v1beta1/serviceimports",
    "/apis/crd.projectcalico.org/v1/globalnetworksets",
)
#: They have no fabric to be limited to: AWX's own objects, and a host that keeps a fabric.
ELSEWHERE = {"awx.load", "awx.survey", "reconciler"}
#: They take away or give up what the others made.
ENDS = ("semaphore.release", "leave", "teardown", "kilo.teardown", "tenant.teardown")
READS = {
    "validate",
    "verify",
    "status",
    "preflight",
    "support_bundle",
    "trace",
    "slices.plan",
    "slices.verify",
    "slices.end",
    "kilo.migrate",
}
#: Folders of what playbooks are made of.
PARTS = ("plays", "vars", "files")
BOOKS = sorted(
    ".".join(path.relative_to(PLAYBOOKS).with_suffix("").parts)
    for path in PLAYBOOKS.rglob("*.yml")
    if path.relative_to(PLAYBOOKS).parts[0] not in PARTS
)
LAST = ("adopt", "site")  # which do what the others do, too
COMES = [
    name
    for name in sorted(BOOKS, key=lambda name: (name in LAST, name))
    if name not in {*ELSEWHERE, *ENDS, *READS} and not name.startswith("awx.")
]
#: ``make test`` runs those that write most of what a fabric has, `tests/run limit_full` all of them.
QUICK = {*CAPABILITIES, "tenants", "site", "leave", "teardown"}
FULL = "MCN_FULL" in os.environ
ARGUMENTS = {
    "adopt": ("-e", "adopt_step=take"),
    "tenants": ("-e", "tenants_source=aws", "-e", "tenants_apinet=gcp"),
    "tenant.teardown": ("-e", "tenants_source=aws", "-e", "tenants_apinet=gcp", "-e", "tenants_watch_namespace=shop"),
    "leave": ("-e", "cluster=aws"),
}


def play(folder, book, *arguments):
    """(exit code, everything that was printed). Whether a book can do its work here is another test's matter."""
    environment = dict(
        os.environ, ANSIBLE_NOCOWS="1", ANSIBLE_LOCALHOST_WARNING="0", ANSIBLE_HOME=str(folder / "ansible")
    )
    environment.setdefault("ANSIBLE_COLLECTIONS_PATH", environment.get("PYTHONPATH", ""))
    environment["PATH"] = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    command = [
        "ansible-playbook",
        "-i",
        str(folder / "hosts.yml"),
        "-e",
        "ansible_python_interpreter=" + sys.executable,
    ]
    done = subprocess.run(
        [*command, str(PLAYBOOKS / (book.replace(".", "/") + ".yml")), *arguments],
        env=environment,
        cwd=str(folder),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def whole(pair, fabric):
    """An inventory of both clusters, in which every capability has something to write in each of them."""
    tree, named = (
        yaml.safe_load((fabric / "hosts.yml").read_text()),
        "p-" + uuid.uuid4().hex[:8],
    )  # no kubelet ends a pod of an earlier test
    tree["all"]["vars"].update(
        multicluster_capabilities=CAPABILITIES, service_mirror_create_namespace=True, multicluster_lock="none"
    )
    hosts = tree["all"]["children"]["clusters"]["hosts"]
    for number, (name, server) in enumerate(sorted(pair.servers.items())):
        hosts[name]["load_balancers_settings"] = {"load_balancer": "empty://", "pool": [f"203.0.113.{8 * number}/30"]}
        client, address = server.client(), f"10.{2 + 2 * number}.3.1"
        serve(client, "calico")
        pair.export(name, WEB, address)
        pair.put(name, service("shop", "mirrored"), endpoints("shop", "mirrored", address))
        balancer = service("shop", "balanced", labels={})
        pair.put(name, dict(balancer, spec=dict(balancer["spec"], type="LoadBalancer")))
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": named, "namespace": "shop", "labels": {SET: "web"}},
            "spec": {
                "nodeName": "n",
                "automountServiceAccountToken": False,
                "containers": [{"name": "c", "image": "i"}],
            },
        }
        client.create("/api/v1/namespaces/shop/pods", pod, "k")
        status = {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        client.merge_patch("/api/v1/namespaces/shop/pods/" + named + "/status", {"status": status}, "k")
    (fabric / "hosts.yml").write_text(yaml.safe_dump(tree))
    yield fabric
    for server in pair.servers.values():
        client = server.client()
        withdraw(client, "calico")
        for kind, name in (
            ("pods", named),
            ("services", "mirrored"),
            ("services", "balanced"),
            ("endpoints", "mirrored"),
        ):
            client.delete(f"/api/v1/namespaces/shop/{kind}/{name}")


def limited(pair, folder, book):
    """Run a book limited to aws; gcp is asked and never written. Returns how many writes aws had."""
    mark = pair.mark()
    code, out = play(folder, book, "--limit", "aws", *ARGUMENTS.get(book, ()))
    writes = pair.writes(mark)
    assert writes["gcp"] == [], (book, writes["gcp"], out[-3000:])
    return len(writes["aws"]), code, out


def test_no_playbook_writes_outside_of_its_limit(pair, whole):
    made = {book: limited(pair, whole, book) for book in COMES if FULL or book in QUICK}
    for book in ("service_mirror", "mcs", "coredns_rewrite", "network_sets", "load_balancers"):
        assert made[book][0], (book, made[book][2][-3000:])
        assert "outside --limit, so nothing was written there: clusters gcp" in " ".join(made[book][2].split()), (
            book,
            made[book][2][-3000:],
        )
    assert made["tenants"][1] and "--limit leaves out gcp" in " ".join(made["tenants"][2].split()), made["tenants"][2][
        -3000:
    ]

    # the same without the limit writes there, so all of them had something to write
    mark = pair.mark()
    shown = play(whole, "site")[1]
    paths = " ".join(path for dummy, path, dummy_too in pair.writes(mark)["gcp"])
    for part in (
        "sys-semaphore/services",
        "serviceimports",
        "configmaps/coredns",
        "globalnetworksets",
        "services/balanced",
    ):
        assert part in paths, (part, paths, shown[:3000])

    for book in [name for name in ENDS if FULL or name in QUICK]:
        if book == "teardown":
            play(whole, "site")  # what left comes back
        found = limited(pair, whole, book)
        assert found[0] or book.startswith(("clustermesh", "kilo", "tenant")), (book, found[2][-3000:])
    mark = pair.mark()
    play(whole, "teardown")
    assert len(pair.writes(mark)["gcp"]) >= 4, "what the limit spared was still there"


@pytest.mark.skipif(not FULL, reason="NOT RUN: playbooks that only read, with MCN_FULL=1")
@pytest.mark.parametrize("book", sorted(READS))
def test_what_reads_writes_nothing(pair, whole, book):
    mark = pair.mark()
    play(whole, book, "--limit", "aws")
    assert pair.writes(mark) == {"aws": [], "gcp": []}
