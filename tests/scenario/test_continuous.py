# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fabric that nobody runs by hand: a node has the role reconciler, and changes reach the other cluster. In order.

Bounds are generous, for busy machines; the seconds that it took are printed.
"""

from __future__ import annotations

import base64
import io
import json
import pathlib
import re
import subprocess
import sys
import tarfile
import time

import pytest
import yaml
from harness import REPO
from rotation_lab import keys
from service_lab import make_fluentd, make_pod, remove_pod, until

RECONCILER = "aws-node-1"
MIRROR, NAMESPACE = "aws-sys-log-73736d-fluentd", "sys-semaphore"
PUBKEY, ENDPOINT = "{0}.wireguard.semaphore.uw.io/pubKey", "{0}.wireguard.semaphore.uw.io/endpoint"
FABRIC = {
    "multicluster_capabilities": ["service_mirror"],
    "service_mirror_create_namespace": True,
    "service_mirror_as": "endpoints",
}
HOME = "/opt/multicluster"
STATE = {}


def put(fabric, path, content, mode="0600"):
    """A file into the node that keeps the fabric."""
    folder = fabric.state / "put"
    folder.mkdir(exist_ok=True)
    (folder / "file").write_bytes(content if isinstance(content, bytes) else content.encode())
    done = subprocess.run(
        [
            "ansible",
            "-i",
            str(fabric.inventory),
            RECONCILER,
            "-m",
            "ansible.builtin.copy",
            "-a",
            f"src={folder / 'file'} dest={path} mode={mode}",
        ],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def collection():
    """What a released collection has in it, without tests."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "plugins", "roles", "playbooks", "meta", "galaxy.yml"],
        cwd=REPO,
        capture_output=True,
        check=True,
    )
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as target:
        for name in filter(None, names.stdout.decode().split("\0")):
            if (REPO / name).exists():
                target.add(REPO / name, "ansible_collections/multicluster/network/" + name)
    return archive.getvalue()


def inventory(fabric, variables=None):
    """The lab's inventory as that node needs it: nodes over SSH, API servers where the nodes reach them."""
    tree = yaml.safe_load((fabric.state / "inventory-ssh" / "hosts.yml").read_text())
    groups = tree["all"]["children"]
    key = pathlib.Path(groups["aws_nodes"]["vars"]["ansible_ssh_private_key_file"])
    put(fabric, HOME + "/id", key.read_text())
    put(fabric, HOME + "/known_hosts", (key.parent / "known_hosts").read_text())
    for name, group in groups.items():
        if name == "clusters":
            for cluster, host in group["hosts"].items():
                config = yaml.safe_load(pathlib.Path(host["kubeconfig"]).read_text())
                port = config["clusters"][0]["cluster"]["server"].rpartition(":")[2]
                gateway = re.sub(r"\.0/24$", ".1", host["node_cidrs"][0])
                config["clusters"][0]["cluster"]["server"] = f"https://{gateway}:{port}"
                put(fabric, f"{HOME}/{cluster}.kubeconfig", yaml.safe_dump(config))
                host["kubeconfig"] = f"{HOME}/{cluster}.kubeconfig"
            continue
        group["vars"]["ansible_ssh_private_key_file"] = HOME + "/id"
        # the node is on the underlay itself and needs no way into it
        group["vars"]["ansible_ssh_common_args"] = (
            f"-o UserKnownHostsFile={HOME}/known_hosts -o StrictHostKeyChecking=yes"
        )
        group["vars"]["ansible_control_path_dir"] = HOME + "/cp"
    tree["all"]["vars"] = FABRIC if variables is None else variables
    put(fabric, HOME + "/hosts.yml", yaml.safe_dump(tree))


@pytest.fixture(scope="module", autouse=True)
def ready(fabric):
    fabric.sh(RECONCILER, "mkdir", "-p", HOME)
    put(fabric, HOME + "/collection.tar.gz", collection())
    fabric.sh(RECONCILER, "tar", "-xzf", HOME + "/collection.tar.gz", "-C", HOME)
    inventory(fabric)
    STATE["before"] = fabric.sh(RECONCILER, "sh", "-c", "ls /etc/systemd/system /etc/multicluster 2>/dev/null; true")
    yield


def role(fabric, *arguments, **variables):
    own = {
        "multicluster_reconcilers": RECONCILER,
        "reconciler_inventory": HOME + "/hosts.yml",
        "reconciler_python": sys.executable,
        "reconciler_collections_path": HOME,
        "reconciler_capabilities": ["service_mirror"],
        "reconciler_period": "1h",
        "reconciler_clusters": [{"name": name, "kubeconfig": f"{HOME}/{name}.kubeconfig"} for name in fabric.clusters],
    }
    return fabric.play("reconciler", *arguments, variables=dict(own, **variables))


