# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A mixed fleet of Kilo: real agents on every node, the Peers of eu by us, those of us by their own people; its API server we may only read.

Join, a key rotated on either side, a node added, an API server that is away, leave. Both sides follow, and nothing of theirs is written.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "kilo"))

from agents import LATE, G, KiloFabric

ACROSS = [("eu-1-pod-1", "us-2-pod-1"), ("us-1-pod-1", "eu-2-pod-1")]
#: As the guide has it: Peers are written into eu alone.
GIVEN = {"clustermesh_kilo_endpoints": "any", "clustermesh_fabric": "t", "clustermesh_targets": ["eu"]}
KEY = "/var/lib/kilo/key"
#: The rights that the guide names for a neighbour, and no more.
READER = "kilo-reader"


class MixedFabric(KiloFabric):
    """``us`` is another's: we hold an account that lists nodes and Peers there."""

    mark = 0

    @property
    def mixed(self):
        return self.state / "mixed.yml"

    def write_inventory(self):
        """That of the lab, with the account that only reads for us."""
        rules = [
            {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]},
            {"apiGroups": ["kilo.squat.ai"], "resources": ["peers"], "verbs": ["get", "list"]},
        ]
        subject = {"kind": "ServiceAccount", "name": READER, "namespace": "default"}
        rbac = "rbac.authorization.k8s.io"
        objects = [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": READER, "namespace": "default"}},
            {"apiVersion": rbac + "/v1", "kind": "ClusterRole", "metadata": {"name": READER}, "rules": rules},
            {
                "apiVersion": rbac + "/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": READER},
                "subjects": [subject],
                "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": READER},
            },
        ]
        self.apply("us", *objects)
        request = self.state / "token.json"
        request.write_text(
            json.dumps(
                {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 86400}}
            )
        )
        asked = f"/api/v1/namespaces/default/serviceaccounts/{READER}/token"
        token = json.loads(self.kubectl("us", "create", "--raw", asked, "-f", str(request)))["status"]["token"]
        access = yaml.safe_load((self.state / "us" / "kubeconfig").read_text())
        access["users"] = [{"name": access["users"][0]["name"], "user": {"token": token}}]
        account = self.state / "us-reader.kubeconfig"
        account.write_text(yaml.safe_dump(access))
        whole = yaml.safe_load(self.inventory.read_text())
        whole["all"]["children"]["clusters"]["hosts"]["us"]["kubeconfig"] = str(account)
        self.mixed.write_text(yaml.safe_dump(whole))
        self.mark = self._audit("us").stat().st_size

    def apply(self, cluster, *objects):
        """By hand, as their own people do."""
        file = self.state / "by-hand.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
        self.kubectl(cluster, "apply", "-f", str(file))

    def owned(self, book="clustermesh", **more):
        return self.play(book, inventory=self.mixed, variables=dict(GIVEN, **more))

    def theirs(self):
        """What their people write into us: a Peer for each node of eu that has announced itself."""
        desired = {}
        for node in self.nodes:
            notes = self.notes(node)
            if self.cluster_of(node) != "eu" or not notes.get("key"):
                continue
            ranges = json.loads(self.kubectl("eu", "get", "node", node, "-o", "json"))["spec"]["podCIDRs"]
            address, dummy, port = notes["endpoint"].rpartition(":")
            allowed = [*ranges, notes["wireguard-ip"].partition("/")[0] + "/32"]
            spec = {
                "allowedIPs": allowed,
                "publicKey": notes["key"],
                "endpoint": {"dnsOrIP": {"ip": address}, "port": int(port)},
            }
            desired["by-hand-" + node] = {
                "apiVersion": "kilo.squat.ai/v1alpha1",
                "kind": "Peer",
                "metadata": {"name": "by-hand-" + node},
                "spec": spec,
            }
        self.apply("us", *desired.values())

    def asked_of_the_neighbour(self):
        """(verb, path, status) of everything that our account asked of us."""
        found = []
        with self._audit("us").open(encoding="utf-8") as log:
            log.seek(self.mark)
            for entry in map(json.loads, log):
                if entry["user"]["username"] == "system:serviceaccount:default:" + READER:
                    found.append(
                        (entry["verb"], entry["requestURI"].partition("?")[0], entry["responseStatus"]["code"])
                    )
        return found

    def key_of(self, node):
        return self.notes(node)["key"]

    def rotate(self, node):
        """A new key of a node: Kilo's agent makes one where there is none."""
        old = self.key_of(node)
        self.stop_agent(node)
        self.sh(node, "rm", KEY)
        self.start_agent(node)
        self.until("a new key of " + node, lambda: self.notes(node).get("key") not in (None, "", old))

    def known(self, without=LATE):
        """Every agent has the keys of all nodes of the other cluster, and of none that is gone."""

        def there():
            keys = {node: self.notes(node).get("key") for node in self.nodes if node != without}
            return all(self.keys_in(node) == set(keys.values()) - {keys[node]} for node in keys)

        self.until("all keys, and no other, are on all nodes", there)
        self.joined(without)


