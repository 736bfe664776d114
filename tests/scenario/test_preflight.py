# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight finds everything that was planted in one run and writes nothing; the bundle and the page give no secret away.

In this order: a fleet that never had a mesh, with everything wrong at once; the same, put right; a bundle of the mesh that followed.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import tarfile

import yaml
from service_lab import client
from test_kubespan import MESH

TOPOLOGY = "dual"
STATE = {}
WATCHER = "multicluster-network-default-watch.service"
BGP_PASSWORD = "s3cret-of-the-router"
TOKEN = "planted-token-0123456789abcdef"
UNOWNED_KEY = "QK7pTL4V0WNlyx8ZDN5CIXoXqfu6h3nwXdlQVYgHFmM="
DAEMON_SET = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "old-mesh", "namespace": "kube-system"},
    "spec": {
        "selector": {"matchLabels": {"app": "old-mesh"}},
        "template": {
            "metadata": {"labels": {"app": "old-mesh"}},
            "spec": {
                "nodeSelector": {"none": "such"},
                "containers": [{"name": "c", "image": "quay.io/utilitywarehouse/semaphore-wireguard:v1"}],
            },
        },
    },
}
#: A clock that is two minutes ahead, for every Python of a node.
CLOCK = "import time\n_was = time.time\ntime.time = lambda: _was() + 120\n"


def preflight(fabric, inventory=None, **variables):
    file = fabric.state / "findings.json"
    file.unlink(missing_ok=True)
    run = fabric.play("preflight", inventory=inventory, variables=dict(MESH, preflight_file=str(file), **variables))
    return run, json.loads(file.read_text()) if file.exists() else None


def plant(fabric):
    """Each condition, on some node: {reason: where}."""
    one, two, three, four = fabric.nodes
    fabric.sh(one, "ip", "link", "set", "eth0", "mtu", "1400")
    fabric.sh(
        one,
        "sh",
        "-c",
        'cd /usr/lib/python3/dist-packages; printf %s "$0" > mcn_clock.py; echo import mcn_clock > mcn_clock.pth',
        CLOCK,
    )
    fabric.sh(
        two,
        "systemd-run",
        "--quiet",
        "--unit=taker",
        "/usr/bin/python3",
        "-c",
        "import socket,time; s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.bind(('',51820)); time.sleep(9999)",
    )
    for node in (one, two):
        fabric.sh(node, "ip", "address", "add", "10.66.23.77/32", "dev", "lo")
    fabric.sh(three, "ip", "address", "add", "10.2.99.1/24", "dev", "lo")
    fabric.sh(three, "ip", "rule", "add", "fwmark", "0x40/0x40", "lookup", "77")
    fabric.sh(three, "ip", "route", "add", "default", "dev", "eth0", "table", "180")
    fabric.sh(four, "ip", "route", "add", "10.2.3.0/25", "dev", "eth0")
    fabric.sh(four, "nft", "add", "table", "inet", "talos_kubespan")
    for node in (two, four):
        fabric.sh(
            node,
            "sh",
            "-c",
            "wireguard-go wg-old >/dev/null 2>&1 </dev/null; echo $0 | wg set wg-old private-key /dev/stdin",
            UNOWNED_KEY,
        )
    client(fabric, "gcp").create("/apis/apps/v1/namespaces/kube-system/daemonsets", DAEMON_SET, "test")
    return {
        "mtu_too_small": one,
        "clock_skew": one,
        "port_taken": two,
        "range_in_use": three,
        "table_taken": three,
        "mark_taken": three,
        "route_taken": four,
        "adoptable": four,
        "foreign_manager": "gcp",
        "key_twice": two,
        "address_twice": one,
        "pod_subnet_overlap": "clusters/",
        "no_answer": "lost-node",
        "unreachable": "lost",
    }


def unplant(fabric):
    one, two, three, four = fabric.nodes
    for node, command in (
        (
            one,
            "ip link set eth0 mtu 1500; rm /usr/lib/python3/dist-packages/mcn_clock*; ip address del 10.66.23.77/32 dev lo",
        ),
        (two, "systemctl stop taker; ip address del 10.66.23.77/32 dev lo; ip link del wg-old"),
        (three, "ip address del 10.2.99.1/24 dev lo; ip rule del fwmark 0x40/0x40; ip route del default table 180"),
        (four, "ip route del 10.2.3.0/25; nft delete table inet talos_kubespan; ip link del wg-old"),
    ):
        fabric.sh(node, "sh", "-c", command)
    fabric.kubectl("gcp", "-n", "kube-system", "delete", "daemonset", "old-mesh")