def measured(fabric, what, condition, seconds=180.0):
    """Wait for something that happens without a hand; returns how long it took."""
    begun = time.monotonic()
    try:
        until(condition, seconds)
    except AssertionError:
        raise AssertionError(f"{what}: not within {seconds} s\n{journal(fabric)}") from None
    took = time.monotonic() - begun
    fabric.ran(f"{what}: {took:.1f} s")
    with (fabric.state / "measured.txt").open("a", encoding="utf-8") as log:
        log.write(f"{what}: {took:.1f} s\n")


def journal(fabric):
    words = [
        "journalctl",
        "--no-pager",
        "-n",
        "150",
        "-u",
        "multicluster-reconciler-default",
        "-u",
        "multicluster-site",
    ]
    return fabric.sh(RECONCILER, *words, check=False)


def said(fabric, text):
    """How often the service that follows the clusters said that, in its own lines and those of its runs."""
    words = f"journalctl --no-pager -o cat -u multicluster-reconciler-default | grep -cF -- '{text}' || true"
    return int(fabric.sh(RECONCILER, "sh", "-c", words).strip() or 0)


def idle(fabric):
    """Wait until no run is under way."""
    until(
        lambda: (
            fabric.sh(RECONCILER, "systemctl", "is-active", "multicluster-site.service", check=False).strip()
            in ("inactive", "failed")
        ),
        180,
    )
    until(
        lambda: (
            not fabric.sh(RECONCILER, "sh", "-c", "pgrep -f '[a]nsible-playbook.*multicluster.network' || true").strip()
        ),
        180,
    )


def peers(fabric, node, device):
    return fabric.wireguard(node).get(device, {}).get("peers", {})


def mirrored(fabric):
    found = json.loads(
        fabric.kubectl("gcp", "-n", NAMESPACE, "get", "endpoints", MIRROR, "--ignore-not-found", "-o", "json") or "{}"
    )
    return sorted(a["ip"] for s in found.get("subsets") or () for a in s.get("addresses") or ())


def other_key(number):
    return base64.b64encode(bytes([number]) * 31 + b"\x40").decode()


def test_check_mode_installs_nothing(fabric):
    role(fabric, "--check").ok()
    assert (
        fabric.sh(RECONCILER, "sh", "-c", "ls /etc/systemd/system /etc/multicluster 2>/dev/null; true")
        == STATE["before"]
    )


def test_the_first_run_comes_by_itself_and_the_second_changes_nothing(fabric):
    role(fabric).ok()
    measured(
        fabric,
        "a fabric from nothing, by the timer",
        lambda: all(
            len(peers(fabric, node, device)) == 2
            for node, device in (("aws-node-2", "wireguard.gcp"), ("gcp-node-1", "wireguard.aws"))
        ),
        300,
    )
    idle(fabric)
    assert not role(fabric).ok().changed
    assert said(fabric, "event=started") == 1


def test_a_service_of_former_names_is_replaced_by_one_run_of_the_role(fabric):
    """As on a host on which the role ran before capabilities got their present names."""
    config = "/etc/multicluster/reconciler-default.json"
    fabric.sh(RECONCILER, "sed", "-i", 's/"service_mirror"/"services"/', config)
    fabric.sh(RECONCILER, "systemctl", "restart", "multicluster-reconciler-default.service")
    until(lambda: said(fabric, "event=started") == 2, 60)
    assert role(fabric).ok().changed
    until(lambda: said(fabric, "event=started") == 3, 60)
    books = [book for row in json.loads(fabric.sh(RECONCILER, "cat", config))["watch"] for book in row["playbooks"]]
    assert set(books) == {"mesh", "service_mirror"} and not role(fabric).ok().changed
    idle(fabric)


def test_a_new_service_and_a_scaled_one(fabric):
    pods = make_fluentd(fabric)
    measured(fabric, "a new service, by an event", lambda: mirrored(fabric) == sorted(pods))
    idle(fabric)
    remove_pod(fabric, "fluentd-b")
    measured(fabric, "a scaled service, by an event", lambda: mirrored(fabric) == [pods[0]])
    idle(fabric)