@pytest.fixture(scope="module")
def fabric(original):
    made = MixedFabric(os.environ.get("MCN_LAB_PREFIX", "") + "kilo-mixed", "full", (original("kg"), original("kgctl")))
    made.lab("down")
    made.lab("up", "--topology", made.topology)
    try:
        made.begin()
        made.write_inventory()
        yield made
    finally:
        made.keep_logs()
        made.lab("down")


def test_join(fabric):
    fabric.apart()
    fabric.theirs()
    fabric.owned().ok()
    fabric.known()
    assert set(fabric.peers("eu")) == {"t--us--us-1", "t--us--us-2"} and set(fabric.peers("us")) == {
        "by-hand-eu-1",
        "by-hand-eu-2",
    }
    assert not fabric.owned().ok().changed


def test_kgctl_shows_what_the_nodes_have(fabric):
    for node in ("eu-1", "us-1"):
        kubeconfig = str(fabric.state / fabric.cluster_of(node) / "kubeconfig")
        words = [str(fabric.kgctl), "showconf", "node", node, "--kubeconfig", kubeconfig, "--mesh-granularity=full"]
        shown = subprocess.run(words, capture_output=True, text=True, check=False)
        assert shown.returncode == 0, shown.stderr
        keys = {line.partition(" = ")[2].strip() for line in shown.stdout.splitlines() if line.startswith("PublicKey")}
        assert keys == fabric.keys_in(node)


@pytest.mark.parametrize("node", ["eu-1", "us-1"])
def test_a_key_rotated_on_either_side(fabric, node):
    fabric.rotate(node)
    fabric.theirs()
    fabric.owned().ok()
    fabric.known()


def test_a_node_is_added_on_our_side(fabric):
    fabric.start_agent(LATE)
    fabric.settled()
    fabric.theirs()
    fabric.owned().ok()
    fabric.known(without="")


def test_a_node_goes_on_their_side_and_comes_back(fabric):
    key = fabric.key_of("us-2")
    fabric.stop_agent("us-2")
    fabric.kubectl("us", "delete", "node", "us-2")
    fabric.owned().ok()
    for node in ("eu-0", "eu-1", "eu-2"):
        fabric.until("us-2 has left " + node, lambda node=node: key not in fabric.keys_in(node))
    fabric.lab("up", "--topology", fabric.topology)  # the Node again, as its kubelet would say
    fabric.start_agent("us-2")
    fabric.settled()
    fabric.theirs()
    fabric.owned().ok()
    fabric.known(without="")


def test_their_api_server_is_away(fabric):
    before = {name: peer["spec"] for name, peer in fabric.peers("eu").items()}
    fabric.lab("api-stop", "us")
    try:
        run = fabric.owned()
        assert (
            run.rc != 0
            and "us" in run.out
            and {name: peer["spec"] for name, peer in fabric.peers("eu").items()} == before
        )
        assert fabric.rows(True, "")[0]
    finally:
        fabric.lab("api-start", "us")
    assert not fabric.owned().ok().changed
    fabric.known(without="")


def test_nothing_of_theirs_was_written(fabric):
    asked = fabric.asked_of_the_neighbour()
    assert asked and {verb for verb, dummy, dummy in asked} <= {"get", "list"}, asked
    for peer in fabric.peers("us").values():
        assert not [
            row["manager"]
            for row in peer["metadata"].get("managedFields") or ()
            if row["manager"].startswith("multicluster.network/")
        ]
    for node in ("us-1", "us-2"):
        assert not [
            key
            for key in fabric.annotations("us", node)
            if key in (G + "persistent-keepalive", G + "force-internal-ip")
        ]


def test_leave(fabric):
    theirs = {name: peer["spec"] for name, peer in fabric.peers("us").items()}
    fabric.owned("kilo.teardown").ok()
    assert fabric.peers("eu") == {} and {name: peer["spec"] for name, peer in fabric.peers("us").items()} == theirs
    fabric.until("no pod answers across clusters", lambda: fabric.rows(True, "")[1])
    test_nothing_of_theirs_was_written(fabric)