def test_everything_that_was_planted_is_found_in_one_run_and_nothing_is_written(fabric):
    desired = plant(fabric)
    tree = yaml.safe_load(fabric.inventory.read_text())
    children = tree["all"]["children"]
    children["clusters"]["hosts"]["gcp"]["pod_cidrs"] += ["10.2.128.0/17"]
    children["clusters"]["hosts"]["lost"] = {
        "api_url": "https://127.0.0.1:1",
        "token": TOKEN,
        "pod_cidrs": ["10.8.0.0/16"],
    }
    children["lost_nodes"] = {
        "vars": {"multicluster_cluster": "lost"},
        "hosts": {"lost-node": {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}},
    }
    inventory = fabric.state / "wrong.yml"
    inventory.write_text(yaml.safe_dump(tree))
    before = fabric.everything()
    with fabric.witness() as writes:
        run, found = preflight(fabric, inventory)
    assert run.rc != 0 and not writes and fabric.everything() == before
    missing = [
        (reason, where)
        for reason, where in desired.items()
        if not [row for row in found if row["reason"] == reason and where in row["where"]]
    ]
    assert not missing, "\n".join(map(str, missing + found))
    assert TOKEN not in run.out and MESH["mesh_secret"] not in run.out


def test_put_right_there_is_no_error_and_the_first_run_works(fabric):
    unplant(fabric)
    with fabric.witness() as writes:
        run, found = preflight(fabric)
    assert run.ok() and not writes
    assert [row for row in found if row["level"] == "error"] == []
    fabric.play("site", variables=MESH).ok()
    run, found = preflight(fabric)
    # one node of every lab drops by policy and accepts by rules of its own, which preflight does not judge: it names the chain
    assert run.ok() and [(row["where"], row["reason"]) for row in found] == [("aws-node-2", "forward_policy_drop")]


def spelled(secret):
    raw = secret.encode()
    ways = {
        secret,
        raw.hex(),
        raw.hex().upper(),
        base64.b64encode(raw).decode().rstrip("="),
        base64.urlsafe_b64encode(raw).decode().rstrip("="),
    }
    try:
        inner = base64.b64decode(secret, validate=True)
    except ValueError:
        return ways
    return ways | {inner.hex(), inner.hex().upper()}


def test_the_bundle_and_the_page_give_no_secret_away(fabric):
    config = yaml.safe_load((fabric.state / "aws" / "kubeconfig").read_text())["users"][0]["user"]
    secrets = {
        MESH["mesh_secret"],
        TOKEN,
        BGP_PASSWORD,
        *(value for name, value in config.items() if name in ("token", "client-key-data", "password")),
    }
    for node in fabric.nodes:
        secrets |= set(
            fabric.sh(
                node, "sh", "-c", "find /var/lib -name '*.key' -path '*multicluster*' -exec cat {} + ; true"
            ).split()
        )
        secrets |= {line.split("\t")[1] for line in fabric.sh(node, "wg", "show", "all", "private-key").splitlines()}
        secrets |= {
            key
            for line in fabric.sh(node, "wg", "show", "all", "preshared-keys").splitlines()
            for key in line.split("\t")[2:]
            if key != "(none)"
        }
    assert len(secrets) >= 6
    # where a secret may end up without anybody's intent
    note = f"Bearer {TOKEN} and {base64.b64encode(BGP_PASSWORD.encode()).decode()}"
    fabric.annotate("aws", "aws-node-1", **{"example.org__note": note, "networking.talos.dev__self-ips": TOKEN})
    fabric.sh(
        "aws-node-1",
        "sh",
        "-c",
        "mkdir -p /run/systemd/system/$0.d; printf '[Service]\\nExecStartPost=/bin/echo psk=%s\\n' \"$1\" "
        "> /run/systemd/system/$0.d/x.conf; systemctl daemon-reload; systemctl restart $0",
        WATCHER,
        MESH["mesh_secret"],
    )
    folder = fabric.state / "bundle"
    path = folder / "support.tar.gz"
    more = {
        "status_folder": str(folder),
        "support_bundle_path": str(path),
        "bgp_speaker_password": BGP_PASSWORD,
        "support_bundle_secrets": [TOKEN],
        "cloud": {"api_key": TOKEN},
    }
    run = fabric.play("support_bundle", variables=dict(MESH, **more)).ok()
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(path.read_bytes()))) as archive:
        members = {
            entry.name.partition("/")[2]: archive.extractfile(entry).read().decode() for entry in archive.getmembers()
        }
    assert {
        "README.txt",
        "status.json",
        "status.html",
        "status.prom",
        "plans.json",
        "inventory.json",
        "versions.json",
    } <= set(members)
    journal = json.loads(members["nodes/aws-node-1.json"])["journal"]
    assert any("echo" in line for line in journal), "the secret never stood in the journal, so nothing is proven"
    for name, text in [
        *members.items(),
        *((file.name, file.read_text()) for file in folder.iterdir() if file.suffix != ".gz"),
        ("output", run.out),
    ]:
        for secret in secrets:
            found = [way for way in spelled(secret) if way in text]
            assert not found, f"{name} has {found}"
    # and it is still of use
    assert (
        json.loads(members["nodes/aws-node-1.json"])["devices"][0]["public_key"]
        == fabric.wireguard("aws-node-1")["kubespan"]["public_key"]
    )
    assert "10.66.23.31" in members["inventory.json"] or "10.66.23" in members["inventory.json"]