def test_a_new_node_and_its_new_key(fabric):
    """A node with another agent: it publishes in its own cluster's API."""
    fabric.kubectl("gcp", "create", "-f", write_node(fabric, other_key(7)))
    measured(fabric, "a new node, by an event", lambda: other_key(7) in peers(fabric, "aws-node-2", "wireguard.gcp"))
    idle(fabric)
    fabric.kubectl("gcp", "annotate", "--overwrite", "node", "extra-1", PUBKEY.format("aws") + "=" + other_key(9))
    measured(fabric, "a rotated key, by an event", lambda: other_key(9) in peers(fabric, "aws-node-2", "wireguard.gcp"))
    assert other_key(7) not in peers(fabric, "aws-node-2", "wireguard.gcp")
    idle(fabric)


def write_node(fabric, key):
    path = fabric.state / "extra.json"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "spec": {"podCIDR": "10.4.99.0/24", "podCIDRs": ["10.4.99.0/24"]},
                "metadata": {
                    "name": "extra-1",
                    "annotations": {PUBKEY.format("aws"): key, ENDPOINT.format("aws"): "10.22.22.77:51821"},
                },
            }
        )
    )
    return str(path)


def test_an_api_server_that_was_killed_costs_only_delay(fabric):
    fabric.lab("api-stop", "gcp")
    address = make_pod(fabric, "fluentd-b")
    until(lambda: said(fabric, "part=service_mirror event=failed"), 180)
    assert said(fabric, "cluster gcp: cannot watch")
    fabric.lab("api-start", "gcp")
    measured(fabric, "a change while the other API server was away", lambda: address in mirrored(fabric))
    idle(fabric)
    fabric.kubectl("gcp", "delete", "node", "extra-1")
    measured(
        fabric, "a node that left, after it", lambda: other_key(9) not in peers(fabric, "aws-node-2", "wireguard.gcp")
    )
    idle(fabric)


def test_two_runs_at_once_from_two_machines(fabric):
    """The node runs everything; a person at another machine sees by whom and since when."""
    fabric.sh(RECONCILER, "systemctl", "start", "--no-block", "multicluster-site.service")
    until(
        lambda: "multicluster-run-default" in fabric.kubectl("aws", "-n", "kube-system", "get", "leases", "-o", "name"),
        120,
    )
    run = fabric.play("service_mirror", variables=dict(FABRIC, multicluster_lock="fabric", multicluster_lock_wait=0))
    assert (
        run.rc != 0 and "another run is at work" in run.out and "@" + RECONCILER in run.out and " since " in run.out
    ), run.out
    assert not run.changed
    waited = fabric.play(
        "service_mirror", variables=dict(FABRIC, multicluster_lock="fabric", multicluster_lock_wait=300)
    ).ok()
    assert not waited.changed
    idle(fabric)


def test_by_the_timer_alone(fabric):
    role(fabric, reconciler_follow=False, reconciler_period="2s").ok()
    assert "multicluster-reconciler" not in fabric.sh(RECONCILER, "systemctl", "list-units", "--all", "--plain")
    remove_pod(fabric, "fluentd-a")
    measured(fabric, "a scaled service, by a timer of 2 s", lambda: len(mirrored(fabric)) == 1, 300)


def test_old_keys_change_on_a_timer_of_their_own(fabric):
    """One cluster in a run. A key that is young stays."""
    unit = "multicluster-rotate_keys.service"
    for age, changing in (("90d", 0), ("1s", 1), ("1s", 1)):
        before = keys(fabric)
        role(fabric, reconciler_follow=False, reconciler_period="1h", reconciler_rotate_older_than=age).ok()
        assert f"rotate_older_than={age}" in fabric.sh(RECONCILER, "systemctl", "cat", unit)
        fabric.sh(RECONCILER, "systemctl", "start", unit)
        assert "Result=success" in fabric.sh(RECONCILER, "systemctl", "show", "-p", "Result", unit)
        after = keys(fabric)
        clusters = {node.rpartition("-node-")[0] for node, rows in before.items() if after[node] != rows}
        assert len(clusters) == changing, clusters
    role(fabric, reconciler_follow=False, reconciler_period="1h").ok()
    assert "rotate_keys" not in fabric.sh(RECONCILER, "ls", "/etc/systemd/system")


def test_absent_leaves_nothing(fabric):
    role(fabric, reconciler_state="absent").ok()
    assert not role(fabric, reconciler_state="absent").ok().changed
    left = fabric.sh(RECONCILER, "sh", "-c", "ls /etc/systemd/system /etc/multicluster 2>/dev/null; true")
    assert "reconciler" not in left and "multicluster-site" not in left
    units = fabric.sh(RECONCILER, "systemctl", "list-units", "--all", "--plain")
    assert "multicluster-reconciler" not in units and "multicluster-site.timer" not in units
    until(
        lambda: "multicluster-run" not in fabric.kubectl("aws", "-n", "kube-system", "get", "leases", "-o", "name"), 120
    )
