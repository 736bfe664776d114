# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A mixed fleet of network sets: those in aws by us, those in gcp by the real semaphore-policy, of which we may only read."""

from __future__ import annotations

from ansible_collections.multicluster.network.plugins.module_utils._flows.access import cluster_objects, cluster_token
from ansible_collections.multicluster.network.plugins.module_utils._flows.services import network_sets
from ansible_collections.multicluster.network.plugins.module_utils._plan.access_manifests import access_manifests
from program import Program
from set_kinds import namespace, pod, remove, serve, withdraw
from sets_life import GRANTS, KIND, managers, nets, said, sets, take_pods

NAME = "semaphore-policy"
OWN, THEIRS = "gcp-sys-log-forwarder", "aws-sys-log-collector"


class Mixed:
    """aws is managed; of gcp we hold an account that only reads."""

    def __init__(self, aws, gcp, folder):
        self.aws, self.gcp = aws, gcp
        admin = gcp.access("gcp")
        made = {"fabric": "t", "clusters": [admin], "objects": access_manifests(["network_sets_read"])}
        assert not cluster_objects.run(made)["failures"]
        request = {
            "fabric": "t",
            "clusters": [admin],
            "service_account": "multicluster-network-sets-read",
            "namespace": "kube-system",
            "path": str(folder / "gcp-read"),
            "expires": 3600,
            "renew_before": 60,
            "state": "present",
        }
        assert not cluster_token.run(request)["failures"]
        self.entries = [aws.access("aws"), {"name": "gcp", "kubeconfig": str(folder / "gcp-read")}]

    def owned(self, **more):
        """A run; nothing that exists in gcp may have another version afterwards."""
        before = self.versions()
        request = {
            "fabric": "t",
            "clusters": self.entries,
            "grants": GRANTS,
            "sources": ["gcp"],
            "targets": ["aws"],
            "timeout": 20,
        }
        result = network_sets.run(dict(request, **more))
        assert self.versions() == before, "our run wrote in the neighbour"
        return result

    def follow(self):
        """A run that changes something; then one that does not."""
        result = self.owned()
        assert result["changed"] and not result["failures"] and not result["refused"], result
        assert not self.owned()["changed"]

    def versions(self):
        client = self.gcp.client()
        found = [*sets(self.gcp), *client.list("/api/v1/pods").items, *client.list("/api/v1/namespaces").items]
        return {
            (obj["metadata"].get("namespace"), obj["metadata"]["name"]): obj["metadata"]["resourceVersion"]
            for obj in found
        }


def test_alongside_each_other(original, server, second, tmp_path):
    program = Program(original(NAME), tmp_path / "program", {"aws": server, "gcp": second})
    for one in (server, second):
        serve(one.client(), KIND)
        namespace(one.client(), "sys-log")
    arguments = [
        "-local-kube-config",
        program.kubeconfig("gcp"),
        "-target-kube-config",
        program.kubeconfig("aws"),
        "-target-cluster-name",
        "aws",
    ]
    program.start(*arguments)
    try:
        alongside(Mixed(server, second, tmp_path), program)
    finally:
        program.stop()
        for one in (server, second):
            take_pods(one)
            withdraw(one.client(), KIND)


def alongside(two, program):
    """Join, pods that come, move and go on either side, a source that is away, leave."""
    aws, gcp = two.aws.client(), two.gcp.client()

    def theirs(*addresses):
        desired = [f"{address}/32" for address in addresses]
        program.until(f"its set {desired}", lambda: THEIRS in said(sets(two.gcp)) and nets(two.gcp, THEIRS) == desired)

    # join: each side has the other's
    pod(aws, "sys-log", "collector-1", "collector", "10.2.1.3")
    pod(gcp, "sys-log", "forwarder-1", "forwarder", "10.4.1.3")
    theirs("10.2.1.3")
    two.follow()
    assert (
        set(said(sets(two.aws))) == {OWN}
        and nets(two.aws, OWN) == ["10.4.1.3/32"]
        and set(said(sets(two.gcp))) == {THEIRS}
    )
    # one more
    pod(aws, "sys-log", "collector-2", "collector", "10.2.4.2")
    pod(gcp, "sys-log", "forwarder-2", "forwarder", "10.4.4.2")
    theirs("10.2.1.3", "10.2.4.2")
    two.follow()
    assert nets(two.aws, OWN) == ["10.4.1.3/32", "10.4.4.2/32"]
    # another address
    for client, name, address in ((aws, "collector-2", "10.2.4.9"), (gcp, "forwarder-2", "10.4.4.9")):
        status = {"status": {"podIP": address, "podIPs": [{"ip": address}]}}
        client.merge_patch(f"/api/v1/namespaces/sys-log/pods/{name}/status", status, "kubelet")
    theirs("10.2.1.3", "10.2.4.9")
    two.follow()
    assert nets(two.aws, OWN) == ["10.4.1.3/32", "10.4.4.9/32"]
    # its API server is away: what there is stays
    away = [two.entries[0], dict(two.entries[1], kubeconfig=None, api_url="https://127.0.0.1:1", token="x" * 20)]
    result = two.owned(clusters=away)
    assert (
        [row["cluster"] for row in result["failures"]] == ["gcp"]
        and not result["changed"]
        and nets(two.aws, OWN) == ["10.4.1.3/32", "10.4.4.9/32"]
    )
    # one less
    remove(aws, "sys-log", "collector-1")
    remove(gcp, "sys-log", "forwarder-1")
    theirs("10.2.4.9")
    two.follow()
    assert nets(two.aws, OWN) == ["10.4.4.9/32"]
    # leave: owned ones go, theirs stay and are followed
    assert not [obj for obj in sets(two.gcp) if "multicluster.network/t" in managers(obj)]
    assert two.owned(state="absent")["plan"]["delete"] == 1 and sets(two.aws) == []
    pod(aws, "sys-log", "collector-3", "collector", "10.2.4.7")
    theirs("10.2.4.7", "10.2.4.9")
